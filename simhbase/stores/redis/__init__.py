"""A store in Redis or Valkey, written and read by any number of processes.

URL: redis://[USER@]HOST[:PORT][/DATABASE]?prefix=NAME&connections=8&timeout=60; rediss:// with TLS.

Every change of the tables is one script in the server, under a lock that the script checks: what a writer
reads before it writes stays true until it has written.
"""

from __future__ import annotations

from contextlib import closing
from typing import NoReturn

from simhbase.errors import TablesMissing, UsageError
from simhbase.stores.base import Access
from simhbase.stores.redis.store import RedisStore
from simhbase.stores.redis.url import parse

__all__ = ["RedisStore", "copy_store", "create_store", "drop_store", "droppable", "open_store"]


def open_store(url: str, access: Access) -> RedisStore:
    """Open an existing store. Raises TablesMissing, StoreUnreachable, StoreFailed, UsageError."""
    store = RedisStore(parse(url), access)
    try:
        store.open()
    except BaseException:
        store.close()
        raise
    return store


def create_store(url: str, access: Access) -> RedisStore:
    """Open a store for writing, creating what is missing. Raises the errors of `open_store`."""
    with closing(RedisStore(parse(url), "write")) as store:
        store.create()
    return open_store(url, access)


def drop_store(url: str) -> None:
    """Delete all keys of a store. Raises the errors of `open_store`."""
    droppable(url)
    with closing(RedisStore(parse(url), "write")) as store:
        store.drop()


def droppable(url: str) -> list[str]:
    """The pattern of the keys that `drop_store` would delete. Raises its errors."""
    with closing(RedisStore(parse(url), "read")) as store:
        if there := store.existing_keys():
            return there
    raise TablesMissing(f"{url}: there are no tables to drop")


def copy_store(url: str, folder: str) -> NoReturn:
    """Raises UsageError: Redis has programs for this."""
    raise UsageError(f"{url} cannot be copied to a folder: Redis makes snapshots of itself with BGSAVE")
