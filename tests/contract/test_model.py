"""Any sequence of calls leaves a store with the rows that a plain dict and set would have."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.stores.base import ATOMIC_TABLES, RecordTable
from tests.contract.conftest import Backend, Kind
from tests.contract.plain import Values, all_rows, contains, read, remove

# Few and awkward values, so that calls meet each other's rows.
PREFIXES = [
    b"\x00" * 5,
    b"\x00\x00\x00\x00\x01",
    b"\x7f\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xfe",
    b"\xff" * 5,
]
LOW = [b"\x00" * 8, b"\x00" * 7 + b"\x01", b"\x80" + b"\x00" * 7, b"\xff" * 7 + b"\xfe", b"\xff" * 8]
ROWS = st.lists(st.builds(bytes.__add__, st.sampled_from(PREFIXES), st.sampled_from(LOW)), max_size=6)
KEYS = st.text("a\x00\xff", max_size=3).map(lambda key: b"k" + key.encode("latin-1"))
VALUES = st.sampled_from([b"", b"1", b"2"])
NOT_EMPTY = VALUES.filter(bool)
TABLES = st.sampled_from(ATOMIC_TABLES)


def to_keys(rows: list[bytes], size: int) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, size)


class StoreMachine(RuleBasedStateMachine):
    """Makes each call on the store and on the model, and compares what they answer."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.backend = Backend(Path(self.folder.name), kind)
        self.store = self.backend.fresh()
        self.rows: set[bytes] = set()
        self.records: dict[RecordTable, dict[bytes, bytes]] = {table: {} for table in ATOMIC_TABLES}

    def teardown(self) -> None:
        self.backend.close_all()
        self.folder.cleanup()

    @rule(rows=ROWS)
    def add(self, rows: list[bytes]) -> None:
        self.store.drawers.add(to_keys(rows, KEY_BYTES)[:, np.newaxis])
        self.rows.update(rows)

    @rule(rows=ROWS)
    def remove(self, rows: list[bytes]) -> None:
        remove(self.store, to_keys(rows, KEY_BYTES)[:, np.newaxis])
        self.rows.difference_update(rows)

    @rule(rows=ROWS)
    def contains(self, rows: list[bytes]) -> None:
        found = contains(self.store, to_keys(rows, KEY_BYTES)[:, np.newaxis])
        assert found.ravel().tolist() == [row in self.rows for row in rows]

    @rule(
        prefixes=st.lists(st.sampled_from(PREFIXES), max_size=8, unique=True),
        limit=st.one_of(st.none(), st.integers(1, 6)),
    )
    def read(self, prefixes: list[bytes], limit: int | None) -> None:
        found = read(self.store, to_keys(prefixes, PREFIX_BYTES), limit)
        for i, prefix in enumerate(prefixes):
            drawer = sorted(int.from_bytes(row[5:]) for row in self.rows if row.startswith(prefix))
            kept = found.fingerprints[found.offsets[i] : found.offsets[i + 1]].tolist()
            assert kept == sorted(set(kept) & set(drawer))
            assert len(kept) == min(len(drawer), limit or len(drawer))
            assert found.truncated[i] == (limit is not None and len(drawer) > limit)

    @rule()
    def iterate_drawers(self) -> None:
        assert all_rows(self.store) == sorted(self.rows)

    @rule(table=TABLES, rows=st.lists(st.tuples(KEYS, VALUES), max_size=4))
    def put(self, table: RecordTable, rows: list[tuple[bytes, bytes]]) -> None:
        Values(self.store.records(table)).put(rows)
        self.records[table].update(rows)

    @rule(table=TABLES, keys=st.lists(KEYS, max_size=4))
    def delete(self, table: RecordTable, keys: list[bytes]) -> None:
        Values(self.store.records(table)).delete(keys)
        for key in keys:
            self.records[table].pop(key, None)

    @rule(table=TABLES, keys=st.lists(KEYS, max_size=4))
    def get(self, table: RecordTable, keys: list[bytes]) -> None:
        assert Values(self.store.records(table)).get(keys) == list(map(self.records[table].get, keys))

    @rule(table=TABLES, prefixes=st.lists(KEYS, max_size=4), limit=st.integers(1, 4))
    def scan(self, table: RecordTable, prefixes: list[bytes], limit: int) -> None:
        rows = sorted(self.records[table].items())
        expected = [[row for row in rows if row[0].startswith(prefix)][:limit] for prefix in prefixes]
        assert Values(self.store.records(table)).scan(prefixes, limit) == expected

    @rule(table=TABLES, start=KEYS)
    def iterate_records(self, table: RecordTable, start: bytes) -> None:
        found = [row for batch in Values(self.store.records(table)).iterate(start) for row in batch]
        assert found == sorted(row for row in self.records[table].items() if row[0] >= start)

    @rule(table=TABLES, key=KEYS, expected=st.one_of(st.none(), NOT_EMPTY), value=NOT_EMPTY)
    def compare_and_set(self, table: RecordTable, key: bytes, expected: bytes | None, value: bytes) -> None:
        held = self.records[table].get(key)
        assume(held != b"")
        done = Values(self.store.records(table)).compare_and_set(key, expected, value)
        assert done == (held in (expected, value))
        if held == expected:
            self.records[table][key] = value

    @precondition(lambda self: self.backend.kind.persists)
    @rule()
    def reopen(self) -> None:
        self.store = self.backend.reopened(self.store)


@pytest.mark.slow
def test_a_store_answers_as_the_model_does(kind: Kind, request: pytest.FixtureRequest) -> None:
    is_slow = kind.opened is not None and not request.config.getoption("--full")
    run_state_machine_as_test(
        lambda: StoreMachine(kind),
        settings=settings(
            max_examples=15 if is_slow else 25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
