"""What the memory of docs/memory.md does beyond what the page shows."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import blocks, page

NURSE = "The user works as a nurse at the city hospital."


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[Any]:
    """Opens the memory of a folder, after closing the one before."""
    (tmp_path / "memory.py").write_text(dict(blocks(page("docs/memory.md")))["file memory.py"], "utf-8")
    opened: list[Any] = []
    made = runpy.run_path(str(tmp_path / "memory.py"))["Memory"]

    def reopened() -> Any:
        for each in opened:
            each.close()
        opened[:] = [made(tmp_path / "anna")]
        return opened[0]

    yield reopened
    opened[0].close()


def test_a_process_that_dies_between_two_writes_leaves_a_memory_that_is_put_right(memories: Any) -> None:
    memory = memories()
    assert memory.index.claim("lost", NURSE)  # and dies before it keeps the text
    memory = memories()
    assert list(memory.index) == []
    kept = memory.remember(NURSE)["id"]
    memory.index.delete([kept])  # dies after the text, before the index
    assert memories().remember(NURSE + "!")["near"] == kept


def test_what_is_forced_is_kept_beside_what_is_near(memories: Any) -> None:
    memory = memories()
    first, again = memory.remember(NURSE)["id"], memory.remember(NURSE)["id"]
    assert first == again
    assert memory.force(f"{NURSE} In Leipzig.")["kept"]
    assert len(memories().list()) == 2


def test_a_note_without_text_is_refused_and_replaces_nothing(memories: Any) -> None:
    memory = memories()
    kept = memory.remember(NURSE)["id"]
    refused = {"kept": False, "reason": "the text is empty"}
    assert memory.remember("") == memory.force("") == memory.replace(kept, "") == refused
    assert memory.replace("unknown", NURSE) == {"kept": False, "reason": "there is no note unknown"}
    assert memory.replace(kept, NURSE) == {"kept": True, "id": kept}
    assert list(memory.list()) == [kept]
    assert (memory.forget(kept), memory.forget("unknown")) == ({"forgotten": 1}, {"forgotten": 0})
