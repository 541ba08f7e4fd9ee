"""An index whose tables are dropped, or dropped and made anew, while it is open: it notices and stops."""

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest

import simhbase
from simhbase import Document, Profile
from simhbase.errors import ProfileMismatch, StoreFailed, StoreUnreachable, TablesMissing
from simhbase.index import Index
from simhbase.index import index as facade
from simhbase.index.stored_profile import write_profile
from simhbase.stores import create_store
from simhbase.stores.base import Store

TEXT = " ".join(f"word{number}" for number in range(40))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(facade, "monotonic", clock)
    return clock


@pytest.fixture(params=["memory", "rocksdb"])
def index(request, tmp_path, clock) -> Iterator[Index]:
    url = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/store"
    with simhbase.open(url, create=Profile(verify=False)) as opened:
        opened.add([Document("a", TEXT)])
        yield opened


def drop(store: Store) -> None:
    """What dropping the tables does to the profile."""
    store.records("meta").delete([b"profile"])


def make_anew(store: Store) -> None:
    """With the same profile: the rows of the old tables are gone all the same."""
    with closing(create_store("memory:")) as anew:
        write_profile(anew, Profile(verify=False))
        (profile,) = anew.records("meta").get([b"profile"])
    store.records("meta").put([(b"profile", profile.value)])


OPERATIONS = {
    "add": lambda index: index.add([Document("b", TEXT)]),
    "add fingerprints": lambda index: index.add_fingerprints(["b"], [1]),
    "delete": lambda index: index.delete(["a"]),
    "find": lambda index: index.find(TEXT),
    "find many": lambda index: index.find_many([TEXT, TEXT]),
    "find fingerprints": lambda index: index.find_fingerprints(np.array([1], dtype=np.uint64)),
    "find ids": lambda index: index.find_ids(["a"]),
    "fingerprints": lambda index: index.fingerprints(["a"]),
}
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@each_operation
def test_an_index_whose_tables_were_made_anew_says_so_and_stops(index, clock, operation):
    make_anew(index.store)
    clock.now += facade.LOOKED_AT + 1
    for _ in range(2):
        with pytest.raises(ProfileMismatch, match="dropped and recreated while they were open") as told:
            operation(index)
        assert told.value.exit_code == 12
        assert "Open the store again" in str(told.value)
    assert rows(index) == ["a"], "nothing was written or deleted"


@each_operation
def test_an_index_whose_tables_were_dropped_says_so(index, clock, operation):
    drop(index.store)
    clock.now += facade.LOOKED_AT + 1
    with pytest.raises(TablesMissing, match="lost their profile while they were open") as told:
        operation(index)
    assert told.value.exit_code == 10


def rows(index: Index) -> list[str]:
    table = index.store.records("documents")
    return [key[4:].decode() for batch in table.iterate() for key, _ in batch]


def test_an_index_whose_tables_stay_looks_now_and_then_alone(index, clock, monkeypatch):
    looks = counted_looks(index, monkeypatch)
    for _ in range(100):
        clock.now += facade.LOOKED_AT / 10
        index.find(TEXT)
    assert 8 <= len(looks) <= 10
    assert facade.LOOKED_AT <= 5, "this long an index may write rows of tables that are gone"


def counted_looks(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    looks: list[None] = []
    real = index.stored_profile.require_in

    class Noted:
        def __getattr__(self, name: str) -> object:
            return getattr(real.__self__, name)

        def require_in(self, store: Store) -> None:
            looks.append(None)
            real(store)

    monkeypatch.setattr(index, "stored_profile", Noted())
    return looks


@pytest.mark.parametrize(
    ("change", "error"),
    [(make_anew, ProfileMismatch), (drop, TablesMissing), (lambda store: None, StoreFailed)],
)
def test_after_an_error_an_index_looks_at_once(index, monkeypatch, change, error):
    def fails(*arguments: object) -> None:
        raise StoreFailed("no such column family")

    change(index.store)
    failing(index, monkeypatch, fails)
    for call in (
        lambda: index.find(TEXT),
        lambda: index.find_many([TEXT, TEXT]),
        lambda: index.fingerprints(["a"]),
        lambda: index.add([Document("b", TEXT)]),
    ):
        with pytest.raises(error):
            call()


def failing(index: Index, monkeypatch: pytest.MonkeyPatch, call: Callable[..., object]) -> None:
    documents = index.store.records("documents")
    monkeypatch.setattr(documents, "get", call)
    monkeypatch.setattr(index.store, "near", call)  # one lookup
    monkeypatch.setattr(index.store.drawers, "read", call)  # many


def test_a_store_that_cannot_be_reached_is_asked_no_more(index, monkeypatch):
    """It may be back later, and another question would wait as long again."""

    def fails(*arguments: object) -> None:
        raise StoreUnreachable("no answer")

    looks = counted_looks(index, monkeypatch)
    failing(index, monkeypatch, fails)
    with pytest.raises(StoreUnreachable):
        index.find(TEXT)
    assert looks == []


def test_require_own_tables_may_be_asked_for_at_any_time(index):
    index.require_own_tables()
    make_anew(index.store)
    with pytest.raises(ProfileMismatch):
        index.require_own_tables()


def test_a_reader_of_a_folder_in_which_another_store_was_made_notices_it(tmp_path, clock):
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=Profile(verify=False)).close()
    with simhbase.open(url, access="read") as reader:
        assert reader.find(TEXT).matches == ()
        simhbase.stores.drop_store(url)
        with simhbase.open(url, create=Profile(verify=False, layout="6x3")) as index:
            index.add([Document("a", TEXT)])
        clock.now += facade.LOOKED_AT + 1
        with pytest.raises(ProfileMismatch, match="recreated"):
            reader.find(TEXT)
