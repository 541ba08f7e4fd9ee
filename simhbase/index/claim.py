"""Claims: "accept this text unless a near one is already accepted", by any number of workers at once.

To look up and then to store is a race: two workers can both see nothing. Where one process writes
(`AtomicClaimer`) both are done under its lock. Elsewhere (`HintingClaimer`) the documents row says who is
about to store what, and every worker takes these steps, each when the one before is acknowledged:

1. Look up: something near is stored, so this is a duplicate, and nothing is written.
2. Set the own documents row, compared with what was read: pending, with a token and without a ticket.
3. Put the hints, by which others find it. 4. Take a ticket from a counter, and 5. put it into the row.
6. Look up again, all drawers to their end. What is stored decides. A pending claim with a later ticket will
   see this one, and waits; one with an earlier ticket, or none yet, is waited for.
7. Set the row to stored, or 8. to what it was before, where it is a duplicate after all.

Of two near claims the later ticket was taken after the hints of the other could be seen, so one of the two
sees the other; and as who waits does so for earlier tickets, nobody waits in a circle. A row that has not
changed for its lease is taken back by who waits for it: its owner, should there still be one, fails at its
next step and begins again. The argument does not depend on any clock.

Documents that are muted make nothing a duplicate, and nobody waits for claims that would be: so of near texts
that are not muted at most one is accepted, and of muted ones as many as come.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from secrets import randbelow, token_bytes
from typing import Protocol, cast

from simhbase.drawers.scheme import Bounds, Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.mute import NOTHING_HIDDEN, Hidden
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT, Reader
from simhbase.index.rows import Entry, PendingClaim, State
from simhbase.index.selection import OthersOfBatch, duplicates_of
from simhbase.index.tags import Tags
from simhbase.index.writer import (
    AtomicWriter,
    Batch,
    HintingWriter,
    admitted,
    alive_since,
    known,
    now,
    refreshed_before,
)
from simhbase.interrupt import interrupt_waits
from simhbase.model import AddReport, Claim, Fingerprint, Match, Outcome, Rejected
from simhbase.stores.base import AtomicStore, Cell, CompareAndSet, Store, leaves_hints

TIMEOUT = 30.0  # seconds until a claim is undecided
LEASE = 10.0  # seconds for which a row of somebody who may be dead is waited for
CLAIMED_AT_ONCE = 512  # far fewer than can be claimed within a lease
BEATS = 3  # in a lease, while its owner waits
MOST_SEEN = 100_000  # rows that are waited for: some megabytes
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1  # seconds
TICKETS = b"claim tickets"  # the counter in meta
TOKEN_BYTES = 16
LISTING_GROWTH = 8
OTHER_TEXT = "another text is stored under this id: a change is made by add"
TIME_IS_UP = (
    "not decided within {seconds:g} s, as others have not decided about texts near it, or much was claimed "
    "at once. Nothing is stored: make the same claim again"
)
INTERRUPTED = "interrupted while others had not decided about texts near it: make the same claim again"

Count = Callable[[str], None]
WhatIsHidden = Callable[[], Hidden]
Seen = dict[bytes, tuple[bytes, float]]  # by key the values of rows of others, and since when each stands
_Found = tuple[Cell | None, Entry | None]  # a documents row as it was read


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
        return HintingClaimer(store, scheme, clock, count, hidden=hidden)
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


@dataclass(frozen=True)
class HintingClaimer:
    """Claims in a store that many processes write. lease: seconds; seen: what its calls have waited for, so
    that calls which take less time than a lease end the claims of the dead, too."""

    store: Store
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    count: Count = field(default=lambda what: None)
    chance: Callable[[int], int] = field(default=randbelow)
    lease: float = LEASE
    waiting: Callable[[], Waiting] = Waiting
    token: Callable[[], bytes] = field(default=lambda: token_bytes(TOKEN_BYTES))
    hidden: WhatIsHidden = field(default=lambda: NOTHING_HIDDEN)
    seen: Seen = field(default_factory=dict)

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
        attempts = Attempts(self, batch, bounds, replacing)
        attempts.run(timeout)
        claims = list(_in_order(ids, fingerprints, batch, attempts.answers, rejected))
        return Claimed(claims, attempts.report)


@dataclass
class _Held:
    """A documents row that is ours: its value, what it says, what was there before, and when it last
    changed."""

    value: bytes
    entry: Entry
    before: Entry | None
    since: float

    @property
    def claim(self) -> PendingClaim:
        assert self.entry.claim is not None
        return self.entry.claim

    def changed(self, ticket: int | None = None, beat: int | None = None) -> Entry:
        """What it says next."""
        claim = self.claim
        ticket = claim.ticket if ticket is None else ticket
        beat = claim.beat if beat is None else beat
        return replace(self.entry, claim=replace(claim, ticket=ticket, beat=beat))


class Attempts:
    """The claims of one call, on their way. What cannot go on is put aside, and the others finish."""

    def __init__(self, claimer: HintingClaimer, batch: Batch, bounds: Bounds, replacing: bool) -> None:
        self._claimer = claimer
        self._store, self._scheme = claimer.store, claimer.scheme
        self._documents = claimer.store.records("documents")
        self._writer = HintingWriter(claimer.store, claimer.scheme, claimer.clock, claimer.chance)
        self._batch = batch
        self._bounds = bounds
        self._replacing = replacing
        self._others = OthersOfBatch(batch.fingerprints, claimer.scheme, bounds)
        self._waiting = claimer.waiting()
        self._numbers = {document: number for number, document in enumerate(batch.ids)}
        self._seen = claimer.seen
        self._held: dict[int, _Held] = {}
        self.answers: dict[int, Claim] = {}
        self.report = AddReport()

    def run(self, timeout: float) -> None:
        """Until all are answered, the time is up, or Ctrl-C came that is put off where others have to be
        waited for. Raises what the store does: what is pending then stays so for its lease."""
        end = self._waiting.time() + timeout
        pause = FIRST_PAUSE
        while True:
            has_moved = self._begin()
            has_moved |= self._decide()
            if len(self.answers) == len(self._batch.ids):
                return
            if self._waiting.time() >= end:
                self._give_up(TIME_IS_UP.format(seconds=timeout))
                return
            self._renew()
            if has_moved:
                pause = FIRST_PAUSE
                continue
            if interrupt_waits():
                self._give_up(INTERRUPTED)
                return
            self._claimer.count("claim_waits")
            self._waiting.pause(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    # Steps 1 to 5

    def _begin(self) -> bool:
        """Brings claims so far that they have a ticket, or an answer; whether any has come so far."""
        numbers = list(self._next())
        before = len(self.answers) + len(self._held)
        free = self._free(numbers)
        duplicates, _ = self._duplicates(list(free), with_claims=False)
        for number, match in duplicates.items():
            if not self._is_open_before(number, match.id):
                self._answer(number, "duplicate", match)
        new = {number: found for number, found in free.items() if number not in duplicates}
        unchanged = [number for number, found in new.items() if self._is_same(number, found)]
        for number in unchanged:
            self._accept(number, AddReport(unchanged=1))
        self._enter({number: found for number, found in new.items() if number not in self.answers})
        return len(self.answers) + len(self._held) > before

    def _next(self) -> Iterator[int]:
        """The claims that can begin: those near an earlier one of this call wait for its answer."""
        undecided: set[int] = set()
        chosen = 0
        for number in range(len(self._batch.ids)):
            if number in self.answers:
                continue
            if (
                chosen < CLAIMED_AT_ONCE
                and number not in self._held
                and undecided.isdisjoint(self._others.values_near(number))
            ):
                chosen += 1
                yield number
            undecided.add(self._others.value_of(number))

    def _is_open_before(self, number: int, document: str) -> bool:
        """Whether an earlier claim of this call may replace what is stored of a document: a later one waits
        for its answer."""
        earlier = self._numbers.get(document, number)
        return earlier < number and earlier not in self.answers

    def _free(self, numbers: Sequence[int]) -> dict[int, _Found]:
        """Those whose documents row nobody holds, with what it is; the others are answered, or wait."""
        keys = [rows.document_key(self._batch.ids[number]) for number in numbers]
        free: dict[int, _Found] = {}
        for number, key, cell in zip(numbers, keys, self._documents.get(keys), strict=True):
            entry = None if cell is None else rows.entry(cell.value)
            if entry and entry.stored and not self._replacing:
                answer = _stored_answer(self._batch, number, entry, self._scheme)
                self._answer(number, answer.outcome, reason=answer.reason)
                self.report += AddReport(unchanged=int(answer.accepted))
            elif cell and entry and entry.claim:
                self._wait_for(key, cell.value, entry)
            else:
                free[number] = (cell, entry)
        return free

    def _is_same(self, number: int, found: _Found) -> bool:
        """Whether nothing has to be written: as `add`, a claim writes anew what would expire."""
        cell, entry = found
        if cell is None or entry is None or not entry.stored:
            return False
        fresh_since = refreshed_before(self._store, self._claimer.clock()) or 0
        return (
            cell.version >= fresh_since
            and entry.tags == self._batch.tags_at(number)
            and _is_same(self._batch, number, entry, self._scheme)
        )

    def _enter(self, free: dict[int, _Found]) -> None:
        """Steps 2 to 5."""
        entered = self._set(
            {
                number: (None if cell is None else cell.value, self._pending(number, entry), entry)
                for number, (cell, entry) in free.items()
            }
        )
        if not entered:
            return
        self._writer.put_hints(self._batch[entered], self._writer.version())
        last = self._store.records("meta").increment(TICKETS, len(entered))
        tickets = range(last - len(entered) + 1, last + 1)
        held = {number: self._held.pop(number) for number in entered}
        self._set(
            {
                number: (
                    held[number].value,
                    held[number].changed(ticket=ticket),
                    held[number].before,
                )
                for number, ticket in zip(entered, tickets, strict=True)
            }
        )

    def _pending(self, number: int, before: Entry | None) -> Entry:
        sketch = b"" if self._scheme.listed_sketching else self._batch.sketches[number]
        lease = int(self._claimer.lease * 1000)
        claim = PendingClaim(
            self._claimer.token(),
            self._batch.values[number],
            sketch,
            lease,
            tags=self._batch.tags_at(number),
        )
        if before is not None and before.stored:
            return replace(before, state=State.REPLACING, claim=claim)
        return Entry(claim.fingerprint, State.PENDING, claim=claim)

    # Steps 6 to 8

    def _decide(self) -> bool:
        """Decides about the claims that have a ticket; whether it could for any, or has to look again."""
        held = list(self._held)
        if not held:
            return False
        duplicates, rivals = self._duplicates(held, with_claims=True)
        waits, again = self._waits(rivals)
        self._release(list(duplicates))
        for number, match in duplicates.items():
            self._answer(number, "duplicate", match)
        self._store_all(
            [number for number in held if number not in duplicates and number not in waits | again]
        )
        return bool(duplicates) or bool(again) or any(number not in self._held for number in held)

    def _waits(self, rivals: dict[int, list[Match]]) -> tuple[set[int], set[int]]:
        """The claims that have to wait for others, and those that have to look again, as another one has been
        granted meanwhile."""
        ids = list(dict.fromkeys(match.id for matches in rivals.values() for match in matches))
        keys = list(map(rows.document_key, ids))
        cells = dict(zip(ids, self._documents.get(keys), strict=True))
        waits, again = set[int](), set[int]()
        for number, matches in rivals.items():
            for match in matches:
                cell = cells[match.id]
                entry = None if cell is None else rows.entry(cell.value)
                if cell is None or entry is None or (not entry.stored and not entry.claim):
                    continue
                if entry.claim is None:
                    again.add(number)
                elif entry.claim.ticket < self._held[number].claim.ticket:
                    waits.add(number)
                    self._wait_for(rows.document_key(match.id), cell.value, entry)
        return waits, again

    def _store_all(self, numbers: Sequence[int]) -> None:
        """Step 7."""
        left = [
            (self._batch.ids[number], before)
            for number in numbers
            if (before := self._held[number].before) is not None
            and before.stored
            and before.fingerprint != self._batch.values[number]
        ]
        self._writer.note_obsolete(self._writer.version(), left)
        held = {number: self._held.pop(number) for number in numbers}
        stored = {
            number: Entry(each.claim.fingerprint, State.STORED, each.claim.sketch, tags=each.claim.tags)
            for number, each in held.items()
        }
        for number in self._swapped({number: (held[number].value, stored[number]) for number in numbers}):
            before = held[number].before
            is_new = before is None or not before.stored
            moves = not is_new and before is not None and before.fingerprint != self._batch.values[number]
            self._accept(number, AddReport(int(is_new), int(moves), int(not is_new and not moves)))

    def _release(self, numbers: Sequence[int]) -> None:
        """Step 8. A row that is not ours any more was taken back by somebody else."""
        held = {number: self._held.pop(number) for number in numbers}
        self._writer.note_obsolete(
            self._writer.version(),
            [(self._batch.ids[number], Entry(each.claim.fingerprint)) for number, each in held.items()],
        )
        self._swapped({number: (each.value, without_claim(each.entry)) for number, each in held.items()})

    # Waiting

    def _wait_for(self, key: bytes, value: bytes, entry: Entry) -> None:
        """Notes that a row is waited for, and takes it back where it has not changed for its lease."""
        assert entry.claim is not None
        time = self._waiting.time()
        seen, since = self._seen.get(key, (None, time))
        if seen != value:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[key] = (value, time)
        elif (time - since) * 1000 >= entry.claim.lease:
            self._seen.pop(key, None)  # another thread may have been as quick
            self._claimer.count("leases_broken")
            take_back(self._store, self._writer, [(key, value, entry)])

    def _renew(self) -> None:
        """Says of the rows that are held that somebody is there."""
        time = self._waiting.time()
        old = [
            number for number, each in self._held.items() if time - each.since >= self._claimer.lease / BEATS
        ]
        held = {number: self._held.pop(number) for number in old}
        self._set(
            {
                number: (each.value, each.changed(beat=each.claim.beat + 1), each.before)
                for number, each in held.items()
            }
        )

    def _give_up(self, reason: str) -> None:
        self._release(list(self._held))
        for number in range(len(self._batch.ids)):
            if number not in self.answers:
                self._answer(number, "undecided", reason=reason)

    # What all steps need

    def _duplicates(
        self, numbers: Sequence[int], with_claims: bool
    ) -> tuple[dict[int, Match], dict[int, list[Match]]]:
        """The nearest stored document of those that have one near, and the pending claims near the others.
        With claims, what a reader's usual limits cut is read to its end."""
        duplicates: dict[int, Match] = {}
        rivals: dict[int, list[Match]] = {}
        drawer_limit: int | None = DRAWER_LIMIT
        ids_limit = IDS_LIMIT
        left = list(numbers)
        while left:
            reader = Reader(
                self._store,
                self._scheme,
                drawer_limit,
                ids_limit,
                self._claimer.clock,
                with_claims=with_claims,
                hidden=self._claimer.hidden(),
            )
            near = reader.near(self._batch.fingerprints[left], self._bounds)
            cut = []
            for place, number in enumerate(left):
                stored = self._of_others(number, near.matches[place])
                if stored:
                    duplicates[number] = min(stored)
                elif with_claims and (near.truncated[place] or near.cut[place]):
                    cut.append(number)
                else:
                    rivals[number] = self._of_others(number, near.claimed[place])
            left, drawer_limit, ids_limit = cut, None, ids_limit * LISTING_GROWTH
        return duplicates, rivals

    def _of_others(self, number: int, matches: Iterable[Match]) -> list[Match]:
        return [match for match in matches if match.id != self._batch.ids[number]]

    def _set(self, changes: dict[int, tuple[bytes | None, Entry, Entry | None]]) -> list[int]:
        """Sets own rows, given what they have to hold, what to set, and what was there before the claim; what
        could be set is held then."""
        time = self._waiting.time()
        done = self._swapped({number: (expected, entry) for number, (expected, entry, _) in changes.items()})
        for number in done:
            _, entry, before = changes[number]
            self._held[number] = _Held(entry.encode(), entry, before, time)
        return done

    def _swapped(self, changes: dict[int, tuple[bytes | None, Entry]]) -> list[int]:
        """The numbers of those rows that could be set."""
        wanted = [
            CompareAndSet(rows.document_key(self._batch.ids[number]), expected, entry.encode())
            for number, (expected, entry) in changes.items()
        ]
        done = self._documents.compare_and_set_many(wanted)
        return [number for number, is_done in zip(changes, done, strict=True) if is_done]

    def _accept(self, number: int, report: AddReport) -> None:
        self.report += report
        self._answer(number, "accepted")

    def _answer(
        self, number: int, outcome: Outcome, match: Match | None = None, reason: str | None = None
    ) -> None:
        document, fingerprint = self._batch.ids[number], Fingerprint(self._batch.values[number])
        self.answers[number] = Claim(document, outcome, fingerprint, match, reason)


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
