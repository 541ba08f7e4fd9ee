"""The facade: one profile over one store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import starmap
from operator import index
from time import monotonic
from types import TracebackType
from typing import Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from simhbase.comparison import compare_by
from simhbase.errors import Conflict, PermanentError, ReadOnly, Undecided, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import Fingerprinted, Fingerprinter
from simhbase.index import rows
from simhbase.index.claim import TIMEOUT, Claimed, Claimer, ClaimRequest, claimer_for
from simhbase.index.claim_batch import NO_LOAD, Kind, Run
from simhbase.index.explain import explain
from simhbase.index.moment import at, milliseconds, milliseconds_to_come
from simhbase.index.mute import Hidden, MuteList, Name, require_ids, require_note
from simhbase.index.reader import (
    DRAWER_LIMIT,
    IDS_LIMIT,
    LISTING_GROWTH,
    Reader,
    expired_before,
    listed_sketches,
    live_entries,
)
from simhbase.index.rows import Entry
from simhbase.index.stored_profile import StoredProfile, read_profile, write_profile
from simhbase.index.tags import Tags, required_tags, tags_of
from simhbase.index.writer import Writer, batch_of, known, known_in, writer_for
from simhbase.metrics import Metrics, count_by_outcome, timed
from simhbase.model import (
    AddReport,
    Claim,
    Comparison,
    Document,
    Explanation,
    Fingerprint,
    Lookup,
    Moment,
    Muted,
    Query,
    Rejected,
    StoredDocument,
)
from simhbase.profile import Profile, given_parameters, make_profile
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Access, Store

Value = TypeVar("Value")

MOST_SHOWN = 80  # characters of a value in a message
UNKNOWN_FINGERPRINT = "no document has this fingerprint, so there is no sketch to compare by"
UNKNOWN_ID = "no document is stored under this id"
LOST_SKETCH = "the document's sketch is lost: simhbase check says more"
LOOKED_AT = 5.0  # seconds after which an open index makes sure that its tables are still the same


def open_index(
    url: str,
    create: Profile | Mapping[str, object] | str | None = None,
    access: Access = "write",
    drawer_limit: int | None = DRAWER_LIMIT,
    ids_limit: int = IDS_LIMIT,
    metrics: Metrics | None = None,
) -> Index:
    """Opens the index at a URL.

    create: makes what is missing of the tables, with this profile, these parameters, or the preset of
    this name ("default"); tables that exist must have it.
    access: "read" leaves an embedded store to its one writer. drawer_limit, ids_limit: see Reader. metrics:
    is told what the index does.

    Raises TablesMissing (nothing there and no `create`), ProfileMismatch, StoreBusy (another
    process writes to this embedded store), StoreUnreachable, UsageError.
    """
    if access not in get_args(Access):
        raise UsageError(f"no access {access!r}: use one of {', '.join(get_args(Access))}")
    for name, limit in (("drawer_limit", drawer_limit), ("ids_limit", ids_limit)):
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise UsageError(f"must be a whole number from 1 on, not {limit!r}", parameter=name)
    if isinstance(create, Mapping | str):
        create = make_profile(given_parameters(create))
    if create is not None and not isinstance(create, Profile):
        raise UsageError(f"create = {create!r} is no Profile: create='default' takes the defaults")
    if create is not None:
        if access == "read":
            raise UsageError(
                "create makes a store, which access='read' does not allow: leave one of them out"
            )
        create.require_fits_tables()
    store = open_store(url, access) if create is None else create_store(url)
    try:
        if create is not None:
            write_profile(store, create)
        return Index(store, read_profile(store), access, drawer_limit, ids_limit, metrics=metrics)
    except BaseException:
        store.close()
        raise


class Index:
    """Adds, finds and deletes documents. Use it as a context manager, or close it."""

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
        self._stored = stored
        self._looked = monotonic()
        self._mute_list = MuteList(store, clock)
        self._reader = Reader(
            store, stored.profile.index_scheme, drawer_limit, ids_limit, clock, metrics=metrics
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def metrics(self) -> Metrics | None:
        """What is told what the index does; may be set while nothing is under way."""
        return self._reader.metrics

    @metrics.setter
    def metrics(self, metrics: Metrics | None) -> None:
        self._reader = replace(self._reader, metrics=metrics)

    def close(self) -> None:
        """Closes the store, when all that was claimed is answered; may be called twice."""
        if claimer := self.__dict__.get("claimer"):
            claimer.close()
        self.store.close()

    def listing(self, ids_limit: int) -> Index:
        """Return this index with another limit of the documents that are listed of one fingerprint."""
        other = copy(self)
        other._reader = replace(self._reader, ids_limit=ids_limit)
        return other

    @cached_property
    def fingerprinter(self) -> Fingerprinter:
        """The profile's pipeline, checked on first use against the creator's answers to fixed texts.

        Raises ProfileMismatch.
        """
        fingerprinter = self.profile.fingerprinter()
        self._stored.check_pipeline(fingerprinter)
        return fingerprinter

    @cached_property
    def writer(self) -> Writer:
        """What add and delete go through. Raises ReadOnly."""
        self._require_writable()
        return writer_for(self.store, self.profile.index_scheme, self.clock)

    def _require_writable(self) -> None:
        if self.access == "read":
            raise ReadOnly(f"{self.store.url} was opened for reading: open it with access='write'")

    def add(self, documents: Iterable[Document]) -> AddReport:
        """Stores documents, replacing those with the same id, and their tags; durable when it returns.

        A document without a fingerprint or with an unusable id or tags is rejected and named in the report.
        Raises UsageError, before anything is stored, for what is no document.
        """
        batch = _documents(documents)
        tags = _tags(document.tags for document in batch)
        found = self._fingerprinted([document.text for document in batch])
        rejected = tuple(
            Rejected(document.id, reason)
            for document, reason in zip(batch, found.reasons, strict=True)
            if reason is not None
        )
        accepted = found.accepted
        ids = [document.id for document, fits in zip(batch, accepted.tolist(), strict=True) if fits]
        report = self.add_batch(ids, found.fingerprints[accepted], _chosen(tags, accepted))
        count_by_outcome(self.metrics, "documents", rejected=len(rejected))
        return AddReport(report.added, report.updated, report.unchanged, rejected + report.rejected)

    def add_fingerprints(
        self,
        ids: Sequence[str],
        fingerprints: NDArray[np.uint64] | Sequence[int],
        tags: Sequence[Mapping[str, str]] | None = None,
    ) -> AddReport:
        """Store n ids with fingerprints made elsewhere: uint64 (n,), or n integers. tags: those of each, n
        mappings of names to values; None: none has any."""
        ids, values = _several(ids, "ids"), _fingerprints(fingerprints)
        if len(ids) != len(values):
            raise UsageError(f"{len(ids)} ids with {len(values)} fingerprints: each needs one")
        given = None if tags is None else _tags(_listed(tags, "tags"))
        if tags is not None and len(tags) != len(ids):
            raise UsageError(f"{len(ids)} ids with tags for {len(tags)}: each needs some, {{}} for none")
        if self.profile.sketching is not None:
            raise UsageError(
                f"{self.store.url} keeps a sketch of each text, which fingerprints made elsewhere do not "
                "have: give the texts"
            )
        return self.add_batch(ids, FingerprintBatch.bare(values), given)

    def add_batch(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None = None,
        removing: Sequence[str] = (),
    ) -> AddReport:
        """Store what a fingerprinter of this profile made of n texts. tags: of each its names and
        values as pairs, by name; None: none has any. removing: other documents, which are removed in the same
        write."""
        with self._operation("add", len(ids)):
            report = self.writer.add(ids, fingerprints, tags, removing)
        count_by_outcome(
            self.metrics,
            "documents",
            added=report.added,
            updated=report.updated,
            unchanged=report.unchanged,
            rejected=len(report.rejected),
        )
        return report

    @cached_property
    def claimer(self) -> Claimer:
        """What claims go through. Raises ReadOnly, and ProfileMismatch for a store in HBase whose rows have
        an older format."""
        _ = self.writer
        self._stored.require_claims(self.store)
        return claimer_for(self.store, self.profile.index_scheme, self.clock, self._count, self.hidden)

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
        """Stores a text unless one near it is stored already; of any number of workers that claim near texts
        at once, in any processes, at most one is accepted. Durable when it returns.

        The answer is "accepted", "duplicate" or "rejected"; the same claim again gets the same one. timeout:
        seconds to wait for others who claim texts near this one; nobody waits for a worker that died for more
        than ten seconds. `add` does not wait for claims, nor they for it. tags: those that the document gets;
        they decide nothing, and a text that is stored under this id already keeps its own, which `add`
        replaces. Raises Undecided when the time is up: nothing is stored then; Conflict where another text is
        stored under this id, which `add` replaces.
        """
        return _decided(*self.claim_many([Document(id, text, {} if tags is None else tags)], timeout))

    def claim_many(self, documents: Iterable[Document], timeout: float = TIMEOUT) -> list[Claim]:
        """Claim n documents, as if they came one after the other; return an answer to each, in order."""
        return self._claimed(self._claim_request(documents, timeout)).claims

    async def aclaim(
        self,
        id: str,  # noqa: A002  # as in Document
        text: str,
        timeout: float = TIMEOUT,
        tags: Mapping[str, str] | None = None,
    ) -> Claim:
        """`claim` for asyncio."""
        return _decided(*await self.aclaim_many([Document(id, text, {} if tags is None else tags)], timeout))

    async def aclaim_many(self, documents: Iterable[Document], timeout: float = TIMEOUT) -> list[Claim]:
        """`claim_many` for asyncio. A task that is cancelled harms no other; what it has claimed is claimed,
        unless that has not begun."""
        begun = await asyncio.to_thread(self.begin_claims, documents, timeout)
        return (await asyncio.wrap_future(begun)).claims

    def begin_claims(self, documents: Iterable[Document], timeout: float = TIMEOUT) -> Future[Claimed]:
        """Begins what `claim_many` does, without waiting for others. Returns a future, whose result has the
        answers as `claims`."""
        request = self._claim_request(documents, timeout)
        with self.same_tables():
            self.claimer.begin(request)
        return request.future

    def _claim_request(self, documents: Iterable[Document], timeout: float) -> ClaimRequest:
        several = _documents(documents)
        tags = _tags(document.tags for document in several)
        found = self._fingerprinted([document.text for document in several])
        kind = Kind(self.profile.index_scheme.bounds(None, None))
        ids = [document.id for document in several]
        return ClaimRequest.of(ids, found.fingerprints, kind, timeout, tags, found.reasons)

    def claim_batch(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        timeout: float = TIMEOUT,
        min_similarity: float | None = None,
        *,
        replacing: bool = False,
        tags: Sequence[Tags] | None = None,
        run: Run = NO_LOAD,
    ) -> Claimed:
        """Claim what a fingerprinter of this profile made of n texts. replacing: a document that is
        stored with another text is replaced if nothing is near the new one, and its tags, too. tags: as of
        `add_batch`. run: which run of a load claims."""
        kind = Kind(self.profile.index_scheme.bounds(None, min_similarity), replacing, run)
        return self._claimed(ClaimRequest.of(ids, fingerprints, kind, timeout, tags))

    def _claimed(self, request: ClaimRequest) -> Claimed:
        with self._operation("claim", len(request.records)):
            self.claimer.begin(request)
            return request.result()

    def delete(self, ids: Iterable[str]) -> int:
        """Removes documents; returns how many of the ids were stored."""
        several = _several(ids, "ids")
        with self._operation("delete", len(several)):
            deleted = self.writer.delete(several)
        if self.metrics is not None:
            self.metrics.count("deleted", deleted)
        return deleted

    def counters(self) -> Mapping[str, int]:
        """What has happened since the index was opened, by name: operations, retries, truncated drawers and
        the like; empty for embedded stores."""
        return self.store.counters()

    def gauges(self) -> Mapping[str, int]:
        """What there is at this moment, by name: connections to HBase that are allowed and in use, and calls
        that wait for one; empty for embedded stores."""
        return self.store.gauges()

    def mute(
        self,
        ids: Iterable[str] = (),
        fingerprints: NDArray[np.uint64] | Iterable[int] = (),
        until: Moment | None = None,
        note: str = "",
    ) -> int:
        """Makes documents no matches: those with these ids, and all that have one of these fingerprints,
        stored now or later. Returns how many entries are new to the mute list; the others are replaced.

        until: when that ends, a datetime, or a timedelta for so long from now; None: never. note: for those
        who read the list, one line. A muted document stays stored, and nothing is a duplicate of it: of texts
        that are muted by their fingerprint any number can be claimed. This index knows it at once, other
        processes within five seconds. Documents that are muted by their ids count for the limits of a lookup.
        Raises ReadOnly, and UsageError for what can be no entry, and for a list of more than 1 MiB, some ten
        thousand entries.
        """
        self._require_writable()
        names, values = _several(ids, "ids"), _fingerprints(fingerprints).tolist()
        require_ids(names)
        require_note(note)
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
        """Takes ids and fingerprints out of the mute list; returns how many were there."""
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
        """The mute list, without what has ended, the oldest entries first."""
        self.store.refresh()
        with self.same_tables():
            return self._mute_list.entries()

    def hidden(self) -> Hidden:
        """What the mute list hides from lookups, as it was at most five seconds ago."""
        return self._mute_list.hidden()

    @property
    def _hiding_reader(self) -> Reader:
        """The reader, which leaves out what is muted now."""
        hidden = self.hidden()
        return self._reader if hidden is self._reader.hidden else replace(self._reader, hidden=hidden)

    @property
    def tables_digest(self) -> str:
        """Tells the tables from others that are made anew under the same names."""
        return self._stored.digest

    def require_own_tables(self) -> None:
        """Raises ProfileMismatch where the tables were dropped and made anew since they were opened, and
        TablesMissing where they were dropped. Every operation looks now and then, and after an error."""
        self._stored.require_in(self.store)
        self._looked = monotonic()

    def require_ready(self) -> None:
        """Raises what keeps the index from being read, and written where it was opened for that."""
        self.require_own_tables()
        if self.access == "write":
            self.store.require_writable()

    def _fingerprinted(self, texts: Sequence[str]) -> Fingerprinted:
        fingerprinter = self.fingerprinter
        with timed(self.metrics, "fingerprint", len(texts)):
            return fingerprinter.fingerprint_many(texts)

    @contextmanager
    def _operation(self, name: str, records: int) -> Iterator[None]:
        """Measure an operation on so many records, on the tables that were opened."""
        with timed(self.metrics, name, records), self.same_tables():
            yield

    @contextmanager
    def same_tables(self) -> Iterator[None]:
        """Check now and then, and after an error, that the tables are still those that were opened."""
        if monotonic() - self._looked > LOOKED_AT:
            self.require_own_tables()
        try:
            yield
        except PermanentError:
            self.require_own_tables()  # a clearer error where they were dropped
            raise

    def find(
        self,
        text: str,
        k: int | None = None,
        min_similarity: float | None = None,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Lookup:
        """Find the documents near a text, the nearest first.

        k, min_similarity, since, tags: as in Query, which the methods for several texts take. Raises
        UsageError for a bound that the scheme does not know, or cannot keep, for a moment that is still to
        come, and for tags that no document can have.
        """
        return self.find_many([text], Query(k, min_similarity, since, tags or {}))[0]

    def find_many(self, texts: Sequence[str], query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n texts, with one read of the drawers. Texts without a fingerprint
        get a Lookup that says why."""
        found = self._fingerprinted(_several(texts, "texts"))
        lookups = iter(self.find_batch(found.fingerprints[found.accepted], query))
        return [next(lookups) if reason is None else Lookup(None, reason=reason) for reason in found.reasons]

    def find_batch(self, fingerprints: FingerprintBatch, query: Query = Query()) -> list[Lookup]:
        """Find the documents near what a fingerprinter of this profile made of n texts."""
        self.store.refresh()
        with self._operation("find", len(fingerprints)):
            return self._hiding_reader.find(fingerprints, query)

    def find_fingerprints(
        self, fingerprints: NDArray[np.uint64] | Sequence[int], query: Query = Query()
    ) -> list[Lookup]:
        """Find the documents near each of n fingerprints: uint64 (n,), or integers. Where the index keeps
        sketches, they are compared by theirs: one that is not stored gets a Lookup that says so."""
        values = _fingerprints(fingerprints)
        if self.profile.sketching is None:
            return self.find_batch(FingerprintBatch.bare(values), query)
        self.store.refresh()
        distinct = list(dict.fromkeys(values.tolist()))
        with self.same_tables():
            sketches = self.store.read_consistent(lambda: self._sketches_under(distinct))
        asked = [(value, sketches.get(value, b"")) for value in values.tolist()]
        return self._find_sketched(asked, query, UNKNOWN_FINGERPRINT)

    def _sketches_under(self, fingerprints: Sequence[int], most: int = 1) -> dict[int, bytes]:
        """The sketch of one document of each fingerprint that has any; most: listed of one at first."""
        table = self.store.records("fingerprints")
        found = table.scan(list(map(rows.listing_prefix, fingerprints)), most)
        listed = {value: hints for value, hints in zip(fingerprints, found, strict=True) if hints}
        if self.profile.index_scheme.listed_sketching is not None:
            return {value: hints[0][1].value for value, hints in listed.items()}
        ids = {value: [rows.listing_id(key) for key, _ in hints] for value, hints in listed.items()}
        stored = self._documents_of([document for several in ids.values() for document in several])
        sketches = {
            value: stored[document].sketch
            for value, several in ids.items()
            for document in reversed(several)
            if document in stored and stored[document].fingerprint == value
        }
        # The first may have been left behind, or have expired.
        hidden = [value for value, several in ids.items() if value not in sketches and len(several) == most]
        return sketches | (self._sketches_under(hidden, most * LISTING_GROWTH) if hidden else {})

    def find_ids(self, ids: Sequence[str], query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n stored ones; an id that is not stored gets a Lookup that says so.
        A document is among its own matches, unless it is older than `since` or has not the `tags`."""
        ids = _several(ids, "ids")
        self.store.refresh()
        with self.same_tables():
            stored, sketches = self.store.read_consistent(lambda: self._documents_with_sketches(ids))
        asked = [(stored[each].fingerprint, sketches.get(each, b"")) for each in ids if each in stored]
        found = iter(self._find_sketched(asked, query, LOST_SKETCH))
        return [next(found) if document in stored else Lookup(None, reason=UNKNOWN_ID) for document in ids]

    def _find_sketched(self, asked: Sequence[tuple[int, bytes]], query: Query, lost: str) -> list[Lookup]:
        """The documents near fingerprints with these sketches; `lost` is why there is no answer where a
        sketch is none."""
        size = self.profile.sketching.bytes if self.profile.sketching else 0
        batch = batch_of(asked, self.profile.sketching)
        lookups = iter(self.find_batch(batch, query))
        return [
            next(lookups) if len(sketch) == size else Lookup(Fingerprint(value), reason=lost)
            for value, sketch in asked
        ]

    def compare(self, left: str, right: str) -> Comparison:
        """Compares two texts by the index's profile, and says where they differ; nothing is read of the
        store. Raises UsageError for what is no text."""
        return compare_by(self.profile, self.fingerprinter, left, right)

    def explain(
        self,
        text: str,
        id: str | None = None,  # noqa: A002  # the word that everything else here has for it
        k: int | None = None,
        min_similarity: float | None = None,
    ) -> Explanation:
        """What `find` does for a text: its drawers, what is in them, and why that matches or does not.

        id: a document that is to be among the candidates, found or not; k, min_similarity: as those of
        `find`. Reads the drawers to their limit, as `find` does. Raises UsageError as `find` does.
        """
        found = self.fingerprinter.fingerprint_many(_several([text], "text"))
        if found.reasons[0] is not None:
            return Explanation(None, reason=found.reasons[0])
        return self._explained(found.fingerprints, id, Query(k, min_similarity))

    def explain_ids(self, ids: Sequence[str], query: Query = Query()) -> list[Explanation]:
        """Explain what `find_ids` does; an id that is not stored gets an Explanation that says so."""
        ids = _several(ids, "ids")
        self.store.refresh()
        with self.same_tables():
            stored, sketches = self.store.read_consistent(lambda: self._documents_with_sketches(ids))
        explanations = []
        for document in ids:
            if document not in stored:
                explanations.append(Explanation(None, reason=UNKNOWN_ID))
                continue
            value = Fingerprint(stored[document].fingerprint)
            text = batch_of([(value, sketches.get(document, b""))], self.profile.sketching)
            explanations.append(
                self._explained(text, None, query) if len(text) else Explanation(value, reason=LOST_SKETCH)
            )
        return explanations

    def _explained(self, text: FingerprintBatch, document: str | None, query: Query) -> Explanation:
        self.store.refresh()
        with self.same_tables():
            return explain(self._hiding_reader, text, query, document)

    def fingerprints(self, ids: Sequence[str]) -> list[Fingerprint | None]:
        """The fingerprints of stored documents, None for ids that are not stored."""
        return [None if each is None else each.fingerprint for each in self.documents(ids)]

    def documents(self, ids: Sequence[str]) -> list[StoredDocument | None]:
        """What is stored under ids, with the tags; None for ids that are not stored."""
        ids = _several(ids, "ids")
        self.store.refresh()
        with self.same_tables():
            found = self._documents_of(ids)
        return [_document(each, found[each]) if each in found else None for each in ids]

    def stored(
        self, since: Moment | None = None, tags: Mapping[str, str] | None = None
    ) -> Iterator[StoredDocument]:
        """Iterate over the stored documents, in no particular order; reads all of them, a batch at a time.

        since, tags: only those that Query would let through. Documents that are written meanwhile may be
        missing. Raises UsageError for a moment that is still to come.
        """
        earliest = expired_before(self.store, self.clock())
        if since is not None:
            earliest = max(earliest, milliseconds(since, self.clock()))
        return self._stored_from(earliest, required_tags(tags))

    def _stored_from(self, earliest: int, tags: Tags) -> Iterator[StoredDocument]:
        self.store.refresh()
        with self.same_tables():
            for batch in self.store.records("documents").iterate():
                yield from starmap(_document, live_entries(known_in(batch), earliest, tags).items())

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of the stored documents, in no particular order."""
        return (document.id for document in self.stored())

    def __len__(self) -> int:
        """The number of stored documents. Reads all of them; `Administrator.stats` has an estimate."""
        return sum(1 for _ in self.stored())

    def __bool__(self) -> bool:
        return True  # also where it is empty, and without counting

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, str) and self.documents([document_id]) != [None]

    def __getitem__(self, document_id: str) -> StoredDocument:
        """What is stored under an id. Raises KeyError."""
        (found,) = self.documents([document_id])
        if found is None:
            raise KeyError(document_id)
        return found

    def _documents_of(self, ids: Sequence[str]) -> dict[str, Entry]:
        """The documents that are stored among ids."""
        storable = list(dict.fromkeys(document for document in ids if rows.id_problem(document) is None))
        found = zip(storable, known(self.store, storable), strict=True)
        earliest = expired_before(self.store, self.clock())
        return live_entries({document: each for document, each in found if each}, earliest)

    def _documents_with_sketches(self, ids: Sequence[str]) -> tuple[dict[str, Entry], dict[str, bytes]]:
        """The documents that are stored among ids, and the sketches of those that have any."""
        stored = self._documents_of(ids)
        if self.profile.index_scheme.listed_sketching:
            fingerprints = {document: entry.fingerprint for document, entry in stored.items()}
            return stored, listed_sketches(self.store, fingerprints)
        return stored, {document: entry.sketch for document, entry in stored.items()}


def _document(document_id: str, entry: Entry) -> StoredDocument:
    return StoredDocument(document_id, Fingerprint(entry.fingerprint), dict(entry.tags))


def _decided(claim: Claim) -> Claim:
    """The claim. Raises Undecided, Conflict."""
    if claim.outcome == "undecided":
        raise Undecided(f"the claim of {_shown(claim.id)}: {claim.reason}")
    if claim.outcome == "conflict":
        raise Conflict(f"the claim of {_shown(claim.id)}: {claim.reason}")
    return claim


def _documents(values: Iterable[Document]) -> list[Document]:
    """The documents as a list. Raises UsageError for anything else among them."""
    if isinstance(values, (str, Document)):
        raise UsageError("one document was given: put it into a list, [Document(id, text)]")
    documents = _listed(values, "documents")
    for document in documents:
        if not isinstance(document, Document):
            raise UsageError(f"{_shown(document)} is no document: use Document(id, text)")
        if not isinstance(document.id, str) or not isinstance(document.text, str):
            raise UsageError(f"{_shown(document)}: id and text are strings")
    return documents


def _tags(given: Iterable[Mapping[str, str]]) -> list[Tags] | None:
    """The tags of each document, None where none has any. Raises UsageError for what are no tags."""
    tags = list(map(tags_of, given))
    return tags if any(tags) else None


def _chosen(tags: list[Tags] | None, accepted: NDArray[np.bool_]) -> list[Tags] | None:
    return (
        None if tags is None else [each for each, fits in zip(tags, accepted.tolist(), strict=True) if fits]
    )


def _several(values: Iterable[str], what: str) -> list[str]:
    """The values as a list. A string is refused: its characters are never what was meant."""
    if isinstance(values, str):
        raise UsageError(f"one string was given for {what}: put it into a list, [{values[:40]!r}]")
    several = _listed(values, what)
    for value in several:
        if not isinstance(value, str):
            raise UsageError(f"{_shown(value)} is among the {what}: they are strings")
    return several


def _listed(values: Iterable[Value], what: str) -> list[Value]:
    if not isinstance(values, Iterable):
        raise UsageError(f"{_shown(values)} was given for {what}: a list of them is needed")
    return list(values)


def _fingerprints(values: NDArray[np.uint64] | Iterable[int]) -> NDArray[np.uint64]:
    """Fingerprints as an array: uint64 (n,). Raises UsageError for what is none."""
    if isinstance(values, np.ndarray) and values.dtype == np.uint64 and values.ndim == 1:
        return values
    try:
        return np.array(list(map(index, values)), dtype=np.uint64)
    except (TypeError, OverflowError) as error:
        raise UsageError(
            f"{_shown(values)}: fingerprints are integers from 0 to 2**64 - 1, in a list or an array"
        ) from error


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}..."
