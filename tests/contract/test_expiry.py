"""Documents that expire, in stores of one writing process. In HBase the servers drop them: test_hbase.py."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from simhbase.admin import Administrator
from simhbase.admin.check import Checker
from simhbase.admin.migrate import Migration
from simhbase.admin.vacuum import Vacuum, VacuumReport
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, reader
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import REFRESHED, DocumentBatch, Writer, known
from simhbase.model.values import Document
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.base import now
from simhbase.stores.meta import Meta
from tests.command_line import texts
from tests.contract.conftest import EMBEDDED, Backend, kind_called, with_profiles
from tests.contract.plain import all_rows
from tests.selection import load_unique

TTL = 1000  # seconds
PROFILES = {
    "verified": Profile(verify=True),
    "5x2": Profile(verify=False),
    "6x3": Profile(verify=False, layout="6x3"),
    "minhash": Profile(scheme="minhash"),
}
TEXT, OTHER = texts(2)


class Clock:
    """This machine's, and so many seconds more."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> int:
        return now() + round(self.ahead * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=with_profiles(*PROFILES, stores=(*EMBEDDED, "postgresql", "redis")))
def index(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[Index]:
    kind, profile = request.param
    store = create_store(kind_called(kind, request).url(tmp_path, 0))
    write_profile(store, PROFILES[profile], ttl=TTL)
    with Index(store, read_profile(store), clock=clock) as index:
        yield index


def add(index: Index, document: str, text: str = TEXT) -> tuple[int, int, int]:
    report = index.add([Document(document, text)])
    return report.added, report.updated, report.unchanged


def found(index: Index) -> list[str]:
    return [match.id for match in index.find(TEXT).matches]


def vacuum(index: Index) -> VacuumReport:
    return Vacuum(index.store, index.profile.index_scheme, clock=index.clock).run()


def assert_clean(index: Index) -> None:
    report = Checker(index.store, index.profile.index_scheme, clock=index.clock).check()
    assert report.clean
    assert not report.garbage


def test_a_document_is_there_until_its_time_is_over(index, clock):
    add(index, "a")
    clock.ahead = TTL - 5
    assert found(index) == ["a"]
    assert index.fingerprints(["a"]) != [None]
    clock.ahead = TTL + 5
    assert found(index) == []
    assert index.fingerprints(["a"]) == [None]
    (lookup,) = index.find_ids(["a"])
    assert lookup.reason == "no document is stored under this id"
    assert Administrator(index).stats(exact=True).documents == 0
    assert index.delete(["a"]) == 0
    assert_clean(index)


def test_a_fingerprint_is_found_whose_first_documents_have_expired(index, clock):
    index.add([Document(f"a{number}", TEXT) for number in range(10)])
    clock.ahead = TTL + 5
    add(index, "b")
    (fingerprint,) = index.fingerprints(["b"])
    (lookup,) = index.find_fingerprints([fingerprint])
    assert ([match.id for match in lookup.matches], lookup.reason) == (["b"], None)


def test_a_crowd_that_has_expired_hides_nothing_from_a_lookup(index, clock, monkeypatch):
    index.add([Document(f"a{number}", TEXT) for number in range(50)])
    clock.ahead = TTL + 5
    for document in ("b", "c"):
        add(index, document)
    with_limit = index.listing(2)
    (lookup,) = with_limit.find_many([TEXT])
    assert ([match.id for match in lookup.matches], lookup.truncated) == (["b", "c"], False)
    monkeypatch.setattr(reader, "MOST_LISTED", 1)
    (lookup,) = with_limit.find_many([TEXT])
    assert (lookup.matches, lookup.truncated) == ((), True)


def test_no_more_matches_are_found_behind_a_crowd_than_are_listed_otherwise(index, clock):
    index.add([Document(f"a{number}", TEXT) for number in range(20)])
    clock.ahead = TTL + 5
    index.add([Document(f"b{number}", TEXT) for number in range(20)])
    (lookup,) = index.listing(5).find_many([TEXT])
    assert ([match.id for match in lookup.matches], lookup.truncated) == (
        ["b0", "b1", "b10", "b11", "b12"],
        True,
    )


def test_what_has_expired_takes_nothing_s_place(index, clock):
    add(index, "a")
    clock.ahead = TTL + 5
    batch = index.fingerprinter.fingerprint_many([TEXT]).fingerprints
    assert load_unique(index, ["b"], batch).duplicate_of == [None]
    assert found(index) == ["b"]


def test_an_expired_document_is_added_anew(index, clock):
    add(index, "a")
    add(index, "b", OTHER)
    clock.ahead = TTL + 5
    assert add(index, "a") == (1, 0, 0)
    assert add(index, "b") == (1, 0, 0)
    assert found(index) == ["a", "b"]
    assert index.find(OTHER).matches == ()
    assert_clean(index)


def test_an_unchanged_document_is_written_anew_when_a_quarter_has_passed(index, clock):
    add(index, "a")
    clock.ahead = TTL / REFRESHED - 5
    assert add(index, "a") == (0, 0, 1)
    clock.ahead = TTL + 5
    assert found(index) == []
    add(index, "a")
    clock.ahead += TTL / REFRESHED + 5
    assert add(index, "a") == (0, 0, 1)
    clock.ahead += TTL - 5
    assert found(index) == ["a"]


def test_a_vacuum_removes_what_has_expired_and_nothing_else(index, clock):
    add(index, "a")
    add(index, "b", OTHER)
    clock.ahead = TTL - 5
    add(index, "c", OTHER)
    assert vacuum(index) == VacuumReport(removes_at_once=True, looked_at=3)
    clock.ahead = TTL + 5
    assert_clean(index)
    assert vacuum(index) == VacuumReport(removes_at_once=True, looked_at=3, expired=2)
    assert [match.id for match in index.find(OTHER).matches] == ["c"]
    assert_clean(index)
    clock.ahead += TTL
    assert vacuum(index).expired == 1
    assert all_rows(index.store) == []
    assert_clean(index)


def test_a_repair_leaves_documents_that_have_expired(index, clock):
    add(index, "a")
    clock.ahead = TTL + 5
    checked = Checker(index.store, index.profile.index_scheme, repair=True, clock=clock).check()
    assert checked.clean
    clock.ahead = 0
    assert found(index) == ["a"]


def test_what_has_expired_is_not_copied(index, clock):
    add(index, "a")
    clock.ahead = TTL - 5
    add(index, "b")
    clock.ahead = TTL + 5
    other = create_store("memory:")
    write_profile(other, index.profile)
    with Index(other, read_profile(other), clock=clock) as target:
        assert Migration(index, target).run().added == 1
        clock.ahead += TTL
        done = Migration(index, target, delete_missing=True).run()
        assert (done.added, done.deleted) == (0, 1)


def test_moments_go_by_the_same_clock(index, clock):
    add(index, "a")
    clock.ahead = TTL / 2
    assert index.find(TEXT, since=timedelta(seconds=TTL / 4)).matches == ()
    assert [match.id for match in index.find(TEXT, since=timedelta(seconds=TTL)).matches] == ["a"]
    assert Administrator(index).delete_older_than(timedelta(seconds=TTL / 4)) == 1


def test_stores_have_none_by_default(atomic: Backend) -> None:
    store = atomic.fresh()
    write_profile(store, Profile(verify=False))
    assert store.ttl() is None


def test_what_an_interrupted_creation_left_does_not_count(atomic: Backend) -> None:
    store = atomic.fresh()
    Meta(store).put([(b"ttl", b"5")])
    write_profile(store, Profile(verify=False))
    assert store.ttl() is None


def test_a_clock_that_was_ahead_dates_no_other_document(atomic: Backend) -> None:
    """Those would neither expire nor be deleted by age."""
    store = atomic.fresh()
    write_profile(store, Profile(verify=False))
    scheme = Profile(verify=False).index_scheme
    one, other = (FingerprintBatch.bare(np.array([value], dtype=np.uint64)) for value in (5, 6))
    day = 86_400_000
    Writer(store, scheme, clock=lambda: now() + day).add(DocumentBatch(["ahead"], one))
    both = FingerprintBatch.joined([other, other])
    assert Writer(store, scheme).add(DocumentBatch(["ahead", "new"], both)).updated == 1
    ahead, new = known(store, ["ahead", "new"])
    assert ahead is not None
    assert new is not None
    assert ahead.version > now() + day // 2
    assert new.version <= now()
    assert (ahead.entry.fingerprint, new.entry.fingerprint) == (6, 6)
