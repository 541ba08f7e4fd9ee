"""Memory of a store: its block cache, and the filters of its largest files."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rocksdict import Cache

from simhbase.errors import UsageError
from simhbase.process.machine import memory_limit

CACHE_SHARE = 16  # the cache takes 1/16 of memory, so four reading processes take a quarter
# With files in the system's cache, which processes share, a larger cache saves little: 256 MB took 15 % less
# processor time for batches among a million texts than 32 MB. From the disk it did 1.5 to 2 times as many.
LEAST_CACHE, MOST_CACHE = 16 << 20, 32 << 20
FILTER_SHARE = 8
FILTERS = 0.09  # size of filters relative to their files
ENTRY_BYTES = 4 << 10  # estimated size of a block, by which the cache sizes its table
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Memory:
    """Memory of an open store. The cache is kept when the database is reopened.

    capacity: of the cache, in bytes; filters: maximum size of filters, in bytes; holds_filters: False if they
    share the cache with blocks.
    """

    blocks: Cache
    capacity: int
    filters: int
    holds_filters: bool

    def has_room_for_filters(self, folder: Path) -> bool:
        """True if the filters of all files fit in memory, where they stay while the store is open."""
        size = 0
        for file in folder.glob("*.sst"):
            with suppress(FileNotFoundError):  # the writer deletes files at any time
                size += file.stat().st_size
        return FILTERS * size <= self.filters


def memory_for(url: str, *, holds_filters: bool = True) -> Memory:
    """The memory for the store at a URL, which may end with e.g. `?cache=256m`. Raises UsageError."""
    usable = memory_limit()
    _, _, options = url.partition("?")
    capacity = _given(options) if options else min(max(usable // CACHE_SHARE, LEAST_CACHE), MOST_CACHE)
    # The default LRU cache took 1.5 times as long.
    blocks = Cache.new_hyper_clock_cache(capacity, ENTRY_BYTES)
    return Memory(blocks, capacity, usable // FILTER_SHARE, holds_filters)


def _given(options: str) -> int:
    """The cache size in the options of a URL, in bytes. Raises UsageError."""
    found = re.fullmatch(r"cache=(\d+)([kmg]?)", options.lower())
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 1 << 20 <= size <= 1 << 40:
        raise UsageError(
            f"?{options}: the only option of an embedded store is its cache size, at least 1m: ?cache=256m, "
            "2g or a number of bytes"
        )
    return size
