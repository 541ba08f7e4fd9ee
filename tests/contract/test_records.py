"""What simhbase.stores.base.Records promises, for every store and the tables that all of them have."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

import pytest

from simhbase.stores.base import ATOMIC_TABLES, Cell, HintingStore, Records, RecordTable, Store
from tests.contract.conftest import Backend
from tests.contract.plain import Values, milliseconds

VERSIONED = [table for table in ATOMIC_TABLES if table != "meta"]
AWKWARD = [
    b"\x00",
    b"\x00\x00",
    b"a",
    b"a\x00",
    b"a\xff",
    b"b",
    b"\xff",
    b"\xff\x00",
    b"\xff" * 9,
    b"\xff" * 40,
]


Test = Callable[[Store], None]


def of_each_table(test: Callable[[Values], None]) -> Test:
    """A test of each table of one store: to make or empty one takes longer than the tests."""

    def on(store: Store) -> None:
        for table in ATOMIC_TABLES:
            with named(table):
                test(Values(store.records(table)))

    return called_as(test, on)


def of_each_versioned(test: Callable[[Records], None]) -> Test:
    def on(store: Store) -> None:
        for table in VERSIONED:
            with named(table):
                test(store.records(table))

    return called_as(test, on)


def called_as(test: Callable[..., None], on: Test) -> Test:
    on.__name__, on.__doc__ = test.__name__, test.__doc__
    return on


@contextmanager
def named(table: RecordTable) -> Iterator[None]:
    """Says of which table an error is."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the table {table}")
        raise


def many(store: Store, table: RecordTable) -> int:
    """A prime number of rows that come in several batches: those of HBase are small."""
    if store.url.startswith("hbase:"):
        return 103 if table == "meta" else 2_503
    return 30_011


def everything(records: Values) -> list[tuple[bytes, bytes]]:
    return [row for batch in records.iterate() for row in batch]


@of_each_table
def test_values_come_back_in_the_order_asked(records: Values) -> None:
    records.put([(b"a", b"1"), (b"b", b""), (b"c", b"\x00\xff" * 500)])
    assert records.get([b"c", b"nothing", b"a", b"b", b"a"]) == [b"\x00\xff" * 500, None, b"1", b"", b"1"]


@of_each_table
def test_a_put_replaces(records: Values) -> None:
    records.put([(b"a", b"1"), (b"a", b"2")])
    records.put([(b"a", b"3")])
    assert records.get([b"a"]) == [b"3"]
    assert everything(records) == [(b"a", b"3")]


@of_each_table
def test_the_last_of_several_values_in_one_put_counts(records: Values) -> None:
    records.put([(b"a", b"1"), (b"b", b"x"), (b"a", b"2")])
    assert records.get([b"a"]) == [b"2"]


@of_each_table
def test_deleted_keys_are_gone_and_others_stay(records: Values) -> None:
    records.put([(key, key) for key in AWKWARD])
    records.delete([b"a", b"\xff", b"never there"])
    kept = [key for key in AWKWARD if key not in (b"a", b"\xff")]
    assert records.get(AWKWARD) == [key if key in kept else None for key in AWKWARD]
    assert everything(records) == [(key, key) for key in sorted(kept)]


@of_each_table
def test_a_put_after_a_delete_is_visible_at_once(records: Values) -> None:
    for value in (b"1", b"2", b"3"):
        records.delete([b"a"])
        records.put([(b"a", value)])
        assert records.get([b"a"]) == [value]
        assert records.scan([b"a"], 5) == [[(b"a", value)]]


@of_each_table
def test_empty_batches_change_nothing(records: Values) -> None:
    records.put([])
    records.delete([])
    assert records.get([]) == []
    assert records.scan([], 5) == []
    assert everything(records) == []


def test_stores_of_many_writers_note_what_is_obsolete(hinting: Backend) -> None:
    obsolete = hinting.fresh().records("obsolete")
    now = milliseconds()
    obsolete.put([(b"\x01note", b"")], now)
    assert list(obsolete.iterate(b"\x01", b"\x02")) == [[(b"\x01note", Cell(b"", now))]]


def test_tables_are_apart(store: Store) -> None:
    for table in store.tables:
        store.records(table).put([(b"key", table.encode())])
    store.records("meta").delete([b"key"])
    found = {table: Values(store.records(table)).get([b"key"])[0] for table in store.tables}
    assert found == {table: None if table == "meta" else table.encode() for table in store.tables}


@of_each_table
def test_scan_gives_the_rows_under_a_prefix_in_order(records: Values) -> None:
    records.put([(key, key[::-1]) for key in AWKWARD])
    for prefix in (b"", b"a", b"\x00", b"\xff", b"\xff" * 9, b"b", b"none"):
        expected = [(key, key[::-1]) for key in sorted(AWKWARD) if key.startswith(prefix)]
        assert records.scan([prefix], 100) == [expected]


@of_each_table
def test_scan_stops_at_its_limit(records: Values) -> None:
    keys = [b"p" + bytes([i]) for i in range(5)]
    records.put([(key, b"v") for key in [*keys, b"o", b"q"]])
    for limit in (1, 4, 5, 6):
        assert records.scan([b"p"], limit) == [[(key, b"v") for key in keys[:limit]]]


@of_each_table
def test_scan_answers_every_prefix_in_the_order_asked_and_as_often(records: Values) -> None:
    records.put([(b"%d:%d" % (i, j), b"") for i in range(100) for j in range(3)])
    asked = [b"%d:" % (i * 37 % 150) for i in range(400)]
    found = records.scan(asked, 2)
    for prefix, rows in zip(asked, found, strict=True):
        assert [key for key, _ in rows] == ([prefix + b"0", prefix + b"1"] if int(prefix[:-1]) < 100 else [])


@of_each_table
def test_iterate_starts_at_a_key_inclusively(records: Values) -> None:
    records.put([(key, b"v") for key in AWKWARD])
    for start in [*AWKWARD, b"", b"aa", b"\xff" * 41]:
        found = [key for batch in records.iterate(start) for key, _ in batch]
        assert found == [key for key in sorted(AWKWARD) if key >= start]


@pytest.mark.parametrize("table", ATOMIC_TABLES)
def test_iterate_gives_all_rows_in_order_in_bounded_batches(store: Store, table: RecordTable) -> None:
    records, count = Values(store.records(table)), many(store, table)
    rows = [(b"%05d" % (i * 7919 % count), b"%d" % i) for i in range(count)]
    records.put(rows)
    batches = list(records.iterate())
    assert [row for batch in batches for row in batch] == sorted(rows)
    assert max(map(len, batches)) < len(rows)


@pytest.mark.parametrize("table", ATOMIC_TABLES)
def test_rows_written_while_iterating_disturb_nothing(store: Store, table: RecordTable) -> None:
    records, count = Values(store.records(table)), many(store, table)
    records.put([(b"%05d" % i, b"") for i in range(count)])
    seen = []
    for batch in records.iterate():
        records.put([(b"%05d!" % i, b"") for i in range(3)])
        records.delete([key for key, _ in batch])
        seen += [key for key, _ in batch if not key.endswith(b"!")]
    assert seen == [b"%05d" % i for i in range(count)]


@of_each_table
def test_compare_and_set_needs_the_expected_value(records: Values) -> None:
    assert not records.compare_and_set(b"a", b"1", b"2")
    assert records.get([b"a"]) == [None]
    assert records.compare_and_set(b"a", None, b"1")
    assert not records.compare_and_set(b"a", None, b"2")
    assert not records.compare_and_set(b"a", b"0", b"2")
    assert records.get([b"a"]) == [b"1"]
    assert records.compare_and_set(b"a", b"1", b"2")
    assert records.get([b"a"]) == [b"2"]


@of_each_table
def test_a_repeated_compare_and_set_has_succeeded(records: Values) -> None:
    records.put([(b"a", b"1")])
    assert [records.compare_and_set(b"a", b"1", b"2") for _ in range(2)] == [True, True]
    assert [records.compare_and_set(b"b", None, b"1") for _ in range(2)] == [True, True]
    assert not records.compare_and_set(b"a", b"1", b"3")


@of_each_table
def test_compare_and_set_after_a_delete_finds_the_key_absent(records: Values) -> None:
    records.put([(b"a", b"1")])
    records.delete([b"a"])
    assert not records.compare_and_set(b"a", b"1", b"2")
    assert records.compare_and_set(b"a", None, b"2")


def test_increment_counts_from_one_in_64_bits_big_endian(hinting: Backend) -> None:
    records = Values(hinting.fresh().records("meta"))
    assert [records.increment(b"n") for _ in range(2)] == [1, 2]
    assert records.get([b"n"]) == [(2).to_bytes(8)]
    records.put([(b"n", (255).to_bytes(8))])
    assert records.increment(b"n") == 256
    assert records.get([b"n"]) == [(256).to_bytes(8)]
    assert records.increment(b"other") == 1


@of_each_table
def test_of_many_threads_one_wins_each_compare_and_set(records: Values) -> None:
    def race(worker: int) -> list[int]:
        return [i for i in range(100) if records.compare_and_set(b"%d" % i, None, b"%d" % worker)]

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(8)))
    assert sorted(i for wins in won for i in wins) == list(range(100))
    for worker, wins in enumerate(won):
        assert records.get([b"%d" % i for i in wins]) == [b"%d" % worker] * len(wins)


def test_of_many_threads_each_gets_its_own_count(hinting: Backend) -> None:
    records = Values(hinting.fresh().records("meta"))
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: records.increment(b"n"), range(800)))
    assert sorted(counts) == list(range(1, 801))


def test_what_is_read_and_written_under_exclusive_is_not_interleaved(atomic: Backend) -> None:
    store = atomic.fresh()
    records = Values(store.records("documents"))
    records.put([(b"n", b"0")])

    def add_one(_: int) -> None:
        with store.exclusive(), store.exclusive():  # it may be taken again by who has it
            (value,) = records.get([b"n"])
            assert value is not None
            records.put([(b"n", b"%d" % (int(value) + 1))])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, range(200)))
    assert records.get([b"n"]) == [b"200"]


def test_threads_can_read_while_others_write(store: Store) -> None:
    records = Values(store.records("fingerprints"))

    def work(worker: int) -> None:
        for i in range(50):
            key = b"%d:%d" % (worker, i)
            records.put([(key, b"v")])
            assert records.get([key]) == [b"v"]
            assert len(records.scan([b"%d:" % worker], 100)[0]) == i + 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(map(len, records.iterate())) == 400


@of_each_table
def test_the_approximate_size_grows_with_the_rows(records: Values) -> None:
    assert records.approximate_size().rows == 0
    records.put([(b"%d" % i, b"0123456789") for i in range(3000)])
    size = records.approximate_size()
    assert size.rows == pytest.approx(3000, rel=0.2)
    assert size.bytes > 3000


def test_records_are_there_after_reopening(lasting: Backend) -> None:
    store = lasting.fresh()
    for table in ATOMIC_TABLES:
        store.records(table).put([(key, key) for key in AWKWARD])
        store.records(table).delete([b"a"])
    store.sync()
    again = lasting.reopened(store)
    for table in ATOMIC_TABLES:
        records = Values(again.records(table))
        assert records.get(AWKWARD) == [None if key == b"a" else key for key in AWKWARD]


@of_each_table
def test_iterate_stops_before_a_key(records: Values) -> None:
    records.put([(key, b"v") for key in AWKWARD])
    for stop in [*AWKWARD, b"aa", b"\xff" * 41]:
        found = [key for batch in records.iterate(b"a", stop) for key, _ in batch]
        assert found == [key for key in sorted(AWKWARD) if b"a" <= key < stop]


@of_each_versioned
def test_cells_come_back_with_their_versions(versioned: Records) -> None:
    now = milliseconds()
    versioned.put([(b"a", b"1"), (b"b", b"")], now + 1)
    versioned.put([(b"c", b"3")], now)
    one, two, three = Cell(b"1", now + 1), Cell(b"", now + 1), Cell(b"3", now)
    assert versioned.get([b"c", b"b", b"no", b"a"]) == [three, two, None, one]
    assert versioned.scan([b"b"], 5) == [[(b"b", two)]]
    assert list(versioned.iterate()) == [[(b"a", one), (b"b", two), (b"c", three)]]


@of_each_versioned
def test_the_higher_version_wins_whatever_comes_when(versioned: Records) -> None:
    now = milliseconds()
    versioned.put([(b"a", b"new"), (b"b", b"new")], now + 20)
    versioned.put([(b"a", b"old"), (b"c", b"old")], now + 10)
    versioned.put([(b"b", b"newer")], now + 30)
    assert versioned.get([b"a", b"b", b"c"]) == [
        Cell(b"new", now + 20),
        Cell(b"newer", now + 30),
        Cell(b"old", now + 10),
    ]


@of_each_versioned
def test_a_put_that_is_carried_out_twice_changes_nothing(versioned: Records) -> None:
    now = milliseconds()
    for _ in range(2):
        versioned.put([(b"a", b"1")], now)
    assert versioned.get([b"a"]) == [Cell(b"1", now)]


@of_each_versioned
def test_a_delete_goes_up_to_a_version(versioned: Records) -> None:
    now = milliseconds()
    versioned.put([(b"a", b"1"), (b"b", b"1")], now + 10)
    versioned.put([(b"c", b"1")], now + 12)
    versioned.delete([b"a", b"b", b"c", b"never there"], [now + 10, now + 9, now + 12, now + 10])
    assert versioned.get([b"a", b"b", b"c"]) == [None, Cell(b"1", now + 10), None]
    versioned.put([(b"a", b"2")], now + 11)
    assert versioned.get([b"a"]) == [Cell(b"2", now + 11)]


@of_each_versioned
def test_compare_and_set_wins_over_a_version_of_the_future(versioned: Records) -> None:
    ahead = milliseconds() + 600_000  # another machine's clock
    versioned.put([(b"a", b"1")], ahead)
    assert versioned.compare_and_set(b"a", b"1", b"2")
    (cell,) = versioned.get([b"a"])
    assert cell is not None
    assert (cell.value, cell.version >= ahead) == (b"2", True)


NAME, OTHER_NAME = b"\x00" * 16, b":\xff" * 8


@pytest.fixture
def shared_store(hinting: Backend) -> HintingStore:
    return cast(HintingStore, hinting.fresh())


def test_named_cells_are_beside_the_own_ones(shared_store: HintingStore) -> None:
    now = milliseconds()
    documents, named = shared_store.records("documents"), shared_store.document_cells
    documents.put([(b"a", b"own"), (b"b", b"own")], now)
    named.put(NAME, [(b"a", b"1"), (b"c", b"2")], [now + 5, now + 6])
    named.put(OTHER_NAME, [(b"a", b"")], [now])
    named.put(NAME, [(b"a", b"older")], [now + 4])
    of_a = {b"": Cell(b"own", now), NAME: Cell(b"1", now + 5), OTHER_NAME: Cell(b"", now)}
    assert named.get([b"c", b"no", b"a", b"c"]) == [
        {NAME: Cell(b"2", now + 6)},
        {},
        of_a,
        {NAME: Cell(b"2", now + 6)},
    ]
    assert [row for batch in named.iterate() for row in batch] == [
        (b"a", of_a),
        (b"b", {b"": Cell(b"own", now)}),
        (b"c", {NAME: Cell(b"2", now + 6)}),
    ]
    own = [(b"a", Cell(b"own", now)), (b"b", Cell(b"own", now))]
    assert documents.get([b"a", b"b", b"c"]) == [own[0][1], own[1][1], None]
    assert [row for batch in documents.iterate() for row in batch] == own
    assert documents.scan([b"a", b"b", b"c"], 5) == [[own[0]], [own[1]], []]


def test_who_deletes_own_cells_leaves_named_ones_and_the_other_way_round(shared_store: HintingStore) -> None:
    now = milliseconds()
    documents, named = shared_store.records("documents"), shared_store.document_cells
    documents.put([(b"a", b"own"), (b"b", b"own")], now)
    named.put(NAME, [(b"a", b"1"), (b"b", b"1")], [now, now + 1])
    documents.delete([b"a"], [now + 5])
    named.delete([(b"b", NAME), (b"never there", NAME)], [now, now])
    assert named.get([b"a", b"b"]) == [
        {NAME: Cell(b"1", now)},
        {b"": Cell(b"own", now), NAME: Cell(b"1", now + 1)},
    ]
    named.delete([(b"a", NAME), (b"b", NAME)], [now, now + 1])
    assert named.get([b"a", b"b"]) == [{}, {b"": Cell(b"own", now)}]
