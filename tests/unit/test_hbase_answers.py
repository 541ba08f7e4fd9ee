"""Answers to scans of the index become arrays; anything else is noticed, and waited for by nobody."""

import io
from itertools import pairwise
from pathlib import Path

import happybase  # noqa: F401 - makes Hbase_thrift, its interface
import numpy as np
import pytest
import thriftpy2
from Hbase_thrift import Hbase, IllegalArgument, TCell, TRowResult
from Hbase_thrift import IOError as HBaseIOError
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.transport import TCyMemoryBuffer

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.stores.hbase import answers
from simhbase.stores.hbase.answers import (
    Failure,
    NotFiltered,
    UnexpectedRow,
    drawer_parts,
    read_index_rows_thrift1,
    read_index_rows_thrift2,
)

thrift2 = thriftpy2.load(
    str(Path(answers.__file__).with_name("thrift2.thrift")), module_name="answers_test_thrift"
)
PUT = 4
BOTH = pytest.mark.parametrize("thrift", [1, 2])
READ = {1: read_index_rows_thrift1, 2: read_index_rows_thrift2}

# What HBase 2.6.1 sent, behind the message's header.
TIME_1, TIME_2 = 1795304730105, 1795304730134
KEY_1, KEY_2 = bytes.fromhex("00000000010001020304050607"), bytes.fromhex("03000000010001020304050607")
REAL_ROWS_1 = (
    "0f00000c00000002"
    "0b00010000000d000000000100010203040506070d00020b0c0000000100000002693a"
    "0b0001000000000a0002000001a200802df90000"
    "0b00010000000d030000000100010203040506070d00020b0c0000000100000002693a"
    "0b0001000000000a0002000001a200802df90000"
    "00"
)
REAL_ROWS_2 = (
    "0f00000c00000002"
    "0b00010000000d000000000100010203040506070f00020c000000010b000100000001690b0002000000000b000300000000"
    "0a0004000001a200802df903000604000200030002000400"
    "00"
    "0b00010000000d030000000100010203040506070f00020c000000010b000100000001690b0002000000000b000300000000"
    "0a0004000001a200802df903000604000200030002000400"
    "00"
    "00"
)
REAL_EMPTY = "0f00000c0000000000"
# Keys of 15 and of 1 byte; a key of 13 bytes with a qualifier and a value.
REAL_FOREIGN_1 = (
    "0f00000c00000002"
    "0b00010000000f6f64646f64646f64646f64646f64640d00020b0c0000000100000002693a"
    "0b0001000000000a0002000001a200802e160000"
    "0b0001000000017a0d00020b0c0000000100000002693a0b0001000000000a0002000001a200802e22000000"
)
REAL_FOREIGN_2 = (
    "0f00000c00000001"
    "0b00010000000d7a6178787878787878787878780f00020c000000010b000100000001690b000200000001710b0003000000"
    "01760a0004000001a200802e2f030006040002000300020004000000"
)
REAL_IO_2 = "0c00010b0001000000066e6f73756368020002000000"
REAL_NO_FILTER = (
    "0c00010b0001000000256a6176612e6c616e672e436c6173734e6f74466f756e64457863657074696f6e3a2061626302"
    "0002000000"
)
REAL_IA_1 = "0c00020b0001000000157363616e6e657220494420697320696e76616c69640000"


class Wire:
    """Bytes that have arrived. Nothing more comes: to read on would be to wait for ever."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        data = self._data.read(size)
        assert len(data) == size, "waits for ever"
        return data

    def left(self) -> bytes:
        return self._data.read()


def written(structure: object) -> bytes:
    buffer = TCyMemoryBuffer()
    structure.write(TCyBinaryProtocol(buffer))
    return bytes(buffer.getvalue())


def row(thrift: int, key: bytes, time: int, column: bytes = b"i:", value: bytes = b"") -> object:
    if thrift == 1:
        return TRowResult(row=key, columns={column: TCell(value=value, timestamp=time)})
    family, _, qualifier = column.partition(b":")
    cell = thrift2.TColumnValue(family=family, qualifier=qualifier, value=value, timestamp=time, type=PUT)
    return thrift2.TResult(row=key, columnValues=[cell], stale=False, partial=False)


def answer(thrift: int, rows: list[object]) -> bytes:
    result = Hbase.scannerGetList_result if thrift == 1 else thrift2.Reading.getScannerResults_result
    return written(result(success=rows))


def read(thrift: int, data: bytes) -> object:
    """What is made of an answer, which is read to its end and not beyond."""
    wire = Wire(data + b"next")
    found = READ[thrift](wire.read)
    assert wire.left() == b"next"
    return found


def refused(thrift: int, data: bytes) -> str:
    with pytest.raises(UnexpectedRow) as caught:
        READ[thrift](Wire(data).read)
    return str(caught.value)


def same(found: object, rows: list[tuple[bytes, int]]) -> bool:
    assert isinstance(found, answers.IndexRows)
    assert (found.keys.shape, found.keys.dtype) == ((len(rows), KEY_BYTES), np.uint8)
    assert (found.times.shape, found.times.dtype) == ((len(rows),), np.int64)
    return [(bytes(key), time) for key, time in zip(found.keys, found.times.tolist(), strict=True)] == rows


KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
TIMES = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(KEYS, TIMES), max_size=40)
FOREIGN = st.one_of(
    # Of the shape of an index row but for the key, the column and the value.
    st.tuples(
        st.binary(min_size=1, max_size=60).filter(lambda key: len(key) != KEY_BYTES), TIMES, st.just(b"i:")
    ),
    st.tuples(st.binary(min_size=1, max_size=60), TIMES, st.sampled_from([b"j:", b"i:q", b"long:name"])),
    st.tuples(st.binary(min_size=1, max_size=60), TIMES, st.just(b"i:"), st.binary(min_size=1, max_size=200)),
)


@pytest.mark.parametrize(("thrift", "real"), [(1, REAL_ROWS_1), (2, REAL_ROWS_2)])
def test_what_a_real_gateway_sends(thrift, real):
    rows = [(KEY_1, TIME_1), (KEY_2, TIME_1)]
    data = bytes.fromhex(real)
    assert same(read(thrift, data), rows)
    assert answer(thrift, [row(thrift, *each) for each in rows]) == data, "the other tests prove nothing"
    assert same(read(thrift, bytes.fromhex(REAL_EMPTY)), [])


def test_rows_of_others_that_a_real_gateway_sends():
    assert "6f 64 64" in refused(1, bytes.fromhex(REAL_FOREIGN_1))
    assert "7a 61 78" in refused(2, bytes.fromhex(REAL_FOREIGN_2))


@pytest.mark.parametrize(
    ("thrift", "real", "message"),
    [
        (1, REAL_IA_1, b"scanner ID is invalid"),
        (2, REAL_IO_2, b"nosuch"),
        (2, REAL_NO_FILTER, b"java.lang.ClassNotFoundException: abc"),
    ],
)
def test_errors_of_a_real_gateway(thrift, real, message):
    assert read(thrift, bytes.fromhex(real)) == Failure(message, can_retry=False)


@BOTH
@given(ROWS)
def test_round_trip(thrift, rows):
    assert same(read(thrift, answer(thrift, [row(thrift, *each) for each in rows])), rows)


@BOTH
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5_000])
def test_any_number_of_rows(thrift, count):
    rows = [(number.to_bytes(KEY_BYTES), number << 20) for number in range(count)]
    assert same(read(thrift, answer(thrift, [row(thrift, *each) for each in rows])), rows)


@BOTH
@given(rows=ROWS, foreign=st.lists(FOREIGN, min_size=1, max_size=40), data=st.data())
def test_rows_of_others_are_noticed_at_once(thrift, rows, foreign, data):
    mixed = data.draw(st.permutations([*rows, *foreign]))
    refused(thrift, answer(thrift, [row(thrift, *each) for each in mixed]))


@BOTH
@pytest.mark.parametrize("count", [*range(1, 12), 100, 3_000])
def test_nothing_but_the_shortest_rows(thrift, count):
    assert "0b 00 01 00 00 00 01" in refused(thrift, answer(thrift, [row(thrift, b"k", 1)] * count))


@BOTH
@given(rows=ROWS, foreign=FOREIGN)
def test_the_first_odd_row_is_shown(thrift, rows, foreign):
    odd = row(thrift, *foreign)
    shown = refused(thrift, answer(thrift, [*(row(thrift, *each) for each in rows), odd]))
    start = bytes.fromhex(shown.partition(": ")[2])
    assert len(start) >= 7
    assert written(odd)[: len(start)] == start[: len(written(odd))]


def test_more_cells_or_flags_are_odd():
    two = TRowResult(row=KEY_1, columns={name: TCell(value=b"", timestamp=1) for name in (b"i:", b"i:a")})
    refused(1, answer(1, [two]))
    for flag in ("stale", "partial"):
        odd = row(2, KEY_1, 1)
        setattr(odd, flag, True)
        refused(2, answer(2, [odd]))


@BOTH
@given(message=st.binary(max_size=300), can_retry=st.booleans())
def test_errors(thrift, message, can_retry):
    if thrift == 1:
        result = Hbase.scannerGetList_result(io=HBaseIOError(message=message))
        assert read(1, written(result)) == Failure(message, can_retry=False)
        result = Hbase.scannerGetList_result(ia=IllegalArgument(message=message))
        assert read(1, written(result)) == Failure(message, can_retry=False)
    # happybase's IOError does not have the second field that the gateways send; both have the same form.
    result = thrift2.Reading.getScannerResults_result(
        io=thrift2.TIOError(message=message, canRetry=can_retry)
    )
    assert read(thrift, written(result)) == Failure(message, can_retry)


@BOTH
def test_neither_rows_nor_an_error(thrift):
    assert read(thrift, b"\x00") == Failure(b"neither rows nor an error", can_retry=True)


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        "0f 0000 0b 00000001 00000001 61 00",  # a list of strings
        "0f 0001 0c 00000000 00",  # the list in another field
        "08 0000 00000001 00 000000",  # a number
        "0f 0000 0c 00000000 0c",  # something behind the list
        "0c 0001 0f 0001 0b 00000000 00 00",  # an error that is a list
    ],
)
def test_other_results(thrift, data):
    refused(thrift, bytes.fromhex(data))


def array(keys: list[bytes], size: int) -> np.ndarray:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, size)


# Few different bytes at both ends of a prefix, so that drawers are neighbours and rows share them.
CLOSE = st.binary(max_size=3).map(lambda middle: (b"\xff" + middle + b"\x00\x00\x00\x00")[:PREFIX_BYTES])
DRAWERS = st.dictionaries(
    st.one_of(CLOSE, st.binary(min_size=PREFIX_BYTES, max_size=PREFIX_BYTES)),
    st.sets(st.binary(min_size=8, max_size=8), max_size=4),
    max_size=20,
)


@given(DRAWERS)
def test_parts_of_drawers(drawers):
    prefixes = sorted(drawers)
    keys = sorted(prefix + rest for prefix in prefixes for rest in drawers[prefix])
    found, offsets = drawer_parts(array(keys, KEY_BYTES), array(prefixes, PREFIX_BYTES))
    assert found.dtype == offsets.dtype == np.int64
    assert [prefixes[number] for number in found] == [prefix for prefix in prefixes if drawers[prefix]]
    assert len(offsets) == len(found) + 1
    for number, (start, stop) in zip(found, pairwise(offsets), strict=True):
        assert keys[start:stop] == [prefixes[number] + rest for rest in sorted(drawers[prefixes[number]])]


@given(DRAWERS, KEYS)
def test_rows_that_were_not_asked_for(drawers, key):
    drawers.pop(key[:PREFIX_BYTES], None)
    keys = sorted([key, *(prefix + rest for prefix in drawers for rest in drawers[prefix])])
    with pytest.raises(NotFiltered):
        drawer_parts(array(keys, KEY_BYTES), array(sorted(drawers), PREFIX_BYTES))
