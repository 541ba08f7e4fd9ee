"""Finds near-duplicates within one corpus, without a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import cast, overload

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.given import GivenRows
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.names import WITHOUT_FIELDS
from simhbase.corpus.outputs.files import Duplicate
from simhbase.corpus.outputs.trim import Trim, measured, text_only, without_content
from simhbase.corpus.outputs.unique import unique_trim
from simhbase.corpus.parser import Parser
from simhbase.corpus.reading import read_each
from simhbase.corpus.record import InputOptions, Value
from simhbase.corpus.watcher import ProgressOnly, Watcher
from simhbase.deduplication.dates import DateOrder, DateUnit
from simhbase.deduplication.evidence import Rule
from simhbase.deduplication.files import DedupFiles, folder_of
from simhbase.deduplication.job import Dedup
from simhbase.deduplication.matching import MatchCriteria, SpooledTexts
from simhbase.deduplication.report import DedupReport, SourcesRead, report_of, warnings_about
from simhbase.deduplication.representative import Preference, preference
from simhbase.deduplication.rows import DedupedRows, RowsSeen
from simhbase.drawers.groups import Groups, Matcher, groups, stars
from simhbase.errors import BadInput, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.jobs.lookups import nearest_others
from simhbase.jobs.pipeline import Batch, ChunkFingerprinter
from simhbase.jobs.seen_ids import SeenIds
from simhbase.jobs.source_report import warnings_of
from simhbase.model.frames import Documents, Texts
from simhbase.model.values import Query
from simhbase.process.progress import Progress
from simhbase.process.spool import Spool, SpooledRows
from simhbase.profile.profile import Profile, given_parameters


@overload
def dedup(
    inputs: Inputs | str | Path | Sequence[str | Path],
    profile: Profile | Mapping[str, object] | None = None,
    *,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    min_containment: float | None = None,
    keep: str = "first",
    date_field: str = "date",
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
    chains: bool = False,
    against: str | None = None,
    scope: str | None = None,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    keep_rejected: bool = False,
    count_field: str | None = None,
    progress: Progress | None = None,
) -> DedupReport: ...


@overload
def dedup(
    inputs: Documents | None = None,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    texts: Texts | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    min_containment: float | None = None,
    thresholds: Sequence[float] = (),
    keep: str = "first",
    date_field: str = "date",
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
    chains: bool = False,
    against: str | None = None,
    scope: str | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    keep_rejected: bool = False,
    count_field: str | None = None,
    progress: Progress | None = None,
) -> DedupedRows: ...


def dedup(
    inputs: Inputs | str | Path | Sequence[str | Path] | Documents | None = None,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    texts: Texts | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    min_containment: float | None = None,
    thresholds: Sequence[float] = (),
    keep: str = "first",
    date_field: str = "date",
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
    chains: bool = False,
    against: str | None = None,
    scope: str | None = None,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    keep_rejected: bool = False,
    count_field: str | None = None,
    progress: Progress | None = None,
) -> DedupReport:
    """Find near-duplicates within one corpus, and optionally of documents in a store.

    inputs: files; or documents in Python: a frame (pandas, polars, Arrow), a data set, or an iterable of
    dicts, pairs or Document objects. For these the report is a DedupedRows, whose `frame` has the kept rows,
    and `removed` the reasons for the others. A row without an id is named by its number, from 0: `row 0`.
    texts: in place of `inputs`, a list of texts, a column, or what else `find_many` takes.
    id_field, text_field: names of fields, None for those of the options of `inputs` ("id", "text").

    profile: a Profile, or some of its parameters by name. The default is MinHash, which finds nearly all
    pairs with a similarity of 0.65 or more. Without `bands`, those that serve `min_similarity` are chosen;
    for SimHash without a layout, one that fits k. A Profile has all of them, and is used as it is.
    min_similarity: minimum exact Jaccard similarity of matches. Default: the profile's threshold (the
    lower end of a rising one), 0.65 if it has none. 0: only fingerprints decide, as they do for inputs with
    fingerprints, and similarities are estimates.
    min_containment: remove a document only if the kept one contains at least this share of its characters
    (see `compare`); one that is near a kept document, but not contained in it, is kept, too, and may stand
    for others. With `keep="longest"` a longer text stands for the shorter ones it contains. Near 1 does not
    mean that nothing is lost: a changed number costs little more than its digits. Needs texts, so neither
    `against`, fingerprints, `min_similarity=0` nor the profile short; and one document that the others are
    compared with, so no `chains`. Not chosen by similarity are texts that others embed: these are not looked
    for.
    thresholds: further minimum similarities, above `min_similarity`. For each the report on rows has which
    are kept, and labels, in `at`: texts are read and fingerprinted once. All use the
    pairs that `min_similarity` finds, so each has at least those of a run of its own.
    keep: the representative of a group: "first" in input order, "longest", "newest" or "oldest" (by
    `date_field`), or the document with the greatest ("-FIELD": least) value of a field. Values of a
    field are compared as numbers if all are numbers, as dates if all are dates, else as texts. Dates are ISO
    8601, 2024-9-30, 2024年9月30日, RFC 2822, ctime (times without an offset are UTC), or numbers of one
    scale; a document without one is kept last. date_order: "dmy" or "mdy", of dates such as 01/02/2024,
    unless one of them shows it; also "ymd", of those with two digits for the year (69 is 1969). date_unit:
    what numbers count since 1970, "s", "ms", "us" or "ns", if they are of several scales or beside other
    dates. Without these such dates are refused. chains: groups are connected components of matches;
    otherwise a representative and its matches.

    against: URL of a store, which is not changed; scope: within which it is opened. Documents that match a
    stored one with another id are its duplicates, and only the others are grouped. The profile is the
    store's. As texts are not stored, sketches give the similarity, with the minimum `min_similarity`; without
    sketches only fingerprints decide.

    unique: file for the kept documents (JSON lines, or rows in .csv, .tsv and .parquet); duplicates: file for
    the others with their representatives, groups and places (JSON lines); evidence: file with the reasons:
    rule, Jaccard similarity of the texts, and differing words. keep_rejected: keep texts that are too short
    for a fingerprint, in `unique` after the others, or among the kept rows; they count as rejected.
    count_field: a field to add to each kept document, in `unique` or `frame`: the number of documents that it
    stands for, itself included (without those that match stored ones). progress: see `show_progress`;
    replaces the watcher of `inputs`.

    Takes about 50 bytes of memory per document, and the size of its value if `keep` needs one. Ids,
    fingerprints, sketches, records and, if compared, texts are spooled to disk, beside the output files or
    else in the folder for temporary files. Raises UsageError for invalid arguments, before anything is read;
    BadInput if no row could be read, or a document has the count field already; TooManyRejects; the errors of
    opening the store.
    """
    inputs = Inputs.of(inputs, texts)
    if id_field or text_field:
        inputs = inputs.with_fields(id_field, text_field)
    if progress is not None:
        inputs = replace(inputs, watcher=ProgressOnly(progress))
    job = Dedup(
        inputs=inputs,
        profile=profile,
        min_similarity=min_similarity,
        min_containment=min_containment,
        thresholds=thresholds,
        keep=keep,
        date_field=date_field,
        date_order=date_order,
        date_unit=date_unit,
        chains=chains,
        against=against,
        scope=scope,
        unique=unique,
        duplicates=duplicates,
        evidence=evidence,
        keep_rejected=keep_rejected,
        count_field=count_field,
    )
    with ExitStack() as stack:
        return _DedupRun(job, stack).dedup()


class _DedupRun:
    """One run: reads and spools the documents, groups them, writes the files, and reports."""

    def __init__(self, job: Dedup, stack: ExitStack) -> None:
        """Opens everything before documents are read; the stack closes it."""
        self._start, self._job, self._stack = monotonic(), job, stack
        self._stored = None if job.against is None else _StoredMatches(stack, job, job.against)
        criteria, least = self._criteria, self._least = MatchCriteria.exact(
            self._stored.profile if self._stored else job.profile, job.min_similarity, of_texts=job.has_texts
        )
        if job.min_containment is not None:
            job.require_texts_to_contain()
            criteria.require_containment(job.min_containment, least, chains=job.chains)
        if job.thresholds:
            job.require_thresholds(least)
        self._preferred = preference(job.keep, job.date_field, job.date_order, job.date_unit)
        options = replace(
            job.inputs.options,
            fingerprint_bits=criteria.profile.bits,
            value_field=self._preferred.field if self._preferred else None,
            whole_rows=bool(job.unique),
        )
        inputs = self._inputs = replace(job.inputs, options=options)
        self._values = None if self._preferred is None else _Values(self._preferred, options, inputs.watcher)
        self._rejects = stack.enter_context(inputs.noting_rejects())
        folder = folder_of(*job.files.values())
        self._texts = None
        if job.has_texts and (least or job.evidence):
            spooled = SpooledTexts(criteria.profile, least, folder, job.min_containment)
            self._texts = stack.enter_context(closing(spooled))
        self._fingerprints = SpooledRows(folder, criteria.nothing.values)
        self._sketches = SpooledRows(folder, criteria.nothing.sketches)
        stack.callback(self._fingerprints.close)
        stack.callback(self._sketches.close)
        self._sources = SourcesRead(inputs, stack.enter_context(closing(Spool(folder))))
        rule = self._rule = criteria.rule(least, job.min_containment, chains=job.chains)
        self._stored_rule = self._stored.rule if self._stored else rule
        self._files = DedupFiles(
            stack, job.files, inputs, folder, rule, self._stored_rule, self._texts, job.count_field
        )
        rows = inputs.rows
        self._rows = None if rows is None else RowsSeen(GivenRows.of(rows, options), job.count_field)

    def dedup(self) -> DedupReport:
        """Do it all. Raises as `dedup`."""
        self._read()
        order = self._values.order() if self._values else None
        matcher = self._matcher()
        group = groups if self._job.chains else stars
        grouped = group(matcher, order)
        if self._rejects.counts.nothing_read:
            if self._rows:
                raise BadInput(f"no row could be read: {self._rows.first_problem}")
            self._files.abandon()
        self._files.write(grouped)
        # Which of all documents match no stored one.
        free = self._stored.free if self._stored else np.ones(len(grouped.unique), dtype=np.bool_)
        report = self._report(grouped, free)
        if self._rows is None:
            return report
        at = {each: group(matcher.at_least(each), order) for each in self._job.thresholds}
        rules = self._rule, self._stored_rule
        return self._rows.report(report, free, grouped, at, self._files.ids, self._texts, *rules)

    def _read(self) -> None:
        """Read all documents, and spool those that match no stored one."""
        rows, stored = self._rows, self._stored
        inputs, work = self._work()
        batches = self._stack.enter_context(closing(read_each(inputs, work)))
        for batch in map(SeenIds().without_repeats, batches):
            self._rejects.note(batch)
            self._sources.append(batch)
            if rows:
                rows.append(batch)
            rest = stored.rest(batch, self._files, rows) if stored else batch
            self._fingerprints.append(rest.fingerprints.values)
            self._sketches.append(rest.fingerprints.sketches)
            self._files.append(rest)
            if self._texts:
                self._texts.append(record.text or "" for record in rest.records)
            if self._values:
                self._values.append(rest)

    def _work(self) -> tuple[Inputs, ChunkFingerprinter]:
        """What is read, and what threads do with it."""
        inputs, trim = self._inputs, cast(Trim, text_only if self._texts else without_content)
        if self._job.unique:
            trim, inputs = unique_trim(inputs)
        if self._preferred and self._preferred.field is None:
            trim = partial(measured, trim)
        fingerprinter = self._criteria.profile.fingerprinter() if self._job.has_texts else None
        work = ChunkFingerprinter(Parser(inputs.options), fingerprinter, trim, self._job.keep_rejected)
        return replace(inputs, rows=self._rows.rows) if self._rows else inputs, work

    def _matcher(self) -> Matcher:
        """Finds the matches among the documents that were read."""
        values, sketches = self._fingerprints, self._sketches
        fingerprints = FingerprintBatch(cast(NDArray[np.uint64], values), cast(NDArray[np.uint8], sketches))
        scheme, watcher = self._criteria.scheme(len(fingerprints)), self._inputs.watcher
        if self._least and (missing := scheme.missing(self._least)):
            watcher.note(missing)
        exact = self._texts.exact() if self._texts and self._least else None
        return Matcher(fingerprints, scheme, self._criteria.bounds, exact, watcher.progress)

    def _report(self, grouped: Groups, free: NDArray[np.bool_]) -> DedupReport:
        """Warn of what is suspicious, and report. free: bool (n,), which of all documents match no stored
        one."""
        ids, sources, texts = self._files.ids, self._sources, self._texts
        unique_of_all = free.copy()
        unique_of_all[free] = grouped.unique
        found = sources.reports(unique_of_all)
        suspicious = warnings_about(
            grouped, sources.gathered(grouped, free), ids, texts.repeats if texts else _repeats_nothing
        )
        for warning in [*warnings_of(found), *suspicious]:
            self._inputs.watcher.note(warning)
        return report_of(
            grouped,
            self._rejects.counts,
            found,
            ids,
            duplicates_of_stored=int(np.count_nonzero(~free)),
            seconds=monotonic() - self._start,
        )


def _repeats_nothing(document: int) -> bool:
    """Nothing is known of texts that are not kept."""
    return False


class _StoredMatches:
    """Takes out the documents that match a stored one."""

    def __init__(self, stack: ExitStack, job: Dedup, url: str) -> None:
        # Read all of large drawers, too: no stored match may be missed.
        index = stack.enter_context(open_index(url, access="read", drawer_limit=None, scope=job.scope))
        index.profile.require(given_parameters(job.profile))
        _ = index.fingerprinter
        self.profile = index.profile
        least = None if self.profile.sketching is None else job.min_similarity
        self.rule = Rule(self.profile.index_scheme.rule(least), stored=True)
        self._index, self._query = index, Query(min_similarity=least)
        self._free: list[NDArray[np.bool_]] = []

    def rest(self, batch: Batch, files: DedupFiles, rows: RowsSeen | None) -> Batch:
        """The records that match no stored document; the others are written to the files and rows."""
        nearest = nearest_others(self._index, batch, self._query)
        found = [
            Duplicate(
                record.id,
                near.id,
                near.distance,
                near.similarity,
                group=near.id,
                source=record.source,
                line=record.line,
            )
            for record, near in zip(batch.records, nearest, strict=True)
            if near
        ]
        files.note_stored(found)
        if rows:
            rows.note_stored(found)
        self._free.append(np.array([match is None for match in nearest], dtype=bool))
        return batch.only(self._free[-1])

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which of all documents match no stored one: bool (n,)."""
        return np.concatenate([*self._free, np.empty(0, dtype=bool)])


class _Values:
    """The values by which representatives are chosen. Raises UsageError if inputs cannot have them."""

    def __init__(self, preferred: Preference, options: InputOptions, watcher: Watcher) -> None:
        if preferred.field is None and options.fingerprint_field is not None:
            raise UsageError("fingerprints have no length: give the texts", parameter="keep")
        if preferred.field is not None and options.format in WITHOUT_FIELDS:
            raise UsageError(f"documents of format {options.format} have no fields", parameter="keep")
        self._preferred = preferred
        self._watcher = watcher
        self._values: list[Value | None] = []

    def append(self, batch: Batch) -> None:
        self._values += [record.value for record in batch.records]

    def order(self) -> NDArray[np.int64]:
        """Positions in order of preference. Raises BadInput if no document has a value."""
        field = self._preferred.field
        if self._values and all(value is None for value in self._values):
            raise BadInput(f"no document has a value in field {field!r}", parameter="keep")
        return self._preferred.order(self._values, self._watcher.note)
