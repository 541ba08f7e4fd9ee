"""Chunks on their way through worker processes, and the batches that come back."""

import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from simhbase.corpus.reading import extracted
from simhbase.corpus.record import CHUNK_RECORDS, Chunk, InputOptions, Raw, Record, size_of
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.pipeline import JOINED_BYTES, Batch, joined


def batch(number: int, **content: str | bytes) -> Batch:
    return Batch(
        [Record("s", number, f"d{number}", **content)],
        FingerprintBatch.bare(np.array([number], dtype=np.uint64)),
        1,
    )


def test_so_many_batches_become_one():
    batches = list(joined(map(batch, range(5)), 2, 4))
    assert [each.ids for each in batches] == [["d0", "d1"], ["d2", "d3"], ["d4"]]
    assert [each.fingerprints.values.tolist() for each in batches] == [[0, 1], [2, 3], [4]]
    assert [each.parsed for each in batches] == [2, 2, 1]


def test_more_batches_become_one_if_their_chunks_are_full():
    full = [replace(batch(number), parsed=CHUNK_RECORDS) for number in range(5)]
    assert [each.ids for each in joined(full, 2, 4)] == [["d0", "d1", "d2", "d3"], ["d4"]]
    assert [each.ids for each in joined([*full[:3], batch(3), batch(4)], 2, 4)] == [
        ["d0", "d1", "d2", "d3"],
        ["d4"],
    ]
    assert [each.ids for each in joined([full[0], batch(1), full[2]], 2, 4)] == [["d0", "d1"], ["d2"]]


def test_fewer_batches_become_one_where_they_hold_long_lines_or_texts():
    half = JOINED_BYTES // 2
    batches = [
        *(batch(number, json=b"x" * half) for number in range(3)),
        *(batch(number, text="x" * half) for number in range(3, 5)),
    ]
    assert [each.ids for each in joined(batches, 8, 8)] == [["d0", "d1"], ["d2", "d3"], ["d4"]]


def pages(count: int, size: int) -> list[Chunk]:
    page = b"<p>" + b"x" * (size - 3)
    return [[Raw("s", number, f"d{number}", page, holds="page")] for number in range(count)]


def worked_on(chunks: list[Chunk], options: InputOptions = InputOptions()) -> list[bool]:  # noqa: B008  # frozen
    """Whether worker processes have parsed each chunk."""
    return [isinstance(chunk[0], Record) for chunk in extracted(iter(chunks), options, 2)]


def test_a_few_small_chunks_of_pages_need_no_worker_processes():
    assert worked_on(pages(2, 10)) == [False, False]


@pytest.mark.slow
def test_more_pages_and_large_ones_are_parsed_by_worker_processes():
    for chunks in (pages(3, 10), pages(2, 5 << 20)):
        parsed = [item for chunk in extracted(iter(chunks), InputOptions(), 2) for item in chunk]
        assert [(item.id, len(item.text)) for item in parsed] == [
            (chunk[0].id, size_of(chunk) - 3) for chunk in chunks
        ]


@pytest.mark.slow
def test_what_holds_no_page_passes_worker_processes_by_in_its_place():
    text = [Raw("s", 9, "t", b"text")]
    assert worked_on([text, *pages(1, 10), text, *pages(2, 10)]) == [False, True, False, True, True]
    assert worked_on([text] * 4, InputOptions(html=True)) == [True] * 4


class Watched(list[Raw]):
    """A chunk that can be watched."""


def test_chunks_are_let_go_of_one_after_the_other():
    given: list[weakref.ref[Watched]] = []

    def watched() -> Iterator[Chunk]:
        for _ in range(6):
            chunk = Watched([Raw("s", 1, "d", b"x" * 10)])
            given.append(weakref.ref(chunk))
            yield chunk
            del chunk

    def held(_: Chunk) -> int:
        return sum(chunk() is not None for chunk in given)

    assert list(map(held, extracted(watched(), InputOptions(), 1))) == [3, 2, 1, 1, 1, 1]
