"""How much memory a store takes: its cache of blocks, and the filters of its largest files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rocksdict import Cache

from simhbase.errors import UsageError

CACHE_SHARE = 16  # of what this process may use: four processes that read take a quarter of it
LEAST_CACHE, MOST_CACHE = 16 << 20, 256 << 20
FILTER_SHARE = 8
FILTERS = 0.09  # of the bytes of the files that they belong to
ENTRY_BYTES = 4 << 10  # of a block; the cache counts its places by that
_CGROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Memory:
    """The memory of one open store. Blocks outlive a database: one that is opened again finds them.

    capacity: of the cache, in bytes; filters: bytes that filters may take.
    """

    blocks: Cache
    capacity: int
    filters: int

    def has_room_for_filters(self, folder: Path) -> bool:
        """Whether the filters of all files fit: they are in memory as long as the store is open."""
        return FILTERS * sum(file.stat().st_size for file in folder.glob("*.sst")) <= self.filters


def memory_for(options: str) -> Memory:
    """The memory for a store with these options of its URL, such as `cache=256m`. Raises UsageError."""
    usable = memory_limit()
    capacity = _given(options) or min(max(usable // CACHE_SHARE, LEAST_CACHE), MOST_CACHE)
    # The LRU cache, the default, took 1.5 times as long.
    blocks = Cache.new_hyper_clock_cache(capacity, ENTRY_BYTES)
    return Memory(blocks, capacity, usable // FILTER_SHARE)


def _given(options: str) -> int | None:
    """The bytes of the cache that a URL asks for. Raises UsageError."""
    if not options:
        return None
    found = re.fullmatch(r"cache=(\d+)([kmg]?)", options.lower())
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 1 << 20 <= size <= 1 << 40:
        raise UsageError(
            f"?{options}: an embedded store has one option, the size of its cache: ?cache=256m, 2g or bytes, "
            "from 1m on"
        )
    return size


def memory_limit() -> int:
    """Bytes that this process may use: of the machine, or of the container that it is in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_container_limits()])


def _container_limits() -> Iterator[int]:
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers in {"", "memory"}:
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            path = PurePosixPath(group.lstrip("/"))
            # In a container the path may be one that is only known outside: the root is always there.
            for each in (path, *path.parents):
                try:
                    yield int((_CGROUPS / controllers / each / name).read_text())
                except (OSError, ValueError):  # no such group, or "max"
                    continue
