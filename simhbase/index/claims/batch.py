"""A batch of claims in a store that many processes write: ticket, look, decide, commit, clean up.

A batch has a random token. Each step begins when the one before is acknowledged:

1. Put a pending cell for each claim into the documents row of its id: in a column named by the token, with
   the version to commit at as its time. Put the hints by which others find it.
2. Take a ticket: the next number of a counter.
3. Look up the claims, all drawers to their end: documents rows with their pending cells, then the rows of the
   batches that these belong to. While one process claims, it looks before it puts, and puts what is new:
   that look counts if the ticket is the next number after the last one known before the look, as no other
   batch took one in between. It follows the nearest documents first: what has a stored match is a duplicate
   whatever else is near, and leaves the batch.
4. Decide as many claims as possible by one compare-and-set of the batch's own row in meta. A claim is a
   duplicate of what is stored, or accepted by its batch's row. It waits for a near pending claim of a batch
   with an earlier ticket, or with no row yet; one with a later ticket sees this claim, and waits.
5. Commit what was accepted: put documents rows at their versions. Then answer.
6. Clean up, after the answers and for many batches together: remove the pending cells, then the batch rows.

Of two near claims the one with the later ticket looks when the hints of the other are there, so it sees the
other. Batches wait for earlier tickets only, so there is no deadlock.

A batch row (or its absence) that has not changed for a lease is frozen by whoever waits for it, and keeps its
decisions. What is open in a frozen row is void. If the owner is still alive its next compare-and-set fails:
it commits what its row has accepted, and claims the rest again under another token. It leaves the frozen row
to vacuum, because a delayed copy of the failed call could create the row again. A claim that was accepted and
not committed is committed by any batch that sees it. None of this depends on clocks that agree. Plain adds
put documents rows meanwhile and are never hidden: of an id the latest version counts.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf
from secrets import randbelow, token_bytes
from typing import Any, NamedTuple

from simhbase.drawers.scheme import Bounds, Scheme
from simhbase.errors import SimhbaseError
from simhbase.index import rows
from simhbase.index.claims.selection import NEAREST
from simhbase.index.mute import NOTHING_HIDDEN, Hidden
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT, LISTING_GROWTH, Led, Listings, Now, Reader
from simhbase.index.rows import BatchRow, Decision, Entry, PendingCell
from simhbase.index.scopes import Scope
from simhbase.index.writer import REFRESHED, DocumentBatch, Known, Writer, alive_since
from simhbase.model.values import AddReport, Match, Outcome
from simhbase.stores.base import Cell, Changes, HintingStore, now
from simhbase.stores.meta import TICKETS, Meta
from simhbase.stores.strings import Strings

LEASE = 10.0  # seconds that a batch is waited for while its row does not change
BEATS = 3  # changes of a row in a lease, to show that its owner is alive
QUICK = 64  # claims that are looked up in much less time than a lease
MOST_WATCHED = 100_000  # batch rows that are waited for: some megabytes
UNKNOWN = -1  # as a ticket
TOKEN_BYTES = 16
# Clocks differ by at most an hour, so a delete this many milliseconds ahead covers all of a server's cells.
FAR_AHEAD = 2 * 3600 * 1000
# While several processes claim, a lookup before the put decides nothing. It is left out while fewer than this
# share of the last claims were duplicates or stored under their ids: each of these then costs a dozen rows,
# which vacuum removes where they are obsolete.
FEW_KNOWN, RECENT = 0.1, 256
# Batches that are cleaned up together, and claims of theirs.
BATCHES_CLEANED, CLAIMS_CLEANED = 64, 2048

Settled = tuple[Outcome, Match | None]


class LoadRun(NamedTuple):
    """The run of a load that claims. token: its batches' tokens begin with it; ended: that of the run it
    resumes, whose batches nobody has to wait for."""

    token: bytes = b""
    ended: bytes = b""


NO_LOAD = LoadRun()


class ClaimKind(NamedTuple):
    """What the claims of a batch have in common. replacing: a document that is stored with another text is
    replaced if nothing is near the new one, and no conflict; one with the same text gets the new tags. scope:
    of the documents, None in a store without scopes; hidden: says what is muted there; annotates: all of them
    are stored, and the answers say what is near."""

    bounds: Bounds
    replacing: bool = False
    run: LoadRun = NO_LOAD
    scope: Scope | None = None
    hidden: Callable[[], Hidden] = lambda: NOTHING_HIDDEN
    annotates: bool = False


class Waiting:
    """The time that claims wait by. Other machines' clocks need not agree with it."""

    def time(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(jittered(seconds))

    @contextmanager
    def every(self, seconds: float, action: Callable[[], None]) -> Iterator[None]:
        """Repeats an action in a thread while a block runs. An error of the store skips a turn."""
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


def jittered(seconds: float) -> float:
    """About as long: many workers that wait should not come back at once."""
    return seconds * random.uniform(0.5, 1.5)


class Recent:
    """What became of the last claims of a process. ticket: the last one that it took, or found taken;
    is_alone: whether nobody else took one before that. A process begins as if it were alone."""

    ticket = UNKNOWN
    is_alone = True

    def __init__(self) -> None:
        self._claims = self._known = 0

    def note(self, outcome: Outcome, *, was_stored: bool = False) -> None:
        """was_stored: whether a document was stored under the id before."""
        self._claims += 1
        self._known += outcome == "duplicate" or was_stored
        if self._claims >= RECENT:
            self._claims //= 2
            self._known //= 2

    @property
    def are_new(self) -> bool:
        """True if hardly any was a duplicate, or stored before."""
        return self._claims >= RECENT // 8 and self._known < FEW_KNOWN * self._claims


class Remains(NamedTuple):
    """What a batch has left that is over. keys: of documents rows with its cells; version: of the latest of
    these; row: the key of its own row, None if it stays."""

    token: bytes
    keys: Sequence[bytes]
    version: int
    row: bytes | None


@dataclass(frozen=True)
class ClaimContext:
    """What the batches of one process share.

    lease: seconds; count: a metric, by name; watched: rows of other batches that are waited for, with their
    values and the time since when they stand, so that calls shorter than a lease end the claims of dead
    workers together; beside: starts a call beside another one, and returns what waits for its result;
    remains: what is to be cleaned up, of one thread; counts: whether the store counts refused claims.
    """

    store: HintingStore
    scheme: Scheme
    clock: Callable[[], int] = now
    count: Callable[..., None] = lambda name, by=1, **labels: None
    chance: Callable[[int], int] = randbelow
    lease: float = LEASE
    waiting: Waiting = field(default_factory=Waiting)
    token: Callable[[], bytes] = lambda: token_bytes(TOKEN_BYTES)
    watched: dict[bytes, tuple[bytes | None, float]] = field(default_factory=dict)
    recent: Recent = field(default_factory=Recent)
    beside: Callable[[Callable[[], Any]], Callable[[], Any]] = lambda call: cache(call)
    remains: list[Remains] = field(default_factory=list)
    counts: bool = False

    @property
    def writer(self) -> Writer:
        return Writer(self.store, self.scheme, self.clock, self.chance)

    def reader(
        self, kind: ClaimKind, drawer_limit: int | None = DRAWER_LIMIT, ids_limit: int = IDS_LIMIT
    ) -> Reader:
        of = kind.scope.of if kind.scope else b""
        hidden = kind.hidden()
        return Reader(self.store, self.scheme, drawer_limit, ids_limit, self.clock, hidden=hidden, of=of)

    def clean_up(self) -> None:
        """Removes what batches have left, with one call for all pending cells: nobody else writes cells of
        their tokens, so that one version does for all."""
        remains = self.remains[:]
        self.remains.clear()
        cells = [(key, each.token) for each in remains for key in each.keys]
        latest = max((each.version for each in remains), default=0)
        self.store.document_cells.delete(cells, [latest] * len(cells))
        batch_rows = [each.row for each in remains if each.row]
        ahead = self.clock() + FAR_AHEAD
        self.store.records("meta").delete(batch_rows, [ahead] * len(batch_rows))

    @property
    def is_to_clean_up(self) -> bool:
        """True if much is left."""
        claims = sum(len(each.keys) for each in self.remains)
        return len(self.remains) >= BATCHES_CLEANED or claims >= CLAIMS_CLEANED

    def settled(
        self, kind: ClaimKind, batch: DocumentBatch, number: int, known: Known | None, near: Sequence[Match]
    ) -> Settled | None:
        """What a claim is answered because of what is stored under its id and near it; None if it has to be
        written."""
        if known is None or not known.stored:
            return ("duplicate", min(near)) if near else None
        outcome = stored_outcome(batch, number, known.entry, self.scheme)
        if not kind.replacing:
            return outcome, None
        if near:
            return "duplicate", min(near)
        fresh_since = alive_since(self.store, self.clock(), REFRESHED)  # as `add`: renew what would expire
        has_tags = known.entry.tags == batch.tags_at(number)
        is_unchanged = outcome == "accepted" and has_tags and known.version >= fresh_since
        return (outcome, None) if is_unchanged else None

    def read_rows(self, ids: Sequence[str], token: bytes = b"") -> dict[str, DocumentRow]:
        """Documents rows, then the rows of the batches that have pending claims there. token: of claims to
        leave out.

        A delayed call can create a frozen row again when its batch is committed and gone. So where one is
        frozen the documents row is read again, and everything if that has changed.
        """
        found: dict[str, DocumentRow] = {}
        left = list(dict.fromkeys(ids))
        while left:
            read = self._read_documents(left, token)
            keys = list(dict.fromkeys(each.key for row in read.values() for each in row.pending))
            values = dict(zip(keys, Meta(self.store).get_many(keys), strict=True)) if keys else {}
            found |= read
            for document, row in read.items():
                if row.pending:
                    pending = [
                        replace(each, value=value, row=BatchRow.decode(value))
                        if (value := values[each.key])
                        else each
                        for each in row.pending
                    ]
                    found[document] = replace(row, pending=pending)
            unsure = [document for document in left if any(each.is_void for each in found[document].pending)]
            again = self._read_documents(unsure, token)
            left = [document for document in unsure if not is_same_row(again[document], found[document])]
        return found

    def _read_documents(self, ids: Sequence[str], token: bytes) -> dict[str, DocumentRow]:
        keys = list(map(rows.document_key, ids))
        read = self.store.document_cells.get(keys) if keys else []
        return {
            id_: DocumentRow.of(id_, key, cells, token)
            for id_, key, cells in zip(ids, keys, read, strict=True)
        }


@dataclass(frozen=True)
class Pending:
    """A pending claim of another batch, as it was read. value: what that batch's row in meta held, and row:
    what it says."""

    id: str
    token: bytes
    cell: PendingCell
    version: int
    value: bytes | None = None
    row: BatchRow | None = None

    @property
    def key(self) -> bytes:
        """The key of its batch's row in meta."""
        return rows.batch_key(self.token)

    @property
    def decision(self) -> Decision:
        return self.row.decision(self.cell.number) if self.row else Decision.OPEN

    @property
    def is_void(self) -> bool:
        """True if it will never be accepted, provided that the documents row still has the cell
        afterwards."""
        return self.row is not None and self.row.frozen and self.decision is Decision.OPEN

    @property
    def is_open(self) -> bool:
        return self.decision is Decision.OPEN and not self.is_void


@dataclass(frozen=True)
class DocumentRow:
    """A documents row as it was read, without a token's cell: its own cell, later claims of other batches,
    the version of its latest cell."""

    committed: Known | None
    pending: Sequence[Pending]
    latest: int

    @classmethod
    def of(cls, document: str, key: bytes, cells: Mapping[bytes, Cell], token: bytes) -> DocumentRow:
        others = {name: cell for name, cell in cells.items() if not name or name != token}
        if not others:
            return NO_ROW
        own = others.get(b"")
        pending = [
            Pending(document, name, PendingCell.decode(key, cell.value), cell.version)
            for name, cell in others.items()
            if name and cell.version > (own.version if own else 0)
        ]
        latest = max(cell.version for cell in others.values())
        return cls(Known(Entry.decode(key, own.value), own.version) if own else None, pending, latest)

    @cached_property
    def accepted(self) -> Pending | None:
        """The claim that was accepted last and is not committed yet."""
        accepted = (each for each in self.pending if each.decision is Decision.ACCEPTED)
        return max(accepted, key=lambda each: each.version, default=None) if self.pending else None

    @cached_property
    def current(self) -> Known | None:
        return Known(self.accepted.cell.entry, self.accepted.version) if self.accepted else self.committed

    @property
    def document(self) -> Entry | None:
        """The document that is stored, or accepted."""
        return self.current.entry if self.current and self.current.stored else None


NO_ROW = DocumentRow(None, [], 0)


def is_same_row(now: DocumentRow, before: DocumentRow) -> bool:
    """True if a documents row still has its pending cells, and nothing was committed."""
    left = {each.token for each in now.pending}
    is_same = (now.committed and now.committed.version) == (before.committed and before.committed.version)
    return is_same and all(each.token in left for each in before.pending)


def stored_outcome(batch: DocumentBatch, number: int, entry: Entry, scheme: Scheme) -> Outcome:
    """Accepted if a document is stored with the text that is claimed, else a conflict."""
    is_same = entry.fingerprint == batch.values[number] and (
        scheme.listed_sketching is not None or entry.sketch == batch.sketches[number]
    )
    return "accepted" if is_same else "conflict"


@dataclass
class _Verdict:
    """What a batch can decide by what it has read.

    decisions: about all its claims; answers: to those that are decided now, by their places; waits: the
    claims it has to wait for; because: the documents that this is decided by; is_overtaken: one of its ids
    was written at a later version.
    """

    decisions: list[Decision]
    answers: dict[int, Settled] = field(default_factory=dict)
    waits: list[Pending] = field(default_factory=list)
    because: list[str] = field(default_factory=list)
    is_overtaken: bool = False

    def decide(self, place: int, decision: Decision, answer: Settled) -> None:
        self.decisions[place] = decision
        self.answers[place] = answer


class ClaimBatch:
    """Claims that are decided together, under one token; each has a place in the batch.

    batch: documents with different ids, of which none is near another; known: their rows; answer: is called
    with an id, the outcome, what it is a duplicate of, and what was stored.
    """

    def __init__(
        self,
        context: ClaimContext,
        kind: ClaimKind,
        batch: DocumentBatch,
        known: dict[str, DocumentRow],
        answer: Callable[[str, Outcome, Match | None, AddReport], None],
    ) -> None:
        self._context, self._kind, self._answer = context, kind, answer
        self._cells = context.store.document_cells
        self._meta = Meta(context.store)
        self._tickets = context.store.records("meta")
        self._writer = context.writer
        self._token = kind.run.token + context.token()[len(kind.run.token) :]
        self._key = rows.batch_key(self._token)
        self._rows = known
        self._led: dict[int, list[Led]] = {}
        self._waits: list[Pending] = []
        self._looked_after: int | None = None  # the last ticket that was taken before it looked
        self._ticket = 0
        self._row: BatchRow | None = None  # as it was set last
        self._changed = context.waiting.time()
        self._versions: list[int] = []
        self.is_over = False
        self._set_claims(batch)

    def _set_claims(self, batch: DocumentBatch) -> None:
        self._batch = batch
        self.ids = batch.ids
        self._keys = list(map(rows.document_key, self.ids))
        self._places = {document: place for place, document in enumerate(self.ids)}

    def look_first(self) -> tuple[dict[str, DocumentRow], list[list[Match]]]:
        """Looks before anything is put; returns the documents rows, and what is stored near each claim."""
        recent = self._context.recent
        if recent.ticket == UNKNOWN:
            (cell,) = self._tickets.get([TICKETS])
            recent.ticket = int.from_bytes(cell.value, "big") if cell else 0
        self._looked_after = recent.ticket
        places = range(len(self.ids))
        self._rows = {}
        nearest = replace(self._context.reader(self._kind), near_limit=NEAREST)
        is_cut = self._look_at(places, nearest)
        near = self._matches(places, self._committed(places))
        # What has a match is a duplicate, and leaves the batch: the others are looked up to the end.
        left = [place for place in places if is_cut[place] and not near[place]]
        self._look(left)
        near |= self._matches(left, self._committed(left))
        return self._rows, [near[place] for place in places]

    def keep(self, places: Sequence[int]) -> None:
        """Leaves out the other claims, after the first look."""
        self._led = {place: self._led[before] for place, before in enumerate(places)}
        self._set_claims(self._batch[places])

    def begin(self) -> None:
        """Puts the claims and looks, unless the first look counts."""
        recent = self._context.recent
        looked = self._looked_after is not None
        last = recent.ticket if self._looked_after is None else self._looked_after
        self._versions = self._later_versions()
        self._put()
        self._take_ticket()
        # Kept here, too: another thread of this process may change it at any time.
        is_alone = recent.is_alone = self._is_next_after(last)
        if not (looked and is_alone):
            self._rows = {}
            self._look(range(len(self.ids)))

    def _later_versions(self) -> list[int]:
        """Versions later than the time, and than all cells of the documents rows."""
        latest = [self._rows[document].latest for document in self.ids]
        return self._writer.later_versions(self._writer.version(), latest)

    # 1. Put

    def _put(self) -> None:
        """Puts pending cells and hints."""
        scheme, batch, lease = self._context.scheme, self._batch, int(self._context.lease * 1000)
        sketches = batch.sketches if scheme.listed_sketching is None else [b""] * len(batch.ids)
        cells = [
            PendingCell(place, value, lease, sketch, batch.tags_at(place)).encode(key)
            for place, (key, value, sketch) in enumerate(zip(self._keys, batch.values, sketches, strict=True))
        ]
        self._context.store.put_pending(
            self._token,
            list(zip(self._keys, cells, strict=True)),
            batch.listings(scheme),
            batch.index_keys(scheme),
            self._versions,
        )

    # 2. Ticket

    def _take_ticket(self) -> None:
        self._ticket = self._context.recent.ticket = self._tickets.increment(TICKETS)

    def _is_next_after(self, ticket: int) -> bool:
        """True if no other batch took a ticket since then."""
        return self._ticket == ticket + 1

    # 3. Look

    def _look(self, places: Sequence[int]) -> None:
        """Looks up claims. If the usual limits of a reader cut the lookup of one that is no duplicate so far,
        it is repeated without them."""
        drawer_limit: int | None = DRAWER_LIMIT
        ids_limit = IDS_LIMIT
        left = places
        while left:
            is_quick = len(left) <= QUICK and drawer_limit is not None
            beats = self._context.waiting.every(self._context.lease / BEATS, self._beat)
            with nullcontext() if is_quick else beats:
                is_cut = self._look_at(left, self._context.reader(self._kind, drawer_limit, ids_limit))
            if cut := [place for place, each in zip(left, is_cut, strict=True) if each]:
                stored = self._matches(cut, self._stored(cut))
                cut = [place for place in cut if not stored[place]]
            left, drawer_limit, ids_limit = cut, None, ids_limit * LISTING_GROWTH

    def _look_at(self, places: Sequence[int], reader: Reader) -> list[bool]:
        """Looks up claims; returns whether each was cut by a limit. The claims' own rows, which are all that
        most of them lead to, are read beside the drawers."""

        def read_own() -> Listings:
            self._read([document for document in self.ids if document not in self._rows])
            put = places if self._versions else ()
            return reader.listed(self._batch.values[place] for place in put)

        own = self._context.beside(read_own)
        leads = reader.leads(self._batch.fingerprints[list(places)], self._kind.bounds, own)
        own()
        self._led |= {place: [] for place in places}
        for each in leads.led:
            self._led[places[each[0]]].append(each)
        self._read([document for _, document, *_ in leads.led if document not in self._rows])
        return [
            truncated or cut or beyond < inf
            for truncated, cut, beyond in zip(leads.truncated, leads.cut, leads.beyond, strict=True)
        ]

    def _read(self, ids: Sequence[str]) -> None:
        self._rows |= self._context.read_rows(ids, self._token)

    def _led_to(self, places: Sequence[int]) -> set[str]:
        return {each[1] for place in places for each in self._led[place]}

    def _committed(self, places: Sequence[int]) -> Now:
        """The documents that claims lead to, without what is accepted and not committed."""
        known = ((id_, self._rows[id_].committed) for id_ in self._led_to(places))
        return {id_: each.entry for id_, each in known if each and each.stored}

    def _stored(self, places: Sequence[int]) -> Now:
        """The documents that claims lead to."""
        return {id_: entry for id_ in self._led_to(places) if (entry := self._rows[id_].document)}

    def _rivals(self, places: Sequence[int]) -> dict[int, list[Pending]]:
        """The claims near each of some claims that it has to wait for."""
        rivals: dict[int, list[Pending]] = {place: [] for place in places}
        claimed = (document for document in self._led_to(places) if self._rows[document].pending)
        earlier = {document: self._earlier(document) for document in claimed}
        for number in range(max(map(len, earlier.values()), default=0)):
            pending = {id_: found[number] for id_, found in earlier.items() if number < len(found)}
            near = self._matches(places, {id_: each.cell.entry for id_, each in pending.items()})
            for place, matches in near.items():
                rivals[place] += [pending[match.id] for match in matches]
        return rivals

    def _earlier(self, document: str) -> list[Pending]:
        """The claims of a document to wait for. Those with later tickets see this batch, and wait for it."""
        return [
            each
            for each in self._rows[document].pending
            if each.is_open and (each.row is None or each.row.ticket < self._ticket)
        ]

    def _matches(self, places: Sequence[int], entries: Now) -> dict[int, list[Match]]:
        """Those of some documents that are near claims, under other ids."""
        if not entries:
            return {place: [] for place in places}
        led = [
            (query, *each[1:])
            for query, place in enumerate(places)
            for each in self._led[place]
            if each[1] in entries and each[1] != self.ids[place]
        ]
        prints = self._batch.fingerprints[list(places)]
        found = self._context.reader(self._kind, None).matches(prints, led, entries, self._kind.bounds)
        return dict(zip(places, found, strict=True))

    # 4. Decide

    def step(self) -> bool:
        """Decides what can be decided, after another look at what it waits for. False if that was nothing."""
        if self.is_over:
            return False
        if self._waits:
            self._read([each.id for each in self._waits])
        verdict = self._judge()
        self._waits = verdict.waits
        self._commit_for_others(verdict.because)
        if verdict.answers or verdict.is_overtaken or self._row is None:
            self._set(self._row_with(verdict.decisions, verdict.is_overtaken), verdict.answers)
            return True
        if self._context.waiting.time() - self._changed >= self._context.lease / BEATS:
            self._set(replace(self._row, beat=self._row.beat + 1), {})
        return self._break_leases() or self.is_over

    def _judge(self) -> _Verdict:
        verdict = _Verdict(self._decisions)
        open_ = [place for place, made in enumerate(verdict.decisions) if made is Decision.OPEN]
        stored, rivals = self._matches(open_, self._stored(open_)), self._rivals(open_)
        for place in open_:
            document = self.ids[place]
            row = self._rows[document]
            if row.pending and (waits := self._earlier(document)):
                verdict.waits += waits
                continue
            # What an earlier claim of the batch replaces does not count; what it may replace is waited for.
            before = {match: self._decision_before(place, match.id, verdict) for match in stored[place]}
            near = [match for match, decision in before.items() if decision is Decision.DECLINED]
            settled = self._context.settled(self._kind, self._batch, place, row.current, near)
            if settled:
                verdict.decide(place, Decision.DECLINED, settled)
                verdict.because += [document, *([settled[1].id] if settled[1] else [])]
            elif rivals[place] or Decision.OPEN in before.values():
                verdict.waits += rivals[place]
            elif row.current and row.current.version >= self._versions[place]:
                verdict.because.append(document)
                verdict.is_overtaken = True
            else:
                verdict.decide(place, Decision.ACCEPTED, ("accepted", None))
        return verdict

    @property
    def _decisions(self) -> list[Decision]:
        return [self._row.decision(place) if self._row else Decision.OPEN for place in range(len(self._keys))]

    def _decision_before(self, place: int, document: str, verdict: _Verdict) -> Decision:
        """What is decided about an earlier claim of the batch for a document; declined if there is none."""
        earlier = self._places.get(document, place)
        return verdict.decisions[earlier] if earlier < place else Decision.DECLINED

    def _commit_for_others(self, ids: Sequence[str]) -> None:
        """Commits what other batches have accepted under these ids, and not committed yet."""
        accepted = [each for id_ in dict.fromkeys(ids) if (each := self._rows[id_].accepted)]
        if accepted:
            keys = [rows.document_key(each.id) for each in accepted]
            values = [each.cell.entry.encode(key) for key, each in zip(keys, accepted, strict=True)]
            versions = [each.version for each in accepted]
            columns = Strings.of(keys), Strings.of(values)
            self._context.store.commit(Changes(versions, put={"documents": columns}))

    def _row_with(self, decisions: Sequence[Decision], frozen: bool = False) -> BatchRow:
        return BatchRow(self._ticket, tuple(decisions), frozen, self._row.beat if self._row else 0)

    def _set(self, row: BatchRow, answers: Mapping[int, Settled]) -> None:
        """Sets the batch's row, commits and answers. If the row was changed by others, what it says
        counts."""
        self._note_moves([place for place, (outcome, _) in answers.items() if outcome == "accepted"])
        if self._compare_and_set(row):
            self._row = row
        else:
            value = self._meta.get(self._key)
            self._row = BatchRow.decode(value) if value else BatchRow(self._ticket, frozen=True)
        self._changed = self._context.waiting.time()
        decisions = self._decisions
        decided = [place for place in answers if decisions[place] is not Decision.OPEN]
        self._commit([place for place in decided if decisions[place] is Decision.ACCEPTED])
        for place in decided:
            outcome, match = answers[place]
            if outcome != "undecided":
                self._answer(self.ids[place], outcome, match, self._report(place, outcome))
        if self._row.frozen or Decision.OPEN not in decisions:
            self._clean()

    def _compare_and_set(self, row: BatchRow) -> bool:
        expected = self._row.encode() if self._row else None
        return self._meta.compare_and_set(self._key, expected, row.encode())

    def _beat(self) -> None:
        """Changes the row, so that nobody breaks it during a long look."""
        if not self._ticket:
            return
        row = self._row_with(self._decisions)
        row = replace(row, beat=row.beat + 1)
        if self._compare_and_set(row):
            self._row = row

    # 5. Commit, then answer

    def _note_moves(self, places: Sequence[int]) -> None:
        """Notes for vacuum what documents will leave behind: before others can see that a claim is accepted,
        as they commit it then."""
        left = [
            (self.ids[place], entry)
            for place in places
            if (entry := self._rows[self.ids[place]].document)
            if entry.fingerprint != self._batch.values[place]
        ]
        self._writer.note_obsolete(left)

    def _commit(self, places: Sequence[int]) -> None:
        if places:
            versions = [self._versions[place] for place in places]
            documents = self._batch[places].document_rows(self._context.scheme)
            self._context.store.commit(Changes(versions, put={"documents": documents}))

    def _report(self, place: int, outcome: Outcome) -> AddReport:
        if outcome != "accepted":
            return AddReport()
        if self._rows[self.ids[place]].document is None:
            return AddReport(added=1)
        return AddReport(unchanged=1) if self._is_stored(place) else AddReport(updated=1)

    # 6. Clean up

    def _clean(self) -> None:
        """Leaves the pending cells and the batch's row to be removed, and void cells of others in the same
        rows. A frozen row stays: a delayed copy of a failed call could create it again."""
        assert self._row is not None
        void = [each for id_ in self.ids for each in self._rows[id_].pending if each.is_void]
        declined = [place for place, made in enumerate(self._decisions) if made is not Decision.ACCEPTED]
        left = [
            (self.ids[place], Entry(self._batch.values[place]))
            for place in declined
            if not self._is_stored(place)
        ]
        left += [(each.id, Entry(each.cell.fingerprint)) for each in void]
        self._writer.note_obsolete(left)
        remains = self._context.remains
        row = None if self._row.frozen else self._key
        remains.append(Remains(self._token, self._keys, max(self._versions), row))
        remains += [Remains(each.token, [rows.document_key(each.id)], each.version, None) for each in void]
        if self._row.frozen:
            self._context.clean_up()  # its void claims are about to begin again
        self.is_over = True

    def _is_stored(self, place: int) -> bool:
        """True if a document is stored with the fingerprint that is claimed for its id."""
        entry = self._rows[self.ids[place]].document
        return entry is not None and entry.fingerprint == self._batch.values[place]

    # Waiting, and its end

    def _break_leases(self) -> bool:
        """Freezes the batches that have not changed for their lease; False if there are none."""
        rivals = {each.key: each for each in self._waits}
        broken = [each for each in rivals.values() if self._is_stale(each)]
        keys = {each.key for each in broken}
        left = [(each.id, Entry(each.cell.fingerprint)) for each in self._waits if each.key in keys]
        self._writer.note_obsolete(left)
        for each in broken:
            self._context.count("leases_broken")
            self._freeze(each)
        return bool(broken)

    def _is_stale(self, rival: Pending) -> bool:
        """True if a batch's row has not changed for its lease, or the batch is of a run that has ended."""
        ended = self._kind.run.ended
        if ended and rival.token.startswith(ended):
            return True
        watched, time = self._context.watched, self._context.waiting.time()
        value, since = watched.get(rival.key, (b"", time))
        if value != rival.value:
            if len(watched) >= MOST_WATCHED:
                watched.clear()
            watched[rival.key] = rival.value, time
            return False
        if (time - since) * 1000 < rival.cell.lease:
            return False
        watched.pop(rival.key, None)  # another thread may have broken it at the same time
        return True

    def _freeze(self, rival: Pending) -> None:
        frozen = replace(rival.row, frozen=True) if rival.row else BatchRow(0, frozen=True)
        self._meta.compare_and_set(rival.key, rival.value, frozen.encode())

    def give_up(self, ids: Container[str]) -> None:
        """Declines those of some claims that are open. They are left to the caller to answer."""
        decisions = self._decisions
        open_ = [
            place
            for place, decision in enumerate(decisions)
            if decision is Decision.OPEN and self.ids[place] in ids
        ]
        if open_ and not self.is_over:
            for place in open_:
                decisions[place] = Decision.DECLINED
            self._set(self._row_with(decisions), dict.fromkeys(open_, ("undecided", None)))
            self.give_up(ids)  # what is still open, if others have changed the row

    def abandon(self) -> None:
        """Freezes its own row, so that nobody waits for it."""
        if not self.is_over:
            self._compare_and_set(self._row_with(self._decisions, frozen=True))
