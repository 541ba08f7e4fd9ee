"""The real code of claims under every interleaving of its calls of the store, where many processes write.

What is checked, in every state that can come about: no two near documents are stored, but those that were
before; what was accepted is stored, what is undecided is not. At the end: nobody waits who cannot go on, and
each duplicate is one of a document that is stored: of near texts one is accepted where nobody crashed.
tests/claiming.py says how, and what may happen beside. Each shortcut, put into the real code, is caught.
"""

import pytest

from simhbase.index.claim import Attempts
from tests.claiming import FAR, A, B, C, Case, Work, explore

BOTH_STORED = "a and b are near and both stored"
ONE, OTHER = Work((("a", A),)), Work((("b", B),))
CASES = {
    "near texts": Case((ONE, OTHER)),
    "the same text": Case((ONE, Work((("b", A),)))),
    "one id, twice": Case((ONE, ONE)),
    "one id with two texts": Case((ONE, Work((("a", FAR),)))),
    "nothing near": Case((ONE, Work((("b", FAR),)))),
    "near a stored text": Case((ONE, OTHER), stored=(("c", C),)),
    "one crashes": Case((ONE, OTHER), crashes=1),
    "both crash": Case((ONE, OTHER), crashes=2),
    "one is slow": Case((ONE, OTHER), slow=1),
    "the time is up": Case((ONE, Work((("b", B),), timeout=5.0)), slow=1),
    "late copies": Case((ONE, OTHER), late=True),
    "one replaces its text": Case((Work((("a", A),), replacing=True), OTHER), stored=(("a", FAR),)),
    "two replace theirs": Case(
        (Work((("a", A),), replacing=True), Work((("b", B),), replacing=True)),
        stored=(("a", FAR), ("b", FAR ^ 0xFF << 20)),
    ),
    "a replacing worker crashes": Case(
        (Work((("a", A),), replacing=True), OTHER), stored=(("a", FAR),), crashes=1
    ),
}
BATCHES = {
    "batches that cross": Case((Work((("a", A), ("b", FAR))), Work((("c", FAR ^ 1), ("d", B))))),
    "a text near one that its batch replaces": Case(
        (Work((("a", FAR), ("b", B)), replacing=True), Work((("c", FAR ^ 1),))), stored=(("a", A),)
    ),
}
# Three workers, of which one is near two that are not near each other: 2,165,237 states, some ten minutes and
# 2 GB. Three that are all near one another have more than 6 million, too many for one machine.
ONE_BETWEEN_TWO = Case((OTHER, ONE, Work((("c", C),))))


def right(case: Case) -> bool:
    explored = explore(case)
    if explored.violation is not None:
        pytest.fail("\n  ".join([explored.violation, *explored.steps]))
    return explored.ends > 0


@pytest.mark.parametrize("name", CASES)
def test_of_near_texts_at_most_one_is_accepted_and_nobody_waits_for_ever(name):
    assert right(CASES[name])


@pytest.mark.full
@pytest.mark.parametrize("name", BATCHES)
def test_batches(name):
    assert right(BATCHES[name])


@pytest.mark.full
def test_three_workers():
    assert right(ONE_BETWEEN_TWO)


@pytest.mark.full
@pytest.mark.parametrize("name", ["near texts", "one crashes"])
def test_key_by_key(name):
    assert right(CASES[name]._replace(fine=True))


def take_tickets_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ticket is taken, and seen, before the hints can be."""
    enter, put_hints = Attempts._enter, "put_hints"

    def early(self: Attempts, free: object) -> None:
        hints = []
        writer = self._writer
        object.__setattr__(writer, put_hints, lambda *arguments: hints.append(arguments))
        enter(self, free)
        object.__delattr__(writer, put_hints)
        for arguments in hints:
            writer.put_hints(*arguments)

    monkeypatch.setattr(Attempts, "_enter", early)


def wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attempts, "_waits", lambda self, rivals: (set(), set()))


def wait_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for those with later tickets."""
    waits = Attempts._waits

    def always(self: Attempts, rivals: dict[int, list]) -> tuple[set[int], set[int]]:
        waiting, again = waits(self, rivals)
        return waiting | {number for number, found in rivals.items() if found}, again

    monkeypatch.setattr(Attempts, "_waits", always)


def look_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before the own hints were there decides."""
    duplicates = Attempts._duplicates

    def once(self: Attempts, numbers: list[int], with_claims: bool) -> tuple[dict, dict]:
        return ({}, {}) if with_claims else duplicates(self, numbers, with_claims)

    monkeypatch.setattr(Attempts, "_duplicates", once)


@pytest.mark.parametrize(
    ("shortcut", "violation"),
    [
        (take_tickets_first, BOTH_STORED),
        (wait_for_nobody, BOTH_STORED),
        (look_no_more, BOTH_STORED),
        (wait_for_all, "nobody can go on"),
    ],
)
def test_a_shortcut_is_caught(shortcut, violation, monkeypatch):
    shortcut(monkeypatch)
    assert explore(CASES["near texts"]).violation == violation
