"""The core reads rows of an iterator of RocksDB as plain loops would."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pytest

from simhbase._core import keys_from, near_in_rocksdb, rows_from
from simhbase.stores.base import Cell, DrawerHits, NearLimits, Row, listed_by

PREFIX, OTHER = b"\1\2\3\4\5", b"\1\2\3\4\6"
FINGERPRINTS = [0b0, 0b1, 0b11, 0b111, 1 << 63]


class Rows:
    """What rocksdict's iterator does, but that a drawer ends with its prefix only if `within` it."""

    def __init__(self, rows: dict[bytes, bytes], *, within: bool = False, fails: str = "") -> None:
        self.rows = sorted(rows.items())
        self.within, self.fails = within, fails
        self.place, self.start = len(rows), b""

    def seek(self, key: bytes) -> None:
        self.place, self.start = bisect_left(self.rows, (key, b"")), key

    def key(self) -> bytes | None:
        key = self.rows[self.place][0] if self.place < len(self.rows) else None
        return None if key is None or (self.within and key[:5] != self.start) else key

    def value(self) -> bytes:
        return self.rows[self.place][1]

    def next(self) -> None:
        self.place += 1

    def status(self) -> None:
        if self.fails:
            raise OSError(self.fails)


def drawers() -> Rows:
    keys = [prefix + value.to_bytes(8) for prefix in (PREFIX, OTHER) for value in FINGERPRINTS]
    return Rows(dict.fromkeys(keys, b""), within=True)


def near(index: Rows, prefixes: list[bytes], limits: NearLimits, listings: Rows | None = None) -> Any:
    """A lookup of the fingerprint 0. A document's key is its id, and its value its id twice."""
    made = [listings or Rows({})]  # one at most
    get = lambda keys: [None if key == b"lost" else key * 2 for key in keys]  # noqa: E731
    return near_in_rocksdb(index, made.pop, get, lambda value: Cell(value, 7), 0, prefixes, limits)


@pytest.mark.parametrize("limit", [None, 0, 1, 3, 5, 6])
def test_near_fingerprints_are_those_of_the_first_of_each_drawer(limit: int | None) -> None:
    read = FINGERPRINTS[:limit]
    close = {value: value.bit_count() for value in read if value.bit_count() <= 2}
    is_more = len(read) < len(FINGERPRINTS)
    found, listed, documents = near(drawers(), [PREFIX, b"empty", OTHER], NearLimits(2, limit, 5))
    assert found == (close, is_more, 2 * len(read), len(read))
    assert (listed, documents) == ({value: [] for value in close}, {})


def test_near_fingerprints_list_documents_up_to_the_limit() -> None:
    rows = {
        value.to_bytes(8) + id_: b"listing"
        for value in FINGERPRINTS
        for id_ in (b"s/a", b"s/b", b"s/c", b"t/d")
    }
    limits = NearLimits(2, None, 2, frozenset([0b1]), lambda id_: id_.replace(b"s/b", b"lost"), b"s/")
    found, listed, documents = near(drawers(), [PREFIX], limits, Rows(rows))
    assert found[0] == {0b0: 0, 0b11: 2, 1 << 63: 1}
    keys = {value: [value.to_bytes(8) + id_ for id_ in (b"s/a", b"s/b")] for value in found[0]}
    assert listed == {value: [(key, Cell(b"listing", 7)) for key in some] for value, some in keys.items()}
    assert documents == {
        key: (b"s/a", Cell(b"s/as/a", 7)) if key.endswith(b"a") else None
        for some in keys.values()
        for key in some
    }


def test_listings_are_read_until_there_are_enough() -> None:
    rows = Rows({value.to_bytes(8) + id_: b"" for value in FINGERPRINTS for id_ in (b"a", b"b")})
    limits = NearLimits(64, None, 5, document_key=lambda id_: id_, enough=2)
    _, listed, documents = near(drawers(), [PREFIX], limits, rows)
    assert (len(listed), sum(map(len, listed.values())), len(documents)) == (2, 4, 4)
    hits = DrawerHits(dict.fromkeys(range(200), 0), False, 200, 200)
    asked = list[bytes]()

    def scan(prefixes: list[bytes], most: int) -> list[list[Row]]:
        asked.extend(prefixes)
        return [[(prefix + b"a", Cell(b"", 7))] for prefix in prefixes]

    for enough, there in ((70, 128), (None, 200)):
        asked.clear()
        found = listed_by(hits, limits._replace(enough=enough), scan, lambda keys: [None] * len(keys))
        assert len(asked) == len(found.listed) == len(found.documents) == there


@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_key_of_another_size_is_damage(size: int) -> None:
    rows = Rows({PREFIX + b"\0" * size: b"", PREFIX + b"\1" * 8: b""}, within=True)
    with pytest.raises(Exception, match=f"Corruption: a row key of the index has {5 + size} bytes"):
        near(rows, [PREFIX], NearLimits(64, None, 5))


def test_keys_are_read_until_there_are_enough() -> None:
    keys, offsets, more = keys_from(drawers(), [PREFIX, OTHER, PREFIX], 2, 4)
    assert [key[5:] for key in keys] == [value.to_bytes(8) for value in FINGERPRINTS[:2] * 2]
    assert (offsets, more) == ([0, 2, 4], [True, True])


def test_rows_begin_with_their_prefix_and_are_no_more_than_wanted() -> None:
    rows = {b"a1": b"x", b"a2": b"y", b"a3": b"z", b"b1": b"w"}
    ranges = [(b"a2", b"a"), (b"a", b"a"), (b"b2", b"b"), (b"", b"")]
    a1, a2, a3, _ = list(rows.items())
    assert rows_from(Rows(rows), ranges, 2) == [[a2, a3], [a1, a2], [], [a1, a2]]


def test_an_error_that_ended_the_rows_is_raised() -> None:
    with pytest.raises(OSError, match="a block is damaged"):
        rows_from(Rows({b"a": b""}, fails="a block is damaged"), [(b"a", b"a")], 5)
