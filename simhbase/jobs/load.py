"""A corpus into a store.

`load_noted` reads from top to bottom: open the store, take the load in its log, read, store, write the files,
note how far it is, give the files their names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from simhbase.corpus.inputs import Inputs, opened
from simhbase.corpus.outputs import (
    OutputBusy,
    OutputFile,
    PartDiffers,
    duplicate_line,
    is_finished,
    unique_line,
)
from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Counts, Rejects
from simhbase.corpus.trim import unique_trim, without_content
from simhbase.corpus.unique_output import unique_file, unique_is_finished
from simhbase.corpus.watcher import Watcher
from simhbase.errors import (
    BadInput,
    ProfileMismatch,
    StoreBusy,
    StoreFailed,
    TableDisabled,
    TablesMissing,
    UsageError,
)
from simhbase.index import Index, open_index
from simhbase.index.load_log import LoadLog, finished_since, forgetting
from simhbase.index.writer import SETTLED, alive_since, known
from simhbase.interrupt import interrupt_put_off
from simhbase.jobs.checkpoints import BatchDecision, Checkpoints, InputsChanged
from simhbase.jobs.dedup_report import GroupSize
from simhbase.jobs.evidence import Rule, evidence_line
from simhbase.jobs.kept_out import TopDuplicated, kept_out_by
from simhbase.jobs.kinds import NOTHING
from simhbase.jobs.load_job import OF_UNIQUE_ONLY, WITH_RECORDS, Load
from simhbase.jobs.pipeline import Batch, fingerprinting, joined
from simhbase.jobs.seen_ids import SeenIds
from simhbase.jobs.source_report import SourceReport, most_repeated, warnings_of
from simhbase.jobs.unique import Loaded, claim_all, duplicates_of, load_all, store_kept
from simhbase.model import AddReport, Match
from simhbase.profile import Profile, given_parameters, make_profile, unverified
from simhbase.stores import drop_store, is_on_server, open_store
from simhbase.stores.base import keeps_hints, now
from simhbase.stores.memory import MemoryStore

if TYPE_CHECKING:
    from simhbase.jobs.hfiles import HFileLoad
    from simhbase.jobs.hfiles_unique import UniqueDocuments

T = TypeVar("T")
_LOOKED_AT = 1.0  # seconds between tries to get what another process has
CHUNKS_AT_ONCE = 8  # written and made durable together: up to 4,096 documents or 8 MB of text
OUTGROWN = (
    "{:,} stored documents got other texts after this load had left out duplicates of what they were before: "
    "run the same command again to store those that nothing is near now"
)
# The same where nothing has to be made of texts: so many that an embedded store takes them as files.
PREPARED_CHUNKS_AT_ONCE = 128


@dataclass(frozen=True)
class LoadReport:
    """What a load has done.

    documents: how many were read, with those that were rejected. loaded: how many of them the store holds;
    of these, added are new, updated had another fingerprint before, unchanged are as they were. duplicates:
    were not stored, with `unique_only`; outdated: stored documents that were removed, as their new text is
    one. unreadable_sources: files and folders that could not be read, of which nothing is known. sources:
    files, or folders that were given, in input order; of more than 100 those with the most duplicates.
    largest: the five stored documents that kept out the most, each with what it kept out (where more than
    100,000 do, that may be too low by a 100,000th of all duplicates). counts: what could not be read, by
    kind; where nothing at all could (`counts.nothing_read`), the command ends with an error.
    """

    documents: int
    loaded: int
    added: int
    updated: int
    unchanged: int
    duplicates: int
    outdated: int
    rejected: int
    unreadable_sources: int
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> LoadReport:
        """The report that was noted in a log."""
        return cls(
            **{
                **found,
                "sources": tuple(SourceReport(**each) for each in found["sources"]),
                "largest": tuple(GroupSize(**each) for each in found["largest"]),
                "counts": Counts(**found["counts"]),
            }
        )


def load(
    inputs: Inputs | str | Path | Sequence[str | Path],
    store: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    unique_only: bool = False,
    min_similarity: float | None = None,
    skip_existing: bool = False,
    tags: Mapping[str, str] | None = None,
    tag_fields: Mapping[str, str] | None = None,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    new: str | Path | None = None,
    name: str | None = None,
    lock_wait: float = 0,
    via: Literal["hfiles"] | None = None,
    work_folder: str | Path | None = None,
) -> LoadReport:
    """Fingerprints documents and stores them; one whose id is stored already is replaced.

    inputs: paths, or an Inputs that says more. store: its URL, as of `open`; an embedded one that does not
    exist is made, and goes again if nothing is stored. profile: of a store that is made; one that exists
    must agree with it, or with those parameters that are given by name. unique_only: store a document only
    if nothing that is stored by then matches it; a stored document whose new text is a duplicate is removed.
    min_similarity: what is less similar is no duplicate. skip_existing: leave documents whose id is stored
    as they are, and list them nowhere. tags: of all documents, names and values; tag_fields: names of further
    tags, and the fields or columns that hold their values. A document that is stored already gets these in
    place of its own; a record without one of the fields is rejected. unique, duplicates: files to list what
    was stored with `unique_only` (JSON lines; rows in .csv, .tsv and .parquet), and what was not, as JSON
    lines; evidence: one for why it was not. new: a file for the documents that this load added or changed, in
    the forms of `unique`; those that were stored with the same fingerprint are not in it.

    A load that was stopped, also by a crash, is resumed where it was when it is run again with the same
    inputs and options, and ends with the same rows and files as if it had not been stopped (in HBase with
    `unique_only` the files may name another one of several matches). name: what it is called, by default
    after these, its host and its folder; `Administrator` lists those of a store. Where the input cannot be
    read again (standard input) or an output not be cut (a pipe), it begins anew. lock_wait: seconds to wait
    while another process writes to an embedded store, or runs this load.

    via: "hfiles" writes HBase's own files and has its tool load them, past its gateways and write-ahead
    logs: for millions of documents; with `unique_only` their ids are new. docs/hbase.md says more.
    work_folder: where HBase can read, a folder or a URI such as hdfs://...; by default the system's folder
    for what is temporary. It takes up to 1 kB a document.

    Raises UsageError for what does not go together, before anything is read; StoreBusy where another process
    runs the load; UsageError also where the inputs of a named load have changed since it was stopped;
    ProfileMismatch, StoreUnreachable; TooManyRejects; TablesMissing where tables are dropped meanwhile, or
    do not exist in HBase.
    """
    options = {name: each for name, each in locals().items() if name != "inputs"}
    with loading(Load(inputs=Inputs.of(inputs), **options)) as report:
        return report


@contextmanager
def loading(job: Load) -> Iterator[LoadReport]:
    """Carries out a load, and gives its report. It is noted as finished when the block has ended well: one
    whose report nobody has got reports again when it is run again. Raises as `load`."""
    wait = _Wait(job.lock_wait, job.inputs.watcher)
    with ExitStack() as undone, ExitStack() as stack:
        index, is_new = wait.until(lambda: _open(job))  # first: who does not get it touches no file
        stack.enter_context(closing(index))
        if is_new:
            if misses := index.profile.misses:
                job.inputs.watcher.hint(misses)
            undone.callback(_drop_if_empty, job.store)
        found = wait.until(lambda: _begin(job, index, wait))
        if isinstance(found, LoadReport):  # another process has done it meanwhile
            yield found
            return
        log = stack.enter_context(found)
        try:
            report = load_noted(job, index, log, wait)
        except (InputsChanged, PartDiffers) as error:
            if job.name is not None:
                raise UsageError(
                    f"cannot resume the load {job.name!r}: {error}. To load everything again, type first: "
                    f"{forgetting(job.name)}"
                ) from error
            job.inputs.watcher.note(f"{error}; starting over")
            log.begin_anew()
            report = load_noted(job, index, log, wait)
        if report.added + report.updated >= SETTLED:
            try:
                index.store.compact(job.inputs.watcher.progress)
            except KeyboardInterrupt:  # everything is stored: this can be left out
                pass
            except StoreFailed as error:
                job.inputs.watcher.note(f"all documents are stored, but {error}")
        for warning in warnings_of(report.sources):
            job.inputs.watcher.note(warning)
        yield report
        if not report.counts.nothing_read:
            undone.pop_all()


def _begin(job: Load, index: Index, wait: _Wait) -> LoadLog | LoadReport:
    """Takes a load; the report of one that another process has finished while this one waited."""
    store = index.store if job.can_be_resumed else MemoryStore("memory:")
    if wait.has_waited and (done := finished_since(store, job.log_name, job.digest, wait.begun)):
        return LoadReport.of_json(done)
    return LoadLog.begin(store, job.log_name, job.digest)


def load_noted(job: Load, index: Index, log: LoadLog, wait: _Wait) -> LoadReport:
    """One run of a load, from its beginning or from where an earlier one was stopped. Raises InputsChanged
    and PartDiffers where it cannot be resumed."""
    start, watcher = monotonic(), job.inputs.watcher
    checkpoints = Checkpoints(job.inputs, log, is_noted=job.can_be_resumed)
    if log.state.progress == "finishing":
        checkpoints.require_same_inputs()
        for option in job.files:
            _name(job, option, checkpoints, wait)
        return LoadReport.of_json(log.state.report or {})
    if log.before is not None and log.state.parts:
        watcher.note(_resuming(log))
    tally = _Tally.of(log.state.counts or {})
    kinds = NOTHING
    seen = SeenIds()
    with ExitStack() as stack:
        hfiles = stack.enter_context(_hfiles(job, index, log))
        unique = stack.enter_context(_unique(job, index, log, checkpoints, hfiles))
        files = {option: stack.enter_context(_opened(job, option, checkpoints, wait)) for option in job.files}
        rejects = Rejects(files["rejects"], job.inputs.max_rejects, watcher, tally.counts)
        batches = stack.enter_context(closing(_batches(job, index, checkpoints, seen)))
        stack.enter_context(_saying_what_is_kept(tally, watcher))
        for read in joined(batches, _chunks_at_once(job)):
            batch = read.without_repeats(seen)
            rejects.note(batch)
            tally.counts = rejects.counts
            kinds += read.kinds
            with interrupt_put_off():
                if hfiles is None:
                    near = _take(job, index, checkpoints, tally, files, batch, read.chunks)
                else:
                    near = _put_aside(job, index, hfiles, unique, tally, files, batch)
                sources = checkpoints.sources.of(batch.items, (each is not None for each in near))
                checkpoints.put_off(read, sources, kept_out_by(near))
                if hfiles is None:
                    checkpoints.advance(tally.noted(), files)
            if hfiles is not None and hfiles.is_full:
                _hand_over(hfiles, unique, log, tally, checkpoints, files)
        if rejects.counts.nothing_read:
            for file in (files[option] for option in (*OF_UNIQUE_ONLY, "new")):
                if file:
                    file.abandon()
            log.remove()
            return _report(tally, checkpoints, start)
        if hfiles is not None:
            _hand_over(hfiles, unique, log, tally, checkpoints, files)
        index.require_own_tables()  # what went into tables that were dropped meanwhile is not loaded
        report = _report(tally, checkpoints, start)
        checkpoints.note_all(asdict(report), files)
        index.store.sync()
    if tally.outgrown:
        watcher.note(OUTGROWN.format(tally.outgrown))
    for hint in kinds.hints(index.profile):
        watcher.hint(hint)
    return report


def _take(
    job: Load,
    index: Index,
    checkpoints: Checkpoints,
    tally: _Tally,
    files: Mapping[str, OutputFile | None],
    batch: Batch,
    chunks: int,
) -> list[Match | None]:
    """Stores a batch, and writes it to the files; for each document what keeps it out, None for most."""
    if not batch.records:
        return []
    before = _texts_of_keepers(job, index, checkpoints.kept_out, batch)
    decision, done = _stored(job, index, checkpoints, batch, chunks)
    tally.add(done, skipped=len(decision.skipped))  # before files, which may fail: what is stored is told of
    near = iter(done.duplicate_of)
    found = [None if number in decision.skipped else next(near) for number in range(len(batch.ids))]
    kept = [each is None and number not in decision.skipped for number, each in enumerate(found)]
    tally.outgrown += _outgrown(batch, found, kept, before)
    new = [each and number in decision.new for number, each in enumerate(kept)]
    _write(files["new"], _lines(batch.records, new))
    _list(job, index, files, batch, kept, found)
    return found


def _put_aside(
    job: Load,
    index: Index,
    hfiles: HFileLoad,
    unique: UniqueDocuments | None,
    tally: _Tally,
    files: Mapping[str, OutputFile | None],
    batch: Batch,
) -> list[Match | None]:
    """Has a batch, or what is unique of it, handed over later; for each document what keeps it out."""
    if unique is None:
        hfiles.put_aside(batch.ids, batch.fingerprints, batch.tags)
        return [None] * len(batch.ids)
    found = unique.duplicates_of(batch)
    kept = [each is None for each in found]
    chosen = batch.only(np.array(kept, dtype=bool))
    hfiles.put_aside(chosen.ids, chosen.fingerprints, chosen.tags)
    tally.add(Loaded(found, AddReport()))
    _list(job, index, files, batch, kept, found)
    return found


def _list(
    job: Load,
    index: Index,
    files: Mapping[str, OutputFile | None],
    batch: Batch,
    kept: Sequence[bool],
    found: Sequence[Match | None],
) -> None:
    """Writes a batch to the files that say what was kept, and what not."""
    rule = Rule(index.profile.index_scheme.rule(job.min_similarity))
    _write(files["unique"], _lines(batch.records, kept))
    _write(files["duplicates"], _duplicate_lines(batch.ids, found))
    _write(files["evidence"], _evidence_lines(batch.ids, found, rule))


def _texts_of_keepers(job: Load, index: Index, kept_out: TopDuplicated, batch: Batch) -> dict[str, int]:
    """The stored fingerprints of those documents of a batch that have kept out others before."""
    keepers = [document for document in batch.ids if document in kept_out] if job.unique_only else []
    found = zip(keepers, known(index.store, keepers), strict=True)
    return {document: each.entry.fingerprint for document, each in found if each and each.stored}


def _outgrown(
    batch: Batch, found: Sequence[Match | None], kept: Sequence[bool], before: dict[str, int]
) -> int:
    """How many documents of a batch got other texts than those by which they had kept out others."""
    count = 0
    values = batch.fingerprints.values.tolist()
    for document, value, near, is_kept in zip(batch.ids, values, found, kept, strict=True):
        if near is not None:
            before[near.id] = near.fingerprint
        count += is_kept and before.get(document, value) != value
    return count


def _stored(
    job: Load, index: Index, checkpoints: Checkpoints, batch: Batch, chunks: int
) -> tuple[BatchDecision, Loaded]:
    """Stores what is to be stored of a batch: all of it, or only what nothing is near."""
    is_shared = keeps_hints(index.store)
    with index.store.exclusive() if job.unique_only and not is_shared else nullcontext():
        decision = _decided(job, index, checkpoints, batch, chunks)
        if decision.skipped:
            left = [number not in decision.skipped for number in range(len(batch.ids))]
            batch = batch.only(np.array(left, dtype=bool))
        taken, keeps = (batch.ids, batch.fingerprints), checkpoints.kept_out.may_hold
        if not job.unique_only:
            return decision, load_all(index, *taken, batch.tags)
        if decision.duplicates is None:
            run = checkpoints.run
            return decision, claim_all(index, *taken, run, job.min_similarity, batch.tags, keeps)
        return decision, store_kept(index, *taken, decision.duplicates, batch.tags, keeps)


def _decided(job: Load, index: Index, checkpoints: Checkpoints, batch: Batch, chunks: int) -> BatchDecision:
    """What becomes of a batch, as far as that is told before it is written; noted, as the store may answer
    otherwise when a part of it is stored."""
    decides = job.unique_only and not keeps_hints(index.store)
    if not (decides or job.skip_existing or job.new):
        return BatchDecision()
    if found := checkpoints.decided(chunks):
        return found
    skipped, new = frozenset[int](), frozenset[int]()
    if job.skip_existing or job.new:
        alive = alive_since(index.store, index.clock())
        stored = [
            each.entry.fingerprint if each and each.stored and each.version >= alive else None
            for each in known(index.store, batch.ids)
        ]
        values = batch.fingerprints.values.tolist()
        new = frozenset(n for n, before in enumerate(stored) if before != values[n])
        if job.skip_existing:
            skipped = frozenset(n for n, before in enumerate(stored) if before is not None)
    near = None
    if decides:
        left = batch.only(np.array([n not in skipped for n in range(len(batch.ids))], dtype=bool))
        near = duplicates_of(index, left.ids, left.fingerprints, job.min_similarity)
    decision = BatchDecision(skipped, new, near)
    checkpoints.note_decided(chunks, decision)
    return decision


def _chunks_at_once(job: Load) -> int:
    is_prepared = job.inputs.options.fingerprint_field is not None and not job.unique_only
    # A pipe may be slow, and many are not worth waiting for.
    comes_as_files = is_prepared and job.can_be_resumed and not job.store.startswith("hbase:")
    return PREPARED_CHUNKS_AT_ONCE if comes_as_files else CHUNKS_AT_ONCE


def _batches(
    job: Load, index: Index, checkpoints: Checkpoints, seen: SeenIds
) -> Generator[Batch, None, None]:
    options = job.inputs.options
    trim = unique_trim(options) if job.unique or job.new else without_content
    return job.inputs.each(fingerprinting(options, index, trim), partial(checkpoints.left, seen=seen))


def _opened(
    job: Load, option: str, checkpoints: Checkpoints, wait: _Wait
) -> AbstractContextManager[OutputFile | None]:
    path, kept = job.files[option], checkpoints.kept(option)
    if option in WITH_RECORDS and path is not None:
        return wait.until(lambda: unique_file(path, job.inputs, keep=kept))
    return wait.until(lambda: opened(path, kept))


def _name(job: Load, option: str, checkpoints: Checkpoints, wait: _Wait) -> None:
    """Gives a file that an earlier run has ended its name, if it has not got it yet."""
    path, kept = job.files[option], checkpoints.kept(option)
    is_named = unique_is_finished if option in WITH_RECORDS else is_finished
    if path is not None and not is_named(path, kept):
        with _opened(job, option, checkpoints, wait):
            pass


@contextmanager
def _hfiles(job: Load, index: Index, log: LoadLog) -> Iterator[HFileLoad | None]:
    """What takes documents in the store's place with `via`."""
    if job.via is None:
        yield None
        return
    from simhbase.jobs.hfiles import HFileLoad  # the client of HBase takes time to load

    # There is one run at a time of a load that is noted.
    place = log.state.name if job.can_be_resumed else f"{log.state.name} {token_hex(8)}"
    with HFileLoad(index, job.work_folder, place, log.require_held, job.inputs.watcher.note) as hfiles:
        yield hfiles


@contextmanager
def _unique(
    job: Load, index: Index, log: LoadLog, checkpoints: Checkpoints, hfiles: HFileLoad | None
) -> Iterator[UniqueDocuments | None]:
    """What says which of the documents of `hfiles` are kept, with `unique_only`."""
    if hfiles is None or not job.unique_only:
        yield None
        return
    from simhbase.jobs.hfiles_unique import UniqueDocuments

    unsettled = (log.pending or {}).get("version")
    folder, run = hfiles.folder / "kept", checkpoints.run
    with UniqueDocuments(index, job.min_similarity, folder, run, unsettled) as unique:
        yield unique


def _hand_over(
    hfiles: HFileLoad,
    unique: UniqueDocuments | None,
    log: LoadLog,
    tally: _Tally,
    checkpoints: Checkpoints,
    files: Mapping[str, OutputFile | None],
) -> None:
    """Has what was put aside in the store when it returns."""
    report = hfiles.hand_over(unique, lambda version: log.note_pending({"version": version}))
    with interrupt_put_off():
        tally.add(Loaded((), report))
        checkpoints.advance(tally.noted(), files)


def _drop_if_empty(url: str) -> None:
    """Removes a store that a load has made in vain."""
    with suppress(TablesMissing):  # in memory
        with closing(open_store(url, "read")) as store:
            is_empty = not any(map(len, store.records("documents").iterate()))
        if is_empty:
            drop_store(url)


def _open(job: Load) -> tuple[Index, bool]:
    """The store to load into, and whether it was made: an embedded one that does not exist is. Raises what
    `open_index` does, UsageError for what it cannot take or compare by."""
    given = given_parameters(job.profile)
    try:
        index = open_index(job.store)
    except TablesMissing:
        if is_on_server(job.store):
            raise
        if job.inputs.options.fingerprint_field is not None:
            given = unverified(given)
        profile = make_profile(given)
        _require_fitting_profile(job, profile)
        return open_index(job.store, create=profile), True
    try:
        index.profile.require(given)
        _require_fitting_profile(job, index.profile)
    except BaseException:
        index.close()
        raise
    return index, False


def _require_fitting_profile(job: Load, profile: Profile) -> None:
    _ = profile.index_scheme.bounds(None, job.min_similarity)
    if job.inputs.options.fingerprint_field is not None and profile.sketching is not None:
        raise UsageError(
            "the store keeps a sketch of each text, which fingerprints made elsewhere do not have: give the "
            "texts",
            parameter="fingerprint_field",
        )


def _resuming(log: LoadLog) -> str:
    stopped = datetime.fromtimestamp((log.before or log.state).changed / 1000).astimezone()
    names = ("added", "updated", "unchanged", "duplicates", "rejected")
    read = sum((log.state.counts or {}).get(name, 0) for name in names)
    return f"resuming after {read:,} documents, where the run of {stopped:%Y-%m-%d %H:%M} was stopped"


class _Wait:
    """Waits so many seconds for what another process has. begun: milliseconds since 1970."""

    def __init__(self, seconds: float, watcher: Watcher) -> None:
        self._end = monotonic() + seconds
        self._watcher = watcher
        self.begun = now()
        self.has_waited = False

    def until(self, take: Callable[[], T]) -> T:
        """What `take` returns. Raises what it raises; StoreBusy when the time is up."""
        while True:
            try:
                return take()
            except (StoreBusy, OutputBusy) as error:
                if monotonic() >= self._end:
                    raise
                if not self.has_waited:
                    self._watcher.note(f"waiting: {error}")
                    self.has_waited = True
                sleep(min(_LOOKED_AT, max(0, self._end - monotonic())))


@dataclass
class _Tally:
    """What has been acknowledged so far."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    duplicates: int = 0
    outdated: int = 0
    outgrown: int = 0
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def of(cls, noted: Mapping[str, int]) -> _Tally:
        """That of an interrupted run."""
        own = {each.name: noted.get(each.name, 0) for each in fields(cls) if each.name != "counts"}
        return cls(**own, counts=Counts(**{each.name: noted.get(each.name, 0) for each in fields(Counts)}))

    def noted(self) -> dict[str, int]:
        """All numbers, by name."""
        values = asdict(self)
        return {**values, **values.pop("counts")}

    @property
    def loaded(self) -> int:
        """How many of the documents the store holds now."""
        return self.added + self.updated + self.unchanged

    def add(self, done: Loaded, skipped: int = 0) -> None:
        self.added += done.report.added
        self.updated += done.report.updated
        self.unchanged += done.report.unchanged + skipped
        self.duplicates += sum(near is not None for near in done.duplicate_of)
        self.outdated += done.removed


def _report(tally: _Tally, checkpoints: Checkpoints, start: float) -> LoadReport:
    return LoadReport(
        documents=tally.loaded + tally.duplicates + tally.counts.rejected,
        loaded=tally.loaded,
        added=tally.added,
        updated=tally.updated,
        unchanged=tally.unchanged,
        duplicates=tally.duplicates,
        outdated=tally.outdated,
        rejected=tally.counts.rejected,
        unreadable_sources=tally.counts.unreadable_sources,
        seconds=round(monotonic() - start, 3),
        sources=most_repeated(checkpoints.sources.reports()),
        largest=checkpoints.kept_out.largest(),
        counts=tally.counts,
    )


@contextmanager
def _saying_what_is_kept(tally: _Tally, watcher: Watcher) -> Iterator[None]:
    try:
        yield
    except InputsChanged:
        raise
    except (ProfileMismatch, TablesMissing):
        if tally.loaded:
            watcher.note(f"stopped after {tally.loaded:,} documents, of which the tables may have lost all")
        raise
    except TableDisabled:
        # A table is disabled right before it is dropped.
        if tally.loaded:
            watcher.note(
                f"stopped after {tally.loaded:,} documents, which are there again when the table is enabled, "
                "unless it is dropped"
            )
        raise
    except BaseException as error:
        if tally.loaded or tally.duplicates:
            kept = (
                f"stopped after {tally.loaded:,} documents ({tally.duplicates:,} duplicates). They are kept"
            )
            # What is wrong with the input is wrong the next time, too.
            again = "" if isinstance(error, BadInput) else ": run the same command again to resume"
            watcher.note(f"{kept}{again}")
        else:
            watcher.note("stopped before anything was loaded")
        raise


def _write(file: OutputFile | None, lines: Iterator[bytes]) -> None:
    if file:
        file.write(lines)


def _lines(records: Sequence[Record], chosen: Sequence[bool]) -> Iterator[bytes]:
    return (unique_line(record) for record, is_it in zip(records, chosen, strict=True) if is_it)


def _duplicate_lines(ids: Sequence[str], found: Sequence[Match | None]) -> Iterator[bytes]:
    return (
        duplicate_line(document, near.id, near.distance, near.similarity)
        for document, near in zip(ids, found, strict=True)
        if near
    )


def _evidence_lines(ids: Sequence[str], found: Sequence[Match | None], rule: Rule) -> Iterator[bytes]:
    return (
        evidence_line(document, near.id, near.distance, near.similarity, rule)
        for document, near in zip(ids, found, strict=True)
        if near
    )
