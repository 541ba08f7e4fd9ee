"""Claims of many threads in an atomic store: whose turn it is claims for all who wait."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import simhbase
from simhbase.errors import StoreFailed
from simhbase.index import Index
from simhbase.index.claims.claim import AtomicClaimer
from simhbase.model.values import Claim
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.stores.base import Changes

TEXTS = {
    "one": "the committee approved the budget for schools",
    "again": "the committee approved the budget for schools",
    "other": "heavy rain closed three roads in the north",
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with closing(simhbase.open(f"rocksdb:{tmp_path / 'db'}", create=Profile(verify=False))) as opened:
        yield opened


def claims_that_waited(index: Index, texts: list[tuple[str, str]]) -> list[Claim | BaseException]:
    """The answers to claims that all waited, in this order, when somebody had the turn."""
    assert isinstance(index.claimer, AtomicClaimer)
    queue = index.claimer._queue
    index.fingerprinter.fingerprint_many([TEXTS["one"]])
    with ThreadPoolExecutor(len(texts)) as pool:
        with queue.turn:
            futures = []
            for number, (document, text) in enumerate(texts, 1):
                futures.append(pool.submit(index.claim, document, text))
                while queue.records < number:
                    threading.Event().wait(0.001)
        return [future.exception() or future.result() for future in futures]


def commits_of(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    commits = list[Changes]()
    store = index.store
    commit = store.commit

    def noted(changes: Changes) -> None:
        commits.append(changes)
        commit(changes)

    monkeypatch.setattr(store, "commit", noted)
    return commits


def test_claims_that_wait_share_a_commit_and_are_answered_in_their_order(index, monkeypatch):
    commits = commits_of(index, monkeypatch)
    answers = claims_that_waited(index, list(TEXTS.items()))
    assert [answer.outcome for answer in answers] == ["accepted", "duplicate", "accepted"]
    assert answers[1].match.id == "one"
    assert len(commits) == 1


def test_bounds_by_features_are_equal_if_they_are_the_same():
    scheme = make_profile(given_parameters("short")).index_scheme
    same, again, other = (scheme.bounds(None, least) for least in (None, None, 0.9))
    assert same == again
    assert len({same, again, other}) == 2


def test_an_id_that_is_claimed_twice_is_decided_one_after_the_other(index, monkeypatch):
    commits = commits_of(index, monkeypatch)
    first, second, third = claims_that_waited(
        index, [("one", TEXTS["one"]), ("one", TEXTS["other"]), ("one", TEXTS["one"])]
    )
    assert (first.outcome, third.outcome) == ("accepted", "accepted")
    assert isinstance(second, simhbase.Conflict)
    assert len(commits) == 1


def test_an_error_that_one_claim_may_have_caused_is_told_to_that_one(index, monkeypatch):
    store = index.store
    commit = store.commit

    def refusing(changes: Changes) -> None:
        keys, _ = changes.put["documents"]
        if any(key.endswith(b"other") for key in keys.to_list()):
            raise StoreFailed("refused")
        commit(changes)

    monkeypatch.setattr(store, "commit", refusing)
    first, second, third = claims_that_waited(index, list(TEXTS.items()))
    assert (first.outcome, second.outcome) == ("accepted", "duplicate")
    assert isinstance(third, StoreFailed)


def test_ctrl_c_in_the_thread_whose_turn_it_is_leaves_nobody_waiting(index, monkeypatch):
    def interrupted(changes: Changes) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(index.store, "commit", interrupted)
    answers = claims_that_waited(index, list(TEXTS.items()))
    assert sorted(type(answer).__name__ for answer in answers) == [
        "KeyboardInterrupt",
        "Undecided",
        "Undecided",
    ]
    assert index.claim("one", TEXTS["one"]).accepted
