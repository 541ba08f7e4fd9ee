"""Who opens an index whose profile misses near-duplicates of short texts is told at the first of them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import simhbase
from simhbase.index import Index
from tests.command_line import run_alone, texts

SHORT, (LONG, *_) = "A notice of the library: it is closed on Monday.", texts(2)

FIRST: dict[str, Callable[[Index], object]] = {
    "add": lambda index: index.add([("a", SHORT)]),
    "claim": lambda index: index.claim("a", SHORT),
    "annotate": lambda index: index.claim_many([("a", SHORT)], mode="annotate"),
    "aclaim": lambda index: asyncio.run(index.aclaim("a", SHORT)),
    "find": lambda index: index.find(SHORT),
    "find_many": lambda index: index.find_many([LONG, SHORT]),
}


@pytest.mark.parametrize("call", FIRST.values(), ids=FIRST)
def test_the_first_short_text_of_an_index_is_warned_of(call: Callable[[Index], object]) -> None:
    with simhbase.open("memory:", create="default") as index:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index.add([("long", LONG)])
            index.find(LONG)
        with pytest.warns(simhbase.ShortTexts, match="at most 140 characters: .*short") as warned:
            call(index)
        if call is not FIRST["aclaim"]:  # whose thread has no caller
            assert {each.filename for each in warned} == {__file__}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(index)


@pytest.mark.parametrize("profile", ["complete", "short"])
def test_nothing_is_said_where_the_profile_finds_short_texts(profile: str) -> None:
    with warnings.catch_warnings(), simhbase.open("memory:", create=profile) as index:
        warnings.simplefilter("error")
        for call in FIRST.values():
            call(index)


def test_commands_leave_it_to_the_hints_of_a_load(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"id": "a", "text": "{SHORT}"}}\n')
    assert run_alone("load", "a.jsonl", cwd=tmp_path).stderr == b""  # it is no terminal
    assert run_alone("find", "--text", SHORT, cwd=tmp_path).stderr == b""
