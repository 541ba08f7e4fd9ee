"""Threads and processes that read, write and repair one index at once, and damage mended."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, cast

import numpy as np
import pytest

from simhbase.admin.check import STRAY_LISTING, STRAY_ROW, UNREADABLE, WRONG_ROW, Checker
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import encode
from simhbase.drawers.scheme import SimHashScheme
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.reader import Reader
from simhbase.index.rows import Entry
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Lookup, Query
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Changes, NearRows, Store
from simhbase.stores.memory import MemoryStore
from simhbase.stores.rocksdb import database
from simhbase.stores.rocksdb.store import RocksStore
from tests.command_line import environment

LAYOUT = layout("5x2")
SCHEME = SimHashScheme(LAYOUT, k=3)
F, NEAR_F, FAR = 0x0123456789ABCDEF, 0x0123456789ABCDEE, 2**64 - 1
LOOKUPS = 4000
VERSION = 5


@pytest.fixture(params=["memory", "rocksdb"])
def store(request, tmp_path) -> Iterator[Store]:
    opened = create_store("memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/store")
    yield opened
    opened.close()


def as_array(*fingerprints: int) -> np.ndarray:
    return np.array(fingerprints, dtype=np.uint64)


def fingerprints(*fingerprints: int) -> FingerprintBatch:
    return FingerprintBatch.bare(as_array(*fingerprints))


def batch(ids: list[str], *values: int) -> DocumentBatch:
    return DocumentBatch(ids, fingerprints(*values))


class Wrapped:
    """A store or table in which some calls are others."""

    def __init__(self, store: object, **calls: Callable[..., object]) -> None:
        self._store = store
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def watch(store: Store, before_scan: Callable[[], object]) -> None:
    """Calls `before_scan` ahead of every scan of the fingerprints table, as lookups do after the drawers."""
    listings = store.records("fingerprints")
    real = listings.scan

    def scan(*args: object, **kwargs: object) -> object:
        before_scan()
        return real(*args, **kwargs)

    listings.scan = scan
    if isinstance(store, RocksStore):  # of one text the core reads them, by an iterator that it asks for then
        table = store.database.families["fingerprints"]

        def opened(*args: Any) -> object:
            before_scan()
            return table.iter(*args)

        store.database.families["fingerprints"] = cast(Any, Wrapped(table, iter=opened))
    if isinstance(
        store, MemoryStore
    ):  # of one text the core reads all in one step, that nothing comes between
        near = store.near

        def later(*args: Any) -> NearRows:
            before_scan()
            return near(*args)

        store.near = later  # type: ignore[method-assign]


def once(event: Callable[[], object]) -> Callable[[], object]:
    """Does it the first time, nothing later."""
    events = [event]
    return lambda: events.pop()() if events else None


# --- lookups beside writers ---


WITH_FELLOWS = pytest.mark.parametrize(
    "fellow", [None, F, NEAR_F], ids=["alone", "with y where it was", "with y where it is"]
)
QUERIES = pytest.mark.parametrize("queries", [[F], [F, FAR]], ids=["one", "two"])


@WITH_FELLOWS
@QUERIES
def test_a_document_that_moves_while_it_is_looked_up_is_found(store, fellow, queries):
    add_with(store, fellow)
    mover = threading.Thread(target=lambda: Writer(store, SCHEME).add(batch(["x"], NEAR_F)))

    def move() -> None:
        mover.start()
        mover.join(0.3)  # in some stores it is kept out until the lookup ends

    watch(store, once(move))
    lookup, *_ = Reader(store, SCHEME).find(fingerprints(*queries), Query(k=3))
    mover.join()
    assert dict(found_in(lookup))["x"] in (F, NEAR_F)
    assert dict(found_in(Reader(store, SCHEME).find(fingerprints(F), Query(k=3))[0]))["x"] == NEAR_F


@WITH_FELLOWS
@QUERIES
def test_a_lookup_that_begins_while_rows_are_being_removed_misses_nothing(
    tmp_path, monkeypatch, fellow, queries
):
    """The drawers are read before the rows are gone, the documents after it."""
    with closing(create_store(f"rocksdb:{tmp_path}/store")) as store:
        add_with(store, fellow)
        written = threading.Event()
        lookups: list[Lookup] = []
        reader = Reader(store, SCHEME)
        looking = threading.Thread(
            target=lambda: lookups.extend(reader.find(fingerprints(*queries), Query(k=3)))
        )
        watch(store, lambda: threading.current_thread() is looking and written.wait(5))
        write = database.Database.write

        def write_later(*given: Any, **named: Any) -> None:
            looking.start()
            looking.join(0.3)
            write(*given, **named)
            written.set()
            looking.join(0.3)  # before the commit has ended

        with monkeypatch.context() as patch:
            patch.setattr(database.Database, "write", write_later)
            Writer(store, SCHEME).add(batch(["x"], NEAR_F))
        looking.join()
        assert dict(found_in(lookups[0]))["x"] in (F, NEAR_F)


def add_with(store: Store, fellow: int | None) -> None:
    """x under F, and maybe y under another fingerprint."""
    Writer(store, SCHEME).add(batch(["x"], F))
    if fellow is not None:
        Writer(store, SCHEME).add(batch(["y"], fellow))


def found_in(lookup: Lookup) -> list[tuple[str, int]]:
    return [(match.id, match.fingerprint) for match in lookup.matches]


@contextmanager
def moving(store: Store) -> Iterator[None]:
    """x moves between F and its neighbour all the while."""
    writer = Writer(store, SCHEME)
    stop = threading.Event()

    def move() -> None:
        while not stop.is_set():
            for fingerprint in (NEAR_F, F):
                writer.add(batch(["x"], fingerprint))

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield
    finally:
        stop.set()
        mover.join()


@pytest.mark.parametrize("others", [(), ("y",)], ids=["alone", "beside a document of one of them"])
def test_a_document_that_keeps_moving_is_never_missed(store, others):
    Writer(store, SCHEME).add(DocumentBatch(["x", *others], fingerprints(*[F] * (1 + len(others)))))
    reader = Reader(store, SCHEME)
    missed, seen = 0, set()
    with moving(store):
        for number in range(LOOKUPS):
            (lookup,) = reader.find(fingerprints((F, NEAR_F)[number % 2]), Query(k=3))
            matches = dict(found_in(lookup))
            missed += "x" not in matches or not matches.keys() >= set(others)
            seen.add(matches.get("x"))
    assert missed == 0, f"of {LOOKUPS} lookups"
    assert seen == {F, NEAR_F}, "it moved meanwhile"


MOVING = """
import sys
import numpy as np
from simhbase.drawers.scheme import SimHashScheme
from simhbase.index.writer import Writer, DocumentBatch
from simhbase.drawers.layout import layout
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.stores import open_store
writer = Writer(open_store(sys.argv[1], "write"), SimHashScheme(layout("5x2"), k=3))
print("ready", flush=True)
while True:
    for fingerprint in (int(sys.argv[2]) ^ 1, int(sys.argv[2])):
        writer.add(DocumentBatch(["x"], FingerprintBatch.bare(np.array([fingerprint], dtype=np.uint64))))
"""


@pytest.mark.parametrize("readers", [1, 3], ids=["one thread", "threads that share a reader"])
def test_a_document_that_another_process_keeps_moving_is_never_missed(tmp_path, readers):
    url = f"rocksdb:{tmp_path}/store"
    with closing(create_store(url)) as store:
        Writer(store, SCHEME).add(batch(["x", "y"], F, F))
    outcomes: list[tuple[int, set[int | None]]] = []

    def look_up(store: Store) -> None:
        reader = Reader(store, SCHEME)
        missed, seen = 0, set()
        for number in range(LOOKUPS // readers):
            store.refresh()
            matches = dict(found_in(reader.find(fingerprints((F, NEAR_F)[number % 2]), Query(k=3))[0]))
            missed += matches.keys() != {"x", "y"}
            seen.add(matches.get("x"))
        outcomes.append((missed, seen))

    arguments = [sys.executable, "-c", MOVING, url, str(F)]
    with subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout.readline() == b"ready\n"
            with closing(open_store(url, "read")) as store:
                threads = [threading.Thread(target=look_up, args=(store,)) for _ in range(readers)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert writer.poll() is None
        finally:
            writer.kill()
    assert [missed for missed, _ in outcomes] == [0] * readers
    assert set().union(*(seen for _, seen in outcomes)) >= {F, NEAR_F}, "it moved meanwhile"


@QUERIES
def test_fingerprints_that_lead_to_no_document_are_an_error(store, queries):
    store.drawers.add(encode(as_array(F, NEAR_F), LAYOUT))
    with pytest.raises(StoreFailed, match=rf"the fingerprint ({F:016x}|{NEAR_F:016x}) is in the index and"):
        Reader(store, SCHEME).find(fingerprints(*queries), Query(k=3))
    (lookup,) = Reader(store, SCHEME).find(fingerprints(FAR), Query(k=3))
    assert lookup.matches == ()


# --- writers beside writers ---


def while_committing(store: Store, event: Callable[[], object]) -> tuple[Store, threading.Thread]:
    """The store, with a thread that does something as soon as the first commit is about to be made."""
    thread = threading.Thread(target=event)

    def start() -> None:
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "it is kept out until the commit is made"

    first = once(start)

    def commit(changes: Changes) -> None:
        first()
        store.commit(changes)

    return Wrapped(store, commit=commit), thread


@pytest.mark.parametrize(
    "leave",
    [lambda writer: writer.delete(["x"]), lambda writer: writer.add(batch(["x"], FAR))],
    ids=["delete", "move"],
)
def test_what_is_added_where_the_last_document_leaves_at_this_moment_stays(store, leave):
    Writer(store, SCHEME).add(batch(["x"], F))
    racing, adder = while_committing(store, lambda: Writer(store, SCHEME).add(batch(["y"], F)))
    leave(Writer(racing, SCHEME))
    adder.join()
    assert found_in(Reader(store, SCHEME).find(fingerprints(F), Query(k=0))[0]) == [("y", F)]
    assert not Checker(store, SCHEME).check().problems


def test_two_moves_of_one_document_at_once_leave_it_in_one_place(store):
    Writer(store, SCHEME).add(batch(["x"], F))
    racing, mover = while_committing(store, lambda: Writer(store, SCHEME).add(batch(["x"], FAR)))
    Writer(racing, SCHEME).add(batch(["x"], NEAR_F))
    mover.join()
    lookups = Reader(store, SCHEME).find(fingerprints(F, FAR), Query(k=3))
    assert [found_in(lookup) for lookup in lookups] == [[], [("x", FAR)]]
    assert not Checker(store, SCHEME).check().problems


def test_the_version_of_a_document_rises_though_the_clock_goes_back(store):
    key = rows.document_key("x")
    versions = []
    for number, time in enumerate([1000, 500, 500, 3000, 0]):
        Writer(store, SCHEME, clock=lambda time=time: time).add(batch(["x"], number << 32))
        (cell,) = store.records("documents").get([key])
        versions.append(cell.version)
    assert versions == [1000, 1001, 1002, 3000, 3001]


# --- repairs ---


def test_what_is_added_while_a_repair_clears_drawers_stays(store):
    """F is about to be seen without documents; one is added under F; its drawers are cleared."""
    store.drawers.add(encode(as_array(F), LAYOUT))
    adder = threading.Thread(target=lambda: Writer(store, SCHEME).add(batch(["y"], F)))
    seen = threading.Event()

    def remove(keys: np.ndarray, times: np.ndarray) -> None:
        adder.start()
        adder.join(0.3)  # kept out by the lock, it is not done yet
        assert adder.is_alive()
        seen.set()
        store.drawers.remove(keys, times)

    racing = Wrapped(store, drawers=Wrapped(store.drawers, remove=remove))
    Checker(racing, SCHEME, repair=True).check()
    adder.join()
    assert seen.is_set()
    assert not Checker(store, SCHEME).check().problems
    assert Reader(store, SCHEME).find(fingerprints(F), Query(k=0))[0].matches


def add_wrong_rows(store: Store) -> None:
    keys = encode(as_array(F), LAYOUT)
    keys[0, 0, 0] ^= 1  # another segment
    keys[0, 1, 4] = 200  # no such flag
    store.drawers.add(keys[:, :2])


def put_document(value: bytes, key: bytes = rows.document_key("bad")) -> Callable[[Store], None]:
    return lambda store: store.records("documents").put([(key, value)], VERSION)


def put_listing(key: bytes) -> Callable[[Store], None]:
    return lambda store: store.records("fingerprints").put([(key, b"")], VERSION)


ENTRY = Entry(FAR).encode(rows.document_key("bad"))
DAMAGES = {
    "wrong rows": (add_wrong_rows, {WRONG_ROW: 2}),
    "stray rows": (lambda store: store.drawers.add(encode(as_array(FAR), LAYOUT)), {STRAY_ROW: 10}),
    "empty value": (put_document(b""), {UNREADABLE: 1}),
    "unknown state": (put_document(ENTRY[:8] + b"\x09"), {UNREADABLE: 1}),
    "another state": (put_document(ENTRY[:8] + b"\x02" + ENTRY[9:]), {UNREADABLE: 1}),
    "longer value": (put_document(ENTRY + b"1234"), {UNREADABLE: 1}),
    "key that is no text": (put_document(ENTRY, b"\0\0\0\0\xff"), {UNREADABLE: 1}),
    "key under another hash": (put_document(ENTRY, b"\0\0\0\0bad"), {UNREADABLE: 1}),
    "listed id that is no text": (put_listing(rows.listing_prefix(F) + b"\xff"), {UNREADABLE: 1}),
    "listed id that is empty": (put_listing(rows.listing_prefix(F)), {UNREADABLE: 1}),
    "listing of a stranger": (put_listing(rows.listing_key(F, "stranger")), {STRAY_LISTING: 1}),
    "listing under another fingerprint": (put_listing(rows.listing_key(F, "near")), {STRAY_LISTING: 1}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_told_and_mended_and_nothing_else_is_touched(store, damage):
    Writer(store, SCHEME).add(batch(["good", "near"], F, NEAR_F))
    before = Reader(store, SCHEME).find(fingerprints(F), Query(k=3))
    do_damage, problems = DAMAGES[damage]
    do_damage(store)
    for repair in (False, True):
        report = Checker(store, SCHEME, repair).check()
        assert (report.problems, report.garbage) == (problems, {})
    assert not Checker(store, SCHEME).check().problems
    assert Reader(store, SCHEME).find(fingerprints(F), Query(k=3)) == before


def test_hot_drawers_are_compared_in_lots(store, monkeypatch):
    stored = fingerprints(*range(64))  # all in the same drawers of six tables
    Writer(store, SCHEME).add(DocumentBatch([str(number) for number in range(64)], stored))
    reader = Reader(store, SCHEME)
    whole = reader.find(stored, Query(k=3))
    monkeypatch.setattr("simhbase.index.reader.CHUNK_ROWS", 100)
    assert reader.find(stored, Query(k=3)) == whole
    assert [len(lookup.matches) for lookup in whole] == [1 + 6 + 15 + 20] * 64
