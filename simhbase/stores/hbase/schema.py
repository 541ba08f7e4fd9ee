"""Specification of the HBase tables, for schema/*.rb, for creating tables through Thrift 2, and for checking
live tables.

Attributes have the names and values of the HBase shell.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from simhbase.drawers.rowkeys import PREFIX_BYTES
from simhbase.errors import SchemaDiffers, TablesMissing, UsageError
from simhbase.stores.backend import LiveTable, require_valid_ttl
from simhbase.stores.base import MET, RECORD_TABLES

INDEX = "index"
TABLES: tuple[str, ...] = (INDEX, *RECORD_TABLES)  # and MET, if refused claims are counted
DEFAULT_NAMESPACE = "default"
DEFAULT_PREFIX = "simhbase"

COMPRESSIONS = ("NONE", "GZ", "ZSTD", "SNAPPY", "LZ4", "LZO", "BZIP2")  # the servers must have the library
FOREVER = "FOREVER"
BLOOM_PREFIX = "RowPrefixBloomFilter.prefix_length"

DEFAULT_REGIONS = 16
MOST_REGIONS = 10_000
OBSOLETE_REGIONS = 4  # maximum, if one number is given for all tables: it has few rows
DEFAULT_DURABILITY = "USE_DEFAULT"  # the write-ahead log has a row before it is acknowledged
LOSSY_DURABILITIES = ("SKIP_WAL", "ASYNC_WAL")

BLOCK_BYTES = 16_384  # a lookup needs a few rows of each block that it reads
_SPLIT_BITS = 32
_ATTRIBUTES = {
    "VERSIONS": "1",
    "DATA_BLOCK_ENCODING": "FAST_DIFF",
    "BLOCKSIZE": str(BLOCK_BYTES),
    "BLOCKCACHE": "true",
    "KEEP_DELETED_CELLS": "FALSE",
}
_FINGERPRINT_BYTES = 8
_BLOOMS: Mapping[str, Mapping[str, str]] = {
    # Scans of a drawer, which is the first 5 bytes of its rows.
    INDEX: {"BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH", BLOOM_PREFIX: str(PREFIX_BYTES)},
    # Scans of a fingerprint's documents, whose rows begin with it.
    "fingerprints": {"BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH", BLOOM_PREFIX: str(_FINGERPRINT_BYTES)},
    "documents": {"BLOOMFILTER": "ROW"},
    "obsolete": {"BLOOMFILTER": "NONE"},  # is scanned alone
    "meta": {"BLOOMFILTER": "ROW"},
    MET: {"BLOOMFILTER": "ROW"},
}

Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Options:
    """Attributes that an administrator may choose; None leaves one to HBase, and accepts any value.

    regions: by table, or one number for all (meta always has one, obsolete at most OBSOLETE_REGIONS);
    compression: one of COMPRESSIONS; ttl: seconds after which rows are dropped, except those of meta; counts:
    with the table MET.
    """

    regions: int | Mapping[str, int] = DEFAULT_REGIONS
    compression: str | None = None
    ttl: int | None = None
    counts: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError."""
        for regions in map(self.regions_of, TABLES):
            if not 1 <= regions <= MOST_REGIONS:
                raise UsageError(f"must be 1 to {MOST_REGIONS}, not {regions}", parameter="regions")
        if self.compression not in (None, *COMPRESSIONS):
            raise UsageError(
                f"must be one of {', '.join(COMPRESSIONS)}, not {self.compression!r}", parameter="compression"
            )
        if self.ttl is not None:
            require_valid_ttl(self.ttl)

    def regions_of(self, table: str) -> int:
        """Initial number of regions of a table."""
        if table == "meta":
            return 1
        if not isinstance(self.regions, int):
            return self.regions["documents" if table == MET else table]
        return min(self.regions, OBSOLETE_REGIONS) if table == "obsolete" else self.regions


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table with one column family; `splits` are the first keys of its regions except the first."""

    namespace: str
    name: str
    family: str
    attributes: Attributes
    splits: tuple[bytes, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with its namespace, as used by the shell and Thrift 1."""
        return self.name if self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class AttributeDifference:
    """An attribute of a live table with a wrong value; None if it is missing."""

    table: str
    attribute: str
    live: str | None
    wanted: str

    def __str__(self) -> str:
        return f"{self.table}: {self.attribute} is {self.live or 'missing'}, not {self.wanted}"


class TableAdministrator(Protocol):
    """Creates, describes and drops tables."""

    def families(self, table: TableSpec) -> Mapping[str, Attributes] | None:
        """Attributes of a live table's column families, None if there is no such table."""

    def create(self, table: TableSpec) -> None:
        """Create a table and its namespace if they are missing."""

    def drop(self, table: TableSpec) -> None:
        """Delete a table with its data, if it exists."""

    def drop_namespace(self, table: TableSpec) -> None:
        """Delete the namespace of a table if it was made by `create` and has no tables left."""

    def regions(self, table: TableSpec) -> int:
        """Number of regions of a live table."""

    def durability(self, table: TableSpec) -> str:
        """Durability attribute of a live table."""


def table_spec(table: str, namespace: str, prefix: str, options: Options = DEFAULT_OPTIONS) -> TableSpec:
    """Specification of a table."""
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
        even_splits(options.regions_of(table)),
    )


def schema(namespace: str, prefix: str, options: Options = DEFAULT_OPTIONS) -> list[TableSpec]:
    """Specifications of all tables."""
    tables = (*TABLES, MET) if options.counts else TABLES
    return [table_spec(table, namespace, prefix, options) for table in tables]


def of_counts(table: TableSpec) -> bool:
    """True for the table that a store may lack."""
    return table.name.endswith(f"_{MET}")


def even_splits(regions: int) -> tuple[bytes, ...]:
    """Evenly spaced split keys: keys of all tables except meta begin with bits of a hash."""
    starts = [(number << _SPLIT_BITS) // regions for number in range(1, regions)]
    return tuple(start.to_bytes(_SPLIT_BITS // 8).rstrip(b"\x00") for start in starts)


def create(tables: Sequence[TableSpec], administrator: TableAdministrator) -> list[str]:
    """Create missing tables; returns their names. May be repeated.

    Raises SchemaDiffers if one has other attributes: before creating any, or afterwards if another process
    creates tables at the same time.
    """
    missing = _compared(tables, administrator)
    for table in missing:
        administrator.create(table)
    if missing:
        check(tables, administrator)
    return [table.full_name for table in missing]


def check(tables: Sequence[TableSpec], administrator: TableAdministrator) -> None:
    """Raises SchemaDiffers with every attribute that differs, and TablesMissing."""
    missing = _compared(tables, administrator)
    if missing:
        raise TablesMissing(
            f"{', '.join(table.full_name for table in missing)} not found: create what is missing with "
            "'simhbase tables create'"
        )


def other_regions(tables: Sequence[TableSpec], administrator: TableAdministrator) -> str | None:
    """A message about live tables with another number of regions than specified, or None. This is not an
    error: regions split as tables grow, and existing tables keep theirs."""
    counted = [(table, administrator.regions(table), len(table.splits) + 1) for table in tables]
    different = [
        f"{table.full_name} has {there:,}, not {asked:,}" for table, there, asked in counted if there != asked
    ]
    if not different:
        return None
    return (
        f"regions: {'; '.join(different)}. Existing tables keep theirs: to change them, drop and create the "
        "tables again, or split regions in the hbase shell"
    )


def lossy(tables: Sequence[TableSpec], administrator: TableAdministrator) -> str | None:
    """A message about live tables that may lose acknowledged writes, or None."""
    durabilities = [(table, administrator.durability(table)) for table in tables]
    found = [(table, durability) for table, durability in durabilities if durability in LOSSY_DURABILITIES]
    if not found:
        return None
    named = ", ".join(f"{table.full_name} ({durability})" for table, durability in found)
    default = _quoted(DEFAULT_DURABILITY)
    commands = "".join(f"\n  alter {_quoted(table.full_name)}, DURABILITY => {default}" for table, _ in found)
    return (
        f"writes that were acknowledged may be lost when a region server ends: DURABILITY of {named}. Change "
        f"that in the hbase shell with{commands}"
    )


def existing(tables: Sequence[TableSpec], administrator: TableAdministrator) -> list[TableSpec]:
    """The existing tables. Raises TablesMissing if there are none."""
    there = [table for table in tables if administrator.families(table) is not None]
    if not there:
        raise TablesMissing(f"none of {', '.join(table.full_name for table in tables)} exists")
    return there


def describe(tables: Sequence[TableSpec], administrator: TableAdministrator) -> list[LiveTable]:
    """The live tables. Raises TablesMissing."""
    found = []
    for table in tables:
        families = administrator.families(table)
        if families is None and of_counts(table):
            continue
        if families is None:
            raise TablesMissing(f"{table.full_name} not found")
        regions, durability = administrator.regions(table), administrator.durability(table)
        found.append(LiveTable(table.full_name, regions, durability, families.get(table.family, {})))
    return found


def drop(tables: Sequence[TableSpec], administrator: TableAdministrator) -> list[str]:
    """Delete existing tables; returns their names. Raises TablesMissing.

    The table with the profile is deleted first: without it, the others count as missing, wherever this stops.
    """
    there = existing(tables, administrator)[::-1]
    for table in there:
        administrator.drop(table)
    if there[0].namespace != DEFAULT_NAMESPACE:
        administrator.drop_namespace(there[0])
    return [table.full_name for table in there]


def _compared(tables: Sequence[TableSpec], administrator: TableAdministrator) -> list[TableSpec]:
    """The missing tables. Raises SchemaDiffers if others differ."""
    missing, different, changes = [], [], []
    found = [administrator.families(table) for table in tables]
    for table, live in zip(_expiring_alike(tables, found), found, strict=True):
        if live is None:
            missing.append(table)
        elif differences := compare(live, table):
            different += differences
            changes.append(render_alter(table, [difference.attribute for difference in differences]))
    if different:
        commands = "".join(f"  {change}\n" for change in changes)
        raise SchemaDiffers(
            f"{'; '.join(map(str, different))}. Change that in the hbase shell with\n{commands}"
            "or drop the tables and create them again"
        )
    return missing


def _expiring_alike(
    tables: Sequence[TableSpec], found: Sequence[Mapping[str, Attributes] | None]
) -> list[TableSpec]:
    """Specifications with an unspecified time to live set to that of the first existing table: rows of one
    document must expire together."""
    lives = [
        family["TTL"]
        for table, families in zip(tables, found, strict=True)
        if "TTL" not in table.attributes and (family := (families or {}).get(table.family, {})).get("TTL")
    ]
    ttl = {"TTL": lives[0]} if lives else {}
    return [replace(table, attributes={**table.attributes, **ttl, **table.attributes}) for table in tables]


def compare(live: Mapping[str, Attributes], wanted: TableSpec) -> list[AttributeDifference]:
    """Differences of a live table's column families from the specification. Unspecified families and
    attributes are ignored."""
    family = live.get(wanted.family)
    if family is None:
        return [AttributeDifference(wanted.full_name, "NAME", None, wanted.family)]
    return [
        AttributeDifference(wanted.full_name, attribute, family.get(attribute), value)
        for attribute, value in wanted.attributes.items()
        if family.get(attribute) != value
    ]


def render_shell(table: TableSpec) -> str:
    """Command of the HBase shell that creates the table."""
    family = _family(table, table.attributes)
    parts = [_quoted(table.full_name), "{" + ",\n   ".join(family) + "}"]
    if table.splits:
        keys = ["".join(f"\\x{byte:02X}" for byte in key) for key in table.splits]
        parts.append(f"SPLITS => [{', '.join(map(_quoted, keys))}]")
    return "create " + ",\n  ".join(parts)


def render_alter(table: TableSpec, attributes: Collection[str]) -> str:
    """Command of the HBase shell that sets attributes of a live table; NAME stands for a missing column
    family."""
    changed = table.attributes if "NAME" in attributes else attributes
    return f"alter {_quoted(table.full_name)}, {{{', '.join(_family(table, changed))}}}"


def _family(table: TableSpec, attributes: Iterable[str]) -> list[str]:
    """The column family and some attributes, in the shell's notation."""
    pairs = [f"NAME => {_quoted(table.family)}"]
    for name in attributes:
        value = _quoted(table.attributes[name])
        configuration = f"CONFIGURATION => {{{_quoted(name)} => {value}}}"
        pairs.append(configuration if name == BLOOM_PREFIX else f"{name} => {value}")
    return pairs


def render_script(tables: Sequence[TableSpec]) -> str:
    """A script for the HBase shell that creates tables, and their namespace if necessary."""
    namespaces = sorted({table.namespace for table in tables} - {DEFAULT_NAMESPACE})
    commands = map(_render_namespace, namespaces)
    return "\n\n".join([*commands, *map(render_shell, tables), "exit\n"])


# A document is committed in documents after its hints in fingerprints and index: in this order, no snapshot
# has a document without hints. The progress of loads, in meta, must not be ahead of the documents.
_SNAPSHOT_ORDER = ("meta", "documents", "fingerprints", "index", "obsolete", MET)


def render_compactions(tables: Sequence[TableSpec]) -> str:
    """A script for the HBase shell that compacts tables in full."""
    commands = [
        _if_there(table, f"major_compact {_quoted(table.full_name)}", "list", table.full_name)
        for table in tables
    ]
    return "\n".join([*commands, "exit\n"])


def _if_there(table: TableSpec, command: str, listing: str, name: str) -> str:
    """A command; for the table of counts, which few stores have, only if a command lists a table or snapshot
    of this name."""
    return f"{command} unless {listing}({_quoted(name)}).empty?" if of_counts(table) else command


# HBase 2.6 gives up its lock on a table within a snapshot to take another, and at times does not get that
# for a minute.
_TAKE = """\
def take(table, name, tries = 5)
  snapshot table, name
rescue Exception => error
  raise unless tries > 1 && error.message.include?('Could not acquire shared lock on table')
  take(table, name, tries - 1)
end"""


def render_snapshots(tables: Sequence[TableSpec], name: str) -> str:
    """A script for the HBase shell that takes snapshots of all tables, with this prefix."""
    by_name = dict(zip((*TABLES, MET), tables, strict=True))
    snapshots = [
        _if_there(
            spec, f"take {_quoted(spec.full_name)}, {_quoted(f'{name}-{table}')}", "list", spec.full_name
        )
        for table in _SNAPSHOT_ORDER
        for spec in [by_name[table]]
    ]
    return "\n".join([_TAKE, *snapshots, "exit\n"])


def render_clones(tables: Sequence[TableSpec], name: str) -> str:
    """A script for the HBase shell that creates all tables from snapshots. meta, with the profile, comes
    last: until then the others do not count as a store. The shell stops if a table exists."""
    namespaces = sorted({table.namespace for table in tables} - {DEFAULT_NAMESPACE})
    *others, counts = tables
    clone = "clone_snapshot {}, {}".format
    clones = [
        _if_there(
            spec,
            clone(_quoted(f"{name}-{table}"), _quoted(spec.full_name)),
            "list_snapshots",
            f"{name}-{table}",
        )
        for table, spec in ((MET, counts), *zip(TABLES, others, strict=True))
    ]
    return "\n".join([*map(_render_namespace, namespaces), *clones, "exit\n"])


def _render_namespace(namespace: str) -> str:
    return (
        f"begin\n  create_namespace {_quoted(namespace)}\n"
        "rescue => error\n  raise unless error.message =~ /exist/i\nend"
    )


def _quoted(text: str) -> str:
    return f"'{text}'"


def write_files(folder: Path) -> list[Path]:
    """Write the default schema as scripts for the HBase shell, one per table, to a folder."""
    written = []
    for table in (*TABLES, MET):
        path = folder / f"{table}.rb"
        path.write_text(render_file(table))
        written.append(path)
    return written


def render_file(table: str) -> str:
    """The script for one table with default options."""
    return (
        "# Made by `python -m simhbase.stores.hbase.schema schema`. `simhbase tables ddl` prints the same\n"
        "# for other names, numbers of regions, compression and time to live.\n\n"
        f"{render_script([table_spec(table, DEFAULT_NAMESPACE, DEFAULT_PREFIX)])}"
    )


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
