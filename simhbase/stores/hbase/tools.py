"""HBase's own tools, run in one Java process, as starting Java takes longer than the tools.

The command `hbase` runs org.jruby.Main (the Ruby of HBase's shell) on a script that executes its input line
by line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from simhbase.errors import StoreFailed, UsageError

VARIABLE, HOME = "SIMHBASE_HBASE_COMMAND", "HBASE_HOME"
# Folders that are named to HBase's command, maybe from the current one, where it does not run.
_FOLDERS = (HOME, "HBASE_CONF_DIR", "HADOOP_HOME", "HADOOP_CONF_DIR")
LEAST_VERSION, TRIED_VERSION = (2, 2), 2  # BulkLoadHFilesTool is new in 2.2; 3 has not been tried
# Most of the time is startup: Java's optimizing compiler would double it.
_JAVA_OPTIONS, _COMPILED_QUICKLY = "JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -Djruby.compile.mode=OFF"
STOP_SECONDS = 10.0  # for the process to exit after an interrupt
_LOOKED_AT = 1.0  # seconds between signs of life while a tool runs
_SHOWN_LINES, _SHOWN_CHARACTERS = 4, 300
_TELLING = re.compile(r"\bERROR\b|\bFATAL\b|^Caused by: |^Exception in thread |^[\w.$]+(?:Exception|Error)\b")
_SEPARATORS = re.compile("[\t\n\r]")  # of words and lines: what follows would be another word or tool
# What lines of answers begin with. HBase's messages show rows, which end with ids: these may have it, too,
# but not at the beginning of a line.
_ANSWER = "simhbase: "
_SCRIPT = f"""
conf = org.apache.hadoop.hbase.HBaseConfiguration.create
answer = lambda do |text|
  $stdout.write("\\n{_ANSWER}#{{text}}\\n")  # a message before it may have no end
  $stdout.flush
end
run = ->(tool, words) {{ org.apache.hadoop.util.ToolRunner.run(tool, words.to_java(:string)).zero? }}
in_table = lambda do |name, &work|
  connection = org.apache.hadoop.hbase.client.ConnectionFactory.createConnection(conf)
  begin
    work.call(connection.getTable(org.apache.hadoop.hbase.TableName.valueOf(name)))
  ensure
    connection.close
  end
end
tools = {{
  'load' => ->(*words) {{ run.call(org.apache.hadoop.hbase.tool.BulkLoadHFilesTool.new(conf), words) }},
  'files' => ->(*words) {{ run.call(org.apache.hadoop.fs.FsShell.new(conf), words) }},
  'has' => lambda do |table, row, time|
    get = org.apache.hadoop.hbase.client.Get.new(row.to_java_bytes)
    get.setTimeRange(time.to_i, java.lang.Long::MAX_VALUE)
    in_table.call(table) {{ |rows| rows.exists(get) }}
  end,
  'hidden' => lambda do |table, time|
    later = org.apache.hadoop.hbase.client.Scan.new
    later.setTimeRange(time.to_i + 1, java.lang.Long::MAX_VALUE)
    later.setFilter(org.apache.hadoop.hbase.filter.KeyOnlyFilter.new)
    in_table.call(table) do |rows|
      rows.getScanner(later).count do |row|
        get = org.apache.hadoop.hbase.client.Get.new(row.getRow)
        get.setTimeRange(time.to_i, time.to_i + 1)
        rows.exists(get)
      end
    end
  end
}}
answer.call("HBase #{{org.apache.hadoop.hbase.util.VersionInfo.getVersion}}")
while line = $stdin.gets
  name, *words = line.chomp.split("\\t")
  begin
    answer.call(tools.fetch(name).call(*words))
  rescue java.lang.Throwable => error
    error.printStackTrace
    answer.call(false)
  end
end
"""


class ToolFailed(StoreFailed):
    """An HBase tool failed."""


@dataclass
class Tools:
    """Runs tools one after the other.

    command: runs a class, with its first arguments; log: file for all output, in whose folder it runs; alive:
    called every second while a tool runs.
    """

    command: Sequence[str]
    log: Path
    alive: Callable[[], object]
    _process: subprocess.Popen[str] | None = field(default=None, init=False)
    _answers: SimpleQueue[str] = field(default_factory=SimpleQueue, init=False)
    _version: str = field(default="", init=False)
    _reader: Thread = field(init=False)

    @property
    def has_started(self) -> bool:
        """True if a call would not wait for the process to start."""
        return bool(self._version) or not self._answers.empty()

    def version(self) -> tuple[int, ...]:
        """HBase's version, e.g. (2, 6, 1). Raises ToolFailed, UsageError."""
        self._started()
        found = re.match(r"HBase (\d+)\.(\d+)\.(\d+)", self._version)
        if not found:
            raise UsageError(
                f"{shlex.join(self.command)} does not say which version of HBase it is: name HBase's command "
                f"in {VARIABLE}. It said: {self._version or 'nothing'}"
            )
        return tuple(map(int, found.groups()))

    def load(self, doing: str, folder: str, table: str, options: Sequence[str]) -> None:
        """Move the HFiles of a folder into a table. doing: for messages. Raises ToolFailed."""
        self._require("load", doing, *options, folder, table)

    def files(self, doing: str, *arguments: str) -> None:
        """Run a command of Hadoop's file systems. Raises ToolFailed."""
        self._require("files", doing, *arguments)

    def has(self, table: str, row: str, time: int) -> bool:
        """True if HBase's configuration leads to a table with a cell of this time, or a later one: others may
        have written the row since. Raises ToolFailed."""
        return self._run("has", f"looking for {row} in {table}", table, row, str(time)) == "true"

    def hidden(self, table: str, time: int) -> int:
        """Number of rows of a table with a cell of this time, and a later one that hides it. Older cells are
        there until HBase compacts their files. Raises ToolFailed."""
        doing = f"counting rows of {table} that others have written since"
        return int(self._require("hidden", doing, table, str(time), succeeded=str.isdecimal))

    def _require(
        self, name: str, doing: str, *words: str, succeeded: Callable[[str], bool] = "true".__eq__
    ) -> str:
        begun = self.log.stat().st_size if self.log.exists() else 0
        answer = self._run(name, doing, *words)
        if not succeeded(answer):
            raise ToolFailed(f"{doing} failed. {self._said_since(begun)}")
        return answer

    def _run(self, name: str, doing: str, *words: str) -> str:
        """The answer of a tool. Any exception, including Ctrl-C, stops the process."""
        if unfit := next((word for word in words if _SEPARATORS.search(word)), None):
            raise UsageError(
                f"HBase's tools are not given {unfit[:_SHOWN_CHARACTERS]!r}: it has a tab or line break"
            )
        process = self._started()
        begun = self.log.stat().st_size
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):  # _answer says why
                process.stdin.write("\t".join((name, *words)) + "\n")
                process.stdin.flush()
            return self._answer(process, doing, begun)
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start the process without waiting for it. Raises UsageError."""
        if self._process is not None:
            return
        said = os.environ.get(_JAVA_OPTIONS, "")
        folders = {name: os.path.abspath(path) for name in _FOLDERS if (path := os.environ.get(name))}  # noqa: PTH100
        try:
            self._process = process = subprocess.Popen(
                [*self.command, "org.jruby.Main", "--disable-gems", "-e", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                # Not where strangers may have put a .jrubyrc, which says where Ruby looks for its own code.
                cwd=self.log.parent,
                env={**os.environ, **folders, _JAVA_OPTIONS: f"{_COMPILED_QUICKLY} {said}".strip()},
                start_new_session=True,  # so that Ctrl-C only reaches us, and we can stop all of it
            )
        except OSError as error:
            raise UsageError(
                f"cannot run {shlex.join(self.command)}: {error.strerror}. Name HBase's command, with "
                f"arguments if it has any, in {VARIABLE}"
            ) from error
        self._answers = SimpleQueue()
        self._reader = Thread(target=_read, args=(process, self.log, self._answers), daemon=True)
        self._reader.start()

    def _started(self) -> subprocess.Popen[str]:
        begun = self.log.stat().st_size if self.log.exists() and self._process is None else 0
        self.start()
        assert self._process is not None
        try:
            self._version = self._version or self._answer(self._process, "starting HBase's command", begun)
        except BaseException:
            self.close()
            raise
        return self._process

    def _answer(self, process: subprocess.Popen[str], doing: str, begun: int) -> str:
        while True:
            with suppress(Empty):
                answer = self._answers.get(timeout=_LOOKED_AT)
                if answer:
                    return answer
                code = process.wait()
                raise ToolFailed(f"{doing} failed (it ended with {code}). {self._said_since(begun)}")
            self.alive()

    def _said_since(self, begun: int) -> str:
        printed = self.log.read_bytes()[begun:].decode(errors="replace")
        shown = "".join(f"\n  {line[:_SHOWN_CHARACTERS]}" for line in _telling_lines(printed))
        return f"{self.log} says:{shown}"

    def close(self) -> None:
        """Stop the process, if there is one."""
        process, self._process, self._version = self._process, None, ""
        if process is None:
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
                break
        self._reader.join(STOP_SECONDS)


def hbase_command() -> Sequence[str]:
    """HBase's command: SIMHBASE_HBASE_COMMAND, optionally with arguments, or hbase on the PATH or in
    HBASE_HOME. Raises UsageError if there is none."""
    named = os.environ.get(VARIABLE)
    if named is None:
        home = os.environ.get(HOME) if shutil.which("hbase") is None else None
        named = shlex.quote(f"{home}/bin/hbase") if home else "hbase"
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"{VARIABLE}={named} is no command: {error}") from error
    found = shutil.which(command[0]) if command else None
    if found is None:
        raise UsageError(
            f"no command {named!r}: HBase's own tool loads HFiles. Install HBase, with the configuration of "
            f"its cluster, on this machine, and add its folder bin to PATH, set {HOME}, or name its hbase in "
            f"{VARIABLE}"
        )
    return [os.path.abspath(found), *command[1:]]  # noqa: PTH100  # links stay


def _read(process: subprocess.Popen[str], log: Path, answers: SimpleQueue[str]) -> None:
    """Separates the output of a process into messages and answers; an empty answer is its end."""
    assert process.stdout is not None
    try:
        with process.stdout, log.open("ab", buffering=0) as messages:
            for line in process.stdout:
                if line.startswith(_ANSWER):
                    answers.put(line.removeprefix(_ANSWER).strip())
                elif line.strip():
                    with suppress(OSError):  # the disk may be full, and the answer is still waited for
                        messages.write(line.encode())
    finally:
        answers.put("")


def _telling_lines(printed: str) -> list[str]:
    """The last distinct lines that name an error, or the last lines if there are none."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    telling = list(dict.fromkeys(filter(_TELLING.search, lines)))
    return (telling or lines or ["nothing"])[-_SHOWN_LINES:]
