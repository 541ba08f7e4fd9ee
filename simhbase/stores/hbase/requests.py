"""Requests to gateways.

Most are encoded by happybase's client. Batches of rows are assembled from encoded pieces: Thrift's binary
protocol has lengths in front of strings and lists, and nowhere else. Index rows, all of one size, are filled
in by NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from thriftpy2.transport import TCyMemoryBuffer

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.stores.hbase.interface import BatchMutation, Mutation, Scan, Thrift1, client, thrift2

# Parses an answer after its header; read(n) returns the next n bytes.
Reader = Callable[[Callable[[int], bytes]], Any]

# HBase hides a put that is not later than a delete: wait for a later millisecond.
DELETE_PAUSE = 0.01  # seconds
SMALL_BYTES = 256  # of a request without rows, about

_INT = struct.Struct(">i")
_KEY, _COLUMN, _VALUE = b"\xd1key\xd1", b"\xd2column\xd2", b"\xd3value\xd3"
_INDEX_KEY = b"\xd4" * KEY_BYTES


@dataclass(frozen=True, slots=True)
class Request:
    """A call: its arguments or its encoded message, its approximate size, and optionally a parser of the
    answer."""

    method: str
    arguments: Mapping[str, object]
    message: bytes = b""
    size: int = SMALL_BYTES
    reader: Reader | None = None


def next_rows(scanner: int, rows: int, reader: Reader | None = None) -> Request:
    """Fetch the next rows of an open scanner."""
    return Request("scannerGetList", {"id": scanner, "nbRows": rows}, reader=reader)


def close_scanner(scanner: int) -> Request:
    """Close a scanner."""
    return Request("scannerClose", {"id": scanner})


class Table:
    """Requests about one table, with all cells in one column."""

    def __init__(self, name: str, column: bytes) -> None:
        self.name = name
        self.bytes_name = name.encode()
        self.column = column
        put_key = Mutation(column=column, value=b"")
        delete_key = Mutation(column=column, isDelete=True)
        self._put_key = _batch(_INDEX_KEY, put_key)
        self._delete_key = _batch(_INDEX_KEY, delete_key)

    def open_scanner(
        self, start: bytes, stop: bytes, rows: int, *, cache: bool = True, all_cells: bool = False
    ) -> Request:
        """Open a scanner from `start` until before `stop` (empty: the end) that fetches a number of rows at
        once; `cache`: keep the blocks in the servers' caches."""
        columns = [self.column.partition(b":")[0] if all_cells else self.column]
        scan = Scan(startRow=start, stopRow=stop, columns=columns, caching=rows, cacheBlocks=cache)
        return self._request("scannerOpenWithScan", scan=scan, attributes={})

    def filtered(self, start: bytes, stop: bytes, ranges: bytes, rows: int, reader: Reader | None) -> Request:
        """For Thrift 2: the first rows that pass a filter."""
        scan = thrift2.TScan(
            startRow=start,
            stopRow=stop,
            columns=[thrift2.TColumn(family=self.column.rstrip(b":"))],
            caching=rows,
            readType=thrift2.TReadType.PREAD,
            limit=rows,
            filterBytes=ranges,
        )
        arguments = {"table": self.bytes_name, "tscan": scan, "numRows": rows}
        return Request("getScannerResults", arguments, size=SMALL_BYTES + len(ranges), reader=reader)

    def get(self, keys: Sequence[bytes], reader: Reader | None = None) -> Request:
        """Get existing rows."""
        size = SMALL_BYTES + sum(map(len, keys)) + 4 * len(keys)
        arguments = {"rows": keys, "columns": [self.column], "attributes": {}}
        return self._request("getRowsWithColumns", size=size, reader=reader, **arguments)

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: int | None, name: bytes = b"") -> Request:
        """Put rows with a version; None: the servers' time. name: of the cells, by default the records."""
        start, *middle, end = _PUT
        between = _in_thrift(self.column + name).join(middle)
        size = _INT.pack
        batches = [
            start + size(len(key)) + key + between + size(len(value)) + value + end for key, value in rows
        ]
        return self._mutate(batches, version)

    def put_keys(self, keys: NDArray[np.uint8]) -> Request:
        """Put rows without values at the servers' time: keys (n, 13) uint8."""
        return self._mutate([_repeated(self._put_key, keys)], None, len(keys))

    def delete(self, keys: Sequence[bytes], version: int) -> Request:
        """Delete cells with this version or a lower one."""
        return self.delete_named([(key, b"") for key in keys], version)

    def delete_named(self, cells: Sequence[tuple[bytes, bytes]], version: int) -> Request:
        """Delete cells, given by key and name, with this version or a lower one."""
        start, between, end = _DELETE
        batches = [
            b"".join((start, _in_thrift(key), between, _in_thrift(self.column + name), end))
            for key, name in cells
        ]
        return self._mutate(batches, version)

    def delete_keys(self, keys: NDArray[np.uint8], time: int) -> Request:
        """Delete rows by keys (n, 13) uint8, up to a time."""
        return self._mutate([_repeated(self._delete_key, keys)], time, len(keys))

    def all_cells(self, keys: Sequence[bytes]) -> Request:
        """Get existing rows with all cells of the family; other programs may have made others."""
        size = SMALL_BYTES + sum(map(len, keys)) + 4 * len(keys)
        family = self.column.partition(b":")[0]
        return self._request("getRowsWithColumns", size, rows=keys, columns=[family], attributes={})

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> Request:
        """Put a row at the server's time if it holds the expected value; None: if it is absent."""
        put = Mutation(column=self.column, value=value)
        size = SMALL_BYTES + len(key) + len(expected or b"") + len(value)
        return self._request(
            "checkAndPut", size, row=key, column=self.column, value=expected, mput=put, attributes={}
        )

    def _mutate(self, batches: Sequence[bytes], version: int | None, count: int | None = None) -> Request:
        """A call with encoded batches. count: number of rows, by default one per batch."""
        method, more = ("mutateRows", {}) if version is None else ("mutateRowsTs", {"timestamp": version})
        of_one = [BatchMutation(row=_KEY, mutations=[Mutation(column=self.column, value=b"")])]
        written = _written(method, tableName=self.bytes_name, rowBatches=of_one, attributes={}, **more)
        head, _, tail = written.partition(_INT.pack(1) + _structure(of_one[0]))
        length = _INT.pack(len(batches) if count is None else count)
        message = b"".join((head, length, *batches, tail))
        return Request(method, {}, message, len(message))

    def _request(
        self, method: str, size: int = SMALL_BYTES, reader: Reader | None = None, **arguments: object
    ) -> Request:
        return Request(method, {"tableName": self.bytes_name, **arguments}, size=size, reader=reader)


def _in_thrift(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


def _structure(structure: Any) -> bytes:
    buffer = TCyMemoryBuffer()
    structure.write(client(Thrift1, buffer)._oprot)
    return bytes(buffer.getvalue())


def _written(method: str, **arguments: object) -> bytes:
    buffer = TCyMemoryBuffer()
    client(Thrift1, buffer)._send(method, **arguments)
    return bytes(buffer.getvalue())


def _batch(key: bytes, *mutations: Any) -> bytes:
    return _structure(BatchMutation(row=key, mutations=list(mutations)))


def _around(written: bytes, *marks: bytes) -> tuple[bytes, ...]:
    """The bytes around marks, which occur in this order."""
    parts = []
    for mark in marks:
        part, _, written = written.partition(_in_thrift(mark))
        parts.append(part)
    return (*parts, written)


# Around the key, the column and the value.
_PUT = _around(_batch(_KEY, Mutation(column=_COLUMN, value=_VALUE)), _KEY, _COLUMN, _VALUE)
_DELETE = _around(_batch(_KEY, Mutation(column=_COLUMN, isDelete=True)), _KEY, _COLUMN)


def _repeated(element: bytes, keys: NDArray[np.uint8]) -> bytes:
    """The element once per key (n, 13) uint8, which replaces the index key in it."""
    start = element.index(_INDEX_KEY)
    elements = np.empty((len(keys), len(element)), dtype=np.uint8)
    elements[:] = np.frombuffer(element, dtype=np.uint8)
    elements[:, start : start + KEY_BYTES] = keys
    return elements.tobytes()
