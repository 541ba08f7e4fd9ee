"""Sketches that are lost where processes race and die: the check names or mends what is left."""

from collections.abc import Callable, Iterator

import pytest

from simhbase.check import UNSKETCHED, Checker
from simhbase.index import Index
from simhbase.profile import Profile, read_profile, write_profile
from simhbase.records import sketch_key
from simhbase.stores import create_store
from simhbase.stores.base import Store
from simhbase.writer import Writer
from tests.command_line import texts
from tests.content import content
from tests.stopping import Crash, Stopping

PROFILES = pytest.mark.parametrize(
    "profile", [Profile(scheme="minhash"), Profile(verify=True)], ids=["minhash", "verified"]
)
(TEXT,) = texts(1)


@pytest.fixture(params=["memory", "rocksdb"])
def new_index(request, tmp_path) -> Iterator[Callable[[Profile], Index]]:
    opened: list[Index] = []

    def make(profile: Profile) -> Index:
        url = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/{len(opened)}"
        store = create_store(url)
        write_profile(store, profile)
        opened.append(Index(store, read_profile(store)))
        return opened[-1]

    yield make
    for index in opened:
        index.close()


class Raced:
    """A store in which another process does something just before sketches are removed."""

    def __init__(self, store: Store, race: Callable[[], object]) -> None:
        self._store, self._race = store, race

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def records(self, name: str) -> object:
        table = self._store.records(name)
        return _RacedTable(table, self._race) if name == "fingerprints" else table


class _RacedTable:
    def __init__(self, table: object, race: Callable[[], object]) -> None:
        self._table, self._race = table, race

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def delete(self, keys: list[bytes]) -> None:
        if any(key == sketch_key(int.from_bytes(key[:8])) for key in keys):
            self._race()
        self._table.delete(keys)


@PROFILES
def test_a_delete_that_dies_before_it_puts_a_sketch_back_leaves_what_the_check_names(new_index, profile):
    outcomes = set()
    for calls in range(100):
        index = new_index(profile)
        prints = index.fingerprinter.fingerprint_many([TEXT]).prints
        index.add_prints(["a"], prints)
        raced = Raced(index.store, lambda index=index, prints=prints: index.add_prints(["b"], prints))
        try:
            Writer(Stopping(raced, calls, torn=False), profile.filing).delete(["a"])
        except Crash:
            ended = False
        else:
            ended = True
        Checker(index.store, profile.filing, index.writer).check()
        left = Checker(index.store, profile.filing).check().problems
        assert set(left) <= {UNSKETCHED}
        outcomes.add(bool(left))
        index.add_prints(["b"], prints)
        assert not Checker(index.store, profile.filing).check().problems
        assert "b" in [match.id for match in index.find_prints(prints)[0].matches]
        if ended:
            break
    assert outcomes == {False, True}


@PROFILES
def test_repair_removes_what_deleting_a_document_without_a_sketch_leaves(new_index, profile):
    for calls in range(100):
        index = new_index(profile)
        before = content(index.store)
        prints = index.fingerprinter.fingerprint_many([TEXT]).prints
        index.add_prints(["a"], prints)
        index.store.records("fingerprints").delete([sketch_key(int(prints.values[0]))])
        try:
            Writer(Stopping(index.store, calls, torn=False), profile.filing).delete(["a"])
        except Crash:
            ended = False
        else:
            ended = True
        Checker(index.store, profile.filing, index.writer).check()
        if index.fingerprints(["a"]) != [None]:
            assert Checker(index.store, profile.filing).check().problems == {UNSKETCHED: 1}
            index.delete(["a"])
            Checker(index.store, profile.filing, index.writer).check()
        assert content(index.store) == before
        if ended:
            return
    raise AssertionError("the delete never ends")
