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
from dataclasses import dataclass, field
from datetime import timedelta

from simhbase.admin.snapshots import Snapshot, restore, snapshot
from simhbase.admin.stats import sizes
from simhbase.drawers.scheme import SimHashScheme
from simhbase.drawers.sizes import oversized_drawers
from simhbase.errors import SchemaDiffers, StoreFailed, TablesMissing
from simhbase.index.index import Index
from simhbase.index.opening import open_index, require_counts
from simhbase.index.reader import DRAWER_LIMIT
from simhbase.index.scoped import StoreOfScopes
from simhbase.index.stored_profile import StoredProfile, probes, read_profile, write_profile
from simhbase.model.values import Size
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.stores import backend
from simhbase.stores.backend import Backend, LiveTable
from simhbase.stores.base import Store, Ttl

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
    whether it counts refused claims; scoped: whether it has scopes.
    """

    store: str
    profile: Profile
    created: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    regions: Mapping[str, int] = field(default_factory=dict)
    counts: bool = False
    scoped: bool = False


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
    estimated rows and bytes of these, before compression; counts: whether it counts refused claims; scoped:
    whether it has scopes.
    """

    store: str
    profile: Profile
    software: Mapping[str, str]
    tables: Mapping[str, LiveTable]
    ttl: int | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)
    counts: bool = False
    scoped: bool = False


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
    scoped: bool = False,
) -> CreatedTables:
    """Create the missing tables of a store, with a profile. May be repeated.

    profile: a Profile, or some of its parameters by name; an existing store must agree with it. ttl: seconds
    after which documents expire. counts: count refused claims (`StoredDocument.met`), which a store does from
    its beginning or never; scoped: the store has scopes (see `simhbase.open`), likewise. For new tables in
    HBase: regions: number of regions per table, or documents: expected number of documents, which determines
    it; compression: as named by HBase, e.g. "ZSTD".

    Raises UsageError for options that cannot be combined, ProfileMismatch, SchemaDiffers if a table has other
    attributes or the store does not count, TablesMissing if HBase lacks the tables and no Thrift 2 gateway is
    given, StoreBusy, StoreUnreachable, StoreFailed.
    """
    place, given = backend(url), given_parameters(profile)
    wanted = place.table_options(regions=regions, documents=documents, compression=compression, ttl=ttl)
    if counts:
        require_counts(url, None)
    created, warnings = list[str](), list[str]()
    if not place.creates_itself:
        created, warnings = place.create_tables(
            wanted, lambda: _stored_or_given(place, given).index_scheme, counts=counts
        )
    try:
        with closing(place.open("write")) as store:
            stored = read_profile(store)
            stored.profile.require(given)
            stored.require(store, stored.profile, counts=counts, scoped=scoped)
            if ttl is not None and not store.keeps_hints:  # there attributes were compared
                require_ttl(store, ttl)
    except TablesMissing:
        chosen = make_profile(given)
        chosen.require_fits_tables()
        with closing(place.create(counts=counts)) as store:
            stored = write_profile(store, chosen, ttl=ttl, counts=counts, scoped=scoped)
        created = [url] if place.creates_itself else created
    live = place.live_tables() if place.has_administrator else {}
    regions_of = {each.name: each.regions for each in live.values()}
    warnings = [*warnings, *_drawer_warnings(documents, stored.profile)]
    kinds = stored.counts, stored.salt is not None
    return CreatedTables(url, stored.profile, tuple(created), tuple(warnings), regions_of, *kinds)


def check(url: str, *, compression: str | None = None, ttl: int | None = None) -> CheckedTables:
    """Check a store's tables, and that this machine computes the same fingerprints as their creator.

    ttl, compression: expected values, if given. Raises SchemaDiffers with every attribute that differs,
    ProfileMismatch, TablesMissing, UsageError, StoreUnreachable, StoreFailed.
    """
    place = backend(url)
    compared, unknown, warnings = place.compare(place.table_options(compression=compression, ttl=ttl))
    with closing(place.open("read")) as store:
        stored = read_profile(store)
        if ttl is not None and not store.keeps_hints:
            require_ttl(store, ttl)
        stored.check_pipeline(stored.profile.fingerprinter())
        warnings += store.warnings()
    return CheckedTables(url, compared, unknown, len(probes()), tuple(warnings))


def describe(url: str) -> DescribedTables:
    """Describe a store: its profile, and regions, sizes and attributes of its HBase tables.

    Raises TablesMissing, StoreUnreachable, StoreFailed, UsageError.
    """
    place = backend(url)
    with closing(place.open("read")) as store:
        stored = read_profile(store)
        ttl = None if store.keeps_hints or (found := store.ttl()) == "unknown" else found
        live = place.live_tables()
        estimated = sizes(store) if live else {}
    kinds = stored.counts, stored.salt is not None
    return DescribedTables(url, stored.profile, dict(stored.software), live, ttl, estimated, *kinds)


def drop(url: str) -> DroppedTables:
    """Delete a store with all its data, or the remains of an interrupted creation, without confirmation.

    In HBase, a namespace created by `create` is removed with its last table. Raises TablesMissing, StoreBusy,
    StoreUnreachable, StoreFailed, UsageError.
    """
    place = backend(url)
    names = tuple(place.droppable())
    place.drop()
    return DroppedTables(url, names)


def listed(url: str) -> tuple[tuple[str, ...], int | None]:
    """What `drop` would delete, and the estimated number of documents (None for a store that
    is incomplete or damaged).

    Raises the errors of `drop`.
    """
    place = backend(url)
    names = tuple(place.droppable())
    try:
        with closing(place.open("read")) as store:
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
    place = backend(url)
    wanted = place.table_options(regions=regions, documents=documents, compression=compression, ttl=ttl)
    chosen = make_profile(given_parameters(profile))
    script = place.creation_script(wanted, lambda: chosen.index_scheme, counts=counts)
    return Ddl(script, tuple(_drawer_warnings(documents, chosen)))


def open_like(
    url: str,
    profile: Profile,
    like: StoredProfile,
    documents: Callable[[], int],
    ttl: int | None,
    scope: str | None = None,
) -> Index:
    """Open a store for writing that holds fingerprints of another store; missing tables are created, and
    count refused claims and have the scopes of the other one if that does. documents: the expected number,
    for the regions in HBase. ttl: seconds after which documents expire in new tables. scope: opens it within
    one.

    An existing store may have any profile. Raises the errors of `create`.
    """
    try:
        return open_index(url, scope=scope)
    except TablesMissing:
        place = backend(url)
        if place.has_administrator:
            wanted = place.table_options(documents=documents(), ttl=ttl)
            place.create_tables(wanted, lambda: profile.index_scheme, counts=like.counts)
        scoped = like.salt is not None or scope is not None
        store = place.create(counts=like.counts)
        try:
            created = write_profile(store, profile, like, ttl, counts=like.counts, scoped=scoped)
            index = StoreOfScopes(store, created) if scoped else Index(store, created)
            return index if scope is None else index.within(scope)
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
        if store.keeps_hints
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


def _drawer_warnings(documents: int | None, profile: Profile) -> list[str]:
    """Warnings if the profile's drawers miss texts that its threshold asks for, or the expected documents
    overfill them."""
    scheme = profile.index_scheme
    found = [scheme.missing()]
    if documents is not None and isinstance(scheme, SimHashScheme):  # bands of minhash are hashes of 32 bits
        found.append(oversized_drawers(documents, scheme.layout, DRAWER_LIMIT))
    return [warning for warning in found if warning is not None]


def _stored_or_given(place: Backend, given: Mapping[str, object]) -> Profile:
    try:
        with closing(place.open("read")) as store:
            return read_profile(store).profile
    except TablesMissing:
        return make_profile(given)
