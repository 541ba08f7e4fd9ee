"""The output files of dedup, written in one pass when groups are known. Until then documents are spooled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import repeat
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs.files import (
    Duplicate,
    OutputFile,
    counted_line,
    duplicate_line,
    require_new_field,
    unique_line,
)
from simhbase.corpus.outputs.unique import unique_file
from simhbase.corpus.record import WithoutFingerprint
from simhbase.deduplication.evidence import ComparedTexts, Rule, evidence_line
from simhbase.deduplication.matching import SpooledTexts
from simhbase.drawers.groups import Groups
from simhbase.jobs.pipeline import Batch
from simhbase.process.plain_files import plain_target
from simhbase.process.slices import Numbers, bounded_slices
from simhbase.process.spool import Spool, SpooledRows

LINES_AT_ONCE = 4096
BYTES_AT_ONCE = 8 << 20  # of lines, which may be as long as any record


class DedupFiles:
    """Writes kept documents to `unique`, followed by those rejected without a fingerprint (if they are kept);
    duplicates to `duplicates`, and reasons to `evidence`.

    files: requested files by option; folder: for spooled ids and documents; rule: why documents of the inputs
    match each other; stored_rule: why they match stored documents; texts: of the inputs, None if they are not
    compared; count_field: a new field of kept documents for the sizes of their groups, None for none.
    """

    def __init__(
        self,
        stack: ExitStack,
        files: Mapping[str, Path],
        inputs: Inputs,
        folder: Path,
        rule: Rule,
        stored_rule: Rule,
        texts: SpooledTexts | None,
        count_field: str | None = None,
    ) -> None:
        self._files = {
            option: stack.enter_context(
                unique_file(path, inputs, keep_partial=False, count_field=count_field)
                if option == "unique"
                else OutputFile(path, keep_partial=False)
            )
            for option, path in files.items()
        }
        self._ids, self._lines, self._rejected, self._sources = (
            stack.enter_context(closing(Spool(folder))) for _ in range(4)
        )
        # Of each document: the position of its source in `_sources`, and its line.
        places = SpooledRows(folder, np.empty((0, 2), dtype=np.int64))
        self._places = stack.enter_context(closing(places))
        self._source: str | None = None  # of the last document
        self._rule = rule
        self._stored_rule = stored_rule
        self._texts = texts
        self._count_field = count_field
        # Not in every list of duplicates: it takes as long as their similarity.
        self._shows_containment = "evidence" in files or (texts and texts.min_containment is not None)

    def append(self, batch: Batch) -> None:
        self._ids.append(each.encode() for each in batch.ids)
        if "unique" in self._files:
            lines = [unique_line(record, batch.bits) for record in batch.records]
            rejected = [item.record for item in batch.items if isinstance(item, WithoutFingerprint)]
            rejected_lines = list(map(unique_line, rejected))
            if self._count_field is not None:
                for record, line in zip([*batch.records, *rejected], lines + rejected_lines, strict=True):
                    require_new_field(record, line, self._count_field, "count_field")
            self._lines.append(lines)
            self._rejected.append(rejected_lines)
        if self._files.keys() - {"unique"}:
            known, names, places = len(self._sources), list[bytes](), list[tuple[int, int]]()
            for record in batch.records:
                if record.source != self._source:
                    self._source = record.source
                    names.append(record.source.encode("utf-8", "surrogateescape"))
                places.append((known + len(names) - 1, record.line))
            self._sources.append(names)
            self._places.append(np.array(places, dtype=np.int64).reshape(-1, 2))

    def note_stored(self, found: Sequence[Duplicate]) -> None:
        """Write duplicates of stored documents, whose texts are unknown. These are not spooled."""
        if "duplicates" in self._files:
            self._files["duplicates"].write(map(duplicate_line, found))
        if "evidence" in self._files:
            self._files["evidence"].write(map(evidence_line, found, repeat(self._stored_rule)))

    def ids(self, documents: Sequence[int]) -> list[str]:
        return [each.decode() for each in self._ids.read(documents)]

    def abandon(self) -> None:
        """Keep the files that existed before."""
        for file in self._files.values():
            file.abandon()

    def write(self, grouped: Groups) -> None:
        # Number of documents that each one stands for, with itself: 0 if it is removed.
        sizes_of = np.bincount(grouped.representative, minlength=len(grouped.representative))
        ones = np.ones(len(self._rejected), dtype=np.int64)
        for spool, sizes in ((self._lines, sizes_of), (self._rejected, ones)):
            for chunk in _chunks(sizes > 0) if "unique" in self._files else ():
                for some in bounded_slices(spool.sizes(chunk), BYTES_AT_ONCE):
                    lines = spool.read(chunk[some].tolist())
                    if self._count_field is not None:
                        counts = sizes[chunk[some]].tolist()
                        lines = list(map(counted_line, lines, repeat(self._count_field), counts))
                    self._files["unique"].write(lines)
        for chunk in _chunks(~grouped.unique) if self._files.keys() - {"unique"} else ():
            self._write_duplicates(grouped, chunk)

    def _write_duplicates(self, grouped: Groups, chunk: NDArray[np.int64]) -> None:
        columns = [*columns_of(grouped, chunk, self.ids, self._texts if self._shows_containment else None)]
        for documents in (chunk, grouped.representative[chunk]):
            places = self._places[documents]
            names = self._sources.read(places[:, 0].tolist())
            columns += [each.decode("utf-8", "surrogateescape") for each in names], places[:, 1].tolist()
        duplicates = list(map(Duplicate, *columns))
        if "duplicates" in self._files:
            self._files["duplicates"].write(map(duplicate_line, duplicates))
        if "evidence" in self._files:
            texts = self._compared(chunk, grouped.representative[chunk])
            self._files["evidence"].write(map(evidence_line, duplicates, repeat(self._rule), texts))

    def _compared(self, left: Numbers, right: Numbers) -> Iterator[ComparedTexts | None]:
        # One pair at a time: texts may be long.
        if self._texts is None:
            yield from [None] * len(left)
            return
        similarity = self._texts.similarity(left, right).tolist()
        for one, other, jaccard in zip(left.tolist(), right.tolist(), similarity, strict=True):
            removed, kept = self._texts.read([one, other])
            yield ComparedTexts(removed, kept, jaccard, self._texts.variants)


def columns_of(
    grouped: Groups,
    documents: NDArray[np.int64],
    ids: Callable[[Sequence[int]], list[str]],
    texts: SpooledTexts | None,
) -> tuple[list[Any], ...]:
    """Columns for n documents: ids, ids of their representatives, distances and similarities to these,
    containment in them (None if unknown), and ids that name the groups. ids: returns the ids of documents by
    position; texts: None if they are unknown."""
    others, first = grouped.representative[documents], grouped.first[documents]
    names, kept, groups = (ids(each.tolist()) for each in (documents, others, first))
    similarity = grouped.similarity
    alike = [None] * len(documents) if similarity is None else similarity[documents].tolist()
    shares = None if texts is None else texts.containment(documents, others)
    contained = [None] * len(documents) if shares is None else shares.tolist()
    return names, kept, grouped.distance[documents].tolist(), alike, contained, groups


def folder_of(*outputs: str | Path | None) -> Path:
    """Folder of the first plain output file, which probably has enough space; else that for temporary
    files."""
    plain = (Path(path) for path in outputs if path and plain_target(Path(path)))
    return next((path.parent for path in plain), Path(gettempdir()))


def _chunks(chosen: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """Positions of the chosen documents, in chunks to write at once."""
    positions = np.flatnonzero(chosen)
    for start in range(0, len(positions), LINES_AT_ONCE):
        yield positions[start : start + LINES_AT_ONCE]
