"""The report of dedup: counts of all documents, of sources, and of the largest groups."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import Record, SourceReject
from simhbase.corpus.rejects import Counts
from simhbase.drawers.groups import Groups
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.source_report import (
    GATHERED_FROM,
    SourceNames,
    SourceReport,
    warning_of_gathered,
    weightiest,
)
from simhbase.process.spool import Spool
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
    in no group); duplicates: the others; not_contained: those kept because the document they are near to does
    not contain them, with `min_containment`; truncated: those kept without a comparison with all that they
    are near to, in a crowd of near texts that do not match; duplicates_of_stored: duplicates of a stored
    document, with `against`; group_count: number of groups of two or more. unreadable_sources: files and
    folders that could not be read; unusable_sources: files of at least 10 records, of which fewer than a
    tenth could be used.
    sources: counts by source (see `Inputs.by_source`) in input order; if more than 100 (of files or
    folders 1,000), those with the most duplicates, rejects and unreadable files.
    largest: the five largest groups. counts: rejected records and unreadable sources, by kind; if nothing
    could be read (`counts.nothing_read`), the command fails.
    """

    documents: int
    unique: int
    duplicates: int
    not_contained: int
    truncated: int
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
    """Remembers the source of each document. Takes some numbers of memory a source. names: empty, gets the
    names of sources."""

    def __init__(self, inputs: Inputs, names: Spool) -> None:
        self._given = SourceNames(inputs)
        self._names = names
        self._numbers: dict[str, int] = {}
        self._documents, self._rejected, self._unreadable = array("q"), array("q"), array("q")
        self._runs, self._sizes = array("q"), array("q")  # number of a source, documents in a row from it

    def append(self, batch: Batch) -> None:
        known = len(self._documents)
        names: list[bytes] = []
        for source, run in self._given.runs(batch.items):
            number = self._number(source)
            if number == known + len(names):
                names.append(source.encode("utf-8", "surrogateescape"))
            documents = sum(isinstance(item, Record) for item in run)
            unreadable = sum(isinstance(item, SourceReject) for item in run)
            self._documents[number] += documents
            self._rejected[number] += len(run) - documents - unreadable
            self._unreadable[number] += unreadable
            if not self._runs or self._runs[-1] != number:
                self._runs.append(number)
                self._sizes.append(0)
            self._sizes[-1] += documents
        self._names.append(names)

    def _number(self, source: str) -> int:
        number = self._numbers.get(source)
        if number is None:
            if self._given.are_files:  # which may be very many, and come once
                self._numbers.clear()
            number = self._numbers[source] = len(self._documents)
            for counts in (self._documents, self._rejected, self._unreadable):
                counts.append(0)
        return number

    def gathered(self, grouped: Groups, free: NDArray[np.bool_]) -> list[tuple[str, int, int, int, int]]:
        """Sources of which one document stands for more than half: source, number of its documents, those
        that the document stands for, its position, and the position of one of them. free: bool (n,), which
        of all documents were grouped."""
        if max(self._documents, default=0) < GATHERED_FROM:
            return []
        # A document that stands for more than half of a source does so in one of its pieces.
        likely: dict[int, set[int]] = {}
        for number, size, part in self._pieces(free):
            stands, counts = np.unique(_kept_for(grouped, part)[1], return_counts=True)
            likely.setdefault(number, set()).update(stands[2 * counts > size].tolist())
        found: dict[tuple[int, int], tuple[int, int]] = {}  # number of documents, position of the first
        for number, _, part in self._pieces(free):
            removed, stands = _kept_for(grouped, part)
            names, first, counts = np.unique(stands, return_index=True, return_counts=True)
            for kept, place, taken in zip(names.tolist(), first.tolist(), counts.tolist(), strict=True):
                if kept in likely[number]:  # a source with files between those of others has very many
                    count, example = found.get((number, kept), (0, int(removed[place])))
                    found[number, kept] = count + taken, example
        return [
            (self._name(number), self._documents[number], count, kept, example)
            for (number, kept), (count, example) in found.items()
            if 2 * count > self._documents[number]
        ]

    def _name(self, number: int) -> str:
        return self._names.read([number])[0].decode("utf-8", "surrogateescape")

    def _pieces(self, free: NDArray[np.bool_]) -> Iterator[tuple[int, int, slice]]:
        """Pieces of sources, so that memory does not grow with documents: number of the source, number of
        documents, and those of them that were grouped. free: as in `gathered`."""
        start = place = 0
        for number, size in zip(self._runs, self._sizes, strict=True):
            for begin in range(start, start + size, PIECE):
                those = free[begin : min(begin + PIECE, start + size)]
                grouped = int(np.count_nonzero(those))
                if self._documents[number] >= GATHERED_FROM:
                    yield number, len(those), slice(place, place + grouped)
                place += grouped
            start += size

    def reports(self, unique: NDArray[np.bool_]) -> tuple[SourceReport, ...]:
        """Reports of the weightiest sources. unique: bool (n,), documents that are kept."""
        duplicates, start = array("q", bytes(8 * len(self._documents))), 0
        for number, size in zip(self._runs, self._sizes, strict=True):
            duplicates[number] += size - int(np.count_nonzero(unique[start : start + size]))
            start += size
        counts = zip(self._documents, duplicates, self._rejected, self._unreadable, strict=True)
        reports = (SourceReport.of(str(number), *each) for number, each in enumerate(counts))
        found = weightiest(reports, self._given.most)
        names = self._names.read([int(each.source) for each in found])
        return tuple(
            replace(each, source=name.decode("utf-8", "surrogateescape"))
            for each, name in zip(found, names, strict=True)
        )


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
    kept, sizes = int(np.count_nonzero(grouped.unique)), np.bincount(grouped.first)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    largest = largest[sizes[largest] > 1]
    return DedupReport(
        documents=len(grouped.unique) + duplicates_of_stored + counts.rejected,
        unique=kept,
        duplicates=len(grouped.unique) + duplicates_of_stored - kept,
        not_contained=0 if grouped.apart is None else int(np.count_nonzero(grouped.apart & grouped.unique)),
        truncated=int(np.count_nonzero(grouped.truncated & grouped.unique)),
        duplicates_of_stored=duplicates_of_stored,
        group_count=grouped.count,
        rejected=counts.rejected,
        unreadable_sources=counts.unreadable_sources,
        unusable_sources=counts.unusable_sources,
        seconds=round(seconds, 3),
        sources=tuple(sources),
        largest=tuple(map(GroupSize, ids(largest.tolist()), sizes[largest].tolist())),
        counts=counts,
    )
