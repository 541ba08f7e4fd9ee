"""What this process may use of the machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

WORKER_BYTES, OWN_BYTES = 256 << 20, 512 << 20  # of a process that extracts HTML, and of one that stores
_CGROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_threads() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_processes() -> int:
    """Number of worker processes for which there are cores, and memory beside this process; at least 1."""
    return max(min(usable_threads(), (memory_limit() - OWN_BYTES) // WORKER_BYTES), 1)


def share_of_memory(processes: int) -> int:
    """What each of some worker processes may take of the memory beside this process; at least what
    `usable_processes` counts for one."""
    return max((memory_limit() - OWN_BYTES) // processes, WORKER_BYTES)


def memory_limit() -> int:
    """Memory that this process may use, in bytes: of the machine or the container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    groups = list[str]()
    with suppress(OSError):  # not Linux
        groups = _OWN_GROUPS.read_text().splitlines()
    for line in groups:
        _, controllers, group = line.split(":", 2)
        if controllers in {"", "memory"}:
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            path = PurePosixPath(group.lstrip("/"))
            # Inside a container the path may be unknown; the root always exists.
            for each in (path, *path.parents):
                with suppress(OSError, ValueError):  # no such group, or "max"
                    limits.append(int((_CGROUPS / controllers / each / name).read_text()))
    return min(limits)
