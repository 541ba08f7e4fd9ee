"""What is left of a claim whose worker died, and nobody has waited for."""

import signal

import numpy as np
import pytest

from simhbase.admin.check import ABANDONED, STRAY_LISTING, UNREADABLE, Checker
from simhbase.admin.vacuum import DAY, Vacuum
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.claims.batch import ClaimContext, ClaimKind
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.process.interrupt import defer_interrupts
from tests.claiming import FAR, SCHEME, A, Quiet, accepted_in, claims_of, stored_in
from tests.simulated import Call, Server, SimulatedStore

NOW = 10 * DAY * 1000  # milliseconds
LATER = NOW + 3 * DAY * 1000


class Died(Exception):
    pass


def batch(*values: int) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


@pytest.fixture(params=["new", "stored with another text"])
def server(request: pytest.FixtureRequest) -> Server:
    return left_by_a_dead_worker(lease=0.01, is_new=request.param == "new")


def left_by_a_dead_worker(lease: float, is_new: bool = True) -> Server:
    """Of one that died when its claim had a ticket, and before it could decide."""
    server = Server()
    server.least_time = NOW
    if not is_new:
        Writer(SimulatedStore(server.ask), SCHEME, lambda: NOW - 5).add(DocumentBatch(["a"], batch(FAR)))

    def ask(call: Call) -> object:
        if call.method == "compare_and_set":
            raise Died
        return server.ask(call)

    context = ClaimContext(SimulatedStore(ask), SCHEME, lambda: NOW, lease=lease, waiting=Quiet())
    with pytest.raises(Died):
        claims_of(context, ["a"], batch(A), ClaimKind(SCHEME.bounds(None, None), replacing=True))
    return server


def checked(server: Server, time: int, repair: bool = False) -> dict[str, int]:
    found = Checker(SimulatedStore(server.ask), SCHEME, repair, DAY, lambda: time).check()
    assert found.clean
    return dict(found.garbage)


def test_a_check_leaves_a_young_claim_alone_and_ends_an_old_one(server):
    before = stored_in(server.state)
    assert checked(server, NOW + 1000, repair=True) == {}
    found = checked(server, LATER, repair=True)
    assert found[ABANDONED] == 1
    assert ABANDONED not in checked(server, LATER)
    assert stored_in(server.state) == before


def test_a_repair_leaves_a_young_claim_alone_also_if_it_is_damaged():
    """It was removed at once: a near claim that had not seen it yet would have been accepted, too."""
    server = left_by_a_dead_worker(lease=0.01)
    store = SimulatedStore(server.ask)
    ((key, cells),) = [row for batch in store.document_cells.iterate() for row in batch]
    ((token, cell),) = cells.items()
    store.document_cells.put(token, [(key, cell.value[:-1])], [cell.version])
    near = ClaimContext(store, SCHEME, lambda: NOW + 1000, lease=0.01, waiting=Quiet())
    for repair in (False, True):
        report = Checker(store, SCHEME, repair, DAY, lambda: NOW + 1000).check()
        assert report.problems == {UNREADABLE: 1}
        assert not report.clean
        with pytest.raises(StoreFailed, match=r"a claim of the document 'a'.*a day after it was written"):
            claims_of(near, ["b"], batch(A ^ 1))
    assert Checker(store, SCHEME, True, DAY, lambda: LATER).check().problems == {UNREADABLE: 1}
    assert Checker(store, SCHEME, False, DAY, lambda: LATER).check().clean
    (claim,) = claims_of(near, ["b"], batch(A ^ 1)).claims
    assert claim.accepted


def test_a_vacuum_removes_what_an_ended_claim_has_left(server):
    before = stored_in(server.state)
    checked(server, LATER, repair=True)
    server.least_time = LATER
    Vacuum(SimulatedStore(server.ask), SCHEME, DAY, lambda: LATER + 2 * DAY * 1000).run()
    assert checked(server, LATER + 3 * DAY * 1000) == {}
    assert stored_in(server.state) == before


def test_a_vacuum_leaves_the_hints_of_a_claim_that_is_pending(server):
    Vacuum(SimulatedStore(server.ask), SCHEME, DAY, lambda: NOW + 1000).run()
    context = ClaimContext(SimulatedStore(server.ask), SCHEME, lambda: NOW, lease=0.01)
    (claim,) = claims_of(context, ["b"], batch(A ^ 1)).claims
    assert claim.accepted
    assert STRAY_LISTING not in checked(server, NOW + 2000)


def test_a_vacuum_that_stops_anywhere_brings_no_deleted_document_back():
    """Of a claim that was accepted and committed, and whose worker died before it had cleaned up."""
    stops = 0
    while True:
        server = left_by_an_accepted_claim()
        Writer(SimulatedStore(server.ask), SCHEME, lambda: NOW + 10).delete(["a"])
        assert accepted_in(server.state) == {}
        server.least_time = LATER
        left = [stops]

        def ask(call: Call, server: Server = server, left: list[int] = left) -> object:
            if call.method == "delete":
                if not left[0]:
                    raise Died
                left[0] -= 1
            return server.ask(call)

        vacuum = Vacuum(SimulatedStore(ask), SCHEME, DAY, lambda: LATER)
        try:
            removed = vacuum.run()
        except Died:
            assert accepted_in(server.state) == {}
            stops += 1
            continue
        assert (removed.claims, removed.deleted_documents) == (2, 1)
        assert accepted_in(server.state) == {}
        assert checked(server, LATER) == {}
        assert stops > 3
        return


def left_by_an_accepted_claim() -> Server:
    server = Server()
    server.least_time = NOW

    def ask(call: Call) -> object:
        if call.method == "delete":
            raise Died
        return server.ask(call)

    context = ClaimContext(SimulatedStore(ask), SCHEME, lambda: NOW, waiting=Quiet())
    assert claims_of(context, ["a"], batch(A)).claims[0].accepted
    assert accepted_in(server.state) == {"a": A}
    return server


def test_a_repair_that_ends_the_claim_of_a_stored_document_notes_nothing_obsolete():
    server = left_by_an_accepted_claim()
    assert checked(server, LATER, repair=True)[ABANDONED] == 1
    assert checked(server, LATER) == {}
    assert list(SimulatedStore(server.ask).records("obsolete").iterate()) == []
    assert accepted_in(server.state) == {"a": A}


def test_a_vacuum_takes_no_young_claim_and_no_tombstone_before_it():
    server = left_by_an_accepted_claim()
    Writer(SimulatedStore(server.ask), SCHEME, lambda: NOW - DAY).delete(["a"])
    removed = Vacuum(SimulatedStore(server.ask), SCHEME, DAY, lambda: NOW + DAY).run()
    assert (removed.claims, removed.deleted_documents) == (0, 0)


def test_ctrl_c_that_is_put_off_ends_a_claim_that_waits_for_others():
    class Interrupted(Quiet):
        def __init__(self) -> None:
            self.now = 0.0

        def time(self) -> float:
            return self.now

        def pause(self, seconds: float) -> None:
            self.now += 1
            signal.raise_signal(signal.SIGINT)

    server = left_by_a_dead_worker(lease=1000)
    context = ClaimContext(SimulatedStore(server.ask), SCHEME, lambda: NOW, waiting=Interrupted())
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        claimed = claims_of(context, ["b", "c"], batch(A ^ 1, FAR), timeout=600)
    waits, far = claimed.claims
    assert far.accepted
    assert waits.outcome == "undecided"
    assert waits.reason is not None
    assert waits.reason.startswith("interrupted while others had not decided")
    stored = stored_in(server.state)
    assert set(stored) == {"c"}
