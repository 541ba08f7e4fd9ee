"""Administration of tables through a Thrift 2 gateway. (Thrift 1 cannot set splits and all attributes.)"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import thriftpy2

from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.stores.attempts import Attempts, Outage
from simhbase.stores.hbase.client import OPENING_SECONDS, GatewayClient
from simhbase.stores.hbase.connection import CallFailed, CallRefused, Connection
from simhbase.stores.hbase.counters import Counters
from simhbase.stores.hbase.pool import thrift2_pool
from simhbase.stores.hbase.schema import BLOOM_PREFIX, DEFAULT_DURABILITY, FOREVER, Attributes, TableSpec
from simhbase.stores.hbase.url import Address

idl: Any = thriftpy2.load(
    str(Path(__file__).with_name("admin.thrift")), module_name="hbase_administration_thrift"
)

CALL_LIMIT = 600.0  # seconds: HBase answers when all regions of a table are assigned
_FOREVER_SECONDS = 2**31 - 1
# Marks a namespace as created here, in its configuration.
_MADE_BY = (b"made_by", b"simhbase")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of TColumnFamilyDescriptor: its name, and the conversion of its value to the shell's
    notation."""

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
# Attributes without a field; shown if they are set.
_OTHERS = ("ENCRYPTION", "IS_MOB", "COMPRESS_TAGS")
_DURABILITY = _enum("durability", idl.TDurability)


class Thrift2Administrator:
    """Implements TableAdministrator. All methods raise StoreUnreachable and StoreFailed."""

    def __init__(self, address: Address) -> None:
        counters = Counters()
        pool = thrift2_pool(address, idl.Administration, counters)
        outage = Outage(f"Thrift 2 of {address.url}")
        self._client = GatewayClient(address, "write", pool, counters, outage)
        self._timeout = address.timeout
        self._answered = False

    def close(self) -> None:
        self._client.close()

    def families(self, table: TableSpec) -> Mapping[str, Attributes] | None:
        with _failures("describing", table):
            if not self._exists(table):
                return None
            descriptor = self._call(table, "getTableDescriptor", table=_name(table))
        return {column.name.decode(): _attributes(column) for column in descriptor.columns or ()}

    def create(self, table: TableSpec) -> None:
        with _failures("creating", table):
            self._create_namespace(table)
            try:
                self._call(table, "createTable", desc=_descriptor(table), splitKeys=list(table.splits))
            except CallRefused:
                if not self._exists(table):  # another process, or a lost call, may have created it
                    raise

    def drop(self, table: TableSpec) -> None:
        with _failures("dropping", table):
            try:
                if self._call(table, "isTableEnabled", tableName=_name(table)):
                    self._call(table, "disableTable", tableName=_name(table))
                self._call(table, "deleteTable", tableName=_name(table))
            except CallRefused:
                if self._exists(table):
                    raise

    def drop_namespace(self, table: TableSpec) -> None:
        with suppress(CallRefused):  # it has other tables, is gone, or must not be deleted
            name = table.namespace.encode()
            configuration = self._call(table, "getNamespaceDescriptor", ns=name).configuration or {}
            if _MADE_BY in configuration.items():
                self._call(table, "deleteNamespace", name=name)

    def regions(self, table: TableSpec) -> int:
        with _failures("describing", table):
            return len(self._call(table, "getAllRegionLocations", table=table.full_name.encode()))

    def durability(self, table: TableSpec) -> str:
        with _failures("describing", table):
            number = self._call(table, "getTableDescriptor", table=_name(table)).durability
        return DEFAULT_DURABILITY if number is None else _DURABILITY.to_shell(number)

    def _exists(self, table: TableSpec) -> bool:
        return bool(self._call(table, "tableExists", tableName=_name(table)))

    def _create_namespace(self, table: TableSpec) -> None:
        if table.namespace.encode() in self._call(table, "listNamespaces"):
            return
        try:
            namespace = idl.TNamespaceDescriptor(
                name=table.namespace.encode(), configuration=dict([_MADE_BY])
            )
            self._call(table, "createNamespace", namespaceDesc=namespace)
        except CallRefused:
            if table.namespace.encode() not in self._call(table, "listNamespaces"):
                raise

    def _call(self, table: TableSpec, method: str, /, **arguments: object) -> Any:
        """The answer to a call; lost calls are repeated. Raises CallRefused."""

        def call(connection: Connection) -> Any:
            connection.limit(time.monotonic() + CALL_LIMIT)
            try:
                return getattr(connection.client, method)(**arguments)
            except idl.TIOError as error:
                text = (error.message or b"").decode(errors="replace")
                raise CallRefused(connection.gateway, text, final=True) from error

        # A gateway that never answered may be mistyped.
        seconds = self._timeout if self._answered else min(self._timeout, OPENING_SECONDS)
        attempts = Attempts(seconds, self._client.outage)
        while True:
            try:
                answer = self._client.attempt(call, attempts.end)
                self._answered = True
                attempts.outage.answered()
                return answer
            except CallFailed as problem:
                self._answered |= isinstance(problem, CallRefused)
                if isinstance(problem, CallRefused) and not problem.is_outage:
                    raise
                if not attempts.pause_for(problem, gone=problem.is_gone):
                    raise StoreUnreachable(
                        f"no Thrift 2 gateway for {table.full_name} answered within {attempts.seconds:g} s: "
                        f"{problem}. Does one run there? Thrift 1 cannot create or drop tables"
                    ) from problem


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
    """Those with a field are what that says: commands for the shell that are shown to users repeat them, and
    a configuration may hold any text under their names."""
    found = {
        attribute: field.to_shell(value)
        for attribute, field in _FIELDS.items()
        if (value := getattr(column, field.name)) is not None
    }
    attributes = column.attributes or {}
    others = {name.encode(): attributes[name.encode()] for name in _OTHERS if name.encode() in attributes}
    told = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in (others | (column.configuration or {})).items()
    }
    return found | {name: value for name, value in told.items() if name not in _FIELDS}


@contextmanager
def _failures(doing: str, table: TableSpec) -> Iterator[None]:
    try:
        yield
    except CallRefused as refused:
        raise StoreFailed(f"{doing} {table.full_name} failed: {refused}") from refused
