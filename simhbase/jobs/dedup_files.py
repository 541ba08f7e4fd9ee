"""The files of dedup: what is kept, what is not, and why. What they take is put aside until groups are
known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import gettempdir
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import OutputFile, duplicate_line, plain_target, unique_line
from simhbase.corpus.record import WithoutFingerprint
from simhbase.corpus.spool import Spool
from simhbase.corpus.unique_output import unique_file
from simhbase.jobs.comparison import ComparedTexts
from simhbase.jobs.evidence import Rule, TextsCompared, evidence_line
from simhbase.jobs.groups import Groups
from simhbase.jobs.pipeline import Batch
from simhbase.model import Match

LINES_AT_ONCE = 4096


class DedupFile(Protocol):
    """One of them."""

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""

    def note_stored(self, found: Sequence[tuple[str, Match]]) -> None:
        """Takes documents that match a stored one, which are not put aside."""

    def abandon(self) -> None:
        """Leaves the file that was there before."""

    def write(self, grouped: Groups) -> None:
        """Writes what is to be said of those that were put aside."""


class UniqueFile:
    """Writes the list of unique documents, and behind them those without a fingerprint, where these come as
    such; keeps every record until it is known which ones are."""

    def __init__(self, stack: ExitStack, path: Path, inputs: Inputs) -> None:
        self._file = stack.enter_context(unique_file(path, inputs, of_use_in_part=False))
        self._spool = stack.enter_context(Spool(folder_of(path)))
        self._rejected = stack.enter_context(Spool(folder_of(path)))

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._spool.put_aside(unique_line(record, batch.bits) for record in batch.records)
        rejected = (item.record for item in batch.items if isinstance(item, WithoutFingerprint))
        self._rejected.put_aside(map(unique_line, rejected))

    def note_stored(self, found: Sequence[tuple[str, Match]]) -> None:
        """Nothing: these are duplicates."""

    def abandon(self) -> None:
        """Leaves the file that was there before."""
        self._file.abandon()

    def write(self, grouped: Groups) -> None:
        """Writes those that stand for themselves."""
        for spool, wanted in (
            (self._spool, grouped.unique),
            (self._rejected, np.ones(len(self._rejected), dtype=np.bool_)),
        ):
            for chunk in _chunks(wanted):
                self._file.write(spool.read(chunk.tolist()))


class Ids:
    """Keeps every id until it is known which are asked for: those of duplicates, those that name groups."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._spool = stack.enter_context(Spool(folder))

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._spool.put_aside(each.encode() for each in batch.ids)

    def of(self, documents: Sequence[int]) -> list[str]:
        """Those of these documents."""
        return [each.decode() for each in self._spool.read(documents)]


class DuplicatesFile:
    """Writes the list of duplicates."""

    def __init__(self, stack: ExitStack, path: Path, ids: Ids) -> None:
        self._file = stack.enter_context(OutputFile(path, of_use_in_part=False))
        self._ids = ids

    def put_aside(self, batch: Batch) -> None:
        """Nothing: ids are enough."""

    def note_stored(self, found: Sequence[tuple[str, Match]]) -> None:
        """Writes duplicates of stored documents, which name their groups."""
        self._file.write(
            duplicate_line(document, match.id, match.distance, match.similarity, match.id)
            for document, match in found
        )

    def abandon(self) -> None:
        """Leaves the file that was there before."""
        self._file.abandon()

    def write(self, grouped: Groups) -> None:
        """Writes those that do not stand for themselves, each with the one that does."""
        first = grouped.first
        for chunk in _chunks(~grouped.unique):
            names = (
                self._ids.of(documents.tolist())
                for documents in (chunk, grouped.representative[chunk], first[chunk])
            )
            lines = zip(*names, grouped.distance[chunk].tolist(), _similarities(grouped, chunk), strict=True)
            self._file.write(
                duplicate_line(each, by, far, similar, group) for each, by, group, far, similar in lines
            )


class EvidenceFile:
    """Writes why each duplicate is one.

    rule: by what documents of the inputs match; stored_rule: by what they match those of a store; texts:
    those of the inputs, None where there are none.
    """

    def __init__(
        self,
        stack: ExitStack,
        path: Path,
        ids: Ids,
        rule: Rule,
        stored_rule: Rule,
        texts: ComparedTexts | None,
    ) -> None:
        self._file = stack.enter_context(OutputFile(path, of_use_in_part=False))
        self._ids = ids
        self._rule = rule
        self._stored_rule = stored_rule
        self._texts = texts

    def put_aside(self, batch: Batch) -> None:
        """Nothing: ids are kept, and texts where they are compared."""

    def note_stored(self, found: Sequence[tuple[str, Match]]) -> None:
        """Writes what matches a stored document, of which nobody has the text."""
        self._file.write(
            evidence_line(document, match.id, match.distance, match.similarity, self._stored_rule)
            for document, match in found
        )

    def abandon(self) -> None:
        """Leaves the file that was there before."""
        self._file.abandon()

    def write(self, grouped: Groups) -> None:
        """Writes of each that does not stand for itself what it has in common with the one that does."""
        for chunk in _chunks(~grouped.unique):
            others = grouped.representative[chunk]
            names = (self._ids.of(documents.tolist()) for documents in (chunk, others))
            lines = zip(
                *names,
                grouped.distance[chunk].tolist(),
                _similarities(grouped, chunk),
                self._compared(chunk, others),
                strict=True,
            )
            self._file.write(
                evidence_line(each, by, far, similar, self._rule, compared)
                for each, by, far, similar, compared in lines
            )

    def _compared(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Iterator[TextsCompared | None]:
        """What the texts of m pairs say, which are read one pair after the other: they may be long."""
        if self._texts is None:
            yield from [None] * len(left)
            return
        similarity = self._texts.similarity(left, right).tolist()
        for one, other, jaccard in zip(left.tolist(), right.tolist(), similarity, strict=True):
            removed, kept = self._texts.read([one, other])
            yield TextsCompared.of(removed, kept, jaccard, self._texts.form)


def folder_of(*outputs: str | Path | None) -> Path:
    """That of the first plain file, which has room for it; else that for temporary files."""
    plain = (Path(path) for path in outputs if path and plain_target(Path(path)))
    return next((path.parent for path in plain), Path(gettempdir()))


def _similarities(grouped: Groups, documents: NDArray[np.int64]) -> list[float | None]:
    if grouped.similarity is None:
        return [None] * len(documents)
    return list(grouped.similarity[documents].tolist())


def _chunks(chosen: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """The positions of the chosen among n documents, so many at a time as are written together."""
    positions = np.flatnonzero(chosen)
    for start in range(0, len(positions), LINES_AT_ONCE):
        yield positions[start : start + LINES_AT_ONCE]
