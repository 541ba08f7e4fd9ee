"""Damaged rows of meta and documents are errors that name the row and say what to do; a check finds them, and
its repair removes what all else works without."""

from collections.abc import Callable

import pytest

from simhbase.admin.check import DAMAGED_META, LOST_META, UNREADABLE, Checker
from simhbase.errors import StoreFailed
from simhbase.index import Index
from simhbase.index.load_log import LoadLog, all_loads
from simhbase.index.mute import MuteList
from simhbase.index.rows import document_key
from simhbase.index.stored_profile import read_profile
from simhbase.stores.base import RecordTable
from tests.contract.conftest import with_profiles
from tests.contract.test_explain import OTHER  # a fixture
from tests.contract.test_explain import index as index

Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "flipped": lambda value: bytes([value[0] ^ 1]) + value[1:],
    "cut": lambda value: value[: len(value) // 2],
    "empty": lambda value: b"",
}
pytestmark = pytest.mark.parametrize("index", with_profiles("verified"), indirect=True)
each_damage = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def damaged(index: Index, damage: Damage, key: bytes, table: RecordTable = "meta") -> None:
    records = index.store.records(table)
    (cell,) = records.get([key])
    assert cell is not None
    records.put([(key, damage(cell.value))], cell.version if table == "documents" else None)


def check(index: Index, *, repair: bool = False) -> dict[str, int]:
    return Checker(index.store, index.profile.index_scheme, repair).check().problems


@each_damage
def test_a_damaged_mute_list_is_an_error_until_a_repair_removes_it(index, damage):
    """Lookups and changes of the list fail with the row's name; a repair removes the list."""
    index.mute(["b"])
    damaged(index, damage, b"muted")
    muted = MuteList(index.store, index.clock)  # of another process, which has read nothing yet
    for operation in (muted.hidden, muted.entries, lambda: index.mute(["a"])):
        with pytest.raises(StoreFailed, match=r"'muted' of the table meta .* is damaged.* check --repair"):
            operation()
    assert check(index) == {DAMAGED_META: 1}
    assert check(index, repair=True) == {DAMAGED_META: 1}
    assert check(index) == {}
    assert muted.entries() == []


@each_damage
def test_a_damaged_log_of_a_load_is_removed_by_a_repair(index, damage):
    """A load cannot resume with part of its log, so a repair removes all of it."""
    log = LoadLog.begin(index.store, "nightly", "task")
    log.advance([{"chunks": 1}, {"chunks": 2}])
    log.__exit__(ValueError, ValueError("stopped"), None)
    damaged(index, damage, b"load/nightly")
    with pytest.raises(StoreFailed, match="'load/nightly' of the table meta"):
        all_loads(index.store)
    assert check(index, repair=True) == {DAMAGED_META: 1}
    assert check(index) == {}
    assert all_loads(index.store) == []
    assert [key for rows in index.store.records("meta").iterate(b"load", b"loae") for key, _ in rows] == []


@each_damage
def test_a_damaged_profile_is_no_missing_one(index, damage):
    """The error tells to restore the store, and a check does not remove the row."""
    damaged(index, damage, b"profile")
    with pytest.raises(StoreFailed, match=r"'profile' of the table meta .* is damaged.*Restore the store"):
        read_profile(index.store)
    assert check(index, repair=True) == {LOST_META: 1}
    assert check(index) == {LOST_META: 1}


@each_damage
def test_a_damaged_documents_row_is_an_error_until_a_repair_removes_it(index, damage):
    """No lookup takes it for a deleted document."""
    damaged(index, damage, document_key("b"), "documents")
    for operation in (
        lambda: index.fingerprints(["b"]),
        lambda: index.find(OTHER),
        lambda: list(index),
        lambda: index.delete(["b"]),
    ):
        with pytest.raises(StoreFailed, match="the document 'b' in the table documents is damaged"):
            operation()
    assert check(index)[UNREADABLE] == 1
    assert check(index, repair=True)[UNREADABLE] == 1
    assert UNREADABLE not in check(index, repair=True)
    assert index.fingerprints(["b"]) == [None]
