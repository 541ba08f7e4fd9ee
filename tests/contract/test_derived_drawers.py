"""Stores that keep a row per fingerprint and derive its drawers answer as those with a row per drawer."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simhbase.drawers.layout import Layout, layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.stores import create_store
from simhbase.stores.base import Store
from tests.contract.plain import all_rows, contains, read
from tests.postgresql import PostgreSQL

pytestmark = pytest.mark.postgresql
ONES = 0xFFFFFFFFFFFFFFFF
LAYOUTS = ["5x2", "4x1", "4x4", "6x3", "2x1p1"]  # 2x1p1: segments of 32 bits; 4x4: several runs
# Few bits, so that drawers are shared.
VALUES = st.lists(
    st.builds(
        lambda high, low: (high << 48 | low) & ONES,
        st.sampled_from([0, 1, 0x7FFF, 0x8000, 0xFFFF]),
        st.sampled_from([0, 1, 0x800000000000, 0x7FFFFFFFFFFF, 0xFFFFFFFFFFFF]),
    ),
    max_size=12,
)


@pytest.fixture(params=LAYOUTS)
def drawn(request: pytest.FixtureRequest) -> Layout:
    return layout(request.param)


@pytest.fixture
def derived(drawn: Layout, postgresql: PostgreSQL) -> Iterator[Store]:
    store = create_store(postgresql.empty_store("derived"))
    store.arrange(drawn)
    yield store
    store.close()


@pytest.fixture
def tall() -> Store:
    return create_store("memory:")


def array(values: list[int]) -> NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


@given(added=VALUES, again=VALUES, removed=VALUES, asked=VALUES, limit=st.sampled_from([None, 1, 2, 50]))
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_added_and_removed_is_read_from_the_same_drawers(
    derived: Store,
    drawn: Layout,
    added: list[int],
    again: list[int],
    removed: list[int],
    asked: list[int],
    limit,
) -> None:
    tall = create_store("memory:")
    everything = encode(array(sorted({*added, *again, *removed, *asked})), drawn)
    for store in (derived, tall):
        store.drawers.remove(everything.reshape(-1, KEY_BYTES), np.zeros(everything[..., 0].size, np.int64))
        store.drawers.add(encode(array(added), drawn))
        store.drawers.add(encode(array(again), drawn))
        gone = encode(array(removed), drawn)
        store.drawers.remove(gone.reshape(-1, KEY_BYTES), np.zeros(gone[..., 0].size, np.int64))
    assert contains(derived, everything).tolist() == contains(tall, everything).tolist()
    assert all_rows(derived) == all_rows(tall)
    wanted = np.unique(prefixes(array([*asked, *added]), drawn).reshape(-1, PREFIX_BYTES), axis=0)
    wanted = np.random.default_rng(1).permutation(wanted)
    here, there = read(derived, wanted, limit), read(tall, wanted, limit)
    assert here.truncated.tolist() == there.truncated.tolist()
    assert here.offsets.tolist() == there.offsets.tolist()
    whole = read(tall, wanted, None)
    for drawer in range(len(wanted)):
        got = here.fingerprints[here.offsets[drawer] : here.offsets[drawer + 1]].tolist()
        held = whole.fingerprints[whole.offsets[drawer] : whole.offsets[drawer + 1]].tolist()
        assert got == sorted(set(got) & set(held))
        assert limit is not None or got == held
    derived.drawers.remove(everything.reshape(-1, KEY_BYTES), np.zeros(everything[..., 0].size, np.int64))


def test_many_rows_come_in_key_order_from_any_key_to_any_key(
    derived: Store, tall: Store, drawn: Layout
) -> None:
    random = np.random.default_rng(2)
    values = random.integers(0, 1 << 64, 3_000, dtype=np.uint64)
    values[:1_000] |= np.uint64(0xFFFF) << np.uint64(48)  # a large drawer or several
    keys = encode(values, drawn)
    for store in (derived, tall):
        store.drawers.add(keys)
    every = all_rows(tall)
    assert all_rows(derived) == every
    places = [(b"", b""), (every[7], every[-9]), (b"\x80", b""), (b"", b"\x80\x01"), (b"\xff" * 4, b"")]
    for start, stop in places:
        found = sorted(row.tobytes() for rows in derived.drawers.iterate(start, stop) for row in rows.keys)
        assert found == [row for row in every if row >= start and (not stop or row < stop)]
    assert derived.drawers.approximate_size().rows == len(every)


def test_long_drawers_come_in_parts(
    derived: Store, tall: Store, drawn: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simhbase.stores.postgresql.drawers.PART_ROWS", 10)
    values = np.arange(95, dtype=np.uint64) * np.uint64(1 << 58)  # of both signs
    keys = encode(values, drawn)
    for store in (derived, tall):
        store.drawers.add(keys)
    wanted = np.unique(prefixes(values, drawn).reshape(-1, PREFIX_BYTES), axis=0)
    for limit in (None, 5, 10, 30, 1000):
        here, there = read(derived, wanted, limit), read(tall, wanted, limit)
        assert here.truncated.tolist() == there.truncated.tolist()
        assert here.offsets.tolist() == there.offsets.tolist()
        if limit is None:
            parts = zip(here.offsets[:-1].tolist(), here.offsets[1:].tolist(), strict=True)
            for start, end in parts:
                assert sorted(here.fingerprints[start:end]) == there.fingerprints[start:end].tolist()
