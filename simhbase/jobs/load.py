"""A corpus into a store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from simhbase.corpus.inputs import Inputs, opened
from simhbase.corpus.outputs import (
    OutputBusy,
    OutputFile,
    PartDiffers,
    duplicate_line,
    is_finished,
    unique_line,
)
from simhbase.corpus.record import InputOptions, Record
from simhbase.corpus.rejects import Counts, Rejects
from simhbase.corpus.seen_ids import SeenIds
from simhbase.corpus.trim import unique_trim, without_content
from simhbase.corpus.unique_output import require_written, unique_file, unique_is_finished
from simhbase.corpus.watcher import Watcher
from simhbase.errors import ProfileMismatch, StoreBusy, TableDisabled, TablesMissing, UsageError
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index import Index, open_index
from simhbase.index.manifests import forgetting, require_name
from simhbase.index.tags import Tags, required_tags, tags_of
from simhbase.index.writer import SETTLED
from simhbase.interrupt import interrupt_put_off
from simhbase.jobs.checkpoints import Checkpoints, InputsChanged, Task
from simhbase.jobs.dedup_report import GroupSize
from simhbase.jobs.evidence import Rule, evidence_line
from simhbase.jobs.kept_out import kept_out_by
from simhbase.jobs.pipeline import Batch, fingerprinting, joined
from simhbase.jobs.source_report import SourceReport, Three, most_repeated, warnings_of
from simhbase.jobs.unique import Loaded, claim_all, duplicates_of, load_all, store_kept
from simhbase.model import Match
from simhbase.profile import Profile, given_parameters, make_profile
from simhbase.stores.base import leaves_hints

if TYPE_CHECKING:
    from simhbase.jobs.hfiles import HFileLoad

T = TypeVar("T")
_LOOKED_AT = 1.0  # seconds between tries to get what another process has
CHUNKS_AT_ONCE = 8  # written and made durable together: up to 4,096 documents or 8 MB of text
# The same where nothing has to be made of texts: so many that an embedded store takes them as files.
PREPARED_CHUNKS_AT_ONCE = 128


@dataclass(frozen=True)
class LoadReport:
    """What a load has done.

    documents: how many were read, with those that were rejected. loaded: how many of them the store holds;
    of these, added are new, moved had another fingerprint before, unchanged are as they were. duplicates:
    were not stored, with `unique_only`. unreadable_sources: files and folders that could not be read, of
    which nothing is known. sources: files, or folders that were given, in input order; of more than 100 those
    with the most duplicates. largest: the five stored documents that kept out the most, each with what it
    kept out (where more than 100,000 do, that may be too low by a 100,000th of all duplicates). counts: what
    could not be read, by kind; where nothing at all could (`counts.nothing_read`), the command ends with an
    error.
    """

    documents: int
    loaded: int
    added: int
    moved: int
    unchanged: int
    duplicates: int
    rejected: int
    unreadable_sources: int
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts


def load(
    inputs: Inputs | str | Path | Sequence[str | Path],
    store: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    unique_only: bool = False,
    min_similarity: float | None = None,
    ids_are_unique: bool = False,
    tags: Mapping[str, str] | None = None,
    tag_fields: Mapping[str, str] | None = None,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
    evidence: str | Path | None = None,
    name: str | None = None,
    lock_wait: float = 0,
    via: Literal["hfiles", "hfile-input"] | None = None,
    work_folder: str | Path | None = None,
) -> LoadReport:
    """Fingerprints documents and stores them; one whose id is stored already is replaced.

    inputs: paths, or an Inputs that says more. store: its URL, as of `open`; an embedded one that does not
    exist is made with the first documents. profile: of a store that is made; one that exists must agree with
    it, or with those parameters that are given by name. unique_only: store a document only if nothing that is
    stored by then matches it; min_similarity: what is less similar is no duplicate. ids_are_unique: do not
    look for ids that come twice, which takes 23 to 34 bytes an id. tags: of all documents, names and values;
    tag_fields: names of further tags, and the fields or columns that hold their values. A document that is
    stored already gets these in place of its own; a record without one of the fields is rejected. unique,
    duplicates: files to list what was stored with `unique_only` (JSON lines; rows in .csv, .tsv and
    .parquet), and what was not, as JSON lines; evidence: one for why it was not.

    A load that was stopped, also by a crash, goes on where it was when it is run again with the same inputs
    and options, and ends with the same rows and files as if it had not been stopped (in HBase with
    `unique_only` the files may name another one of several matches). name: what it is called, by default
    after these, its host and its folder; `Index.loads()` lists those of a store. Where the input cannot be
    read again (standard input) or an output not be cut (a pipe), it begins anew. lock_wait: seconds to wait
    while another process writes to an embedded store, or runs this load.

    via: "hfiles" loads into HBase by files that HBase's own tools make and load, past its gateways and
    write-ahead logs: for millions of documents, and not with `unique_only`; docs/hbase.md says more.
    work_folder: where these tools can read, a folder or a URI such as hdfs://...; by default the system's
    folder for what is temporary. It takes about 2 kB a document. "hfile-input": `inputs` is one folder, or
    its URI, of rows that `simhbase.jobs.spark.hfile_input` has made for that, and nothing else is told; its
    work_folder is by default within it.

    Raises UsageError for what does not go together, before anything is read; StoreBusy where another process
    runs the load; UsageError also where the inputs of a named load have changed since it was stopped;
    ProfileMismatch, StoreUnreachable; TooManyRejects; TablesMissing where tables are dropped meanwhile, or
    do not exist in HBase.
    """
    inputs = Inputs.of(inputs)
    if via == "hfile-input":
        others = [
            unique_only,
            min_similarity,
            ids_are_unique,
            tags,
            tag_fields,
            unique,
            duplicates,
            evidence,
            name,
        ]
        return _load_hfile_input(inputs, store, profile, lock_wait, work_folder, has_others=any(others))
    options = replace(inputs.options, whole_rows=bool(unique))
    inputs = replace(inputs, options=_tagging(options, required_tags(tags), tags_of(tag_fields or {})))
    files = {"rejects": inputs.rejects, "unique": unique, "duplicates": duplicates, "evidence": evidence}
    task = Task(
        inputs,
        {option: None if path is None else Path(path) for option, path in files.items()},
        unique_only,
        min_similarity,
        ids_are_unique,
    )
    _require_fitting(task, name)
    route = _Route(via, work_folder)
    route.require_fitting(store, task)
    start = monotonic()
    patience = _Patience(lock_wait, inputs.watcher)
    # First: who does not get the store touches no file.
    with patience.wait_for(lambda: _target(inputs, store, profile, min_similarity)) as target:
        with Checkpoints(task, name) as checkpoints:
            if target.exists:
                patience.wait_for(lambda: checkpoints.begin(target.make()))
            try:
                report = _Load(task, target, checkpoints, patience, route).run()
            except (InputsChanged, PartDiffers) as error:
                if name is not None:
                    raise UsageError(
                        f"cannot go on with the load {name!r}: {error}. To load all anew, type first: "
                        f"{forgetting(name)}"
                    ) from error
                inputs.watcher.note(f"{error}: all is loaded anew")
                checkpoints.begin_anew()
                report = _Load(task, target, checkpoints, patience, route).run()
        if report.added + report.moved >= SETTLED:
            # All is done but this, which whoever has no time for may leave out.
            with suppress(KeyboardInterrupt):
                target.make().store.settle()
    for warning in warnings_of(report.sources):
        inputs.watcher.note(warning)
    return replace(report, seconds=round(monotonic() - start, 3))


def _load_hfile_input(
    inputs: Inputs,
    store: str,
    profile: Profile | Mapping[str, object] | None,
    lock_wait: float,
    work_folder: str | Path | None,
    *,
    has_others: bool,
) -> LoadReport:
    """What became of documents whose rows have been made elsewhere."""
    if has_others or inputs.rejects or inputs.options != InputOptions():
        raise UsageError(
            "`via='hfile-input'` loads rows that are made already: leave out what says how documents are "
            "read, which are kept, and where they are listed"
        )
    _require_hbase(store, "hfile-input")
    if len(inputs.paths) != 1:
        raise UsageError("`via='hfile-input'` loads the rows in one folder: name that")
    from simhbase.jobs.hfile_input import load_hfile_input  # the client of HBase takes time to load

    start = monotonic()
    patience = _Patience(lock_wait, inputs.watcher)
    with open_index(store) as index:
        index.profile.require(given_parameters(profile))
        (folder,) = inputs.paths
        done = patience.wait_for(lambda: load_hfile_input(index, folder, work_folder, inputs.watcher))
    loaded = done.added + done.moved + done.unchanged
    return LoadReport(
        documents=loaded + done.rejected,
        loaded=loaded,
        added=done.added,
        moved=done.moved,
        unchanged=done.unchanged,
        duplicates=0,
        rejected=done.rejected,
        unreadable_sources=0,
        seconds=round(monotonic() - start, 3),
        sources=(),
        largest=(),
        counts=Counts(parsed=loaded, rejected=done.rejected),
    )


def _require_hbase(store: str, via: str) -> None:
    if not store.startswith("hbase:"):
        raise UsageError(f"`via={via!r}` loads into HBase: leave it out for other stores")


def _tagging(options: InputOptions, tags: Tags, fields: Tags) -> InputOptions:
    """The options, with tags. Raises UsageError for what no document can be tagged with."""
    if twice := dict(tags).keys() & dict(fields).keys():
        raise UsageError(f"the tag {min(twice)!r} is named by `tags` and by `tag_fields`: leave one out")
    _ = required_tags({name: "a" for name, _ in (*tags, *fields)})  # values are seen in the records
    return replace(options, tags=tags, tag_fields=fields)


def _require_fitting(task: Task, name: str | None) -> None:
    """Raises UsageError for what does not go together, OutputFailed for outputs that cannot be written."""
    said_of_unique = [task.files[option] for option in ("unique", "duplicates", "evidence")]
    if any(said_of_unique) and not task.unique_only:
        raise UsageError(
            "`unique`, `duplicates` and `evidence` say what `unique_only=True` kept: they need it"
        )
    if task.min_similarity is not None and not task.unique_only:
        raise UsageError("`min_similarity` says what `unique_only=True` takes for a duplicate: it needs it")
    if name is not None:
        require_name(name)
    require_written(task.files["unique"])
    task.inputs.require_outputs(*said_of_unique)
    if name is not None and not task.can_be_resumed:
        raise UsageError(
            "`name` is for loads that can go on after they were stopped: those of a pipe, or into one, "
            "cannot. Leave it out, or use files"
        )


@dataclass(frozen=True)
class _Route:
    """How documents come into the store. Raises UsageError for a way that does not exist, or does not go
    together with the rest."""

    via: str | None
    work_folder: str | Path | None

    def require_fitting(self, store: str, task: Task) -> None:
        if self.via not in (None, "hfiles"):
            raise UsageError(f"no `via` {self.via!r}: there are 'hfiles' and 'hfile-input'")
        if self.via is None and self.work_folder is not None:
            raise UsageError("`work_folder` is for the files of `via='hfiles'`: it needs that")
        if self.via is not None:
            _require_hbase(store, self.via)
        if self.via is not None and task.unique_only:
            raise UsageError(
                "`via='hfiles'` and `unique_only=True` do not go together: documents that are put aside are "
                "not found by those that follow. Find the duplicates first (simhbase dedup --unique FILE), "
                "and load that file, or leave `via='hfiles'` out"
            )

    def open(self, target: _Target, checkpoints: Checkpoints, watcher: Watcher) -> HFileLoad | None:
        """What takes documents in the store's place; None where that takes them."""
        if self.via is None:
            return None
        from simhbase.jobs.hfiles import HFileLoad  # the client of HBase takes time to load

        return HFileLoad(target.make(), self.work_folder, checkpoints.place, checkpoints.live, watcher.note)


def _report(tally: _Tally, counts: Counts, noted: Checkpoints) -> LoadReport:
    return LoadReport(
        documents=tally.loaded + tally.duplicates + counts.rejected,
        loaded=tally.loaded,
        added=tally.added,
        moved=tally.moved,
        unchanged=tally.unchanged,
        duplicates=tally.duplicates,
        rejected=counts.rejected,
        unreadable_sources=counts.unreadable_sources,
        seconds=0.0,
        sources=most_repeated(noted.sources.reports()),
        largest=noted.kept_out.largest(),
        counts=counts,
    )


class _Patience:
    """Waits so many seconds for what another process has."""

    def __init__(self, seconds: float, watcher: Watcher) -> None:
        self._end = monotonic() + seconds
        self._watcher = watcher

    def wait_for(self, take: Callable[[], T]) -> T:
        """What `take` returns. Raises what it raises; StoreBusy when the time is up."""
        has_said = False
        while True:
            try:
                return take()
            except (StoreBusy, OutputBusy) as error:
                if monotonic() >= self._end:
                    raise
                if not has_said:
                    self._watcher.note(f"waiting: {error}")
                    has_said = True
                sleep(min(_LOOKED_AT, max(0, self._end - monotonic())))


@dataclass
class _Tally:
    """What has been acknowledged so far."""

    added: int = 0
    moved: int = 0
    unchanged: int = 0
    duplicates: int = 0

    @property
    def loaded(self) -> int:
        """How many of the documents the store holds now."""
        return self.added + self.moved + self.unchanged

    def add(self, done: Loaded) -> None:
        self.added += done.report.added
        self.moved += done.report.moved
        self.unchanged += done.report.unchanged
        self.duplicates += sum(near is not None for near in done.duplicate_of)


class _Load:
    """One run of a load, from its beginning or from where an earlier one was stopped."""

    def __init__(
        self, task: Task, target: _Target, checkpoints: Checkpoints, patience: _Patience, route: _Route
    ) -> None:
        self._task = task
        self._target = target
        self._checkpoints = checkpoints
        self._patience = patience
        self._route = route
        self._hfiles: HFileLoad | None = None
        self._rule = Rule(target.profile.index_scheme.rule(task.min_similarity))
        self._seen = None if task.ids_are_unique else SeenIds()
        noted = checkpoints.counts
        self._tally = _Tally(**{each.name: noted.get(each.name, 0) for each in fields(_Tally)})
        self._counts = Counts(**{each.name: noted.get(each.name, 0) for each in fields(Counts)})

    def run(self) -> LoadReport:
        """What became of all documents. Raises InputsChanged and PartDiffers where it cannot go on."""
        watcher = self._task.inputs.watcher
        if self._checkpoints.has_all:
            self._checkpoints.require_same_inputs()
            for option in self._task.files:
                self._name(option)
            return _report(self._tally, self._counts, self._checkpoints)
        if said := self._checkpoints.going_on:
            watcher.note(said)
        with ExitStack() as stack:
            if (hfiles := self._route.open(self._target, self._checkpoints, watcher)) is not None:
                self._hfiles = stack.enter_context(hfiles)
            files = {option: stack.enter_context(self._opened(option)) for option in self._task.files}
            rejects = Rejects(files["rejects"], self._task.inputs.max_rejects, watcher, self._counts)
            batches = stack.enter_context(closing(self._batches(bool(files["unique"]))))
            stack.enter_context(_saying_what_is_kept(self._tally, watcher))
            for batch in joined(batches, self._chunks_at_once):
                self._take(batch, rejects, files)
            self._end(rejects.counts, files)
        return _report(self._tally, rejects.counts, self._checkpoints)

    @property
    def _chunks_at_once(self) -> int:
        task = self._task
        is_prepared = task.inputs.options.fingerprint_field is not None and not task.unique_only
        # A pipe may be slow, and many are not worth waiting for.
        comes_as_files = is_prepared and task.can_be_resumed and self._target.is_embedded
        return PREPARED_CHUNKS_AT_ONCE if comes_as_files else CHUNKS_AT_ONCE

    def _opened(self, option: str) -> AbstractContextManager[OutputFile | None]:
        path, kept = self._task.files[option], self._checkpoints.kept(option)
        if option == "unique" and path is not None:
            inputs = self._task.inputs
            return self._patience.wait_for(lambda: unique_file(path, inputs, keep=kept))
        return self._patience.wait_for(lambda: opened(path, kept))

    def _name(self, option: str) -> None:
        """Gives a file that an earlier run has ended its name, where it has not got it yet."""
        path, kept = self._task.files[option], self._checkpoints.kept(option)
        is_named = unique_is_finished if option == "unique" else is_finished
        if path is not None and not is_named(path, kept):
            with self._opened(option):
                pass

    def _batches(self, with_lines: bool) -> Generator[Batch, None, None]:
        options = self._task.inputs.options
        trim = unique_trim(options) if with_lines else without_content
        left = partial(self._checkpoints.left, seen=self._seen)
        return self._task.inputs.each(fingerprinting(options, self._target, trim), left)

    def _take(self, read: Batch, rejects: Rejects, files: Mapping[str, OutputFile | None]) -> None:
        # One write takes an id once.
        batch = read.without_repeats(SeenIds() if self._seen is None else self._seen)
        rejects.note(batch)
        if batch.records and not self._target.exists:
            index = self._patience.wait_for(self._target.make)
            self._patience.wait_for(lambda: self._checkpoints.begin_late(index))
        if self._hfiles is not None:
            self._hfiles.put_aside(batch.ids, batch.fingerprints, batch.tags)
            self._checkpoints.put_off(read, self._counted(batch, [None] * len(batch.ids)), {})
            if self._hfiles.is_full:
                self._hand_over(self._hfiles, rejects.counts, files)
            return
        duplicates: Sequence[Match | None] = ()
        with interrupt_put_off():
            if batch.records:
                done = self._store(batch, read.chunks)
                self._tally.add(done)  # before files, which may fail: what is stored is told of
                duplicates = done.duplicate_of
                _write(files["unique"], _unique_lines(batch.records, done.duplicate_of))
                _write(files["duplicates"], _duplicate_lines(batch.ids, done.duplicate_of))
                _write(files["evidence"], _evidence_lines(batch.ids, done.duplicate_of, self._rule))
            self._checkpoints.put_off(read, self._counted(batch, duplicates), kept_out_by(duplicates))
            self._advance(rejects.counts, files)

    def _counted(self, batch: Batch, duplicates: Sequence[Match | None]) -> Mapping[str, Three]:
        return self._checkpoints.sources.of(batch.items, (near is not None for near in duplicates))

    def _hand_over(self, hfiles: HFileLoad, counts: Counts, files: Mapping[str, OutputFile | None]) -> None:
        """Has what was put aside in the store when it returns."""
        report = hfiles.hand_over()
        with interrupt_put_off():
            self._tally.add(Loaded((), report))
            self._advance(counts, files)

    def _advance(self, counts: Counts, files: Mapping[str, OutputFile | None]) -> None:
        self._checkpoints.advance(asdict(self._tally) | asdict(counts), files)

    def _store(self, batch: Batch, chunks: int) -> Loaded:
        index = self._target.make()
        if not self._task.unique_only:
            return load_all(index, batch.ids, batch.fingerprints, batch.tags)
        if leaves_hints(index.store):
            return claim_all(index, batch.ids, batch.fingerprints, self._task.min_similarity, batch.tags)
        with index.store.exclusive():
            duplicates = self._checkpoints.decided(chunks, len(batch.ids))
            if duplicates is None:
                least = self._task.min_similarity
                duplicates = duplicates_of(index, batch.ids, batch.fingerprints, least)
                self._checkpoints.note_decided(chunks, duplicates)
            return store_kept(index, batch.ids, batch.fingerprints, duplicates, batch.tags)

    def _end(self, counts: Counts, files: Mapping[str, OutputFile | None]) -> None:
        if counts.nothing_read:
            for file in filter(None, (files["unique"], files["duplicates"], files["evidence"])):
                file.abandon()
            self._checkpoints.forget()
            return
        if self._hfiles is not None:
            self._hand_over(self._hfiles, counts, files)
        # What went into tables that somebody has dropped meanwhile is not loaded.
        index = self._target.make()
        index.require_own_tables()
        self._checkpoints.note_all(index, files)


class _Target:
    """The store to load into.

    One that exists is open from the start. An embedded one that does not is made with the first
    documents, so that a load which fails before them leaves nothing behind. Raises what `open_index`
    does.
    """

    def __init__(self, url: str, profile: Profile | Mapping[str, object] | None) -> None:
        self._url = url
        self._index: Index | None = None
        given = given_parameters(profile)
        try:
            self._index = open_index(url)
            self._index.profile.require(given)
            self.profile = self._index.profile
        except TablesMissing:
            if url.startswith("hbase:"):
                raise
            self.profile = make_profile(given)
        except BaseException:
            self.__exit__()
            raise

    @property
    def is_embedded(self) -> bool:
        """Whether one process at a time writes to it."""
        return not self._url.startswith("hbase:")

    @property
    def exists(self) -> bool:
        """Whether the store is there."""
        return self._index is not None

    @property
    def fingerprinter(self) -> Fingerprinter:
        """The profile's pipeline, checked against the store's if there is one."""
        return self._index.fingerprinter if self._index else self.profile.fingerprinter()

    def make(self) -> Index:
        """The store, created if it is missing. Raises what `open_index` raises."""
        if self._index is None:
            self._index = open_index(self._url, create=self.profile)
        return self._index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._index is not None:
            self._index.close()


def _target(
    inputs: Inputs,
    url: str,
    profile: Profile | Mapping[str, object] | None,
    min_similarity: float | None,
) -> _Target:
    """The store to load into. Raises UsageError for what it cannot take or compare by."""
    target = _Target(url, profile)
    try:
        _ = target.profile.index_scheme.bounds(None, min_similarity)
        if inputs.options.fingerprint_field is not None and target.profile.sketching is not None:
            raise UsageError(
                "`fingerprint_field`: the store keeps a sketch of each text, which fingerprints made "
                "elsewhere do not have. Give the texts"
            )
    except BaseException:
        target.__exit__()
        raise
    return target


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
    except BaseException:
        if tally.loaded or tally.duplicates:
            watcher.note(
                f"stopped after {tally.loaded:,} documents loaded and {tally.duplicates:,} duplicates. "
                "What was loaded is kept: run the same command again to go on"
            )
        else:
            watcher.note("stopped before anything was loaded")
        raise


def _write(file: OutputFile | None, lines: Iterator[bytes]) -> None:
    if file:
        file.write(lines)


def _unique_lines(records: Sequence[Record], found: Sequence[Match | None]) -> Iterator[bytes]:
    return (unique_line(record) for record, near in zip(records, found, strict=True) if near is None)


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
