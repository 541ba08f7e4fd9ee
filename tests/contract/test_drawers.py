"""What simhbase.stores.base.Drawers promises, for every store."""

import numpy as np
import pytest
from numpy.typing import NDArray

from simhbase.layout import layout
from simhbase.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.stores.base import Store
from tests.contract.conftest import Backend

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


def all_rows(store: Store) -> list[bytes]:
    return [row.tobytes() for batch in store.drawers.iterate() for row in batch]


def sorted_rows(keys: NDArray[np.uint8]) -> list[bytes]:
    return sorted({row.tobytes() for row in keys.reshape(-1, KEY_BYTES)})


@pytest.mark.parametrize("fingerprint", AWKWARD, ids=hex)
def test_a_fingerprint_comes_back_from_each_of_its_drawers(store: Store, fingerprint: int) -> None:
    store.drawers.add(keys_of(*AWKWARD))
    found = store.drawers.read(prefixes_of(fingerprint), limit=100)
    for drawer in range(len(LAYOUT.tables)):
        rows = found.fingerprints[found.offsets[drawer] : found.offsets[drawer + 1]]
        assert fingerprint in rows.tolist()
        assert (
            prefixes_of(*rows.tolist())[drawer :: len(LAYOUT.tables)] == prefixes_of(fingerprint)[drawer]
        ).all()


def test_a_drawer_holds_nothing_of_its_neighbours(store: Store) -> None:
    lowest, middle, highest = (bytes([0, 0, 0, 0, flag]) for flag in (1, 2, 3))
    for prefix in (lowest, highest):
        store.drawers.add(one_drawer(3, prefix))
    found = store.drawers.read(np.frombuffer(lowest + middle + highest, np.uint8).reshape(-1, 5), limit=10)
    assert found.offsets.tolist() == [0, 3, 3, 6]


def test_a_read_has_the_promised_types_and_shapes(store: Store) -> None:
    store.drawers.add(keys_of(1, 2))
    found = store.drawers.read(prefixes_of(1, 5), limit=10)
    assert found.fingerprints.dtype == np.uint64
    assert found.offsets.dtype == np.int64
    assert found.offsets.shape == (21,)
    assert found.offsets[0] == 0
    assert found.offsets[-1] == len(found.fingerprints)
    assert found.truncated.dtype == np.bool_
    assert found.truncated.shape == (20,)


def test_an_empty_store_has_nothing_in_any_drawer(store: Store) -> None:
    found = store.drawers.read(prefixes_of(0, ONES), limit=5)
    assert len(found.fingerprints) == 0
    assert found.offsets.tolist() == [0] * 21
    assert not found.truncated.any()
    assert not store.drawers.contains(keys_of(0, ONES)).any()
    assert list(store.drawers.iterate()) == []


def test_a_read_of_no_drawers_finds_nothing(store: Store) -> None:
    store.drawers.add(keys_of(1))
    found = store.drawers.read(np.empty((0, PREFIX_BYTES), np.uint8), limit=5)
    assert found.offsets.tolist() == [0]
    assert len(found.fingerprints) == len(found.truncated) == 0


def test_rows_added_twice_are_there_once(store: Store) -> None:
    store.drawers.add(keys_of(5, 6, 5))
    store.drawers.add(keys_of(6))
    assert all_rows(store) == sorted_rows(keys_of(5, 6))


def test_removed_rows_are_gone_and_others_stay(store: Store) -> None:
    store.drawers.add(keys_of(*AWKWARD))
    store.drawers.remove(keys_of(AWKWARD[0], ONES), before=store.moment())
    assert all_rows(store) == sorted_rows(keys_of(*AWKWARD[1:-1]))


def test_some_tables_of_a_fingerprint_can_be_removed_alone(store: Store) -> None:
    keys = keys_of(7)
    store.drawers.add(keys)
    store.drawers.remove(keys[:, 2:4], before=store.moment())
    assert store.drawers.contains(keys).tolist() == [[table not in (2, 3) for table in range(10)]]


def test_removing_what_is_not_there_does_nothing(store: Store) -> None:
    store.drawers.add(keys_of(1))
    store.drawers.remove(keys_of(2), before=store.moment())
    store.drawers.remove(keys_of(2), before=store.moment())
    assert all_rows(store) == sorted_rows(keys_of(1))


def test_a_removed_row_can_be_added_again_at_once(store: Store) -> None:
    for _ in range(3):
        store.drawers.remove(keys_of(9), before=store.moment())
        store.drawers.add(keys_of(9))
        assert store.drawers.contains(keys_of(9)).all()


def test_contains_answers_each_row_for_itself(store: Store) -> None:
    store.drawers.add(keys_of(1, 3))
    assert store.drawers.contains(keys_of(1, 2, 3)).tolist() == [[True] * 10, [False] * 10, [True] * 10]


def test_empty_batches_change_nothing(store: Store) -> None:
    nothing = np.empty((0, 10, KEY_BYTES), np.uint8)
    store.drawers.add(nothing)
    store.drawers.remove(nothing, before=store.moment())
    assert store.drawers.contains(nothing).shape == (0, 10)
    assert all_rows(store) == []


def test_a_full_drawer_is_read_to_its_end_in_order(store: Store) -> None:
    rows = one_drawer(5000)
    store.drawers.add(rows)
    found = store.drawers.read(rows[0, :, :PREFIX_BYTES], limit=None)
    assert found.fingerprints.tolist() == contents(rows).tolist()
    assert not found.truncated.any()


@pytest.mark.parametrize(("limit", "truncated"), [(1, True), (99, True), (100, False), (101, False)])
def test_a_limit_keeps_the_smallest_and_says_that_it_cut(store: Store, limit: int, truncated: bool) -> None:
    rows = one_drawer(100)
    store.drawers.add(rows)
    found = store.drawers.read(rows[0, :, :PREFIX_BYTES], limit)
    assert found.fingerprints.tolist() == contents(rows)[:limit].tolist()
    assert found.truncated.tolist() == [truncated]


def test_each_drawer_has_its_own_limit(store: Store) -> None:
    many, few = one_drawer(50, b"\x00\x00\x00\x00\x01"), one_drawer(3, b"\x00\x00\x00\x00\x02")
    store.drawers.add(many)
    store.drawers.add(few)
    found = store.drawers.read(np.concatenate([many[:1, 0, :5], few[:1, 0, :5], many[:1, 0, :5]]), limit=4)
    assert found.offsets.tolist() == [0, 4, 7, 11]
    assert found.truncated.tolist() == [True, False, True]


def test_drawers_are_answered_in_the_order_asked_and_as_often(store: Store) -> None:
    fingerprints = random_fingerprints(300)
    store.drawers.add(encode(fingerprints, LAYOUT))
    asked = np.random.default_rng(4).choice(fingerprints, 1000)
    found = store.drawers.read(prefixes(asked, LAYOUT).reshape(-1, PREFIX_BYTES), limit=100)
    drawers = np.repeat(np.arange(len(asked) * 10), np.diff(found.offsets))
    same = found.fingerprints == asked[drawers // 10]
    assert np.unique(drawers[same]).tolist() == list(range(len(asked) * 10))


def test_prefixes_may_be_a_view_of_other_bytes(store: Store) -> None:
    store.drawers.add(keys_of(*AWKWARD))
    found = store.drawers.read(keys_of(ONES)[0, ::-1, :PREFIX_BYTES], limit=10)
    assert ONES in found.fingerprints.tolist()
    assert found.fingerprints.tolist() == [
        fingerprint
        for prefix in prefixes_of(ONES)[::-1]
        for fingerprint in store.drawers.read(prefix[np.newaxis], limit=10).fingerprints.tolist()
    ]


def test_big_batches_arrive_whole(store: Store) -> None:
    fingerprints = random_fingerprints(30_000)
    store.drawers.add(encode(fingerprints, LAYOUT))
    assert store.drawers.contains(encode(fingerprints, LAYOUT)).all()
    assert sum(map(len, store.drawers.iterate())) == 300_000


def test_iterate_gives_all_rows_in_order_in_bounded_batches(store: Store) -> None:
    keys = encode(np.concatenate([random_fingerprints(4000), np.array(AWKWARD, np.uint64)]), LAYOUT)
    store.drawers.add(keys)
    batches = list(store.drawers.iterate())
    assert [row.tobytes() for batch in batches for row in batch] == sorted_rows(keys)
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
    store.drawers.remove(keys_of(1), before=store.moment())
    store.sync()
    again = lasting.reopened(store)
    assert all_rows(again) == sorted_rows(keys_of(*(value for value in AWKWARD if value != 1)))
    assert again.drawers.read(prefixes_of(ONES), limit=10).fingerprints.tolist().count(ONES) == 10
