"""Counters of a store."""

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
    """Counts by name; see NAMES. Thread-safe."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._numbers = dict.fromkeys(NAMES, 0)

    def count(self, name: str, by: int = 1) -> None:
        if self._process != os.getpid():  # a fork may have copied a locked lock
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            self._numbers[name] += by

    def numbers(self) -> Mapping[str, int]:
        return dict(self._numbers)
