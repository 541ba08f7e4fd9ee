"""Servers that refuse each change, or whose scans come to no end: an error says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.errors import StoreFailed
from simhbase.index import mute
from simhbase.index.load_log import LoadLog
from simhbase.index.mute import MuteList
from simhbase.model.moment import at
from simhbase.model.stored import Muted
from simhbase.stores import meta
from simhbase.stores.base import IndexRows
from simhbase.stores.hbase.counters import Counters
from simhbase.stores.hbase.drawers import HBaseDrawers
from simhbase.stores.hbase.records import HBaseRecords
from simhbase.stores.hbase.requests import Table
from simhbase.stores.hbase.scans import Page
from simhbase.stores.keys import after_read
from simhbase.stores.memory import MemoryStore
from simhbase.stores.redis import client
from simhbase.stores.redis.client import FIRST_CURSOR, scanned
from simhbase.stores.redis.drawers import RedisDrawers

ENOUGH = 10_000
ENTRY = Muted("a", None, at(0))


class Refusing:
    """A store whose rows cannot be changed by compare-and-set."""

    url = "memory:"
    multi_writer = True

    def __init__(self) -> None:
        self.tries = 0

    def records(self, table: str) -> Refusing:
        return self

    def get(self, keys: list[bytes]) -> list[None]:
        return [None] * len(keys)

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        self.tries += 1
        assert self.tries < ENOUGH, "this comes to no end"
        return False


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mute, "LONGEST_PAUSE", 0.0)


def test_a_mute_list_that_cannot_be_changed_is_an_error() -> None:
    store: Any = Refusing()
    with pytest.raises(StoreFailed, match=r"'muted'.* 100 tries were refused"):
        MuteList(store, clock=lambda: 0).mute([ENTRY])
    assert store.tries == meta.MOST_TRIES


def test_a_load_that_cannot_be_noted_is_an_error() -> None:
    store: Any = Refusing()
    with pytest.raises(StoreFailed, match="100 tries were refused"):
        LoadLog.begin(store, "news", "task")


def test_changes_that_others_forestall_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory:")
    left = iter([False] * (meta.MOST_TRIES - 1))
    change = meta.Meta.compare_and_set

    def forestalled(self: meta.Meta, key: bytes, expected: bytes | None, value: bytes) -> bool:
        return next(left, True) and change(self, key, expected, value)

    monkeypatch.setattr(meta.Meta, "compare_and_set", forestalled)
    muted = MuteList(store, clock=lambda: 0)
    assert muted.mute([ENTRY]) == 1
    assert [each.id for each in muted.entries()] == ["a"]


def server(cursors: Iterator[bytes]) -> Any:
    """A client of a server that gives these cursors."""

    def read(*command: object) -> tuple[bytes, list[bytes]]:
        return next(cursors), [b"p:01:00000000"]

    return SimpleNamespace(
        read=read, address=SimpleNamespace(url="redis://here"), key=lambda name: b"p:" + name.encode()
    )


@pytest.mark.parametrize("length", [1, 2, 7, 1000])
def test_a_scan_whose_cursors_come_again_is_an_error(length: int) -> None:
    cursors = cycle([b"%d" % number for number in range(5, 5 + length)])
    found = scanned(server(islice(cursors, ENOUGH * length)), "reading", b"p:*", 10)
    with pytest.raises(StoreFailed, match="came to no end"):
        for _ in found:
            pass


def test_a_scan_whose_cursors_never_come_again_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_STEPS", 500)
    with pytest.raises(StoreFailed, match="in 501 steps"):
        list(scanned(server(iter([b"%d" % number for number in range(1, 1000)])), "reading", b"p:*", 10))


def test_a_scan_may_meet_a_cursor_twice_while_a_table_is_made_smaller() -> None:
    cursors = [b"8", b"4", b"8", b"4", b"2", FIRST_CURSOR]
    assert len(list(scanned(server(iter(cursors)), "reading", b"p:*", 10))) == len(cursors)


def test_a_drawer_whose_members_come_again_is_an_error() -> None:
    drawers = RedisDrawers(server(islice(cycle([b"3", b"9"]), ENOUGH)))
    with pytest.raises(StoreFailed, match="came to no end"):
        drawers._whole(b"01:00000000", (b"5", [b"1"]), 10)


def test_rows_that_come_again_are_an_error() -> None:
    assert after_read(b"b", b"b", "documents") == b"b\x00"
    with pytest.raises(StoreFailed, match="out of order"):
        after_read(b"b", b"a", "documents")


def test_rows_of_a_drawer_of_hbase_that_come_again_are_an_error() -> None:
    calls = 0

    @contextmanager
    def reading(table: object) -> Iterator[Any]:
        yield None

    def pages(operation: object, asked: list[Page]) -> list[IndexRows]:
        nonlocal calls
        calls += 1
        assert calls < ENOUGH, "this comes to no end"
        keys = np.zeros((asked[0].rows, KEY_BYTES), dtype=np.uint8)
        return [IndexRows(keys, np.zeros(len(keys), dtype=np.int64))]

    gateway: Any = SimpleNamespace(reading=reading)
    drawers = HBaseDrawers(gateway, Table("news_index", b"i:"), None, Counters())
    drawers._scans = SimpleNamespace(pages=pages)  # type: ignore[assignment]
    with pytest.raises(StoreFailed, match="out of order"):
        for _ in drawers.read(np.zeros((1, PREFIX_BYTES), dtype=np.uint8), None):
            pass


def test_a_cell_of_hbase_that_is_not_changed_is_an_error() -> None:
    calls = 0

    @contextmanager
    def writing(table: object) -> Iterator[Any]:
        yield SimpleNamespace(doing="writing to news-meta")

    def write_once(operation: object, tasks: object) -> tuple[dict[int, bool], None]:
        nonlocal calls
        calls += 1
        assert calls < ENOUGH, "this comes to no end"
        return {0: False}, None

    gateway: Any = SimpleNamespace(writing=writing, write_once=write_once)
    records = object.__new__(HBaseRecords)
    records._client = gateway
    records._table = SimpleNamespace(compare_and_set=lambda *arguments: None)  # type: ignore[assignment]
    records._get = lambda operation, keys: {}  # type: ignore[method-assign]
    with pytest.raises(StoreFailed, match="10 times the gateway did not change a cell"):
        records.compare_and_set(b"key", None, b"value")
