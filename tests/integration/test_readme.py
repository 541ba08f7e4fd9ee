"""The README's examples do what it shows."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from simhbase.cli import COMMANDS
from simhbase.errors import TablesMissing
from simhbase.stores import drop_store
from tests.examples import Reader, blocks, page, write_articles

README = page("README.md")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """In a folder with the demo's articles in it."""
    folder: Path = tmp_path_factory.mktemp("readme")
    write_articles(folder)
    return Reader(folder)


def of_language(language: str) -> list[str]:
    return [block for name, block in blocks(README) if name == language]


def test_python_examples_answer_as_shown(reader):
    for block in of_language("python"):
        reader.follow("python", block)


def test_commands_print_what_is_shown(reader):
    (block,) = of_language("console")
    reader.follow("console", block)


@pytest.mark.hbase
def test_three_commands_lead_from_nothing_to_loaded_tables_in_hbase(reader, hbase):
    (block,) = of_language("console hbase")
    first, others = block.split("$ simhbase", 1)
    assert first.startswith("$ scripts/hbase up\n")  # what has started the HBase of the tests
    url = hbase.url("simhbase")
    with suppress(TablesMissing):
        drop_store(url)
    try:
        administrator = Reader(reader.folder)
        administrator.variables["SIMHBASE_STORE"] = url
        administrator.follow("console", f"$ simhbase{others}".replace("\ncreated", "\n...\ncreated"))
    finally:
        drop_store(url)


def test_the_scripts_that_it_begins_with_exist():
    (block,) = of_language("sh")
    scripts = re.findall(r"^(scripts/\w+)", block, re.MULTILINE)
    assert scripts == ["scripts/demo", "scripts/test"]
    assert all((Path(__file__).parents[2] / script).exists() for script in scripts)


def test_every_command_is_named_on_the_page_of_the_command_line():
    (table,) = re.findall(r"\| command \|.*?\n\n", page("docs/using.md"), re.DOTALL)
    assert set(re.findall(r"`([a-z][a-z-]*)`", table)) == set(COMMANDS)
