"""Tables through a Thrift 2 gateway: Thrift 1 can neither split them nor set all of their attributes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import thriftpy2

from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.stores.ddl import BLOOM_PREFIX, FOREVER, Attributes, TableSpec
from simhbase.stores.hbase.calls import Patience
from simhbase.stores.hbase.connection import Broken, Refused
from simhbase.stores.hbase.pool import Pool
from simhbase.stores.hbase.requests import Request, request

idl: Any = thriftpy2.load(
    str(Path(__file__).with_name("admin.thrift")), module_name="hbase_administration_thrift"
)

CALL_LIMIT = 600.0  # seconds: HBase answers when all regions of a table are where they belong
_FOREVER_SECONDS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of TColumnFamilyDescriptor: its name, and what its value is in the shell's words."""

    name: str
    to_thrift: Callable[[str], Any]
    to_shell: Callable[[Any], str]


def _enum(name: str, values: Any) -> _Field:
    return _Field(
        name,
        values._NAMES_TO_VALUES.__getitem__,
        lambda number: values._VALUES_TO_NAMES.get(number, str(number)),
    )


_FIELDS = {
    "VERSIONS": _Field("maxVersions", int, str),
    "BLOCKSIZE": _Field("blockSize", int, str),
    "BLOCKCACHE": _Field("blockCacheEnabled", "true".__eq__, lambda value: str(value).lower()),
    "TTL": _Field(
        "timeToLive",
        lambda text: _FOREVER_SECONDS if text == FOREVER else int(text),
        lambda seconds: FOREVER if seconds == _FOREVER_SECONDS else str(seconds),
    ),
    "BLOOMFILTER": _enum("bloomnFilterType", idl.TBloomFilterType),  # spelt so in HBase's own file
    "COMPRESSION": _enum("compressionType", idl.TCompressionAlgorithm),
    "DATA_BLOCK_ENCODING": _enum("dataBlockEncoding", idl.TDataBlockEncoding),
    "KEEP_DELETED_CELLS": _enum("keepDeletedCells", idl.TKeepDeletedCells),
}


class Thrift2Administrator:
    """See simhbase.stores.ddl.Administrator. Raises StoreUnreachable and StoreFailed everywhere."""

    def __init__(self, pool: Pool, timeout: float) -> None:
        self._pool = pool
        self._timeout = timeout

    def families(self, table: TableSpec) -> Mapping[str, Attributes] | None:
        """The attributes of a live table's column families, None where there is no such table."""
        with _failures("describing", table):
            if not self._exists(table):
                return None
            descriptor = self._call(table, "getTableDescriptor", table=_name(table))
        return {column.name.decode(): _attributes(column) for column in descriptor.columns or ()}

    def create(self, table: TableSpec) -> None:
        """Creates a table, and its namespace where that is missing; one that exists stays."""
        with _failures("creating", table):
            self._create_namespace(table)
            try:
                self._call(table, "createTable", desc=_descriptor(table), splitKeys=list(table.splits))
            except Refused:
                if not self._exists(table):  # it may be there by somebody else, or by a lost call of ours
                    raise

    def drop(self, table: TableSpec) -> None:
        """Deletes a table with its data; one that is gone already is right, too."""
        with _failures("dropping", table):
            try:
                if self._call(table, "isTableEnabled", tableName=_name(table)):
                    self._call(table, "disableTable", tableName=_name(table))
                self._call(table, "deleteTable", tableName=_name(table))
            except Refused:
                if self._exists(table):
                    raise

    def regions(self, table: TableSpec) -> int:
        """How many regions a live table has."""
        with _failures("describing", table):
            return len(self._call(table, "getAllRegionLocations", table=table.full_name.encode()))

    def _exists(self, table: TableSpec) -> bool:
        return bool(self._call(table, "tableExists", tableName=_name(table)))

    def _create_namespace(self, table: TableSpec) -> None:
        if table.namespace.encode() in self._call(table, "listNamespaces"):
            return
        try:
            namespace = idl.TNamespaceDescriptor(name=table.namespace.encode())
            self._call(table, "createNamespace", namespaceDesc=namespace)
        except Refused:
            if table.namespace.encode() not in self._call(table, "listNamespaces"):
                raise

    def _call(self, table: TableSpec, method: str, /, **arguments: object) -> Any:
        """The answer to a call; a lost one is asked again. Raises Refused."""
        asked = request(method, idl.Administration, **arguments)
        patience = Patience(self._timeout)
        while True:
            try:
                answer = self._ask(asked, patience.deadline)
            except Broken as problem:
                if not patience.pause():
                    raise StoreUnreachable(
                        f"no Thrift 2 gateway for {table.full_name} answered within {patience.seconds:g} s: "
                        f"{problem}. Does one run there? Thrift 1 cannot create or drop tables"
                    ) from problem
                continue
            if isinstance(answer, Refused):
                raise answer
            return answer

    def _ask(self, asked: Request, deadline: float) -> Any:
        (connection,) = self._pool.take(1, deadline)
        try:
            deadline = time.monotonic() + CALL_LIMIT
            connection.send([asked], deadline)
            (answer,) = connection.receive([asked], deadline)
        except BaseException:
            connection.close()
            raise
        self._pool.give_back([connection])
        return answer


def _name(table: TableSpec) -> Any:
    return idl.TTableName(ns=table.namespace.encode(), qualifier=table.name.encode())


def _descriptor(table: TableSpec) -> Any:
    fields = {
        field.name: field.to_thrift(table.attributes[attribute])
        for attribute, field in _FIELDS.items()
        if attribute in table.attributes
    }
    if BLOOM_PREFIX in table.attributes:
        fields["configuration"] = {BLOOM_PREFIX.encode(): table.attributes[BLOOM_PREFIX].encode()}
    family = idl.TColumnFamilyDescriptor(name=table.family.encode(), **fields)
    return idl.TTableDescriptor(tableName=_name(table), columns=[family])


def _attributes(column: Any) -> Attributes:
    found = {
        attribute: field.to_shell(value)
        for attribute, field in _FIELDS.items()
        if (value := getattr(column, field.name)) is not None
    }
    configuration = column.configuration or {}
    return found | {name.decode(): value.decode() for name, value in configuration.items()}


@contextmanager
def _failures(doing: str, table: TableSpec) -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise StoreFailed(f"{doing} {table.full_name} failed: {refused}") from refused
