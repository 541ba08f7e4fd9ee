"""docs/troubleshooting.md has messages that simhbase has, and commands that it takes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from simhbase.cli import cli
from tests.command_line import run, write_lines
from tests.examples import ROOT, page

ANYTHING = "\N{REPLACEMENT CHARACTER}"  # what an f-string puts in
ROWS = [
    line.strip("|").split(" | ") for line in page("docs/troubleshooting.md").splitlines() if line[:3] == "| `"
]
SPANS = re.compile(r"`([^`]+)`")
COMMANDS = [each for each in SPANS.findall(page("docs/troubleshooting.md")) if each.startswith("simhbase ")]
SHOWN = [SPANS.findall(row[0])[0] for row in ROWS]
PUT_TOGETHER: dict[str, dict[str, str]] = {  # of parts of the sources: by a document that has the message
    "name another text field (text_field)": {"id": "a", "body": "There is no field text."},
    "the text has ... distinct ..., at least ... are needed": {"id": "a", "text": "?"},
}


def messages() -> Iterator[str]:
    """The strings of the sources, joined as Python joins them."""
    for path in (ROOT / "simhbase").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{[^}]*\}", ANYTHING, node.value)
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(each.value) if isinstance(each, ast.Constant) else ANYTHING for each in node.values
                )


@pytest.fixture(scope="module")
def sources() -> str:
    return "\n".join(message.replace("\n", " ") for message in messages())


def pattern(message: str) -> str:
    """For a message in which "..." stands for what differs."""
    return ".*".join(re.escape(part.strip()) for part in message.split("..."))


@pytest.mark.parametrize("message", sorted(set(SHOWN) - PUT_TOGETHER.keys()))
def test_the_page_has_messages_of_simhbase(sources: str, message: str) -> None:
    assert len(message.replace("...", "")) >= 15
    assert re.search(pattern(message), sources), message


@pytest.mark.parametrize("message", PUT_TOGETHER)
def test_the_page_has_messages_that_simhbase_puts_together(tmp_path: Path, message: str) -> None:
    assert message in SHOWN
    write_lines(tmp_path / "news.jsonl", [PUT_TOGETHER[message]])
    assert re.search(pattern(message), run("load", "news.jsonl", cwd=tmp_path).stderr.decode())


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_the_page_has_commands_that_simhbase_takes(line: str) -> None:
    words = shlex.split(line)[1:]
    context = click.Context(cli)
    command = cli.get_command(context, words.pop(0))
    while isinstance(command, click.Group) and (inner := command.get_command(context, words[0])):
        command, _ = inner, words.pop(0)
    assert command is not None
    command.make_context(line, words)


def test_the_page_has_rows() -> None:
    assert (len(ROWS), len(COMMANDS)) > (40, 40)
