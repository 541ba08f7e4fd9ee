"""Index, the public facade: one profile over one store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, starmap
from operator import index
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.scheme import Bounds
from simhbase.errors import PermanentError, ReadOnly, ShortTexts, UsageError
from simhbase.fingerprint.batch import FingerprintBatch, Fingerprinted
from simhbase.fingerprint.pipeline import Fingerprinter, TextFingerprint
from simhbase.index import rows
from simhbase.index.claims import TIMEOUT
from simhbase.index.counts import counts_of, note_pairs, until_many
from simhbase.index.mute import Hidden, MuteList, Name, require_valid
from simhbase.index.reader import (
    DRAWER_LIMIT,
    IDS_LIMIT,
    LISTING_GROWTH,
    Deferred,
    Listings,
    Reader,
    live_entries,
    sketches_of,
)
from simhbase.index.rows import Entry
from simhbase.index.stored_profile import StoredProfile
from simhbase.index.tags import Tags, required_tags, tags_of
from simhbase.index.writer import (
    Copied,
    DocumentBatch,
    Known,
    Writer,
    batch_of,
    expired_before,
    known,
    known_in,
)
from simhbase.metrics import Metrics, count_documents, timed
from simhbase.model.frames import (
    ClaimList,
    Documents,
    Fields,
    GivenRow,
    LookupList,
    Texts,
    chunks,
    decided,
    document_row,
    document_rows,
    is_frame,
    shown,
    text_rows,
)
from simhbase.model.moment import at, milliseconds, milliseconds_to_come
from simhbase.model.stored import Met, Muted, StoredDocument, StoredPage
from simhbase.model.values import (
    AddReport,
    Claim,
    ClaimMode,
    Document,
    Fingerprint,
    Lookup,
    Match,
    Moment,
    Query,
    Rejected,
)
from simhbase.process.progress import Progress, counting, length, no_progress
from simhbase.profile.profile import SHORT, TABLE_BITS
from simhbase.stores.base import Access, Store

if TYPE_CHECKING:
    from concurrent.futures import Future

    from simhbase.index.claims.batch import ClaimKind, LoadRun
    from simhbase.index.claims.claim import Claimed, Claimer, QueuedClaims
    from simhbase.index.scopes import Scope
    from simhbase.model.explanations import Comparison, Explanation

Value = TypeVar("Value")

_FIELDS = Fields()
UNKNOWN_FINGERPRINT = "no document has this fingerprint, so there is no sketch to compare"
UNKNOWN_ID = "no document is stored under this id"
LOST_SKETCH = "the document's sketch is lost: run simhbase check"
PAGE, PAGE_READ = 1000, 50_000  # documents per page, and rows read for one
_USUAL = Query()
LOOKED_AT = 5.0  # seconds between checks that the tables were not recreated


class Index(AbstractContextManager["Index"]):
    """Adds, finds and deletes documents. Use it as a context manager, or close it.

    of: what stored ids begin with: the prefix of the scope, b"" without one.
    """

    of = b""

    def __init__(
        self,
        store: Store,
        stored: StoredProfile,
        access: Access = "write",
        drawer_limit: int | None = DRAWER_LIMIT,
        ids_limit: int = IDS_LIMIT,
        clock: Callable[[], int] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.store = store
        self.profile = stored.profile
        self.access = access
        self.clock = clock = clock or store.now
        self.metrics = metrics
        self.stored_profile = stored
        self.counts = stored.counts
        self._scope: Scope | None = None
        self.warned_of_short = False  # or not to be
        self._looked = monotonic()
        self._mute_list = MuteList(store, clock)
        self._reader = Reader(
            store, stored.profile.index_scheme, drawer_limit, ids_limit, clock, metrics=metrics
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.store.url}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def scope(self) -> str | None:
        """The scope it was opened within, None without one."""
        return None if self._scope is None else self._scope.name

    def within(self, scope: str) -> Index:
        """The index within a scope of a store that has scopes. It shares the connections and the claimer of
        this one: closing one closes both. Raises UsageError for an invalid name, and in a store without
        scopes."""
        raise UsageError(
            f"{self.store.url} has no scopes: leave it out, or create a store with scopes, and copy the "
            "documents into one of them (simhbase migrate --scope)",
            parameter="scope",
        )

    def require_scope(self) -> None:
        """Raises UsageError if the store has scopes, and none was given."""

    def require_no_scopes(self, what: str) -> None:
        """Raises UsageError in a store with scopes. what: that works on whole stores only."""
        if self.stored_profile.salt is not None:
            raise UsageError(f"{self.store.url} has scopes: {what} are for stores without them")

    def close(self) -> None:
        """Close the store after answering all claims. May be called twice."""
        if claimer := self.__dict__.get("claimer"):
            claimer.close()
        self.store.close()

    def listing(
        self, ids_limit: int, near_limit: int | None = None, deferred: Deferred = "unmatched"
    ) -> Index:
        """Return this index with other limits: see Reader."""
        other = copy(self)
        other._reader = replace(self._reader, ids_limit=ids_limit, near_limit=near_limit, deferred=deferred)
        return other

    @cached_property
    def fingerprinter(self) -> Fingerprinter:
        """The profile's fingerprinter, checked on first use against the fixed texts stored by the creator.

        Raises ProfileMismatch.
        """
        fingerprinter = self.profile.fingerprinter()
        self.stored_profile.check_pipeline(fingerprinter)
        return fingerprinter

    @cached_property
    def writer(self) -> Writer:
        """The writer of add and delete. Raises ReadOnly."""
        self._require_writable()
        return Writer(self.store, self.profile.index_scheme, self.clock)

    def _require_writable(self) -> None:
        if self.access == "read":
            raise ReadOnly(f"{self.store.url} was opened for reading: open it with access='write'")

    def add(
        self,
        documents: Documents,
        *,
        id_field: str = "id",
        text_field: str = "text",
        progress: Progress = no_progress,
    ) -> AddReport:
        """Store documents and their tags, replacing those with the same id. Durable on return.

        documents: an iterable of Document objects, (id, text) pairs or dicts, or a frame with a row for each:
        a pandas or polars DataFrame, an Arrow table or record batch. Any number of them are read, in chunks
        of 4,096, each stored at once. id_field, text_field: fields of dicts, and columns of
        frames; a field `tags` may hold a dict. Integers are ids, too. progress: see `show_progress`.

        Documents with a missing text or id, too few features, or an invalid id or tags, are rejected and
        listed in the report. Raises UsageError for values that are not documents, before anything of their
        chunk is stored.
        """
        report, rejected = AddReport(), list[Rejected]()
        rows = document_rows(documents, Fields(id_field, text_field))
        with counting(progress, "documents", lambda: length(documents)) as count:
            for chunk in chunks(rows):
                stored = self._add(chunk)
                rejected += stored.rejected
                report += replace(stored, rejected=())
                count(len(chunk))
        return replace(report, rejected=tuple(rejected))

    def _add(self, rows: Sequence[GivenRow]) -> AddReport:
        found, ids, fingerprints, tags = self._accepted(rows)
        rejected = tuple(
            Rejected(row.id or "", reason)
            for row, reason in zip(rows, found.reasons, strict=True)
            if reason is not None
        )
        report = self.add_batch(ids, fingerprints, tags)
        count_documents(self.metrics, rejected=len(rejected))
        return replace(report, rejected=rejected + report.rejected)

    def add_fingerprints(
        self,
        ids: Sequence[str],
        fingerprints: NDArray[np.uint64] | Sequence[int],
        tags: Sequence[Mapping[str, str]] | None = None,
    ) -> AddReport:
        """Store n ids with fingerprints computed elsewhere: uint64 (n,), or n integers (also signed ones, as
        two's complement). tags: n mappings of names to values; None: no document has tags."""
        ids, values = _several(ids, "ids"), _fingerprints(fingerprints)
        if len(ids) != len(values):
            raise UsageError(f"{len(ids)} ids with {len(values)} fingerprints: each needs one")
        given = None if tags is None else _tags(_listed(tags, "tags"))
        if tags is not None and len(tags) != len(ids):
            raise UsageError(f"{len(ids)} ids with tags for {len(tags)}: each needs some, {{}} for none")
        if self.profile.sketching is not None:
            raise UsageError(
                f"{self.store.url} keeps a sketch of each text, which fingerprints alone do not "
                "provide: give the texts"
            )
        return self.add_batch(ids, FingerprintBatch.bare(values), given)

    def add_batch(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None = None,
        removing: Sequence[str] = (),
    ) -> AddReport:
        """Store n documents given by the output of this profile's fingerprinter. tags: per document, sorted
        (name, value) pairs; None: no document has tags. removing: ids of other documents to remove in the
        same write."""
        with self._operation("add", len(ids)):
            report = self.writer.add(DocumentBatch(ids, fingerprints, tags), removing)
        count_documents(
            self.metrics,
            added=report.added,
            updated=report.updated,
            unchanged=report.unchanged,
            rejected=len(report.rejected),
        )
        return report

    @cached_property
    def claimer(self) -> Claimer:
        """The claimer of claim and claim_many. Raises ReadOnly."""
        from simhbase.index.claims.claim import claimer_for

        _ = self.writer
        scheme, counts = self.profile.index_scheme, self.counts
        return claimer_for(self.store, scheme, self.clock, self._count, counts=counts)

    def _count(self, name: str, by: int = 1, **labels: str) -> None:
        if self.metrics is not None:
            self.metrics.count(name, by, **labels)

    def claim(
        self,
        id: str,  # noqa: A002  # as in Document
        text: str,
        timeout: float = TIMEOUT,
        tags: Mapping[str, str] | None = None,
    ) -> Claim:
        """Store a text unless one near it is stored. If several workers claim near texts at once, in any
        processes, at most one is accepted. Durable on return.

        The answer is "accepted", "duplicate" or "rejected"; repeating a claim gives the same answer. timeout:
        seconds to wait for claims of near texts by others; a crashed worker is waited for at most ten
        seconds. `add` and claims do not wait for each other. tags: tags of the document, ignored by the
        decision. A text stored earlier under this id keeps its own tags; `add` replaces them. Raises
        Undecided on timeout (nothing is stored), Conflict if another text is stored under this id (`add`
        replaces it).
        """
        row = document_row(Document(id, text, {} if tags is None else tags))
        return decided(*self._claimed(self._claim_request([row], timeout)).claims)

    def claim_many(
        self,
        documents: Documents,
        timeout: float = TIMEOUT,
        *,
        mode: ClaimMode = "refuse",
        id_field: str = "id",
        text_field: str = "text",
        progress: Progress = no_progress,
    ) -> ClaimList:
        """Claim n documents, as if one after the other; return the answers in order.

        documents, id_field, text_field, progress: as for `add`. timeout: seconds for each chunk of 4,096;
        claims that are not decided by then are "undecided". mode: "annotate" stores every text as `add` does,
        and lists the documents near it as `also_at` of its claim, the nearest 100 (`truncated`: there are
        more, or may be). Of near texts that are annotated at once, at least one lists the other.
        """
        if mode not in get_args(ClaimMode):
            raise UsageError(f"must be refuse or annotate, not {mode!r}", parameter="mode")
        claims = ClaimList()
        rows = document_rows(documents, Fields(id_field, text_field))
        with counting(progress, "documents", lambda: length(documents)) as count:
            for chunk in chunks(rows):
                claims += self._claimed(self._claim_request(chunk, timeout, mode=mode)).claims
                claims.ids += (row.given_id for row in chunk)
                count(len(chunk))
        return claims

    async def aclaim(
        self,
        id: str,  # noqa: A002  # as in Document
        text: str,
        timeout: float = TIMEOUT,
        tags: Mapping[str, str] | None = None,
    ) -> Claim:
        """`claim` for asyncio."""
        return decided(*await self.aclaim_many([Document(id, text, {} if tags is None else tags)], timeout))

    async def aclaim_many(self, documents: Documents, timeout: float = TIMEOUT) -> list[Claim]:
        """`claim_many` for asyncio. Cancelling the task does not affect other claims; documents whose claim
        has begun are still claimed."""
        import asyncio  # takes 40 ms, which those who await have spent

        begun = await asyncio.to_thread(self.begin_claims, documents, timeout)
        return (await asyncio.wrap_future(begun)).claims

    def begin_claims(
        self,
        documents: Documents,
        timeout: float = TIMEOUT,
        *,
        mode: ClaimMode = "refuse",
        source: Hashable = None,
        is_given_up: threading.Event | None = None,
    ) -> Future[Claimed]:
        """Start `claim_many` without waiting for others; returns a future, whose result has the answers as
        `claims`. source: on whose behalf; sources take turns. is_given_up: set it when the caller has gone,
        and what has not begun is left out."""
        rows = list(document_rows(documents))
        request = self._claim_request(rows, timeout, source, mode, is_given_up)
        with self.same_tables():
            self.claimer.begin(request)
        return request.future

    def _claim_request(
        self,
        rows: Sequence[GivenRow],
        timeout: float,
        source: Hashable = None,
        mode: ClaimMode = "refuse",
        is_given_up: threading.Event | None = None,
    ) -> QueuedClaims:
        from simhbase.index.claims.claim import QueuedClaims

        tags = _tags(row.tags for row in rows)
        found = self._fingerprinted(rows)
        ids = [row.id or "" for row in rows]
        documents = DocumentBatch(ids, found.fingerprints, tags)
        kind = self._claim_kind._replace(annotates=mode == "annotate")
        return QueuedClaims.of(documents, kind, timeout, found.reasons, source, is_given_up)

    @cached_property
    def _claim_kind(self) -> ClaimKind:
        from simhbase.index.claims.batch import ClaimKind

        return ClaimKind(self.profile.index_scheme.bounds(None, None), scope=self._scope, hidden=self.hidden)

    def claim_batch(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        timeout: float = TIMEOUT,
        min_similarity: float | None = None,
        *,
        replacing: bool = False,
        tags: Sequence[Tags] | None = None,
        run: LoadRun | None = None,
    ) -> Claimed:
        """Claim n documents given by the output of this profile's fingerprinter. replacing: a document that
        is stored with another text and tags is replaced if nothing is near the new text. tags: as in
        `add_batch`. run: the load that claims, if one does."""
        from simhbase.index.claims.batch import NO_LOAD, ClaimKind
        from simhbase.index.claims.claim import QueuedClaims

        bounds = self.profile.index_scheme.bounds(None, min_similarity)
        kind = ClaimKind(bounds, replacing, run or NO_LOAD, self._scope, self.hidden)
        return self._claimed(QueuedClaims.of(DocumentBatch(ids, fingerprints, tags), kind, timeout))

    def _claimed(self, request: QueuedClaims) -> Claimed:
        with self._operation("claim", len(request.records)):
            self.claimer.begin(request)
            return request.result()

    def duplicates_of(
        self, ids: Sequence[str], fingerprints: FingerprintBatch, bounds: Bounds
    ) -> list[Match | None]:
        """The match of each duplicate among n documents that are to be stored, None for the others: see
        `selection.duplicates_of`."""
        from simhbase.index.claims.selection import duplicates_of

        return duplicates_of(self.reader, ids, fingerprints, bounds)

    def note_refused(self, ids: Sequence[str], duplicate_of: Sequence[Match | None]) -> None:
        """Count documents that a load has refused, as claims are. duplicate_of: the match of each id, None
        for others. No effect in a store that does not count."""
        if self.counts:
            found = zip(ids, duplicate_of, strict=True)
            note_pairs(self.store, self.clock(), ((match.id, name) for name, match in found if match))

    def delete(self, ids: Iterable[str]) -> int:
        """Remove documents; returns how many were stored."""
        several = _several(ids, "ids")
        with self._operation("delete", len(several)):
            deleted = self._delete(several)
        if self.metrics is not None:
            self.metrics.count("deleted", deleted)
        return deleted

    def _delete(self, ids: Sequence[str]) -> int:
        return self.writer.delete(ids)

    def delete_seen(self, seen: Mapping[str, int], at: Mapping[str, int] | None = None) -> int:
        """Remove documents that still have the given version, by id: see Writer."""
        return self.writer.delete_seen(seen, at)

    def copy(self, batch: DocumentBatch, versions: Sequence[int]) -> Copied:
        """Store documents with the versions that they have in another store: see Writer."""
        return self.writer.copy(batch, versions)

    def counters(self) -> Mapping[str, int]:
        """Counts since the index was opened, by name: operations, retries, truncated drawers etc. of HBase,
        hits and misses of the cache of an embedded store."""
        return self.store.counters()

    def gauges(self) -> Mapping[str, int]:
        """Current values, by name: HBase connections open and in use, calls waiting for one; bytes of an
        embedded store's cache, and how many are used."""
        return self.store.gauges()

    def mute(
        self,
        ids: Iterable[str] = (),
        fingerprints: NDArray[np.uint64] | Iterable[int] = (),
        until: Moment | None = None,
        note: str = "",
    ) -> int:
        """Hide documents from lookups: by id, or all documents with a fingerprint, stored now or later.
        Returns how many entries are new; the others are replaced.

        until: when this ends: a datetime, a timedelta from now, or a text (30d, a date, a time of RFC 3339);
        None: never. note: one line for readers of the list. Muted documents stay stored, but nothing is a
        duplicate of them: any number of texts with a muted fingerprint can be claimed. Takes effect here at
        once, in other processes within five seconds. Documents muted by id count towards the limits of a
        lookup. Raises ReadOnly, and UsageError for invalid entries and for a list of more than 1 MiB (about
        ten thousand entries).
        """
        self._require_writable()
        names, values = _several(ids, "ids"), _fingerprints(fingerprints).tolist()
        require_valid(names, note)
        now = self.clock()
        since, end = at(now), None if until is None else at(milliseconds_to_come(until, now))
        entries = [
            *(Muted(document, None, since, end, note) for document in names),
            *(Muted(None, Fingerprint(value), since, end, note) for value in values),
        ]
        if not entries:
            return 0
        with self.same_tables():
            return self._mute_list.mute(entries)

    def unmute(self, ids: Iterable[str] = (), fingerprints: NDArray[np.uint64] | Iterable[int] = ()) -> int:
        """Remove ids and fingerprints from the mute list; returns how many were on it."""
        self._require_writable()
        names: list[Name] = [
            *((document, None) for document in _several(ids, "ids")),
            *((None, value) for value in _fingerprints(fingerprints).tolist()),
        ]
        if not names:
            return 0
        with self.same_tables():
            return self._mute_list.unmute(names)

    def muted(self) -> list[Muted]:
        """The current mute list, oldest entries first."""
        self.store.refresh()
        with self.same_tables():
            return self._mute_list.entries()

    def hidden(self) -> Hidden:
        """What is muted, at most five seconds old."""
        return self._mute_list.hidden()

    @property
    def reader(self) -> Reader:
        """Looks up fingerprints, without those that are muted now."""
        hidden = self.hidden()
        return self._reader if hidden is self._reader.hidden else replace(self._reader, hidden=hidden)

    _lookups = reader

    @property
    def tables_digest(self) -> str:
        """Identifies these tables; recreated tables have another one."""
        return self.stored_profile.digest

    def require_own_tables(self) -> None:
        """Raises ProfileMismatch if the tables were recreated since they were opened, TablesMissing if they
        were dropped. Operations check this every few seconds, and after an error."""
        self.stored_profile.require_in(self.store)
        self._looked = monotonic()

    def require_ready(self) -> None:
        """Raise any error that keeps the index from being read, or written if it was opened for writing."""
        self.require_own_tables()
        if self.access != "read":
            self.store.require_writable()

    def _fingerprinted(self, rows: Sequence[GivenRow]) -> Fingerprinted:
        """Fingerprints of rows, with the problems that they came with among the reasons."""
        fingerprinter = self.fingerprinter
        texts = [row.text for row in rows]
        if not self.warned_of_short and any(map(SHORT.__ge__, map(len, texts))):
            self._warn_of_short()
        with timed(self.metrics, "fingerprint", len(rows)):
            found = fingerprinter.fingerprint_many(texts)
        reasons = [row.problem or reason for row, reason in zip(rows, found.reasons, strict=True)]
        return Fingerprinted(found.fingerprints, reasons)

    def _warn_of_short(self) -> None:
        self.warned_of_short = True
        if (misses := self.profile.misses_of_short) is not None:
            ShortTexts.warn(misses)

    def _accepted(
        self, rows: Sequence[GivenRow]
    ) -> tuple[Fingerprinted, list[str], FingerprintBatch, list[Tags] | None]:
        """Fingerprints of rows; then ids, fingerprints and tags of those that have one."""
        tags = _tags(row.tags for row in rows)
        found = self._fingerprinted(rows)
        fits = np.flatnonzero(found.accepted).tolist()
        chosen = None if tags is None else [tags[number] for number in fits]
        return found, [rows[number].id or "" for number in fits], found.fingerprints[fits], chosen

    def _operation(self, name: str, records: int) -> AbstractContextManager[object]:
        """Measures an operation, on the tables that were opened."""
        return self.same_tables() if self.metrics is None else self._measured(name, records)

    @contextmanager
    def _measured(self, name: str, records: int) -> Iterator[None]:
        with timed(self.metrics, name, records), self.same_tables():
            yield

    def same_tables(self) -> AbstractContextManager[object]:
        """Check every few seconds, and after an error, that the tables were not recreated."""
        if monotonic() - self._looked > LOOKED_AT:
            self.require_own_tables()
        return _SameTables(self)

    def find(
        self,
        text: str,
        *,
        k: int | None = None,
        min_similarity: float | None = None,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Lookup:
        """Find the documents near a text, nearest first.

        k, min_similarity, since, tags: see Query. Raises UsageError for bounds that the scheme does not have
        or cannot guarantee, a time in the future, and invalid tags.
        """
        if k is None and min_similarity is None and since is None and tags is None:
            return self._find_text(text, _USUAL)
        return self._find_text(text, Query(k, min_similarity, since, {} if tags is None else tags))

    def _find_text(self, text: str, query: Query) -> Lookup:
        if not isinstance(text, str):  # missing, or refused
            return self._find_rows([text], query)[0]
        fingerprinter = self.fingerprinter
        if len(text) <= SHORT and not self.warned_of_short:
            self._warn_of_short()
        if self.metrics is None:
            found, reason = fingerprinter.fingerprint_one(text)
        else:
            with timed(self.metrics, "fingerprint", 1):
                found, reason = fingerprinter.fingerprint_one(text)
        return self._find_one(found, query, reason)

    def _find_one(self, text: TextFingerprint, query: Query, reason: str | None = None) -> Lookup:
        """Find the documents near one text. reason: why it has no fingerprint."""
        self.store.refresh()
        with self._operation("find", 1):
            reader = self._lookups
            asked = reader.asked(query)
            return Lookup(None, reason=reason) if reason else reader.find_one(text, asked)

    def find_many(
        self,
        texts: Texts,
        *,
        k: int | None = None,
        min_similarity: float | None = None,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
        id_field: str = "id",
        text_field: str = "text",
        progress: Progress = no_progress,
    ) -> LookupList:
        """Find the documents near each of n texts, with one read of the drawers for each chunk of 4,096. A
        text that is missing or has no fingerprint gets a Lookup with a reason.

        texts: an iterable of texts, or what `add` takes; ids of documents are those of the answer's rows.
        id_field, text_field, progress: as for `add`; the others as for `find`.
        """
        query = Query(k, min_similarity, since, {} if tags is None else tags)
        return self._find_rows(texts, query, Fields(id_field, text_field), progress)

    def _find_rows(
        self, texts: Texts, query: Query, fields: Fields = _FIELDS, progress: Progress = no_progress
    ) -> LookupList:
        lookups, ids = list[Lookup](), list[Any]()
        rows = text_rows(texts, fields)
        with counting(progress, "texts", lambda: length(texts)) as count:
            for chunk in chunks(rows):
                found = self._fingerprinted(chunk)
                near = iter(self.find_batch(found.fingerprints[found.accepted], query))
                lookups += (Lookup(None, reason=reason) if reason else next(near) for reason in found.reasons)
                ids += (row.given_id for row in chunk)
                count(len(chunk))
        return LookupList(lookups, ids)

    def find_texts(self, texts: Sequence[str], query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n texts: at once, or straight if it is one."""
        return [self._find_text(texts[0], query)] if len(texts) == 1 else self._find_rows(texts, query)

    def find_batch(self, fingerprints: FingerprintBatch, query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n texts, given by the output of this profile's fingerprinter."""
        self.store.refresh()
        with self._operation("find", len(fingerprints)):
            return self._lookups.find(fingerprints, query)

    def find_fingerprints(
        self, fingerprints: NDArray[np.uint64] | Sequence[int], query: Query = Query()
    ) -> list[Lookup]:
        """Find the documents near each of n fingerprints: uint64 (n,), or integers. If the index keeps
        sketches, the fingerprints must be stored ones; others get a Lookup with a reason."""
        given = _words(fingerprints)
        if self.profile.sketching is None and len(given) == 1:
            return [self._find_one(TextFingerprint(int(given[0])), query)]
        values = np.asarray(given, dtype=np.uint64)
        if self.profile.sketching is None:
            return self.find_batch(FingerprintBatch.bare(values), query)
        self.store.refresh()
        distinct = list(dict.fromkeys(values.tolist()))
        with self.same_tables():
            sketches = self.store.read_consistent(lambda: self._sketches_under(distinct))
        asked = [(value, sketches.get(value, b"")) for value in values.tolist()]
        return self._find_sketched(asked, query, UNKNOWN_FINGERPRINT)

    def _sketches_under(self, fingerprints: Sequence[int], most: int = 1) -> dict[int, bytes]:
        """The sketch of one document of each fingerprint. most: documents to list per fingerprint at
        first."""
        listed = {value: found for value, found in self._listed_under(fingerprints, most).items() if found}
        if self.profile.index_scheme.listed_sketching is not None:
            return {value: found[0][1] for value, found in listed.items()}
        ids = {value: [document for document, _ in found] for value, found in listed.items()}
        stored = self._documents_of([document for several in ids.values() for document in several])
        size = self.profile.sketching.bytes if self.profile.sketching else 0
        sketches = {
            value: rows.whole_sketch(document, stored[document].sketch, size)
            for value, several in ids.items()
            for document in reversed(several)
            if document in stored and stored[document].fingerprint == value
        }
        # The first may be a stale hint or have expired.
        hidden = [value for value, several in ids.items() if value not in sketches and len(several) == most]
        return sketches | (self._sketches_under(hidden, most * LISTING_GROWTH) if hidden else {})

    def _listed_under(self, fingerprints: Sequence[int], most: int) -> Listings:
        return replace(self._reader, ids_limit=most - 1).listed(fingerprints)

    def find_ids(self, ids: Sequence[str], query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n stored documents; an unknown id gets a Lookup with a reason. A
        document matches itself, if it has the `tags` and is not older than `since`."""
        ids = _several(ids, "ids")
        stored, sketches = self._documents_with_sketches(ids)
        asked = [(stored[each].fingerprint, sketches.get(each, b"")) for each in ids if each in stored]
        found = iter(self._find_sketched(asked, query, LOST_SKETCH))
        return [next(found) if document in stored else Lookup(None, reason=UNKNOWN_ID) for document in ids]

    def _find_sketched(self, asked: Sequence[tuple[int, bytes]], query: Query, lost: str) -> list[Lookup]:
        """Documents near fingerprints with sketches; `lost` is the reason if a sketch is missing."""
        size = self.profile.sketching.bytes if self.profile.sketching else 0
        batch = batch_of(asked, self.profile.sketching)
        lookups = iter(self.find_batch(batch, query))
        return [
            next(lookups) if len(sketch) == size else Lookup(Fingerprint(value), reason=lost)
            for value, sketch in asked
        ]

    def compare(self, left: str, right: str) -> Comparison:
        """Compare two texts under the index's profile, without reading the store. Raises UsageError for
        values that are not strings."""
        from simhbase.profile.comparison import compare_by

        return compare_by(self.profile, self.fingerprinter, left, right)

    def features(self, text: str) -> list[tuple[str, float]]:
        """The distinct words of a text and their weights under the profile, the heaviest first. Raises
        UsageError if the profile's features are no words."""
        from simhbase.text.feature_extractor import FeatureExtractor

        _ = _several([text], "text")
        options = self.fingerprinter.options
        if options.kind != "words":
            raise UsageError(f"the features of this profile are {options.kind}: only words are listed")
        return FeatureExtractor(options).words(text)

    def explain(
        self,
        text: str,
        id: str | None = None,  # noqa: A002  # the word that everything else here has for it
        k: int | None = None,
        min_similarity: float | None = None,
    ) -> Explanation:
        """Explain what `find` does for a text: its drawers, what they contain, and why that matches or not.

        id: a document to include in the candidates, found or not. k, min_similarity: as for `find`. Raises
        UsageError like `find`.
        """
        from simhbase.model.explanations import Explanation
        from simhbase.text.difference import REPEATS_ITSELF, repeats_itself

        found = self.fingerprinter.fingerprint_many(_several([text], "text"))
        if found.reasons[0] is not None:
            return Explanation(None, reason=found.reasons[0])
        explained = self._explained(found.fingerprints, id, Query(k, min_similarity))
        if repeats_itself(text, self.profile.variants):
            explained = replace(explained, notes=(REPEATS_ITSELF,))
        return explained

    def explain_ids(
        self, ids: Sequence[str], query: Query = Query(), candidate: str | None = None
    ) -> list[Explanation]:
        """Explain `find_ids`; an unknown id gets an Explanation with a reason. candidate: a document to
        include in the candidates, found or not."""
        from simhbase.model.explanations import Explanation

        ids = _several(ids, "ids")
        stored, sketches = self._documents_with_sketches(ids)
        explanations = []
        for document in ids:
            if document not in stored:
                explanations.append(Explanation(None, reason=UNKNOWN_ID))
                continue
            value = Fingerprint(stored[document].fingerprint)
            text = batch_of([(value, sketches.get(document, b""))], self.profile.sketching)
            explanations.append(
                self._explained(text, candidate, query)
                if len(text)
                else Explanation(value, reason=LOST_SKETCH)
            )
        return explanations

    def _explained(self, text: FingerprintBatch, document: str | None, query: Query) -> Explanation:
        from simhbase.index.explain import explain

        if document is not None:
            _ = _several([document], "ids")
        self.store.refresh()
        with self.same_tables():
            return self.store.read_consistent(lambda: explain(self.reader, text, query, document))

    def fingerprints(self, ids: Sequence[str]) -> list[Fingerprint | None]:
        """Fingerprints of stored documents, None for unknown ids."""
        found = self._entries(_several(ids, "ids"))
        return [Fingerprint(found[each].fingerprint) if each in found else None for each in ids]

    def documents(self, ids: Sequence[str]) -> list[StoredDocument | None]:
        """Stored documents with their tags, None for unknown ids."""
        ids = _several(ids, "ids")
        found = {document.id: document for document in self._told(self._entries(ids))}
        return list(map(found.get, ids))

    def _entries(self, ids: Sequence[str]) -> dict[str, Entry]:
        self.store.refresh()
        with self.same_tables():
            return self._documents_of(ids)

    def _told(self, entries: Mapping[str, Entry]) -> Iterator[StoredDocument]:
        """Documents as they are shown: in a store that counts refused claims with these."""
        documents = starmap(_document, entries.items())
        if not self.counts:
            return documents
        found = zip(documents, self.met(list(entries)), strict=True)
        return (replace(document, met=met) for document, met in found)

    def met(self, ids: Sequence[str]) -> Iterator[Met | None]:
        """The claims that were refused because of each document; None if the store does not count them."""
        if not self.counts:
            return iter([None] * len(ids))
        return counts_of(self.store, ids, expired_before(self.store, self.clock()))

    def not_stored(self, ids: Sequence[str]) -> list[str]:
        """The ids under which no document is stored."""
        found = self._entries(_several(ids, "ids"))
        return [name for name in ids if name not in found]

    def stored(
        self, since: Moment | None = None, tags: Mapping[str, str] | None = None
    ) -> Iterator[StoredDocument]:
        """Iterate over the stored documents, in no particular order; reads all of them, a batch at a time.

        since, tags: only those that Query would let through. Documents that are written meanwhile may be
        missing. Raises UsageError for a moment that is still to come.
        """
        # A generator would raise at the first one.
        return self._stored_from(self.earliest(since), required_tags(tags))

    def _stored_from(self, earliest: int, tags: Tags) -> Iterator[StoredDocument]:
        self.store.refresh()
        with self.same_tables():
            for entries in self._live(earliest, tags):
                yield from self._told(entries)

    def _live(self, earliest: int, tags: Tags = ()) -> Iterator[dict[str, Entry]]:
        for found in self.rows_after():
            yield live_entries(found, earliest, tags)

    def rows_after(self, after: str | None = None) -> Iterator[dict[str, Known]]:
        """The rows of documents behind one, by id, a batch at a time in the order of their keys; all of them
        if it is None."""
        start = b"" if after is None else rows.document_key(after) + b"\0"
        return map(known_in, self.store.records("documents").iterate(start))

    def stored_page(
        self,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> StoredPage:
        """Some of the stored documents, for callers that go through all of them in several calls.

        since, tags: as for `stored`. after: from the page before; None: the beginning. limit: documents per
        page; a page has fewer where many others, or many refused claims, were read for it.
        """
        earliest, wanted = self.earliest(since), required_tags(tags)
        if limit < 1:
            raise UsageError(f"must be at least 1, not {limit}", parameter="limit")
        if after is not None and (problem := rows.id_problem(after)):
            raise UsageError(f"no page before has this: {problem}", parameter="after")
        found: dict[str, Entry] = {}
        read = 0
        self.store.refresh()
        with self.same_tables():
            for batch in self.rows_after(after):
                found |= live_entries(batch, earliest, wanted)
                read += len(batch)
                if len(found) > limit:
                    found = dict(islice(found.items(), limit))
                    return self._page(found, next(reversed(found)))
                if read >= PAGE_READ:
                    return self._page(found, next(reversed(batch)))
            return self._page(found, None)

    def _page(self, entries: Mapping[str, Entry], after: str | None) -> StoredPage:
        """A page of these documents, or of the first of them where very many claims were refused."""
        told = tuple(until_many(self._told(entries)))
        return StoredPage(told, after if len(told) == len(entries) else told[-1].id)

    def earliest(self, since: Moment | None) -> int:
        """The version from which documents are wanted. Raises UsageError."""
        earliest = expired_before(self.store, self.clock())
        return earliest if since is None else max(earliest, milliseconds(since, self.clock()))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of the stored documents, in no particular order."""
        for entries in self._all_live():
            yield from entries

    def __len__(self) -> int:
        """The number of stored documents. Reads all of them; `Administrator.stats` has an estimate."""
        return sum(map(len, self._all_live()))

    def _all_live(self) -> Iterator[dict[str, Entry]]:
        self.store.refresh()
        with self.same_tables():
            yield from self._live(expired_before(self.store, self.clock()))

    def __bool__(self) -> bool:
        return True  # also where it is empty, and without counting

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, str) and not self.not_stored([document_id])

    def __getitem__(self, document_id: str) -> StoredDocument:
        """What is stored under an id. Raises KeyError."""
        (found,) = self.documents([document_id])
        if found is None:
            raise KeyError(document_id)
        return found

    def _documents_of(self, ids: Sequence[str]) -> dict[str, Entry]:
        storable = list(dict.fromkeys(document for document in ids if rows.id_problem(document) is None))
        found = zip(storable, self.known(storable), strict=True)
        earliest = expired_before(self.store, self.clock())
        return live_entries({document: each for document, each in found if each}, earliest)

    def known(self, ids: Sequence[str]) -> list[Known | None]:
        """The rows of n documents with valid ids, None for an id without one. Raises StoreFailed for a
        damaged row."""
        return known(self.store, ids)

    def _sketches_of(self, stored: Mapping[str, Entry]) -> dict[str, bytes]:
        return sketches_of(self.store, self.profile.index_scheme, stored)

    def _documents_with_sketches(self, ids: Sequence[str]) -> tuple[dict[str, Entry], dict[str, bytes]]:
        """Live documents among the ids, and their sketches."""

        def read() -> tuple[dict[str, Entry], dict[str, bytes]]:
            stored = self._documents_of(ids)
            return stored, self._sketches_of(stored)

        self.store.refresh()
        with self.same_tables():
            return self.store.read_consistent(read)


@dataclass(slots=True)
class _SameTables(AbstractContextManager["_SameTables"]):
    """A class, as a generator would take a twentieth of a lookup."""

    _index: Index

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, PermanentError):
            self._index.require_own_tables()  # a clearer error if they were dropped


def _document(document_id: str, entry: Entry) -> StoredDocument:
    return StoredDocument(document_id, Fingerprint(entry.fingerprint), dict(entry.tags))


def _tags(given: Iterable[Mapping[str, str]]) -> list[Tags] | None:
    """The tags of each document, None if no document has any. Raises UsageError."""
    listed = list(given)
    return list(map(tags_of, listed)) if any(listed) else None


def _several(values: Iterable[str], what: str) -> list[str]:
    """Converts to a list. Refuses a string, whose characters are never meant."""
    if isinstance(values, str):
        raise UsageError(f"one string was given for {what}: put it into a list, [{values[:40]!r}]")
    several = _listed(values, what)
    for value in several:
        if not isinstance(value, str):
            raise UsageError(f"{shown(value)} is among the {what}, which must be strings")
    return several


def _listed(values: Iterable[Value], what: str) -> list[Value]:
    if not isinstance(values, Iterable) or is_frame(values):  # of a frame these are its columns
        raise UsageError(f"{shown(values)} was given for {what}: a list of them is needed")
    return list(values)


def _fingerprints(values: NDArray[np.uint64] | Iterable[int]) -> NDArray[np.uint64]:
    """Converts to uint64 (n,). Raises UsageError."""
    return np.asarray(_words(values), dtype=np.uint64)


def _words(values: NDArray[np.uint64] | Iterable[int]) -> NDArray[np.uint64] | list[int]:
    """Converts to integers of 64 bits, but for an array of these. Raises UsageError."""
    if isinstance(values, np.ndarray) and values.dtype == np.uint64 and values.ndim == 1:
        return values
    try:
        return [_unsigned(index(each)) for each in values]
    except (TypeError, OverflowError) as error:
        raise UsageError(
            f"{shown(values)}: fingerprints must be a list or array of integers of 64 bits"
        ) from error


def _unsigned(value: int) -> int:
    """The fingerprint of an integer, which may be signed (two's complement). Raises OverflowError."""
    if not -(1 << TABLE_BITS - 1) <= value < 1 << TABLE_BITS:
        raise OverflowError
    return value & (1 << TABLE_BITS) - 1
