"""Lookups of many concurrent callers that share reads of the store (`simhbase/process/queue.py`), and the
fingerprinting of their texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import replace
from itertools import islice
from math import inf
from time import monotonic
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import Overloaded, TimedOut, UsageError
from simhbase.index import Index
from simhbase.index.reader import IDS_LIMIT, Deferred, Unfollowed
from simhbase.index.tags import required_tags
from simhbase.metrics import timed
from simhbase.model.values import Lookup, Query
from simhbase.process.queue import OF_ALL, STUCK_SECONDS, Queue, QueuedRequest

LARGEST_BATCH = 256  # lookups per read
LARGEST_TEXTS = 1 << 20  # characters of their texts, unless one text has more
FOLLOWED_TOGETHER = 256  # documents that are followed for each lookup of a read
FEW, FOLLOWED_BY_FEW = 8, 4096  # lookups of a smaller read, and what is followed for each
FOLLOWED_ALONE = 100_000  # of a lookup that nothing nearer matches
QUEUE = 2048  # waiting lookups
# Two readers halve the batches. On two cores with 32 threads, that cost a third of the lookups per second in
# HBase, and a tenth in RocksDB.
READERS = 1
SPARES = 7  # further readers, for when these hang

Answers = list[Lookup]


class _Stage(NamedTuple):
    """How far a read follows what is near: the nearest documents of each text, and which lookups are left to
    a later stage; weight: of each of its lookups, None: by their texts."""

    near_limit: int | None
    deferred: Deferred = "unmatched"
    weight: int | None = None


_IN_FULL = _Stage(None)

# Lookups of one read have in common the index, its method, the query, and their stage.
_Request = QueuedRequest[tuple[Index, str, Query, _Stage], Answers]


class SharedLookups:
    """Lookups for many threads or asyncio tasks at once. Use it as a context manager, or close it.

    index: remains the caller's, to be closed afterwards. largest_batch: maximum lookups per read; queue:
    maximum waiting lookups, beyond which Overloaded is raised for a source that has more than an equal share
    of them; readers: number of reading threads; more than one helps if reads mostly wait for distant servers.

    Answers are the same as from the index. An error in one record affects only its caller. `timeout`, in
    seconds, raises TimedOut, and lookups that no caller waits for are not read. Many records, or long texts,
    are looked up in parts, between which other callers have their turns. `source`: on whose behalf a call is,
    so that several callers for one have the turns of one. A forked child gets its own queue and threads, if
    its store can be used after a fork (HBase can).

    Raises ProfileMismatch, like the index on first use.
    """

    def __init__(
        self, index: Index, *, largest_batch: int = LARGEST_BATCH, queue: int = QUEUE, readers: int = READERS
    ) -> None:
        for name, number in (("largest_batch", largest_batch), ("queue", queue), ("readers", readers)):
            if not isinstance(number, int) or number < 1:
                raise UsageError(f"must be a whole number from 1 on, not {number!r}", parameter=name)
        self.index = index
        self.queue = queue
        self._largest_batch = largest_batch
        self._scheme = index.profile.index_scheme
        _ = index.fingerprinter  # checks the profile once, before threads start
        self._queue = self._served(readers, lambda: self._read_all(self._queue))
        self._near_many = self._served(1, lambda: self._read_all(self._near_many))

    def _served(self, readers: int, serve: Callable[[], None]) -> Queue[_Request]:
        return Queue(readers, "shared lookups", serve, most=self.queue, spares=SPARES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def within(self, scope: str) -> SharedLookups:
        """Lookups within a scope, by the queue and the readers of these, which are of a store with scopes;
        closing one closes both. Raises UsageError."""
        other = copy(self)
        other.index = self.index.within(scope)
        return other

    def close(self) -> None:
        """Return when all accepted lookups are answered; may be called twice. The index stays open."""
        self._queue.close()
        self._near_many.close()

    @property
    def waiting(self) -> int:
        """Number of lookups waiting for a read."""
        return self._queue.records + self._near_many.records

    def _queue_of(self, requests: Sequence[_Request]) -> Queue[_Request]:
        """Texts near many documents take seconds each, and each source may ask for such: others do not wait
        for them, as they have a queue and a thread of their own."""
        *_, stage = requests[0].kind
        return self._queue if stage.weight is None else self._near_many

    def find(self, text: str, query: Query = Query(), timeout: float | None = None) -> Lookup:
        """Find the documents near a text. timeout: seconds. Raises Overloaded, TimedOut, and the errors of
        `Index.find`."""
        return self._wait(self._submit("find_texts", [text], query), timeout)[0]

    def find_many(
        self,
        texts: Sequence[str],
        query: Query = Query(),
        timeout: float | None = None,
        *,
        source: Hashable = None,
    ) -> Answers:
        """Find the documents near each of n texts."""
        return self._wait(self._submit("find_texts", texts, query, source), timeout)

    def find_ids(
        self,
        ids: Sequence[str],
        query: Query = Query(),
        timeout: float | None = None,
    ) -> Answers:
        """Find the documents near each of n stored documents."""
        return self._wait(self._submit("find_ids", ids, query), timeout)

    def find_fingerprints(
        self,
        fingerprints: NDArray[np.uint64] | Sequence[int],
        query: Query = Query(),
        timeout: float | None = None,
    ) -> Answers:
        """Find the documents near each of n fingerprints."""
        return self._wait(self._submit("find_fingerprints", fingerprints, query), timeout)

    async def afind(self, text: str, query: Query = Query(), timeout: float | None = None) -> Lookup:
        """`find` for asyncio. Cancelling the task does not affect others."""
        return (await self._await(self._submit("find_texts", [text], query), timeout))[0]

    async def afind_many(
        self,
        texts: Sequence[str],
        query: Query = Query(),
        timeout: float | None = None,
        *,
        source: Hashable = None,
        near_limit: int | None = None,
    ) -> Answers:
        """`find_many` for asyncio. near_limit: maximum documents of each answer, the nearest ones. Texts that
        are near many documents are then read by themselves, so that they do not delay others. None: all
        texts at once, within the limits of the index."""
        return await self._await_stages("find_texts", texts, query, timeout, source, near_limit)

    async def afind_ids(
        self,
        ids: Sequence[str],
        query: Query = Query(),
        timeout: float | None = None,
        *,
        source: Hashable = None,
        near_limit: int | None = None,
    ) -> Answers:
        """`find_ids` for asyncio. near_limit: as for `afind_many`."""
        return await self._await_stages("find_ids", ids, query, timeout, source, near_limit)

    async def afind_fingerprints(
        self,
        fingerprints: NDArray[np.uint64] | Sequence[int],
        query: Query = Query(),
        timeout: float | None = None,
    ) -> Answers:
        """`find_fingerprints` for asyncio."""
        return await self._await(self._submit("find_fingerprints", fingerprints, query), timeout)

    async def _await_stages(
        self,
        method: str,
        records: Sequence[str],
        query: Query,
        timeout: float | None,
        source: Hashable,
        near_limit: int | None,
    ) -> Answers:
        if near_limit is None:
            return await self._await(self._submit(method, records, query, source), timeout)
        end = None if timeout is None else monotonic() + timeout
        found: Answers = [Unfollowed(None)] * len(records)
        for stage in _stages(near_limit):
            places = [place for place, each in enumerate(found) if isinstance(each, Unfollowed)]
            if places or not records:
                requests = self._submit(method, [records[place] for place in places], query, source, stage)
                answers = await self._await(requests, timeout, end)
                for place, answer in zip(places, answers, strict=True):
                    found[place] = answer
        return [_nearest(each, near_limit) for each in found]

    def _submit(
        self,
        method: str,
        records: Iterable[object],
        query: Query,
        source: Hashable = None,
        stage: _Stage = _IN_FULL,
    ) -> list[_Request]:
        """The requests of the answers to come, in parts."""
        if isinstance(records, str):
            raise UsageError(f"one string was given: put it into a list, [{records[:40]!r}]")
        self._scheme.bounds(query.k, query.min_similarity)  # raises UsageError here, in the caller's thread
        own = replace(query, tags=dict(required_tags(query.tags)))  # the caller may change the tags
        listed = records.tolist() if isinstance(records, np.ndarray) else list(records)
        kind = self.index, method, own, stage
        requests = [
            _Request(kind=kind, records=part, source=source, weight=weight)
            for part, weight in _parts(listed, self._largest_batch, stage.weight)
        ]
        queue = self._queue_of(requests)
        if not queue.put(*requests):
            self._count("overloaded")
            raise Overloaded(
                f"{queue.records:,} lookups in {self.index.store.url} are waiting, the maximum is "
                f"{self.queue:,}: try again later, or look up fewer at once"
            )
        return requests

    def _wait(self, requests: Sequence[_Request], timeout: float | None) -> Answers:
        self._queue.wake()
        end = None if timeout is None else monotonic() + timeout
        try:
            return [answer for request in requests for answer in self._part(request.future, timeout, end)]
        except BaseException:
            self._queue.withdraw(requests)
            raise

    def _part(self, future: Future[Answers], timeout: float | None, end: float | None) -> Answers:
        while True:
            left = inf if end is None else max(0.0, end - monotonic())
            try:
                return future.result(min(left, STUCK_SECONDS))
            except TimeoutError:
                if future.done():  # just now, or the store raised TimeoutError
                    return future.result()
                if left <= STUCK_SECONDS:
                    raise self._timed_out(timeout) from None
                self._queue.wake()  # the reader may hang

    async def _await(
        self, requests: Sequence[_Request], timeout: float | None, end: float | None = None
    ) -> Answers:
        """timeout: seconds from now on, unless they end before, at `end`."""
        # After the current turn of the loop: a reader that starts earlier competes with it for the
        # interpreter, and misses lookups that are about to be submitted.
        loop, queue = asyncio.get_running_loop(), self._queue_of(requests)
        late: asyncio.Handle = loop.call_soon(queue.wake)

        def wake_again() -> None:
            nonlocal late
            queue.wake()  # the reader may hang
            late = loop.call_later(STUCK_SECONDS, wake_again)

        late = loop.call_later(STUCK_SECONDS, wake_again)
        try:
            left = timeout if end is None else max(0.0, end - monotonic())
            async with asyncio.timeout(left) as limit:
                parts = await asyncio.gather(*(asyncio.wrap_future(each.future) for each in requests))
        except BaseException as error:
            queue.withdraw(requests)
            if not isinstance(error, TimeoutError) or not limit.expired():
                raise
            raise self._timed_out(timeout) from None
        finally:
            late.cancel()
        return parts[0] if len(parts) == 1 else [answer for part in parts for answer in part]

    def _timed_out(self, timeout: float | None) -> TimedOut:
        self._count("timed_out")
        return TimedOut(
            f"no answer from {self.index.store.url} within {timeout} s: the store is slow or overloaded, try "
            "again later"
        )

    def _count(self, name: str) -> None:
        if self.index.metrics is not None:
            self.index.metrics.count(name)

    def _read_all(self, queue: Queue[_Request]) -> None:
        while requests := queue.take(self._largest_batch, heaviest=LARGEST_TEXTS):
            try:
                self._read(requests)
            except Exception as error:  # from metrics: every caller must get an answer
                for request in requests:
                    request.fail(error)

    def _read(self, requests: Sequence[_Request]) -> None:
        metrics = self.index.metrics
        records = sum(len(request.records) for request in requests)
        if metrics is not None:
            metrics.observe("shared_lookups", records)
            now = monotonic()
            for request in requests:
                metrics.observe("queue_seconds", now - request.asked)
        with timed(metrics, "shared_read", records):
            self._answer(requests)

    def _answer(self, requests: Sequence[_Request]) -> None:
        """Answers requests of one kind by one read, or separately if one of them causes an error."""
        records = [record for request in requests for record in request.records]
        index, method, query, stage = requests[0].kind
        if (most := stage.near_limit) is not None:
            index = index.listing(min(most, IDS_LIMIT), most, stage.deferred)
        try:
            answers = iter(getattr(index, method)(records, query))
        except Exception as error:
            if len(requests) > 1 and not isinstance(error, OF_ALL):
                half = len(requests) // 2
                self._answer(requests[:half])
                self._answer(requests[half:])
                return
            for request in requests:
                request.fail(error)
            return
        for request in requests:
            request.future.set_result(list(islice(answers, len(request.records))))


def _stages(most: int) -> Iterator[_Stage]:
    """How answers of at most that many documents are found: what is near few in reads of many lookups, and
    what is near many in smaller reads, and in the end by itself."""
    for near_limit, weight in (
        (FOLLOWED_TOGETHER, None),
        (FOLLOWED_BY_FEW, LARGEST_TEXTS // FEW),
        (most, LARGEST_TEXTS),
    ):
        if near_limit < most:
            yield _Stage(near_limit, "all", weight)
        else:
            yield _Stage(most, "unmatched", weight)
            break
    yield _Stage(max(most, FOLLOWED_ALONE), "nothing", LARGEST_TEXTS)


def _nearest(lookup: Lookup, most: int) -> Lookup:
    if len(lookup.matches) <= most:
        return lookup
    return replace(lookup, matches=lookup.matches[:most], truncated=True)


def _parts(
    records: Sequence[object], most: int, weight_of_each: int | None
) -> Iterator[tuple[Sequence[object], int]]:
    """Parts of records, each with its weight, by default its characters: at most `most` records that weigh
    LARGEST_TEXTS, or one longer text. One part if there are none."""
    sizes = [
        weight_of_each if weight_of_each is not None else len(each) if isinstance(each, str) else 0
        for each in records
    ]
    start, weight = 0, 0
    for place, size in enumerate(sizes):
        if place > start and (place - start == most or weight + size > LARGEST_TEXTS):
            yield records[start:place], weight
            start, weight = place, 0
        weight += size
    yield records[start:], weight
