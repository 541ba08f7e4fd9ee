"""Opens the index at a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import get_args

from simhbase.errors import TablesMissing, UsageError
from simhbase.index.index import Index
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.metrics import Metrics
from simhbase.model.values import LARGEST_LIMIT
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.stores import backend
from simhbase.stores.base import Access


def open_index(
    url: str,
    create: Profile | Mapping[str, object] | str | None = None,
    access: Access = "write",
    drawer_limit: int | None = DRAWER_LIMIT,
    ids_limit: int = IDS_LIMIT,
    metrics: Metrics | None = None,
    clock: Callable[[], int] | None = None,
    *,
    counts: bool = False,
    scope: str | None = None,
    scoped: bool = False,
) -> Index:
    """Open the index at a URL.

    create: create missing tables with this profile, these parameters, or the preset of this name ("default").
    Existing tables must have the same profile. access: "read" does not lock an embedded store against its
    writer; "append" is for adding many documents to one: its memory does not grow with the store, and lookups
    read more. drawer_limit, ids_limit: see Reader. metrics: receives measurements. clock: for tests, returns
    the time of writes and lookups in milliseconds since 1970; only of a store with one writing process.
    counts: with `create`: the store counts refused claims, as an existing one must: `StoredDocument.met`.
    scope: opens what a tenant has stored, and nothing else, in a store with scopes; without one, such a store
    can be administered only. A name of 1 to 64 bytes of UTF-8 without control characters. scoped: with
    `create`: the store has scopes, as an existing one must; so it does if a scope is given.

    Raises TablesMissing (nothing there and no `create`), ProfileMismatch, SchemaDiffers (it does not count,
    or has no scopes), StoreBusy (another process writes to this embedded store), StoreUnreachable,
    UsageError.
    """
    if access not in get_args(Access):
        raise UsageError(f"no access {access!r}: use one of {', '.join(get_args(Access))}")
    for name, limit in (("drawer_limit", drawer_limit), ("ids_limit", ids_limit)):
        if limit is not None and not (isinstance(limit, int) and 1 <= limit <= LARGEST_LIMIT):
            raise UsageError(
                f"must be a whole number from 1 to {LARGEST_LIMIT:,}, not {limit!r}", parameter=name
            )
    if isinstance(create, Mapping | str):
        create = make_profile(given_parameters(create))
    if create is not None and not isinstance(create, Profile):
        raise UsageError(f"create = {create!r} is not a Profile: use create='default' for the defaults")
    if create is not None:
        if access == "read":
            raise UsageError(
                "create cannot be combined with access='read', which does not write: leave one of them out"
            )
        create.require_fits_tables()
    for name, given in (("counts", counts), ("scoped", scoped)):
        if given and create is None:
            raise UsageError("is for new stores: give create, too", parameter=name)
    if scope is not None:
        from simhbase.index.scopes import require_scope

        require_scope(scope)
        scoped = create is not None
    if counts:
        require_counts(url, create)
    place = backend(url)
    store = place.open(access) if create is None else place.create(access, counts=counts)
    try:
        if clock is not None and store.multi_writer:
            raise UsageError(
                f"other processes may write to {url}, and go by the real time: leave it out",
                parameter="clock",
            )
        stored = (
            read_profile(store)
            if create is None
            else write_profile(store, create, counts=counts, scoped=scoped)
        )
        kind = Index
        if stored.salt is not None:
            from simhbase.index.scoped import StoreOfScopes

            kind = StoreOfScopes
        index = kind(store, stored, access, drawer_limit, ids_limit, clock, metrics)
        return index if scope is None else index.within(scope)
    except BaseException:
        store.close()
        raise


def require_counts(url: str, profile: Profile | None) -> None:
    """Raises SchemaDiffers if there is a store that does not count refused claims, before a table is created
    in it. profile: that it must have, None for any."""
    with suppress(TablesMissing), closing(backend(url).open("read")) as store:
        stored = read_profile(store)
        stored.require(store, profile or stored.profile, counts=True)
