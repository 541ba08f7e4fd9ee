"""The HBase store on a real HBase: its bytes, its times, its processes, its errors."""

import multiprocessing
import re
import time
from collections.abc import Iterator
from contextlib import closing

import happybase
import numpy as np
import pytest

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import encode, prefixes
from simhbase.drawers.scheme import SimHashScheme
from simhbase.errors import ReadOnly, StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.reader import Reader
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Query
from simhbase.stores import open_store
from simhbase.stores.base import Cell, now
from simhbase.stores.hbase import HBaseStore
from tests.cluster import Cluster
from tests.contract.plain import Values, contains

pytestmark = pytest.mark.hbase

LAYOUT = layout("5x2")
SCHEME = SimHashScheme(LAYOUT, k=3)
F1 = 0x0123456789ABCDEF


def keys_of(*fingerprints: int) -> np.ndarray:
    return encode(np.array(fingerprints, dtype=np.uint64), LAYOUT)


@pytest.fixture
def url(hbase: Cluster) -> str:
    return hbase.empty_store("alone")


@pytest.fixture
def store(url: str) -> Iterator[HBaseStore]:
    with closing(open_store(url, "write")) as store:
        yield store


@pytest.fixture
def connection(hbase: Cluster) -> Iterator[happybase.Connection]:
    with closing(happybase.Connection(*hbase.gateway, timeout=60_000)) as connection:
        yield connection


# Bytes


def as_the_shell_shows(key: bytes) -> str:
    """Bytes.toStringBinary of HBase."""
    plain = set(
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 `~!@#$%^&*()-_=+[]{}|;:'\",.<>/?"
    )
    return "".join(chr(byte) if byte in plain else f"\\x{byte:02X}" for byte in key)


def scanned(output: str) -> list[tuple[str, str, str, str]]:
    """Row, column, time and value of each line of the shell's scan."""
    return re.findall(r"^ (.+?) +column=([^,]+), timestamp=([^,]+), value=(.*)$", output, re.MULTILINE)


def test_rows_have_the_bytes_of_the_format(hbase, store):
    moved = now()
    deleted = moved + 1

    def writer(version: int) -> Writer:
        return Writer(store, SCHEME, clock=lambda: version, chance=lambda _: 0)

    for version, fingerprint in ((moved - 5, F1 ^ 1), (moved, F1)):
        writer(version).add(
            DocumentBatch(["a1"], FingerprintBatch.bare(np.array([fingerprint], dtype=np.uint64)))
        )
    writer(deleted).delete(["a1"])
    tables = ("index", "fingerprints", "documents", "obsolete")
    said = hbase.shell("".join(f"scan 'alone_{name}'\n" for name in tables) + "exit\n")
    index, fingerprints, documents, obsolete = (
        scanned(part) for part in re.split(r"ROW +COLUMN\+CELL", said)[1:]
    )

    golden = (
        "0123454001 0124f10002 0126af0003 0126f78004 68acf10005 68aeaf0006 68aef78007 9e26af0008 9e26f78009 "
        "d5e6f7800a"
    )
    word = bytes.fromhex("0123456789abcdef")
    assert [(row, column, value) for row, column, _, value in index if row.endswith("\\xEF")] == [
        (as_the_shell_shows(bytes.fromhex(drawer) + word), "i:", "") for drawer in golden.split()
    ]
    assert len(index) == 20
    before = as_the_shell_shows(bytes.fromhex("0123456789abcdee") + b"a1")
    listing = as_the_shell_shows(word + b"a1")
    assert [(row, column, value) for row, column, _, value in fingerprints] == [
        (before, "d:", ""),
        (listing, "d:", ""),
    ]
    ((document, column, _, entry),) = documents
    assert (document, column) == (as_the_shell_shows(bytes.fromhex("3494977a") + b"a1"), "d:")
    # The state deleted, and the checksum.
    assert entry == as_the_shell_shows(word + bytes.fromhex("02372e040f"))
    assert [(row, column, value) for row, column, _, value in obsolete] == [
        (as_the_shell_shows(b"\x34" + moment.to_bytes(8) + row), "d:", "")
        for moment, row in (
            (moved, bytes.fromhex("0123456789abcdee") + b"a1"),
            (deleted, word + b"a1"),
        )
    ]


def test_a_row_that_is_not_ours_is_named(store, connection):
    store.drawers.add(keys_of(F1))
    connection.table("alone_index").put(b"\x01\x23\x45\x40\x01by hand", {b"i:": b""})
    try:
        with pytest.raises(
            StoreFailed, match=r"alone_index holds the row b'\\x01#E@\\x01by hand', which is none"
        ):
            list(store.drawers.iterate())
        with pytest.raises(StoreFailed, match="alone_index holds the row"):
            list(store.drawers.read(prefixes(np.array([F1], np.uint64), LAYOUT).reshape(-1, 5), limit=10))
    finally:
        connection.table("alone_index").delete(b"\x01\x23\x45\x40\x01by hand")


def test_other_columns_of_our_rows_are_left_alone(store, connection):
    records = Values(store.records("meta"))
    records.put([(b"a", b"1"), (b"b", b"2")])
    connection.table("alone_meta").put(b"a", {b"d:note": b"x"})
    connection.table("alone_meta").put(b"c", {b"d:note": b"x"})
    assert records.get([b"a", b"c"]) == [b"1", None]
    assert [row for batch in records.iterate() for row in batch] == [(b"a", b"1"), (b"b", b"2")]
    records.delete([b"a"])
    assert connection.table("alone_meta").row(b"a") == {b"d:note": b"x"}
    connection.table("alone_meta").delete(b"a")
    connection.table("alone_meta").delete(b"c")


def test_values_of_a_megabyte_come_back(store):
    records = Values(store.records("meta"))
    rows = [(b"%03d" % number, bytes([number]) * (1 << 20)) for number in range(30)]
    records.put(rows)
    assert records.scan([b""], 100) == [rows]
    assert records.get([key for key, _ in rows]) == [value for _, value in rows]
    records.delete([key for key, _ in rows])


# Times


def test_what_is_deleted_can_be_put_again_at_once_a_hundred_times(store):
    records = Values(store.records("meta"))
    lost = 0
    for number in range(100):
        records.put([(b"k", b"old")])
        records.delete([b"k"])
        records.put([(b"k", b"%d" % number)])
        lost += records.get([b"k"]) != [b"%d" % number]
    assert lost == 0


def test_what_is_removed_from_the_index_can_be_added_again_at_once(store):
    keys = keys_of(F1)
    for _ in range(50):
        store.drawers.add(keys)
        store.drawers.remove(keys[0], store.drawers.times(keys)[0])
        assert (store.drawers.times(keys) == -1).all()
        store.drawers.add(keys)
        assert (store.drawers.times(keys) > 0).all()


def test_a_removal_spares_what_was_put_after_the_time_that_was_seen(store):
    keys = keys_of(F1)
    store.drawers.add(keys)
    for _ in range(50):
        times = store.drawers.times(keys)
        time.sleep(0.002)  # what is put in the same millisecond cannot be told from what was seen
        store.drawers.add(keys)
        store.drawers.remove(keys[0], times[0])
        assert (store.drawers.times(keys) > times).all()


def test_a_cell_has_the_version_that_it_was_written_with_and_the_highest_stays(store):
    records = store.records("documents")
    key, ahead = b"versions", now() + 3_600_000
    for version, value in ((ahead, b"first"), (ahead - 1, b"late"), (ahead + 1, b"last"), (ahead, b"again")):
        records.put([(key, value)], version)
    assert records.get([key]) == [Cell(b"last", ahead + 1)]
    records.delete([key], [ahead])
    assert records.get([key]) == [Cell(b"last", ahead + 1)]
    records.delete([key], [ahead + 1])
    assert records.get([key]) == [None]
    records.put([(key, b"anew")], ahead + 2)
    assert records.get([key]) == [Cell(b"anew", ahead + 2)]


def test_deleted_documents_can_be_added_again(store):
    writer, reader = Writer(store, SCHEME), Reader(store, SCHEME)
    fingerprints = FingerprintBatch.bare(np.arange(20, dtype=np.uint64) * np.uint64(0x0101010101010101))
    ids = [f"d{number}" for number in range(20)]
    for _ in range(5):
        writer.add(DocumentBatch(ids, fingerprints))
        assert writer.delete(ids) == 20
        assert all(not lookup.matches for lookup in reader.find(fingerprints, Query(k=3)))
        writer.add(DocumentBatch(ids, fingerprints))
        found = reader.find(fingerprints, Query(k=0))
        assert [[match.id for match in lookup.matches] for lookup in found] == [[name] for name in ids]


def test_the_cell_that_tells_the_servers_time_is_not_among_the_records(url):
    with closing(open_store(url, "write")) as store:  # which has put it
        assert store.records("meta").scan([b""], 10) == [[]]
        assert list(store.records("meta").iterate()) == []


# Processes


def count_up(url: str, times: int, results: "multiprocessing.SimpleQueue[list[int]]") -> None:
    with closing(open_store(url, "write")) as store:
        results.put([store.records("meta").increment(b"n") for _ in range(times)])


def test_each_of_many_processes_gets_its_own_numbers(url):
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    processes = [context.Process(target=count_up, args=(url, 50, results)) for _ in range(3)]
    for process in processes:
        process.start()
    numbers = [number for _ in processes for number in results.get()]
    for process in processes:
        process.join()
    assert sorted(numbers) == list(range(1, 151))


def use_in_child(store: HBaseStore, results: "multiprocessing.SimpleQueue[object]") -> None:
    records = Values(store.records("documents"))
    seen = []
    for number in range(100):
        records.put([(b"child", b"%d" % number)])
        seen.append(records.get([b"child", b"parent"])[0] == b"%d" % number)
    results.put(all(seen))
    store.close()


def test_a_store_works_on_both_sides_of_a_fork(store):
    records = Values(store.records("documents"))
    records.put([(b"parent", b"0")])
    store.drawers.add(keys_of(*range(2000)))  # so that there are several idle connections
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=use_in_child, args=(store, results))
    child.start()
    for number in range(100):
        records.put([(b"parent", b"%d" % number)])
        assert records.get([b"parent"]) == [b"%d" % number]
    assert results.get() is True
    child.join()
    assert child.exitcode == 0
    assert records.get([b"parent", b"child"]) == [b"99", b"99"]
    assert contains(store, keys_of(*range(2000))).all()


# Errors


def test_a_store_that_is_read_refuses_all_writes(url):
    with closing(open_store(url, "read")) as store:
        records = Values(store.records("meta"))
        for write in (
            lambda: records.put([(b"a", b"1")]),
            lambda: records.delete([b"a"]),
            lambda: records.increment(b"a"),
            lambda: records.compare_and_set(b"a", None, b"1"),
            lambda: store.drawers.add(keys_of(F1)),
            lambda: store.drawers.remove(keys_of(F1)[0], np.ones(10, np.int64)),
        ):
            with pytest.raises(ReadOnly, match="was opened for reading: open it with access='write'"):
                write()
        assert records.get([b"a"]) == [None]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda records: records.put([(b"a", bytes(11_000_000))]), "KeyValue size too large"),
        (lambda records: records.put([(b"", b"1")]), "Internal error processing mutateRows"),
        (lambda records: records.increment(b"text"), "DoNotRetryIOException: Field is not a long"),
    ],
)
def test_what_hbase_refuses_is_said_in_one_line(hbase, store, write, message):
    records = Values(store.records("meta"))
    records.put([(b"text", b"abc")])
    with pytest.raises(StoreFailed) as caught:
        write(records)
    host, port = hbase.gateway
    assert re.fullmatch(f"writing to alone_meta failed: {host}:{port}: .*{message}.*", str(caught.value))
    assert "\n" not in str(caught.value)
    assert "org.apache" not in str(caught.value)


def test_guessed_sizes_are_about_right(store):
    fingerprints = np.random.default_rng(5).integers(0, 2**64, 10_000, dtype=np.uint64)
    store.drawers.add(encode(fingerprints, LAYOUT))
    store.drawers.add(encode(np.arange(1000, dtype=np.uint64), LAYOUT))  # drawers that are crowded
    size = store.drawers.approximate_size()
    assert size.rows == pytest.approx(110_000, rel=0.3)
    assert size.bytes == pytest.approx(31 * size.rows)
