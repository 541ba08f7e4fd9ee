"""The service's operations: one method per route, from a request object to a result. HTTP is handled
elsewhere."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

import simhbase
from simhbase.admin import Administrator
from simhbase.admin.stats import documents_in
from simhbase.errors import Overloaded, TimedOut
from simhbase.index import Index
from simhbase.index.counts import until_many
from simhbase.index.rows import MAX_ID_BYTES
from simhbase.model.explanations import Comparison, Explanation
from simhbase.model.groups import Member
from simhbase.model.moment import of_text
from simhbase.model.statistics import Stats
from simhbase.model.stored import StoredDocument, StoredPage
from simhbase.model.values import Claim, Lookup, Match, Moment, Query
from simhbase.online import answers, asked
from simhbase.online.bodies import fitting
from simhbase.online.calls import Calls, source, within
from simhbase.online.failures import NotStored, TooLarge
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.settings import REQUEST_CHARACTERS, Settings
from simhbase.online.shared import SharedLookups
from simhbase.process.logs import logger
from simhbase.process.queue import Shares
from simhbase.profile.profile import SHORT

M = TypeVar("M", Match, Member)
T = TypeVar("T")

log = logger(__name__)

MANY = 500  # documents of an answer that takes milliseconds to make
STATS_KEPT = 10.0  # seconds
READY_SECONDS, READY_KEPT = 5.0, 1.0
LONGEST_ID = 6 * MAX_ID_BYTES  # in JSON
SHARE_OF_CLAIM = 0.9  # of a request's time limit that a claim may wait for others


class Service:
    """One index and its routes. metrics: also receives the index's measurements."""

    def __init__(self, index: Index, settings: Settings, metrics: ServiceMetrics) -> None:
        limits = settings.limits
        index.store.fail_fast()
        index.warned_of_short = True  # clients are, by each answer
        self.profile = index.profile.digest
        self._index = index
        self._metrics = metrics
        self._limits = limits
        self._lookups = SharedLookups(index, queue=limits.waiting)
        self._calls = Calls(limits.threads, limits.waiting, limits.seconds)
        # Separate threads: claims wait for each other; comparing and grouping take long; readiness must be
        # answered even when many requests wait, and may hang.
        self._claims = Calls(limits.threads, limits.waiting, limits.seconds)
        self._comparing = Calls(limits.comparing_threads, limits.comparing_waiting, limits.seconds)
        self._grouping = Calls(1, limits.comparing_waiting, limits.seconds)
        # A page reads up to 50,000 rows. Redis has one thread, and answers nobody else during each read.
        self._listing = Calls(limits.listing_threads, limits.waiting, limits.seconds)
        # Of changes of the mute list at the same time one succeeds, and the others read all of it again.
        self._muting = Calls(1, limits.waiting, limits.seconds)
        # It may read millions of rows, where texts were made for some drawers.
        self._counting = Calls(1, limits.waiting, limits.seconds)
        self._checks = Calls(1, 1, READY_SECONDS)
        self.coding = Calls(1, limits.waiting, limits.seconds)  # of large requests and answers
        self._ready: tuple[float, asyncio.Task[None]] | None = None  # monotonic time of its start
        self._counted: tuple[float, datetime, Stats] | None = None  # monotonic time, time, size
        self._is_warned = False  # in the log, of short texts
        self._claims_since: dict[object, float] = {}
        self._claiming_shares = Shares(limits.threads + limits.waiting)
        self._scopes: dict[str, Service] = {}
        self._tells_operations = True  # which are of all scopes, as metrics are

    def within(self, scope: str | None) -> Service:
        """The service of a scope, by the queues and threads of this one, in which each source has its turns;
        None: this one."""
        if scope is None:
            return self
        if scope not in self._scopes:
            self._scopes[scope] = service = copy(self)
            service._lookups = self._lookups.within(scope)
            service._index = service._lookups.index
            service._counted = None
            service._tells_operations = False
        return self._scopes[scope]

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Closes the index after the last request."""
        yield
        self._lookups.close()
        for calls in (
            self._claims,
            self._calls,
            self._comparing,
            self._grouping,
            self._listing,
            self._muting,
            self._counting,
            self._checks,
            self.coding,
        ):
            calls.close()
        self._index.close()

    async def find(self, given: asked.FindRequest) -> answers.Lookups:
        """Finds stored near-duplicates of texts."""
        texts = given.all()
        self._require_batch(texts)
        self._require_short(texts)
        query = Query(given.k, given.min_similarity, _time(given.since), given.tags)
        most = max(1, self._limits.matches // max(1, len(texts)))  # of each, and so of what is read for it
        # A power of two, so that requests for about as many texts share reads.
        near_limit = 1 << most.bit_length() - 1 if len(texts) > 1 else most
        found = await self._lookups.afind_many(
            texts, query, self._limits.seconds, source=source.get(), near_limit=near_limit
        )
        size = self._limits.answer_bytes // max(1, len(texts))
        warnings = self._warnings(texts)

        def cut() -> answers.Lookups:
            return answers.Lookups([_cut(lookup, most, size) for lookup in found], warnings)

        return await self.made(sum(len(lookup.matches) for lookup in found), cut)

    async def claim(self, given: asked.ClaimsRequest) -> answers.Claims:
        """Stores texts unless near ones are stored. If several clients claim near texts at once, at most one
        is accepted."""
        documents = given.all()
        self._require_batch(documents)
        texts = [each.text for each in documents]
        self._require_short(texts)
        warnings = self._warnings(texts)
        timeout = min(given.timeout, SHARE_OF_CLAIM * self._limits.seconds)
        with self._claiming() as is_given_up:
            begin = partial(
                self._index.begin_claims, mode=given.mode, source=source.get(), is_given_up=is_given_up
            )
            begun = await self._claims.run(begin, documents, timeout)
            claims = (await within(self._limits.seconds, begun)).claims
        most, size = (
            total // max(1, len(documents)) for total in (self._limits.matches, self._limits.answer_bytes)
        )

        def cut() -> answers.Claims:
            return answers.Claims([_cut_claim(claim, most, size) for claim in claims], warnings)

        return await self.made(sum(len(claim.also_at) for claim in claims), cut)

    async def add(self, given: asked.DocumentsRequest) -> answers.Stored:
        """Stores documents, replacing those with the same id. Durable when it answers. Takes JSON, or one
        document per line (application/x-ndjson)."""
        documents = given.all()
        self._require_batch(documents)
        texts = [each.text for each in documents]
        self._require_short(texts)
        report = await self._calls.run(self._index.add, documents)
        counts = report.added, report.updated, report.unchanged, report.rejected
        return answers.Stored(*counts, self._warnings(texts))

    async def stored(self, given: asked.StoredRequest) -> StoredPage:
        """Returns the stored documents, a page at a time, in no particular order. For the next page, send
        `after` of the answer; it is null at the end."""
        query = _time(given.since), given.tags, given.after, given.limit
        return await self._listing.run(self._page, *query)

    def _page(self, *query: Any) -> StoredPage:
        page = self._index.stored_page(*query)
        number = fitting(page.documents, self._limits.answer_bytes)
        if number == len(page.documents):
            return page
        return StoredPage(page.documents[:number], page.documents[number - 1].id)

    async def get(self, given: asked.DocumentRequest) -> StoredDocument:
        """Returns a stored document."""
        (found,) = await self._calls.run(self._index.documents, [given.id])
        if found is None:
            raise NotStored
        return found

    async def delete(self, given: asked.DocumentRequest) -> answers.Deleted:
        """Removes a document."""
        if not await self._calls.run(self._index.delete, [given.id]):
            raise NotStored
        return answers.Deleted(given.id)

    async def neighbours(self, given: asked.NeighboursRequest) -> answers.Neighbours:
        """Finds the documents near a stored one. Send a slash in the id as %2F."""
        query = Query(given.k, given.min_similarity, _time(given.since), given.tags)
        (found,) = await self._lookups.afind_ids(
            [given.id], query, self._limits.seconds, source=source.get(), near_limit=self._limits.matches
        )
        if found.fingerprint is None:
            raise NotStored

        def cut() -> answers.Neighbours:
            near = _cut(found, self._limits.matches, self._limits.answer_bytes)
            others = tuple(match for match in near.matches if match.id != given.id)
            return answers.Neighbours(given.id, near.fingerprint, others, near.truncated, near.reason)

        return await self.made(len(found.matches), cut)

    async def groups(self, given: asked.GroupsRequest) -> answers.GroupList:
        """Groups the near-duplicates among the stored documents, largest groups first. Reads all documents,
        and is refused for a store that has too many."""
        return await self._grouping.run(self._groups, given)

    def _groups(self, given: asked.GroupsRequest) -> answers.GroupList:
        most, what = self._limits.grouped, "scope" if self._index.scope else "store"
        if (documents := documents_in(self._index)) > most:
            raise TooLarge(
                f"the {what} has about {documents:,} documents, and at most {most:,} are grouped for a "
                "request: run 'simhbase groups'"
            )
        since, administrator = _time(given.since), Administrator(self._index)
        with administrator.groups(given.min_size, since=since, tags=given.tags, chains=given.chains) as found:
            whole = list(until_many(islice(found, given.limit)))
            most, size = (total // given.limit for total in (self._limits.matches, self._limits.answer_bytes))
            listed = [replace(group, members=_nearest(group.members, most, size)) for group in whole]
            return answers.GroupList(
                tuple(listed),
                len(listed) < len(found) or listed != whole or found.truncated > 0,
                len(found),
                found.duplicates,
                found.documents,
                found.muted,
                found.lost_sketches,
                found.read_at,
            )

    async def muted(self) -> answers.MutedList:
        """Returns the mute list: documents and fingerprints that are hidden from lookups."""
        return answers.MutedList(await self._muting.run(self._index.muted))

    async def mute(self, given: asked.MuteRequest) -> answers.Added:
        """Adds documents and fingerprints to the mute list, or replaces their entries. Ids need not be stored
        yet."""
        self._require_batch([*given.ids, *given.fingerprints])
        entries = given.ids, given.fingerprints, _time(given.until), given.note
        added = await self._muting.run(self._index.mute, *entries)
        return answers.Added(added, tuple(await self._calls.run(self._index.not_stored, given.ids)))

    async def unmute(self, given: asked.UnmuteRequest) -> answers.Unmuted:
        """Removes ids and fingerprints from the mute list; those that are not on it are ignored."""
        return answers.Unmuted(await self._muting.run(self._index.unmute, given.id, given.fingerprint))

    async def compare(self, given: asked.CompareRequest) -> Comparison:
        """Compares two texts under the store's profile. Reads nothing from the store."""
        return await self._comparing.run(self._index.compare, given.left, given.right)

    async def features(self, given: asked.FeaturesRequest) -> answers.Features:
        """Returns the features of a text under the store's profile, such as words, with their weights, the
        heaviest first. Reads nothing from the store."""
        return answers.Features(await self._comparing.run(self._index.features, given.text))

    async def explain(self, given: asked.ExplainRequest) -> Explanation:
        """Explains what a lookup of a text reads and finds, and why that matches or not."""
        query = given.text, given.id, given.k, given.min_similarity
        return await self._comparing.run(self._index.explain, *query)

    async def status(self) -> answers.Status:
        """Returns the store's profile and size."""
        counted = self._fresh()
        if counted is None:
            counted = await self._counting.run(self._count)
        at, stats = counted
        parameters = self._index.profile.describe()
        access: Literal["write", "read"] = "read" if self._index.access == "read" else "write"
        return answers.Status(simhbase.__version__, parameters, access, stats, at)

    def _fresh(self) -> tuple[datetime, Stats] | None:
        """The size as it was counted a moment ago, and when."""
        counted = self._counted
        if counted is None or time.monotonic() - counted[0] > STATS_KEPT:
            return None
        return counted[1:]

    def _count(self) -> tuple[datetime, Stats]:
        if found := self._fresh():  # another request was before this one
            return found
        stats = Administrator(self._index).stats()
        if not self._tells_operations:
            stats = replace(stats, operations={})
        at = datetime.now(UTC)
        self._counted = time.monotonic(), at, stats
        return at, stats

    async def healthz(self) -> answers.Alive:
        """Checks that the process answers."""
        return answers.Alive()

    async def readyz(self) -> answers.Alive:
        """Checks that the store answers, has the same tables as at the start, and can be written to. Checks
        at most once a second; requests in between share the answer."""
        now = time.monotonic()
        if self._ready is None or (self._ready[1].done() and now - self._ready[0] >= READY_KEPT):
            check = self._checks.run(self._index.require_ready)
            self._ready = now, asyncio.create_task(check)
        await asyncio.shield(self._ready[1])  # the others wait on, should this request be cancelled
        return answers.Alive()

    async def numbers(self) -> bytes:
        """Metrics in Prometheus format."""
        since = self._claims_since.values()
        gauges = {
            **self._index.gauges(),
            "calls_pending": self._calls.pending
            + len(self._claims_since)
            + self._comparing.pending
            + self._grouping.pending
            + self._listing.pending
            + self._muting.pending
            + self._counting.pending,
            "lookups_waiting": self._lookups.waiting,
            "oldest_claim_seconds": time.monotonic() - min(since) if since else 0.0,
        }
        # It takes 10 ms, and may be asked for by many connections: beside the loop, by turns.
        return await self.coding.run(self._metrics.page, self._index.counters(), gauges)

    async def made(self, listed: int, make: Callable[[], T]) -> T:
        """Make an answer that lists that many documents, or encode it: a large one in a thread, so that the
        event loop can serve others. Raises TimedOut."""
        if listed <= MANY:
            return make()
        try:
            return await self.coding.run(make)
        except Overloaded as error:  # what was asked may have changed something, and that may be repeated
            raise TimedOut(f"the answer is not made: {error}") from error

    def _warnings(self, texts: Sequence[str]) -> tuple[str, ...]:
        misses = self._index.profile.misses_of_short
        if misses is None or not any(map(SHORT.__ge__, map(len, texts))):
            return ()
        if not self._is_warned:
            self._is_warned = True
            log.warning("%s", misses)
        return (misses,)

    @contextmanager
    def _claiming(self) -> Iterator[threading.Event]:
        """Wraps a running claim. The event is set at its end, as when the client has gone. Raises
        Overloaded."""
        caller, claim = source.get(), threading.Event()
        if not self._claiming_shares.take(caller, 1):
            raise Overloaded(f"{len(self._claims_since):,} claims are running, the maximum: try again later")
        self._claims_since[claim] = time.monotonic()
        try:
            yield claim
        finally:
            claim.set()
            del self._claims_since[claim]
            self._claiming_shares.give_back(caller, 1)

    def _require_batch(self, batch: Sequence[object]) -> None:
        most = self._limits.documents
        if len(batch) > most:
            raise TooLarge(f"{len(batch):,} items in one request, at most {most:,} are allowed")

    def _require_short(self, texts: Sequence[str]) -> None:
        most = self._limits.characters
        sizes = [len(text) for text in texts]
        if max(sizes, default=0) > most:
            place, size = next((place, size) for place, size in enumerate(sizes, 1) if size > most)
            raise TooLarge(
                f"text {place} of {len(texts)} has {size:,} characters, at most {most:,} are allowed"
            )
        if sum(sizes) > REQUEST_CHARACTERS * most:
            raise TooLarge(
                f"the texts have {sum(sizes):,} characters in total, at most {REQUEST_CHARACTERS * most:,} "
                "are allowed in one request"
            )


def _time(given: str | None) -> Moment | None:
    """A point in time of a request, whose client may live in another zone. Raises UsageError."""
    return None if given is None else of_text(given, UTC)


def _cut(lookup: Lookup, most: int, size: int) -> Lookup:
    """The nearest matches of a lookup: at most that many, with ids of that many bytes."""
    if len(lookup.matches) <= min(most, size // LONGEST_ID):
        return lookup
    nearest = _nearest(lookup.matches, most, size)
    return replace(lookup, matches=nearest, truncated=lookup.truncated or nearest != lookup.matches)


def _cut_claim(claim: Claim, most: int, size: int) -> Claim:
    nearest = _nearest(claim.also_at, most, size)
    return replace(claim, also_at=nearest, truncated=claim.truncated or nearest != claim.also_at)


def _nearest(listed: tuple[M, ...], most: int, size: int) -> tuple[M, ...]:
    """The first ones, at least one: at most that many, with ids of that many bytes."""
    first = listed[: max(1, most)]
    return first[: fitting([each.id for each in first], size)]
