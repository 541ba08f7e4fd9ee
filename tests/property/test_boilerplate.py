"""Boilerplate: what holds for all texts, and for everything that is learnt."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Chunk, InputOptions, Raw
from simhbase.errors import BadInput
from simhbase.jobs import learn_boilerplate
from simhbase.jobs.learn_boilerplate import Learnt, learn
from simhbase.text.boilerplate import WINDOW, Boilerplate, join, phrases, split

BLOCKS = ["一二三四五六七八九", "a b c d e f g h", "二三四五六七八九。", "完", "\n", "a", " ", "中"]
TEXTS = st.lists(st.lists(st.sampled_from(BLOCKS), max_size=8).map("".join), max_size=40)
UNITS = st.lists(st.sampled_from(["中", "文", "a", "ab"]), min_size=1, max_size=WINDOW + 4)
PARSER = Parser(InputOptions(id_from="line"))


def plainly_learnt(texts: Sequence[str], least: int) -> tuple[set[tuple[str, ...]], dict[str, int]]:
    """The windows and the short lines of so many different texts."""
    windows: Counter[tuple[str, ...]] = Counter()
    lines: Counter[str] = Counter()
    for text in set(texts):
        units = split(text)
        windows.update({tuple(units[at : at + WINDOW]) for at in range(len(units) - WINDOW + 1)})
        lines.update({join(line) for line in map(split, text.split("\n")) if 0 < len(line) < WINDOW})
    kept = {line: number for line, number in lines.items() if number >= least}
    return {window for window, number in windows.items() if number >= least}, kept


def learnt(texts: Sequence[str], share: float, size: int) -> Learnt:
    raw = [
        Raw("s", line, f"s:{line}", orjson.dumps({"text": text}), holds="json")
        for line, text in enumerate(texts)
    ]
    chunks: list[Chunk] = [[*raw[at : at + size]] for at in range(0, len(raw), size)]
    return learn(lambda work: map(work, chunks), PARSER, share)


@settings(max_examples=30)  # each has tables of 16 million slots
@example([f"一二三四五六七八九{number}\n完" for number in range(20)], 0.01, 7)
@given(TEXTS, st.floats(0.01, 1), st.integers(1, 50))
def test_just_what_enough_different_texts_have_is_learnt_however_they_are_read(texts, share, size):
    of_chunks = learnt(texts, share, size)
    entries, least = of_chunks.entries, of_chunks.least
    assert least == max(10, ceil(share * len(set(texts))))
    windows, lines = plainly_learnt(texts, least)
    assert {entry.text: entry.documents for entry in entries if entry.kind == "line"} == lines
    of_phrases = [split(entry.text) for entry in entries if entry.kind == "phrase"]
    found = [tuple(units[at : at + WINDOW]) for units in of_phrases for at in range(len(units) - WINDOW + 1)]
    assert len(found) == len(set(found))
    assert set(found) == windows
    if size < len(texts):
        assert of_chunks.boilerplate("x") == learnt(texts, share, 50).boilerplate("x")


@given(
    st.dictionaries(st.lists(st.sampled_from("ab"), min_size=8, max_size=8).map(" ".join), st.integers(1, 9))
)
def test_phrases_have_each_window_once(windows):
    of_phrases = [(entry.text.split(), entry.documents) for entry in phrases(windows)]
    found = [
        (" ".join(units[at : at + WINDOW]), documents)
        for units, documents in of_phrases
        for at in range(len(units) - WINDOW + 1)
    ]
    assert sorted(text for text, _ in found) == sorted(windows)
    assert all(windows[text] >= documents for text, documents in found)


@given(st.lists(UNITS, min_size=1, max_size=4), st.lists(UNITS, max_size=6))
def test_what_is_left_is_what_no_phrase_and_no_line_covers(stops, lines):
    stopped = [("phrase" if len(units) >= WINDOW else "line", units) for units in stops]
    content = "".join(f"{kind}\t1\t{join(units)}\n" for kind, units in stopped)
    text = "\n".join(map(join, lines))
    units = [unit for line in lines for unit in line]
    covered = [False] * len(units)
    windows = {
        tuple(of[at : at + WINDOW])
        for kind, of in stopped
        if kind == "phrase"
        for at in range(len(of) - WINDOW + 1)
    }
    for at in range(len(units) - WINDOW + 1):
        if tuple(units[at : at + WINDOW]) in windows:
            covered[at : at + WINDOW] = [True] * WINDOW
    at = 0
    for line in lines:
        if ("line", line) in stopped:
            covered[at : at + len(line)] = [True] * len(line)
        at += len(line)
    left = [unit for unit, gone in zip(units, covered, strict=True) if not gone]
    (stripped,) = Boilerplate("mine", content.encode()).strip([text])
    assert split(stripped) == left


@pytest.mark.parametrize(("words", "is_refused"), [(107, False), (108, True), (500, True)])
def test_whole_texts_that_are_repeated_are_no_boilerplate(monkeypatch, words, is_refused):
    """Those of a corpus of 100 MB took 4 GB of memory, and of one ten times as large ten times as much."""
    monkeypatch.setattr(learn_boilerplate, "MOST_ITEMS", 100)
    texts = [" ".join(map(str, [*range(words), f"end{number}"])) for number in range(10)]
    if not is_refused:
        assert len(learnt(texts, 0.01, 50).entries) == 1
        return
    with pytest.raises(BadInput, match="may occur in 10 of 10 different texts: whole texts are repeated"):
        learnt(texts, 0.01, 50)


def test_of_a_long_text_every_piece_is_stripped():
    mine = Boilerplate("mine", "phrase\t1\t一二三四五六七八\n".encode())
    part = "子" * 50 + "，一二三四五六七八。"
    text = part * (3 * 65_536 // len(part))
    (stripped,) = mine.strip([text])
    assert stripped.count("子") == text.count("子")
    assert stripped.count("三") <= 3  # where a piece ends
