"""What has happened to a store since it was opened, in numbers."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

NAMES = (
    "operations",
    "slow_operations",
    "retries",
    "abandoned_calls",
    "resting_gateways",
    "truncated_drawers",
)


class Counters:
    """Numbers by name; see NAMES. For many threads."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._numbers = dict.fromkeys(NAMES, 0)

    def count(self, name: str, by: int = 1) -> None:
        """Adds to a number."""
        if self._process != os.getpid():  # a fork may have left the lock locked
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            self._numbers[name] += by

    def numbers(self) -> Mapping[str, int]:
        """What they are now."""
        return dict(self._numbers)
