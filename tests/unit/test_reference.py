"""The reference is what the code says."""

import runpy
from pathlib import Path

import pytest

import simhbase
from simhbase.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = runpy.run_path(str(ROOT / "scripts" / "reference"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_scripts_reference_writes(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text("utf-8") == PAGES[name], "run scripts/reference"


def test_the_reference_has_every_command() -> None:
    assert [name for name in COMMANDS if f"\n## simhbase {name}\n" not in PAGES["commands.md"]] == []


def test_the_reference_has_every_public_name() -> None:
    assert [name for name in simhbase.__all__ if f"\n## simhbase.{name}\n" not in PAGES["python.md"]] == []


def test_nothing_in_the_reference_is_of_one_machine_or_run() -> None:
    assert " at 0x" not in "".join(PAGES.values())
