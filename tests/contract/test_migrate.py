"""Documents of one store copied to another, of every kind."""

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from simhbase.admin.check import Checker
from simhbase.admin.migrate import Migration, MigrationReport
from simhbase.index import Index
from simhbase.index.rows import document_key
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import Writer
from simhbase.model.values import Query
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.base import Store, now
from tests.contract.conftest import kind_called
from tests.simulated import Server, SimulatedStore

PROFILE = Profile(verify=False)
HOUR = 3_600_000  # milliseconds
NEAR = 0x0123456789ABCDEF


@pytest.fixture
def name() -> str:
    """What ids of a test begin with: HBase hides what has an older version than what was deleted once."""
    return token_hex(4)


def made(store: Store, profile: Profile) -> Index:
    write_profile(store, profile)
    return Index(store, read_profile(store))


def hbase_pair(*names: str) -> object:
    return pytest.param(names, marks=pytest.mark.hbase)


PAIRS = [
    ("memory", "memory"),
    ("rocksdb", "rocksdb"),
    ("rocksdb", "memory"),
    hbase_pair("rocksdb", "hbase"),
    hbase_pair("hbase", "rocksdb"),
]


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Index, Index]]:
    """Two indexes with different drawers, of the kinds that the parameter names."""
    there, other = (
        create_store(kind_called(kind, request).url(tmp_path, number))
        for number, kind in enumerate(request.param)
    )
    with made(there, PROFILE) as source, made(other, Profile(verify=False, layout="4x1")) as target:
        yield source, target


@pytest.fixture
def source(pair: tuple[Index, Index]) -> Index:
    return pair[0]


@pytest.fixture
def target(pair: tuple[Index, Index]) -> Index:
    return pair[1]


def write(index: Index, documents: dict[str, int], at: int | None = None) -> None:
    clocked = Writer(index.store, index.profile.index_scheme, clock=lambda: now() if at is None else at)
    index.__dict__["writer"] = clocked
    index.add_fingerprints(list(documents), list(documents.values()))


def versions(index: Index, ids: list[str]) -> list[int | None]:
    cells = index.store.records("documents").get(list(map(document_key, ids)))
    return [cell and cell.version for cell in cells]


def migrate(source: Index, target: Index, delete_missing: bool = False) -> MigrationReport:
    return Migration(source, target, delete_missing).run()


def assert_clean(index: Index) -> None:
    assert Checker(index.store, index.profile.index_scheme).check().clean


def test_documents_are_found_in_the_other_store_with_their_versions(source, target, name):
    values = {f"{name}{number}": NEAR ^ 1 << number for number in range(3)}
    write(source, values, now() - 500 * HOUR)
    write(source, {f"{name}-late": NEAR})
    assert migrate(source, target) == MigrationReport(documents=4, added=4)
    (found,) = target.find_fingerprints([NEAR])
    assert [match.id for match in found.matches] == [f"{name}-late", *values]
    ids = [*values, f"{name}-late"]
    assert versions(target, ids) == versions(source, ids)
    assert_clean(target)


def test_tags_are_copied_too(source, target, name):
    write(source, {f"{name}bare": NEAR})
    source.add_fingerprints([f"{name}a", f"{name}b"], [NEAR, NEAR ^ 1], [{"tenant": "a"}, {"tenant": "b"}])
    migrate(source, target)
    (found,) = target.find_fingerprints([NEAR], Query(tags={"tenant": "a"}))
    assert [match.id for match in found.matches] == [f"{name}a"]
    source.add_fingerprints([f"{name}a"], [NEAR], [{"tenant": "b"}])
    assert migrate(source, target) == MigrationReport(documents=3, updated=1, unchanged=2)
    assert [each.tags for each in target.documents([f"{name}a", f"{name}b", f"{name}bare"])] == [
        {"tenant": "b"},
        {"tenant": "b"},
        {},
    ]
    assert_clean(target)


def test_a_second_run_copies_what_has_changed_since(source, target, name):
    a, b, c, d = (f"{name}{letter}" for letter in "abcd")
    write(source, {a: 1, b: 2, c: 3})
    migrate(source, target)
    assert migrate(source, target) == MigrationReport(documents=3, unchanged=3)
    source.delete([c])
    write(source, {b: NEAR, d: 0xFF00})
    done = migrate(source, target)
    assert (done.added, done.updated, done.unchanged) == (1, 1, 1)
    assert done.deleted == (1 if source.store.keeps_hints else 0)
    assert migrate(source, target, delete_missing=True).deleted == 1 - done.deleted
    assert target.fingerprints([a, b, c, d]) == [1, NEAR, None, 0xFF00]
    (found,) = target.find_fingerprints([2])
    assert {match.id for match in found.matches} == {a}
    assert_clean(target)


def test_what_was_written_to_the_other_store_since_stays(source, target, name):
    a, b = f"{name}a", f"{name}b"
    write(source, {a: 1, b: 2}, now() - HOUR)
    migrate(source, target)
    write(target, {a: NEAR}, now() - HOUR // 2)
    source.delete([b])
    write(target, {b: 5})
    assert migrate(source, target).later == 1
    assert target.fingerprints([a, b]) == [NEAR, 5]
    write(source, {a: 7})  # and later still
    assert migrate(source, target).updated == 1
    assert target.fingerprints([a]) == [7]


def test_missing_documents_are_deleted_but_for_those_written_meanwhile(source, target, name):
    a, b, c = (f"{name}{letter}" for letter in "abc")
    write(source, {a: 1})
    write(target, {b: 2}, now() - HOUR)
    begun = now()
    write(target, {c: 3}, begun + HOUR // 2)
    target.clock = lambda: begun
    done = migrate(source, target, delete_missing=True)
    assert (done.added, done.deleted, done.too_young) == (1, 1, 1)
    assert target.fingerprints([a, b, c]) == [1, None, 3]
    target.clock = lambda: begun + HOUR
    done = migrate(source, target, delete_missing=True)
    assert (done.deleted, done.too_young) == (1, 0)
    assert target.fingerprints([a, b, c]) == [1, None, None]


def test_a_document_is_deleted_only_as_it_was_seen(store, name):
    target = made(store, PROFILE)
    a, b = f"{name}a", f"{name}b"
    write(target, {a: 1, b: 2}, now() - HOUR)
    seen = dict(zip([a, b], versions(target, [a, b]), strict=True))
    write(target, {a: 3})
    assert target.writer.delete_seen(seen) == 1
    assert target.fingerprints([a, b]) == [3, None]
    write(target, {b: 4})
    assert target.fingerprints([b]) == [4]
    assert_clean(target)


def test_each_row_gets_a_version_of_its_own(store, name):
    table = store.records("documents")
    rows = [(f"{name}{number}".encode(), b"%d" % number) for number in range(5)]
    table.put(rows, [5, 3, 4, 3, 9])
    table.put(rows[:2], [4, 4])
    assert [(cell.value, cell.version) for cell in table.get([key for key, _ in rows]) if cell] == [
        (b"0", 5),
        (b"1", 4),
        (b"2", 4),
        (b"3", 3),
        (b"4", 9),
    ]
    table.delete([key for key, _ in rows])


def test_what_was_deleted_and_added_again_by_a_clock_that_was_ahead_is_copied_again():
    """Versions of deletions are the source's: later ones would hide what the source adds next."""
    source, target = (made(SimulatedStore(Server().ask), PROFILE) for _ in range(2))
    ids = [f"d{number}" for number in range(50)]
    documents = dict.fromkeys(ids, NEAR)
    write(source, documents, now() + HOUR)
    migrate(source, target)
    source.delete(ids)
    assert migrate(source, target).deleted == len(ids)
    write(source, documents)
    done = migrate(source, target)
    assert (done.documents, done.added) == (len(ids), len(ids))
    assert target.fingerprints(ids) == [NEAR] * len(ids)
    assert versions(target, ids) == versions(source, ids)


def test_only_what_is_stored_counts_as_unchanged():
    source, target = (made(SimulatedStore(Server().ask), PROFILE) for _ in range(2))
    write(source, {"a": NEAR}, at=10_000)
    write(target, {"a": NEAR}, at=1)
    (version,) = versions(source, ["a"])
    target.writer.delete_seen({"a": versions(target, ["a"])[0]}, {"a": version})
    assert migrate(source, target) == MigrationReport(documents=1, later=1)
