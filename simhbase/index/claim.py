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
6. Clean: remove the pending cells, then the batch row.

Of two near claims the later ticket was taken after the hints of the other could be seen, so one of the two
sees the other; and as who waits does so for earlier tickets, nobody waits in a circle. A batch row (or its
absence) that has not changed for a lease is frozen by who waits for it, with the decisions that it has; what
is open in a frozen row is void. Its owner, should there still be one, fails at its next compare-and-set,
commits what its row has accepted, and begins the rest again under another token. It leaves the frozen row to
vacuum: a late copy of the call that failed would make it anew. Who sees an accepted claim that is not
committed commits it. The argument does not depend on any clock. Plain writes put documents rows beside all
this, and are never hidden: of an id the latest version counts.

Documents that are muted make nothing a duplicate, and nobody waits for claims that would be: so of near texts
that are not muted at most one is accepted, and of muted ones as many as come.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from secrets import randbelow, token_bytes
from typing import Protocol, cast

from simhbase.drawers.scheme import Bounds, Scheme
from simhbase.errors import SimhbaseError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.mute import NOTHING_HIDDEN, Hidden
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT, Led, Now, Reader
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
from simhbase.model import AddReport, Claim, Fingerprint, Match, Outcome, Rejected
from simhbase.stores.base import AtomicStore, Cell, CompareAndSet, SharedStore, Store, leaves_hints, now

TIMEOUT = 30.0  # seconds until a claim is undecided
LEASE = 10.0  # seconds for which a batch of somebody who may be dead is waited for
CLAIMED_AT_ONCE = 2048  # fewer than can be claimed within a lease
BEATS = 3  # in a lease, while its owner waits or looks
MOST_STANDING = 100_000  # rows that are waited for: some megabytes
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1  # seconds
TICKETS = b"claim tickets"  # the counter in meta
TOKEN_BYTES = 16
LISTING_GROWTH = 8
# The first lookup is half of the reading. Where fewer than this share of so many claims were duplicates it is
# left out: each of the few then costs a dozen rows that vacuum removes.
FEW_DUPLICATES, RECENT = 0.15, 1024
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


class Claimer(Protocol):
    """Stores documents of one scheme that nothing near is stored of."""

    def claim(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        timeout: float = TIMEOUT,
        replacing: bool = False,
        tags: Sequence[Tags] | None = None,
    ) -> Claimed:
        """Claims n documents as if they came one after the other; durable when it returns.

        timeout: seconds, after which what is left is undecided; replacing: a document that is stored with
        another text is replaced if nothing is near the new one, and not a conflict; one with the same text
        and other tags gets these. tags: of each, which decide nothing; None: none has any.
        """


def claimer_for(
    store: Store,
    scheme: Scheme,
    clock: Callable[[], int] = now,
    count: Count = lambda what: None,
    hidden: WhatIsHidden = lambda: NOTHING_HIDDEN,
) -> Claimer:
    """The claimer for a kind of store. count: is told of waits and broken leases by their measures; hidden:
    says what is muted."""
    if leaves_hints(store):
        return BatchClaimer(cast(SharedStore, store), scheme, clock, count, hidden=hidden)
    return AtomicClaimer(cast(AtomicStore, store), scheme, clock, hidden)


@dataclass(frozen=True)
class AtomicClaimer:
    """Claims in a store that one process writes."""

    store: AtomicStore
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    hidden: WhatIsHidden = field(default=lambda: NOTHING_HIDDEN)

    def claim(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        timeout: float = TIMEOUT,
        replacing: bool = False,
        tags: Sequence[Tags] | None = None,
    ) -> Claimed:
        """See Claimer. It is decided at once, so that the time is never up."""
        batch, rejected = admitted(ids, fingerprints, tags)
        with self.store.exclusive():
            settled = {} if replacing else dict(self._stored_already(batch))
            open_ = [number for number in range(len(batch.ids)) if number not in settled]
            chosen = batch[open_]
            found = duplicates_of(
                self.store,
                self.scheme,
                self.clock,
                chosen.ids,
                chosen.fingerprints,
                bounds,
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
        report += AddReport(unchanged=again)
        return Claimed(list(_in_order(ids, fingerprints, batch, settled, rejected)), report)

    def _stored_already(self, batch: Batch) -> Iterator[tuple[int, Claim]]:
        """The answers about documents that are stored."""
        alive = alive_since(self.store, self.clock())
        for number, each in enumerate(known(self.store, batch.ids)):
            if each and each.stored and each.version >= alive:
                yield number, _stored_answer(batch, number, each.entry, self.scheme)


class Waiting:
    """The time that claims wait by, which no other clock has to agree with."""

    def time(self) -> float:
        """Seconds."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Waits about so long; chance keeps many workers from coming back all at once."""
        time.sleep(seconds * random.uniform(0.5, 1.5))

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
class BatchClaimer:
    """Claims in a store that many processes write, by the steps above.

    lease: seconds; standing: what its calls have waited for, so that calls which take less time than a lease
    end the claims of the dead, too; recent: how many of the last claims were duplicates."""

    store: SharedStore
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    count: Count = field(default=lambda what: None)
    chance: Callable[[int], int] = field(default=randbelow)
    lease: float = LEASE
    waiting: Callable[[], Waiting] = Waiting
    token: Callable[[], bytes] = field(default=lambda: token_bytes(TOKEN_BYTES))
    hidden: WhatIsHidden = field(default=lambda: NOTHING_HIDDEN)
    standing: Standing = field(default_factory=dict)
    recent: Recent = field(default_factory=lambda: Recent())

    def claim(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        timeout: float = TIMEOUT,
        replacing: bool = False,
        tags: Sequence[Tags] | None = None,
    ) -> Claimed:
        """See Claimer."""
        batch, rejected = admitted(ids, fingerprints, tags)
        call = _Call(self, batch, bounds, replacing)
        call.run(timeout)
        claims = list(_in_order(ids, fingerprints, batch, call.answers, rejected))
        return Claimed(claims, call.report)


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


class _Call:
    """The claims of one call: which are in which batch, and what was answered. Batches that wait for others
    stay open while the next ones go on."""

    def __init__(self, claimer: BatchClaimer, batch: Batch, bounds: Bounds, replacing: bool) -> None:
        self.claimer = claimer
        self.batch = batch
        self.bounds = bounds
        self.replacing = replacing
        self.others = OthersOfBatch(batch.fingerprints, claimer.scheme, bounds)
        self.numbers = {document: number for number, document in enumerate(batch.ids)}
        self.clock = claimer.waiting()
        self.answers: dict[int, Claim] = {}
        self.report = AddReport()
        self._open: list[_Batch] = []

    def run(self, timeout: float) -> None:
        """Until all are answered, the time is up, or Ctrl-C came that is put off where others have to be
        waited for. Raises what the store does: what is pending then stays so for its lease."""
        end = self.clock.time() + timeout
        pause = FIRST_PAUSE
        while True:
            has_moved = self._begin()
            for batch in list(self._open):
                has_moved |= batch.go_on()
                if batch.is_over:
                    self._open.remove(batch)
            if len(self.answers) == len(self.batch.ids):
                return
            if self.clock.time() >= end:
                self._give_up(TIME_IS_UP.format(seconds=timeout))
                return
            if has_moved:
                pause = FIRST_PAUSE
                continue
            if interrupt_waits():
                self._give_up(INTERRUPTED)
                return
            self.claimer.count("claim_waits")
            self.clock.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _begin(self) -> bool:
        """Begins a batch of the claims that can begin; whether there are any."""
        numbers = list(self._next())
        if not numbers:
            return False
        answered = len(self.answers)
        batch = _Batch(self, numbers)
        if batch.numbers:
            self._open.append(batch)
        return bool(batch.numbers) or len(self.answers) > answered

    def _next(self) -> Iterator[int]:
        """The claims that can begin: those near an earlier one of this call wait for its answer."""
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
        """Whether an earlier claim of this call may replace what is stored of a document: a later one waits
        for its answer."""
        earlier = self.numbers.get(document, number)
        return earlier < number and earlier not in self.answers

    def kept_near(self, number: int) -> list[Match]:
        """What this call has accepted near a claim."""
        hidden = self.claimer.hidden()
        found = self.others.kept_near(number)
        return [each for each in found if not hidden.hides(each.id, each.fingerprint)]

    def accept(self, number: int, report: AddReport) -> None:
        self.report += report
        self.others.keep(number, self.batch.ids[number])
        self.answer(number, "accepted")

    def answer(
        self, number: int, outcome: Outcome, match: Match | None = None, reason: str | None = None
    ) -> None:
        document, fingerprint = self.batch.ids[number], Fingerprint(self.batch.values[number])
        self.answers[number] = Claim(document, outcome, fingerprint, match, reason)

    def _give_up(self, reason: str) -> None:
        for batch in self._open:
            batch.give_up()
        for number in range(len(self.batch.ids)):
            if number not in self.answers:
                self.answer(number, "undecided", reason=reason)


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
        """What is stored, or accepted."""
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
    """Claims of a call that are decided together, under one token. numbers: of the claims; what is said of
    one of them by its place among these."""

    def __init__(self, call: _Call, numbers: Sequence[int]) -> None:
        """Steps 0 to 3."""
        self._call = call
        self._claimer = claimer = call.claimer
        self._documents = claimer.store.records("documents")
        self._cells = claimer.store.document_cells
        self._meta = claimer.store.records("meta")
        self._writer = HintingWriter(claimer.store, claimer.scheme, claimer.clock, claimer.chance)
        self._token = claimer.token()
        self._key = rows.batch_key(self._token)
        self._row: BatchRow | None = None  # as it was set last
        self._changed = call.clock.time()
        self._seen: dict[str, _Seen] = {}
        self._led: dict[int, list[Led]] = {}
        self._waits: list[_Pending] = []
        self.is_over = False
        self.numbers = self._first_lookup(numbers)
        if self.numbers:
            self._batch = call.batch[self.numbers]
            self._places = {document: place for place, document in enumerate(self._batch.ids)}
            self._versions = self._later_versions()
            self._put()
            self._take_ticket()
            with call.clock.every(claimer.lease / BEATS, self._beat):
                self._look()

    # 0. First lookup

    def _first_lookup(self, numbers: Sequence[int]) -> list[int]:
        """Answers what needs no claim; returns the others that can go on."""
        self._see([self._call.batch.ids[number] for number in numbers])
        left = list[int]()
        for number in numbers:
            own = self._seen[self._call.batch.ids[number]].own
            if own and own.stored and not self._call.replacing:
                self._answer_stored(number, own.entry)
            else:
                left.append(number)
        stored = self._stored_near(left)
        going_on = list[int]()
        for number in left:
            near = [*self._call.kept_near(number), *stored.get(number, ())]
            final = [match for match in near if not self._call.is_open_before(number, match.id)]
            if final:
                self._call.answer(number, "duplicate", min(final))
                self._claimer.recent.note("duplicate")
            elif self._is_unchanged(number, self._seen[self._call.batch.ids[number]].own):
                self._call.accept(number, AddReport(unchanged=1))
            elif not near:
                going_on.append(number)
        return going_on

    def _stored_near(self, numbers: Sequence[int]) -> dict[int, list[Match]]:
        """What is stored near claims, not looked for to the end; nor at all near new ones where few are
        duplicates."""
        ids = self._call.batch.ids
        if self._claimer.recent.are_new:
            numbers = [number for number in numbers if self._seen[ids[number]].entry]
        near = self._reader(DRAWER_LIMIT, IDS_LIMIT).near(
            self._call.batch.fingerprints[list(numbers)], self._call.bounds
        )
        return {
            number: [match for match in matches if match.id != ids[number]]
            for number, matches in zip(numbers, near.matches, strict=True)
        }

    def _answer_stored(self, number: int, entry: Entry) -> None:
        """Answers about a document that is stored."""
        answer = _stored_answer(self._call.batch, number, entry, self._claimer.scheme)
        if answer.accepted:
            self._call.accept(number, AddReport(unchanged=1))
        else:
            self._call.answer(number, answer.outcome, reason=answer.reason)

    def _is_unchanged(self, number: int, known: Known | None) -> bool:
        """Whether nothing has to be written: as `add`, a claim writes anew what would expire."""
        batch = self._call.batch
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
            leads = self._reader(drawer_limit, ids_limit).leads(
                self._batch.fingerprints[left], self._call.bounds
            )
            of_place: dict[int, list[Led]] = {place: [] for place in left}
            for each in leads.led:
                of_place[left[each[0]]].append(each)
            self._led |= of_place
            led = [each[1] for each in leads.led]
            self._see([document for document in [*self._batch.ids, *led] if document not in self._seen])
            cut = [
                place for place, *is_cut in zip(left, leads.truncated, leads.cut, strict=True) if any(is_cut)
            ]
            if cut:
                stored, _ = self._near(cut)
                cut = [place for place in cut if not stored[place]]
            left, drawer_limit, ids_limit = cut, None, ids_limit * LISTING_GROWTH

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
        found = self._reader(None, IDS_LIMIT).matches(prints, led, entries, self._call.bounds)
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
        if self._waits:
            self._see([each.id for each in self._waits])
        judgement = self._judge()
        self._waits = judgement.waits
        self._commit_for_others(judgement.first)
        if judgement.outcomes or judgement.is_overtaken or self._row is None:
            self._set(self._with_decisions(judgement.made, judgement.is_overtaken), judgement.outcomes)
            return True
        if self._call.clock.time() - self._changed >= self._claimer.lease / BEATS:
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
            elif seen.entry and not self._call.replacing:
                judgement.first += [seen.accepted] if seen.accepted else []
                outcome = _stored_answer(self._call.batch, number, seen.entry, self._claimer.scheme).outcome
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
        self._changed = self._call.clock.time()
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
        """Puts documents rows, and removes their pending cells, which nobody needs from then on."""
        if places:
            commits = [(self._document_key(place), self._cell(place).entry.encode()) for place in places]
            self._cells.replace(self._token, commits, [self._versions[place] for place in places])

    def _answer(self, place: int, outcome: Outcome, match: Match | None) -> None:
        number = self.numbers[place]
        self._claimer.recent.note(outcome)
        if outcome == "accepted":
            self._call.accept(number, self._report(place))
        elif outcome != "undecided":
            self._call.answer(number, outcome, match, OTHER_TEXT if outcome == "conflict" else None)

    def _report(self, place: int) -> AddReport:
        """What a claim that was accepted has done."""
        entry = self._seen[self._batch.ids[place]].entry
        if entry is None:
            return AddReport(added=1)
        moves = entry.fingerprint != self._batch.values[place]
        return AddReport(moved=int(moves), unchanged=int(not moves))

    # 6. Clean

    def _clean(self) -> None:
        """Removes pending cells that were not committed, and those of others in the own rows that are void,
        and then the own row, unless it is frozen: a late copy of a call that failed would make it anew."""
        assert self._row is not None
        left = [place for place, made in enumerate(self._decisions) if made is not Decision.ACCEPTED]
        self._cells.delete(
            self._token,
            [self._document_key(place) for place in left],
            [self._versions[place] for place in left],
        )
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
        time = self._call.clock.time()
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
        """Whether the row of somebody has stood for its lease."""
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

    def give_up(self) -> None:
        """Declines what is open."""
        open_ = [place for place, made in enumerate(self._decisions) if made is Decision.OPEN]
        declined = [Decision.DECLINED if made is Decision.OPEN else made for made in self._decisions]
        while not self.is_over:
            self._set(self._with_decisions(declined), dict.fromkeys(open_, ("undecided", None)))


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


def _in_order(
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    batch: Batch,
    answers: dict[int, Claim],
    rejected: Sequence[Rejected],
) -> Iterator[Claim]:
    """The answers in the order of the ids; an id that comes again was rejected."""
    by_id = {batch.ids[number]: answer for number, answer in answers.items()}
    refused = iter(rejected)
    values: list[int] = fingerprints.values.tolist()
    for document, value in zip(ids, values, strict=True):
        answer = by_id.pop(document, None)
        if answer is None:
            answer = Claim(document, "rejected", Fingerprint(value), reason=next(refused).reason)
        yield answer
