"""Places of documents in the files of a corpus: one number for a file, a line, and an object joined on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from simhbase.spark.guard import guarded

LINE_BITS, PART_BITS = 36, 6
MOST_FILES = 1 << (63 - LINE_BITS - PART_BITS)
MOST_ON_LINE = 1 << PART_BITS  # objects
SOURCE_SHIFT = LINE_BITS + PART_BITS  # bits of a place below the number of the file
_PARTS = MOST_ON_LINE - 1


def source_of(place: int) -> int:
    """The number of the file of a place."""
    return place >> SOURCE_SHIFT


def line_of(place: int) -> int:
    """The line of a place, from 1; of Parquet the row."""
    return (place >> PART_BITS) & ((1 << LINE_BITS) - 1)


def place_of(source: int, line: int, part: int = 0) -> int:
    """The place of an object. Those that are too many on a line share one, and are rejected."""
    return ((source << LINE_BITS | line) << PART_BITS) | min(part, _PARTS)


@dataclass(frozen=True)
class Places:
    """A set of places: a bit for each line, and further objects joined on a line one by one.

    sources: the numbers of files (n,), ascending; begins: where the bits of each begin, in bytes (n + 1,);
    others: the places of further objects.
    """

    sources: NDArray[np.int64]
    begins: NDArray[np.int64]
    bits: NDArray[np.uint8]
    others: NDArray[np.int64]

    @classmethod
    def of(cls, places: DataFrame) -> Self:
        """places: one column."""

        def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                some = pa.array([batch.column(0).to_numpy().tobytes()], pa.binary())
                yield pa.RecordBatch.from_arrays([some], ["places"])

        rows = places.mapInArrow(guarded(packed), "places binary").toLocalIterator()
        return cls.of_parts(np.frombuffer(row.places, np.int64) for row in rows)

    @classmethod
    def of_parts(cls, parts: Iterable[NDArray[np.int64]]) -> Self:
        """parts: places in any order, int64 (n,) each."""
        bits: dict[int, NDArray[np.uint8]] = {}
        others = [np.empty(0, np.int64)]
        for part in parts:
            every = np.sort(part)
            others.append(every[every & _PARTS != 0])
            first = every[every & _PARTS == 0]
            sources, begins = np.unique(first >> SOURCE_SHIFT, return_index=True)
            ends = np.append(begins, len(first))[1:]
            for source, begin, end in zip(sources.tolist(), begins, ends, strict=True):
                lines = _lines(first[begin:end])
                known = bits.get(source, np.zeros(0, np.uint8))
                if (size := int(lines[-1]) // 8 + 1) > len(known):
                    known = np.pad(known, (0, max(size, 2 * len(known)) - len(known)))
                np.bitwise_or.at(known, lines >> 3, np.uint8(1) << (lines & 7).astype(np.uint8))
                bits[source] = known
        ordered = sorted(bits)
        return cls(
            np.array(ordered, np.int64),
            np.cumsum([0, *(len(bits[source]) for source in ordered)]),
            np.concatenate([np.empty(0, np.uint8), *(bits[source] for source in ordered)]),
            np.sort(np.concatenate(others)),
        )

    def contain(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """places: int64 (n,) -> bool (n,)."""
        is_further = places & _PARTS != 0
        found: NDArray[np.bool_] = is_further & np.isin(places, self.others)
        at = np.searchsorted(self.sources, places >> SOURCE_SHIFT, "right") - 1
        byte = self.begins[at] + (_lines(places) >> 3)
        # No file before the first, and no byte of the next one.
        asked = ~is_further & (at >= 0) & (byte < self.begins[at + 1])
        asked &= self.sources[at] == places >> SOURCE_SHIFT if len(self.sources) else False
        rows = np.flatnonzero(asked)
        found[rows] = self.bits[byte[rows]] >> (_lines(places[rows]) & 7).astype(np.uint8) & 1
        return found


def _lines(places: NDArray[np.int64]) -> NDArray[np.int64]:
    return places >> PART_BITS & ((1 << LINE_BITS) - 1)
