"""The README's examples do what it shows."""

import doctest
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from simhbase.cli import COMMANDS
from simhbase.errors import TablesMissing
from simhbase.stores import drop_store
from tests.command_line import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the demo's articles in it."""
    made = tmp_path_factory.mktemp("readme")
    with (made / "articles.jsonl").open("wb") as articles:
        subprocess.run([sys.executable, ROOT / "scripts" / "articles.py"], stdout=articles, check=True)
    return made


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_python_examples_answer_as_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("python")
    test = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
    shown: list[str] = []
    assert not doctest.DocTestRunner().run(test, out=shown.append).failed, "".join(shown)


def test_commands_print_what_is_shown(folder):
    (block,) = blocks("console")
    for example in block.split("$ ")[1:]:
        command, _, expected = example.partition("\n")
        done = run(*shlex.split(command)[1:], cwd=folder)
        assert without_seconds(done.stdout.decode()) == without_seconds(expected)


@pytest.mark.hbase
def test_three_commands_lead_from_nothing_to_loaded_tables_in_hbase(folder, hbase):
    (block,) = blocks("console hbase")
    first, *others = block.split("$ ")[1:]
    assert first.startswith("scripts/hbase up\n")  # what has started the HBase of the tests
    url = hbase.url("simhbase")
    with suppress(TablesMissing):
        drop_store(url)
    try:
        for example in others:
            command, _, expected = example.partition("\n")
            done = run(*shlex.split(command)[1:], cwd=folder, SIMHBASE_STORE=url)
            said = done.stderr.decode() + done.stdout.decode()
            assert re.search(any_at_dots(expected) + r"\Z", said, re.DOTALL), said
    finally:
        drop_store(url)


def any_at_dots(text: str) -> str:
    return re.escape(text).replace(re.escape("...\n"), ".*")


def without_seconds(output: str) -> str:
    return re.sub(r"^(seconds +)[0-9.]+", r"\1-", output, flags=re.MULTILINE)


def test_every_command_is_named():
    (table,) = re.findall(r"\| command \|.*?\n\n", README, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", table)) == set(COMMANDS)
