"""The mute list: what is on it is no match, in every store."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import simhbase
from simhbase import Document, Index, Profile, SharedLookups
from simhbase.errors import ReadOnly, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.claims import selection
from simhbase.index.mute import READ_AGAIN, MuteList
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.model.moment import at
from simhbase.model.stored import Muted
from simhbase.stores import create_store
from simhbase.stores.base import now
from tests.command_line import texts
from tests.contract.conftest import Backend, kind_called, with_profiles
from tests.selection import load_unique

TEXT, OTHER = texts(2)
PROFILES = {
    "verified": Profile(verify=True),
    "5x2": Profile(verify=False),
    "minhash": Profile(scheme="minhash"),
}
HOUR = timedelta(hours=1)


class Clock:
    """This machine's, and so many seconds more."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> int:
        return now() + round(self.ahead * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=with_profiles(*PROFILES))
def index(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[Index]:
    kind, profile = request.param
    store = create_store(kind_called(kind, request).url(tmp_path, 0))
    write_profile(store, PROFILES[profile])
    with Index(store, read_profile(store), clock=clock) as index:
        index.add([Document("a", TEXT), Document("b", TEXT), Document("far", OTHER)])
        yield index


def found(index: Index, text: str = TEXT) -> list[str]:
    return [match.id for match in index.find(text).matches]


def fingerprint(index: Index, text: str = TEXT) -> int:
    value = index.find(text).fingerprint
    assert value is not None
    return value


def test_a_muted_id_is_no_match_until_it_is_unmuted(index):
    assert index.mute(["a"]) == 1
    assert found(index) == ["b"]
    assert [[match.id for match in lookup.matches] for lookup in index.find_ids(["a", "b"])] == [["b"]] * 2
    assert index.fingerprints(["a"]) != [None], "it stays stored"
    assert index.unmute(["a"]) == 1
    assert found(index) == ["a", "b"]


def test_a_muted_fingerprint_hides_all_its_documents_those_that_come_later_too(index):
    value = fingerprint(index)
    assert index.mute(fingerprints=[value]) == 1
    index.add([Document("c", TEXT)])
    assert found(index) == []
    assert found(index, OTHER) == ["far"]
    (lookup,) = index.find_fingerprints([value])
    assert (lookup.matches, lookup.truncated) == ((), False)
    assert index.unmute(fingerprints=[value]) == 1
    assert found(index) == ["a", "b", "c"]


def test_a_document_that_leaves_a_muted_fingerprint_is_found_again(index):
    index.mute(fingerprints=[fingerprint(index)])
    index.add([Document("a", OTHER)])
    assert found(index, OTHER) == ["a", "far"]
    index.mute(fingerprints=[fingerprint(index, OTHER)])
    index.unmute(fingerprints=[fingerprint(index)])
    assert found(index, OTHER) == []
    assert found(index) == ["b"], "and what has moved to one is not"


def test_an_entry_ends_at_its_time(index, clock):
    end = datetime.now(UTC) + 2 * HOUR
    index.mute(["a"], until=HOUR, note="for an hour")
    index.mute(["b"], until=end)
    assert found(index) == []
    assert [(entry.id, entry.note) for entry in index.muted()] == [("a", "for an hour"), ("b", "")]
    assert timedelta() <= end - index.muted()[1].until < timedelta(milliseconds=1)
    clock.ahead = HOUR.total_seconds() + 5
    assert found(index) == ["a"]
    assert [entry.id for entry in index.muted()] == ["b"]
    clock.ahead += HOUR.total_seconds()
    assert found(index) == ["a", "b"]
    assert (index.muted(), index.unmute(["a"])) == ([], 0)


def test_an_entry_that_comes_again_replaces_the_one_before(index, clock):
    index.mute(["a"], [fingerprint(index)], until=HOUR)
    clock.ahead = 60
    assert index.mute(["a", "b"], note="for ever") == 1
    (of_fingerprint, *of_ids) = index.muted()
    assert (of_fingerprint.fingerprint, of_fingerprint.id) == (fingerprint(index), None)
    assert [(entry.id, entry.until, entry.note) for entry in of_ids] == [
        ("a", None, "for ever"),
        ("b", None, "for ever"),
    ]
    assert index.unmute(["a", "absent"], [fingerprint(index), 5]) == 2
    assert [entry.id for entry in index.muted()] == ["b"]


def test_what_is_muted_makes_nothing_a_duplicate(index):
    index.mute(["b"], [fingerprint(index)])
    index.mute(["far"])
    claims = index.claim_many([Document("c", TEXT), Document("d", TEXT), Document("e", OTHER)])
    assert [claim.outcome for claim in claims] == ["accepted"] * 3
    claim = index.claim("f", OTHER)
    assert (claim.outcome, claim.match.id) == ("duplicate", "e")
    batch = index.fingerprinter.fingerprint_many([TEXT, TEXT, OTHER]).fingerprints
    loaded = load_unique(index, ["g", "h", "i"], batch)
    assert [match and match.id for match in loaded.duplicate_of] == [None, None, "e"]
    index.unmute(["b"], [fingerprint(index)])
    assert index.claim("j", TEXT).outcome == "duplicate"


@pytest.mark.parametrize("pairs", [16, -1])
def test_of_a_batch_a_muted_document_makes_no_later_one_a_duplicate(index, monkeypatch, pairs):
    monkeypatch.setattr(selection, "PAIRS_OF_DOCUMENT", pairs)
    index.delete(["a", "b"])
    index.mute(["c"])
    batch = index.fingerprinter.fingerprint_many([TEXT] * 3).fingerprints
    loaded = load_unique(index, ["c", "d", "e"], batch)
    assert [match and match.id for match in loaded.duplicate_of] == [None, None, "d"]


def test_of_claims_at_once_one_is_accepted_beside_the_muted(index):
    index.mute(["a", "b"])
    with ThreadPoolExecutor(4) as pool:
        claims = list(pool.map(lambda number: index.claim(f"c{number}", TEXT), range(4)))
    assert sorted(claim.outcome for claim in claims) == ["accepted", *["duplicate"] * 3]


def test_lookups_that_share_reads_leave_out_what_is_muted(index):
    with SharedLookups(index) as shared:
        index.mute(["a"])
        assert [match.id for match in shared.find(TEXT).matches] == ["b"]


def test_an_explanation_says_that_it_is_muted(index):
    index.mute(["a"], [fingerprint(index, OTHER)])
    verdicts = {each.id: each.verdict for each in index.explain(TEXT).candidates}
    assert (verdicts["a"], verdicts["b"]) == ("muted", "match")
    assert [each.verdict for each in index.explain(OTHER).candidates if each.id == "far"] == ["muted"]


def test_another_list_on_the_same_store_sees_a_change_when_it_reads_again(index):
    time = 0.0
    other = MuteList(index.store, index.clock, timer=lambda: time)
    assert not other.hidden()
    index.mute(["a"])
    time = READ_AGAIN - 1
    assert not other.hidden(), "it is not read each time"
    time = READ_AGAIN + 1
    assert other.hidden().ids == {"a"}


def test_changes_at_once_are_all_made(index):
    lists = [MuteList(index.store, index.clock) for _ in range(4)]
    ids = [f"m{number}" for number in range(40)]

    def change(number: int) -> int:
        return lists[number].mute([Muted(document, None, at(index.clock())) for document in ids[number::4]])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(change, range(4))) == [10] * 4
    assert sorted(entry.id for entry in index.muted()) == sorted(ids)


def test_what_can_be_no_entry_is_refused_and_changes_nothing(index):
    for wrong in (
        {"ids": "a"},
        {"ids": [""]},
        {"ids": ["x" * 2000]},
        {"fingerprints": [-(1 << 63) - 1]},
        {"fingerprints": [1 << 64]},
        {"ids": ["a"], "until": -HOUR},
        {"ids": ["a"], "until": datetime(2020, 1, 1, tzinfo=UTC)},
        {"ids": ["a"], "until": 3600},
        {"ids": ["a"], "until": timedelta.max},
        {"ids": ["a"], "until": datetime.max},
        {"ids": ["a"], "note": "two\nlines"},
        {"ids": ["a"], "note": "x" * 501},
        {"ids": [f"{number:01000}" for number in range(2000)]},
    ):
        with pytest.raises(UsageError):
            index.mute(**wrong)
    assert index.muted() == []
    assert found(index) == ["a", "b"]


def test_the_list_outlives_its_process(lasting: Backend) -> None:
    url = lasting.url(0)
    with simhbase.open(url, create=Profile(verify=False)) as index:
        index.add([Document("a", TEXT)])
        index.mute(["a"], note="kept")
    with simhbase.open(url, access="read") as index:
        assert found(index) == []
        assert [entry.note for entry in index.muted()] == ["kept"]
        with pytest.raises(ReadOnly):
            index.mute(["b"])
        with pytest.raises(ReadOnly):
            index.unmute(["a"])


def test_a_crowd_of_muted_documents_hides_nothing_else(backend: Backend) -> None:
    with simhbase.open(backend.url(0), create=Profile(verify=False), ids_limit=2) as index:
        ids = [f"a{number:02}" for number in range(20)]
        values = np.full(20, 5, dtype=np.uint64)
        index.add_batch(ids, FingerprintBatch.bare(values))
        index.mute(ids[:19])
        (lookup,) = index.find_fingerprints([5])
        assert [match.id for match in lookup.matches] == ["a19"]
        loaded = load_unique(index, ["b"], FingerprintBatch.bare(values[:1]))
        assert [match and match.id for match in loaded.duplicate_of] == ["a19"]
