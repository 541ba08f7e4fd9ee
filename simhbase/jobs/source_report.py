"""What became of the sources of a corpus: files, or the folders that were given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from simhbase.corpus.paths import local_path
from simhbase.corpus.record import Record, Reject, SourceReject
from simhbase.corpus.remote import public_name

SourceTally = tuple[int, int, int]  # documents, duplicates, rejects
SOURCES = 100  # that are named: more are no summary any more
EMPTIED = 0.9  # of a source's documents: few corpora repeat themselves so much, mistaken matches do
EMPTIED_FROM = 100  # documents


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What was found in one source: a file, or the folder that was given.

    documents: without those that were rejected; duplicates: those of them that another one stands for,
    wherever that is; removed: their share, 0 to 1; rejected: records that could not be used.
    """

    source: str
    documents: int
    duplicates: int
    removed: float
    rejected: int

    @classmethod
    def of(cls, source: str, documents: int, duplicates: int, rejected: int) -> SourceReport:
        return cls(source, documents, duplicates, round(duplicates / max(documents, 1), 4), rejected)


class Given:
    """Names the source that a file belongs to, as people gave it."""

    def __init__(self, given: Sequence[str]) -> None:
        local = [str(Path(path)) for path in map(local_path, given) if path and os.path.isdir(path)]  # noqa: PTH112  # never raises
        # Only of a folder there can be files below a URL.
        self._folders = [*local, *(public_name(each) for each in given if local_path(each) is None)]
        self._given_for = lru_cache(self._folder_or_file)

    def runs(self, items: Iterable[Record | Reject]) -> Iterator[tuple[str, list[Record | Reject]]]:
        """Items by their source, those in one piece that come one behind the other. Sources that could not be
        read are no items."""
        for file, some in groupby(items, attrgetter("source")):
            if found := [item for item in some if not isinstance(item, SourceReject)]:
                yield self._given_for(file), found

    def _folder_or_file(self, file: str) -> str:
        return next((folder for folder in self._folders if Path(file).is_relative_to(folder)), file)


class SourceCounts:
    """Counts of documents, duplicates and rejects, by source in input order."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._given = Given(paths)
        self._counts: dict[str, SourceTally] = {}

    def of(self, items: Sequence[Record | Reject], duplicates: Iterable[bool]) -> dict[str, SourceTally]:
        """Those of some items. duplicates: which of the records are."""
        said, counts = iter(duplicates), dict[str, SourceTally]()
        for source, run in self._given.runs(items):
            documents = sum(isinstance(item, Record) for item in run)
            removed = sum(next(said) for _ in range(documents))
            counts[source] = _sum(counts.get(source), (documents, removed, len(run) - documents))
        return counts

    def add(self, counts: Mapping[str, Sequence[int]]) -> None:
        for source, (documents, duplicates, rejected) in counts.items():
            self._counts[source] = _sum(self._counts.get(source), (documents, duplicates, rejected))

    def reports(self) -> list[SourceReport]:
        return [SourceReport.of(source, *counts) for source, counts in self._counts.items()]


def _sum(a: SourceTally | None, b: SourceTally) -> SourceTally:
    return b if a is None else (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def most_repeated(sources: Sequence[SourceReport]) -> tuple[SourceReport, ...]:
    """All of them, or of very many those with the most duplicates; in input order."""
    numbers = sorted(range(len(sources)), key=lambda number: -sources[number].duplicates)[:SOURCES]
    return tuple(sources[number] for number in sorted(numbers))


def warnings_of(sources: Iterable[SourceReport]) -> list[str]:
    """What a person should know of sources that are nearly gone."""
    return [
        f"{each.source}: {each.removed:.1%} of its {each.documents:,} documents are duplicates. Look at "
        "some of them before you leave them out"
        for each in sources
        if each.documents >= EMPTIED_FROM and each.duplicates > EMPTIED * each.documents
    ]
