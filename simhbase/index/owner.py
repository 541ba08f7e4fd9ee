"""Which process runs something, and whether it still does."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

_running: set[str] = set()  # tokens of the runs of this process


@dataclass(frozen=True)
class Owner:
    """A run of something by a process. token: of this run, as a process may run several one after the other.
    started: when the process did, as the system tells it."""

    host: str
    boot: str
    pid: int
    started: str
    token: str

    @classmethod
    def here(cls) -> Owner:
        """A new run of this process."""
        return cls(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()), secrets.token_hex(8))

    def run(self) -> None:
        """This process begins what it owns."""
        _running.add(self.token)

    def end(self) -> None:
        """This process has ended it."""
        _running.discard(self.token)

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this host."""
        return self.host == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether the run is known to have ended; false where only its own host could tell."""
        if not self.is_here:
            return False
        if (self.boot, self.started) != (_boot(), _started(self.pid)) or not _runs(self.pid):
            return True
        return self.pid == os.getpid() and self.token not in _running


def _boot() -> str:
    """Tells one start of this machine from another, where the system does."""
    return _read("/proc/sys/kernel/random/boot_id")


def _started(pid: int) -> str:
    """When a process started, which tells it from a later one of its number, where the system says so; empty
    for one that has ended, and whose parent has not heard of it yet."""
    state, *values = _read(f"/proc/{pid}/stat").rpartition(")")[2].split() or [""]
    return "" if state in ("Z", "X") else "".join(values[18:19])


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
