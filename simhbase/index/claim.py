"""Claims: "accept this text unless a near one is already accepted", by any number of workers at once.

To look up and then to store is a race: two workers can both see nothing. Where one process writes
(`AtomicClaimer`) both are done under its lock. Elsewhere (`BatchClaimer`) claims are decided by batches. A
batch has a random token and takes these steps, each when the one before is acknowledged:

0. First lookup: something near is stored, so this is a duplicate, and nothing is written.
1. Put: in the documents row of each id a pending cell in a column named by the token, with the version to
   commit at as its time; and the hints, by which others find it.
2. Ticket: take a number from a counter.
3. Look up again, all drawers to their end: documents rows with their pending cells, then the batch rows of
   these, and where one of those is frozen the documents row again.
4. Decide as many claims as possible by one compare-and-set of the batch's row in meta. What is stored
   decides, and what another batch row accepts. A pending claim of a batch with a later ticket will see this
   one, and waits; one with an earlier ticket, or whose batch has no row yet, is waited for.
5. Commit what was accepted: put documents rows at their versions. Then answer.
6. Clean, behind the answers: remove the pending cells, then the batch row.

Of two near claims the later ticket was taken after the hints of the other could be seen, so one of the two
sees the other; and as who waits does so for earlier tickets, nobody waits in a circle. A batch row (or its
absence) that has not changed for a lease is frozen by who waits for it, with the decisions that it has; what
is open in a frozen row is void. Its owner, should there still be one, fails at its next compare-and-set,
commits what its row has accepted, and begins the rest again under another token. It leaves the frozen row to
vacuum: a late copy of the call that failed would make it anew. Who sees an accepted claim that is not
committed commits it. The argument does not depend on any clock. Plain writes put documents rows beside all
this, and are never hidden: of an id the latest version counts.

Claims of many threads and tasks share batches (`JoinedClaimer`): while two are in steps 0 to 4 those who
claim gather, and the next batch takes all of them. One that waits for others keeps nobody from beginning.

Documents that are muted make nothing a duplicate, and nobody waits for claims that would be: so of near texts
that are not muted at most one is accepted, and of muted ones as many as come.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from secrets import randbelow, token_bytes
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from simhbase.drawers.scheme import Bounds, Scheme
from simhbase.errors import SimhbaseError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.mute import NOTHING_HIDDEN, Hidden
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT, Led, Listed, Now, Reader
from simhbase.index.rows import BatchRow, Decision, Entry, PendingCell, State
from simhbase.index.selection import OthersOfBatch, duplicates_of
from simhbase.index.tags import Tags
from simhbase.index.writer import (
    SMALL_CHANCE,
    AtomicWriter,
    Batch,
    HintingWriter,
    Known,
    admitted,
    alive_since,
    known,
    refreshed_before,
)
from simhbase.interrupt import interrupt_waits
from simhbase.joining import OF_ALL, Queue, Request
from simhbase.logs import logger
from simhbase.model import AddReport, Claim, Fingerprint, Match, Outcome, Rejected
from simhbase.stores.base import AtomicStore, Cell, CompareAndSet, SharedStore, Store, multi_writer, now

T = TypeVar("T")

log = logger(__name__)

TIMEOUT = 30.0  # seconds until a claim is undecided
LEASE = 10.0  # seconds for which a batch of somebody who may be dead is waited for
CLAIMED_AT_ONCE = 2048  # fewer than can be claimed within a lease
JOINED = 512  # claims of several callers in one batch
ON_THEIR_WAY = 2  # batches of a process
FEW = 64  # claims that are looked at in much less time than a lease
BEATS = 3  # in a lease, while its owner waits or looks
MOST_STANDING = 100_000  # rows that are waited for: some megabytes
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1  # seconds
TICKETS = b"claim tickets"  # the counter in meta
TOKEN_BYTES = 16
LISTING_GROWTH = 8
# The first lookup is half of the reading. Where fewer than this share of so many claims were duplicates it is
# left out: each of the few then costs a dozen rows that vacuum removes.
FEW_DUPLICATES, RECENT = 0.15, 256
# No clock differs by more than an hour, so that a delete of so many milliseconds ahead has a later time than
# any cell of the server's.
FAR_AHEAD = 2 * 3600 * 1000
OTHER_TEXT = "another text is stored under this id: a change is made by add"
TIME_IS_UP = (
    "not decided within {seconds:g} s, as others have not decided about texts near it, or much was claimed "
    "at once. Nothing is stored: make the same claim again"
)
INTERRUPTED = "interrupted while others had not decided about texts near it: make the same claim again"

Count = Callable[[str], None]
WhatIsHidden = Callable[[], Hidden]
# By key the values of rows of others (None: absent), and since when each stands.
Standing = dict[bytes, tuple[bytes | None, float]]


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of n claims, and what that did to the store."""

    claims: list[Claim]
    report: AddReport


class Run(NamedTuple):
    """Which run of a load claims. token: the first bytes of the tokens of its batches; ended: those of the
    run that it resumes, which is over, so that nobody waits for its batches."""

    token: bytes = b""
    ended: bytes = b""


NO_LOAD = Run()


class Kind(NamedTuple):
    """What claims of one batch have in common. replacing: a document that is stored with another text is
    replaced if nothing is near the new one, and not a conflict; one with the same text and other tags gets
    these."""

    bounds: Bounds
    replacing: bool = False
    run: Run = NO_LOAD


@dataclass(frozen=True, eq=False, kw_only=True)
class ClaimRequest(Request[Kind, T]):
    """n claims of one caller, as if they came one after the other: those of `batch`; `rejected` are the other
    ids. timeout: seconds, after which what is left is undecided; then: makes the answer."""

    ids: Sequence[str]
    fingerprints: FingerprintBatch
    batch: Batch
    rejected: Sequence[Rejected]
    timeout: float
    then: Callable[[Claimed], T]
    is_given_up: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None,
        kind: Kind,
        timeout: float,
        then: Callable[[Claimed], T],
        asked: float,
    ) -> ClaimRequest[T]:
        """The request for n documents; see Claimer.claim."""
        batch, rejected = admitted(ids, fingerprints, tags)
        return cls(
            kind=kind,
            records=batch.ids,
            asked=asked,
            ids=ids,
            fingerprints=fingerprints,
            batch=batch,
            rejected=rejected,
            timeout=timeout,
            then=then,
        )

    def result(self) -> T:
        """Waits for the answer. Ctrl-C gives up what has to wait for others."""
        try:
            return self.future.result()
        except BaseException:
            self.is_given_up.set()
            raise

    def is_late(self, time: float) -> bool:
        """Whether what is left is to be undecided."""
        return self.is_given_up.is_set() or time >= self.asked + self.timeout

    def answer(self, claims: Sequence[Claim], report: AddReport) -> None:
        """Answers, given what became of the batch; an id that came again was rejected."""
        by_id = {claim.id: claim for claim in claims}
        refused = iter(self.rejected)
        found = []
        values: list[int] = self.fingerprints.values.tolist()
        for document, value in zip(self.ids, values, strict=True):
            claim = by_id.pop(document, None)
            if claim is None:
                claim = Claim(document, "rejected", Fingerprint(value), reason=next(refused).reason)
            found.append(claim)
        self.future.set_result(self.then(Claimed(found, report)))


def whole(claimed: Claimed) -> Claimed:
    """The answer of who wants all that became of claims."""
    return claimed


class Claimer(Protocol):
    """Stores documents of one scheme that nothing near is stored of."""

    def begin(self, request: ClaimRequest[Any]) -> None:
        """Has n documents be claimed; they are durable when they are answered."""

    def claim(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        kind: Kind,
        timeout: float = TIMEOUT,
        tags: Sequence[Tags] | None = None,
    ) -> Claimed:
        """Claims n documents, and waits for the answers. tags: of each, which decide nothing; None: none has
        any."""
        request = ClaimRequest.of(ids, fingerprints, tags, kind, timeout, whole, self.time())
        self.begin(request)
        return request.result()

    def time(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        """Returns when all that was begun is answered and cleaned up; may be called twice."""
        return


def claimer_for(
    store: Store,
    scheme: Scheme,
    clock: Callable[[], int] = now,
    count: Count = lambda what: None,
    hidden: WhatIsHidden = lambda: NOTHING_HIDDEN,
) -> Claimer:
    """The claimer for a kind of store. count: is told of waits and broken leases by their measures; hidden:
    says what is muted."""
    if multi_writer(store):
        return JoinedClaimer(BatchClaimer(cast(SharedStore, store), scheme, clock, count, hidden=hidden))
    return AtomicClaimer(cast(AtomicStore, store), scheme, clock, hidden)


@dataclass(frozen=True)
class AtomicClaimer(Claimer):
    """Claims in a store that one process writes."""

    store: AtomicStore
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    hidden: WhatIsHidden = field(default=lambda: NOTHING_HIDDEN)

    def begin(self, request: ClaimRequest[Any]) -> None:
        batch = request.batch
        with self.store.exclusive():
            settled = {} if request.kind.replacing else dict(self._stored_already(batch))
            open_ = [number for number in range(len(batch.ids)) if number not in settled]
            chosen = batch[open_]
            found = duplicates_of(
                self.store,
                self.scheme,
                self.clock,
                chosen.ids,
                chosen.fingerprints,
                request.kind.bounds,
                self.hidden(),
            )
            kept = chosen[[number for number, near in enumerate(found) if near is None]]
            report = AtomicWriter(self.store, self.scheme, self.clock).add(
                kept.ids, kept.fingerprints, kept.tags
            )
        for number, near in zip(open_, found, strict=True):
            outcome: Outcome = "accepted" if near is None else "duplicate"
            fingerprint = Fingerprint(batch.values[number])
            settled[number] = Claim(batch.ids[number], outcome, fingerprint, near)
        again = sum(settled[number].accepted for number in set(settled).difference(open_))
        request.answer(list(settled.values()), report + AddReport(unchanged=again))

    def _stored_already(self, batch: Batch) -> Iterator[tuple[int, Claim]]:
        """The answers about documents that are stored."""
        alive = alive_since(self.store, self.clock())
        for number, each in enumerate(known(self.store, batch.ids)):
            if each and each.stored and each.version >= alive:
                yield number, _stored_answer(batch, number, each.entry, self.scheme)


class Waiting:
    """The time that claims wait by, which no other clock has to agree with."""

    def time(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Waits about so long: chance keeps many workers from coming back all at once."""
        time.sleep(_about(seconds))

    @contextmanager
    def every(self, seconds: float, action: Callable[[], None]) -> Iterator[None]:
        """Does something again and again while a block runs, as far as the store permits."""
        is_over = threading.Event()

        def act() -> None:
            while not is_over.wait(seconds):
                with suppress(SimhbaseError):
                    action()

        thread = threading.Thread(target=act, name="claim beats", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@dataclass(frozen=True)
class BatchClaimer(Claimer):
    """Claims in a store that many processes write, by the steps above.

    lease: seconds; standing: what its calls have waited for, so that calls which take less time than a lease
    end the claims of the dead, too; recent: how many of the last claims were duplicates; beside: begins a
    read that runs beside another, and returns what waits for its end."""

    store: SharedStore
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    count: Count = field(default=lambda what: None)
    chance: Callable[[int], int] = field(default=randbelow)
    lease: float = LEASE
    waiting: Waiting = field(default_factory=Waiting)
    token: Callable[[], bytes] = field(default=lambda: token_bytes(TOKEN_BYTES))
    hidden: WhatIsHidden = field(default=lambda: NOTHING_HIDDEN)
    standing: Standing = field(default_factory=dict)
    recent: Recent = field(default_factory=lambda: Recent())
    beside: Callable[[Callable[[], Any]], Callable[[], Any]] = field(default=lambda read: cache(read))

    def begin(self, request: ClaimRequest[Any]) -> None:
        requests = [[request]]

        def take(seconds: float | None) -> Sequence[ClaimRequest[Any]]:
            if requests:
                return requests.pop()
            if seconds:
                self.waiting.pause(seconds)
            return []

        self.run(take)

    def time(self) -> float:
        return self.waiting.time()

    def run(self, take: Callable[[float | None], Sequence[ClaimRequest[Any]]]) -> None:
        """Claims what `take` gives, and returns when that is nothing and all is answered and cleaned up.
        take: is told how many seconds to wait for more, None: as long as there may be any."""
        open_: list[_Joined] = []
        pause: float | None = None
        while (requests := take(pause)) or open_:
            open_ += [_Joined(self, some) for some in _without_repeated_ids(requests)]
            has_moved = False
            for joined in list(open_):
                try:
                    has_moved |= joined.go_on()
                except Exception as error:
                    has_moved = True
                    open_.remove(joined)
                    open_ += joined.failed(error)
            open_ = [joined for joined in open_ if not joined.is_over]
            if not open_:
                pause = None
            elif has_moved:
                pause = 0.0
            else:
                pause = min(2 * pause, LONGEST_PAUSE) if pause else FIRST_PAUSE


class JoinedClaimer(Claimer):
    """Claims of many threads and tasks in common batches, by threads of its own."""

    def __init__(self, claimer: BatchClaimer) -> None:
        self._claimer = claimer
        self._queue = Queue[ClaimRequest[Any]](ON_THEIR_WAY, "claims", self._serve)

    def begin(self, request: ClaimRequest[Any]) -> None:
        self._queue.put(request)
        self._queue.wake()

    def close(self) -> None:
        self._queue.close()

    def _serve(self) -> None:
        with ThreadPoolExecutor(1, "simhbase claims, reads") as pool:
            claimer = replace(self._claimer, beside=lambda read: pool.submit(read).result)
            claimer.run(lambda seconds: self._queue.take(JOINED, seconds and _about(seconds)))


def _about(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.5)


class Recent:
    """How many of the last claims were duplicates."""

    def __init__(self) -> None:
        self._claims = self._duplicates = 0

    def note(self, outcome: Outcome) -> None:
        """Counts a claim that was decided by looking at others."""
        self._claims += 1
        self._duplicates += outcome == "duplicate"
        if self._claims >= RECENT:
            self._claims //= 2
            self._duplicates //= 2

    @property
    def are_new(self) -> bool:
        """Whether so few were duplicates that what these write for nothing costs less than a lookup of
        all."""
        return self._claims >= RECENT // 4 and self._duplicates < FEW_DUPLICATES * self._claims


class _Joined:
    """Claims of some requests of one kind, with different ids, as if they came one after the other: which are
    in which batch, and what was answered. Batches that wait for others stay open while the next go on."""

    def __init__(self, claimer: BatchClaimer, requests: Sequence[ClaimRequest[Any]]) -> None:
        self.claimer = claimer
        self.kind = requests[0].kind
        self.answers: dict[int, Claim] = {}
        self.reports = [AddReport()] * len(requests)
        self._requests = requests
        self._left = [len(request.records) for request in requests]  # claims without an answer
        self._owner = [which for which, left in enumerate(self._left) for _ in range(left)]
        self._open: list[_Batch] = []

    @cached_property
    def batch(self) -> Batch:
        return Batch.joined([request.batch for request in self._requests])

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {document: number for number, document in enumerate(self.batch.ids)}

    @cached_property
    def others(self) -> OthersOfBatch:
        return OthersOfBatch(self.batch.fingerprints, self.claimer.scheme, self.kind.bounds)

    @property
    def is_over(self) -> bool:
        return not self._open and len(self.answers) == len(self._owner)

    def go_on(self) -> bool:
        """Decides what can be decided, and gives up what has no time left, or all where Ctrl-C came that is
        put off and others have to be waited for. Whether there was anything to do. Raises what the store
        does: what is pending then stays so for its lease."""
        for which, request in enumerate(self._requests):
            if not request.records and not request.future.done():
                self._finish(which)
        has_moved = self._begin()
        for batch in self._open:
            has_moved |= batch.go_on()
        time = self.claimer.time()
        is_late = [request.is_late(time) for request in self._requests]
        left = {number for number in range(len(self._owner)) if number not in self.answers}
        if late := {number for number in left if is_late[self._owner[number]]}:
            self._give_up(late, TIME_IS_UP)
        elif left and not has_moved and interrupt_waits():
            self._give_up(left, INTERRUPTED)
        self._open = [batch for batch in self._open if not batch.is_over]
        if self._open and not has_moved:
            self.claimer.count("claim_waits")
        return has_moved

    def _begin(self) -> bool:
        """Begins a batch of the claims that can begin; whether there are any."""
        numbers = list(self._next())
        if not numbers:
            return False
        answered = len(self.answers)
        batch = _Batch(self)
        self._open.append(batch)
        batch.begin(numbers)
        return bool(batch.numbers) or len(self.answers) > answered

    def _next(self) -> Iterator[int]:
        """The claims that can begin: those near an earlier one wait for its answer."""
        busy = {number for batch in self._open for number in batch.numbers}
        undecided: set[int] = set()
        chosen = 0
        for number in range(len(self.batch.ids)):
            if number in self.answers:
                continue
            is_free = number not in busy and undecided.isdisjoint(self.others.values_near(number))
            if chosen < CLAIMED_AT_ONCE and is_free:
                chosen += 1
                yield number
            undecided.add(self.others.value_of(number))

    def is_open_before(self, number: int, document: str) -> bool:
        """Whether an earlier claim may replace what is stored of a document: a later one waits for its
        answer."""
        earlier = self.numbers.get(document, number)
        return earlier < number and earlier not in self.answers

    def kept_near(self, number: int) -> list[Match]:
        """What was accepted here near a claim."""
        hidden = self.claimer.hidden()
        found = self.others.kept_near(number)
        return [each for each in found if not hidden.hides(each.id, each.fingerprint)]

    def accept(self, number: int, report: AddReport) -> None:
        self.reports[self._owner[number]] += report
        self.others.keep(number, self.batch.ids[number])
        self.answer(number, "accepted")

    def answer(
        self, number: int, outcome: Outcome, match: Match | None = None, reason: str | None = None
    ) -> None:
        """Notes an answer, and gives a request that has all of its own these."""
        document, fingerprint = self.batch.ids[number], Fingerprint(self.batch.values[number])
        self.answers[number] = Claim(document, outcome, fingerprint, match, reason)
        which = self._owner[number]
        self._left[which] -= 1
        if not self._left[which]:
            self._finish(which)

    def _finish(self, which: int) -> None:
        first = sum(len(request.records) for request in self._requests[:which])
        numbers = range(first, first + len(self._requests[which].records))
        self._requests[which].answer([self.answers[number] for number in numbers], self.reports[which])

    def _give_up(self, numbers: set[int], reason: str) -> None:
        for batch in self._open:
            batch.give_up(numbers)
        for number in sorted(numbers.difference(self.answers)):
            seconds = self._requests[self._owner[number]].timeout
            self.answer(number, "undecided", reason=reason.format(seconds=seconds))

    def failed(self, error: Exception) -> Iterator[_Joined]:
        """Raises an error for the requests that have no answer; or, where one of them may be to blame, has
        the halves begin anew."""
        left = [request for request in self._requests if not request.future.done()]
        if not left:
            log.warning("claims were answered, and not cleaned up, which vacuum does later: %s", error)
        elif len(left) == 1 or isinstance(error, OF_ALL):
            for request in left:
                request.fail(error)
        else:
            for batch in self._open:
                with suppress(Exception):  # others wait for its lease then
                    batch.freeze()
            half = len(left) // 2
            yield from (_Joined(self.claimer, some) for some in (left[:half], left[half:]))


@dataclass(frozen=True)
class _Pending:
    """A claim of somebody else, as it was read. key: of the row that decides about it, in meta, and value:
    what that held; old: it is in the documents row, as formats before 4 had them, and that decides."""

    id: str
    token: bytes
    cell: PendingCell
    version: int
    key: bytes
    value: bytes | None = None
    row: BatchRow | None = None
    old: bool = False

    @property
    def decision(self) -> Decision:
        return self.row.decision(self.cell.number) if self.row else Decision.OPEN

    @property
    def is_void(self) -> bool:
        """Whether it will never be accepted, if the documents row, read after the batch's, still has the
        cell: a row can be frozen anew by a late call when all is committed and gone."""
        return self.row is not None and self.row.frozen and self.decision is Decision.OPEN

    @property
    def is_open(self) -> bool:
        return self.decision is Decision.OPEN and not self.is_void


@dataclass(frozen=True)
class _Seen:
    """A documents row as it was read: its own cell, claims that are later than that, and the version of its
    latest cell."""

    own: Known | None
    pending: Sequence[_Pending] = ()
    latest: int = 0

    @property
    def accepted(self) -> _Pending | None:
        """What is stored as soon as somebody commits it."""
        accepted = (each for each in self.pending if each.decision is Decision.ACCEPTED)
        return max(accepted, key=lambda each: each.version, default=None)

    @property
    def known(self) -> Known | None:
        return Known(self.accepted.cell.entry, self.accepted.version) if self.accepted else self.own

    @property
    def entry(self) -> Entry | None:
        """The document that is stored, or accepted."""
        return self.known.entry if self.known and self.known.stored else None


@dataclass
class _Judgement:
    """What a batch can decide by what it has seen.

    made: the decisions about all its claims; outcomes: of those that are new, by their places; waits: what it
    has to wait for; first: what others have accepted, and has to be committed before anything is decided on
    its account; is_overtaken: somebody has written one of its ids at a later version."""

    made: list[Decision]
    outcomes: dict[int, tuple[Outcome, Match | None]] = field(default_factory=dict)
    waits: list[_Pending] = field(default_factory=list)
    first: list[_Pending] = field(default_factory=list)
    is_overtaken: bool = False

    def decide(
        self, place: int, outcome: Outcome, match: Match | None = None, *, is_put: bool = False
    ) -> None:
        self.made[place] = Decision.ACCEPTED if is_put else Decision.DECLINED
        self.outcomes[place] = outcome, match


class _Batch:
    """Claims that are decided together, under one token. numbers: of the claims among the joined ones; what
    is said of one of them by its place among these."""

    def __init__(self, joined: _Joined) -> None:
        self._joined = joined
        self._claimer = claimer = joined.claimer
        self._documents = claimer.store.records("documents")
        self._cells = claimer.store.document_cells
        self._meta = claimer.store.records("meta")
        self._writer = HintingWriter(claimer.store, claimer.scheme, claimer.clock, claimer.chance)
        run = joined.kind.run.token
        self._token = run + claimer.token()[len(run) :]
        self._key = rows.batch_key(self._token)
        self._ticket = 0
        self._row: BatchRow | None = None  # as it was set last
        self._changed = claimer.time()
        self._seen: dict[str, _Seen] = {}
        self._led: dict[int, list[Led]] = {}
        self._waits: list[_Pending] = []
        self.is_over = False
        self.numbers: list[int] = []

    def begin(self, numbers: Sequence[int]) -> None:
        self.numbers = self._first_lookup(numbers)
        self.is_over = not self.numbers
        if self.numbers:
            self._batch = self._joined.batch[self.numbers]
            self._places = {document: place for place, document in enumerate(self._batch.ids)}
            self._versions = self._later_versions()
            self._put()
            self._take_ticket()
            self._look()

    # 0. First lookup

    def _first_lookup(self, numbers: Sequence[int]) -> list[int]:
        """Answers what needs no claim; returns the others that can go on."""
        ids = self._joined.batch.ids
        read_own = self._claimer.beside(lambda: self._see([ids[number] for number in numbers]))
        near = self._stored_near(numbers, read_own)
        read_own()
        going_on = list[int]()
        for number in numbers:
            own = self._seen[ids[number]].own
            if own and own.stored and not self._joined.kind.replacing:
                self._answer_stored(number, own.entry)
                continue
            found = [*self._joined.kept_near(number), *near.get(number, ())]
            final = [match for match in found if not self._joined.is_open_before(number, match.id)]
            if final:
                self._joined.answer(number, "duplicate", min(final))
                self._claimer.recent.note("duplicate")
            elif self._is_unchanged(number, own):
                self._joined.accept(number, AddReport(unchanged=1))
            elif not found:
                going_on.append(number)
        return going_on

    def _stored_near(self, numbers: Sequence[int], read_own: Callable[[], object]) -> dict[int, list[Match]]:
        """What is stored near claims, not looked for to the end; nor at all near new ones where few are
        duplicates."""
        batch = self._joined.batch
        if self._claimer.recent.are_new:
            read_own()
            numbers = [number for number in numbers if self._seen[batch.ids[number]].entry]
            if not numbers:
                return {}
        near = self._reader(DRAWER_LIMIT, IDS_LIMIT).near(
            batch.fingerprints[list(numbers)], self._joined.kind.bounds
        )
        return {
            number: [match for match in matches if match.id != batch.ids[number]]
            for number, matches in zip(numbers, near.matches, strict=True)
        }

    def _answer_stored(self, number: int, entry: Entry) -> None:
        """Answers about a document that is stored."""
        answer = _stored_answer(self._joined.batch, number, entry, self._claimer.scheme)
        if answer.accepted:
            self._joined.accept(number, AddReport(unchanged=1))
        else:
            self._joined.answer(number, answer.outcome, reason=answer.reason)

    def _is_unchanged(self, number: int, known: Known | None) -> bool:
        """Whether nothing has to be written: as `add`, a claim writes anew what would expire."""
        batch = self._joined.batch
        fresh_since = refreshed_before(self._claimer.store, self._claimer.clock()) or 0
        return (
            known is not None
            and known.stored
            and known.version >= fresh_since
            and known.entry.tags == batch.tags_at(number)
            and _is_same(batch, number, known.entry, self._claimer.scheme)
        )

    def _later_versions(self) -> list[int]:
        """Versions that are later than the time, and than all cells of the documents rows."""
        version = self._writer.version()
        latest = [self._seen[document].latest for document in self._batch.ids]
        ahead = max(latest, default=0)
        if ahead >= version:
            ahead += 1 + self._claimer.chance(SMALL_CHANCE)
        return [ahead if seen >= version else version for seen in latest]

    # 1. Put

    def _put(self) -> None:
        """Pending cells, and what leads to them; and notes of what will be left behind."""
        left = [
            (document, entry)
            for document, value in zip(self._batch.ids, self._batch.values, strict=True)
            if (entry := self._seen[document].entry) and entry.fingerprint != value
        ]
        self._writer.note_obsolete(max(self._versions), left)
        pending = [
            (self._document_key(place), self._cell(place).encode()) for place in range(len(self.numbers))
        ]
        scheme = self._claimer.scheme
        self._claimer.store.put_pending(
            self._token,
            pending,
            self._batch.listings(scheme),
            self._batch.index_keys(scheme),
            self._versions,
        )

    def _cell(self, place: int) -> PendingCell:
        is_listed = self._claimer.scheme.listed_sketching is not None
        return PendingCell(
            place,
            self._batch.values[place],
            int(self._claimer.lease * 1000),
            b"" if is_listed else self._batch.sketches[place],
            self._batch.tags_at(place),
        )

    def _document_key(self, place: int) -> bytes:
        return rows.document_key(self._batch.ids[place])

    # 2. Ticket

    def _take_ticket(self) -> None:
        self._ticket = self._meta.increment(TICKETS)

    # 3. Look

    def _look(self) -> None:
        """Reads what hints near the claims lead to. What a reader's usual limits cut is read to its end,
        unless the claim is a duplicate all the same."""
        drawer_limit: int | None = DRAWER_LIMIT
        ids_limit = IDS_LIMIT
        left = list(range(len(self.numbers)))
        self._seen = {}
        while left:
            with self._renewed(is_long=len(left) > FEW or drawer_limit is None):
                truncated = self._look_at(left, self._reader(drawer_limit, ids_limit))
            if cut := [place for place, is_cut in zip(left, truncated, strict=True) if is_cut]:
                stored, _ = self._near(cut)
                cut = [place for place in cut if not stored[place]]
            left, drawer_limit, ids_limit = cut, None, ids_limit * LISTING_GROWTH

    def _look_at(self, places: Sequence[int], reader: Reader) -> list[bool]:
        """Looks near claims once; whether each was cut by a limit. What their own hints lead to is read
        beside the drawers: near most there is nothing else."""

        def read_own() -> Listed:
            self._see([document for document in self._batch.ids if document not in self._seen])
            return reader.listed(self._batch.values[place] for place in places)

        own = self._claimer.beside(read_own)
        leads = reader.leads(self._batch.fingerprints[list(places)], self._joined.kind.bounds, own)
        own()
        self._led |= {place: [] for place in places}
        for each in leads.led:
            self._led[places[each[0]]].append(each)
        self._see([document for _, document, *_ in leads.led if document not in self._seen])
        return [any(is_cut) for is_cut in zip(leads.truncated, leads.cut, strict=True)]

    def _renewed(self, is_long: bool) -> AbstractContextManager[object]:
        """Keeps the row from standing for a lease while a long look goes on."""
        if not is_long:
            return nullcontext()
        return self._claimer.waiting.every(self._claimer.lease / BEATS, self._beat)

    def _see(self, ids: Sequence[str]) -> None:
        """Reads documents rows with their pending cells, then the batch rows of these; and where one of these
        is frozen the documents row again: if its pending cell is gone, all of this once more."""
        left = list(dict.fromkeys(ids))
        while left:
            read = dict(zip(left, self._rows_of(left), strict=True))
            keys = list(
                dict.fromkeys(each.key for seen in read.values() for each in seen.pending if not each.old)
            )
            found = dict(zip(keys, self._meta.get(keys), strict=True)) if keys else {}
            self._seen |= {
                document: replace(
                    seen, pending=[_with_row(each, found.get(each.key)) for each in seen.pending]
                )
                for document, seen in read.items()
            }
            unsure = [
                document for document in left if any(each.is_void for each in self._seen[document].pending)
            ]
            again = zip(unsure, self._rows_of(unsure), strict=True)
            left = [document for document, seen in again if not _is_same_row(seen, self._seen[document])]

    def _rows_of(self, ids: Sequence[str]) -> Iterator[_Seen]:
        """Documents rows, without what the batch rows of their claims say."""
        keys = list(map(rows.document_key, ids))
        for document, key, cells in zip(ids, keys, self._cells.get(keys) if keys else (), strict=True):
            own = cells.get(b"")
            known = None if own is None else Known(rows.entry(own.value), own.version)
            committed = known.version if known else 0
            pending = [
                _Pending(document, token, decoded, cell.version, rows.batch_key(token))
                for token, cell in cells.items()
                if token not in (b"", self._token) and cell.version > committed
                if (decoded := PendingCell.decode(cell.value))
            ]
            if own and known and (claim := known.entry.claim):
                old = PendingCell(0, claim.fingerprint, claim.lease, claim.sketch, claim.tags)
                row = BatchRow(claim.ticket)
                pending.append(
                    _Pending(document, claim.token, old, own.version, key, own.value, row, old=True)
                )
            latest = max((cell.version for cell in cells.values()), default=0)
            yield _Seen(known, pending, latest)

    def _near(self, places: Sequence[int]) -> tuple[dict[int, list[Match]], dict[int, list[_Pending]]]:
        """What is stored or accepted near claims, and which claims that they have to wait for are."""
        ids = {each[1] for place in places for each in self._led[place]}
        stored = {document: entry for document in ids if (entry := self._seen[document].entry)}
        rivals: dict[int, list[_Pending]] = {place: [] for place in places}
        waiting = {document: found for document in ids if (found := self._earlier(document))}
        while waiting:  # a row may have several
            layer = {document: found[-1] for document, found in waiting.items()}
            entries = {document: each.cell.entry for document, each in layer.items()}
            for place, matches in self._matches(places, entries).items():
                rivals[place] += [layer[match.id] for match in matches]
            waiting = {document: found[:-1] for document, found in waiting.items() if found[1:]}
        return self._matches(places, stored), rivals

    def _earlier(self, document: str) -> list[_Pending]:
        """The claims of a document that are waited for: those with later tickets see us and wait."""
        return [
            each
            for each in self._seen[document].pending
            if each.is_open and (each.row is None or each.row.ticket < self._ticket)
        ]

    def _matches(self, places: Sequence[int], entries: Now) -> dict[int, list[Match]]:
        """Those of some documents that are near claims, of other ids."""
        if not entries:
            return {place: [] for place in places}
        led = [
            (query, *each[1:])
            for query, place in enumerate(places)
            for each in self._led[place]
            if each[1] in entries and each[1] != self._batch.ids[place]
        ]
        prints = self._batch.fingerprints[list(places)]
        found = self._reader(None, IDS_LIMIT).matches(prints, led, entries, self._joined.kind.bounds)
        return dict(zip(places, found, strict=True))

    def _reader(self, drawer_limit: int | None, ids_limit: int) -> Reader:
        claimer = self._claimer
        return Reader(
            claimer.store, claimer.scheme, drawer_limit, ids_limit, claimer.clock, hidden=claimer.hidden()
        )

    # 4. Decide

    def go_on(self) -> bool:
        """Decides what can be decided; where that is nothing looks again at what it waits for. Whether there
        was anything to do."""
        if self.is_over:
            return False
        if self._waits:
            self._see([each.id for each in self._waits])
        judgement = self._judge()
        self._waits = judgement.waits
        self._commit_for_others(judgement.first)
        if judgement.outcomes or judgement.is_overtaken or self._row is None:
            self._set(self._with_decisions(judgement.made, judgement.is_overtaken), judgement.outcomes)
            return True
        if self._claimer.time() - self._changed >= self._claimer.lease / BEATS:
            self._set(replace(self._row, beat=self._row.beat + 1), {})
        return self._break_what_stands() or self.is_over

    def _judge(self) -> _Judgement:
        """What can be said of each open claim, in their order."""
        judgement = _Judgement(list(self._decisions))
        open_ = [place for place, made in enumerate(judgement.made) if made is Decision.OPEN]
        stored, rivals = self._near(open_)
        for place in open_:
            number, document = self.numbers[place], self._batch.ids[place]
            seen = self._seen[document]
            near = [match for match in stored[place] if not self._is_replaced(judgement, place, match.id)]
            final = [match for match in near if not self._is_undecided_before(judgement, place, match.id)]
            if waits := self._earlier(document):
                judgement.waits += waits
            elif seen.entry and not self._joined.kind.replacing:
                judgement.first += [seen.accepted] if seen.accepted else []
                outcome = _stored_answer(self._joined.batch, number, seen.entry, self._claimer.scheme).outcome
                judgement.decide(place, outcome)
            elif final:
                match = min(final)
                accepted = self._seen[match.id].accepted
                judgement.first += [accepted] if accepted else []
                judgement.decide(place, "duplicate", match)
            elif near or rivals[place]:
                judgement.waits += rivals[place]
            elif self._is_unchanged(number, seen.known):
                judgement.first += [seen.accepted] if seen.accepted else []
                judgement.decide(place, "accepted")
            elif seen.known and seen.known.version >= self._versions[place]:
                judgement.first += [seen.accepted] if seen.accepted else []
                judgement.is_overtaken = True
            else:
                judgement.decide(place, "accepted", is_put=True)
        return judgement

    @property
    def _decisions(self) -> Sequence[Decision]:
        made = self._row.decisions if self._row else ()
        return [*made, *[Decision.OPEN] * (len(self.numbers) - len(made))]

    def _is_replaced(self, judgement: _Judgement, place: int, document: str) -> bool:
        """Whether an earlier claim of the batch replaces what is stored of a document."""
        other = self._places.get(document, place)
        return other < place and judgement.made[other] is Decision.ACCEPTED

    def _is_undecided_before(self, judgement: _Judgement, place: int, document: str) -> bool:
        other = self._places.get(document, place)
        return other < place and judgement.made[other] is Decision.OPEN

    def _commit_for_others(self, accepted: Sequence[_Pending]) -> None:
        """Commits what others have accepted, as they would."""
        todo = {(each.id, each.version): each for each in accepted}
        if todo:
            commits = [(rows.document_key(each.id), each.cell.entry.encode()) for each in todo.values()]
            self._documents.put(commits, [each.version for each in todo.values()])

    def _with_decisions(self, made: Sequence[Decision], frozen: bool = False) -> BatchRow:
        return BatchRow(self._ticket, tuple(made), frozen, self._row.beat if self._row else 0)

    def _set(self, row: BatchRow, outcomes: Mapping[int, tuple[Outcome, Match | None]]) -> None:
        """Sets the own row. Where that fails, what it says counts; what is open when it is frozen is void."""
        if self._compare_and_set(row):
            self._row = row
        else:
            (cell,) = self._meta.get([self._key])
            self._row = BatchRow.decode(cell.value) if cell else BatchRow(self._ticket, frozen=True)
        self._changed = self._claimer.time()
        decided = {
            place: outcome
            for place, outcome in outcomes.items()
            if self._row.decision(place) is not Decision.OPEN
        }
        self._commit([place for place in decided if self._row.decision(place) is Decision.ACCEPTED])
        for place, (outcome, match) in decided.items():
            self._answer(place, outcome, match)
        if self._row.frozen or Decision.OPEN not in self._decisions:
            self._clean()

    def _compare_and_set(self, row: BatchRow) -> bool:
        expected = self._row.encode() if self._row else None
        change = CompareAndSet(self._key, expected, row.encode(), never_empty=True)
        return self._meta.compare_and_set_many([change])[0]

    def _beat(self) -> None:
        """Says that a long look goes on."""
        row = replace(self._with_decisions(self._decisions), beat=self._row.beat + 1 if self._row else 1)
        if self._compare_and_set(row):
            self._row = row

    # 5. Commit, then answer

    def _commit(self, places: Sequence[int]) -> None:
        """Puts documents rows. Their pending cells say nothing more from then on."""
        if places:
            commits = [(self._document_key(place), self._cell(place).entry.encode()) for place in places]
            self._documents.put(commits, [self._versions[place] for place in places])

    def _answer(self, place: int, outcome: Outcome, match: Match | None) -> None:
        number = self.numbers[place]
        self._claimer.recent.note(outcome)
        if outcome == "accepted":
            self._joined.accept(number, self._report(place))
        elif outcome != "undecided":
            self._joined.answer(number, outcome, match, OTHER_TEXT if outcome == "conflict" else None)

    def _report(self, place: int) -> AddReport:
        """What a claim that was accepted has done."""
        entry = self._seen[self._batch.ids[place]].entry
        if entry is None:
            return AddReport(added=1)
        moves = entry.fingerprint != self._batch.values[place]
        return AddReport(updated=int(moves), unchanged=int(not moves))

    # 6. Clean

    def _clean(self) -> None:
        """Removes the pending cells, and those of others in the own rows that are void, and then the own row,
        unless it is frozen: a late copy of a call that failed would make it anew."""
        assert self._row is not None
        self._cells.delete(self._token, list(map(rows.document_key, self._batch.ids)), self._versions)
        left = [place for place, made in enumerate(self._decisions) if made is not Decision.ACCEPTED]
        void = [each for document in self._batch.ids for each in self._seen[document].pending if each.is_void]
        for each in void:
            self._cells.delete(each.token, [rows.document_key(each.id)], [each.version])
        self._writer.note_obsolete(
            self._writer.version(),
            [(self._batch.ids[place], Entry(self._batch.values[place])) for place in left]
            + [(each.id, Entry(each.cell.fingerprint)) for each in void],
        )
        if not self._row.frozen:
            self._meta.delete([self._key], [self._claimer.clock() + FAR_AHEAD])
        self.is_over = True

    # Waiting, and its end

    def _break_what_stands(self) -> bool:
        """Freezes batches that have not changed for their lease, with what they have decided; whether there
        were any."""
        time = self._claimer.time()
        rivals = {each.key: each for each in self._waits}
        broken = [each for each in rivals.values() if self._stands(each, time)]
        keys = {each.key for each in broken if not each.old}
        noted = [(each.id, Entry(each.cell.fingerprint)) for each in self._waits if each.key in keys]
        self._writer.note_obsolete(self._writer.version(), noted)
        for each in broken:
            self._claimer.count("leases_broken")
            if each.old:
                entry = rows.entry(each.value or b"")
                take_back(self._claimer.store, self._writer, [(each.key, each.value or b"", entry)])
                continue
            self._freeze(each)
        return bool(broken)

    def _freeze(self, rival: _Pending) -> None:
        """Sets the row of a batch, from what was read of it, to the same, frozen: its decisions stay."""
        frozen = replace(rival.row, frozen=True) if rival.row else BatchRow(0, frozen=True)
        self._meta.compare_and_set(rival.key, rival.value, frozen.encode())

    def _stands(self, rival: _Pending, time: float) -> bool:
        """Whether the row of somebody has stood for its lease, or is of a run that is over."""
        ended = self._joined.kind.run.ended
        if ended and rival.token.startswith(ended):
            return True
        standing = self._claimer.standing
        value, since = standing.get(rival.key, (b"", time))
        if value != rival.value or rival.key not in standing:
            if len(standing) >= MOST_STANDING:
                standing.clear()
            standing[rival.key] = (rival.value, time)
            return False
        if (time - since) * 1000 < rival.cell.lease:
            return False
        standing.pop(rival.key, None)  # another thread may have been as quick
        return True

    def give_up(self, numbers: Container[int]) -> None:
        while not self.is_over and (given_up := self._open_ones(numbers)):
            made = [
                Decision.DECLINED if place in given_up else each for place, each in enumerate(self._decisions)
            ]
            self._set(self._with_decisions(made), dict.fromkeys(given_up, ("undecided", None)))

    def _open_ones(self, numbers: Container[int]) -> list[int]:
        return [
            place
            for place, made in enumerate(self._decisions)
            if made is Decision.OPEN and self.numbers[place] in numbers
        ]

    def freeze(self) -> None:
        """Ends it, so that nobody waits for it."""
        if not self.is_over:
            self._compare_and_set(self._with_decisions(self._decisions, frozen=True))


def _with_row(pending: _Pending, cell: Cell | None) -> _Pending:
    """A pending claim with what its batch's row says."""
    if pending.old or cell is None:
        return pending
    return replace(pending, value=cell.value, row=BatchRow.decode(cell.value))


def _is_same_row(now: _Seen, before: _Seen) -> bool:
    """Whether a documents row still has its pending cells, and nothing was committed."""
    there = {each.token for each in now.pending}
    is_same = (now.own and now.own.version) == (before.own and before.own.version)
    return is_same and all(each.token in there for each in before.pending)


def take_back(store: Store, writer: HintingWriter, held: Sequence[tuple[bytes, bytes, Entry]]) -> int:
    """Ends claims that nobody goes on with, given key, value and entry of their rows; returns how many."""
    claims = [(rows.document_id(key), entry.claim) for key, _, entry in held if entry.claim]
    noted = [(document, Entry(claim.fingerprint)) for document, claim in claims]
    writer.note_obsolete(writer.version(), noted)
    changes = [CompareAndSet(key, value, without_claim(entry).encode()) for key, value, entry in held]
    return sum(store.records("documents").compare_and_set_many(changes))


def without_claim(entry: Entry) -> Entry:
    """What a row says when its claim has ended without being granted."""
    if entry.stored:
        return replace(entry, state=State.STORED, claim=None)
    return Entry(entry.fingerprint, State.DELETED)


def _is_same(batch: Batch, number: int, entry: Entry, scheme: Scheme) -> bool:
    """Whether a document is stored with this text."""
    return entry.fingerprint == batch.values[number] and (
        scheme.listed_sketching is not None or entry.sketch == batch.sketches[number]
    )


def _stored_answer(batch: Batch, number: int, entry: Entry, scheme: Scheme) -> Claim:
    """The answer about a document that is stored."""
    document, fingerprint = batch.ids[number], Fingerprint(batch.values[number])
    if _is_same(batch, number, entry, scheme):
        return Claim(document, "accepted", fingerprint)
    return Claim(document, "conflict", fingerprint, reason=OTHER_TEXT)


def _without_repeated_ids(
    requests: Sequence[ClaimRequest[Any]],
) -> Iterator[list[ClaimRequest[Any]]]:
    """The requests in parts that have no id twice."""
    left = list(requests)
    while left:
        ids: set[object] = set()
        part, others = list[ClaimRequest[Any]](), list[ClaimRequest[Any]]()
        for request in left:
            if ids.isdisjoint(request.records):
                ids.update(request.records)
                part.append(request)
            else:
                others.append(request)
        yield part
        left = others
