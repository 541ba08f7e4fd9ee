"""Runs the command line as users do, and makes input for it."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from simhbase.cli import cli

COMMAND = [sys.executable, "-m", "simhbase"]


@dataclass(frozen=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run(*arguments: object, cwd: Path, stdin: bytes = b"", **variables: str) -> Done:
    """Runs a command to its end in a folder, in this process, whose signals stay as they are."""
    runner = CliRunner(env={"SIMHBASE_STORE": None, **variables})
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with chdir(cwd):
        done = runner.invoke(cli, list(map(str, arguments)), input=stdin)
    for number, handler in handlers.items():
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, handler)
    return Done(done.exit_code, done.stdout_bytes, done.stderr_bytes)


def run_alone(*arguments: object, cwd: Path, stdin: bytes = b"", **variables: str) -> Done:
    """The same in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(**variables),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def environment(**variables: str) -> dict[str, str]:
    """This process's, without what would point the command at another store, tell it of another terminal
    (xdist sets the size of one that its workers do not have), or hide what Python does at its end."""
    others = ("COLUMNS", "LINES", "PYTHONUNBUFFERED")
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SIMHBASE_") and name not in others
    }
    return clean | {"PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "xterm"} | variables


def result(*arguments: object, cwd: Path, exit_code: int = 0, stdin: bytes = b"", **variables: str) -> Any:
    """What a command with --json answers: one object, or a list where it has more lines or none."""
    done = run(*arguments, "--json", cwd=cwd, stdin=stdin, **variables)
    assert done.returncode == exit_code, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[0] if len(lines) == 1 else lines


def texts(count: int, seed: int = 0, words: int = 40) -> list[str]:
    """Texts that have nothing to do with each other."""
    chance = random.Random(seed)
    return [" ".join(f"{chance.randrange(1 << 32):08x}" for _ in range(words)) for _ in range(count)]


def write_lines(path: Path, values: Iterable[object]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), "utf-8")
    return path


def read_lines(path: Path) -> list[Any]:
    """The values of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def documents(path: Path, contents: Sequence[str], prefix: str = "d") -> Path:
    """A file of documents d0, d1 ... with these texts."""
    values = ({"id": f"{prefix}{number}", "text": text} for number, text in enumerate(contents))
    return write_lines(path, values)


def fingerprints(path: Path, values: dict[str, int]) -> Path:
    """A file of prepared fingerprints, to be read with --fingerprint-field f."""
    return write_lines(path, ({"id": name, "f": f"0x{value:016x}"} for name, value in values.items()))
