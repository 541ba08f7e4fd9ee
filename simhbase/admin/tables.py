"""A store's tables, from their creation to their end: `simhbase.tables`.

    from simhbase import tables

    tables.create("hbase://gateway/news:articles?thrift2=9091", documents=50_000_000)
    tables.check("hbase://gateway/news:articles?thrift2=9091")

HBase creates, compares and drops tables through a Thrift 2 gateway, which thrift2=PORT names in the URL.
Without one, `ddl` gives what the hbase shell creates them with. `simhbase.check` compares the rows of tables,
and `Administrator.stats` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import cast

from simhbase.admin.snapshots import Snapshot, restore, snapshot
from simhbase.drawers.scheme import SimHashScheme
from simhbase.errors import SchemaDiffers, StoreFailed, TablesMissing, UsageError
from simhbase.index import stored_profile
from simhbase.index.index import Index, open_index
from simhbase.index.reader import DRAWER_LIMIT
from simhbase.index.stored_profile import StoredProfile, probes, read_profile, write_profile
from simhbase.profile import Profile, given_parameters, make_profile
from simhbase.stores import create_store, drop_store, droppable, hbase, is_in_hbase, open_store
from simhbase.stores.base import Store, multi_writer
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
    "UpgradedTables",
    "check",
    "create",
    "ddl",
    "describe",
    "drop",
    "listed",
    "restore",
    "snapshot",
    "upgrade",
]

_NOT_IN_HBASE = "only tables in HBase have that, and {} is no HBase store"


@dataclass(frozen=True)
class CreatedTables:
    """What `create` has done.

    profile: the store's; created: names of the tables in HBase that were missing; warnings: what an
    administrator should know, in words.
    """

    store: str
    profile: Profile
    created: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedTables:
    """What `check` has compared, all of it the same.

    attributes_compared: of tables in HBase, 0 where no Thrift 2 gateway is named, which alone knows
    not_compared; None of other stores. fixed_texts: of which this machine makes the fingerprints that the
    store's creator did. warnings: as of `create`.
    """

    store: str
    attributes_compared: int | None
    not_compared: tuple[str, ...]
    fixed_texts: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class DescribedTables:
    """A store as it is.

    software: versions that its creator had; ttl: seconds after which documents of an embedded store expire,
    None where they stay; tables: regions, durability and attributes of each table, where
    the URL names a Thrift 2 gateway, else empty.
    """

    store: str
    profile: Profile
    software: Mapping[str, str]
    tables: Mapping[str, LiveTable]
    ttl: int | None = None


@dataclass(frozen=True)
class DroppedTables:
    """What `drop` has deleted: names of tables in HBase, or the URL of another store."""

    store: str
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Ddl:
    """A script for the hbase shell that creates the tables of a store; warnings: as of `create`."""

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
) -> CreatedTables:
    """Creates what is missing of a store, with a profile; may be repeated.

    profile: a whole one, or some of its parameters by name; a store that exists must agree with it. ttl:
    seconds after which documents vanish. Of new tables in HBase: regions: how many each begins with; or
    documents: as many as this number of documents fills; compression: one that HBase knows, such as "ZSTD".

    Raises UsageError for what does not go together, ProfileMismatch, SchemaDiffers where a table has other
    attributes, TablesMissing where no Thrift 2 gateway is named and HBase has no such tables, StoreBusy,
    StoreUnreachable, StoreFailed.
    """
    given = given_parameters(profile)
    wanted = _Wanted.of(regions=regions, documents=documents, compression=compression, ttl=ttl)
    created: list[str] = []
    warnings: list[str] = []
    if is_in_hbase(url):
        created, warnings = _create_in_hbase(url, wanted, given)
    else:
        wanted.refuse(_NOT_IN_HBASE.format(url), but="ttl")
    with _open_or_create(url, given, wanted.ttl) as index:
        stored = index.profile
    return CreatedTables(url, stored, tuple(created), (*warnings, *wanted.drawer_warnings(stored)))


def check(url: str, *, compression: str | None = None, ttl: int | None = None) -> CheckedTables:
    """Checks that a store's tables are what they should be, and that this machine makes the same
    fingerprints as their creator.

    ttl: what the store should have, if that matters; compression: the same of tables in HBase. Raises
    SchemaDiffers with every attribute that differs, ProfileMismatch, TablesMissing, UsageError,
    StoreUnreachable, StoreFailed.
    """
    wanted = _Wanted.of(compression=compression, ttl=ttl)
    ttl = wanted.ttl
    compared: int | None = None
    unknown: tuple[str, ...] = ()
    warnings: list[str] = []
    if is_in_hbase(url):
        compared, unknown = _compare_attributes(url, wanted)
        warnings = hbase.table_warnings(url) if hbase.has_administration(url) else []
    else:
        wanted.refuse(_NOT_IN_HBASE.format(url), but="ttl")
    with open_index(url, access="read") as index:
        _require_ttl(index.store, ttl)
        _ = index.fingerprinter
    return CheckedTables(url, compared, unknown, len(probes()), tuple(warnings))


def describe(url: str) -> DescribedTables:
    """A store's profile, and how HBase keeps its tables. `Administrator.stats` tells how large they are.

    Raises TablesMissing, StoreUnreachable, StoreFailed, UsageError.
    """
    with closing(open_store(url, "read")) as store:
        stored = read_profile(store)
        ttl = None if multi_writer(store) else store.ttl()
    asks = is_in_hbase(url) and hbase.has_administration(url)
    live = hbase.describe_tables(url) if asks else {}
    return DescribedTables(url, stored.profile, dict(stored.software), live, ttl)


@dataclass(frozen=True)
class UpgradedTables:
    """What an upgrade did. format_before, format: of the rows, 2 and later."""

    store: str
    format_before: int
    format: int


def upgrade(url: str) -> UpgradedTables:
    """Makes the rows of a store the ones of this version's format, so that claims can be made in it.

    In HBase all processes that claim with an older version have to be stopped before; others may go on, but
    older versions open the store no more. Nothing is read or written but the profile. Raises what
    `simhbase.open` raises.
    """
    with open_index(url) as index:
        return UpgradedTables(url, stored_profile.upgrade(index.store), stored_profile.FORMAT)


def drop(url: str) -> DroppedTables:
    """Deletes a store with all its data, or what an interrupted creation left of one. Nobody is asked.

    In HBase a namespace that `create` made goes with its last table. Raises TablesMissing, StoreBusy,
    StoreUnreachable, StoreFailed, UsageError.
    """
    names = tuple(droppable(url))
    drop_store(url)
    return DroppedTables(url, names)


def listed(url: str) -> tuple[tuple[str, ...], int | None]:
    """What `drop` would delete, and about how many documents that are; None of a store that is not complete.

    Raises what `drop` raises.
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
) -> Ddl:
    """What creates the tables of a store in the hbase shell; see `create`, which stores the profile in them.

    No server is asked: of the URL the names of the tables count, and of the profile how much room `documents`
    need. Raises UsageError.
    """
    if not is_in_hbase(url):
        raise UsageError(f"tables ddl is for stores in HBase, as hbase://HOST/PREFIX; this is {url}")
    wanted = _Wanted.of(regions=regions, documents=documents, compression=compression, ttl=ttl)
    chosen = make_profile(given_parameters(profile))
    script = hbase.script(url, wanted.options(lambda: chosen))
    return Ddl(script, tuple(wanted.drawer_warnings(chosen)))


def open_like(url: str, profile: Profile, like: StoredProfile, documents: int, ttl: int | None) -> Index:
    """A store open for writing, for so many documents with the fingerprints of another; what is missing of it
    is created, in HBase through a Thrift 2 gateway. ttl: seconds after which documents vanish in new tables.

    One that exists may have any profile. Raises what `create` raises.
    """
    try:
        return open_index(url)
    except TablesMissing:
        if is_in_hbase(url) and hbase.has_administration(url):
            _create_in_hbase(url, _Wanted.of(documents=documents, ttl=ttl), profile.parameters())
        return _created(url, profile, ttl, like)


def _created(url: str, profile: Profile, ttl: int | None, like: StoredProfile | None = None) -> Index:
    """A store open for writing, of which what is missing was created; ttl: of an embedded one."""
    profile.require_fits_tables()
    store = create_store(url)
    try:
        write_profile(store, profile, like, ttl)
        return Index(store, read_profile(store))
    except BaseException:
        store.close()
        raise


def _require_ttl(store: Store, ttl: int | None) -> None:
    """Raises SchemaDiffers where documents of an embedded store do not expire after so many seconds (None:
    that does not matter). Tables in HBase are compared by their attributes."""
    if ttl is None or multi_writer(store) or store.ttl() == ttl:
        return
    there = "no time to live" if store.ttl() is None else f"a time to live of {store.ttl()} s"
    raise SchemaDiffers(
        f"{store.url} has {there}, not {ttl} s. A store keeps what it was created with: create another one, "
        "and copy the documents to it (simhbase migrate)"
    )


@dataclass(frozen=True)
class _Wanted:
    """What somebody wants of tables in HBase, by name."""

    given: Mapping[str, int | str]

    @classmethod
    def of(cls, **values: int | str | None) -> _Wanted:
        given = {name: value for name, value in values.items() if value is not None}
        if isinstance(compression := given.get("compression"), str):
            given["compression"] = compression.upper()
        return cls(given)

    @property
    def says_regions(self) -> bool:
        """Whether a number of regions was asked for."""
        return bool(self.given.keys() & {"regions", "documents"})

    def options(self, profile: Callable[[], Profile] = Profile) -> Options:
        """That, with the defaults for the others; `profile` is asked for where documents are given.

        Raises UsageError.
        """
        chosen = dict(self.given)
        documents = chosen.pop("documents", None)
        if documents is not None:
            if "regions" in chosen:
                raise UsageError(
                    "the number of documents says it, too: give one of them", parameter="regions"
                )
            chosen["regions"] = _content(documents, profile()).regions()  # type: ignore[arg-type,assignment]  # checked
        return Options(**chosen)  # type: ignore[arg-type]  # it checks

    def drawer_warnings(self, profile: Profile) -> list[str]:
        """What is wrong with drawers of a profile that hold the documents which are expected."""
        documents = self.given.get("documents")
        scheme = profile.index_scheme
        if not isinstance(documents, int) or not isinstance(scheme, SimHashScheme):
            return []  # bands of minhash are hashes of 32 bits
        warning = oversized_drawers(documents, scheme.layout, DRAWER_LIMIT)
        return [] if warning is None else [warning]

    def refuse(self, reason: str, but: str = "") -> None:
        """Raises UsageError where something (but for this) was given, which is of no use for this reason."""
        if refused := [name for name in self.given if name != but]:
            raise UsageError(reason, parameter=refused[0])

    @property
    def ttl(self) -> int | None:
        """Seconds after which documents expire. Raises UsageError for what HBase would not take, either."""
        return Options(ttl=cast("int | None", self.given.get("ttl"))).ttl


def _content(documents: int, profile: Profile) -> Content:
    return Content(
        documents, profile.index_scheme.tables, profile.sketching.bytes if profile.sketching else 0
    )


def _create_in_hbase(url: str, wanted: _Wanted, given: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """The names of the tables that were created, and warnings."""
    if not hbase.has_administration(url):
        wanted.refuse(
            f"it takes a Thrift 2 gateway to create such tables, and {url} names none. Name one with "
            "thrift2=PORT in the URL, or give the same to 'simhbase tables ddl' and run what it prints in "
            "the hbase shell"
        )
        return [], []
    options = wanted.options(lambda: _stored_or_given(url, given))
    created: list[str] = []
    try:
        hbase.check_tables(url, options)
    except TablesMissing:
        make_profile(given)  # what is wrong with it is said before there are tables
        created = hbase.create_tables(url, options)
    # Somebody else may have created tables meanwhile, with other regions.
    return created, hbase.table_warnings(url, options if created or wanted.says_regions else None)


def _stored_or_given(url: str, given: Mapping[str, object]) -> Profile:
    try:
        with open_index(url, access="read") as index:
            return index.profile
    except TablesMissing:
        return make_profile(given)


def _open_or_create(url: str, given: Mapping[str, object], ttl: int | None) -> Index:
    """A store open for writing; one that is missing is created. ttl: of an embedded one. Raises as
    `simhbase.open`, but for TablesMissing, and SchemaDiffers."""
    try:
        index = open_index(url)
    except TablesMissing:
        return _created(url, make_profile(given), ttl)
    try:
        index.profile.require(given)
        _require_ttl(index.store, ttl)
    except BaseException:
        index.close()
        raise
    return index


def _compare_attributes(url: str, wanted: _Wanted) -> tuple[int, tuple[str, ...]]:
    """How many were compared; and where no Thrift 2 gateway is named, which were not."""
    options = wanted.options()
    specification = hbase.specification(url, options)
    if wanted.given or hbase.has_administration(url):
        hbase.check_tables(url, options)
        return sum(len(table.attributes) for table in specification), ()
    names = dict.fromkeys(name for table in specification for name in table.attributes)
    return 0, (*names, "DURABILITY")
