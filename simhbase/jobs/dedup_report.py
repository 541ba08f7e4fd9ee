"""What was found in a corpus: counts of all of it, of its sources and of its largest groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Counts
from simhbase.jobs.groups import Groups
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.source_report import Given, SourceReport, most_repeated

LARGEST = 5  # groups that are named


@dataclass(frozen=True, slots=True)
class GroupSize:
    """A group: the id of its first document, which names it, and how many it has."""

    group: str
    documents: int


@dataclass(frozen=True)
class DedupReport:
    """What was found in a corpus.

    documents: how many were read, with those that were rejected; unique: one of each group, and those that
    are in none; duplicates: the others; duplicates_of_stored: those of them that match a document of the
    store, with `against`; groups: of two and more. unreadable_sources: files and folders that could not be
    read, of which nothing is known. sources: files, or folders that were given, in input order; of more than
    100 those with the most duplicates. largest: the five largest groups, the largest first. counts: what
    could not be read, by kind; where nothing at all could (`counts.nothing_read`), the command ends with an
    error.
    """

    documents: int
    unique: int
    duplicates: int
    duplicates_of_stored: int
    groups: int
    rejected: int
    unreadable_sources: int
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts


class SourcesRead:
    """Which documents came from which source: two numbers for each, as a source's documents come one
    behind the other."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._given = Given(paths)
        self._numbers: dict[str, int] = {}
        self._rejected: list[int] = []  # of each source
        self._runs: list[tuple[int, int]] = []  # a source's number, and how many documents came next from it

    def put_aside(self, batch: Batch) -> None:
        for source, run in self._given.runs(batch.items):
            number = self._numbers.setdefault(source, len(self._numbers))
            documents = sum(isinstance(item, Record) for item in run)
            if number == len(self._rejected):
                self._rejected.append(0)
            self._rejected[number] += len(run) - documents
            before = self._runs.pop()[1] if self._runs and self._runs[-1][0] == number else 0
            self._runs.append((number, before + documents))

    def reports(self, unique: NDArray[np.bool_]) -> list[SourceReport]:
        """What became of each source's documents, in input order. unique: bool (n,), which are kept."""
        runs = [run for run in self._runs if run[1]]
        number, size = np.array(runs, dtype=np.int64).reshape(-1, 2).T
        fewer = np.add.reduceat(~unique, np.cumsum(size) - size, dtype=np.int64) if len(size) else size
        documents, duplicates = np.zeros((2, len(self._numbers)), dtype=np.int64)
        np.add.at(documents, number, size)
        np.add.at(duplicates, number, fewer)
        columns = (documents.tolist(), duplicates.tolist(), self._rejected)
        return list(map(SourceReport.of, self._numbers, *columns))


def report_of(
    grouped: Groups,
    counts: Counts,
    sources: Sequence[SourceReport],
    ids: Callable[[Sequence[int]], list[str]],
    *,
    duplicates_of_stored: int,
    seconds: float,
) -> DedupReport:
    """Of groups, and what was counted while they were read. ids: those of some positions."""
    kept = int(np.count_nonzero(grouped.unique))
    return DedupReport(
        documents=len(grouped.unique) + duplicates_of_stored + counts.rejected,
        unique=kept,
        duplicates=len(grouped.unique) + duplicates_of_stored - kept,
        duplicates_of_stored=duplicates_of_stored,
        groups=grouped.count,
        rejected=counts.rejected,
        unreadable_sources=counts.unreadable_sources,
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
