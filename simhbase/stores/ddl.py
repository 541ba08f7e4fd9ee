"""What the tables of an HBase store should be: the one source of schema/*.rb, of what is created
through Thrift 2, and of what live tables are compared with.

Attributes have the names and values that the HBase shell shows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simhbase.errors import SchemaDiffers, TablesMissing, UsageError
from simhbase.rowkeys import PREFIX_BYTES
from simhbase.stores.base import RECORD_TABLES

INDEX = "index"
TABLES: tuple[str, ...] = (INDEX, *RECORD_TABLES)
DEFAULT_NAMESPACE = "default"
DEFAULT_PREFIX = "simhbase"

COMPRESSIONS = ("NONE", "GZ", "ZSTD")
FOREVER = "FOREVER"
BLOOM_PREFIX = "RowPrefixBloomFilter.prefix_length"

DEFAULT_REGIONS = 16
MOST_REGIONS = 10_000
DOCUMENT_BYTES = 310  # of a document in the index: 10 rows of 31 bytes, as measured with FAST_DIFF
REGION_BYTES = 5 << 30  # half of where HBase splits by itself (hbase.hregion.max.filesize)

_SPLIT_BITS = 32
_ATTRIBUTES = {
    "VERSIONS": "1",
    "DATA_BLOCK_ENCODING": "FAST_DIFF",
    "BLOCKSIZE": "16384",  # a lookup wants a few rows of each block that it reads
    "BLOCKCACHE": "true",
    "KEEP_DELETED_CELLS": "FALSE",
}
_FINGERPRINT_BYTES = 8
_BLOOMS: Mapping[str, Mapping[str, str]] = {
    # Scans of a drawer, which is the first 5 bytes of its rows.
    INDEX: {"BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH", BLOOM_PREFIX: str(PREFIX_BYTES)},
    # Scans of a fingerprint's documents and gets of its state, which all begin with the fingerprint.
    "fingerprints": {"BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH", BLOOM_PREFIX: str(_FINGERPRINT_BYTES)},
    "documents": {"BLOOMFILTER": "ROW"},
    "meta": {"BLOOMFILTER": "ROW"},
}

Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Options:
    """What an administrator may choose; None leaves it to HBase, and whatever is there is right.

    regions: of each table but meta; compression: one of COMPRESSIONS; ttl: seconds after which rows
    are dropped, those of meta never.
    """

    regions: int = DEFAULT_REGIONS
    compression: str | None = None
    ttl: int | None = None

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if not 1 <= self.regions <= MOST_REGIONS:
            raise UsageError(f"{self.regions} regions: take from 1 to {MOST_REGIONS}")
        if self.compression not in (None, *COMPRESSIONS):
            raise UsageError(f"no compression {self.compression!r}: take one of {', '.join(COMPRESSIONS)}")
        if self.ttl is not None and not 1 <= self.ttl < 2**31 - 1:
            raise UsageError(f"a time to live of {self.ttl} s: take from 1 to {2**31 - 2}")


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table with one column family; `splits` are the first keys of its regions but the first."""

    namespace: str
    name: str
    family: str
    attributes: Attributes
    splits: tuple[bytes, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with its namespace, as the shell and Thrift 1 take it."""
        return self.name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class Difference:
    """An attribute of a live table that is not what it should be; None where it has none."""

    table: str
    attribute: str
    live: str | None
    wanted: str

    def __str__(self) -> str:
        return f"{self.table}: {self.attribute} is {self.live or 'missing'}, not {self.wanted}"


class Administrator(Protocol):
    """What creates and describes tables."""

    def families(self, table: TableSpec) -> Mapping[str, Attributes] | None:
        """The attributes of a live table's column families, None where there is no such table."""

    def create(self, table: TableSpec) -> None:
        """Creates a table, and its namespace where that is missing; one that exists stays."""

    def drop(self, table: TableSpec) -> None:
        """Deletes a table with its data; one that is gone already is right, too."""


def table_spec(table: str, namespace: str, prefix: str, options: Options = DEFAULT_OPTIONS) -> TableSpec:
    """What one of TABLES should be."""
    attributes = {**_ATTRIBUTES, **_BLOOMS[table]}
    if options.compression is not None:
        attributes["COMPRESSION"] = options.compression
    if table == "meta":
        attributes["TTL"] = FOREVER
    elif options.ttl is not None:
        attributes["TTL"] = str(options.ttl)
    return TableSpec(
        namespace,
        f"{prefix}_{table}",
        "i" if table == INDEX else "d",
        attributes,
        () if table == "meta" else even_splits(options.regions),
    )


def schema(namespace: str, prefix: str, options: Options = DEFAULT_OPTIONS) -> list[TableSpec]:
    """What each of TABLES should be."""
    return [table_spec(table, namespace, prefix, options) for table in TABLES]


def even_splits(regions: int) -> tuple[bytes, ...]:
    """The keys that part a table evenly: those of all tables but meta begin with 32 bits of a hash."""
    starts = [(number << _SPLIT_BITS) // regions for number in range(1, regions)]
    return tuple(start.to_bytes(_SPLIT_BITS // 8).rstrip(b"\x00") for start in starts)


def regions_for(documents: int) -> int:
    """How many regions an index of so many documents should begin with."""
    return min(max(-(-documents * DOCUMENT_BYTES // REGION_BYTES), 1), MOST_REGIONS)


def create(tables: Sequence[TableSpec], administrator: Administrator) -> list[str]:
    """Creates those of the tables that are missing, and returns their names; may be repeated.

    Raises SchemaDiffers, before anything is created, where one exists with other attributes.
    """
    missing = _compared(tables, administrator)
    for table in missing:
        administrator.create(table)
    return [table.full_name for table in missing]


def check(tables: Sequence[TableSpec], administrator: Administrator) -> None:
    """Raises SchemaDiffers with every attribute that differs, and TablesMissing."""
    missing = _compared(tables, administrator)
    if missing:
        raise TablesMissing(
            f"{', '.join(table.full_name for table in missing)} not found: create what is missing with "
            "'simhbase tables create'"
        )


def drop(tables: Sequence[TableSpec], administrator: Administrator) -> list[str]:
    """Deletes those of the tables that exist, and returns their names. Raises TablesMissing.

    The last table goes first: it is the one with the profile, and without it what is left counts as
    missing, wherever this stops.
    """
    there = [table for table in reversed(tables) if administrator.families(table) is not None]
    if not there:
        raise TablesMissing(f"none of {', '.join(table.full_name for table in tables)} exists")
    for table in there:
        administrator.drop(table)
    return [table.full_name for table in there]


def _compared(tables: Sequence[TableSpec], administrator: Administrator) -> list[TableSpec]:
    """The tables that are missing. Raises SchemaDiffers where others are not what they should be."""
    missing, differences = [], []
    for table in tables:
        live = administrator.families(table)
        if live is None:
            missing.append(table)
        else:
            differences += compare(live, table)
    if differences:
        raise SchemaDiffers(
            f"{'; '.join(map(str, differences))}. Change the tables with 'alter' in the hbase shell, or "
            "drop them and create them anew"
        )
    return missing


def compare(live: Mapping[str, Attributes], wanted: TableSpec) -> list[Difference]:
    """Where a live table's column families are not what they should be. Families and attributes
    that the specification does not name are nobody's business."""
    family = live.get(wanted.family)
    if family is None:
        return [Difference(wanted.full_name, "NAME", None, wanted.family)]
    return [
        Difference(wanted.full_name, attribute, family.get(attribute), value)
        for attribute, value in wanted.attributes.items()
        if family.get(attribute) != value
    ]


def render_shell(table: TableSpec) -> str:
    """The command that creates a table in the HBase shell."""
    family = [f"NAME => {_quoted(table.family)}"]
    for name, value in table.attributes.items():
        pair = f"{_quoted(name)} => {_quoted(value)}"
        family.append(
            f"CONFIGURATION => {{{pair}}}" if name == BLOOM_PREFIX else f"{name} => {_quoted(value)}"
        )
    parts = [_quoted(table.full_name), "{" + ",\n   ".join(family) + "}"]
    if table.splits:
        keys = ["".join(f"\\x{byte:02X}" for byte in key) for key in table.splits]
        parts.append(f"SPLITS => [{', '.join(map(_quoted, keys))}]")
    return "create " + ",\n  ".join(parts)


def render_script(tables: Sequence[TableSpec]) -> str:
    """A file for the HBase shell that creates tables."""
    namespaces = sorted({table.namespace for table in tables} - {DEFAULT_NAMESPACE})
    commands = [f"create_namespace {_quoted(namespace)}" for namespace in namespaces]
    return "\n\n".join([*commands, *map(render_shell, tables), "exit\n"])


def _quoted(text: str) -> str:
    return f"'{text}'"


def write_files(folder: Path) -> list[Path]:
    """Writes the default schema as scripts for the HBase shell, one a table, into a folder."""
    written = []
    for table in TABLES:
        path = folder / f"{table}.rb"
        path.write_text(render_file(table))
        written.append(path)
    return written


def render_file(table: str) -> str:
    """The script for one of TABLES with the default options."""
    return (
        "# Made by `python -m simhbase.stores.ddl schema`. `simhbase tables ddl` prints the same for other\n"
        "# names, numbers of regions, compression and time to live.\n\n"
        f"{render_script([table_spec(table, DEFAULT_NAMESPACE, DEFAULT_PREFIX)])}"
    )


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
