"""Sets of rows that the driver collects and all tasks hold, so that the rows themselves are not shuffled: by
their places in files, one number for a file, a line, and an object joined on it, or by hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it has no types
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.functions import pandas_udf

from simhbase.spark.guard import guarded

LINE_BITS, PART_BITS = 36, 6
MOST_FILES = 1 << (63 - LINE_BITS - PART_BITS)
MOST_ON_LINE = (1 << PART_BITS) - 1  # objects; others share the last place of the line
SOURCE_SHIFT = LINE_BITS + PART_BITS  # bits of a place below the number of the file
_PARTS = MOST_ON_LINE


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
        return cls.of_parts(_parts(places))

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


@dataclass(frozen=True)
class Hashes:
    """A set of hashes: int64 (n,), ascending."""

    values: NDArray[np.int64]

    @classmethod
    def of(cls, hashes: DataFrame) -> Self:
        """hashes: one column."""
        return cls(np.sort(np.concatenate([np.empty(0, np.int64), *_parts(hashes)])))

    def contain(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """hashes: int64 (n,) -> bool (n,)."""
        at = np.searchsorted(self.values, hashes)
        found: NDArray[np.bool_] = np.append(self.values, 0)[at] == hashes
        return found & (at < len(self.values))


def _parts(column: DataFrame) -> Iterator[NDArray[np.int64]]:
    """The values of a frame's only column, which are integers, in parts."""

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            some = pa.array([batch.column(0).to_numpy().tobytes()], pa.binary())
            yield pa.RecordBatch.from_arrays([some], ["packed"])

    # Spark takes the dots of some names for fields.
    rows = column.toDF("value").mapInArrow(guarded(packed), "packed binary").toLocalIterator()
    return (np.frombuffer(row.packed, np.int64) for row in rows)


def among(held: Places | Hashes, df: DataFrame, column: Column) -> Column:
    """True for the rows of a frame whose value in a column is in a set, which is sent to all tasks."""
    sent = df.sparkSession.sparkContext.broadcast(held)

    def contained(some: pd.Series) -> pd.Series:
        return pd.Series(sent.value.contain(some.to_numpy()))

    # PySpark types what is called by a function's annotations, which mypy cannot follow.
    found: Column = pandas_udf(contained, "boolean")(column)  # type: ignore[call-overload]  # of PySpark
    return found


def _lines(places: NDArray[np.int64]) -> NDArray[np.int64]:
    return places >> PART_BITS & ((1 << LINE_BITS) - 1)
