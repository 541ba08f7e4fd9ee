"""A running Redis for tests."""

from collections.abc import Sequence
from typing import Any, ClassVar

import redis

from tests.services import Server


class Redis(Server):
    service = "redis"
    space = "prefix"
    # What tests kill are clients and the server's process, not the machine.
    settings: ClassVar[Sequence[str]] = ("appendfsync=no", "enable-debug-command=yes")

    def command(self, *words: object) -> Any:
        """The answer to a command, as redis-py gives it."""
        with redis.Redis.from_url(self.url) as client:
            return client.execute_command(*words)
