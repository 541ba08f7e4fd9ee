"""The real writer, reader, vacuum and repair under every interleaving of their calls of the store, with a
late copy of any one put, a crash of a worker between any two calls, and clocks that differ.

What is explored: the cases below, each of at most two workers with at most four operations, one lookup and
one vacuum; by default call by call, where a call of several keys is carried out at once. With --full also
key by key, with two vacuums, and longer programs. Nothing is left out of a case but what
`tests/exploration.py` says.

What is checked, in every state that can come about: every stored document has its rows; a lookup returns
what was near throughout it, and nothing that was near at no time during it; when no operation is under way,
what is stored is what an operation made that no later one followed.

Each shortcut, put into the real code, has to be caught in some case: a check that never fails checks nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from simhbase.admin import vacuum
from simhbase.admin.check import Checker
from simhbase.admin.vacuum import Vacuum
from simhbase.index.reader import Reader
from simhbase.index.rows import listing_key, parse_obsolete
from simhbase.stores.base import Changes
from tests.exploration import (
    LIKE,
    OTHER,
    SALTS,
    UNLIKE,
    VERIFIED,
    A,
    B,
    C,
    Case,
    Explored,
    Rules,
    Text,
    X,
    Y,
    add,
    copy,
    delete,
    delete_seen,
    explore,
)
from tests.simulated import SimulatedStore

pytestmark = pytest.mark.slow

CASES = {
    "one writer: add, move, delete, add again": Case(((add(X, A), add(X, B), delete(X), add(X, A)),), (5,)),
    "two writers, one id": Case(((add(X, A),), (add(X, C),)), (9, 1)),
    "move beside move": Case(((add(X, B),), (add(X, A),)), (1, 9), ((X, A, 3),)),
    "delete beside add": Case(((delete(X),), (add(X, B),)), (9, 1), ((X, A, 3),)),
    "move there and back, y shares the drawer": Case(
        ((add(X, B), add(X, A)), (add(Y, A),)), (4, 6), ((X, A, 3), (Y, A, 2))
    ),
    "the drawer empties while another comes": Case(((delete(X),), (add(Y, A),)), (9, 1), ((X, A, 3),)),
    "added and deleted": Case(((add(X, A), delete(X)),), (5,)),
    "away, then back to the old drawer": Case(((add(X, C), add(X, A)),), (7,), ((X, A, 3),)),
    "both clocks are behind what is stored": Case(((add(X, B),), (delete(X),)), (1, 2), ((X, A, 9),)),
}
BACK = "away, then back to the old drawer"
LONGEST = ["one writer: add, move, delete, add again", "move there and back, y shares the drawer"]
LONG = Case(((add(X, B), add(X, A)), (add(X, A), add(X, C))), (1, 9), ((X, A, 3),))
# Two writers see the same version, and their clocks show the same time or less: chance keeps them apart.
TIES = {
    "added twice at one time": Case(((add(X, A),), (add(X, C),)), (5, 5)),
    "two moves at one time": Case(((add(X, B),), (add(X, C),)), (5, 5), ((X, A, 3),)),
    "delete and move at one time": Case(((delete(X),), (add(X, B),)), (5, 5), ((X, A, 3),)),
    "move beside delete and add again": Case(((delete(X), add(X, A)), (add(X, B),)), (5, 5), ((X, A, 3),)),
}

# Rows of another store come with versions of the past, and what is too old is deleted as it was seen.
PAST = {
    "copied back to where it was": Case(
        ((copy(X, A, 3),),),
        (5,),
        ((X, A, 1), (X, B, 2), (Y, A, 1)),
    ),
    "copied beside a writer": Case(((copy(X, A, 4),), (add(X, B),)), (9, 5), ((X, C, 3),)),
    "copied twice": Case(((copy(X, A, 4),), (copy(X, A, 4),)), (9, 5), ((X, B, 3),)),
    "deleted as seen beside a writer": Case(((delete_seen(X, 3),), (add(X, B),)), (90, 50), ((X, A, 3),)),
    "deleted as seen, then copied": Case(((delete_seen(X, 3), copy(X, A, 9)),), (5,), ((X, A, 3),)),
}


def sketched(text: Text, sketch: bytes) -> Text:
    return text._replace(sketch=sketch)


def verified(
    programs: tuple[tuple[object, ...], ...], clocks: tuple[int, ...], *stored: tuple[str, Text, int]
) -> Case:
    return Case(programs, clocks, stored, VERIFIED)


NEAR_A, NEAR_B = sketched(A, LIKE), sketched(B, LIKE)
OTHER_A, OTHER_C = sketched(A, UNLIKE), sketched(C, OTHER)
SKETCHES = {
    "two texts of one fingerprint": verified(((add(X, NEAR_A),), (add(X, OTHER_A),)), (9, 1)),
    "the text changes and its fingerprint stays": verified(
        ((add(X, OTHER_A), add(X, NEAR_A)), (add(X, sketched(A, OTHER)),)), (1, 9), (X, NEAR_A, 3)
    ),
    "away, then back with a text that is not near": verified(
        ((add(X, OTHER_C), add(X, OTHER_A)),), (4,), (X, NEAR_A, 3)
    ),
    "away, then back with a text that is near": verified(
        ((add(X, NEAR_B), add(X, NEAR_A)),), (4,), (X, OTHER_A, 3)
    ),
}


def quickly(cases: Iterable[str], *long: str) -> list[Any]:
    """The names of cases, of which the long ones run with --full only."""
    return [pytest.param(name, marks=pytest.mark.full) if name in long else name for name in cases]


@pytest.fixture(autouse=True)
def one_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids are of one salt; that nothing is found under the others need not be looked at in each state."""
    monkeypatch.setattr(vacuum, "SALTS", SALTS)


def repaired(run: Vacuum) -> None:
    """A repair in place of the vacuum, which must find garbage alone."""
    report = Checker(run.store, run.scheme, repair=True, grace=run.grace, clock=run.clock).check()
    assert report.clean, report


def right(explored: Explored) -> bool:
    """Says by which way something went wrong."""
    if explored.violation is not None:
        pytest.fail("\n  ".join([explored.violation.kind, *explored.violation.steps]))
    return True


@pytest.mark.parametrize("grace", ["quiet", pytest.param("passes", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", LONGEST)
def test_longer_programs_lose_nothing_and_find_nothing_stale(name, grace, record_property):
    explored = explore(CASES[name], Rules(grace=grace))
    record_property("states", explored.states)
    assert right(explored)


@pytest.mark.parametrize("grace", ["quiet", "passes"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in LONGEST])
def test_however_they_interleave_nothing_is_lost_and_nothing_stale_is_found(name, grace, record_property):
    explored = explore(CASES[name], Rules(grace=grace))
    record_property("states", explored.states)
    assert right(explored)


@pytest.mark.parametrize("name", quickly(TIES, "move beside delete and add again"))
def test_writers_of_one_time_take_nothing_from_each_other(name):
    assert right(explore(TIES[name]))


@pytest.mark.parametrize("name", PAST)
def test_versions_of_the_past_lose_nothing_and_find_nothing_stale(name):
    assert right(explore(PAST[name]))


@pytest.mark.parametrize(
    "name",
    quickly(PAST, "copied beside a writer", "copied twice", "deleted as seen beside a writer"),
)
def test_a_repair_beside_versions_of_the_past_harms_nothing(name):
    assert right(explore(PAST[name], Rules(vacuum=repaired)))


@pytest.mark.parametrize("name", SKETCHES)
def test_a_sketch_is_that_of_the_text_that_is_stored(name):
    assert right(explore(SKETCHES[name]))


@pytest.mark.parametrize(
    "name",
    quickly(
        CASES,
        *LONGEST,
        BACK,
        "two writers, one id",
        "move beside move",
        "delete beside add",
        "both clocks are behind what is stored",
    ),
)
def test_a_repair_beside_writers_harms_nothing(name):
    assert right(explore(CASES[name], Rules(vacuum=repaired)))


@pytest.mark.full
@pytest.mark.parametrize("grace", ["quiet", "passes"])
@pytest.mark.parametrize("name", CASES)
def test_key_by_key_nothing_is_lost_and_nothing_stale_is_found(name, grace):
    assert right(explore(CASES[name], Rules(grace=grace, fine=True)))


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in CASES if name not in LONGEST])
def test_two_vacuums_harm_nothing(name):
    assert right(explore(CASES[name], Rules(vacuums=2)))


@pytest.mark.full
def test_two_writers_that_both_move_a_document_twice():
    assert right(explore(LONG))


class ForgetsListings(SimulatedStore):
    """Deletes in the hot path what documents leave behind."""

    def commit(self, changes: Changes) -> None:
        super().commit(changes)
        left = [parse_obsolete(key) for key, _ in changes.rows("obsolete")]
        keys = [listing_key(each.fingerprint, each.id) for each in left]
        self.records("fingerprints").delete(keys, [changes.version] * len(keys))


class CommitsFirst(SimulatedStore):
    def commit(self, changes: Changes) -> None:
        self.records("documents").put(changes.rows("documents"), changes.version)
        super().commit(changes)


class TimesRowsItself(SimulatedStore):
    """Gives index rows the writer's version in place of the server's time."""

    def commit(self, changes: Changes) -> None:
        self.records("obsolete").put(changes.rows("obsolete"), changes.time)
        self.records("fingerprints").put(changes.rows("fingerprints"), changes.version)
        self.drawers.add(changes.index, changes.version)
        self.records("documents").put(changes.rows("documents"), changes.version)


class TakesHintsFromThePast(SimulatedStore):
    """Gives listings the version of their documents, however old it is."""

    def commit(self, changes: Changes) -> None:
        self.records("obsolete").put(changes.rows("obsolete"), changes.time)
        self.records("fingerprints").put(changes.rows("fingerprints"), changes.version)
        self.drawers.add(changes.index)
        self.records("documents").put(changes.rows("documents"), changes.version)


class GivesOneVersion(SimulatedStore):
    def commit(self, changes: Changes) -> None:
        super().commit(replace(changes, version=5, time=5))


class TrustsListings(Reader):
    """Takes the store for one whose hints are always right."""

    _asks_documents = False


EMPTIES = "the drawer empties while another comes"
SHORTCUTS = {
    "listings are deleted in the hot path": (
        "move there and back, y shares the drawer",
        Rules(store=ForgetsListings),
    ),
    "the commit comes before the hints": ("two writers, one id", Rules(store=CommitsFirst)),
    "the vacuum waits for nobody": (BACK, Rules(grace="none")),
    "the vacuum takes what is new for old": (BACK, Rules(grace="old")),
    "the reader trusts listings": ("move beside move", Rules(reader=TrustsListings)),
    # The clock of the writer who comes is behind by more than the grace time.
    "index rows have the writer's version": (EMPTIES, Rules(store=TimesRowsItself, grace="old")),
}


@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_shortcut_is_caught(name):
    case, rules = SHORTCUTS[name]
    assert explore(CASES[case], rules).violation is not None


def test_hints_of_the_past_are_caught():
    rules = Rules(store=TakesHintsFromThePast)
    assert explore(PAST["copied back to where it was"], rules).violation is not None


def test_versions_that_do_not_rise_are_caught():
    assert explore(CASES["two writers, one id"], Rules(store=GivesOneVersion)).violation is not None


def test_the_server_s_time_of_index_rows_makes_up_for_a_clock_far_behind():
    """What the shortcut of the writer's version breaks."""
    assert right(explore(CASES[EMPTIES], Rules(grace="old")))
