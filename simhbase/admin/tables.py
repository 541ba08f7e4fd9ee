"""Creating, checking, describing and dropping the tables of a store: `simhbase.tables`.

    from simhbase import tables

    tables.create("hbase://gateway/news:articles?thrift2=9091", documents=50_000_000)
    tables.check("hbase://gateway/news:articles?thrift2=9091")

In HBase this needs a Thrift 2 gateway, named by thrift2=PORT in the URL. Without one, `ddl` returns a script
for the hbase shell that creates the tables. `simhbase.check` compares the rows of tables,
`Administrator.stats` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from simhbase.admin.snapshots import Snapshot, restore, snapshot
from simhbase.admin.stats import sizes
from simhbase.drawers.scheme import SimHashScheme
from simhbase.errors import SchemaDiffers, StoreFailed, TablesMissing, UsageError
from simhbase.index.index import Index, open_index, require_counts
from simhbase.index.reader import DRAWER_LIMIT
from simhbase.index.stored_profile import StoredProfile, probes, read_profile, write_profile
from simhbase.model.values import Size
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.stores import create_store, drop_store, droppable, hbase, is_in_hbase, open_store
from simhbase.stores.base import Store, Ttl, keeps_hints
from simhbase.stores.hbase.planning import Content, oversized_drawers
from simhbase.stores.hbase.schema import LiveTable, Options

__all__ = [
    "CheckedTables",
    "CreatedTables",
    "Ddl",
    "DescribedTables",
    "DroppedTables",
    "LiveTable",
    "Snapshot",
    "check",
    "create",
    "ddl",
    "describe",
    "drop",
    "listed",
    "restore",
    "snapshot",
]


@dataclass(frozen=True)
class CreatedTables:
    """Result of `create`.

    profile: the store's; created: HBase tables that were missing, or the URL of another store; warnings: for
    the administrator; regions: numbers of them by HBase table, empty without a Thrift 2 gateway; counts:
    whether it counts refused claims.
    """

    store: str
    profile: Profile
    created: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    regions: Mapping[str, int] = field(default_factory=dict)
    counts: bool = False


@dataclass(frozen=True)
class CheckedTables:
    """Result of `check`, if there are no differences.

    attributes_compared: of tables in HBase, 0 if no Thrift 2 gateway is given; then not_compared names them,
    and it is unknown if the tables are the same. None for other stores. fixed_texts: number of texts whose
    fingerprints were compared. warnings: as in
    `create`.
    """

    store: str
    attributes_compared: int | None
    not_compared: tuple[str, ...]
    fixed_texts: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class DescribedTables:
    """A store's profile and tables.

    software: library versions of its creator; ttl: seconds after which documents of an embedded store expire,
    or None; tables: regions, durability and attributes by table, empty without a Thrift 2 gateway; sizes:
    estimated rows and bytes of these, before compression; counts: whether it counts refused claims.
    """

    store: str
    profile: Profile
    software: Mapping[str, str]
    tables: Mapping[str, LiveTable]
    ttl: int | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)
    counts: bool = False


@dataclass(frozen=True)
class DroppedTables:
    """Result of `drop`: names of HBase tables, or the URL of another store."""

    store: str
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Ddl:
    """A script for the hbase shell that creates the tables of a store. warnings: as in `create`."""

    script: str
    warnings: tuple[str, ...] = ()


def create(
    url: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    regions: int | None = None,
    documents: int | None = None,
    compression: str | None = None,
    ttl: int | None = None,
    counts: bool = False,
) -> CreatedTables:
    """Create the missing tables of a store, with a profile. May be repeated.

    profile: a Profile, or some of its parameters by name; an existing store must agree with it. ttl: seconds
    after which documents expire. counts: count refused claims (`StoredDocument.met`), which a store does from
    its beginning or never. For new tables in HBase: regions: number of regions per table, or documents:
    expected number of documents, which determines it; compression: as named by HBase, e.g. "ZSTD".

    Raises UsageError for options that cannot be combined, ProfileMismatch, SchemaDiffers if a table has other
    attributes or the store does not count, TablesMissing if HBase lacks the tables and no Thrift 2 gateway is
    given, StoreBusy, StoreUnreachable, StoreFailed.
    """
    given = given_parameters(profile)
    wanted = _wanted(url, regions=regions, documents=documents, compression=compression, ttl=ttl)
    if counts:
        require_counts(url, None)
    created, warnings = _create_in_hbase(url, wanted, given, counts=counts) if is_in_hbase(url) else ([], [])
    try:
        index = open_index(url)
    except TablesMissing:
        with _created(url, make_profile(given), ttl, counts=counts) as index:
            stored = index.profile
        created = created if is_in_hbase(url) else [url]
    else:
        with index:
            stored, counts = index.profile, index.counts
            stored.require(given)
            if ttl is not None and not is_in_hbase(url):  # there attributes were compared
                require_ttl(index.store, ttl)
    live = _live_tables(url) if is_in_hbase(url) else {}
    regions_of = {each.name: each.regions for each in live.values()}
    warnings = [*warnings, *_drawer_warnings(documents, stored)]
    return CreatedTables(url, stored, tuple(created), tuple(warnings), regions_of, counts)


def check(url: str, *, compression: str | None = None, ttl: int | None = None) -> CheckedTables:
    """Check a store's tables, and that this machine computes the same fingerprints as their creator.

    ttl, compression: expected values, if given. Raises SchemaDiffers with every attribute that differs,
    ProfileMismatch, TablesMissing, UsageError, StoreUnreachable, StoreFailed.
    """
    wanted = _wanted(url, compression=compression, ttl=ttl)
    compared: int | None = None
    unknown: tuple[str, ...] = ()
    warnings: list[str] = []
    if is_in_hbase(url):
        compared, unknown = _compare_attributes(url, wanted)
        warnings = hbase.table_warnings(url) if hbase.has_administration(url) else []
    with open_index(url, access="read") as index:
        if ttl is not None and not is_in_hbase(url):
            require_ttl(index.store, ttl)
        _ = index.fingerprinter
        warnings += index.store.warnings()
    return CheckedTables(url, compared, unknown, len(probes()), tuple(warnings))


def describe(url: str) -> DescribedTables:
    """Describe a store: its profile, and regions, sizes and attributes of its HBase tables.

    Raises TablesMissing, StoreUnreachable, StoreFailed, UsageError.
    """
    with closing(open_store(url, "read")) as store:
        stored = read_profile(store)
        ttl = None if keeps_hints(store) or (found := store.ttl()) == "unknown" else found
        live = _live_tables(url) if is_in_hbase(url) else {}
        estimated = sizes(store) if live else {}
    return DescribedTables(url, stored.profile, dict(stored.software), live, ttl, estimated, stored.counts)


def _live_tables(url: str) -> Mapping[str, LiveTable]:
    """The tables in HBase, if there is a gateway to ask."""
    return hbase.describe_tables(url) if hbase.has_administration(url) else {}


def drop(url: str) -> DroppedTables:
    """Delete a store with all its data, or the remains of an interrupted creation, without confirmation.

    In HBase, a namespace created by `create` is removed with its last table. Raises TablesMissing, StoreBusy,
    StoreUnreachable, StoreFailed, UsageError.
    """
    names = tuple(droppable(url))
    drop_store(url)
    return DroppedTables(url, names)


def listed(url: str) -> tuple[tuple[str, ...], int | None]:
    """What `drop` would delete, and the estimated number of documents (None for a store that
    is incomplete or damaged).

    Raises the errors of `drop`.
    """
    names = tuple(droppable(url))
    try:
        with closing(open_store(url, "read")) as store:
            return names, store.records("documents").approximate_size().rows
    except (TablesMissing, StoreFailed):
        return names, None


def ddl(
    url: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    regions: int | None = None,
    documents: int | None = None,
    compression: str | None = None,
    ttl: int | None = None,
    counts: bool = False,
) -> Ddl:
    """Return a script for the hbase shell that creates the tables of a store; `create` then stores the
    profile in them.

    Contacts no server: only the table names of the URL are used. `documents` and the profile determine the
    regions. counts: with the table for these, which `create` has to be told, too. Raises UsageError.
    """
    if not is_in_hbase(url):
        raise UsageError(f"tables ddl is for stores in HBase (hbase://HOST/PREFIX), not {url}")
    wanted = _wanted(url, regions=regions, documents=documents, compression=compression, ttl=ttl)
    chosen = make_profile(given_parameters(profile))
    script = hbase.script(url, replace(_options(wanted, lambda: chosen), counts=counts))
    return Ddl(script, tuple(_drawer_warnings(documents, chosen)))


def open_like(url: str, profile: Profile, like: StoredProfile, documents: int, ttl: int | None) -> Index:
    """Open a store for writing that holds fingerprints of another store; missing tables are created, and
    count refused claims if the other one does. documents: expected number, for the regions in HBase. ttl:
    seconds after which documents expire in new tables.

    An existing store may have any profile. Raises the errors of `create`.
    """
    try:
        return open_index(url)
    except TablesMissing:
        if is_in_hbase(url) and hbase.has_administration(url):
            wanted = _wanted(url, documents=documents, ttl=ttl)
            _create_in_hbase(url, wanted, profile.parameters(), counts=like.counts)
        return _created(url, profile, ttl, like, counts=like.counts)


def _created(
    url: str, profile: Profile, ttl: int | None, like: StoredProfile | None = None, *, counts: bool
) -> Index:
    """Opens a store for writing, creating what is missing. ttl: for an embedded store."""
    profile.require_fits_tables()
    store = create_store(url, counts=counts)
    try:
        write_profile(store, profile, like, ttl, counts=counts)
        return Index(store, read_profile(store))
    except BaseException:
        store.close()
        raise


def require_ttl(store: Store, ttl: int | None) -> None:
    """Raises SchemaDiffers if a store has another time to live, or one that may not be read."""
    if (stored := store.ttl()) == ttl:
        return
    change = (
        "Grant its user C on the table documents (docs/hbase.md)"
        if stored == "unknown"
        else "Alter the TTL of all its families in HBase, or name another store"
        if keeps_hints(store)
        else "This cannot be changed: create another store, and copy the documents to it (simhbase migrate)"
    )
    raise SchemaDiffers(f"documents of {store.url} {expiry(stored)}, and should {expiry(ttl)}. {change}")


def expiry(ttl: Ttl) -> str:
    """What documents do with a time to live in seconds, as a verb: "expire after 30 days"."""
    if ttl == "unknown":
        return "may expire (this user may not read after which time)"
    if ttl is None:
        return "never expire"
    return f"expire after {str(timedelta(seconds=ttl)).removesuffix(', 0:00:00')}"


def _wanted(url: str, **values: int | str | None) -> dict[str, Any]:
    """The given attributes of tables. Raises UsageError for a ttl that HBase would refuse, and outside HBase
    for anything else."""
    given = {name: value for name, value in values.items() if value is not None}
    if isinstance(compression := given.get("compression"), str):
        given["compression"] = compression.upper()
    if not is_in_hbase(url):
        for name in given:
            if name != "ttl":
                reason = f"only for tables in HBase, and {url} is not an HBase store"
                raise UsageError(reason, parameter=name)
        Options(ttl=given.get("ttl"))  # type: ignore[arg-type]  # it checks
    return given


def _options(wanted: Mapping[str, Any], profile: Callable[[], Profile] = Profile) -> Options:
    """Options of tables in HBase. profile: called if `documents` is given. Raises UsageError."""
    chosen = dict(wanted)
    documents = chosen.pop("documents", None)
    if documents is not None:
        if "regions" in chosen:
            raise UsageError("the number of documents says it, too: give one of them", parameter="regions")
        chosen["regions"] = Content.of(documents, profile().index_scheme).regions()
    return Options(**chosen)


def _drawer_warnings(documents: int | None, profile: Profile) -> list[str]:
    """Warnings if the profile's drawers miss texts that its threshold asks for, or the expected documents
    overfill them."""
    scheme = profile.index_scheme
    found = [scheme.missing()]
    if documents is not None and isinstance(scheme, SimHashScheme):  # bands of minhash are hashes of 32 bits
        found.append(oversized_drawers(documents, scheme.layout, DRAWER_LIMIT))
    return [warning for warning in found if warning is not None]


def _create_in_hbase(
    url: str, wanted: Mapping[str, Any], given: Mapping[str, object], *, counts: bool
) -> tuple[list[str], list[str]]:
    """Names of the created tables, and warnings."""
    if not hbase.has_administration(url):
        for name in wanted:
            raise UsageError(
                f"creating HBase tables needs a Thrift 2 gateway, and {url} names none. Add thrift2=PORT to "
                "the URL, or run the output of 'simhbase tables ddl' with the same options in the hbase "
                "shell",
                parameter=name,
            )
        return [], []
    options = replace(_options(wanted, lambda: _stored_or_given(url, given)), counts=counts)
    created: list[str] = []
    try:
        hbase.check_tables(url, options)
    except TablesMissing:
        make_profile(given)  # raises before any table is created
        created = hbase.create_tables(url, options)
    # Another process may have created tables since, with other regions.
    return created, hbase.table_warnings(
        url, options if created or wanted.keys() & {"regions", "documents"} else None
    )


def _stored_or_given(url: str, given: Mapping[str, object]) -> Profile:
    try:
        with open_index(url, access="read") as index:
            return index.profile
    except TablesMissing:
        return make_profile(given)


def _compare_attributes(url: str, wanted: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """Number of attributes compared, and tables that were not compared without a Thrift 2 gateway."""
    options = _options(wanted)
    if hbase.has_administration(url):
        options = replace(options, counts=hbase.has_counts(url))
    specification = hbase.specification(url, options)
    if wanted or hbase.has_administration(url):
        hbase.check_tables(url, options)
        return sum(len(table.attributes) for table in specification), ()
    names = dict.fromkeys(name for table in specification for name in table.attributes)
    return 0, (*names, "DURABILITY")
