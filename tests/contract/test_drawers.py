"""What simhbase.stores.base.Drawers promises, for every store."""

from itertools import groupby, pairwise
from time import sleep

import numpy as np
import pytest
from numpy.typing import NDArray

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.stores.base import Store
from tests.contract.conftest import Backend
from tests.contract.plain import all_rows, contains, read, remove

LAYOUT = layout("5x2")
ONES = 0xFFFFFFFFFFFFFFFF
AWKWARD = [0, 1, 0xFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000001, 0x0123456789ABCDEF, ONES - 1, ONES]


def keys_of(*fingerprints: int) -> NDArray[np.uint8]:
    return encode(np.array(fingerprints, dtype=np.uint64), LAYOUT)


def prefixes_of(*fingerprints: int) -> NDArray[np.uint8]:
    return prefixes(np.array(fingerprints, dtype=np.uint64), LAYOUT).reshape(-1, PREFIX_BYTES)


def random_fingerprints(n: int, seed: int = 1) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def one_drawer(n: int, prefix: bytes = b"\xff\xff\xff\xc0\x01") -> NDArray[np.uint8]:
    """n rows of one drawer, (n, 1, 13), in random order; 0 and all ones are among the fingerprints."""
    low = np.unique(np.concatenate([random_fingerprints(n, seed=2), np.array([0, ONES], np.uint64)]))
    low = np.concatenate([low[: n - 1], low[-1:]])
    rows = np.empty((n, 1, KEY_BYTES), dtype=np.uint8)
    rows[:, 0, :PREFIX_BYTES] = np.frombuffer(prefix, np.uint8)
    rows[:, 0, PREFIX_BYTES:] = low.astype(">u8").view(np.uint8).reshape(-1, 8)
    return np.random.default_rng(3).permutation(rows)


def contents(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The fingerprints of such rows, ascending."""
    return np.sort(np.ascontiguousarray(rows[:, 0, PREFIX_BYTES:]).view(">u8").ravel()).astype(np.uint64)


def sorted_rows(keys: NDArray[np.uint8]) -> list[bytes]:
    return sorted({row.tobytes() for row in keys.reshape(-1, KEY_BYTES)})


def test_a_fingerprint_comes_back_from_each_of_its_drawers(store: Store) -> None:
    store.drawers.add(keys_of(*AWKWARD))
    for fingerprint in AWKWARD:
        asked = prefixes_of(fingerprint)
        found = read(store, asked, limit=100)
        for drawer in range(len(LAYOUT.tables)):
            rows = found.fingerprints[found.offsets[drawer] : found.offsets[drawer + 1]].tolist()
            assert fingerprint in rows
            assert (prefixes_of(*rows)[drawer :: len(LAYOUT.tables)] == asked[drawer]).all()


def test_a_drawer_holds_nothing_of_its_neighbours(store: Store) -> None:
    lowest, middle, highest = (bytes([0, 0, 0, 0, flag]) for flag in (1, 2, 3))
    for prefix in (lowest, highest):
        store.drawers.add(one_drawer(3, prefix))
    found = read(store, np.frombuffer(lowest + middle + highest, np.uint8).reshape(-1, 5), limit=10)
    assert found.offsets.tolist() == [0, 3, 3, 6]


def test_an_empty_store_has_nothing_in_any_drawer(store: Store) -> None:
    found = read(store, prefixes_of(0, ONES), limit=5)
    assert len(found.fingerprints) == 0
    assert found.offsets.tolist() == [0] * 21
    assert not found.truncated.any()
    assert not contains(store, keys_of(0, ONES)).any()
    assert list(store.drawers.iterate()) == []


def test_a_read_of_no_drawers_finds_nothing(store: Store) -> None:
    store.drawers.add(keys_of(1))
    found = read(store, np.empty((0, PREFIX_BYTES), np.uint8), limit=5)
    assert found.offsets.tolist() == [0]
    assert len(found.fingerprints) == len(found.truncated) == 0


def test_rows_added_twice_are_there_once(store: Store) -> None:
    store.drawers.add(keys_of(5, 6, 5))
    store.drawers.add(keys_of(6))
    assert all_rows(store) == sorted_rows(keys_of(5, 6))


def test_removed_rows_are_gone_and_others_stay(store: Store) -> None:
    store.drawers.add(keys_of(*AWKWARD))
    remove(store, keys_of(AWKWARD[0], ONES))
    assert all_rows(store) == sorted_rows(keys_of(*AWKWARD[1:-1]))


def test_some_tables_of_a_fingerprint_can_be_removed_alone(store: Store) -> None:
    keys = keys_of(7)
    store.drawers.add(keys)
    remove(store, keys[:, 2:4])
    assert contains(store, keys).tolist() == [[table not in (2, 3) for table in range(10)]]


def test_removing_what_is_not_there_does_nothing(store: Store) -> None:
    store.drawers.add(keys_of(1))
    remove(store, keys_of(2))
    remove(store, keys_of(2))
    assert all_rows(store) == sorted_rows(keys_of(1))


def test_a_removed_row_can_be_added_again_at_once(store: Store) -> None:
    for _ in range(3):
        remove(store, keys_of(9))
        store.drawers.add(keys_of(9))
        assert contains(store, keys_of(9)).all()


def test_contains_answers_each_row_for_itself(store: Store) -> None:
    store.drawers.add(keys_of(1, 3))
    assert contains(store, keys_of(1, 2, 3)).tolist() == [[True] * 10, [False] * 10, [True] * 10]


def test_empty_batches_change_nothing(store: Store) -> None:
    nothing = np.empty((0, 10, KEY_BYTES), np.uint8)
    store.drawers.add(nothing)
    remove(store, nothing)
    assert contains(store, nothing).shape == (0, 10)
    assert all_rows(store) == []


def test_a_full_drawer_is_read_to_its_end_in_order(store: Store) -> None:
    rows = one_drawer(5000)
    store.drawers.add(rows)
    found = read(store, rows[0, :, :PREFIX_BYTES], limit=None)
    assert found.fingerprints.tolist() == contents(rows).tolist()
    assert not found.truncated.any()


def test_a_limit_keeps_the_same_rows_each_time_and_says_that_it_cut(store: Store) -> None:
    rows = one_drawer(100)
    store.drawers.add(rows)
    kept = {}
    for limit in (1, 99, 100, 101):
        found = read(store, rows[0, :, :PREFIX_BYTES], limit)
        kept[limit] = found.fingerprints.tolist()
        assert len(set(kept[limit]) & set(contents(rows).tolist())) == min(limit, 100)
        assert kept[limit] == sorted(kept[limit])
        assert found.truncated.tolist() == [limit < 100]
    store.drawers.add(one_drawer(5, b"\x00\x00\x00\x00\x01"))
    for limit, before in kept.items():
        assert read(store, rows[0, :, :PREFIX_BYTES], limit).fingerprints.tolist() == before


def test_each_drawer_has_its_own_limit(store: Store) -> None:
    many, few = one_drawer(50, b"\x00\x00\x00\x00\x01"), one_drawer(3, b"\x00\x00\x00\x00\x02")
    store.drawers.add(many)
    store.drawers.add(few)
    found = read(store, np.concatenate([many[:1, 0, :5], few[:1, 0, :5]]), limit=4)
    assert found.offsets.tolist() == [0, 4, 7]
    assert found.truncated.tolist() == [True, False]


def test_many_drawers_are_answered_each_with_its_own_rows(store: Store) -> None:
    fingerprints = random_fingerprints(300)
    store.drawers.add(encode(fingerprints, LAYOUT))
    asked = np.random.default_rng(4).permutation(fingerprints)
    places = prefixes(asked, LAYOUT).reshape(-1, PREFIX_BYTES)
    _, first = np.unique(places, axis=0, return_index=True)
    first = np.random.default_rng(5).permutation(first)
    found = read(store, places[first], limit=100)
    drawers = np.repeat(first, np.diff(found.offsets))
    same = found.fingerprints == asked[drawers // 10]
    assert sorted(drawers[same].tolist()) == sorted(first.tolist())


def test_a_drawer_longer_than_a_part_comes_in_several(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("base", "arrays", "rocksdb", "memory"):
        monkeypatch.setattr(f"simhbase.stores.{module}.PART_ROWS", 100, raising=False)
    long, short = one_drawer(1050, b"\x00\x00\x00\x00\x01"), one_drawer(30, b"\x00\x00\x00\x00\x02")
    store.drawers.add(long)
    store.drawers.add(short)
    places = np.concatenate([short[:1, 0, :5], long[:1, 0, :5]])
    for limit in (None, 1000, 1050, 1051):
        found = read(store, places, limit)
        lengths = np.diff(found.offsets).tolist()
        assert lengths == [30, min(limit or 1050, 1050)]
        assert found.fingerprints[:30].tolist() == contents(short).tolist()
        assert np.isin(found.fingerprints[30:], contents(long)).all()
        assert len(np.unique(found.fingerprints[30:])) == lengths[1]
        assert found.truncated.tolist() == [False, limit == 1000]


def test_prefixes_may_be_a_view_of_other_bytes(store: Store) -> None:
    store.drawers.add(keys_of(*AWKWARD))
    found = read(store, keys_of(ONES)[0, ::-1, :PREFIX_BYTES], limit=10)
    assert ONES in found.fingerprints.tolist()
    assert found.fingerprints.tolist() == [
        fingerprint
        for prefix in prefixes_of(ONES)[::-1]
        for fingerprint in read(store, prefix[np.newaxis], limit=10).fingerprints.tolist()
    ]


@pytest.fixture
def many(store: Store) -> int:
    """Fingerprints whose rows come with several calls: of 10,000 fingerprints, or rows of HBase."""
    return 1_200 if store.url.startswith("hbase:") else 12_000


def test_big_batches_arrive_whole(store: Store, many: int) -> None:
    fingerprints = random_fingerprints(many)
    store.drawers.add(encode(fingerprints, LAYOUT))
    assert contains(store, encode(fingerprints, LAYOUT)).all()
    assert sum(len(rows.keys) for rows in store.drawers.iterate()) == 10 * many


def test_iterate_gives_all_rows_drawer_by_drawer_in_bounded_batches(store: Store, many: int) -> None:
    keys = encode(np.concatenate([random_fingerprints(many), np.array(AWKWARD, np.uint64)]), LAYOUT)
    store.drawers.add(keys)
    batches = [rows.keys for rows in store.drawers.iterate()]
    rows = [row.tobytes() for batch in batches for row in batch]
    assert sorted(rows) == sorted_rows(keys)
    assert len([drawer for drawer, _ in groupby(row[:PREFIX_BYTES] for row in rows)]) == len(
        {row[:PREFIX_BYTES] for row in rows}
    )
    assert all(batch.dtype == np.uint8 and batch.shape[1:] == (KEY_BYTES,) for batch in batches)
    assert max(map(len, batches)) < len(keys) * 10


def test_the_approximate_size_grows_with_the_rows(store: Store) -> None:
    empty = store.drawers.approximate_size()
    store.drawers.add(encode(random_fingerprints(2000), LAYOUT))
    filled = store.drawers.approximate_size()
    assert empty.rows == 0
    assert filled.rows == pytest.approx(20_000, rel=0.2)
    assert filled.bytes > 20_000


def test_rows_are_there_after_reopening(lasting: Backend) -> None:
    store = lasting.fresh()
    store.drawers.add(keys_of(*AWKWARD))
    remove(store, keys_of(1))
    store.sync()
    again = lasting.reopened(store)
    assert all_rows(again) == sorted_rows(keys_of(*(value for value in AWKWARD if value != 1)))
    assert read(again, prefixes_of(ONES), limit=10).fingerprints.tolist().count(ONES) == 10


def test_iterate_keeps_to_a_range_of_keys(store: Store) -> None:
    ends = np.arange(1_000, dtype=np.uint64) << np.uint64(54)  # in few drawers, with any highest bit
    keys = encode(np.concatenate([random_fingerprints(2_000), ends | np.uint64(5)]), LAYOUT)
    store.drawers.add(keys)
    every = sorted_rows(keys)
    within = sorted_rows(encode(ends[[400, 900]] | np.uint64(5), LAYOUT))
    ranges = [(b"", every[100]), (every[7], b""), (every[5], every[25_000]), (b"\x80", b"\x80")]
    for start, stop in [*ranges, *pairwise(within)]:
        found = sorted(row.tobytes() for rows in store.drawers.iterate(start, stop) for row in rows.keys)
        assert found == [row for row in every if row >= start and (not stop or row < stop)]


def test_rows_have_times_where_they_exist(store: Store) -> None:
    store.drawers.add(keys_of(1, 3))
    times = store.drawers.times(keys_of(1, 2, 3))
    assert times.dtype == np.int64
    assert ((times >= 0) == [[True], [False], [True]]).all()
    for rows in store.drawers.iterate():
        assert rows.times.tolist() == store.drawers.times(rows.keys[:, np.newaxis]).ravel().tolist()


def test_a_row_that_is_put_again_survives_a_removal_of_what_was_seen(hinting: Backend) -> None:
    store = hinting.fresh()
    store.drawers.add(keys_of(4, 5))
    seen = store.drawers.times(keys_of(4, 5))
    sleep(0.01)
    store.drawers.add(keys_of(4))
    store.drawers.remove(keys_of(4, 5).reshape(-1, KEY_BYTES), seen.ravel())
    assert contains(store, keys_of(4, 5)).tolist() == [[True] * 10, [False] * 10]
