"""HBase's own tools, which the command `hbase` runs by the names of their classes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simhbase.errors import StoreFailed, UsageError

VARIABLE = "SIMHBASE_HBASE_COMMAND"
IMPORT = "org.apache.hadoop.hbase.mapreduce.Import"
BULK_LOAD = "org.apache.hadoop.hbase.tool.BulkLoadHFilesTool"
COUNT = "org.apache.hadoop.hbase.mapreduce.RowCounter"
FILES = "org.apache.hadoop.fs.FsShell"
VERSION = "org.apache.hadoop.hbase.util.VersionInfo"
LEAST_VERSION, TRIED_VERSIONS = (2, 2), 2  # BulkLoadHFilesTool is new in 2.2; nobody has tried 3
# Of what does little Java's better compiler takes half of the processor time. Counting 3M rows without it
# takes 1.3 times as long.
_JAVA_OPTIONS, _COMPILED_QUICKLY = "JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1"
STOP_SECONDS = 10.0  # that a tool has to end in when it is interrupted
_LOOKED_AT = 1.0  # seconds between signs of life while a tool runs
_SHOWN_LINES, _SHOWN_CHARACTERS = 4, 300
_TELLING = re.compile(r"\bERROR\b|\bFATAL\b|^Caused by: |^Exception in thread |^[\w.$]+(?:Exception|Error)\b")


class ToolFailed(StoreFailed):
    """A tool of HBase ended with an error."""


@dataclass(frozen=True)
class Tools:
    """Runs tools one after the other.

    command: what runs a class, with its first arguments; logs: a folder for what each prints, by a name;
    alive: is called every second while one runs.
    """

    command: Sequence[str]
    logs: Path
    alive: Callable[[], object]

    def run(self, doing: str, name: str, *arguments: str, does_little: bool = False) -> str:
        """What a tool prints. doing: what it is good for, for messages; name: of its log, where one of the
        same name is replaced; arguments: its class first; does_little: where starting it is most of its work.

        Raises ToolFailed where it ends with an error, UsageError where there is no such command. It is
        stopped where anything is raised meanwhile, Ctrl-C as well.
        """
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(
                    [*self.command, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=_compiling_quickly() if does_little else None,
                    start_new_session=True,  # so that Ctrl-C is for us alone, and all of it can be stopped
                )
            except OSError as error:
                raise UsageError(
                    f"cannot run {shlex.join(self.command)}: {error.strerror}. Name HBase's command, "
                    f"with arguments if it has any, in {VARIABLE}"
                ) from error
            code = self._ended(process)
        printed = log.read_text("utf-8", "replace")
        if code != 0:
            shown = "".join(f"\n  {line[:_SHOWN_CHARACTERS]}" for line in _telling_lines(printed))
            raise ToolFailed(f"{doing} failed ({arguments[0]} ended with {code}). {log} says:{shown}")
        return printed

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_LOOKED_AT)
                self.alive()
        except BaseException:
            _stop(process)
            raise

    def version(self) -> tuple[int, ...]:
        """That of HBase, as (2, 6, 1). Raises ToolFailed, UsageError."""
        printed = self.run("asking HBase's command for its version", "version", VERSION, does_little=True)
        found = re.search(r"^.*\bHBase (\d+)\.(\d+)\.(\d+)", printed, re.MULTILINE)
        if not found:
            raise UsageError(
                f"{shlex.join(self.command)} does not say which version of HBase it is: name HBase's command "
                f"in {VARIABLE}. It said: {printed[:_SHOWN_CHARACTERS].strip() or 'nothing'}"
            )
        return tuple(map(int, found.groups()))


def hbase_command() -> Sequence[str]:
    """HBase's command: that of SIMHBASE_HBASE_COMMAND, with arguments if it has any, or hbase on the PATH.
    Raises UsageError where there is none."""
    named = os.environ.get(VARIABLE, "hbase")
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"{VARIABLE}={named} is no command: {error}") from error
    if not command or shutil.which(command[0]) is None:
        raise UsageError(
            f"no command {named!r}: HBase's own tools make HFiles. Install HBase, with the "
            "configuration of its cluster, on this machine, and add its folder bin to PATH, or name its "
            f"hbase in {VARIABLE}"
        )
    return command


def _compiling_quickly() -> dict[str, str]:
    """This process's environment, with what it says to Java itself behind that: the later one counts."""
    said = os.environ.get(_JAVA_OPTIONS, "")
    return {**os.environ, _JAVA_OPTIONS: f"{_COMPILED_QUICKLY} {said}".strip()}


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
            return


def _telling_lines(printed: str) -> list[str]:
    """The last different lines that name an error, or the last of all where none does."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    telling = list(dict.fromkeys(filter(_TELLING.search, lines)))
    return (telling or lines or ["nothing"])[-_SHOWN_LINES:]
