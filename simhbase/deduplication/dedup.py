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
from simhbase.corpus.outputs.unique import require_written, unique_trim
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Value
from simhbase.corpus.watcher import ProgressOnly, Watcher
from simhbase.deduplication.dates import DateOrder, DateUnit
from simhbase.deduplication.evidence import Rule
from simhbase.deduplication.files import DedupFiles, folder_of
from simhbase.deduplication.matching import MatchCriteria, SpooledTexts
from simhbase.deduplication.report import DedupReport, SourcesRead, report_of, warnings_about
from simhbase.deduplication.representative import Preference, preference
from simhbase.deduplication.rows import DedupedRows, RowsSeen
from simhbase.drawers.groups import Matcher, groups, stars
from simhbase.errors import BadInput, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.jobs.lookups import nearest_others
from simhbase.jobs.pipeline import Batch, ChunkFingerprinter, without_repeats
from simhbase.jobs.source_report import warnings_of
from simhbase.model.frames import Documents, Texts, require_new_column
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
    options = inputs.options
    if progress is not None:
        inputs = replace(inputs, watcher=ProgressOnly(progress))
    if inputs.rows is not None and unique:
        raise UsageError("is for files: the report on rows has them as `frame`", parameter="unique")
    if keep_rejected and not unique and inputs.rows is None:
        raise UsageError("needs a file of unique documents (unique)", parameter="keep_rejected")
    if scope is not None and against is None:
        raise UsageError("is one of the store `against`: give both", parameter="scope")
    if count_field is not None:
        _require_countable(count_field, inputs, unique)
    require_written(unique)
    inputs.require_outputs(unique, duplicates, evidence)
    start = monotonic()
    with ExitStack() as stack:
        stored = None if against is None else _StoredMatches(stack, against, scope, profile, min_similarity)
        used = stored.profile if stored else profile
        criteria, least = MatchCriteria.exact(
            used, min_similarity, of_texts=options.fingerprint_field is None
        )
        if min_containment is not None:
            if against is not None or options.fingerprint_field is not None:
                without = "a store has none" if against is not None else "fingerprints are given"
                raise UsageError(
                    f"needs the texts of documents that are kept, and {without}", parameter="min_containment"
                )
            criteria.require_containment(min_containment, least, chains=chains)
        if thresholds:
            _require_above(thresholds, least, inputs)
        preferred = preference(keep, date_field, date_order, date_unit)
        options = replace(
            options,
            fingerprint_bits=criteria.profile.fingerprint_bits,
            value_field=preferred.field if preferred else None,
            whole_rows=bool(unique),
        )
        inputs = replace(inputs, options=options)
        values = None if preferred is None else _Values(preferred, options, inputs.watcher)
        rejects = stack.enter_context(inputs.noting_rejects())
        folder = folder_of(unique, duplicates, evidence)
        spooled_texts = None
        if options.fingerprint_field is None and (least or evidence):
            spooled_texts = stack.enter_context(
                closing(SpooledTexts(criteria.profile, least, folder, min_containment))
            )
        spooled = SpooledRows(folder, criteria.nothing.values)
        sketches = SpooledRows(folder, criteria.nothing.sketches)
        stack.callback(spooled.close)
        stack.callback(sketches.close)
        sources = SourcesRead(inputs, stack.enter_context(closing(Spool(folder))))
        given = {"unique": unique, "duplicates": duplicates, "evidence": evidence}
        asked = {option: Path(path) for option, path in given.items() if path}
        rule = criteria.rule(least, min_containment, chains=chains)
        stored_rule = stored.rule if stored else rule
        files = DedupFiles(stack, asked, inputs, folder, rule, stored_rule, spooled_texts, count_field)
        rows = None if inputs.rows is None else RowsSeen(GivenRows.of(inputs.rows, options), count_field)
        trim: Trim = text_only if spooled_texts else without_content
        if unique:
            trim, inputs = unique_trim(inputs)
        if preferred and preferred.field is None:
            trim = partial(measured, trim)
        fingerprinter = None if options.fingerprint_field else criteria.profile.fingerprinter()
        work = ChunkFingerprinter(Parser(options), fingerprinter, trim, keep_rejected)
        read = replace(inputs, rows=rows.rows) if rows else inputs
        batches = stack.enter_context(closing(read.each(work)))
        for batch in without_repeats(batches):
            rejects.note(batch)
            sources.append(batch)
            if rows:
                rows.append(batch)
            rest = stored.rest(batch, files, rows) if stored else batch
            spooled.append(rest.fingerprints.values)
            sketches.append(rest.fingerprints.sketches)
            for each in (spooled_texts, values, files):
                if each:
                    each.append(rest)
        fingerprints = FingerprintBatch(cast(NDArray[np.uint64], spooled), cast(NDArray[np.uint8], sketches))
        exact = spooled_texts.exact() if spooled_texts and least else None
        scheme = criteria.scheme(len(fingerprints))
        if least and (missing := scheme.missing(least)):
            inputs.watcher.note(missing)
        matcher = Matcher(fingerprints, scheme, criteria.bounds, exact, inputs.watcher.progress)
        group, order = groups if chains else stars, values.order() if values else None
        grouped = group(matcher, order)
        if rejects.counts.nothing_read:
            if rows:
                raise BadInput(f"no row could be read: {rows.first_problem}")
            files.abandon()
        files.write(grouped)
        # Which of all documents match no stored one.
        free = stored.free if stored else np.ones(len(grouped.unique), dtype=np.bool_)
        unique_of_all = free.copy()
        unique_of_all[free] = grouped.unique
        found = sources.reports(unique_of_all)
        repeats = spooled_texts.repeats if spooled_texts else lambda document: False
        about = warnings_about(grouped, sources.gathered(grouped, free), files.ids, repeats)
        for warning in [*warnings_of(found), *about]:
            inputs.watcher.note(warning)
        report = report_of(
            grouped,
            rejects.counts,
            found,
            files.ids,
            duplicates_of_stored=int(np.count_nonzero(~free)),
            seconds=monotonic() - start,
        )
        if rows is None:
            return report
        at = {each: group(matcher.at_least(each), order) for each in thresholds}
        return rows.report(report, free, grouped, at, files.ids, spooled_texts, rule, stored_rule)


class _StoredMatches:
    """Takes out the documents that match a stored one."""

    def __init__(
        self,
        stack: ExitStack,
        url: str,
        scope: str | None,
        profile: Profile | Mapping[str, object] | None,
        min_similarity: float | None,
    ) -> None:
        # Read all of large drawers, too: no stored match may be missed.
        index = stack.enter_context(open_index(url, access="read", drawer_limit=None, scope=scope))
        index.profile.require(given_parameters(profile))
        _ = index.fingerprinter
        self.profile = index.profile
        least = None if self.profile.sketching is None else min_similarity
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


def _require_above(thresholds: Sequence[float], least: float, inputs: Inputs) -> None:
    """Raises UsageError for thresholds that nothing is grouped by."""
    if inputs.rows is None:
        raise UsageError("are for rows: files have one list of duplicates", parameter="thresholds")
    if not least:
        raise UsageError("need similarities of texts, which are not compared", parameter="thresholds")
    for each in thresholds:
        if isinstance(each, bool) or not isinstance(each, int | float) or not least <= each <= 1:
            raise UsageError(
                f"must be from {least:g} (min_similarity) to 1, not {each!r}", parameter="thresholds"
            )


def _require_countable(field: str, inputs: Inputs, unique: str | Path | None) -> None:
    """Raises UsageError if counts cannot be written into this field."""
    if not isinstance(field, str):
        raise UsageError(f"must be the name of a field, not {field!r}", parameter="count_field")
    if not field:
        raise UsageError("the name is empty", parameter="count_field")
    if inputs.rows is not None:
        given = inputs.rows.given if isinstance(inputs.rows, GivenRows) else inputs.rows
        require_new_column(given, field, "count_field")
    elif not unique:
        raise UsageError("needs a file of unique documents (unique)", parameter="count_field")


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
