"""A corpus into a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Self

from simhbase.corpus.inputs import Inputs, opened
from simhbase.corpus.outputs import OutputFile, duplicate_line, unique_line
from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Counts
from simhbase.corpus.seen_ids import SeenIds
from simhbase.corpus.trim import unique_trim, without_content
from simhbase.corpus.watcher import Watcher
from simhbase.errors import ProfileMismatch, TableDisabled, TablesMissing, UsageError
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index import Index, open_index
from simhbase.interrupt import interrupt_put_off
from simhbase.jobs.pipeline import fingerprinting, joined
from simhbase.jobs.unique import DuplicateOf, Loaded, load_all, load_unique
from simhbase.profile import Profile, given_parameters, make_profile

CHUNKS_AT_ONCE = 8  # written and made durable together: up to 4,096 documents or 8 MB of text


@dataclass(frozen=True)
class LoadReport:
    """What a load has done.

    documents: how many were read, with those that were rejected. loaded: how many of them the store holds;
    of these, added are new, moved had another fingerprint before, unchanged are as they were. duplicates:
    were not stored, with `unique_only`. counts: what could not be read, by kind; where
    nothing at all could (`counts.nothing_read`), the command ends with an error.
    """

    documents: int
    loaded: int
    added: int
    moved: int
    unchanged: int
    duplicates: int
    rejected: int
    seconds: float
    counts: Counts


def load(
    inputs: Inputs | str | Path | Sequence[str | Path],
    store: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    unique_only: bool = False,
    min_similarity: float | None = None,
    ids_are_unique: bool = False,
    unique: str | Path | None = None,
    duplicates: str | Path | None = None,
) -> LoadReport:
    """Fingerprints documents and stores them; one whose id is stored already is replaced.

    inputs: paths, or an Inputs that says more. store: its URL, as of `open`; an embedded one that does not
    exist is made with the first documents. profile: of a store that is made; one that exists must agree with
    it, or with those parameters that are given by name. unique_only: store a document only if nothing that is
    stored by then matches it; min_similarity: what is less similar is no duplicate. ids_are_unique: do not
    look for ids that come twice, which takes 23 to 34 bytes an id. unique, duplicates: files to list what was
    stored with `unique_only`, and what was not, as JSON lines.

    To resume a stopped load, run it again. Raises UsageError for what does not go
    together, before anything is read; ProfileMismatch, StoreBusy, StoreUnreachable; TooManyRejects;
    TablesMissing where tables are dropped meanwhile, or do not exist in HBase.
    """
    if (unique or duplicates) and not unique_only:
        raise UsageError("`unique` and `duplicates` say what `unique_only=True` kept: they need it")
    if min_similarity is not None and not unique_only:
        raise UsageError("`min_similarity` says what `unique_only=True` takes for a duplicate: it needs it")
    inputs = Inputs.of(inputs)
    inputs.require_outputs(unique, duplicates)
    start = monotonic()
    tally = _Tally()
    store_batch = partial(load_unique, min_similarity=min_similarity) if unique_only else load_all
    trim = unique_trim(inputs.options) if unique else without_content
    seen = SeenIds()
    with (
        # First: who does not get the store touches no file.
        _target(inputs, store, profile, min_similarity) as target,
        inputs.noting_rejects() as rejects,
        opened(unique) as unique_file,
        opened(duplicates) as duplicates_file,
        closing(inputs.each(fingerprinting(inputs.options, target, trim))) as batches,
        _saying_what_is_kept(tally, inputs.watcher),
    ):
        for some in joined(batches, CHUNKS_AT_ONCE):
            # One write takes an id once.
            batch = some.without_repeats(SeenIds() if ids_are_unique else seen)
            rejects.note(batch)
            if not batch.records:
                continue
            with interrupt_put_off():
                done = store_batch(target.make(), batch.ids, batch.fingerprints)
                _write(unique_file, _unique_lines(batch.records, done.duplicate_of))
                _write(duplicates_file, _duplicate_lines(batch.ids, done.duplicate_of))
                tally.add(done)
        if rejects.counts.nothing_read:
            for file in filter(None, (unique_file, duplicates_file)):
                file.abandon()
        else:
            # What went into tables that somebody has dropped meanwhile is not loaded.
            target.make().require_own_tables()
    return LoadReport(
        documents=tally.loaded + tally.duplicates + rejects.counts.rejected,
        loaded=tally.loaded,
        added=tally.added,
        moved=tally.moved,
        unchanged=tally.unchanged,
        duplicates=tally.duplicates,
        rejected=rejects.counts.rejected,
        seconds=round(monotonic() - start, 3),
        counts=rejects.counts,
    )


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


@contextmanager
def _target(
    inputs: Inputs,
    url: str,
    profile: Profile | Mapping[str, object] | None,
    min_similarity: float | None,
) -> Iterator[_Target]:
    """The store to load into. Raises UsageError for what it cannot take or compare by."""
    with _Target(url, profile) as target:
        _ = target.profile.index_scheme.bounds(None, min_similarity)
        if inputs.options.fingerprint_field is not None and target.profile.sketching is not None:
            raise UsageError(
                "`fingerprint_field`: the store keeps a sketch of each text, which fingerprints made "
                "elsewhere do not have. Give the texts"
            )
        yield target


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


@contextmanager
def _saying_what_is_kept(tally: _Tally, watcher: Watcher) -> Iterator[None]:
    try:
        yield
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


def _unique_lines(records: Sequence[Record], found: Sequence[DuplicateOf | None]) -> Iterator[bytes]:
    return (unique_line(record) for record, near in zip(records, found, strict=True) if near is None)


def _duplicate_lines(ids: Sequence[str], found: Sequence[DuplicateOf | None]) -> Iterator[bytes]:
    return (
        duplicate_line(document, near.id, near.distance, near.similarity)
        for document, near in zip(ids, found, strict=True)
        if near
    )
