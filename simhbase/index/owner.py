"""Which process runs something, and whether it still does."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_running: set[str] = set()  # tokens of the runs of this process


@dataclass(frozen=True)
class Owner:
    """A run of something by a process.

    host, boot, namespace: where its number means that process: a name, which others may have, too; one start
    of a machine; a container. started: when the process did, as the system tells it. token: of this run, as
    a process may run several one after the other.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str
    token: str

    @classmethod
    def here(cls) -> Owner:
        """A new run of this process."""
        pid = os.getpid()
        return cls(
            socket.gethostname(), _boot(), _namespace(), pid, _started(pid) or "", secrets.token_hex(8)
        )

    def run(self) -> None:
        """This process begins what it owns."""
        _running.add(self.token)

    def end(self) -> None:
        """This process has ended it."""
        _running.discard(self.token)

    @property
    def is_here(self) -> bool:
        """Whether its process could be seen from this one."""
        return (self.host, self.boot, self.namespace) == (socket.gethostname(), _boot(), _namespace())

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process runs it."""
        return self.token in _running

    @property
    def is_gone(self) -> bool:
        """Whether the run is known to have ended; false where it cannot be seen."""
        if not self.is_here or self.is_of_this_process:
            return False
        if self.pid == os.getpid():
            return True
        started = _started(self.pid)
        return started is None or bool(started and self.started and started != self.started)


def _boot() -> str:
    """Tells one start of this machine from another and from other machines, where the system does."""
    return _read("/proc/sys/kernel/random/boot_id")


def _namespace() -> str:
    """Tells the processes of one container from those of another."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _started(pid: int) -> str | None:
    """When a process started, which tells it from a later one of its number; empty where nobody says so, None
    where there is none (or one that has ended, of which its parent has not heard)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    if not Path("/proc/self/stat").exists():
        return _listed(pid)
    state, *values = _read(f"/proc/{pid}/stat").rpartition(")")[2].split() or [""]
    return None if state in ("Z", "X") else "".join(values[18:19])


def _listed(pid: int) -> str:
    """The same where processes are no files, as on macOS."""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False)
    return done.stdout.decode("ascii", "replace").strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
