"""Claims of many callers in common batches, over a simulated store whose calls can be held back."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from math import inf

import pytest

from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.index.claims import claim
from simhbase.index.claims.batch import ClaimContext, ClaimKind
from simhbase.index.claims.claim import BatchClaimer, Claimed, QueuedClaims
from simhbase.index.rows import BATCH_ROWS
from simhbase.index.writer import DocumentBatch
from simhbase.model.values import Claim
from simhbase.stores.meta import Meta
from tests.claiming import FAR, SCHEME, A, claims_of, fingerprints_of, stored_in
from tests.simulated import NAMED, Answer, Call, Server, SimulatedStore, table_of, visible

LONG = 60.0  # seconds, which only a hang takes
INTERRUPTED_AGAIN = 5.0  # seconds after an interrupt
NEAR = A ^ 1
KIND = ClaimKind(SCHEME.bounds(None, None))


class Gate:
    """A server that threads ask. hold: which calls wait until `open` is set; raising: what is raised for a
    call."""

    def __init__(self) -> None:
        self.server = Server()
        self.open = threading.Event()
        self.hold: Callable[[Call], bool] = lambda call: False
        self.raising: Callable[[Call], Exception | None] = lambda call: None
        self.tickets = 0
        self._arrived = threading.Semaphore(0)
        self._lock = threading.Lock()

    def ask(self, call: Call) -> Answer:
        if self.hold(call) and not self.open.is_set():
            self._arrived.release()
            assert self.open.wait(LONG)
        with self._lock:
            self.tickets += call.method == "increment"
            if error := self.raising(call):
                raise error
            return self.server.ask(call)

    def wait_for(self, calls: int) -> None:
        for _ in range(calls):
            assert self._arrived.acquire(timeout=LONG)


class Claims:
    """Claims of many callers."""

    def __init__(self, gate: Gate, lease: float, count: Callable[..., None]) -> None:
        context = ClaimContext(SimulatedStore(gate.ask), SCHEME, lease=lease, count=count)
        self.claimer = BatchClaimer(context)

    def begin(self, document: str, value: int, timeout: float = LONG) -> Future[Claimed]:
        request = QueuedClaims.of(DocumentBatch([document], fingerprints_of([value])), KIND, timeout)
        self.claimer.begin(request)
        return request.future

    def claim(self, document: str, value: int) -> Claim:
        return answer(self.begin(document, value))


def answer(begun: Future[Claimed]) -> Claim:
    (claim,) = begun.result(LONG).claims
    return claim


@contextmanager
def claims(
    gate: Gate, lease: float = LONG, count: Callable[..., None] = lambda name, by=1, **labels: None
) -> Iterator[Claims]:
    claiming = Claims(gate, lease, count)
    try:
        yield claiming
    finally:
        gate.open.set()
        claiming.claimer.close()


def far(number: int) -> int:
    """Fingerprints that are not near each other."""
    return (0x9E3779B97F4A7C15 * (number + 2)) & (1 << 64) - 1


@contextmanager
def one_on_its_way(gate: Gate) -> Iterator[Claims]:
    """Claims of which a batch is on its way, which gets no further until the gate opens."""
    gate.hold = lambda call: call.method == "increment"
    with claims(gate) as claiming:
        first = claiming.begin("first", far(1))
        gate.wait_for(1)
        yield claiming
        assert answer(first).accepted


def test_who_claims_while_a_batch_is_on_its_way_shares_the_next():
    gate = Gate()
    with one_on_its_way(gate) as claiming:
        more = [claiming.begin(f"more {number}", far(number)) for number in range(2, 22)]
        gate.open.set()
        assert all(answer(each).accepted for each in more)
    assert gate.tickets == 2
    assert len(stored_in(gate.server.state)) == 21


def test_few_claims_wait_for_no_call_of_many(monkeypatch):
    monkeypatch.setattr(claim, "LARGEST_SHARED", 3)
    gate = Gate()
    gate.hold = lambda call: call.method == "increment" and not gate.tickets
    with claims(gate) as claiming:
        ids, values = [f"many {number}" for number in range(5)], fingerprints_of(list(map(far, range(5))))
        many = QueuedClaims.of(DocumentBatch(ids, values), KIND, LONG)
        claiming.claimer.begin(many)
        gate.wait_for(1)
        gate.hold = lambda call: False
        assert claiming.claim("few", far(5)).accepted
        assert not many.future.done()
        gate.open.set()
        assert all(each.accepted for each in many.result().claims)


def test_of_near_ones_in_a_batch_the_first_is_accepted_and_one_id_is_claimed_once():
    gate = Gate()
    with one_on_its_way(gate) as claiming:
        given = [("a", A), ("b", NEAR), ("c", A), ("a", A), ("a", FAR)]
        begun = [claiming.begin(*each) for each in given]
        gate.open.set()
        found = [answer(each) for each in begun]
        assert [each.outcome for each in found] == [
            "accepted",
            "duplicate",
            "duplicate",
            "accepted",
            "conflict",
        ]
        assert {each.match.id for each in found if each.match} == {"a"}


def test_an_answer_waits_for_no_cleaning_up_and_close_waits_for_it():
    gate = Gate()
    gate.hold = lambda call: call.method == "delete" and call.table == "meta"
    with claims(gate) as claiming, ThreadPoolExecutor(1) as pool:
        assert claiming.claim("a", A).accepted
        gate.wait_for(1)
        assert rows_of_batches(gate) == 1
        closing = pool.submit(claiming.claimer.close)
        assert not closing.done()
        gate.open.set()
        closing.result(LONG)
        assert rows_of_batches(gate) == 0
        assert not list(visible(table_of(gate.server.state, NAMED)))
        with pytest.raises(StoreFailed, match="claims were closed"):
            claiming.claim("b", FAR)


def test_many_batches_are_cleaned_up_together_and_at_once_when_claims_are_closed(monkeypatch):
    monkeypatch.setattr(claim, "IDLE", LONG)
    gate, deletes = Gate(), Counter[str]()

    def note(call: Call) -> None:
        deletes[call.table] += call.method == "delete"

    gate.raising = note
    with claims(gate) as claiming, ThreadPoolExecutor(1) as pool:
        assert all(claiming.claim(f"far {number}", far(number)).accepted for number in range(10))
        assert not deletes.total()
        pool.submit(claiming.claimer.close).result(LONG / 2)
    assert rows_of_batches(gate) == 0
    assert not list(visible(table_of(gate.server.state, NAMED)))
    assert max(deletes[NAMED], deletes["meta"]) == 1


def test_a_process_that_claims_alone_reads_once_and_before_it_puts():
    gate = Gate()
    calls = list[tuple[str, str]]()

    def note(call: Call) -> None:
        calls.append((call.table, call.method))

    with claims(gate) as claiming:
        assert all(claiming.claim(f"far {number}", far(number)).accepted for number in range(100))
        gate.raising = note
        assert claiming.claim("a", A).accepted
    assert calls.count(("documents", "get_all")) == calls.count(("index", "scan")) == 1
    assert calls.index(("index", "scan")) < calls.index((NAMED, "put"))


def rows_of_batches(gate: Gate) -> int:
    return sum(each.key.startswith(BATCH_ROWS) for each in visible(table_of(gate.server.state, "meta")))


def leave_a_dead_claim(gate: Gate, value: int, lease: float) -> None:
    class Died(Exception):
        pass

    def ask(call: Call) -> Answer:
        if call.method == "compare_and_set":
            raise Died
        return gate.ask(call)

    context = ClaimContext(SimulatedStore(ask), SCHEME, lease=lease)
    with pytest.raises(Died):
        claims_of(context, ["dead"], fingerprints_of([value]))


def test_claims_that_wait_for_others_keep_nobody_from_claiming_and_end_at_their_own_time():
    gate = Gate()
    leave_a_dead_claim(gate, A, lease=LONG)
    with claims(gate) as claiming:
        waiting = [claiming.begin(f"near {number}", A ^ 1 << number, timeout=2.0) for number in range(6)]
        patient = claiming.begin("patient", A ^ 1 << 7, timeout=LONG)
        assert all(claiming.claim(f"far {number}", far(number)).accepted for number in range(5))
        assert not patient.done()
        assert {answer(each).outcome for each in waiting} == {"undecided"}
        assert not patient.done()
        end_the_dead_claim(gate)
        assert answer(patient).accepted


def end_the_dead_claim(gate: Gate) -> None:
    (row,) = [each for each in visible(table_of(gate.server.state, NAMED)) if each.key[4:8] == b"dead"]
    store = SimulatedStore(gate.ask)
    store.document_cells.delete([(row.key[:-16], row.key[-16:])], [row.version])


@pytest.fixture(params=["ends calls of the system", "lets them go on"])  # as after importing polars
def ctrl_c(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, request.param == "ends calls of the system")
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_gives_up_a_claim_that_waits_for_others_so_that_nobody_waits_to_close():
    gate = Gate()
    leave_a_dead_claim(gate, A, lease=10 * LONG)
    with claims(gate) as claiming, ThreadPoolExecutor(1) as pool:
        gate.hold = lambda call: call.method == "get_all" and interrupt()
        request = QueuedClaims.of(DocumentBatch(["near"], fingerprints_of([NEAR])), KIND, 10 * LONG)
        gate.open.set()
        interrupted = [-inf]

        def interrupt() -> bool:
            """Again after a while, as a person does: one that strikes in a destructor is lost."""
            is_time = time.monotonic() - interrupted[-1] > INTERRUPTED_AGAIN
            if gate.tickets > 1 and is_time and not request.is_given_up.is_set():
                interrupted.append(time.monotonic())
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return False

        claiming.claimer.begin(request)
        with pytest.raises(KeyboardInterrupt):
            request.result()
        pool.submit(claiming.claimer.close).result(LONG / 2)
    assert stored_in(gate.server.state) == {}


def test_what_one_of_them_meets_the_others_do_not():
    gate = Gate()
    leave_a_dead_claim(gate, A, lease=LONG)
    (row,) = visible(table_of(gate.server.state, NAMED))
    Meta(SimulatedStore(gate.ask)).put([(BATCH_ROWS + row.key[-16:], b"no row of a batch")])
    with one_on_its_way(gate) as claiming:
        others = [claiming.begin(f"far {number}", far(number)) for number in range(2, 6)]
        near = claiming.begin("near", NEAR)
        others += [claiming.begin(f"far {number}", far(number)) for number in range(6, 9)]
        gate.open.set()
        assert all(answer(each).accepted for each in others)
        with pytest.raises(StoreFailed, match="cannot be read"):
            answer(near)


def test_a_store_that_is_away_is_everybodys_error():
    gate = Gate()
    with one_on_its_way(gate) as claiming:
        begun = [claiming.begin(f"more {number}", far(number)) for number in range(2, 6)]
        gate.raising = lambda call: (
            StoreUnreachable("nobody answers") if call.method == "get_all" and len(call.keys) > 1 else None
        )
        gate.open.set()
        errors = [each.exception(LONG) for each in begun]
        assert {str(error) for error in errors} == {"nobody answers"}
        assert len({id(error) for error in errors}) == len(errors), "each raises, and keeps, its own"
        gate.raising = lambda call: None
        assert claiming.claim("more 2", far(2)).accepted


def test_who_counts_and_fails_harms_its_own_claims_alone():
    gate = Gate()
    leave_a_dead_claim(gate, A, lease=LONG)

    def count(name: str, by: int = 1, **labels: str) -> None:
        if name == "claim_waits":
            raise RuntimeError(f"{name} cannot be counted")

    with claims(gate, count=count) as claiming:
        with pytest.raises(RuntimeError, match="claim_waits cannot be counted"):
            claiming.claim("near", NEAR)
        assert all(claiming.claim(f"far {number}", far(number)).accepted for number in range(4))


def test_what_is_cancelled_before_it_begins_is_not_claimed():
    gate = Gate()
    with one_on_its_way(gate) as claiming:
        begun = [claiming.begin(f"more {number}", far(number)) for number in range(2, 5)]
        assert begun[1].cancel()
        gate.open.set()
        assert answer(begun[0]).accepted
        assert answer(begun[2]).accepted
    assert "more 3" not in stored_in(gate.server.state)
