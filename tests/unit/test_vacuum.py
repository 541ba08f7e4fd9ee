"""What writers leave behind that nobody has noted."""

from contextlib import suppress

import pytest

from simhbase.admin.vacuum import DAY, Vacuum, VacuumReport
from simhbase.index import rows
from simhbase.index.part import Part
from simhbase.index.writer import DocumentBatch, Writer, known
from tests.claiming import FAR, SCHEME, A, fingerprints_of
from tests.simulated import Server, SimulatedStore
from tests.stopping import Crash, Stopping

NOW = 10 * DAY * 1000  # milliseconds
LATER = NOW + 3 * DAY * 1000


@pytest.fixture
def store() -> SimulatedStore:
    server = Server()
    server.least_time = NOW
    return SimulatedStore(server.ask)


def listings(store: SimulatedStore) -> set[tuple[int, str] | None]:
    return {rows.parse_listing(key) for batch in store.records("fingerprints").iterate() for key, _ in batch}


def lose_a_race(store: SimulatedStore) -> None:
    """Two writers see that a document is not stored, and both store it."""
    plans = [
        Writer(store, SCHEME).plan(DocumentBatch(["a"], fingerprints_of([value])), time)
        for value, time in ((A, NOW), (FAR, NOW + 5_000))
    ]
    for changes, _ in plans:
        store.commit(changes)


def test_a_sweep_removes_what_the_loser_of_a_race_has_left(store):
    lose_a_race(store)
    assert listings(store) == {(A, "a"), (FAR, "a")}
    vacuum = Vacuum(store, SCHEME, clock=lambda: LATER)
    assert vacuum.run() == VacuumReport()  # nobody has noted it
    swept = vacuum.run(Part(1, 1))
    assert (swept.listings, swept.index_rows) == (1, 2)
    assert listings(store) == {(FAR, "a")}
    assert vacuum.run(Part(1, 1)) == VacuumReport()


def test_parts_of_a_sweep_are_together_the_whole(store):
    lose_a_race(store)
    removed = [
        Vacuum(store, SCHEME, clock=lambda: LATER).run(Part(number, 7)).listings for number in range(1, 8)
    ]
    assert sum(removed) == 1
    assert listings(store) == {(FAR, "a")}


def test_a_sweep_leaves_what_may_still_be_under_way(store):
    lose_a_race(store)
    assert Vacuum(store, SCHEME, clock=lambda: NOW + 1000).run(Part(1, 1)).listings == 0
    assert listings(store) == {(A, "a"), (FAR, "a")}


def test_what_a_document_leaves_is_noted_before_it_moves(store):
    """A writer that crashes at any of its calls leaves no obsolete listing that vacuum does not know of."""
    moves = 0
    for calls in range(10):
        document = str(calls)
        Writer(store, SCHEME, lambda: NOW).add(DocumentBatch([document], fingerprints_of([A])))
        with suppress(Crash):
            Writer(Stopping(store, calls), SCHEME, lambda: NOW + 5_000).add(
                DocumentBatch([document], fingerprints_of([FAR]))
            )
        (found,) = known(store, [document])
        if found.entry.fingerprint == FAR:
            moves += 1
            Vacuum(store, SCHEME, clock=lambda: LATER).run()
            assert (A, document) not in listings(store)
    assert 0 < moves < 10


def test_few_notes_are_looked_at_together_whatever_their_salts(store, monkeypatch):
    writer = Writer(store, SCHEME, lambda: NOW)
    ids = [f"document {number}" for number in range(40)]
    for value in (A, FAR):
        writer.add(DocumentBatch(ids, fingerprints_of([value] * len(ids))))
    batches, looked_at = [], Vacuum._notes
    monkeypatch.setattr(
        Vacuum,
        "_notes",
        lambda self, notes, *more: batches.append(len(notes)) or looked_at(self, notes, *more),
    )
    noted = []
    report = Vacuum(store, SCHEME, clock=lambda: LATER, progress=noted.append).run()
    assert (report.looked_at, report.listings, sum(noted)) == (40, 40, 40)
    assert batches == [40]
    assert listings(store) == {(FAR, document) for document in ids}


def test_what_a_sweep_would_remove_is_counted_before(store):
    """The count names the old listings that lead nowhere, and all, and changes nothing."""
    lose_a_race(store)
    before = listings(store)
    removal = Vacuum(store, SCHEME, clock=lambda: LATER).count_stale(Part(1, 1))
    assert (removal.removed, removal.of, listings(store)) == (1, 2, before)
