"""Examples of pages: runs what a page's blocks of code show, in order and in one folder, and compares the
output with what is shown."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from tests.command_line import environment, run

ROOT = Path(__file__).parents[1]
REJECTED = 3  # exit code: done, but some records could not be used


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The language and the lines of each block of code. A fence "console {.hbase}" has "console hbase", and
    'python title="news.py"', the content of a file, "file news.py"."""
    for info, block in re.findall(r"^```(\S[^\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        title = re.search(r'title="([\w./-]+)"', info)
        yield f"file {title[1]}" if title else re.sub(r"[{}.]", "", info), block


def write_articles(folder: Path) -> None:
    """The demo's articles, as articles.jsonl."""
    with (folder / "articles.jsonl").open("wb") as articles:
        subprocess.run([sys.executable, ROOT / "scripts" / "articles.py"], stdout=articles, check=True)


class Reader:
    """Does what a page says, as a reader would in one shell and one session of Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables: dict[str, str] = {}
        self.names: dict[str, Any] = {}

    def follow(self, language: str, block: str) -> None:
        if language == "sh":
            self.shell(block)
        elif language == "python":
            self.python(block)
        elif language.startswith("file "):
            (self.folder / language.removeprefix("file ")).write_text(block, "utf-8")
        else:
            for example in block.split("$ ")[1:]:
                command, _, shown = example.partition("\n")
                self.command(command, shown)

    def shell(self, lines: str) -> str:
        """What commands print, all of which must succeed."""
        done = subprocess.run(
            ["sh", "-c", f"set -e\n{lines}"],
            cwd=self.folder,
            env=environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", **self.variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, REJECTED), f"{lines}\n{done.stdout}{done.stderr}"
        return done.stderr + done.stdout

    def python(self, block: str) -> None:
        test = doctest.DocTestParser().get_doctest(block, self.names, "page", "page", 0)
        said: list[str] = []
        with chdir(self.folder):
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            failed = runner.run(test, out=said.append, clear_globs=False).failed
        assert not failed, "".join(said)
        self.names = test.globs

    def command(self, command: str, shown: str) -> None:
        if found := re.fullmatch(r"export (\w+)=(\S+)", command):
            (self.variables[found[1]],) = shlex.split(found[2])
            said = ""
        # Spark's Java may have been started in another folder.
        elif command.startswith("simhbase ") and not command.startswith("simhbase spark "):
            done = run(*shlex.split(command)[1:], cwd=self.folder, **self.variables)
            said = done.stderr.decode() + done.stdout.decode()
            assert done.returncode in (0, REJECTED), f"{command}\n{said}"
        else:
            said = self.shell(command)
        assert re.fullmatch(as_shown(shown), said, re.DOTALL), f"{command}\n{said}"


def as_shown(output: str) -> str:
    """A pattern for output: '...' stands for anything, and seconds are the machine's own."""
    anything = re.escape(output).replace(re.escape("...\n"), ".*").replace(re.escape("..."), ".*")
    return re.sub(r"^(seconds(?:\\ )+)[0-9\\.]+", r"\1[0-9.]+", anything, flags=re.MULTILINE)
