"""Threads of one process that read, write and repair one index at once, and damage mended."""

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from simhbase import records
from simhbase.check import STRAY_LISTING, STRAY_ROW, UNREADABLE, WRONG_ROW, Checker
from simhbase.filing import SimHashFiling
from simhbase.layout import layout
from simhbase.prints import Prints
from simhbase.reader import Reader
from simhbase.records import Entry, State
from simhbase.rowkeys import encode
from simhbase.stores import create_store
from simhbase.stores.base import Store
from simhbase.writer import Writer

LAYOUT = layout("5x2")
FILING = SimHashFiling(LAYOUT, k=3)
F, NEAR_F, FAR = 0x0123456789ABCDEF, 0x0123456789ABCDEE, 2**64 - 1


@pytest.fixture(params=["memory", "rocksdb"])
def store(request, tmp_path) -> Iterator[Store]:
    opened = create_store("memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/store")
    yield opened
    opened.close()


def as_array(*fingerprints: int) -> np.ndarray:
    return np.array(fingerprints, dtype=np.uint64)


def prints(*fingerprints: int) -> Prints:
    return Prints.bare(as_array(*fingerprints))


class Watched:
    """A store that calls `before_scan` ahead of every scan of the fingerprints table."""

    def __init__(self, store: Store, before_scan: Callable[[], object]) -> None:
        self._store, self._before_scan = store, before_scan

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def records(self, table: str) -> object:
        found = self._store.records(table)
        return _Scanned(found, self._before_scan) if table == "fingerprints" else found


class _Scanned:
    def __init__(self, table: object, before: Callable[[], object]) -> None:
        self._table, self._before = table, before

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def scan(self, *args: object, **kwargs: object) -> object:
        self._before()
        return self._table.scan(*args, **kwargs)


def once(event: Callable[[], object]) -> Callable[[], object]:
    """Does it the first time, nothing later."""
    events = [event]
    return lambda: events.pop()() if events else None


def test_a_document_that_moves_while_it_is_looked_up_is_found(store):
    writer = Writer(store, FILING)
    writer.add(["x"], prints(F))
    moving = Watched(store, once(lambda: writer.add(["x"], prints(NEAR_F))))
    (lookup,) = Reader(moving, FILING).find(prints(F), 3)
    assert [(match.id, match.fingerprint) for match in lookup.matches] == [("x", NEAR_F)]


def test_a_document_that_keeps_moving_is_found(store):
    writer = Writer(store, FILING)
    writer.add(["x"], prints(F))
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            for fingerprint in (NEAR_F, F):
                writer.add(["x"], prints(fingerprint))

    mover = threading.Thread(target=move)
    mover.start()
    try:
        reader = Reader(store, FILING)
        assert all(reader.find(prints(F), 3)[0].matches for _ in range(300))
    finally:
        stop.set()
        mover.join()


def test_fingerprints_that_a_crash_left_without_documents_cost_one_more_look_and_match_nothing(store):
    store.drawers.add(encode(as_array(F, NEAR_F), LAYOUT))
    looks: list[None] = []
    (lookup,) = Reader(Watched(store, lambda: looks.append(None)), FILING).find(prints(F), 3)
    assert lookup.matches == ()
    assert len(looks) == 2


@pytest.mark.parametrize("query", [F, NEAR_F])
def test_a_document_listed_twice_in_the_middle_of_a_move_counts_with_its_nearer_fingerprint(store, query):
    Writer(store, FILING).add(["x"], prints(NEAR_F))
    store.records("fingerprints").put([(records.listing_key(F, "x"), records.encode_time(0))])
    store.drawers.add(encode(as_array(F), LAYOUT))
    (lookup,) = Reader(store, FILING).find(prints(query), 3)
    assert [(match.id, match.distance) for match in lookup.matches] == [("x", 0)]


def test_what_is_added_while_a_repair_clears_drawers_stays(store):
    """F is about to be seen without documents; one is added under F; its drawers are cleared."""
    store.drawers.add(encode(as_array(F), LAYOUT))
    adder = threading.Thread(target=lambda: Writer(store, FILING).add(["y"], prints(F)))
    seen = threading.Event()
    remove = store.drawers.remove

    def add_before_removal(keys: np.ndarray, before: int) -> None:
        adder.start()
        adder.join(0.3)  # kept out by the lock, it is not done yet
        seen.set()
        remove(keys, before)

    store.drawers.remove = add_before_removal
    Checker(store, FILING, Writer(store, FILING)).check()
    del store.drawers.remove
    adder.join()
    assert seen.is_set()
    assert not Checker(store, FILING).check().problems
    assert Reader(store, FILING).find(prints(F), 0)[0].matches


def add_wrong_rows(store: Store) -> None:
    keys = encode(as_array(F), LAYOUT)
    keys[0, 0, 0] ^= 1  # another segment
    keys[0, 1, 4] = 200  # no such flag
    store.drawers.add(keys[:, :2])


def put_document(value: bytes, key: bytes = records.document_key("bad")) -> Callable[[Store], None]:
    return lambda store: store.records("documents").put([(key, value)])


def put_listing(key: bytes) -> Callable[[Store], None]:
    return lambda store: store.records("fingerprints").put([(key, records.encode_time(0))])


ENTRY = Entry(FAR, State.STORED, 1).encode()
DAMAGES = {
    "wrong rows": (add_wrong_rows, {WRONG_ROW: 2}),
    "stray rows": (lambda store: store.drawers.add(encode(as_array(FAR), LAYOUT)), {STRAY_ROW: 10}),
    "empty value": (put_document(b""), {UNREADABLE: 1}),
    "unknown state": (put_document(ENTRY[:8] + b"\x09" + ENTRY[9:]), {UNREADABLE: 1}),
    "half an old fingerprint": (put_document(ENTRY + b"1234"), {UNREADABLE: 1}),
    "key that is no text": (put_document(ENTRY, b"\0\0\0\0\xff"), {UNREADABLE: 1}),
    "key under another hash": (put_document(ENTRY, b"\0\0\0\0bad"), {UNREADABLE: 1}),
    "listed id that is no text": (put_listing(records.listing_prefix(F) + b"\xff"), {UNREADABLE: 1}),
    "listed id that is empty": (put_listing(records.listing_prefix(F)), {UNREADABLE: 1}),
    "listing of a stranger": (put_listing(records.listing_key(F, "stranger")), {STRAY_LISTING: 1}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_told_and_mended_and_nothing_else_is_touched(store, damage):
    writer = Writer(store, FILING)
    writer.add(["good", "near"], prints(F, NEAR_F))
    before = Reader(store, FILING).find(prints(F), 3)
    do_damage, problems = DAMAGES[damage]
    do_damage(store)
    assert Checker(store, FILING).check().problems == problems
    assert Checker(store, FILING, writer).check().problems == problems
    assert not Checker(store, FILING).check().problems
    assert Reader(store, FILING).find(prints(F), 3) == before


def test_hot_drawers_are_compared_in_lots(store, monkeypatch):
    stored = prints(*range(64))  # all in the same drawers of six tables
    Writer(store, FILING).add([str(number) for number in range(64)], stored)
    reader = Reader(store, FILING)
    whole = reader.find(stored, 3)
    monkeypatch.setattr("simhbase.reader.LOT_ROWS", 100)
    assert reader.find(stored, 3) == whole
    assert [len(lookup.matches) for lookup in whole] == [1 + 6 + 15 + 20] * 64
