"""Every interleaving of workers that claim, over a simulated store, call by call of the store.

As in tests/exploration.py the workers are real code, which is replayed with the answers that it got. A worker
that waits for others does so by a call, too: it goes on when the store has changed since, or when a lease has
passed for it, which may be where somebody has crashed, or, so often, where somebody is slow.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import NamedTuple

import numpy as np

from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.claims import TIMEOUT, claim
from simhbase.index.claims import batch as claim_batch
from simhbase.index.claims.batch import ClaimBatch, ClaimContext, ClaimKind, Recent, Waiting
from simhbase.index.claims.claim import Claimed, QueuedClaims, claim_all
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Claim
from simhbase.stores.checked import unchecked
from tests.simulated import (
    EMPTY,
    NAME_BYTES,
    NAMED,
    TABLES,
    Answer,
    Call,
    Server,
    SimulatedStore,
    State,
    Table,
    carried_out,
    table_of,
    visible,
)

SCHEME = SimHashScheme(layout("2x1"), 1)
A = 0x0123456789ABCDEF
B, C = A ^ 1, A ^ 1 << 63  # both near A, and not near each other; A shares a drawer with each
FAR = ~A & (1 << 64) - 1
KIND = ClaimKind(SCHEME.bounds(None, None))
LEASE = 10.0
NEVER = 1e9
NONE_TAKEN = -2  # no ticket
WAIT = Call("meta", "wait", ())
WRITES = ("put", "delete", "compare_and_set", "increment")
# Variables that are the same for all, or decide nothing.
UNSEEN = (
    *("self", "context", "store", "writer", "pause", "request", "requests", "reader", "read_own", "own"),
    *("ticket", "recent"),
)
# What the threads of a process share: whether the last batch was alone, and its ticket.
SHARED = b"shared by threads"
# What changes of a batch.
OF_BATCH = (
    "ids",
    "is_over",
    "_token",
    "_row",
    "_changed",
    "_rows",
    "_led",
    "_waits",
    "_versions",
    "_ticket",
    "_looked_after",
)
VERSIONED = ("documents", NAMED)  # tables in which versions decide


Documents = tuple[tuple[str, int], ...]


class Work(NamedTuple):
    """Documents that a worker claims, as (id, fingerprint), for so many seconds, by its clock; or adds, or
    deletes. joined: what other callers of its process claim at once, each by a request; later: the same,
    which come a moment later; own_first: whether what goes on beside another call comes before it, not behind
    it; looks_early: whether it looks before it has a ticket, if it can."""

    claims: Documents
    timeout: float = NEVER
    replacing: bool = False
    clock: int = 1
    what: str = "claim"
    looks_first: bool = True
    joined: tuple[Documents, ...] = ()
    later: tuple[Documents, ...] = ()
    own_first: bool = False
    looks_early: bool = False
    shares: bool = False

    @property
    def requests(self) -> tuple[Documents, ...]:
        return (self.claims, *self.joined, *self.later)


def add(*documents: tuple[str, int], clock: int = 1) -> Work:
    return Work(documents, clock=clock, what="add")


def delete(*documents: tuple[str, int], clock: int = 1) -> Work:
    return Work(documents, clock=clock, what="delete")


class Case(NamedTuple):
    """What workers claim, and what is stored before: id, fingerprint."""

    works: tuple[Work, ...]
    stored: tuple[tuple[str, int], ...] = ()
    crashes: int = 0
    slow: int = 0  # leases that pass for somebody though nobody has crashed
    late: bool = False  # whether one write may be carried out twice: again later, or before its answer counts
    fine: bool = False


class Explored(NamedTuple):
    states: int
    ends: int
    violation: str | None
    steps: list[str]


class _Unanswered(BaseException):
    """local: what the worker knows by then, None where two histories are not compared."""

    def __init__(self, call: Call, local: str | None) -> None:
        self.call = call
        self.local = local


class _Worker(NamedTuple):
    """history: below 0 after a crash, -1 minus the number of what it had answered; waited: the store when it
    last went on after a wait, -1 before."""

    history: int
    waited: int = -1


class _World(NamedTuple):
    store: int
    workers: tuple[_Worker, ...]
    crashes: int
    slow: int
    late: Call | bool


class Quiet(Waiting):
    """Nothing happens but by who asks for it."""

    def every(self, seconds: float, action: Callable[[], None]) -> AbstractContextManager[None]:
        return nullcontext()


class _SharedRecent(Recent):
    """What threads share, in cells of the simulated store."""

    def __init__(self, ask: Callable[[Call], Answer], looks_early: bool) -> None:
        super().__init__()
        self._ask, self._looks_early = ask, looks_early

    def _get(self, name: bytes, default: int) -> int:
        (cell,) = self._ask(Call("meta", "get", (SHARED + name,)))
        return int(cell.value) if cell else default

    def _set(self, name: bytes, value: int) -> None:
        self._ask(Call("meta", "put", (SHARED + name,), (str(value).encode(),)))

    ticket = property(lambda self: self._get(b" ticket", 0), lambda self, value: self._set(b" ticket", value))
    is_alone = property(
        lambda self: bool(self._get(b" alone", self._looks_early)),
        lambda self, value: self._set(b" alone", int(value)),
    )


class _Arriving:
    """The requests of a worker, those of each moment together."""

    def __init__(self, waiting: Waiting, *moments: list[QueuedClaims]) -> None:
        self._waiting, self._left = waiting, [requests for requests in moments if requests]

    def __repr__(self) -> str:
        return f"{len(self._left)} to come"

    def __call__(self, seconds: float | None) -> list[QueuedClaims]:
        if self._left:
            return self._left.pop(0)
        if seconds and seconds != claim.IDLE:
            self._waiting.pause(seconds)
        return []


class _Replayed(Quiet):
    def __init__(self, ask: Callable[[Call], Answer]) -> None:
        self._ask, self._time = ask, 0.0

    def time(self) -> float:
        return self._time

    def pause(self, seconds: float) -> None:
        (passed,) = self._ask(WAIT)
        self._time += passed


@dataclass
class Exploration:
    """Explores one case, breadth first."""

    case: Case
    _stores: list[State] = field(default_factory=list)
    _numbers: dict[State, int] = field(default_factory=dict)
    _answers: list[tuple[int, tuple[Answer, ...]]] = field(default_factory=list)
    _calls: list[Call | None] = field(default_factory=list)
    _results: list[tuple[Claim, ...]] = field(default_factory=list)  # what each history has answered
    _given: list[tuple[Claim, ...]] = field(default_factory=list)  # the same before crashes
    _next: dict[tuple[int, Answer], int] = field(default_factory=dict)
    _same: dict[tuple[int, str], int] = field(default_factory=dict)

    def run(self) -> Explored:
        workers = tuple(_Worker(self._history(number, ())) for number in range(len(self.case.works)))
        case = self.case
        start = _World(self._number(_initial(case.stored)), workers, case.crashes, case.slow, case.late)
        came: dict[_World, tuple[_World, str] | None] = {start: None}
        queue, ends = deque([start]), 0
        while queue:
            world = queue.popleft()
            following = list(self._following(world))
            wrong = self._wrong(world, is_end=not following)
            if wrong:
                return Explored(len(came), ends, wrong, _way(came, world))
            ends += not following
            for label, other in following:
                if other not in came:
                    came[other] = (world, label)
                    queue.append(other)
        return Explored(len(came), ends, None, [])

    def _following(self, world: _World) -> Iterator[tuple[str, _World]]:
        for number, worker in enumerate(world.workers):
            if worker.history < 0 or (call := self._calls[worker.history]) is None:
                continue
            if world.crashes:
                yield (
                    f"{number} crashes",
                    self._after(world, number, self._crashed(worker))._replace(crashes=world.crashes - 1),
                )
            if call != WAIT:
                store, answer = self._carried_out(world.store, call)
                after = self._answered(world, number, answer, store, call)
                yield f"{number}: {_shown(call)} -> {answer}", after
                if world.late is True and call.method in WRITES:
                    yield f"{number}: {_shown(call)}, and once more later", after._replace(late=call)
                    yield f"{number}: {_shown(call)}, unanswered", world._replace(store=store, late=False)
                continue
            is_news = worker.waited < 0 or self._deciding(worker.waited) != self._deciding(world.store)
            if is_news:
                yield f"{number} looks again", self._answered(world, number, (0.0,), world.store)
            crashed = any(other.history < 0 for other in world.workers)
            if (crashed and not is_news) or world.slow:
                later = self._answered(world, number, (LEASE,), world.store)
                slow = world.slow if crashed and not is_news else world.slow - 1
                yield f"a lease passes for {number}", later._replace(slow=slow)
        if isinstance(world.late, Call):
            store, _ = self._carried_out(world.store, world.late)
            yield f"late: {_shown(world.late)}", world._replace(store=store, late=False)

    def _crashed(self, worker: _Worker) -> _Worker:
        given = self._results[worker.history]
        if given not in self._given:
            self._given.append(given)
        return _Worker(-1 - self._given.index(given))

    def _answered(self, world: _World, number: int, answer: Answer, store: int, call: Call = WAIT) -> _World:
        worker = world.workers[number]
        history = self._after_answer(worker.history, answer)
        waited = world.store if call == WAIT else worker.waited
        return self._after(world, number, _Worker(history, waited))._replace(store=store)

    def _after(self, world: _World, number: int, worker: _Worker) -> _World:
        return world._replace(workers=(*world.workers[:number], worker, *world.workers[number + 1 :]))

    def _after_answer(self, history: int, answer: Answer) -> int:
        if (history, answer) not in self._next:
            worker, answers = self._answers[history]
            self._next[history, answer] = self._history(worker, (*answers, answer))
        return self._next[history, answer]

    def _history(self, worker: int, answers: tuple[Answer, ...]) -> int:
        left = iter(answers)
        set_so_far: list[Answer] = []  # of calls of compare_and_set that follow each other

        def ask(call: Call) -> Answer:
            if call.method != "compare_and_set":
                set_so_far.clear()
            for answer in left:
                if call.method == "compare_and_set":
                    set_so_far.append(answer)
                return answer
            raise _Unanswered(call, _local_state(call, set_so_far, given, sys._getframe(1)))

        call, local = None, None
        given: list[Claim] = []
        try:
            _work(self.case.works[worker], worker, ask, self.case.fine, given)
        except _Unanswered as unanswered:
            call, local = unanswered.call, unanswered.local
        if local is not None and (worker, local) in self._same:
            return self._same[worker, local]
        self._answers.append((worker, answers))
        self._calls.append(call)
        self._results.append(tuple(given))
        number = len(self._answers) - 1
        if local is not None:
            self._same[worker, local] = number
        return number

    def _number(self, state: State) -> int:
        # Claims take no notice of the versions of hints and batch rows, and a major compaction may remove the
        # markers that would hide a batch row which a late call makes anew.
        state = tuple(
            table
            if name in VERSIONED
            else tuple(each._replace(version=1, hidden=0) for each in table if each.value is not None)
            for name, table in zip(TABLES, state, strict=True)
        )
        if state not in self._numbers:
            self._numbers[state] = len(self._stores)
            self._stores.append(state)
        return self._numbers[state]

    def _deciding(self, store: int) -> tuple[Table, ...]:
        """What decides for who waits: hints and tickets make no difference to what it has found."""
        documents, cells, meta = (table_of(self._stores[store], name) for name in (*VERSIONED, "meta"))
        unread = claim_batch.TICKETS, SHARED
        return documents, cells, tuple(each for each in meta if not each.key.startswith(unread))

    def _carried_out(self, store: int, call: Call) -> tuple[int, Answer]:
        state, answer = carried_out(self._stores[store], call)
        return self._number(state), answer

    # What must hold

    def _wrong(self, world: _World, is_end: bool) -> str | None:
        state = self._stores[world.store]
        stored, accepted = stored_in(state), accepted_in(state)
        initial = dict(self.case.stored)
        for first, one in accepted.items():
            for second, other in accepted.items():
                if first < second and _near(one, other) and not (first in initial and second in initial):
                    return f"{first} and {second} are near and both accepted"
        results = [
            each
            for worker in world.workers
            for each in (
                self._results[worker.history] if worker.history >= 0 else self._given[-1 - worker.history]
            )
        ]
        written = {
            document for work in self.case.works if work.what != "claim" for document, _ in work.claims
        }
        for each in results:
            if each.id in written or self._is_replaced(each):
                continue
            if each.accepted and stored.get(each.id) != each.fingerprint:
                return f"{each.id} was accepted and is not stored"
            if each.outcome == "undecided" and stored.get(each.id) == each.fingerprint:
                return f"{each.id} is undecided, and stored"
        if not is_end:
            return None
        waiting = [worker for worker in world.workers if worker.history >= 0 and self._calls[worker.history]]
        if waiting:
            return "nobody can go on"
        for each in results:
            if each.outcome == "duplicate" and each.match and each.match.id not in {*stored, *written}:
                return f"{each.id} is a duplicate of {each.match.id}, which is not stored"
        if self.case.slow or self.case.late or any(worker.history < 0 for worker in world.workers):
            return None
        # A batch whose id others have written meanwhile freezes its row, and leaves it to vacuum.
        left = [each for each in visible(table_of(state, "meta")) if each.key.startswith(rows.BATCH_ROWS)]
        if not all(rows.BatchRow.decode(unchecked(each.key, each.value or b"")).frozen for each in left):
            return "a batch row is left though nobody crashed"
        if any(visible(table_of(state, NAMED))):
            return "pending cells are left though nobody crashed"
        return None

    def _is_replaced(self, answer: Claim) -> bool:
        """Whether another worker may have replaced what was claimed."""
        replaced = [
            value
            for work in self.case.works
            if work.replacing
            for claims in work.requests
            for document, value in claims
            if document == answer.id
        ]
        return any(value != answer.fingerprint for value in replaced)


def explore(case: Case) -> Explored:
    return Exploration(case).run()


def stored_in(state: State) -> dict[str, int]:
    """Id and fingerprint of the stored documents."""
    found = {}
    for each in visible(table_of(state, "documents")):
        entry = rows.Entry.decode(each.key, each.value or b"")
        if entry.stored:
            found[rows.document_id(each.key)] = entry.fingerprint
    return found


def accepted_in(state: State) -> dict[str, int]:
    """The same with what batch rows accept and nobody has committed."""
    found = {}
    for each in visible(table_of(state, "documents")):
        found[each.key] = (each.version, rows.Entry.decode(each.key, each.value or b""))
    decided = {
        each.key: unchecked(each.key, each.value or b"")
        for each in visible(table_of(state, "meta"))
        if each.key.startswith(rows.BATCH_ROWS)
    }
    for each in visible(table_of(state, NAMED)):
        key, token = each.key[:-NAME_BYTES], each.key[-NAME_BYTES:]
        cell = rows.PendingCell.decode(key, each.value or b"")
        row = decided.get(rows.batch_key(token))
        if row and rows.BatchRow.decode(row).decision(cell.number) is rows.Decision.ACCEPTED:
            found[key] = max(
                found.get(key, (0, cell.entry)), (each.version, cell.entry), key=lambda two: two[0]
            )
    return {rows.document_id(key): entry.fingerprint for key, (_, entry) in found.items() if entry.stored}


def fingerprints_of(values: Sequence[int]) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def _initial(stored: Sequence[tuple[str, int]]) -> State:
    server = Server(EMPTY)
    for document, value in stored:
        writer = Writer(SimulatedStore(server.ask), SCHEME, lambda: 1, chance=lambda most: 0)
        writer.add(DocumentBatch([document], fingerprints_of([value])))
    return server.state


def _work(work: Work, worker: int, ask: Callable[[Call], Answer], fine: bool, given: list[Claim]) -> None:
    """given: gets what is answered, when it is."""
    store = SimulatedStore(ask, fine)
    if work.what != "claim":
        writer = Writer(store, SCHEME, lambda: work.clock, lambda most: 0)
        ids, values = _columns(work.claims)
        if work.what == "add":
            writer.add(DocumentBatch(ids, values))
        else:
            writer.delete(ids)
        return
    tokens = iter(range(1000))
    recent = _SharedRecent(ask, work.looks_early) if work.shares else Recent()
    if not work.shares:
        recent.ticket, recent.is_alone = (0, True) if work.looks_early else (NONE_TAKEN, False)
    if not work.looks_first:
        for _ in range(claim_batch.RECENT):
            recent.note("accepted")
    context = ClaimContext(
        store,
        SCHEME,
        clock=lambda: work.clock,
        chance=lambda most: 0,
        lease=LEASE,
        waiting=_Replayed(ask),
        token=lambda: bytes([worker, next(tokens)]) * 8,
        recent=recent,
    )
    if work.own_first:
        context = replace(context, beside=lambda read: partial(_same, read()))

    def requests(*several: Documents) -> list[QueuedClaims]:
        kind, time = KIND._replace(replacing=work.replacing), context.waiting.time()
        found = [
            replace(QueuedClaims.of(DocumentBatch(*_columns(claims)), kind, work.timeout), asked=time)
            for claims in several
        ]
        for request in found:
            request.future.add_done_callback(lambda done: given.extend(done.result().claims))
        return found

    now, later = requests(work.claims, *work.joined), requests(*work.later)
    claim_all(context, _Arriving(context.waiting, now, later))
    for request in (*now, *later):
        request.future.result()


def claims_of(
    context: ClaimContext,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    kind: ClaimKind = KIND,
    timeout: float = TIMEOUT,
) -> Claimed:
    """Claims documents in this thread, in batches of their own."""
    request = replace(
        QueuedClaims.of(DocumentBatch(ids, fingerprints), kind, timeout), asked=context.waiting.time()
    )
    claim_all(context, _Arriving(context.waiting, [request]))
    return request.result()


def _same(value: object) -> object:
    return value


def _columns(claims: Documents) -> tuple[list[str], FingerprintBatch]:
    return [document for document, _ in claims], fingerprints_of([value for _, value in claims])


def _local_state(
    call: Call, set_so_far: Sequence[Answer], given: Sequence[Claim], frame: FrameType | None
) -> str | None:
    """Where a worker is in the code of claims, and all that it knows there, before it writes or waits: two
    that agree in that do the same from there on, whatever they have read before. set_so_far: what the store
    knows on its behalf in the middle of setting several rows; given: its answers."""
    if call != WAIT and call.method not in WRITES:
        return None
    known = [repr(call), repr(set_so_far), repr(given)]
    while frame is not None:
        if frame.f_code.co_filename in (claim.__file__, claim_batch.__file__):
            values = {name: value for name, value in frame.f_locals.items() if name not in UNSEEN}
            known.append(f"{frame.f_code.co_qualname} {frame.f_lasti} {_known(values)!r}")
            at_work = frame.f_locals.get("self")
            if isinstance(at_work, (ClaimBatch, claim._Group)):
                known.append(repr(_known(at_work)))
            if frame.f_code is claim_all.__code__:
                break
        frame = frame.f_back
    local = "\n".join(known)
    assert " at 0x" not in local, local
    return local


def _known(value: object) -> object:
    """What a worker knows, in a form that can be shown."""
    if isinstance(value, claim._Group):
        context, batches = value.context, [_known(batch) for batch in value._open]
        reports, shared = (
            list(value.reports.values()),
            [context.watched, *map(vars(context.recent).get, ("ticket", "is_alone")), context.remains],
        )
        return [
            value.batch.ids,
            value.answers,
            reports,
            *shared,
            context.waiting.time(),
            sorted(value._begun),
            batches,
        ]
    if isinstance(value, ClaimBatch):
        return [vars(value).get(name) for name in OF_BATCH]
    if isinstance(value, dict):
        return {name: _known(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_known, value))
    return value


def _near(one: int, other: int) -> bool:
    return (one ^ other).bit_count() <= SCHEME.k


def _shown(call: Call) -> str:
    return f"{call.method} {call.table} {', '.join(key.hex() for key in call.keys)}"


def _way(came: dict[_World, tuple[_World, str] | None], world: _World) -> list[str]:
    steps = []
    while (step := came[world]) is not None:
        world, label = step
        steps.append(label)
    return steps[::-1]
