"""A store in HBase, accessed through Thrift gateways by any number of reading and writing processes.

URL: hbase://HOST:PORT[,HOST:PORT]/[NAMESPACE:]PREFIX?thrift2=PORT&connections=8&timeout=60, and what
docs/kerberos.md adds for secured gateways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from simhbase.drawers.scheme import Scheme
from simhbase.errors import TablesMissing, UsageError
from simhbase.stores.backend import Backend, LiveTable
from simhbase.stores.base import MET, Access
from simhbase.stores.hbase import schema as ddl
from simhbase.stores.hbase.administration import Thrift2Administrator
from simhbase.stores.hbase.planning import Content
from simhbase.stores.hbase.schema import DEFAULT_OPTIONS, Options, TableSpec
from simhbase.stores.hbase.store import HBaseStore
from simhbase.stores.hbase.url import parse

__all__ = ["HBaseBackend", "HBaseStore"]


ALL = Options(counts=True)  # tables that a store may have


class HBaseBackend(Backend):
    """Tables in HBase. What is done with these, rather than with their rows, needs a Thrift 2 gateway in the
    URL (`has_administrator`), or is a script for the hbase shell."""

    on_server = True
    creates_itself = False
    takes_hfiles = True

    def __post_init__(self) -> None:
        self.address = parse(self.url)
        self.has_administrator = bool(self.address.gateways2)

    def open(self, access: Access) -> HBaseStore:
        store = HBaseStore(self.address, access)
        try:
            store.require()
        except BaseException:
            store.close()
            raise
        return store

    def create(self, access: Access = "write", *, counts: bool = False) -> HBaseStore:
        """Raises SchemaDiffers if a table has other attributes."""
        if self.has_administrator:
            self.make(Options(counts=counts))
            return self.open(access)
        try:
            return self.open(access)
        except TablesMissing as missing:
            raise TablesMissing(
                f"{missing} and a Thrift 2 gateway, thrift2=PORT in the URL, or in the hbase shell with what "
                "'simhbase tables ddl' prints"
            ) from missing

    def drop(self) -> None:
        with self._administrator("drop") as administrator:
            ddl.drop(self.tables(ALL), administrator)

    def droppable(self) -> list[str]:
        with self._administrator("drop") as administrator:
            return [table.full_name for table in ddl.existing(self.tables(ALL), administrator)]

    def table_options(self, **options: int | str | None) -> dict[str, Any]:
        if isinstance(compression := options.get("compression"), str):
            options["compression"] = compression.upper()
        return {name: value for name, value in options.items() if value is not None}

    def make(self, options: Options = DEFAULT_OPTIONS) -> list[str]:
        """Create missing tables; returns their names. May be repeated. Raises SchemaDiffers."""
        with self._administrator("create") as administrator:
            return ddl.create(self.tables(options), administrator)

    def check(self, options: Options = DEFAULT_OPTIONS) -> None:
        """Compare the attributes of the tables with the specification. Raises TablesMissing,
        SchemaDiffers."""
        with self._administrator("check") as administrator:
            ddl.check(self.tables(options), administrator)

    def create_tables(
        self, wanted: Mapping[str, Any], scheme: Callable[[], Scheme], *, counts: bool
    ) -> tuple[list[str], list[str]]:
        if not self.has_administrator:
            for name in wanted:
                raise UsageError(
                    f"creating HBase tables needs a Thrift 2 gateway, and {self.url} names none. Add "
                    "thrift2=PORT to the URL, or run the output of 'simhbase tables ddl' with the same "
                    "options in the hbase shell",
                    parameter=name,
                )
            return [], []
        options = replace(_options(wanted, scheme), counts=counts)
        created: list[str] = []
        try:
            self.check(options)
        except TablesMissing:
            scheme()  # raises before any table is created
            created = self.make(options)
        # Another process may have created tables since, with other regions.
        of_regions = created or wanted.keys() & {"regions", "documents"}
        return created, self._warnings(options if of_regions else None)

    def _warnings(self, options: Options | None = None) -> list[str]:
        """Warnings about valid tables: writes that may be lost and, given `options`, another number of
        regions."""
        tables = self.tables(options or DEFAULT_OPTIONS)
        with self._administrator("check") as administrator:
            found = [ddl.lossy(tables, administrator)]
            if options is not None:
                found.append(ddl.other_regions(tables, administrator))
        return [warning for warning in found if warning]

    def compare(self, wanted: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...], list[str]]:
        options = Options(**wanted)
        if self.has_administrator:
            with self._administrator("check") as administrator:
                (counts,) = (table for table in self.tables(ALL) if ddl.of_counts(table))
                options = replace(options, counts=administrator.families(counts) is not None)
        tables = self.tables(options)
        if wanted or self.has_administrator:
            self.check(options)
            return sum(len(table.attributes) for table in tables), (), self._warnings()
        names = dict.fromkeys(name for table in tables for name in table.attributes)
        return 0, (*names, "DURABILITY"), []

    def live_tables(self) -> Mapping[str, LiveTable]:
        return self.described() if self.has_administrator else {}

    def described(self) -> dict[str, LiveTable]:
        """The live tables. Raises UsageError without a gateway."""
        with self._administrator("describe") as administrator:
            found = ddl.describe(self.tables(ALL), administrator)
        return dict(zip((*ddl.TABLES, MET), found, strict=False))

    def tables(self, options: Options = DEFAULT_OPTIONS) -> list[TableSpec]:
        """Specification of the tables."""
        return ddl.schema(self.address.namespace, self.address.prefix, options)

    def creation_script(
        self, wanted: Mapping[str, Any], scheme: Callable[[], Scheme], *, counts: bool
    ) -> str:
        namespace = self.address.namespace
        name = (
            self.address.prefix
            if namespace == ddl.DEFAULT_NAMESPACE
            else f"{namespace}:{self.address.prefix}"
        )
        return (
            f"# The tables of {name}. Run this file as `hbase shell FILE`; after that\n"
            "# `simhbase tables create` stores the profile in them.\n\n"
            f"{ddl.render_script(self.tables(replace(_options(wanted, scheme), counts=counts)))}"
        )

    def compaction_script(self) -> str:
        return ddl.render_compactions(self.tables(ALL))

    def snapshot_script(self, name: str) -> str:
        return ddl.render_snapshots(self.tables(ALL), _snapshot_name(name))

    def clone_script(self, name: str) -> str:
        return ddl.render_clones(self.tables(ALL), _snapshot_name(name))

    @contextmanager
    def _administrator(self, doing: str) -> Iterator[Thrift2Administrator]:
        if not self.has_administrator:
            raise UsageError(
                f"{self.url}: to {doing} tables, name a Thrift 2 gateway with thrift2=PORT in the URL, or "
                "use the hbase shell ('simhbase tables ddl' prints what creates them)"
            )
        with closing(Thrift2Administrator(self.address)) as administrator:
            yield administrator


def _options(wanted: Mapping[str, Any], scheme: Callable[[], Scheme]) -> Options:
    """Options of tables. scheme: called if `documents` is given, which determine the regions. Raises
    UsageError."""
    chosen = dict(wanted)
    documents = chosen.pop("documents", None)
    if documents is not None:
        if "regions" in chosen:
            raise UsageError("the number of documents says it, too: give one of them", parameter="regions")
        chosen["regions"] = Content.of(documents, scheme()).regions()
    return Options(**chosen)


def _snapshot_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
        raise UsageError(
            f"{name!r} names no snapshot in HBase: give letters, digits, and _, - or . behind the first"
        )
    return name
