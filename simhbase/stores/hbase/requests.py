"""Requests to a Thrift 1 gateway, as bytes.

Those that are made by the million are cut from one that thriftpy2 wrote, with marks in the place of
keys and values: Thrift's binary protocol has lengths in front of strings and lists and nowhere else,
so that messages can be put together from pieces. The rows of the index, all of one size, are filled in
by NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import thriftpy2
from numpy.typing import NDArray
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from simhbase.rowkeys import KEY_BYTES

idl: Any = thriftpy2.load(str(Path(__file__).with_name("gateway.thrift")), module_name="hbase_gateway_thrift")

_INT = struct.Struct(">i")
_KEY, _END, _VALUE = b"\xd1key\xd1", b"\xd2end\xd2", b"\xd3value\xd3"
_ROWS, _SCANNER = 0x5D14D1D1, 0x5D15D1D1
_INDEX_KEY = b"\xd4" * KEY_BYTES


def binary_protocol(transport: Any) -> Any:
    """Thrift's binary protocol, in C, with strings as bytes."""
    protocol: Any = TCyBinaryProtocol
    return protocol(transport, decode_response=False)


class Request(NamedTuple):
    """A message to send; `answer` is the structure that comes back."""

    message: bytes
    answer: type[Any]


def request(method: str, service: Any = idl.Gateway, /, **arguments: object) -> Request:
    """Any request, written by thriftpy2."""
    buffer = TCyMemoryBuffer()
    protocol = binary_protocol(buffer)
    protocol.write_message_begin(method, TMessageType.CALL, 0)
    getattr(service, f"{method}_args")(**arguments).write(protocol)
    return Request(buffer.getvalue(), getattr(service, f"{method}_result"))


class _Form:
    """Bytes with blanks, in the order of the marks that they were written with."""

    def __init__(self, written: bytes, *marks: bytes | int) -> None:
        self._template = b""
        for mark in marks:
            before, found, written = written.partition(_in_thrift(mark))
            assert found, "a mark is missing, or in another order"
            self._template += before.replace(b"%", b"%%") + b"%b"
        self._template += written.replace(b"%", b"%%")

    def filled(self, *values: bytes | int) -> bytes:
        return self._template % tuple(map(_in_thrift, values))


class _ListForm:
    """A request for a list of elements, made from one with a single element."""

    def __init__(self, of_one: Request, element: bytes) -> None:
        self._head, found, self._tail = of_one.message.partition(_INT.pack(1) + element)
        assert found, "the element is missing"
        self._answer = of_one.answer

    def filled(self, count: int, elements: Iterable[bytes]) -> Request:
        message = b"".join((self._head, _INT.pack(count), *elements, self._tail))
        return Request(message, self._answer)


def _in_thrift(value: bytes | int) -> bytes:
    return _INT.pack(value) if isinstance(value, int) else _INT.pack(len(value)) + value


def _structure(structure: Any) -> bytes:
    buffer = TCyMemoryBuffer()
    structure.write(binary_protocol(buffer))
    return bytes(buffer.getvalue())


_NEXT = request("scannerGetList", id=_SCANNER, nbRows=_ROWS)
_NEXT_FORM = _Form(_NEXT.message, _SCANNER, _ROWS)
_NEXT_KEYS_ANSWER = idl.Keys.scannerGetList_result
_CLOSE = request("scannerClose", id=_SCANNER)
_CLOSE_FORM = _Form(_CLOSE.message, _SCANNER)


def next_rows(scanner: int, rows: int) -> Request:
    """The next rows of an open scanner, with their values."""
    return Request(_NEXT_FORM.filled(scanner, rows), _NEXT.answer)


def next_keys(scanner: int, rows: int) -> Request:
    """The next rows of an open scanner, their keys alone."""
    return Request(_NEXT_FORM.filled(scanner, rows), _NEXT_KEYS_ANSWER)


def close_scanner(scanner: int) -> Request:
    """The end of a scanner."""
    return Request(_CLOSE_FORM.filled(scanner), _CLOSE.answer)


class TableRequests:
    """Requests about one table, whose cells are all in one column."""

    def __init__(self, table: str, column: bytes) -> None:
        self.table = table
        self._name = table.encode()
        self._column = column
        put = idl.Mutation(column=column, value=_VALUE)
        put_key = idl.Mutation(column=column, value=b"")
        delete = idl.Mutation(column=column, isDelete=True)
        self._put = _Form(_structure(_batch(_KEY, put)), _KEY, _VALUE)
        self._delete = _Form(_structure(_batch(_KEY, delete)), _KEY)
        self._put_key = _structure(_batch(_INDEX_KEY, put_key))
        self._delete_key = _structure(_batch(_INDEX_KEY, delete))
        self._mutate = _ListForm(
            self._request("mutateRows", rowBatches=[_batch(_INDEX_KEY, put_key)], attributes={}),
            self._put_key,
        )
        self._get = _ListForm(self._get_one(idl.Gateway), _in_thrift(_KEY))
        self._get_keys = _ListForm(self._get_one(idl.Keys), _in_thrift(_KEY))
        self._open = self._open_form(cache=True)
        self._open_once = self._open_form(cache=False)

    def _request(self, method: str, service: Any = idl.Gateway, /, **arguments: object) -> Request:
        return request(method, service, tableName=self._name, **arguments)

    def _get_one(self, service: Any) -> Request:
        return self._request(
            "getRowsWithColumns", service, rows=[_KEY], columns=[self._column], attributes={}
        )

    def _open_form(self, *, cache: bool) -> _Form:
        scan = idl.Scan(startRow=_KEY, stopRow=_END, columns=[self._column], caching=_ROWS, cacheBlocks=cache)
        opening = self._request("scannerOpenWithScan", scan=scan, attributes={})
        return _Form(opening.message, _KEY, _END, _ROWS)

    def is_enabled(self) -> Request:
        """Whether the table is enabled; an error where it does not exist."""
        return self._request("isTableEnabled")

    def open_scanner(self, start: bytes, stop: bytes, rows: int) -> Request:
        """A scanner from `start` to before `stop` (empty: the end) that fetches so many rows at once."""
        return Request(self._open.filled(start, stop, rows), idl.Gateway.scannerOpenWithScan_result)

    def open_passing_scanner(self, start: bytes, stop: bytes, rows: int) -> Request:
        """The same for reading that should leave the servers' caches as they are."""
        return Request(self._open_once.filled(start, stop, rows), idl.Gateway.scannerOpenWithScan_result)

    def get(self, keys: Sequence[bytes]) -> Request:
        """Those of the rows that exist, with their values."""
        return self._get.filled(len(keys), map(_in_thrift, keys))

    def get_keys(self, keys: NDArray[np.uint8]) -> Request:
        """Those of the rows that exist: keys (n, 13) uint8."""
        return self._get_keys.filled(len(keys), [_repeated(_in_thrift(_INDEX_KEY), keys)])

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> Request:
        """Puts rows at the servers' time."""
        return self._mutate.filled(len(rows), [self._put.filled(key, value) for key, value in rows])

    def put_keys(self, keys: NDArray[np.uint8]) -> Request:
        """Puts rows without values at the servers' time: keys (n, 13) uint8."""
        return self._mutate.filled(len(keys), [_repeated(self._put_key, keys)])

    def delete(self, keys: Sequence[bytes], timestamp: int) -> Request:
        """Deletes what was put up to a timestamp."""
        return self._deletion(timestamp).filled(len(keys), map(self._delete.filled, keys))

    def delete_keys(self, keys: NDArray[np.uint8], timestamp: int) -> Request:
        """The same for keys (n, 13) uint8."""
        return self._deletion(timestamp).filled(len(keys), [_repeated(self._delete_key, keys)])

    def _deletion(self, timestamp: int) -> _ListForm:
        delete = idl.Mutation(column=self._column, isDelete=True)
        of_one = self._request(
            "mutateRowsTs", rowBatches=[_batch(_INDEX_KEY, delete)], timestamp=timestamp, attributes={}
        )
        return _ListForm(of_one, self._delete_key)

    def compare_and_put(self, key: bytes, expected: bytes | None, value: bytes) -> Request:
        """Puts a value where the cell holds `expected`; None and the empty value are the same to it."""
        put = idl.Mutation(column=self._column, value=value)
        return self._request(
            "checkAndPut", row=key, column=self._column, value=expected, mput=put, attributes={}
        )

    def increment(self, key: bytes, by: int) -> Request:
        """Adds to a cell of 8 bytes."""
        return self._request("atomicIncrement", row=key, column=self._column, value=by)


def _batch(key: bytes, mutation: Any) -> Any:
    return idl.BatchMutation(row=key, mutations=[mutation])


def _repeated(element: bytes, keys: NDArray[np.uint8]) -> bytes:
    """The element once for each key (n, 13) uint8, which takes the place of the index key in it."""
    start = element.index(_INDEX_KEY)
    elements = np.empty((len(keys), len(element)), dtype=np.uint8)
    elements[:] = np.frombuffer(element, dtype=np.uint8)
    elements[:, start : start + KEY_BYTES] = keys
    return elements.tobytes()
