"""The near-duplicates within one corpus, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import OutputFile, duplicate_line, plain_target, unique_line
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Value
from simhbase.corpus.rejects import Counts
from simhbase.corpus.spool import Spool
from simhbase.corpus.trim import Measured, text_alone, unique_trim, without_content
from simhbase.corpus.watcher import Watcher
from simhbase.errors import BadInput, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.comparison import ComparedTexts, Comparison
from simhbase.jobs.groups import Compared, Groups, groups, stars
from simhbase.jobs.pipeline import Batch, ChunkFingerprinter, without_repeats
from simhbase.jobs.representative import Preference, preference, text_among_numbers
from simhbase.profile import Profile

LINES_AT_ONCE = 4096


@dataclass(frozen=True)
class DedupReport:
    """What was found in a corpus.

    documents: how many were read, with those that were rejected; unique: one of each group, and those that
    are in none; duplicates: the others; groups: of two and more. counts: what could not be read, by kind;
    where nothing at all could (`counts.nothing_read`), the command ends with an error.
    """

    documents: int
    unique: int
    duplicates: int
    groups: int
    rejected: int
    seconds: float
    counts: Counts


def dedup(
    inputs: Inputs | str | Path | Sequence[str | Path],
    profile: Profile | Mapping[str, object] | None = None,
    *,
    min_similarity: float | None = None,
    representative: str | Preference | None = "first",
    chains: bool = True,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
) -> DedupReport:
    """Finds the near-duplicates within one corpus.

    profile: how texts become fingerprints and which of these match, or some of its parameters by name; a
    layout is chosen for its k where none is given. min_similarity: matches must also share so much of their
    shingles, counted exactly. representative: which document of a group is its representative: "first" in
    input order, "longest", or with the greatest ("-FIELD": least) value of a field. chains: a group is a
    connected component; else a representative and what matches it. unique, duplicates: files to write the
    documents that are kept to, and the others with their representatives and groups, as JSON lines: the
    report has their numbers alone.

    Fingerprints and values are kept in memory; what is written, and the texts for min_similarity, on disk
    until the end. Raises UsageError for what does not go together, before anything is read;
    TooManyRejects.
    """
    inputs = Inputs.of(inputs)
    inputs.require_outputs(unique, duplicates)
    start = monotonic()
    comparison = Comparison.of(profile, min_similarity)
    preferred = preference(representative) if isinstance(representative, str) else representative
    inputs = _with_fields(inputs, comparison, preferred)
    if inputs.options.fingerprint_field is not None and comparison.tells_similarity(min_similarity):
        raise UsageError("`fingerprint_field`: fingerprints do not tell similarities. Give the texts")
    values = None if preferred is None else _Values(preferred, inputs.options, inputs.watcher)
    with ExitStack() as stack:
        rejects = stack.enter_context(inputs.noting_rejects())
        files = [
            kind(stack, Path(path))
            for kind, path in ((_UniqueFile, unique), (_DuplicatesFile, duplicates))
            if path
        ]
        exact = None
        if min_similarity is not None:
            exact = stack.enter_context(ComparedTexts(comparison.profile, min_similarity))
        work = _work(inputs.options, comparison.profile, values, writes=bool(unique), keeps_texts=bool(exact))
        kept = _Kept(comparison, exact, values)
        batches = stack.enter_context(closing(inputs.each(work)))
        for batch in without_repeats(batches):
            rejects.note(batch)
            for each in (kept, *files):
                each.put_aside(batch)
        grouped = kept.grouped(groups if chains else stars)
        for file in files:
            if rejects.counts.nothing_read:
                file.abandon()
            file.write(grouped)
    return _report(grouped, rejects.counts, monotonic() - start)


def _with_fields(inputs: Inputs, comparison: Comparison, preferred: Preference | None) -> Inputs:
    """The same inputs, read for fingerprints of the profile's length and what documents are preferred by."""
    options = replace(
        inputs.options,
        fingerprint_bits=comparison.profile.fingerprint_bits,
        value_field=None if preferred is None else preferred.field,
    )
    return replace(inputs, options=options)


def _work(
    options: InputOptions, profile: Profile, values: _Values | None, *, writes: bool, keeps_texts: bool
) -> ChunkFingerprinter:
    """What worker processes do with documents, and what they leave of them."""
    trim = unique_trim(options) if writes else text_alone if keeps_texts else without_content
    trim = values.noted(trim) if values else trim
    return ChunkFingerprinter(Parser(options), None if options.fingerprint_field else profile, trim)


def _report(grouped: Groups, counts: Counts, seconds: float) -> DedupReport:
    kept = int(np.count_nonzero(grouped.unique))
    return DedupReport(
        documents=len(grouped.unique) + counts.rejected,
        unique=kept,
        duplicates=len(grouped.unique) - kept,
        groups=grouped.count,
        rejected=counts.rejected,
        seconds=round(seconds, 3),
        counts=counts,
    )


class _Kept:
    """What groups are made of: fingerprints, texts where they are compared, values where one is preferred."""

    def __init__(self, comparison: Comparison, exact: ComparedTexts | None, values: _Values | None) -> None:
        self._comparison = comparison
        self._exact = exact
        self._values = values
        self._fingerprints = [comparison.nothing]

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._fingerprints.append(batch.fingerprints)
        for each in (self._exact, self._values):
            if each:
                each.put_aside(batch)

    def grouped(self, make: Callable[[Compared, NDArray[np.int64] | None], Groups]) -> Groups:
        """The groups of all of them."""
        fingerprints = FingerprintBatch.joined(self._fingerprints)
        compared = Compared(
            fingerprints,
            self._comparison.scheme(len(fingerprints)),
            self._comparison.bounds,
            self._exact.exact() if self._exact else None,
        )
        return make(compared, self._values.order() if self._values else None)


class _Values:
    """Keeps what documents are preferred by. Raises UsageError where the inputs have no such thing."""

    def __init__(self, preferred: Preference, options: InputOptions, watcher: Watcher) -> None:
        if preferred.field is None and options.fingerprint_field is not None:
            raise UsageError("`representative='longest'`: fingerprints have no length. Give the texts")
        if preferred.field is not None and options.format in ("text", "html", "lines", "warc"):
            raise UsageError(f"`representative`: documents of `format={options.format!r}` have no fields")
        self._preferred = preferred
        self._watcher = watcher
        self._values: list[Value | None] = []

    def noted(self, trim: Callable[[Record], Record]) -> Callable[[Record], Record]:
        """The same trim, which leaves a record its value."""
        return Measured(trim) if self._preferred.field is None else trim

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._values += [record.value for record in batch.records]

    def order(self) -> NDArray[np.int64]:
        """The documents, the most preferred first. Raises BadInput where none has a value."""
        field = self._preferred.field
        if self._values and all(value is None for value in self._values):
            raise BadInput(f"`representative`: no document has anything in a field {field!r}")
        if text := text_among_numbers(self._values):
            self._watcher.note(
                f"`representative`: {field!r} is compared as text: {text[:40]!r} is no number, others are"
            )
        return self._preferred.order(self._values)


class _UniqueFile:
    """Writes the list of unique documents; keeps every record until it is known which ones are."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self._file = stack.enter_context(OutputFile(path, of_use_in_part=False))
        self._spool = stack.enter_context(Spool(_beside(path)))

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._spool.put_aside(unique_line(record, batch.bits) for record in batch.records)

    def abandon(self) -> None:
        """Leaves the file that was there before."""
        self._file.abandon()

    def write(self, grouped: Groups) -> None:
        """Writes those that stand for themselves."""
        for chunk in _chunks(grouped.unique):
            self._file.write(self._spool.read(chunk.tolist()))


class _DuplicatesFile:
    """Writes the list of duplicates; keeps every id until it is known what is a duplicate of what."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self._file = stack.enter_context(OutputFile(path, of_use_in_part=False))
        self._spool = stack.enter_context(Spool(_beside(path)))

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._spool.put_aside(each.encode() for each in batch.ids)

    def abandon(self) -> None:
        """Leaves the file that was there before."""
        self._file.abandon()

    def write(self, grouped: Groups) -> None:
        """Writes those that do not stand for themselves, each with the one that does."""
        first = grouped.first
        for chunk in _chunks(~grouped.unique):
            similarity = (
                [None] * len(chunk) if grouped.similarity is None else grouped.similarity[chunk].tolist()
            )
            names = (
                self._ids(documents) for documents in (chunk, grouped.representative[chunk], first[chunk])
            )
            lines = zip(*names, grouped.distance[chunk].tolist(), similarity, strict=True)
            self._file.write(
                duplicate_line(each, by, far, similar, group) for each, by, group, far, similar in lines
            )

    def _ids(self, documents: NDArray[np.int64]) -> list[str]:
        return [each.decode() for each in self._spool.read(documents.tolist())]


def _beside(path: Path) -> Path:
    """The folder of a plain file, which has room for it; of others that for temporary files."""
    return path.parent if plain_target(path) else Path(gettempdir())


def _chunks(chosen: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """The positions of the chosen among n documents, so many at a time as are written together."""
    positions = np.flatnonzero(chosen)
    for start in range(0, len(positions), LINES_AT_ONCE):
        yield positions[start : start + LINES_AT_ONCE]
