"""The real code of claims under every interleaving of its calls of the store, where many processes write.

What is checked, in every state that can come about: no two near documents are stored or accepted, but those
that were before; what was answered accepted is stored, what is undecided is not. At the end: nobody waits who
cannot go on, each duplicate is one of a document that is stored, and where nobody crashed nothing of claims
is left.
tests/claiming.py says how, and what may happen beside. Each shortcut, put into the real code, is caught.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from simhbase.index import rows
from simhbase.index.claims import batch as claim_batch
from simhbase.index.claims.batch import ClaimBatch, ClaimContext, Pending, Recent
from simhbase.index.rows import BatchRow, Decision
from tests.claiming import (
    FAR,
    LEASE,
    SCHEME,
    A,
    B,
    C,
    Case,
    Quiet,
    Work,
    add,
    claims_of,
    delete,
    explore,
    fingerprints_of,
    stored_in,
)
from tests.simulated import Answer, Call, Server, SimulatedStore

pytestmark = pytest.mark.slow

BOTH_ACCEPTED = "a and b are near and both accepted"
a, b, c = ("a", A), ("b", B), ("c", C)


def claims(*documents: tuple[str, int], **options: Any) -> Work:
    return Work(documents, **options)


ONE, OTHER = claims(a), claims(b)
PAIR = ONE, OTHER
CROSSING = claims(a, ("b", FAR)), claims(("c", FAR ^ 1), ("d", B))
EARLY = claims(a, looks_early=True), claims(b, looks_early=True)
SHARING = {"shares": True, "looks_early": True}
UNREAD = {"looks_first": False}
CASES = {
    "near texts": Case(PAIR),
    "one id, twice": Case((ONE, ONE)),
    "one id with two texts": Case((ONE, claims(("a", FAR), clock=9))),
    "nothing near": Case((ONE, claims(("b", FAR)))),
    "near a stored text": Case(PAIR, stored=(c,), crashes=1, slow=1),
    "one crashes": Case(PAIR, crashes=1),
    "without a first lookup": Case((claims(a, looks_first=False), claims(b, looks_first=False))),
    "looks before puts": Case(EARLY, crashes=1),
    "a look before a put, one id with two texts": Case(
        (claims(a, looks_early=True), claims(("a", FAR), clock=9, looks_early=True))
    ),
    "a look before a put, one replaces its text": Case(
        (claims(a, replacing=True, looks_early=True), claims(b, looks_early=True)), stored=(("a", FAR),)
    ),
    "threads that share their last ticket": Case((claims(a, **SHARING), claims(b, **SHARING))),
    "unread, one id with two texts": Case((claims(a, **UNREAD), claims(("a", FAR), clock=9, **UNREAD))),
    "unread, one id is stored": Case((claims(a, ("b", FAR), **UNREAD), OTHER), stored=(a,)),
    "unread, deleted by a clock that is ahead": Case(
        (claims(a, **UNREAD), delete(("a", 0), clock=9)), stored=(a,)
    ),
    "unread, near what moves": Case(
        (claims(a, replacing=True, clock=9, **UNREAD), claims(("b", FAR ^ 1), replacing=True, **UNREAD)),
        stored=(("a", FAR),),
        crashes=1,
    ),
    "one replaces its text": Case((claims(a, replacing=True), OTHER), stored=(("a", FAR),)),
    "near what moves": Case(
        (claims(a, replacing=True, clock=9), claims(("b", FAR ^ 1), replacing=True)),
        stored=(("a", FAR),),
        crashes=1,
    ),
    "joined claims of near texts": Case((claims(a, joined=((b,),)), claims(("c", FAR)))),
    "two join a claim of one id": Case((claims(a, joined=((("a", FAR),), (c,))),), crashes=1),
    "one comes a moment later": Case((claims(a, later=((c,),)), OTHER)),
    "own rows are read first": Case((claims(a, own_first=True), claims(b, own_first=True)), crashes=1),
    "a text near one that its batch replaces": Case(
        (claims(("a", FAR), b, replacing=True, looks_first=False),), stored=(a,)
    ),
}
LONG = {
    "a look before a put, and a slow one": Case((EARLY[0], OTHER), slow=1),
    "of three, two are joined": Case((claims(a, joined=((c,),)), OTHER), crashes=1),
    "one comes a moment later, one crashes": Case((claims(a, later=((c,),)), OTHER), crashes=1),
    "own rows are read first, one is slow": Case((claims(a, own_first=True), OTHER), slow=1),
    "both crash": Case(PAIR, crashes=2),
    "the same text": Case((ONE, claims(("b", A)))),
    "one is slow": Case(PAIR, slow=1),
    "one is slow, one crashes": Case(PAIR, crashes=1, slow=1),
    "the time is up": Case((ONE, claims(b, timeout=5.0)), slow=1),
    "late copies": Case(PAIR, late=True),
    "late copies and a crash": Case(PAIR, late=True, crashes=1),
    "looks before puts, late copies": Case(EARLY, late=True),
    "looks before puts, a plain add of the id beside": Case((*EARLY, add(("a", FAR), clock=9))),
    "looks before puts, a delete beside": Case(
        (claims(a, clock=3, looks_early=True), delete(("a", 0))), stored=(a,), crashes=1, late=True
    ),
    "late copies without a first lookup": Case(
        (claims(a, looks_first=False), claims(b, looks_first=False)), late=True
    ),
    "two one after the other near one": Case((ONE, claims(b, c)), slow=1),
    "near an earlier one of its batch": Case((claims(b, a), claims(c)), crashes=1),
    "one id, one is slow": Case((ONE, ONE), slow=1),
    "one id with two texts, one is slow": Case((ONE, claims(("a", FAR), clock=9)), crashes=1, slow=1),
    "batches that cross": Case(CROSSING),
    "batches that cross, one crashes": Case(CROSSING, crashes=1),
    "one id and a near one": Case((claims(a, ("b", FAR)), claims(("a", FAR ^ 2), ("c", FAR ^ 1)))),
    "two replace one text": Case(
        (claims(a, replacing=True, clock=9), claims(("a", B), replacing=True)),
        stored=(("a", FAR),),
        crashes=1,
    ),
    "two replace one text, late copies": Case(
        (claims(a, replacing=True, clock=9), claims(("a", B), replacing=True)),
        stored=(("a", FAR),),
        late=True,
    ),
    "two replace theirs": Case(
        (claims(a, replacing=True), claims(b, replacing=True)),
        stored=(("a", FAR), ("b", FAR ^ 0xFF << 20)),
    ),
    "a replacing worker crashes": Case(
        (claims(a, replacing=True), OTHER), stored=(("a", FAR),), crashes=1, slow=1
    ),
    "a text near one that its batch replaces, and another batch": Case(
        (claims(("a", FAR), b, replacing=True), claims(("c", FAR ^ 1))), stored=(a,)
    ),
    "a plain add of the id beside": Case((ONE, OTHER, add(("a", FAR), clock=9))),
    "added and deleted beside": Case(
        (claims(a, replacing=True), add(("a", FAR), clock=9), delete(("a", 0), clock=9)), crashes=1
    ),
    "a delete beside": Case((claims(a, clock=3), delete(("a", 0))), stored=(a,), crashes=1, late=True),
    "key by key": Case(PAIR, crashes=1, fine=True),
}
# SourceTally workers, of which one is near two that are not near each other.
ONE_BETWEEN_TWO = Case((OTHER, ONE, claims(c)))


def right(case: Case) -> bool:
    explored = explore(case)
    if explored.violation is not None:
        pytest.fail("\n  ".join([explored.violation, *explored.steps]))
    return explored.ends > 0


@pytest.mark.parametrize("name", CASES)
def test_of_near_texts_at_most_one_is_accepted_and_nobody_waits_for_ever(name):
    assert right(CASES[name])


@pytest.mark.full
@pytest.mark.parametrize("name", LONG)
def test_with_more_beside(name):
    assert right(LONG[name])


@pytest.mark.full
def test_three_workers():
    assert right(ONE_BETWEEN_TWO)


# What is wrong, put into the real code. Each variant of the protocol that is known to be wrong is here, but
# for one column for all tokens, as a cell's name is the token; and those of vacuum, which
# tests/unit/test_abandoned_claims.py stops after each call.


def before_that(name: str, other: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Takes a step before the one that it has to follow."""

    def change(patch: pytest.MonkeyPatch) -> None:
        first, second = getattr(ClaimBatch, name), getattr(ClaimBatch, other)
        patch.setattr(ClaimBatch, name, lambda self: second(self))
        patch.setattr(ClaimBatch, other, lambda self: first(self))

    return change


def ticket_before_the_hints(patch: pytest.MonkeyPatch) -> None:
    before_that("_put", "_take_ticket")(patch)


def look_before_the_ticket(patch: pytest.MonkeyPatch) -> None:
    look = ClaimBatch._look

    def early(self: ClaimBatch) -> None:
        self._ticket = 1 << 40
        look(self)

    before_that("_take_ticket", "_look")(patch)
    patch.setattr(ClaimBatch, "_take_ticket", early)


def looks_before_tickets_always_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimBatch, "_is_next_after", lambda self, ticket: True)


def what_another_thread_found_counts(patch: pytest.MonkeyPatch) -> None:
    is_next_after = ClaimBatch._is_next_after

    def shared(self: ClaimBatch, ticket: int) -> bool:
        self._context.recent.is_alone = is_next_after(self, ticket)
        return self._context.recent.is_alone

    patch.setattr(ClaimBatch, "_is_next_after", shared)


def smaller_tokens_go_first(patch: pytest.MonkeyPatch) -> None:
    def earlier(self: ClaimBatch, document: str) -> list[Pending]:
        return [each for each in self._rows[document].pending if each.is_open and each.token < self._token]

    patch.setattr(ClaimBatch, "_earlier", earlier)


def all_wait_for_all(patch: pytest.MonkeyPatch) -> None:
    def earlier(self: ClaimBatch, document: str) -> list[Pending]:
        return [each for each in self._rows[document].pending if each.is_open]

    patch.setattr(ClaimBatch, "_earlier", earlier)


def wait_for_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimBatch, "_earlier", lambda self, document: [])


def pending_ones_of_the_same_id_are_ignored(patch: pytest.MonkeyPatch) -> None:
    earlier = ClaimBatch._earlier

    def others(self: ClaimBatch, document: str) -> list[Pending]:
        return [] if document in self.ids else earlier(self, document)

    patch.setattr(ClaimBatch, "_earlier", others)


def an_absent_row_is_void(patch: pytest.MonkeyPatch) -> None:
    is_open = Pending.is_open.fget
    patch.setattr(Pending, "is_open", property(lambda self: self.row is not None and is_open(self)))


def an_absent_row_accepts(patch: pytest.MonkeyPatch) -> None:
    decision = Pending.decision.fget
    patch.setattr(
        Pending, "decision", property(lambda self: decision(self) if self.row else Decision.ACCEPTED)
    )


def the_row_comes_first(patch: pytest.MonkeyPatch) -> None:
    an_absent_row_is_void(patch)
    put = ClaimBatch._put

    def first(self: ClaimBatch) -> None:
        self._ticket = 0
        row = BatchRow(0, (Decision.OPEN,) * len(self.ids))
        assert self._compare_and_set(row)
        self._row = row
        put(self)

    patch.setattr(ClaimBatch, "_put", first)


def deciding_by_a_plain_put(patch: pytest.MonkeyPatch) -> None:
    def put(self: ClaimBatch, row: BatchRow) -> bool:
        self._meta.put([(self._key, row.encode())])
        return True

    patch.setattr(ClaimBatch, "_compare_and_set", put)


def breaking_by_a_plain_put(patch: pytest.MonkeyPatch) -> None:
    def put(self: ClaimBatch, rival: Pending) -> None:
        frozen = replace(rival.row, frozen=True) if rival.row else BatchRow(0, frozen=True)
        self._meta.put([(rival.key, frozen.encode())])

    patch.setattr(ClaimBatch, "_freeze", put)


def breaking_forgets_decisions(patch: pytest.MonkeyPatch) -> None:
    def forget(self: ClaimBatch, rival: Pending) -> None:
        frozen = BatchRow(rival.row.ticket if rival.row else 0, frozen=True)
        self._meta.compare_and_set(rival.key, rival.value, frozen.encode())

    patch.setattr(ClaimBatch, "_freeze", forget)


def what_is_frozen_is_void_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claim_batch, "is_same_row", lambda now, before: True)


def who_was_broken_drops_the_row(patch: pytest.MonkeyPatch) -> None:
    clean = ClaimBatch._clean

    def drop(self: ClaimBatch) -> None:
        clean(self)
        self._tickets.delete([self._key], [self._context.clock() + claim_batch.FAR_AHEAD])

    patch.setattr(ClaimBatch, "_clean", drop)


def the_row_goes_before_the_commits(patch: pytest.MonkeyPatch) -> None:
    commit = ClaimBatch._commit

    def drop(self: ClaimBatch, places: Sequence[int]) -> None:
        if Decision.OPEN not in self._decisions:
            self._tickets.delete([self._key], [self._context.clock() + claim_batch.FAR_AHEAD])
        commit(self, places)

    patch.setattr(ClaimBatch, "_commit", drop)


def commits_before_the_decision(patch: pytest.MonkeyPatch) -> None:
    set_ = ClaimBatch._set

    def early(self: ClaimBatch, row: BatchRow, outcomes: Any) -> None:
        self._commit([place for place in outcomes if row.decision(place) is Decision.ACCEPTED])
        set_(self, row, outcomes)

    patch.setattr(ClaimBatch, "_set", early)


def answers_before_the_commits(patch: pytest.MonkeyPatch) -> None:
    commit, clean = ClaimBatch._commit, ClaimBatch._clean
    due: dict[ClaimBatch, Sequence[int]] = {}

    def late(self: ClaimBatch) -> None:
        commit(self, due.pop(self))
        clean(self)

    patch.setattr(ClaimBatch, "_commit", lambda self, places: due.update({self: places}))
    patch.setattr(ClaimBatch, "_clean", late)


def the_pending_cell_goes_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    commit = ClaimBatch._commit

    def bare(self: ClaimBatch, places: Sequence[int]) -> None:
        cells = [(self._keys[place], self._token) for place in places]
        self._cells.delete(cells, [self._versions[place] for place in places])
        commit(self, places)

    patch.setattr(ClaimBatch, "_commit", bare)


def who_sees_an_accepted_one_leaves_its_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimBatch, "_commit_for_others", lambda self, accepted: None)


SHORTCUTS = {
    smaller_tokens_go_first: Case(PAIR),
    all_wait_for_all: Case(PAIR),
    wait_for_nobody: Case(PAIR),
    pending_ones_of_the_same_id_are_ignored: Case((ONE, claims(("a", FAR), clock=9))),
    an_absent_row_is_void: Case(PAIR),
    an_absent_row_accepts: Case(PAIR),
    the_row_comes_first: Case(PAIR),
    deciding_by_a_plain_put: Case(PAIR, slow=1),
    breaking_by_a_plain_put: Case(PAIR, slow=1),
    the_row_goes_before_the_commits: Case(PAIR, slow=1),
    commits_before_the_decision: Case(PAIR, slow=1),
    answers_before_the_commits: Case((ONE,), crashes=1),
    the_pending_cell_goes_before_the_commit: Case(PAIR),
    who_sees_an_accepted_one_leaves_its_commit: Case(PAIR, crashes=1),
}
LONG_SHORTCUTS = {
    looks_before_tickets_always_count: Case(
        (claims(a, looks_early=True), claims(b), claims(c, **UNREAD)), stored=(("d", C ^ 1 << 62),)
    ),
    what_another_thread_found_counts: Case(
        (claims(a, **SHARING), claims(b, **SHARING), claims(c, **UNREAD)), stored=(("d", C ^ 1 << 62),)
    ),
    ticket_before_the_hints: ONE_BETWEEN_TWO._replace(slow=1),
    look_before_the_ticket: ONE_BETWEEN_TWO._replace(slow=1),
    what_is_frozen_is_void_at_once: Case(PAIR, slow=1, late=True),
}


@pytest.mark.parametrize("shortcut", SHORTCUTS, ids=lambda shortcut: shortcut.__name__)
def test_a_shortcut_is_caught(shortcut, monkeypatch):
    shortcut(monkeypatch)
    assert explore(SHORTCUTS[shortcut]).violation is not None


class Stopped(Exception):
    pass


def after_a_break_of_a_batch_that_was_half_decided() -> list[str]:
    """Who is stored: `a` was accepted and not committed when its worker stopped, as `far` had to wait for one
    that died; who waits for `far` breaks the batch; then `b` is claimed, and at last `a` is committed."""
    server, late = Server(), list[Call]()

    def stopped_by(stops: Callable[[Call], bool]) -> Callable[[Call], Answer]:
        def ask(call: Call) -> Answer:
            if stops(call):
                late.append(call)
                raise Stopped
            return server.ask(call)

        return ask

    with pytest.raises(Stopped):
        claim_by(stopped_by(lambda call: call.method == "compare_and_set"), ("dead", FAR ^ 1))
    with pytest.raises(Stopped):
        claim_by(stopped_by(lambda call: call.method == "put" and call.table == "documents"), a, ("far", FAR))
    claim_by(server.ask, ("waits", FAR ^ 2))
    claim_by(server.ask, b)
    server.ask(late[-1])
    return sorted({"a", "b"} & stored_in(server.state).keys())


def after_a_decision_that_came_too_late_was_carried_out_once_more() -> list[str]:
    """Who is stored: the batch of `a` is broken before it decides, and `b` accepted; who claims `c` has read
    the pending cell of `a` when its worker fails, cleans up, and its failed call is carried out again."""
    server, goes_on = Server(), threading.Event()
    decided = list[Call]()

    def slow(call: Call) -> Answer:
        if call.method == "compare_and_set" and not decided:
            decided.append(call)
            assert goes_on.wait(60)
        return server.ask(call)

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(claim_by, slow, a)
        while not decided:
            time.sleep(0.001)
        claim_by(server.ask, b)

        def ask(call: Call) -> Answer:
            answer = server.ask(call)
            if call.method == "get_all" and rows.document_key("a") in call.keys and not goes_on.is_set():
                goes_on.set()
                late.result(60)
                server.ask(decided[0])
            return answer

        claim_by(ask, c)
    return sorted({"a", "b"} & stored_in(server.state).keys())


def after_a_look_before_a_ticket_while_another_batch_takes_one() -> list[str]:
    """Who is stored: who claims `a` looks while the counter is at 1; then who claims `b` takes ticket 2, and
    looks when the batch of `a` waits with ticket 3, for one that died."""
    server = Server()
    has_ticket, waits = threading.Event(), threading.Event()

    def dies(call: Call) -> Answer:
        if call.method == "compare_and_set":
            raise Stopped
        return server.ask(call)

    with pytest.raises(Stopped):
        claim_by(dies, ("dead", C))

    def second(call: Call) -> Answer:
        answer = server.ask(call)
        if call.method == "increment":
            has_ticket.set()
            assert waits.wait(60)
        return answer

    with ThreadPoolExecutor(1) as pool:
        late = list[Future[None]]()

        def first(call: Call) -> Answer:
            if call.method == "increment":
                late.append(pool.submit(claim_by, second, b))
                assert has_ticket.wait(60)
            answer = server.ask(call)
            if call.method == "compare_and_set" and not waits.is_set():
                waits.set()
                late[0].result(60)
            return answer

        claim_by(first, a, ticket=1)
    return sorted({"a", "b"} & stored_in(server.state).keys())


def claim_by(ask: Callable[[Call], Answer], *documents: tuple[str, int], ticket: int = -1) -> None:
    context = ClaimContext(SimulatedStore(ask), SCHEME, lease=LEASE, waiting=Hasty())
    context.recent.ticket, context.recent.is_alone = ticket, ticket >= 0
    values = fingerprints_of([value for _, value in documents])
    claims_of(context, [document for document, _ in documents], values, timeout=2 * LEASE)


class Hasty(Quiet):
    """Half a lease passes with each wait."""

    def __init__(self) -> None:
        self._time = 0.0

    def time(self) -> float:
        return self._time

    def pause(self, seconds: float) -> None:
        self._time += LEASE / 2


def test_a_batch_that_is_broken_keeps_its_decisions(monkeypatch):
    assert after_a_break_of_a_batch_that_was_half_decided() == ["a"]
    breaking_forgets_decisions(monkeypatch)
    assert after_a_break_of_a_batch_that_was_half_decided() == ["a", "b"]


def test_a_batch_that_was_broken_leaves_its_row(monkeypatch):
    assert after_a_decision_that_came_too_late_was_carried_out_once_more() == ["b"]
    who_was_broken_drops_the_row(monkeypatch)
    assert after_a_decision_that_came_too_late_was_carried_out_once_more() == ["a", "b"]


def test_a_look_before_a_ticket_counts_where_nobody_takes_one_in_between(monkeypatch):
    assert after_a_look_before_a_ticket_while_another_batch_takes_one() == ["b"]
    looks_before_tickets_always_count(monkeypatch)
    assert after_a_look_before_a_ticket_while_another_batch_takes_one() == ["a", "b"]


def test_a_look_before_a_ticket_does_not_count_because_another_thread_was_alone(monkeypatch):
    always = property(lambda recent: True, lambda recent, value: None)  # as if the thread set it in between
    monkeypatch.setattr(Recent, "is_alone", always, raising=False)
    assert after_a_look_before_a_ticket_while_another_batch_takes_one() == ["b"]


@pytest.mark.full
@pytest.mark.parametrize("shortcut", LONG_SHORTCUTS, ids=lambda shortcut: shortcut.__name__)
def test_a_shortcut_is_caught_in_the_end(shortcut, monkeypatch):
    shortcut(monkeypatch)
    assert explore(LONG_SHORTCUTS[shortcut]).violation is not None
