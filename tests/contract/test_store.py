"""What simhbase.stores.base.Store promises, for every store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from simhbase.errors import StoreFailed
from simhbase.stores import create_store
from simhbase.stores.base import ATOMIC_TABLES, Cell, Changes, Store
from simhbase.stores.strings import Strings
from tests.contract.conftest import Backend
from tests.contract.plain import Values, all_rows, milliseconds

PREFIX = np.zeros((1, 5), dtype=np.uint8)
KEYS = np.zeros((1, 1, 13), dtype=np.uint8)


def test_a_store_knows_its_url(backend: Backend, store: Store) -> None:
    assert store.url == backend.url(0)


def test_closing_twice_is_as_good_as_once(store: Store) -> None:
    store.close()
    store.close()


USES: dict[str, Callable[[Store], object]] = {
    "adding": lambda store: store.drawers.add(KEYS),
    "removing": lambda store: store.drawers.remove(KEYS[0], np.zeros(1, dtype=np.int64)),
    "times": lambda store: store.drawers.times(KEYS),
    "reading": lambda store: list(store.drawers.read(PREFIX, 1)),
    "iterating over drawers": lambda store: list(store.drawers.iterate()),
    "the size of drawers": lambda store: store.drawers.approximate_size(),
    "putting": lambda store: store.records("meta").put([(b"a", b"")]),
    "getting": lambda store: store.records("meta").get([b"a"]),
    "deleting": lambda store: store.records("meta").delete([b"a"]),
    "scanning": lambda store: store.records("meta").scan([b"a"], 1),
    "iterating over records": lambda store: list(store.records("meta").iterate()),
    "comparing and setting": lambda store: store.records("meta").compare_and_set(b"a", None, b"1"),
    "the size of records": lambda store: store.records("meta").approximate_size(),
    "putting a version": lambda store: store.records("documents").put([(b"a", b"")], 1),
    "deleting a version": lambda store: store.records("documents").delete([b"a"], [1]),
}


def test_use_after_closing_says_so(store: Store) -> None:
    store.close()
    said = dict.fromkeys(USES, "nothing")
    for name, use in USES.items():
        try:
            use(store)
        except StoreFailed as error:
            said[name] = str(error)
    assert [name for name, message in said.items() if "closed" not in message] == []


def test_compacting_loses_nothing(store: Store) -> None:
    store.records("documents").put([(b"key", b"value")], milliseconds())
    store.compact()
    store.compact(whole=True)
    (cell,) = store.records("documents").get([b"key"])
    assert cell is not None
    assert cell.value == b"value"


def test_refresh_and_sync_can_be_called_at_any_time(store: Store) -> None:
    store.refresh()
    store.sync()
    store.records("meta").put([(b"a", b"1")])
    store.refresh()
    store.sync()
    assert Values(store.records("meta")).get([b"a"]) == [b"1"]


def test_creating_what_exists_opens_it(lasting: Backend) -> None:
    store = lasting.fresh()
    store.records("meta").put([(b"a", b"1")])
    store.close()
    again = create_store(store.url)
    lasting.opened.append(again)
    assert Values(again.records("meta")).get([b"a"]) == [b"1"]


def test_an_atomic_store_makes_all_changes_of_a_commit(atomic: Backend) -> None:
    store = atomic.fresh()
    assert set(store.tables) == set(ATOMIC_TABLES)
    store.drawers.add(KEYS)
    store.records("documents").put([(b"old", b"1"), (b"both", b"1")], 5)
    more = np.ones((1, 1, 13), dtype=np.uint8)
    store.commit(
        Changes(
            version=7,
            index=more,
            unindex=KEYS,
            put={
                "documents": (Strings.of([b"new", b"both"]), Strings.of([b"2", b"2"])),
                "fingerprints": (Strings.of([b"f"]), Strings.empty(1)),
            },
            delete={"documents": [b"old", b"both", b"never there"]},
        )
    )
    assert store.records("documents").get([b"old", b"new", b"both"]) == [None, Cell(b"2", 7), Cell(b"2", 7)]
    assert store.records("fingerprints").get([b"f"]) == [Cell(b"", 7)]
    assert all_rows(store) == [more.tobytes()]


def test_a_read_sees_no_table_without_what_another_lost_to_it(atomic: Backend) -> None:
    store = atomic.fresh()
    here, there = KEYS, np.ones((1, 1, 13), dtype=np.uint8)
    places = {b"here": here, b"there": there}

    def move(to: bytes, away: bytes) -> None:
        listed = Strings.of([to]), Strings.empty(1)
        store.commit(Changes(1, places[to], places[away], {"fingerprints": listed}, {"fingerprints": [away]}))

    def names() -> set[bytes]:
        """What a lookup does: rows of the index, then what they lead to."""
        rows = all_rows(store)
        led_to = [name for name, keys in places.items() if keys.tobytes() in rows]
        return {name for name in led_to if store.records("fingerprints").get([name]) != [None]}

    move(b"here", b"there")
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(
            lambda: [move(*pair) for pair in [(b"there", b"here"), (b"here", b"there")] * 300]
        )
        while not moving.done():
            assert len(store.read_consistent(names)) == 1
        moving.result()


def test_a_store_counts_by_name(store: Store) -> None:
    assert all(isinstance(number, int) for number in store.counters().values())
