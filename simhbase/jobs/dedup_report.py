"""The report of dedup: counts of all documents, of sources, and of the largest groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Counts
from simhbase.jobs.groups import Groups
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.source_report import (
    GATHERED_FROM,
    Given,
    SourceReport,
    most_repeated,
    warning_of_gathered,
)
from simhbase.text.difference import REPEATS_ITSELF

LARGEST = 5  # groups listed
PIECE = 1 << 16  # documents


@dataclass(frozen=True, slots=True)
class GroupSize:
    """Size of a group. group: id of its first document; documents: their number."""

    group: str
    documents: int


@dataclass(frozen=True)
class DedupReport:
    """Result of `dedup`.

    documents: all documents read, including rejected ones; unique: documents kept (one per group, and those
    in no group); duplicates: the others; duplicates_of_stored: those that match a stored document, with
    `against`; group_count: number of groups of two or more. unreadable_sources: files and folders that could
    not be read; unusable_sources: files of at least 10 records, of which fewer than a tenth could be used.
    sources: the given files and folders in input order (if more than 100, those with the most duplicates).
    largest: the five largest groups. counts: rejected records and unreadable sources, by kind; if nothing
    could be read (`counts.nothing_read`), the command fails.
    """

    documents: int
    unique: int
    duplicates: int
    duplicates_of_stored: int
    group_count: int
    rejected: int
    unreadable_sources: int
    unusable_sources: tuple[str, ...]
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts


class SourcesRead:
    """Remembers the source of each document. Takes two numbers per run of documents from one source."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._given = Given(paths)
        self._numbers: dict[str, int] = {}
        self._rejected: list[int] = []  # of each source
        self._runs: list[tuple[int, int]] = []  # number of a source, number of documents in a row from it

    def append(self, batch: Batch) -> None:
        for source, run in self._given.runs(batch.items):
            number = self._numbers.setdefault(source, len(self._numbers))
            documents = sum(isinstance(item, Record) for item in run)
            if number == len(self._rejected):
                self._rejected.append(0)
            self._rejected[number] += len(run) - documents
            before = self._runs.pop()[1] if self._runs and self._runs[-1][0] == number else 0
            self._runs.append((number, before + documents))

    def gathered(self, grouped: Groups, free: NDArray[np.bool_]) -> list[tuple[str, int, int, int, int]]:
        """Sources of which one document stands for more than half: source, number of its documents, those
        that the document stands for, its position, and the position of one of them. free: bool (n,), which
        of all documents were grouped."""
        documents = [0] * len(self._numbers)
        # A document that stands for more than half of a source does so in one of its pieces.
        likely: dict[int, set[int]] = {}
        for number, size, part in self._pieces(free):
            documents[number] += size
            stands, counts = np.unique(_kept_for(grouped, part)[1], return_counts=True)
            likely.setdefault(number, set()).update(stands[2 * counts > size].tolist())
        found: dict[tuple[int, int], tuple[int, int]] = {}  # number of documents, position of the first
        for number, _, part in self._pieces(free):
            removed, stands = _kept_for(grouped, part)
            for kept in likely[number]:
                taken = removed[stands == kept]
                if len(taken):
                    count, example = found.get((number, kept), (0, int(taken[0])))
                    found[number, kept] = count + len(taken), example
        names = list(self._numbers)
        return [
            (names[number], documents[number], count, kept, example)
            for (number, kept), (count, example) in found.items()
            if documents[number] >= GATHERED_FROM and 2 * count > documents[number]
        ]

    def _pieces(self, free: NDArray[np.bool_]) -> Iterator[tuple[int, int, slice]]:
        """Pieces of sources, so that memory does not grow with documents: number of the source, number of
        documents, and those of them that were grouped. free: as in `gathered`."""
        start = place = 0
        for number, size in self._runs:
            for begin in range(start, start + size, PIECE):
                those = free[begin : min(begin + PIECE, start + size)]
                grouped = int(np.count_nonzero(those))
                yield number, len(those), slice(place, place + grouped)
                place += grouped
            start += size

    def reports(self, unique: NDArray[np.bool_]) -> list[SourceReport]:
        """Reports by source, in input order. unique: bool (n,), documents that are kept."""
        documents, duplicates = [0] * len(self._numbers), [0] * len(self._numbers)
        start = 0
        for number, size in self._runs:
            documents[number] += size
            duplicates[number] += size - int(np.count_nonzero(unique[start : start + size]))
            start += size
        return list(map(SourceReport.of, self._numbers, documents, duplicates, self._rejected))


def _kept_for(grouped: Groups, part: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the removed documents of a part, and of those that are kept for them."""
    own = np.arange(part.start, part.stop)
    kept = grouped.representative[part]
    return own[kept != own], kept[kept != own]


def warnings_about(
    grouped: Groups,
    sources: Sequence[tuple[str, int, int, int, int]],
    ids: Callable[[Sequence[int]], list[str]],
    repeats: Callable[[int], bool],
) -> list[str]:
    """Warnings about sources of which one document stands for most, and about large groups of texts whose
    similarity says little. sources: as in `SourcesRead.gathered`; ids: as in `report_of`; repeats: True for
    a document that repeats itself."""
    said = []
    for source, documents, taken, kept, example in sources:
        one, other = ids([example, kept])
        said.append(warning_of_gathered(source, documents, taken, other, one) + _little(repeats(kept)))
    named = {kept for _, _, _, kept, _ in sources}
    sizes = np.bincount(grouped.representative)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    for kept in largest[sizes[largest] > 1].tolist():
        if kept not in named and repeats(kept):
            (name,) = ids([kept])
            said.append(f"the group of {name} has {sizes[kept]:,} documents" + _little(True))
    return said


def _little(is_repetitive: bool) -> str:
    return f": {REPEATS_ITSELF}" if is_repetitive else ""


def report_of(
    grouped: Groups,
    counts: Counts,
    sources: Sequence[SourceReport],
    ids: Callable[[Sequence[int]], list[str]],
    *,
    duplicates_of_stored: int,
    seconds: float,
) -> DedupReport:
    """Create the report. ids: returns the ids of documents by position."""
    kept = int(np.count_nonzero(grouped.unique))
    return DedupReport(
        documents=len(grouped.unique) + duplicates_of_stored + counts.rejected,
        unique=kept,
        duplicates=len(grouped.unique) + duplicates_of_stored - kept,
        duplicates_of_stored=duplicates_of_stored,
        group_count=grouped.count,
        rejected=counts.rejected,
        unreadable_sources=counts.unreadable_sources,
        unusable_sources=counts.unusable_sources,
        seconds=round(seconds, 3),
        sources=most_repeated(sources),
        largest=_largest(grouped, ids),
        counts=counts,
    )


def _largest(grouped: Groups, ids: Callable[[Sequence[int]], list[str]]) -> tuple[GroupSize, ...]:
    sizes = np.bincount(grouped.first)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    largest = largest[sizes[largest] > 1]
    return tuple(map(GroupSize, ids(largest.tolist()), sizes[largest].tolist()))
