"""Filters are serialised as protobuf does it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simhbase.drawers.rowkeys import PREFIX_BYTES
from simhbase.stores.hbase.filters import drawer_ranges, multi_row_range

NAME = b"org.apache.hadoop.hbase.filter.MultiRowRangeFilter"
KEYS = st.one_of(st.binary(max_size=20), st.binary(min_size=100, max_size=20_000))
PREFIXES = st.lists(st.binary(min_size=PREFIX_BYTES, max_size=PREFIX_BYTES), min_size=1, max_size=60)


def varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while message[at] & 0x80:
        number |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | message[at] << shift, at + 1


def fields(message: bytes) -> list[tuple[int, object]]:
    """A message read as protobuf describes it: numbers of fields, and their integers or bytes."""
    found: list[tuple[int, object]] = []
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        assert tag & 7 in (0, 2)
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        found.append((tag >> 3, value))
    assert at == len(message)
    return found


def test_the_bytes_of_two_drawers():
    # Took by HBase 2.6.1, which answered with the rows of these drawers alone.
    ranges = (
        "0a1b 0a05 0000000001 1001 1a0e 0000000001ffffffffffffffff00 2000"
        "0a1b 0a05 ffffffff02 1001 1a0e ffffffff02ffffffffffffffff00 2000"
    )
    expected = b"\x0a\x32" + NAME + bytes.fromhex("123a" + ranges)
    prefixes = np.array([[0, 0, 0, 0, 1], [255, 255, 255, 255, 2]], dtype=np.uint8)
    assert drawer_ranges(prefixes) == expected


@given(st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=40))
def test_any_ranges(ranges):
    (name_field, name), (ranges_field, message) = fields(multi_row_range(*zip(*ranges, strict=True)))
    assert (name_field, name, ranges_field) == (1, NAME, 2)
    read = fields(message)
    assert {number for number, _ in read} == {1}
    assert [fields(one) for _, one in read] == [
        [(1, start), (2, True), (3, stop), (4, False)] for start, stop in ranges
    ]


@given(PREFIXES)
def test_drawers_are_ranges_from_prefix_to_behind_the_last_fingerprint(prefixes):
    prefixes = sorted(set(prefixes))
    array = np.frombuffer(b"".join(prefixes), dtype=np.uint8).reshape(-1, PREFIX_BYTES)
    stops = [prefix + b"\xff" * 8 + b"\x00" for prefix in prefixes]
    assert drawer_ranges(array) == multi_row_range(prefixes, stops)


def test_thousands_of_drawers():
    numbers = np.arange(5_000, dtype=">u8").view(np.uint8).reshape(-1, 8)[:, -PREFIX_BYTES:]
    prefixes = [bytes(prefix) for prefix in numbers]
    stops = [prefix + b"\xff" * 8 + b"\x00" for prefix in prefixes]
    assert drawer_ranges(numbers) == multi_row_range(prefixes, stops)
