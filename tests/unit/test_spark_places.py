"""Sets of places of documents in files."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Raw
from simhbase.errors import UsageError
from simhbase.spark import files
from simhbase.spark.files import _LineParser
from simhbase.spark.places import MOST_ON_LINE, Hashes, Places, line_of, place_of, source_of

PLACES = st.builds(
    place_of, st.integers(0, 5), st.integers(1, 70) | st.just(100_000), st.sampled_from([0, 0, 0, 1, 2])
)


@given(st.lists(st.lists(PLACES)), st.lists(PLACES))
def test_a_set_contains_what_was_put_in_and_nothing_else(parts, asked):
    kept = Places.of_parts(np.array(part, np.int64) for part in parts)
    every = [*asked, *(place for part in parts for place in part)]
    there = {place for part in parts for place in part}
    assert kept.contain(np.array(every, np.int64)).tolist() == [place in there for place in every]


def test_a_place_tells_its_file_and_line():
    place = place_of(3, 1 << 35, MOST_ON_LINE - 1)
    assert (source_of(place), line_of(place)) == (3, 1 << 35)


def test_objects_that_are_too_many_on_a_line_are_rejected():
    """They would share a place, by which it is told which of them are kept."""
    text = "The ferry to the island sails at eight, ten and noon; in a storm it stays."
    objects = [b'{"id": "%d", "text": "%s"}' % (number, text.encode()) for number in range(MOST_ON_LINE + 2)]
    options = InputOptions()
    items = Parser(options).parse([Raw("x", 1, None, b"".join(objects), None, "json")])
    batch = _LineParser(options, {"file:/x": (0, "x")}, {}, None)._batch(items)
    problems, places = (batch.column(number).to_pylist() for number in (4, 5))
    assert problems[:-2] == [None] * MOST_ON_LINE
    assert all(problem.startswith("more than 63 JSON objects on one line") for problem in problems[-2:])
    kept = Places.of_parts([np.array(places[:-2], np.int64)])
    assert kept.contain(np.array(places, np.int64)).tolist() == [problem is None for problem in problems]


def test_files_that_are_shown_alike_are_refused(monkeypatch):
    """Their documents would be in the same places."""
    found = [f"hdfs://host/page?sig={number}" for number in range(2)]
    listed = SimpleNamespace(inputFiles=lambda: found)
    monkeypatch.setattr(files, "_reader", lambda session: SimpleNamespace(text=lambda path: listed))
    with pytest.raises(UsageError, match=r"two files are shown as hdfs://host/page\?sig=\.\.\., without"):
        files.Files.find(None, ["hdfs://host/"], "jsonl")


@given(st.lists(st.lists(st.integers(-(1 << 63), (1 << 63) - 1))), st.lists(st.integers(-5, 5)))
def test_a_set_of_hashes_contains_what_was_put_in_and_nothing_else(parts, asked):
    kept = sorted({each for part in parts for each in part})
    every = np.array([*asked, *kept], np.int64)
    found = Hashes(np.array(kept, np.int64)).contain(every)
    assert found.tolist() == [each in kept for each in every.tolist()]
