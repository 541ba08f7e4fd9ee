"""Lookups: fingerprints -> drawers -> candidates -> documents -> matches.

A batch is served by one read of the drawers, one of the fingerprints table for the near fingerprints, and one
of the documents table for what those documents are now. The last is skipped in stores whose hints are always
right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby, islice
from math import inf
from operator import itemgetter
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import PREFIX_BYTES, numbers_of
from simhbase.drawers.scheme import Bounds, Distances, Scheme
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import TextFingerprint
from simhbase.fingerprint.sketches import pair_mismatches
from simhbase.index import rows
from simhbase.index.mute import NOTHING_HIDDEN, Hidden
from simhbase.index.rows import Entry
from simhbase.index.tags import Tags, required_tags
from simhbase.index.writer import Known, batch_of, expired_before, first_listed, first_sketch, known
from simhbase.metrics import Metrics
from simhbase.model.moment import milliseconds
from simhbase.model.values import Fingerprint, Lookup, Match, Query
from simhbase.process.slices import bounded_slices, ranges
from simhbase.stores.base import (
    DrawerHits,
    DrawerRows,
    NearLimits,
    NearRows,
    Row,
    Store,
    listed_rows,
    now,
)
from simhbase.stores.meta import quoted

DRAWER_LIMIT = 10_000
IDS_LIMIT = 1_000
LISTING_GROWTH = 8
MOST_LISTED = 64  # times the limit: listing stops here if nothing wanted was found
CHUNK_ROWS = 1 << 20  # rows compared at once
ALL_BITS = 64
LISTED_AT_ONCE = 64  # fingerprints near a query, where not all may be followed
TOLD_AT_ONCE = 1 << 14  # fingerprints whose sketches are read at once

N = TypeVar("N", "Near", "NearOne")
_Near = tuple[NDArray[np.int64], NDArray[np.uint64], Distances]  # query, fingerprint, distance


class NearFingerprints(NamedTuple):
    """Stored fingerprints that are near n queries by their bits.

    hits: (query, fingerprint, distance), ascending by query, each pair once. truncated: per query,
    whether a drawer had more rows than the limit. rows: number of drawer rows read; largest: rows of each
    query's largest drawer, as far as it was read. beyond: as in Near.
    """

    hits: list[tuple[int, int, int]]
    truncated: list[bool]
    rows: int
    largest: list[int]
    beyond: list[float]


class Near(NamedTuple):
    """Documents near n queries: the matches of each, unordered, each document once. truncated: a drawer had
    more rows than the limit; cut: a near fingerprint lists more documents than the limit; lost: what the
    store lacks, for messages; beyond: the least distance of what `near_limit` leaves out, inf if that is
    nothing."""

    matches: list[list[Match]]
    truncated: list[bool]
    cut: list[bool]
    lost: list[str]
    beyond: list[float]


class NearOne(NamedTuple):
    """Documents near one text: see Near. is_deferred: there are more than the reader's `near_limit`, of which
    none was followed."""

    matches: list[Match]
    truncated: bool
    cut: bool
    lost: list[str]
    is_deferred: bool = False


class Asked(NamedTuple):
    """What counts as a match. since: the lowest version; tags: what a document must have."""

    bounds: Bounds
    since: int = 0
    tags: Tags = ()


# Query, document id, the fingerprint that lists it, its distance, the listing's value.
Led = tuple[int, str, int, int, bytes]


class Leads(NamedTuple):
    """Documents that hints near n queries lead to, ascending by query, each document once per query.
    truncated, cut, beyond: as in Near. unlisted: near fingerprints that list no document."""

    led: list[Led]
    truncated: list[bool]
    cut: list[bool]
    unlisted: list[int]
    beyond: list[float]


Now = dict[str, Entry]  # documents by id
Listings = dict[int, list[tuple[str, bytes]]]  # ids and values of listings, by fingerprint
_Pair = tuple[int, str, int, bytes]  # query, document id, fingerprint, sketch


# What `find` of a reader with a `near_limit` leaves to its caller, as an Unfollowed: what is "unmatched" by
# the nearest, "all" that has more near than the limit, or "nothing".
Deferred = Literal["nothing", "unmatched", "all"]


@dataclass(frozen=True, slots=True)
class Unfollowed(Lookup):
    """A lookup that has to be done again with another limit."""


@dataclass(frozen=True)
class Reader:
    """Looks fingerprints up in one store.

    drawer_limit: maximum rows read per drawer, None for no limit. ids_limit: maximum documents listed per
    fingerprint, up to MOST_LISTED times as many if none of those match. A lookup that exceeds either is
    marked `truncated`. hidden: muted documents. Documents under a muted fingerprint are not read at all,
    those muted by id count towards the limits. besides: ids that `near` looks beyond: they are not listed.
    near_limit: maximum documents that `near` follows for a text, those of the nearest fingerprints; deferred:
    what `find` leaves to its caller then. of: what ids begin with; others are not listed. record: called with
    the drawer rows that `find` reads.
    """

    store: Store
    scheme: Scheme
    drawer_limit: int | None = DRAWER_LIMIT
    ids_limit: int = IDS_LIMIT
    clock: Callable[[], int] = field(default=now)
    metrics: Metrics | None = None
    hidden: Hidden = NOTHING_HIDDEN
    besides: frozenset[str] = frozenset()
    near_limit: int | None = None
    deferred: Deferred = "unmatched"
    of: bytes = b""
    record: Callable[[DrawerRows], None] | None = None

    def asked(self, query: Query) -> Asked:
        """What a query asks for. Raises UsageError for one that cannot be answered."""
        k, similarity, since, tags = query.k, query.min_similarity, query.since, query.tags
        if k is None and similarity is None and since is None and tags == {}:
            return self._usual
        earliest = 0 if since is None else milliseconds(since, self.clock())
        return Asked(self.scheme.bounds(k, similarity), earliest, required_tags(tags))

    @cached_property
    def _usual(self) -> Asked:
        """What a query asks for that says nothing: by the profile's bounds."""
        return Asked(self.scheme.bounds(None, None))

    def find(self, fingerprints: FingerprintBatch, query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n texts. Raises UsageError for a query that cannot be answered."""
        asked = self.asked(query)
        if len(fingerprints) == 1 and self.record is None and self.near_limit is None:
            return [self.find_one(fingerprints.single, asked)]
        return self.find_near(fingerprints, asked)

    def find_near(self, fingerprints: FingerprintBatch, asked: Asked) -> list[Lookup]:
        """Find the documents near each of n texts, which are looked up together."""
        near = self.near(fingerprints, asked)
        if self.near_limit is None or self.deferred == "nothing":
            self._look_behind(near, fingerprints, asked)
        lookups = [
            (Unfollowed if self._defers(matches, cut=cut, beyond=beyond) else Lookup)(
                Fingerprint(fingerprint), tuple(sorted(matches)), truncated or cut or beyond < inf
            )
            for fingerprint, matches, truncated, cut, beyond in zip(
                fingerprints.values.tolist(),
                near.matches,
                near.truncated,
                near.cut,
                near.beyond,
                strict=True,
            )
        ]
        self._count([lookup for lookup in lookups if not isinstance(lookup, Unfollowed)])
        return lookups

    def _defers(self, matches: Sequence[Match], *, cut: bool, beyond: float) -> bool:
        """True if a lookup is left to the caller. cut, beyond: as in Near."""
        if self.near_limit is None or self.deferred == "nothing":
            return False
        if not matches:  # what was left out may match
            return cut or beyond < inf
        return self.deferred == "all" and (beyond < inf or (cut and self.ids_limit < IDS_LIMIT))

    def find_one(self, text: TextFingerprint, asked: Asked) -> Lookup:
        """Find the documents near one text. Lists more documents if none of those listed match, as all may
        have expired, be too old or have other tags."""
        matches, truncated, cut, _, is_deferred = self.near_one(text, asked)
        if self.near_limit is not None and (is_deferred or (cut and not matches)):
            if self.deferred == "all":
                return Unfollowed(Fingerprint(text.value))
            return self.find_near(batch_of([(text.value, text.sketch)], self.scheme.sketching), asked)[0]
        limit = self.ids_limit
        while cut and not matches and limit < MOST_LISTED * self.ids_limit:
            limit *= LISTING_GROWTH
            more, _, cut, *_ = replace(self, ids_limit=limit, metrics=None).near_one(text, asked)
            matches, cut = sorted(more)[: self.ids_limit], cut or len(more) > self.ids_limit
        lookup = Lookup(Fingerprint(text.value), tuple(sorted(matches)), truncated or cut)
        if self.metrics is not None:
            self._count([lookup])
        return lookup

    def _count(self, lookups: Sequence[Lookup]) -> None:
        if self.metrics is not None:
            self.metrics.count("lookups", len(lookups))
            if truncated := sum(lookup.truncated for lookup in lookups):
                self.metrics.count("truncated_lookups", truncated)

    def near_one(self, text: TextFingerprint, asked: Asked) -> NearOne:
        """The documents near one text: the answer of `near`, without arrays."""
        found = self._near_one(text, asked)
        return self._without_loss(partial(self._near_one, text, asked)) if found.lost else found

    def _near_one(self, text: TextFingerprint, asked: Asked) -> NearOne:
        earliest = asked.since
        if self._expires:
            earliest = max(earliest, expired_before(self.store, self.clock()))
        verifies = bool(self._asks_documents or earliest or asked.tags)
        found = self._read_one(text, asked.bounds, verifies=verifies)
        if not found.listed and self.metrics is None:
            return NearOne([], found.hits.truncated, False, [])
        if self.metrics is not None:
            _tell_of_one(self.metrics, found.hits)
        if self.near_limit is not None and sum(map(len, found.listed.values())) > self.near_limit:
            return NearOne([], found.hits.truncated, True, [], is_deferred=True)
        cut = False
        lost: list[str] = []  # list[str]() and its like would take half a microsecond each
        led: dict[str, tuple[int, Row]] = {}
        for fingerprint, listed in found.listed.items():
            cut |= len(listed) > self.ids_limit
            for row in listed[: self.ids_limit]:
                led.setdefault(rows.listing_id(row[0]), (fingerprint, row))
            if not listed and self._lists_all:
                lost.append(_unlisted(fingerprint))
        if verifies and self._lists_stored:
            lost += [
                _unstored(document) for document, (_, (key, _)) in led.items() if not found.documents[key]
            ]
        matches = []
        for document, (fingerprint, row) in led.items():
            current = self._current(document, fingerprint, row, found.documents, earliest, asked.tags)
            if current and (match := self._match(text, document, *current, asked.bounds)):
                matches.append(match)
        return NearOne(matches, found.hits.truncated, cut, lost)

    def _read_one(self, text: TextFingerprint, bounds: Bounds, *, verifies: bool) -> NearRows:
        prefixes = self.scheme.probes_of(text)
        limits = self._limits.get((bounds.bits, verifies))
        if limits is None:
            limits = self._limits[bounds.bits, verifies] = NearLimits(
                bounds.bits,
                self.drawer_limit,
                self.ids_limit + 1,
                self.hidden.fingerprints,
                rows.key_of_id if verifies else None,
                self.of,
                self.near_limit,
            )
        if self.scheme.listed_sketching is None:
            found = self.store.near(text.value, prefixes, limits)
        else:
            found = self.store.read_consistent(lambda: self._read_sketched(text, prefixes, bounds, limits))
        return self._with_equal(text.value, found, limits) if found.hits.truncated else found

    @cached_property
    def _limits(self) -> dict[tuple[int, bool], NearLimits]:
        """Those of lookups so far, by bits and whether documents are read."""
        return {}

    def _with_equal(self, value: int, found: NearRows, limits: NearLimits) -> NearRows:
        """Adds documents with the same fingerprint: other rows may have kept it out of what was read of full
        drawers."""
        if value in found.listed or value in limits.hidden:
            return found
        hits = found.hits._replace(bits={value: 0})
        equal = self.store.read_consistent(lambda: listed_rows(self.store, hits, limits))
        if not equal.listed[value]:
            return found
        return NearRows(
            found.hits._replace(bits=found.hits.bits | hits.bits),
            found.listed | equal.listed,
            {**found.documents, **equal.documents},
        )

    def _read_sketched(
        self, text: TextFingerprint, prefixes: Sequence[bytes], bounds: Bounds, limits: NearLimits
    ) -> NearRows:
        """Where fingerprints identify sketches, the first that each of a drawer lists says if it is near; a
        lost one is to be decided document by document."""
        sketching = self.scheme.listed_sketching
        assert sketching is not None
        first = limits._replace(bits=ALL_BITS, listed=1, document_key=None, enough=None)
        found = self.store.near(text.value, prefixes, first)
        bits: dict[int, int] = {}
        for fingerprint, listed in found.listed.items():
            if not listed:
                if self._lists_all:
                    bits[fingerprint] = 0
                continue
            sketch = first_sketch(listed)
            _require_sketches([fingerprint], [sketch])
            is_lost = len(sketch) != sketching.bytes
            if is_lost or bounds.include(
                sketching, text.sketch, sketch, sketching.mismatches_between(text.sketch, sketch)
            ):
                bits[fingerprint] = 0
        return listed_rows(self.store, found.hits._replace(bits=bits), limits)

    def _current(
        self,
        document: str,
        fingerprint: int,
        row: Row,
        documents: Mapping[bytes, Row | None],
        earliest: int,
        tags: Tags,
    ) -> tuple[int, bytes] | None:
        """The fingerprint and sketch of the document that a listing leads to now; None if it is not wanted.
        documents: empty if hints are always right."""
        key, listing = row
        if documents:
            stored = documents[key]
            if stored is None:
                return None
            at, (value, version) = stored
            entry = Entry.decode(at, value)
            if not entry.stored or version < earliest or (tags and not set(tags).issubset(entry.tags)):
                return None
            current, sketch = entry.fingerprint, entry.sketch
        else:
            current, sketch = fingerprint, b""
        size = self._sketch_bytes
        if not size:
            return current, sketch
        if not self.scheme.listed_sketching:
            return current, rows.whole_sketch(document, sketch, size)
        if current != fingerprint:  # it may have moved on since
            moved = listed_sketches(self.store, {document: current}).get(document, b"")
            return current, moved if len(moved) == size else b""
        return current, rows.whole_sketch(document, rows.listed_sketch(key, listing.value), size)

    @cached_property
    def _sketch_bytes(self) -> int:
        return self.scheme.sketching.bytes if self.scheme.sketching else 0

    def _match(
        self, text: TextFingerprint, document: str, fingerprint: int, sketch: bytes, bounds: Bounds
    ) -> Match | None:
        scheme, sketching, similarity = self.scheme, self.scheme.sketching, None
        distance = scheme.bits_between(text.value, fingerprint)
        if distance > bounds.bits or self.hidden.hides(document, fingerprint):
            return None
        if sketching is not None and sketch:
            mismatches = sketching.mismatches_between(text.sketch, sketch)
            if not bounds.include(sketching, text.sketch, sketch, mismatches):
                return None
            similarity = sketching.similarity_of(mismatches)
            distance = mismatches if scheme.listed_sketching else distance
        elif sketching is not None and bounds.mismatches is not None:
            return None
        shared = scheme.shared_drawers(text.value, fingerprint)
        if shared == ():
            return None
        return Match(distance, document, Fingerprint(fingerprint), similarity, shared)

    def _look_behind(self, near: Near, fingerprints: FingerprintBatch, asked: Asked) -> None:
        """Lists more documents for truncated queries without a match, as all that were listed may have
        expired, be too old or have other tags."""
        limit = self.ids_limit
        while limit < MOST_LISTED * self.ids_limit:
            unmatched = [query for query, cut in enumerate(near.cut) if cut and not near.matches[query]]
            if not unmatched:
                return
            limit *= LISTING_GROWTH
            more = replace(self, ids_limit=limit, metrics=None).near(fingerprints[unmatched], asked)
            for query, matches, cut, beyond in zip(
                unmatched, more.matches, more.cut, more.beyond, strict=True
            ):
                near.matches[query] = sorted(matches)[: self.ids_limit]
                near.cut[query] = cut or len(matches) > self.ids_limit
                near.beyond[query] = beyond  # the more of each fingerprint, the fewer of these are followed

    def near(self, fingerprints: FingerprintBatch, asked: Asked) -> Near:
        """The documents near each of n texts. Raises StoreFailed if rows are lost that would lead to some."""
        return self._without_loss(lambda: self.store.read_consistent(lambda: self._near(fingerprints, asked)))

    def _without_loss(self, read: Callable[[], N]) -> N:
        found = read()
        if found.lost:  # unless the server failed over between two reads, they are missing again
            found = read()
        if found.lost:
            raise StoreFailed(
                f"reading {self.store.url}: {found.lost[0]}, so rows of the store are lost. Restore its "
                "data; or run 'simhbase check --repair', which removes what leads to lost rows, and load the "
                "lost documents again"
            )
        return found

    def _near(self, fingerprints: FingerprintBatch, asked: Asked) -> Near:
        leads = self.leads(fingerprints, asked.bounds)
        lost = list(map(_unlisted, leads.unlisted))
        if not leads.led:
            nothing: list[list[Match]] = [[] for _ in range(len(fingerprints))]
            return Near(nothing, leads.truncated, leads.cut, lost, leads.beyond)
        earliest = max(asked.since, expired_before(self.store, self.clock()))
        now: Now | None = None
        if self._asks_documents or earliest or asked.tags:
            ids = list(dict.fromkeys(document for _, document, *_ in leads.led))
            rows_of = dict(zip(ids, known(self.store, ids), strict=True))
            there = {document: each for document, each in rows_of.items() if each}
            now = live_entries(there, earliest, asked.tags)
            if self._lists_stored:
                lost += [_unstored(each) for each in ids if each not in there]
        matches = self.matches(fingerprints, leads.led, now, asked.bounds)
        return Near(matches, leads.truncated, leads.cut, lost, leads.beyond)

    @cached_property
    def _expires(self) -> bool:
        """True if lookups leave expired documents out."""
        return isinstance(self.store.ttl(), int) and not self.store.keeps_hints

    @cached_property
    def _lists_all(self) -> bool:
        """True if each fingerprint in the index lists a document: not where rows are hints, as vacuum has not
        removed those of the index yet, nor where others than those of a scope are not listed."""
        return not (self.of or self.store.keeps_hints)

    @cached_property
    def _lists_stored(self) -> bool:
        """True if a listing always leads to a document. An embedded store takes over large writes table by
        table, documents last."""
        return self.store.multi_writer and not self.store.keeps_hints

    def leads(
        self,
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        listed_before: Callable[[], Listings] = dict,
    ) -> Leads:
        """Where hints near each of n texts lead. listed_before: returns fingerprints whose listings are known
        already; called after the drawers are read."""
        candidates = self.candidates(fingerprints, bounds)
        if self.metrics is not None:
            _tell(self.metrics, candidates)
        hits, cut, beyond = candidates.hits, [False] * len(fingerprints), candidates.beyond
        if not hits:
            return Leads([], candidates.truncated, cut, [], beyond)
        listed = dict(listed_before())
        if self.near_limit is None:
            listed |= self.listed(near for _, near, _ in hits if near not in listed)
        else:
            hits = self._list_nearest(hits, listed, beyond)
        unlisted = [each for each, found in listed.items() if not found] if self._lists_all else []
        if self.besides:
            listed = {
                fingerprint: [each for each in found if each[0] not in self.besides]
                for fingerprint, found in listed.items()
            }
        full = {fingerprint for fingerprint, found in listed.items() if len(found) > self.ids_limit}
        if full:
            for query, fingerprint, _ in hits:
                cut[query] |= fingerprint in full
            for fingerprint in full:
                listed[fingerprint] = listed[fingerprint][: self.ids_limit]
        led = list(
            led_to(hits, listed) if self.near_limit is None else self._led_to_nearest(hits, listed, beyond)
        )
        return Leads(led, candidates.truncated, cut, unlisted, beyond)

    def _list_nearest(
        self, hits: Sequence[tuple[int, int, int]], listed: Listings, beyond: list[float]
    ) -> list[tuple[int, int, int]]:
        """Lists the nearest fingerprints of each query, until more documents are listed than are followed;
        returns the hits that are listed. beyond: is told what is left out."""
        nearest = [sorted(some, key=itemgetter(2)) for _, some in groupby(hits, itemgetter(0))]
        open_, ends = list(range(len(nearest))), [0] * len(nearest)
        met: list[set[str]] = [set() for _ in nearest]
        while open_:
            parts = {each: nearest[each][ends[each] :][:LISTED_AT_ONCE] for each in open_}
            wanted = (near for part in parts.values() for _, near, _ in part)
            listed |= self.listed(near for near in wanted if near not in listed)
            for each, part in parts.items():
                ends[each] += len(part)
                for _, near, _ in part:
                    others = (document for document, _ in listed[near] if document not in self.besides)
                    met[each].update(islice(others, self.ids_limit))
            open_ = [
                each
                for each in open_
                if ends[each] < len(nearest[each]) and len(met[each]) <= (self.near_limit or 0)
            ]
        for some, end in zip(nearest, ends, strict=True):
            for query, _, bits in some[end : end + 1]:
                beyond[query] = min(beyond[query], bits)
        return [hit for some, end in zip(nearest, ends, strict=True) for hit in some[:end]]

    def _led_to_nearest(
        self, hits: Sequence[tuple[int, int, int]], listed: Listings, beyond: list[float]
    ) -> Iterator[Led]:
        """Like led_to, up to the limit of each query. beyond: is told what is left out."""
        for query, some in groupby(hits, itemgetter(0)):
            led = led_to(sorted(some, key=itemgetter(2)), listed)
            yield from islice(led, self.near_limit)
            if left_out := next(led, None):
                beyond[query] = min(beyond[query], left_out[3])

    def matches(
        self, fingerprints: FingerprintBatch, led: Sequence[Led], now: Now | None, bounds: Bounds
    ) -> list[list[Match]]:
        """The matches of each of n texts among the documents that hints lead to. now: stored documents by id;
        None if hints are always right."""
        matches: list[list[Match]] = [[] for _ in range(len(fingerprints))]
        hides = self.hidden.hides if self.hidden else None
        by = self._by_bits if self.scheme.sketching is None else self._by_sketches
        for query, match in by(fingerprints, led, now, bounds):
            if hides is None or not hides(match.id, match.fingerprint):
                matches[query].append(match)
        return matches

    def candidates(self, fingerprints: FingerprintBatch, bounds: Bounds) -> NearFingerprints:
        """Stored fingerprints near each of n texts by their bits (and sketches, if fingerprints identify
        sketches), without muted ones. They may have no documents."""
        wanted = self.scheme.probes(fingerprints)
        distinct, drawer = _each_once(wanted)
        asked = _DrawerQueries(drawer, len(distinct))
        truncated, beyond = np.zeros(len(wanted), dtype=np.bool_), np.full(len(wanted), inf)
        found: list[_Near] = [(_NO_QUERY, _NO_WORD, _NO_BITS)]
        sizes = np.zeros(len(distinct), dtype=np.int64)
        # A document that changes to another fingerprint is listed under the new one first.
        muted = np.array(list(self.hidden.fingerprints), dtype=np.uint64)
        for part in self._drawer_rows(distinct):
            sizes[part.drawers] += np.diff(part.offsets)
            truncated[asked.queries(part.truncated)] = True
            if len(muted):
                part = _without(part, muted)
            near = self._within(fingerprints.values, bounds.bits, part, asked)
            if self.scheme.listed_sketching:
                told = self._told(part.fingerprints)
                near = (self._similar(fingerprints, each, told, bounds) for each in near)
            if self.near_limit is not None:
                near = (_nearest(each, self.near_limit, beyond) for each in near)
            found += near
        query, fingerprint, bits = (np.concatenate(column) for column in zip(*found, strict=True))
        once = _once((query, fingerprint, bits))
        if truncated.any():
            once = self._with_equals(fingerprints.values, once, truncated)
        if self.near_limit is not None:
            once = _nearest(once, self.near_limit, beyond)
        return _candidates(once, truncated, sizes, sizes[drawer].max(axis=1), beyond)

    def _with_equals(
        self, fingerprints: NDArray[np.uint64], near: _Near, truncated: NDArray[np.bool_]
    ) -> _Near:
        """See `_with_equal`."""
        query, fingerprint, bits = near
        is_missing = truncated.copy()
        is_missing[query[fingerprint == fingerprints[query]]] = False
        missing = np.flatnonzero(is_missing)
        wanted = set(fingerprints[missing].tolist()) - self.hidden.fingerprints
        listed = self.listed(wanted)
        equal = missing[[bool(listed.get(value)) for value in fingerprints[missing].tolist()]]
        return _once(
            (
                np.concatenate([query, equal]),
                np.concatenate([fingerprint, fingerprints[equal]]),
                np.concatenate([bits, np.zeros(len(equal), bits.dtype)]),
            )
        )

    def _drawer_rows(self, prefixes: NDArray[np.uint8]) -> Iterator[DrawerRows]:
        for part in self.store.drawers.read(prefixes, self.drawer_limit):
            if self.record is not None:
                self.record(part)
            yield part

    def _within(
        self, fingerprints: NDArray[np.uint64], most: int, part: DrawerRows, asked: _DrawerQueries
    ) -> Iterator[_Near]:
        """Rows of a part within `most` bits of the queries that read their drawers.

        Many queries may share a large drawer, so the pairs of queries and rows are compared in chunks of
        bounded size.
        """
        counts = np.diff(part.offsets)
        for pairs in bounded_slices(counts * asked.times(part.drawers), CHUNK_ROWS):
            query, which = asked.pairs(part.drawers[pairs])
            amounts = counts[pairs][which]
            starts = part.offsets[:-1][pairs][which]
            # All queries may share one drawer.
            for chunk in bounded_slices(amounts, CHUNK_ROWS):
                row = ranges(starts[chunk], amounts[chunk])
                each = np.repeat(query[chunk], amounts[chunk])
                bits = self.scheme.bits_apart(part.fingerprints[row], fingerprints[each])
                near = np.flatnonzero(bits <= most)
                yield each[near], part.fingerprints[row[near]], bits[near]

    def mismatches(self, query: FingerprintBatch, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Number of differing sketch slots between a query and n distinct fingerprints that identify
        sketches: int64 (n,). The maximum if a sketch is lost or no document is listed."""
        sketching = self.scheme.sketching
        assert sketching is not None
        told = self._told(fingerprints)
        found = np.full(len(fingerprints), sketching.slots, dtype=np.int64)
        place = told.place[np.searchsorted(told.fingerprints, fingerprints)]
        usable = np.flatnonzero(place >= 0)
        first = np.zeros(len(usable), dtype=np.int64)
        found[usable] = pair_mismatches(sketching, query.sketches, first, told.sketches, place[usable])
        return found

    def _told(self, fingerprints: NDArray[np.uint64]) -> _Told:
        """Sketches of fingerprints, if fingerprints identify sketches."""
        assert self.scheme.sketching is not None
        distinct = np.unique(fingerprints)
        sketches = [np.empty((0, self.scheme.sketching.bytes), dtype=np.uint8)]
        listed, known_ = list[bool](), list[bool]()
        for start in range(0, len(distinct), TOLD_AT_ONCE):
            some: list[int] = distinct[start : start + TOLD_AT_ONCE].tolist()
            firsts = first_listed(self.store, some, self.of)
            _require_sketches(some, firsts)
            listed += [first is not None for first in firsts]
            known_ += [first is not None and len(first) == self.scheme.sketching.bytes for first in firsts]
            told = [(value, first or b"") for value, first in zip(some, firsts, strict=True)]
            sketches.append(batch_of(told, self.scheme.sketching).sketches)
        usable = np.array(known_, dtype=np.bool_)
        place = np.where(usable, np.cumsum(usable) - 1, -1)
        return _Told(distinct, np.array(listed, dtype=np.bool_), place, np.concatenate(sketches))

    def _similar(self, fingerprints: FingerprintBatch, near: _Near, told: _Told, bounds: Bounds) -> _Near:
        """Those whose sketches are near. Fingerprints without documents are dropped if rows are hints;
        those with a lost sketch are kept, to be decided document by document."""
        sketching = self.scheme.sketching
        assert sketching is not None
        query, fingerprint, _ = near
        which = np.searchsorted(told.fingerprints, fingerprint)
        chosen, place = told.listed[which] | self._lists_all, told.place[which]
        known_ = np.flatnonzero(place >= 0)
        compared = fingerprints.sketches, query[known_], told.sketches, place[known_]
        mismatches = np.zeros(len(place), dtype=np.int64)
        mismatches[known_], chosen[known_] = bounds.verified(sketching, *compared)
        return query[chosen], fingerprint[chosen], mismatches[chosen]

    def listed(self, fingerprints: Iterable[int]) -> Listings:
        """Documents listed under each fingerprint, up to one more than the limit, not counting `besides`."""
        distinct = list(dict.fromkeys(fingerprints))
        prefixes = [rows.listing_prefix(each) + self.of for each in distinct]
        table = self.store.records("fingerprints")
        most = self.ids_limit + 1 + len(self.besides)
        found = table.scan(prefixes, most) if prefixes else []
        sketch_in = rows.listed_sketch if self.scheme.listed_sketching else _no_sketch
        return {
            fingerprint: [(rows.listing_id(key), sketch_in(key, cell.value)) for key, cell in some]
            for fingerprint, some in zip(distinct, found, strict=True)
        }

    @cached_property
    def _asks_documents(self) -> bool:
        """True if the documents table must be read, to follow hints or for sketches."""
        return self.store.keeps_hints or (
            self.scheme.sketching is not None and not self.scheme.listed_sketching
        )

    def _by_bits(
        self, fingerprints: FingerprintBatch, led: Sequence[Led], now: Now | None, bounds: Bounds
    ) -> Iterator[tuple[int, Match]]:
        """Matches decided by bits only, each with its query."""
        for query, document, hinted, bits, _ in led:
            current = hinted
            if now is not None:
                if document not in now:
                    continue
                current = now[document].fingerprint
            value = fingerprints.values[query].item()
            if current != hinted:
                bits = self.scheme.bits_between(current, value)
            shared = self.scheme.shared_drawers(value, current)
            if bits <= bounds.bits and shared != ():
                yield query, Match(bits, document, Fingerprint(current), None, shared)

    def _by_sketches(
        self, fingerprints: FingerprintBatch, led: Sequence[Led], now: Now | None, bounds: Bounds
    ) -> Iterator[tuple[int, Match]]:
        sketching = self.scheme.sketching
        assert sketching is not None
        pairs = list(self._pairs(led, now))
        if not pairs:
            return
        query = np.array([pair[0] for pair in pairs], dtype=np.int64)
        values = np.array([pair[2] for pair in pairs], dtype=np.uint64)
        lost = np.array([len(pair[3]) != sketching.bytes for pair in pairs], dtype=np.bool_)
        nothing = bytes(sketching.bytes)
        content = b"".join(nothing if is_lost else pair[3] for pair, is_lost in zip(pairs, lost, strict=True))
        sketches = np.frombuffer(content, dtype=np.uint8).reshape(-1, sketching.bytes)
        compared = fingerprints.sketches, query, sketches, np.arange(len(pairs))
        mismatches, few = bounds.verified(sketching, *compared)
        bits = self.scheme.bits_apart(values, fingerprints.values[query])
        chosen = bits <= bounds.bits
        if bounds.mismatches is not None:
            chosen &= ~lost & few
        distances = self.scheme.distances(bits, mismatches).tolist()
        similarities = sketching.similarity(mismatches).tolist()
        for number in np.flatnonzero(chosen).tolist():
            asked, document, fingerprint, _ = pairs[number]
            similarity = None if lost[number] else similarities[number]
            shared = self.scheme.shared_drawers(fingerprints.values[asked].item(), fingerprint)
            if shared == ():  # its fingerprint has changed since
                continue
            yield asked, Match(distances[number], document, Fingerprint(fingerprint), similarity, shared)

    def _pairs(self, led: Sequence[Led], now: Now | None) -> Iterator[_Pair]:
        """Pairs of queries and documents, each once."""
        size = self._sketch_bytes
        moved: dict[str, bytes] = {}
        if now is not None and self.scheme.listed_sketching:
            # Those whose fingerprint has changed since their hint.
            current = {
                document: now[document].fingerprint
                for _, document, hinted, _, _ in led
                if document in now and now[document].fingerprint != hinted
            }
            moved = listed_sketches(self.store, current) if current else {}
        for query, document, hinted, _, sketch in led:
            entry = Entry(hinted) if now is None else now.get(document)
            if entry is None:
                continue
            if not self.scheme.listed_sketching:
                sketch = rows.whole_sketch(document, entry.sketch, size)
            elif entry.fingerprint == hinted:
                sketch = rows.whole_sketch(document, sketch, size)
            else:
                sketch = moved.get(document, b"")  # it may have moved on since
            yield query, document, entry.fingerprint, sketch


def led_to(hits: Sequence[tuple[int, int, int]], listed: Listings) -> Iterator[Led]:
    """Documents that are listed under near fingerprints, given as `NearFingerprints.hits`."""
    last, seen = -1, set[str]()
    for query, fingerprint, bits in hits:
        if query != last:
            last, seen = query, set()
        for document, held in listed[fingerprint]:
            if document not in seen:
                seen.add(document)
                yield query, document, fingerprint, bits, held


def _unlisted(fingerprint: int) -> str:
    return f"the fingerprint {fingerprint:016x} is in the index and lists no document"


def _unstored(document: str) -> str:
    return f"the document {quoted(document.encode())} is listed, and not stored"


def live_entries(found: dict[str, Known], since: int, tags: Tags = ()) -> Now:
    """Entries of live documents with at least the version `since` and all tags."""
    wanted = set(tags)
    return {
        document: each.entry
        for document, each in found.items()
        if each.stored and each.version >= since and wanted.issubset(each.entry.tags)
    }


def sketches_of(store: Store, scheme: Scheme, stored: Mapping[str, Entry]) -> dict[str, bytes]:
    """Sketches of documents, given their rows; where listings hold them, those without one are left out."""
    if scheme.listed_sketching:
        return listed_sketches(store, {document: each.fingerprint for document, each in stored.items()})
    return {document: each.sketch for document, each in stored.items()}


def listed_sketches(store: Store, fingerprints: dict[str, int]) -> dict[str, bytes]:
    """Sketches of documents, given their fingerprints, for schemes where fingerprints identify sketches.
    Documents without a listing are left out."""
    keys = [rows.listing_key(fingerprint, document) for document, fingerprint in fingerprints.items()]
    cells = store.records("fingerprints").get(keys)
    return {
        document: rows.listed_sketch(key, cell.value)
        for document, key, cell in zip(fingerprints, keys, cells, strict=True)
        if cell is not None
    }


def _require_sketches(fingerprints: Sequence[int], listed: Sequence[bytes | None]) -> None:
    """Raises StoreFailed for a damaged sketch."""
    for fingerprint, sketch in zip(fingerprints, listed, strict=True):
        if sketch == b"":
            raise StoreFailed(
                f"the sketch of a document under the fingerprint {fingerprint:016x} in the table "
                "fingerprints is damaged. 'simhbase check' names the document: load its text again "
                "(simhbase load), or delete it"
            )


def _no_sketch(key: bytes, value: bytes) -> bytes:
    return b""


class _Told(NamedTuple):
    """Sketches of fingerprints, uint64 (n,) ascending. listed: bool (n,), whether a document is listed;
    place: int64 (n,), position in sketches (m, bytes), -1 if lost."""

    fingerprints: NDArray[np.uint64]
    listed: NDArray[np.bool_]
    place: NDArray[np.int64]
    sketches: NDArray[np.uint8]


class _DrawerQueries:
    """Maps m drawers to the queries that read them. drawer: int64 (n, tables)."""

    def __init__(self, drawer: NDArray[np.int64], drawers: int) -> None:
        flat = drawer.ravel()
        order = np.argsort(flat, kind="stable")
        self._query = order // drawer.shape[1]
        self._starts = np.searchsorted(flat[order], np.arange(drawers + 1))

    def times(self, drawers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of queries that read each drawer."""
        counts: NDArray[np.int64] = self._starts[drawers + 1] - self._starts[drawers]
        return counts

    def queries(self, drawers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Queries that read any of these drawers."""
        queries: NDArray[np.int64] = self._query[ranges(self._starts[drawers], self.times(drawers))]
        return queries

    def pairs(self, drawers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a query and a drawer it reads, as its position in `drawers`."""
        return self.queries(drawers), np.repeat(np.arange(len(drawers)), self.times(drawers))


_NO_QUERY = np.empty(0, dtype=np.int64)
_NO_WORD = np.empty(0, dtype=np.uint64)
_NO_BITS = np.empty(0, dtype=np.uint8)


def _each_once(wanted: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The distinct prefixes (m, 5) among (n, tables, 5), and the position of each: int64 (n, tables)."""
    queries, tables, _ = wanted.shape
    flat = wanted.reshape(-1, PREFIX_BYTES)
    _, first, which = np.unique(numbers_of(flat), return_index=True, return_inverse=True)
    return flat[first], which.reshape(queries, tables)


def _without(part: DrawerRows, muted: NDArray[np.uint64]) -> DrawerRows:
    """The rows of other fingerprints."""
    kept = ~np.isin(part.fingerprints, muted)
    offsets = np.append(0, np.cumsum(kept))[part.offsets]
    return replace(part, offsets=offsets, fingerprints=part.fingerprints[kept])


def _once(near: _Near) -> _Near:
    """Each pair once: several drawers return the same fingerprint."""
    query, fingerprint, bits = near
    order = np.lexsort((fingerprint, query))
    query, fingerprint, bits = query[order], fingerprint[order], bits[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (query[1:] != query[:-1]) | (fingerprint[1:] != fingerprint[:-1])
    return query[first], fingerprint[first], bits[first]


def _nearest(near: _Near, most: int, beyond: NDArray[np.float64]) -> _Near:
    """The nearest of each query, each once. beyond: is told what is left out."""
    if len(near[0]) <= most:
        return near
    query, fingerprint, distance = _once(near)
    order = np.lexsort((distance, query))
    place = np.arange(len(order)) - np.searchsorted(query, query)
    left_out = order[place == most]  # the first of each query
    beyond[query[left_out]] = np.minimum(beyond[query[left_out]], distance[left_out])
    chosen = np.sort(order[place < most])
    return query[chosen], fingerprint[chosen], distance[chosen]


def _candidates(
    near: _Near,
    truncated: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    largest: NDArray[np.int64],
    beyond: NDArray[np.float64],
) -> NearFingerprints:
    """sizes: rows read of each drawer; largest: of each query's."""
    hits = list(zip(*(column.tolist() for column in near), strict=True))
    rows = int(sizes.sum())
    return NearFingerprints(hits, truncated.tolist(), rows, largest.tolist(), beyond.tolist())


def _tell(metrics: Metrics, candidates: NearFingerprints) -> None:
    metrics.count("drawer_rows", candidates.rows)
    of_query = Counter(query for query, _, _ in candidates.hits)
    for query in range(len(candidates.truncated)):
        metrics.observe("candidates", of_query[query])
        metrics.observe("largest_drawer", candidates.largest[query])


def _tell_of_one(metrics: Metrics, hits: DrawerHits) -> None:
    metrics.count("drawer_rows", hits.rows)
    metrics.observe("candidates", len(hits.bits))
    metrics.observe("largest_drawer", hits.largest)
