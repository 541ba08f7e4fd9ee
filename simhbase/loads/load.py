"""Loads a corpus into a store.

The steps in `loading` and `_LoadRun.load`: open the store, begin the load in its log, read, store, write the
files, note the progress, rename the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from operator import add
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs.files import (
    Duplicate,
    KeptBeginning,
    OutputBusy,
    OutputFile,
    PartDiffers,
    duplicate_line,
    files_in_place,
    is_finished,
    unique_line,
)
from simhbase.corpus.outputs.trim import Trim, without_content
from simhbase.corpus.outputs.unique import unique_file, unique_is_finished, unique_trim
from simhbase.corpus.reading import read_each
from simhbase.corpus.rejects import Counts, Rejects
from simhbase.corpus.watcher import Watcher
from simhbase.deduplication.evidence import Rule, evidence_line
from simhbase.deduplication.report import GroupSize
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
from simhbase.index.load_log import Count, LoadLog, finished_since, forgetting, last_run
from simhbase.index.writer import SETTLED, alive_since
from simhbase.jobs.kinds import NOTHING, Kinds
from simhbase.jobs.pipeline import Batch, fingerprinting, joined
from simhbase.jobs.seen_ids import SeenIds
from simhbase.jobs.source_report import Gathered, SourceReport, warnings_of
from simhbase.loads.checkpoints import BatchDecision, Checkpoints, InputsChanged
from simhbase.loads.job import OF_DOCUMENTS, WITH_RECORDS, Load
from simhbase.loads.unique import Loaded, claim_documents, find_duplicates, store_kept
from simhbase.model import wire
from simhbase.model.values import AddReport, Match
from simhbase.process.interrupt import defer_interrupts
from simhbase.profile.profile import Profile, given_parameters, make_profile, without_sketches
from simhbase.stores import backend, drop_store, open_store
from simhbase.stores.base import Access, now
from simhbase.stores.memory import MemoryStore

if TYPE_CHECKING:
    from simhbase.loads.hfiles import HFileLoad
    from simhbase.loads.hfiles_unique import UniqueDocuments

T = TypeVar("T")
P = ParamSpec("P")
_RETRY_SECONDS = 1.0  # between attempts to get what another process holds
CHUNKS_AT_ONCE = 8  # written and made durable together: up to 4,096 documents or 8 MB of text
# Of short texts or fingerprints, enough for an embedded store to ingest files: 0.9 of the processor time of a
# load of a million texts.
INGESTED_CHUNKS_AT_ONCE = 64
OUTGROWN = (
    "{:,} stored documents got other texts after this load had skipped duplicates of their old texts: run "
    "the same command again to store those that have no near-duplicate now"
)


@dataclass(frozen=True)
class LoadReport:
    """Result of `load`.

    documents: all documents read, including rejected ones. loaded: those that the store holds now: added (new
    ones), updated (with a new fingerprint) and unchanged. duplicates: not stored, with `unique_only`;
    outdated: stored documents removed because their new text is a duplicate. unreadable_sources: files and
    folders that could not be read; unusable_sources: files of at least 10 records, of which fewer than a
    tenth could be used. sources: counts by source (see `Inputs.by_source`) in input order; if more than 100
    (of files or folders 1,000), those with the most duplicates, rejects and unreadable files. largest: the
    five stored documents with the most duplicates (if more than 100,000 have any, the numbers may be too low
    by 1/100,000 of all duplicates). counts: rejected records and unreadable sources, by kind; if nothing
    could be read (`counts.nothing_read`), the command fails.
    new_store: True if this run created the store.
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
    unusable_sources: tuple[str, ...]
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts
    new_store: bool = field(default=False, compare=False)


def load(
    inputs: Inputs | str | Path | Sequence[str | Path],
    store: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    scope: str | None = None,
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
    """Fingerprint documents and store them. Documents whose id is stored already are replaced.

    inputs: paths, or an Inputs with options. store: URL, as for `open`; an embedded store that does not exist
    is created, and removed again if nothing is stored. scope: of a store with scopes, as a new one is then.
    profile: of a new store; an existing one must agree with it, or with the parameters given by name.
    unique_only: store only documents without a match in the
    store, and remove a stored document whose new text is a duplicate. min_similarity: minimum similarity of
    duplicates. skip_existing: skip documents whose id is stored. tags: names and values for all documents;
    tag_fields: names of further tags, and the fields or columns with their values (records without these are
    rejected). They replace the tags of stored documents.

    unique, duplicates: with `unique_only`, files for the stored documents (JSON lines, or rows in .csv, .tsv
    and .parquet) and for the duplicates (JSON lines); evidence: a file with the reasons. new: a file like
    `unique` for documents that this load added or updated.

    An interrupted load, also by a crash, is resumed when it is run again with the same inputs and options,
    and ends with the same rows and files as without the interruption (in HBase with `unique_only`, the files
    may name another one of several matches). name: of the load, by default derived from these, the host and
    the working folder; `Administrator` lists the loads of a store. If inputs cannot be read again (standard
    input) or outputs cannot be cut (a pipe), it starts over. lock_wait: seconds to wait while another process
    writes to an embedded store, or runs this load.

    via: "hfiles" writes HFiles and loads them with HBase's tool, bypassing its gateways and write-ahead logs:
    for millions of documents (see docs/hbase.md). With `unique_only`, ids must be new. work_folder: a folder
    that HBase can read, or a URI such as hdfs://..., with space for 1 kB per document; default: the system's
    folder for temporary files.

    Raises UsageError for invalid arguments, before anything is read, and if the inputs of a named load have
    changed since it was interrupted; StoreBusy if another process runs the load; ProfileMismatch;
    StoreUnreachable; TooManyRejects; TablesMissing if tables are dropped meanwhile, or do not exist in HBase.
    """
    options = {name: each for name, each in locals().items() if name != "inputs"}
    with loading(Load(inputs=Inputs.of(inputs), **options)) as report:
        return report


@contextmanager
def loading(job: Load) -> Iterator[LoadReport]:
    """Run a load and yield its report. The load is noted as finished when the block succeeds; otherwise
    running it again yields the report again. Raises as `load`."""
    wait = _Wait(monotonic() + job.lock_wait, job.inputs.watcher, begun=now())
    with ExitStack() as undone, ExitStack() as stack:
        # Before files: without it none may be touched.
        index, is_new = wait.until(
            open_for_load,
            job.store,
            job.profile,
            scope=job.scope,
            unique_only=job.unique_only,
            min_similarity=job.min_similarity,
            fingerprint_field=job.inputs.options.fingerprint_field,
        )
        stack.enter_context(closing(index))
        if is_new:
            if job.inputs.options.fingerprint_field is None and (misses := index.profile.misses):
                job.inputs.watcher.hint(misses)
            if missing := index.profile.index_scheme.missing():
                job.inputs.watcher.note(missing)
            undone.callback(drop_if_empty, job.store)
        job.inputs.watcher.replacing(_replaced(job, index))
        found = wait.until(_begin, job, index, wait)
        if isinstance(found, LoadReport):  # another process has finished it meanwhile
            yield found
            return
        log = stack.enter_context(found)
        try:
            report = _LoadRun(job, index, log, wait).load()
        except (InputsChanged, PartDiffers) as error:
            if job.name is not None:
                raise UsageError(
                    f"cannot resume the load {job.name!r}: {error}. To load everything again, first run: "
                    f"{forgetting(job.name)}"
                ) from error
            job.inputs.watcher.note(f"{error}; starting over")
            log.begin_anew()
            report = _LoadRun(job, index, log, wait).load()
        if report.added + report.updated >= SETTLED:
            try:
                index.store.compact(job.inputs.watcher.progress)
            except KeyboardInterrupt:  # everything is stored, and compaction is optional
                pass
            except StoreFailed as error:
                job.inputs.watcher.note(f"all documents are stored, but {error}")
        for warning in warnings_of(report.sources):
            job.inputs.watcher.note(warning)
        yield replace(report, new_store=is_new and not report.counts.nothing_read)
        if not report.counts.nothing_read:
            undone.pop_all()


def _replaced(job: Load, index: Index) -> Iterator[Path]:
    """Existing output files that are not this load's: it may write those again that it wrote. What an
    interrupted load replaces was agreed to when it began."""
    # Before the log is read: a run notes its files before it gives them their names.
    existing = {option: path for option, path in job.files.items() if list(files_in_place([path]))}
    last = last_run(index.store, job.log_name, index.of) if existing and job.can_be_resumed else None
    if last is None or last.task != job.digest:
        yield from filter(None, existing.values())
    elif not last.is_unfinished:
        for option, path in existing.items():
            kept = (last.files or {}).get(option)
            if path and not (kept and _is_named(option, path, KeptBeginning(*kept))):
                yield path


def _is_named(option: str, path: Path, kept: KeptBeginning) -> bool:
    """True if a file that a run completed has its final name."""
    return (unique_is_finished if option in WITH_RECORDS else is_finished)(path, kept)


def _begin(job: Load, index: Index, wait: _Wait) -> LoadLog | LoadReport:
    """Begin a load, or return its report if another process has finished it while this one waited."""
    store = index.store if job.can_be_resumed else MemoryStore("memory:")
    if wait.has_waited and (done := finished_since(store, job.log_name, job.digest, wait.begun, index.of)):
        return wire.convert(done, LoadReport)
    return LoadLog.begin(store, job.log_name, job.digest, index.of)


class _LoadRun:
    """One run of a load, from the start or resumed."""

    def __init__(self, job: Load, index: Index, log: LoadLog, wait: _Wait) -> None:
        self._job = job
        self._index = index
        self._log = log
        self._wait = wait
        self._watcher = job.inputs.watcher
        self._checkpoints = Checkpoints(job.inputs, log, is_noted=job.can_be_resumed)
        self._tally = log.noted(log.state.counts, _Tally) if log.state.counts else _Tally()
        # A resumed run has seen a part of each source only.
        is_whole = log.before is None or not log.state.parts
        self._gathered = Gathered(job.inputs) if job.unique_only and is_whole else None
        self._files: dict[str, OutputFile | None] = {}
        self._writes_documents = any(job.files[option] for option in OF_DOCUMENTS)

    def load(self) -> LoadReport:
        """Load what is left to load. Raises InputsChanged and PartDiffers if it cannot be resumed."""
        start, job, log, checkpoints = monotonic(), self._job, self._log, self._checkpoints
        if log.state.progress == "finishing":
            checkpoints.require_same_inputs()
            for option in job.files:
                self._rename(option)
            return log.noted(log.state.report, LoadReport)
        if log.before is not None and log.state.parts:
            self._watcher.note(_resuming(log))
        kinds, seen = NOTHING, SeenIds()
        counts = log.noted(log.state.counts, Counts) if log.state.counts else Counts()
        with ExitStack() as stack:
            hfiles, unique = (None, None) if job.via is None else self._opened_hfiles(stack)
            self._files = {
                option: stack.enter_context(self._opened(option, path)) if path else None
                for option, path in job.files.items()
            }
            rejects = Rejects(self._files["rejects"], job.inputs.max_rejects, self._watcher, counts)
            batches = stack.enter_context(closing(self._batches(seen)))
            stack.enter_context(_noting_interruption(self._tally, self._watcher))
            for read in joined(batches, CHUNKS_AT_ONCE, _most_chunks_at_once(job)):
                batch = seen.without_repeats(read)
                rejects.note(batch)
                kinds = Kinds(*map(add, kinds, read.kinds))
                with defer_interrupts():
                    if hfiles is None:
                        near = self._store(batch, read.chunks)
                    else:
                        near = self._spool(batch, hfiles, unique)
                    sources = checkpoints.sources.of(batch.items, (each is not None for each in near))
                    if self._gathered:
                        kept = (None if match is None else match.id for match in near)
                        self._gathered.add(batch.items, kept)
                    matched = Counter(match.id for match in near if match is not None)
                    checkpoints.stage(read, sources, matched)
                    if hfiles is None:
                        checkpoints.advance(asdict(self._tally) | asdict(rejects.counts), self._files)
                if hfiles is not None and hfiles.is_full:
                    self._hand_over(hfiles, unique, rejects)
            if rejects.counts.nothing_read:
                for option in OF_DOCUMENTS:
                    if file := self._files[option]:
                        file.abandon()
                log.remove()
                return self._report(rejects.counts, start)
            rejects.require_share()
            if hfiles is not None:
                self._hand_over(hfiles, unique, rejects)
            self._index.require_own_tables()  # else documents went into tables that were dropped meanwhile
            report = self._report(rejects.counts, start)
            checkpoints.note_all(asdict(report), self._files)
            self._index.store.sync()
        least = job.min_similarity
        if least and (missing := self._index.profile.index_scheme.missing(least)):
            self._watcher.note(missing)
        if self._tally.outgrown:
            self._watcher.note(OUTGROWN.format(self._tally.outgrown))
        for warning in self._gathered.warnings() if self._gathered else ():
            self._watcher.note(warning)
        for hint in kinds.hints(self._index.profile):
            self._watcher.hint(hint)
        return report

    def _batches(self, seen: SeenIds) -> Generator[Batch, None, None]:
        inputs = self._job.inputs
        trim: Trim = without_content
        if self._job.unique or self._job.new:
            trim, inputs = unique_trim(inputs)
        work = replace(fingerprinting(inputs.options, self._index, trim), counts_kinds=True)
        return read_each(inputs, work, partial(self._checkpoints.remaining, seen=seen))

    def _store(self, batch: Batch, chunks: int) -> list[Match | None]:
        """Store a batch and write it to the files. Returns the match of each duplicate, None for other
        documents."""
        if not batch.records:
            return []
        before = self._fingerprints_of_matched(batch) if self._job.unique_only else {}
        decision, done = self._write_to_store(batch, chunks)
        if (
            self._index.counts and decision.duplicates is not None
        ):  # claims are counted where they are decided
            self._index.note_refused(decision.left_of(batch).ids, done.duplicate_of)
        self._tally.add(done, skipped=len(decision.skipped))  # before files are written, which may fail
        near = iter(done.duplicate_of)
        found = [None if number in decision.skipped else next(near) for number in range(len(batch.ids))]
        kept = [each is None and number not in decision.skipped for number, each in enumerate(found)]
        if self._job.unique_only:
            self._tally.outgrown += _outgrown(batch, found, kept, before)
        if self._writes_documents:
            self._write_files(batch, kept, found, decision.new)
        return found

    def _spool(self, batch: Batch, hfiles: HFileLoad, unique: UniqueDocuments | None) -> list[Match | None]:
        """Spool a batch, or its unique documents, for HFiles. Returns as `_store`."""
        if unique is None:
            hfiles.append(batch.documents)
            return [None] * len(batch.ids)
        found = unique.duplicates_of(batch)
        self._index.note_refused(batch.ids, found)
        kept = [each is None for each in found]
        hfiles.append(batch.documents[[number for number, is_kept in enumerate(kept) if is_kept]])
        self._tally.add(Loaded(found, AddReport()))
        self._write_files(batch, kept, found)
        return found

    def _write_files(
        self,
        batch: Batch,
        kept: Sequence[bool],
        found: Sequence[Match | None],
        new: frozenset[int] = frozenset(),
    ) -> None:
        """Write a batch to the files: its kept documents, those of them that are new, and duplicates."""
        pairs = list(zip(batch.records, kept, strict=True))
        duplicates = [
            Duplicate(
                record.id,
                near.id,
                near.distance,
                near.similarity,
                source=record.source,
                line=record.line,
            )
            for record, near in zip(batch.records, found, strict=True)
            if near
        ]
        rule = Rule(self._index.profile.index_scheme.rule(self._job.min_similarity))
        lines = {
            "unique": (unique_line(record) for record, is_kept in pairs if is_kept),
            "duplicates": map(duplicate_line, duplicates),
            "evidence": (evidence_line(each, rule) for each in duplicates),
            "new": (unique_line(record) for n, (record, is_kept) in enumerate(pairs) if is_kept and n in new),
        }
        for option, each in lines.items():
            if file := self._files[option]:
                file.write(each)

    def _fingerprints_of_matched(self, batch: Batch) -> dict[str, int]:
        """Stored fingerprints of those documents of a batch that have duplicates in this load."""
        matched = [document for document in batch.ids if document in self._checkpoints.kept_out]
        found = zip(matched, self._index.known(matched), strict=True)
        return {document: each.entry.fingerprint for document, each in found if each and each.stored}

    def _write_to_store(self, batch: Batch, chunks: int) -> tuple[BatchDecision, Loaded]:
        """Store a batch: all of it, or only documents without a near-duplicate."""
        job, index = self._job, self._index
        is_shared = index.store.keeps_hints
        with index.store.exclusive() if job.unique_only and not is_shared else nullcontext():
            decision = self._decide(batch, chunks)
            documents, has_duplicates = decision.left_of(batch), self._checkpoints.kept_out.may_hold
            if not job.unique_only:
                report = index.add_batch(documents.ids, documents.fingerprints, documents.tags)
                return decision, Loaded([None] * len(documents.ids), report)
            if decision.duplicates is None:
                run, least = self._checkpoints.run, job.min_similarity
                return decision, claim_documents(index, documents, run, least, has_duplicates)
            return decision, store_kept(index, documents, decision.duplicates, has_duplicates)

    def _decide(self, batch: Batch, chunks: int) -> BatchDecision:
        """Decide what can be decided before writing, and note it: the store may answer differently after a
        part of the batch is stored."""
        job, index = self._job, self._index
        decides = job.unique_only and not index.store.keeps_hints
        if not (decides or job.skip_existing or job.new):
            return BatchDecision()
        if found := self._checkpoints.decided(chunks):
            return found
        skipped, new = frozenset[int](), frozenset[int]()
        if job.skip_existing or job.new:
            alive = alive_since(index.store, index.clock())
            stored = [
                each.entry.fingerprint if each and each.stored and each.version >= alive else None
                for each in index.known(batch.ids)
            ]
            values = batch.fingerprints.values.tolist()
            new = frozenset(n for n, before in enumerate(stored) if before != values[n])
            if job.skip_existing:
                skipped = frozenset(n for n, before in enumerate(stored) if before is not None)
        decision = BatchDecision(skipped, new)
        if decides:
            near = find_duplicates(index, decision.left_of(batch), job.min_similarity)
            decision = replace(decision, duplicates=near)
        self._checkpoints.note_decided(chunks, decision)
        return decision

    def _opened(self, option: str, path: Path) -> OutputFile:
        kept = self._checkpoints.kept(option)
        if option in WITH_RECORDS:
            return self._wait.until(unique_file, path, self._job.inputs, keep=kept)
        return self._wait.until(OutputFile, path, keep=kept)

    def _rename(self, option: str) -> None:
        """Give a file that an earlier run completed its final name, unless it has it already."""
        path, kept = self._job.files[option], self._checkpoints.kept(option)
        if path is not None and not _is_named(option, path, kept):
            with self._opened(option, path):
                pass

    def _opened_hfiles(self, stack: ExitStack) -> tuple[HFileLoad, UniqueDocuments | None]:
        """The load by HFiles, and with `unique_only` what decides which documents are kept."""
        from simhbase.loads.hfiles import HFileLoad  # importing HBase's client takes time
        from simhbase.loads.hfiles_unique import UniqueDocuments

        job, log, index = self._job, self._log, self._index
        # Only loads with checkpoints are limited to one run at a time.
        place = log.state.name if job.can_be_resumed else f"{log.state.name} {token_hex(8)}"
        hfiles = stack.enter_context(
            HFileLoad(index, job.work_folder, place, log.require_held, self._watcher.note)
        )
        if not job.unique_only:
            return hfiles, None
        stored = stack.enter_context(open_index(index.store.url, access="read", drawer_limit=None))
        kept = stack.enter_context(open_index(f"rocksdb:{hfiles.folder / 'kept'}", create=index.profile))
        unsettled = (log.pending(dict[str, Count]) or {}).get("version")
        least, run = job.min_similarity, self._checkpoints.run
        return hfiles, UniqueDocuments(index, stored, kept, least, run, unsettled)

    def _hand_over(self, hfiles: HFileLoad, unique: UniqueDocuments | None, rejects: Rejects) -> None:
        """Load all spooled documents into the store, and note the progress."""
        report = hfiles.hand_over(unique, lambda version: self._log.note_pending({"version": version}))
        with defer_interrupts():
            self._tally.add(Loaded((), report))
            self._checkpoints.advance(asdict(self._tally) | asdict(rejects.counts), self._files)

    def _report(self, counts: Counts, start: float) -> LoadReport:
        tally = self._tally
        return LoadReport(
            documents=tally.loaded + tally.duplicates + counts.rejected,
            loaded=tally.loaded,
            added=tally.added,
            updated=tally.updated,
            unchanged=tally.unchanged,
            duplicates=tally.duplicates,
            outdated=tally.outdated,
            rejected=counts.rejected,
            unreadable_sources=counts.unreadable_sources,
            unusable_sources=counts.unusable_sources,
            seconds=round(monotonic() - start, 3),
            sources=self._checkpoints.sources.reports(),
            largest=self._checkpoints.kept_out.largest(),
            counts=counts,
        )


def _outgrown(
    batch: Batch, found: Sequence[Match | None], kept: Sequence[bool], before: dict[str, int]
) -> int:
    """Count documents of a batch that got another text after duplicates of the old one were skipped. before:
    fingerprints by id."""
    count = 0
    values = batch.fingerprints.values.tolist()
    for document, value, near, is_kept in zip(batch.ids, values, found, kept, strict=True):
        if near is not None:
            before[near.id] = near.fingerprint
        count += is_kept and before.get(document, value) != value
    return count


def _most_chunks_at_once(job: Load) -> int:
    # Not for pipes: collecting many chunks of a slow one would delay the first write.
    is_ingested = job.can_be_resumed and not job.unique_only and not backend(job.store).on_server
    return INGESTED_CHUNKS_AT_ONCE if is_ingested else CHUNKS_AT_ONCE


def drop_if_empty(url: str) -> None:
    """Drop a new store in which nothing was stored."""
    with suppress(TablesMissing):  # dropped meanwhile
        with closing(open_store(url, "read")) as store:
            is_empty = not any(map(len, store.records("documents").iterate()))
        if is_empty:
            drop_store(url)


def open_for_load(
    url: str,
    profile: Profile | Mapping[str, object] | None,
    *,
    scope: str | None = None,
    unique_only: bool,
    min_similarity: float | None = None,
    fingerprint_field: str | None = None,
) -> tuple[Index, bool]:
    """Open the store of a load, or create it if it is embedded. Returns True if it was created. Arguments as
    of `load`. Raises as `open_index`, and UsageError if the profile does not fit the arguments."""
    if url == "memory:":
        raise UsageError(
            "a store in memory is gone when the load ends: give one such as rocksdb:FOLDER; dedup and "
            "match need none"
        )
    given = given_parameters(profile)
    access: Access = "write" if unique_only else "append"
    try:
        index = open_index(url, access=access, scope=scope)
    except TablesMissing:
        if backend(url).on_server:
            raise
        if fingerprint_field is not None:
            given = without_sketches(given)
        made = make_profile(given)
        _require_fitting_profile(made, min_similarity, fingerprint_field)
        return open_index(url, create=made, access=access, scope=scope), True
    try:
        index.profile.require(given)
        _require_fitting_profile(index.profile, min_similarity, fingerprint_field)
    except BaseException:
        index.close()
        raise
    return index, False


def _require_fitting_profile(
    profile: Profile, min_similarity: float | None, fingerprint_field: str | None
) -> None:
    if min_similarity is not None:
        _ = profile.index_scheme.bounds(None, min_similarity)  # validates
    if fingerprint_field is not None and profile.sketching is not None:
        raise UsageError(
            "the store keeps sketches of texts, which cannot be made from fingerprints: give the texts",
            parameter="fingerprint_field",
        )


def _resuming(log: LoadLog) -> str:
    stopped = datetime.fromtimestamp((log.before or log.state).changed / 1000).astimezone()
    names = ("added", "updated", "unchanged", "duplicates", "rejected")
    read = sum((log.state.counts or {}).get(name, 0) for name in names)
    return f"resuming after {read:,} documents, where the run of {stopped:%Y-%m-%d %H:%M} was stopped"


@dataclass
class _Wait:
    """Retries while another process holds something, until the monotonic clock shows `end`. begun:
    milliseconds since 1970."""

    end: float
    watcher: Watcher
    begun: int
    has_waited: bool = False

    def until(self, attempt: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `attempt` until it succeeds. Re-raises StoreBusy and OutputBusy when the time is up."""
        while True:
            try:
                return attempt(*args, **kwargs)
            except (StoreBusy, OutputBusy) as error:
                if monotonic() >= self.end:
                    raise
                if not self.has_waited:
                    self.watcher.note(f"waiting: {error}")
                    self.has_waited = True
                sleep(min(_RETRY_SECONDS, max(0, self.end - monotonic())))


@dataclass
class _Tally:
    """Counts of acknowledged documents."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    duplicates: int = 0
    outdated: int = 0
    outgrown: int = 0

    @property
    def loaded(self) -> int:
        return self.added + self.updated + self.unchanged

    def add(self, done: Loaded, skipped: int = 0) -> None:
        self.added += done.report.added
        self.updated += done.report.updated
        self.unchanged += done.report.unchanged + skipped
        self.duplicates += sum(near is not None for near in done.duplicate_of)
        self.outdated += done.removed


@contextmanager
def _noting_interruption(tally: _Tally, watcher: Watcher) -> Iterator[None]:
    try:
        yield
    except InputsChanged:
        raise
    except (ProfileMismatch, TablesMissing):
        if tally.loaded:
            watcher.note(f"stopped after {tally.loaded:,} documents, which may be lost with the tables")
        raise
    except TableDisabled:
        # A table is disabled right before it is dropped.
        if tally.loaded:
            watcher.note(
                f"stopped after {tally.loaded:,} documents, which are available again when the table is "
                "enabled, unless it is dropped"
            )
        raise
    except BaseException as error:
        if tally.loaded or tally.duplicates:
            kept = (
                f"stopped after {tally.loaded:,} documents; duplicates: {tally.duplicates:,}. "
                "What was loaded is kept"
            )
            # Repeating does not help with bad input.
            again = "" if isinstance(error, BadInput) else ": run the same command again to resume"
            watcher.note(f"{kept}{again}")
        else:
            watcher.note("stopped before anything was loaded")
        raise
