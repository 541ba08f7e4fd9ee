"""Chunks on their way through the workers, and the batches that come back."""

import os
import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from simhbase.corpus.inputs import in_workers
from simhbase.corpus.record import Chunk, Raw, Record
from simhbase.corpus.sources import CHUNK_RECORDS
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


def process_and_size(chunk: Chunk) -> tuple[int, int]:
    return os.getpid(), len(chunk[0].data)


def chunks(count: int, size: int) -> list[Chunk]:
    return [[Raw("s", number, "d", b"x" * size)] for number in range(count)]


def test_few_small_chunks_are_worked_on_in_this_process():
    assert set(in_workers(process_and_size, chunks(2, 10), 2)) == {(os.getpid(), 10)}


def test_more_chunks_and_large_ones_are_worked_on_in_others():
    for few in (chunks(3, 10), chunks(2, 5 << 20)):
        found = list(in_workers(process_and_size, few, 2))
        assert [size for _, size in found] == [len(chunk[0].data) for chunk in few]
        assert os.getpid() not in {process for process, _ in found}


class Watched(list[Raw]):
    """A chunk that can be watched."""


def test_chunks_are_let_go_of_one_after_the_other():
    given: list[weakref.ref[Watched]] = []

    def watched() -> Iterator[Chunk]:
        for _ in range(6):
            chunk = Watched(chunks(1, 10)[0])
            given.append(weakref.ref(chunk))
            yield chunk
            del chunk

    def held(_: Chunk) -> int:
        return sum(chunk() is not None for chunk in given)

    assert list(in_workers(held, watched(), 1)) == [3, 2, 1, 1, 1, 1]
