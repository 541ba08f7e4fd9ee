"""What was found in a corpus: counts of all of it, of its sources and of its largest groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.rejects import Counts
from simhbase.jobs.groups import Groups
from simhbase.jobs.pipeline import Batch

LARGEST = 5  # groups that are named
SOURCES = 100  # that are named: more are no summary any more
EMPTIED = 0.9  # of a source's documents: few corpora repeat themselves so much, mistaken matches do
EMPTIED_FROM = 100  # documents


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What was found in one source: a file, or the folder that was given.

    documents: without those that were rejected; duplicates: those of them that another one stands for,
    wherever that is; removed: their share, 0 to 1.
    """

    source: str
    documents: int
    duplicates: int
    removed: float


@dataclass(frozen=True, slots=True)
class GroupSize:
    """A group: the id of its first document, which names it, and how many it has."""

    group: str
    documents: int


@dataclass(frozen=True)
class DedupReport:
    """What was found in a corpus.

    documents: how many were read, with those that were rejected; unique: one of each group, and those that
    are in none; duplicates: the others; groups: of two and more. sources: files, or folders that were
    given, in input order; of more than 100 those with the most duplicates. largest: the five largest groups,
    the largest first. counts: what could not be read, by kind; where nothing at all could
    (`counts.nothing_read`), the command ends with an error.
    """

    documents: int
    unique: int
    duplicates: int
    groups: int
    rejected: int
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts


class SourcesRead:
    """Which documents came from which source: two numbers for each, as a source's documents come one
    behind the other."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._folders = [Path(path) for path in paths if os.path.isdir(path)]  # noqa: PTH112  # never raises
        self._given_for = lru_cache(self._folder_or_file)
        self._numbers: dict[str, int] = {}
        self._runs: list[tuple[int, int]] = []  # a source's number, and how many documents came next from it

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        for file, some in groupby(map(attrgetter("source"), batch.records)):
            number = self._numbers.setdefault(self._given_for(file), len(self._numbers))
            before = self._runs.pop()[1] if self._runs and self._runs[-1][0] == number else 0
            self._runs.append((number, before + len(list(some))))

    def reports(self, unique: NDArray[np.bool_]) -> list[SourceReport]:
        """What became of each source's documents, in input order. unique: bool (n,), which are kept."""
        number, size = np.array(self._runs, dtype=np.int64).reshape(-1, 2).T
        fewer = np.add.reduceat(~unique, np.cumsum(size) - size, dtype=np.int64) if len(size) else size
        documents, duplicates = np.zeros((2, len(self._numbers)), dtype=np.int64)
        np.add.at(documents, number, size)
        np.add.at(duplicates, number, fewer)
        removed = (duplicates / np.maximum(documents, 1)).round(4)
        columns = (documents.tolist(), duplicates.tolist(), removed.tolist())
        return list(map(SourceReport, self._numbers, *columns))

    def _folder_or_file(self, file: str) -> str:
        return next((str(folder) for folder in self._folders if Path(file).is_relative_to(folder)), file)


def report_of(
    grouped: Groups,
    counts: Counts,
    sources: Sequence[SourceReport],
    ids: Callable[[Sequence[int]], list[str]],
    seconds: float,
) -> DedupReport:
    """Of groups, and what was counted while they were read. ids: those of some positions."""
    kept = int(np.count_nonzero(grouped.unique))
    return DedupReport(
        documents=len(grouped.unique) + counts.rejected,
        unique=kept,
        duplicates=len(grouped.unique) - kept,
        groups=grouped.count,
        rejected=counts.rejected,
        seconds=round(seconds, 3),
        sources=_most_repeated(sources),
        largest=_largest(grouped, ids),
        counts=counts,
    )


def warnings_of(sources: Iterable[SourceReport]) -> list[str]:
    """What a person should know of sources that are nearly gone."""
    return [
        f"{each.source}: {each.removed:.1%} of its {each.documents:,} documents are duplicates. Look at "
        "some of them (`duplicates`) before you leave them out"
        for each in sources
        if each.documents >= EMPTIED_FROM and each.duplicates > EMPTIED * each.documents
    ]


def _most_repeated(sources: Sequence[SourceReport]) -> tuple[SourceReport, ...]:
    numbers = sorted(range(len(sources)), key=lambda number: -sources[number].duplicates)[:SOURCES]
    return tuple(sources[number] for number in sorted(numbers))


def _largest(grouped: Groups, ids: Callable[[Sequence[int]], list[str]]) -> tuple[GroupSize, ...]:
    sizes = np.bincount(grouped.first)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    largest = largest[sizes[largest] > 1]
    return tuple(map(GroupSize, ids(largest.tolist()), sizes[largest].tolist()))
