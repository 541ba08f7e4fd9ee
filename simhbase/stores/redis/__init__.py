"""A store in Redis or Valkey, written and read by any number of processes.

URL: redis://[USER@]HOST[:PORT][/DATABASE]?prefix=NAME&connections=8&timeout=60; rediss:// with TLS.

Every change of the tables is one script in the server, under a lock that the script checks: what a writer
reads before it writes stays true until it has written.
"""

from __future__ import annotations

from typing import NoReturn

from simhbase.errors import UsageError
from simhbase.stores.atomic import ServerBackend
from simhbase.stores.base import NoteDamage
from simhbase.stores.redis.salvage import open_damaged
from simhbase.stores.redis.store import RedisStore

__all__ = ["RedisBackend", "RedisStore"]


class RedisBackend(ServerBackend):
    kind = RedisStore

    def open_damaged(self, note: NoteDamage) -> RedisStore:
        return open_damaged(self.url, note)

    def copy(self, folder: str) -> NoReturn:
        raise UsageError(
            f"{self.url} cannot be copied to a folder: Redis makes snapshots of itself with BGSAVE"
        )
