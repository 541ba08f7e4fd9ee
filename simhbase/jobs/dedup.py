"""The near-duplicates within one corpus, without a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import cast, overload

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Value
from simhbase.corpus.spool import SpooledRows
from simhbase.corpus.trim import Measured, text_alone, unique_trim, without_content
from simhbase.corpus.unique_output import require_written
from simhbase.corpus.watcher import ProgressOnly, Watcher
from simhbase.errors import BadInput, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.frames import Documents
from simhbase.index import open_index
from simhbase.jobs.comparison import ComparedTexts, Comparison
from simhbase.jobs.dedup_files import DedupFiles, folder_of
from simhbase.jobs.dedup_report import DedupReport, SourcesRead, report_of
from simhbase.jobs.dedup_rows import DedupedRows, RowsSeen
from simhbase.jobs.evidence import Rule
from simhbase.jobs.groups import Compared, Groups, groups, stars
from simhbase.jobs.lookups import StoredDocuments
from simhbase.jobs.pipeline import Batch, ChunkFingerprinter, without_repeats
from simhbase.jobs.representative import Preference, compared_as_text, preference
from simhbase.jobs.source_report import warnings_of
from simhbase.model import Query
from simhbase.profile import Profile, given_parameters, unverified
from simhbase.progress import Progress


@overload
def dedup(
    inputs: Inputs | str | Path | Sequence[str | Path],
    profile: Profile | Mapping[str, object] | None = None,
    *,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    keep: str = "first",
    date_field: str = "date",
    chains: bool = False,
    against: str | None = None,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    keep_rejected: bool = False,
    progress: Progress | None = None,
) -> DedupReport: ...


@overload
def dedup(
    inputs: Documents,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    keep: str = "first",
    date_field: str = "date",
    chains: bool = False,
    against: str | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    keep_rejected: bool = False,
    progress: Progress | None = None,
) -> DedupedRows: ...


def dedup(
    inputs: Inputs | str | Path | Sequence[str | Path] | Documents,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    keep: str = "first",
    date_field: str = "date",
    chains: bool = False,
    against: str | None = None,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    keep_rejected: bool = False,
    progress: Progress | None = None,
) -> DedupReport:
    """Finds the near-duplicates within one corpus, and among what a store holds.

    inputs: files; or documents in Python: a frame (pandas, polars, Arrow), a data set, or an iterable of
    dicts, pairs or Document objects. Of these the report is a DedupedRows, whose `frame` has the rows that
    are kept, and `removed` says why the others are not. A row without an id is named by its number, from 0.
    id_field, text_field: names of fields, None for those of the options of `inputs` ("id", "text").

    profile: how texts become fingerprints, or some of its parameters by name; by default MinHash, which finds
    nearly all pairs of 0.8 and more. Of SimHash a layout is chosen for its k where none is given.
    min_similarity: matches must share so much of their shingles (Jaccard), counted exactly: by default the
    profile's threshold (0.7), 0.65 where it has none, 0.5 where that is auto; 0: the fingerprints alone
    decide, as they do of inputs that are fingerprints. keep: which document of a group is its representative:
    "first" in input order, "longest", "newest" or "oldest" (with the greatest or the least value of
    `date_field`), or with the greatest ("-FIELD": least) value of a field; values are compared as numbers
    where all are, as dates where all are such (ISO 8601; times without an offset are UTC), else as texts.
    chains: a group is a connected component of matches; else a representative and what matches it. against:
    the URL of a store, which stays as it is: documents that match a stored one (of another id) are its
    duplicates, and the others are grouped; the profile is the store's. It holds no texts: where it keeps
    sketches they tell the similarity, of which `min_similarity` is the least, else its fingerprints alone
    decide. unique, duplicates: files to write the documents that are kept to (JSON lines; rows in .csv, .tsv
    and .parquet), and the others with their representatives and groups, as JSON lines: the report has their
    numbers alone. evidence: a file for why each of the others was removed: the rule, the Jaccard similarity
    of the texts, and the words that differ.
    keep_rejected: texts with too little for a fingerprint (a word or two) are in the list of `unique`, too,
    behind the others, or among the rows that are kept; they count as rejected. progress: see `show_progress`;
    it is told in place of the watcher of `inputs`.

    A document takes about 65 bytes of memory, and those of its value. Ids, sketches, what is written, and
    the texts where they are compared, are kept on disk until the end, beside the files or else in the folder
    for temporary ones. Raises UsageError for what does not go together, before anything is read;
    TooManyRejects; what opening the store does.
    """
    inputs = Inputs.of(inputs)
    options = inputs.options
    options = replace(
        options, id_field=id_field or options.id_field, text_field=text_field or options.text_field
    )
    inputs = replace(inputs, options=options)
    if progress is not None:
        inputs = replace(inputs, watcher=ProgressOnly(progress))
    if inputs.rows is not None and unique:
        raise UsageError("is for files: the report on rows has them as `frame`", parameter="unique")
    if keep_rejected and not unique and inputs.rows is None:
        raise UsageError("needs a file of unique documents", parameter="keep_rejected")
    require_written(unique)
    inputs.require_outputs(unique, duplicates, evidence)
    start = monotonic()
    with ExitStack() as stack:
        stored = None if against is None else _StoredMatches(stack, against, profile, min_similarity)
        profile = profile if stored is None else stored.profile
        comparison, least = _comparison(inputs.options, profile, min_similarity)
        preferred = preference(keep, date_field)
        inputs = _with_fields(inputs, comparison, preferred, whole_rows=bool(unique))
        values = None if preferred is None else _Values(preferred, inputs.options, inputs.watcher)
        rejects = stack.enter_context(inputs.noting_rejects())
        folder = folder_of(unique, duplicates, evidence)
        nothing = comparison.nothing
        are_wanted = inputs.options.fingerprint_field is None and (least or evidence)
        texts = stack.enter_context(ComparedTexts(comparison.profile, least, folder)) if are_wanted else None
        kept = _Kept(comparison, texts, values, stack.enter_context(SpooledRows(folder, nothing.sketches)))
        sources = SourcesRead(inputs.paths)
        given = {"unique": unique, "duplicates": duplicates, "evidence": evidence}
        asked = {option: Path(path) for option, path in given.items() if path}
        rule = comparison.rule(least, chains=chains)
        stored_rule = stored.rule if stored else rule
        files = DedupFiles(stack, asked, inputs, folder, rule, stored_rule, texts)
        rows = None if inputs.rows is None else RowsSeen()
        work = _work(inputs.options, comparison.profile, values, writes=bool(unique), keeps_texts=bool(texts))
        work = replace(work, keeps_rejected=keep_rejected)
        batches = stack.enter_context(closing(inputs.each(work)))
        for batch in without_repeats(batches):
            rejects.note(batch)
            sources.put_aside(batch)
            if rows:
                rows.put_aside(batch)
            rest = stored.rest(batch, files, rows) if stored else batch
            kept.put_aside(rest)
            files.put_aside(rest)
        grouped = kept.grouped(groups if chains else stars)
        if rejects.counts.nothing_read:
            files.abandon()
        files.write(grouped)
        found = sources.reports(stored.unique(grouped.unique) if stored else grouped.unique)
        for warning in warnings_of(found):
            inputs.watcher.note(warning)
        report = report_of(
            grouped,
            rejects.counts,
            found,
            files.ids,
            duplicates_of_stored=stored.duplicates if stored else 0,
            seconds=monotonic() - start,
        )
        if rows is None or inputs.rows is None:
            return report
        free = stored.free if stored else np.ones(len(grouped.unique), dtype=np.bool_)
        return rows.report(report, inputs.rows, free, grouped, files.ids, texts, rule, stored_rule)


class _StoredMatches:
    """Takes out the documents that match a stored one."""

    def __init__(
        self,
        stack: ExitStack,
        url: str,
        profile: Profile | Mapping[str, object] | None,
        min_similarity: float | None,
    ) -> None:
        # A crowded drawer is read to its end: nothing that is stored may be missed.
        index = stack.enter_context(open_index(url, access="read", drawer_limit=None))
        index.profile.require(given_parameters(profile))
        _ = index.fingerprinter
        self.profile = index.profile
        least = None if self.profile.sketching is None else min_similarity
        self.rule = Rule(self.profile.index_scheme.rule(least), stored=True)
        self._documents = StoredDocuments(index, Query(min_similarity=least))
        self._free: list[NDArray[np.bool_]] = []

    def rest(self, batch: Batch, files: DedupFiles, rows: RowsSeen | None) -> Batch:
        """The records without those that match, which the files are told, and the rows."""
        nearest = self._documents.nearest_others(batch)
        found = [(document, match) for document, match in zip(batch.ids, nearest, strict=True) if match]
        files.note_stored(found)
        if rows:
            rows.note_stored(found)
        self._free.append(np.array([match is None for match in nearest], dtype=bool))
        return batch.only(self._free[-1])

    @property
    def duplicates(self) -> int:
        return sum(int(np.count_nonzero(~free)) for free in self._free)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which of all documents match no stored one: bool (n,)."""
        return np.concatenate([*self._free, np.empty(0, dtype=bool)])

    def unique(self, of_the_rest: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of all documents are unique, given which of the rest are: bool (n,)."""
        everyone = self.free
        everyone[everyone] = of_the_rest
        return everyone


def _comparison(
    options: InputOptions, profile: Profile | Mapping[str, object] | None, min_similarity: float | None
) -> tuple[Comparison, float]:
    """What is near, and the least similarity of that; 0 where no texts are compared."""
    if options.fingerprint_field is None:
        return Comparison.exact(profile, min_similarity)
    comparison = Comparison.of(unverified(given_parameters(profile)), None)
    if min_similarity or comparison.profile.sketching is not None:
        raise UsageError(
            "similarity cannot be computed from fingerprints: give the texts", parameter="fingerprint_field"
        )
    return comparison, 0.0


def _with_fields(
    inputs: Inputs, comparison: Comparison, preferred: Preference | None, *, whole_rows: bool
) -> Inputs:
    """The same inputs, read for fingerprints of the profile's length and what documents are preferred by."""
    options = replace(
        inputs.options,
        fingerprint_bits=comparison.profile.fingerprint_bits,
        value_field=None if preferred is None else preferred.field,
        whole_rows=whole_rows,
    )
    return replace(inputs, options=options)


def _work(
    options: InputOptions, profile: Profile, values: _Values | None, *, writes: bool, keeps_texts: bool
) -> ChunkFingerprinter:
    """What worker processes do with documents, and what they leave of them."""
    trim = unique_trim(options) if writes else text_alone if keeps_texts else without_content
    trim = values.noted(trim) if values else trim
    return ChunkFingerprinter(Parser(options), None if options.fingerprint_field else profile, trim)


class _Kept:
    """What groups are made of: fingerprints, texts where they are wanted, values where one is preferred."""

    def __init__(
        self,
        comparison: Comparison,
        texts: ComparedTexts | None,
        values: _Values | None,
        sketches: SpooledRows,
    ) -> None:
        self._comparison = comparison
        self._texts = texts
        self._values = values
        self._fingerprints = [comparison.nothing.values]
        self._sketches = sketches

    def put_aside(self, batch: Batch) -> None:
        self._fingerprints.append(batch.fingerprints.values)
        self._sketches.append(batch.fingerprints.sketches)
        for each in (self._texts, self._values):
            if each:
                each.put_aside(batch)

    def grouped(self, make: Callable[[Compared, NDArray[np.int64] | None], Groups]) -> Groups:
        self._fingerprints = [np.concatenate(self._fingerprints)]
        fingerprints = FingerprintBatch(self._fingerprints[0], cast(NDArray[np.uint8], self._sketches))
        compared = Compared(
            fingerprints,
            self._comparison.scheme(len(fingerprints)),
            self._comparison.bounds,
            self._texts.exact() if self._texts and self._texts.least else None,
        )
        return make(compared, self._values.order() if self._values else None)


class _Values:
    """Keeps what documents are preferred by. Raises UsageError where the inputs have no such thing."""

    def __init__(self, preferred: Preference, options: InputOptions, watcher: Watcher) -> None:
        if preferred.field is None and options.fingerprint_field is not None:
            raise UsageError("fingerprints have no length: give the texts", parameter="keep")
        if preferred.field is not None and options.format in ("text", "html", "lines", "warc"):
            raise UsageError(f"documents of format {options.format} have no fields", parameter="keep")
        self._preferred = preferred
        self._watcher = watcher
        self._values: list[Value | None] = []

    def noted(self, trim: Callable[[Record], Record]) -> Callable[[Record], Record]:
        return Measured(trim) if self._preferred.field is None else trim

    def put_aside(self, batch: Batch) -> None:
        self._values += [record.value for record in batch.records]

    def order(self) -> NDArray[np.int64]:
        """The documents, the most preferred first. Raises BadInput where none has a value."""
        field = self._preferred.field
        if self._values and all(value is None for value in self._values):
            raise BadInput(f"no document has anything in a field {field!r}", parameter="keep")
        if reason := compared_as_text(self._values):
            self._watcher.note(f"{field!r} is compared as text: {reason}")
        return self._preferred.order(self._values)
