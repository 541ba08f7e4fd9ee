"""Every interleaving of workers that claim, over a simulated store, call by call of the store.

As in tests/exploration.py the workers are real code, which is replayed with the answers that it got. A worker
that waits for others does so by a call, too: it goes on when the store has changed since, or when a lease has
passed for it, which may be where somebody has crashed, or, so often, where somebody is slow.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import NamedTuple

import numpy as np

from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import claim, rows
from simhbase.index.claim import HintingClaimer, Waiting
from simhbase.index.writer import HintingWriter
from simhbase.model import Claim
from tests.simulated import (
    EMPTY,
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
LEASE = 10.0
NEVER = 1e9
WAIT = Call("meta", "wait", ())
UNSEEN = ("self", "store", "writer", "pause")  # variables that are the same for all, or decide nothing
ATTRIBUTES = ("_seen", "_held", "answers", "report")  # of attempts: what changes


class Work(NamedTuple):
    """Documents that a worker claims in one call, as (id, fingerprint), for so many seconds."""

    claims: tuple[tuple[str, int], ...]
    timeout: float = NEVER
    replacing: bool = False


class Case(NamedTuple):
    """What workers claim, and what is stored before: id, fingerprint."""

    works: tuple[Work, ...]
    stored: tuple[tuple[str, int], ...] = ()
    crashes: int = 0
    slow: int = 0  # leases that pass for somebody though nobody has crashed
    late: bool = False  # whether a copy of one call that sets a row may be carried out later
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
    """history: -1 after a crash; waited: the store when it last went on after a wait, -1 before."""

    history: int
    waited: int = -1


class _World(NamedTuple):
    store: int
    workers: tuple[_Worker, ...]
    crashes: int
    slow: int
    late: Call | bool


class _Replayed(Waiting):
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
    _results: list[list[Claim] | None] = field(default_factory=list)
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
                    self._after(world, number, _Worker(-1))._replace(crashes=world.crashes - 1),
                )
            if call != WAIT:
                store, answer = self._carried_out(world.store, call)
                yield (
                    f"{number}: {_shown(call)} -> {answer}",
                    self._answered(world, number, answer, store, call),
                )
                continue
            is_news = worker.waited < 0 or self._documents(worker.waited) != self._documents(world.store)
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
        set_so_far: list[Answer] = []  # of compare_and_set_many, which is a call a row

        def ask(call: Call) -> Answer:
            if call.method != "compare_and_set":
                set_so_far.clear()
            for answer in left:
                if call.method == "compare_and_set":
                    set_so_far.append(answer)
                return answer
            raise _Unanswered(call, _local_state(call, set_so_far, sys._getframe(1)))

        call, result, local = None, None, None
        try:
            result = _claim(self.case.works[worker], worker, ask, self.case.fine)
        except _Unanswered as unanswered:
            call, local = unanswered.call, unanswered.local
        if local is not None and (worker, local) in self._same:
            return self._same[worker, local]
        self._answers.append((worker, answers))
        self._calls.append(call)
        self._results.append(result)
        number = len(self._answers) - 1
        if local is not None:
            self._same[worker, local] = number
        return number

    def _number(self, state: State) -> int:
        # Claims go by values alone, and delete nothing: states that differ in versions are the same.
        state = tuple(tuple(each._replace(version=1) for each in table) for table in state)
        if state not in self._numbers:
            self._numbers[state] = len(self._stores)
            self._stores.append(state)
        return self._numbers[state]

    def _documents(self, store: int) -> Table:
        """What decides for who waits: hints alone make no difference to what it has found."""
        return table_of(self._stores[store], "documents")

    def _carried_out(self, store: int, call: Call) -> tuple[int, Answer]:
        state, answer = carried_out(self._stores[store], call)
        return self._number(state), answer

    # What must hold

    def _wrong(self, world: _World, is_end: bool) -> str | None:
        stored = stored_in(self._stores[world.store])
        initial = dict(self.case.stored)
        for first, one in stored.items():
            for second, other in stored.items():
                if first < second and _near(one, other) and not (first in initial and second in initial):
                    return f"{first} and {second} are near and both stored"
        results = [
            each
            for worker in world.workers
            if worker.history >= 0
            for each in self._results[worker.history] or ()
        ]
        for each in results:
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
            if each.outcome == "duplicate" and each.match and each.match.id not in stored:
                return f"{each.id} is a duplicate of {each.match.id}, which is not stored"
        return None


def explore(case: Case) -> Explored:
    return Exploration(case).run()


def stored_in(state: State) -> dict[str, int]:
    """Id and fingerprint of the stored documents."""
    found = {}
    for each in visible(table_of(state, "documents")):
        entry = rows.Entry.decode(each.value or b"")
        if entry.stored:
            found[rows.document_id(each.key)] = entry.fingerprint
    return found


def fingerprints_of(values: Sequence[int]) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def _initial(stored: Sequence[tuple[str, int]]) -> State:
    server = Server(EMPTY)
    for document, value in stored:
        writer = HintingWriter(SimulatedStore(server.ask), SCHEME, lambda: 1, chance=lambda most: 0)
        writer.add([document], fingerprints_of([value]))
    return server.state


def _claim(work: Work, worker: int, ask: Callable[[Call], Answer], fine: bool) -> list[Claim]:
    claimer = HintingClaimer(
        SimulatedStore(ask, fine),
        SCHEME,
        clock=lambda: 1,
        chance=lambda most: 0,
        lease=LEASE,
        waiting=partial(_Replayed, ask),
        token=lambda: bytes([worker]) * 16,
    )
    ids = [document for document, _ in work.claims]
    values = fingerprints_of([value for _, value in work.claims])
    return claimer.claim(ids, values, SCHEME.bounds(None, None), work.timeout, work.replacing).claims


def _local_state(call: Call, set_so_far: Sequence[Answer], frame: FrameType | None) -> str | None:
    """Where a worker is in the code of claims, and all that it knows there, before it writes or waits: two
    that agree in that do the same from there on, whatever they have read before. set_so_far: what the store
    knows on its behalf in the middle of setting several rows."""
    if call != WAIT and call.method not in ("put", "compare_and_set", "increment"):
        return None
    known = [repr(call), repr(set_so_far)]
    while frame is not None:
        if frame.f_code.co_filename == claim.__file__:
            values = {name: value for name, value in frame.f_locals.items() if name not in UNSEEN}
            attempts = frame.f_locals.get("self")
            if isinstance(attempts, claim.Attempts):
                values |= {name: vars(attempts)[name] for name in ATTRIBUTES}
                values["time"] = attempts._waiting.time()
            known.append(f"{frame.f_code.co_qualname} {frame.f_lasti} {values!r}")
            if frame.f_code is claim.Attempts.run.__code__:
                break
        frame = frame.f_back
    local = "\n".join(known)
    assert " at 0x" not in local, local
    return local


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
