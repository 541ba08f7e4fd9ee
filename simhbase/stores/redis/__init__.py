"""A store in Redis or Valkey, written and read by any number of processes.

URL: redis://[USER@]HOST[:PORT][/DATABASE]?prefix=NAME&connections=8&timeout=60; rediss:// with TLS.

Every change of the tables is one script in the server, under a lock that the script checks: what a writer
reads before it writes stays true until it has written.
"""

from __future__ import annotations

from typing import NoReturn

from simhbase.errors import UsageError
from simhbase.stores.redis.salvage import open_damaged
from simhbase.stores.redis.store import RedisStore

__all__ = [
    "RedisStore",
    "copy_store",
    "create_store",
    "drop_store",
    "droppable",
    "open_damaged",
    "open_store",
]

open_store, create_store = RedisStore.opened, RedisStore.created
drop_store, droppable = RedisStore.dropped, RedisStore.droppable


def copy_store(url: str, folder: str) -> NoReturn:
    """Raises UsageError: Redis has programs for this."""
    raise UsageError(f"{url} cannot be copied to a folder: Redis makes snapshots of itself with BGSAVE")
