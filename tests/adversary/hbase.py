"""What happens to an HBase of several processes."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

import happybase
from thriftpy2.thrift import TException

from simhbase.admin.snapshots import restore, snapshot
from tests.adversary.damage import damage_a_row
from tests.adversary.faults import Faults, Kind, Snapshot
from tests.cluster import Cluster

LATEST_COPY = 10.0  # seconds, far below the grace time
SNAPSHOTS = 4
UPS = 3  # tries to bring servers back
DONE = "all commands were carried out"
SESSION = 10.0  # seconds after which ZooKeeper takes a server for dead


@dataclass
class ClusterFaults(Faults):
    """Of an HBase."""

    cluster: Cluster = field(kw_only=True)
    _shell: Lock = field(default_factory=Lock)

    def undo(self) -> None:
        self.cluster.run("up")

    def _groups(self) -> list[list[Kind]]:
        """One server at most is away."""
        groups: list[list[Kind]] = [[self.repeat_a_call_late]]
        with_servers: list[Kind] = [self.hang]
        if len(self._processes("regionserver")) > 1:
            groups += [[self.move_regions], [self.split_a_region]]
            with_servers += [self.kill_a_server, self.hang_until_given_up]
        # A snapshot has what is damaged meanwhile.
        rows: list[Kind] = [self.damage_a_row]
        if len(self.snapshots) < SNAPSHOTS:
            rows.append(self.take_a_snapshot)
        return [*groups, rows, with_servers]

    def damage_a_row(self) -> str:
        return damage_a_row(self)

    def repeat_a_call_late(self) -> None:
        relay = self.chance.choice(self.relays)
        method = self.chance.choice(["mutateRowsTs", "checkAndPut", "mutateRows"])
        relay.keep(method)
        time.sleep(self.chance.uniform(1, LATEST_COPY))
        with suppress(AssertionError, OSError):  # nothing was asked for meanwhile
            relay.send_kept_again()

    def hang(self) -> None:
        """For less than the time after which ZooKeeper takes a server for dead."""
        with self._stopped(self._processes("thrift") + self._processes("regionserver")):
            time.sleep(self.chance.uniform(1, SESSION / 2))

    def hang_until_given_up(self) -> None:
        """A region server hangs until its regions are elsewhere. It ends without going on: on a local disk
        nothing would keep it from carrying out what it was asked before, also for the master."""
        with self._stopped(self._processes("regionserver")) as pid:
            time.sleep(self.chance.uniform(1.5, 3) * SESSION)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._bring_up()

    def kill_a_server(self) -> None:
        self._kill(self.chance.choice(self._processes("thrift-") + self._processes("regionserver")))
        time.sleep(self.chance.uniform(0, 5))
        self._bring_up()

    def _bring_up(self) -> None:
        """What has started may end again, as others are away."""
        for _ in range(UPS):
            with suppress(AssertionError):
                self.cluster.run("up")
                return
        self.cluster.run("up")

    def _kill(self, name: str) -> None:
        with suppress(AssertionError):  # it does not run
            self.cluster.run("kill", name)

    @contextmanager
    def _stopped(self, names: Sequence[str]) -> Iterator[int]:
        """A process of the cluster does nothing for the block."""
        pid = self.cluster.description["pids"][self.chance.choice(names)]
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGSTOP)
        try:
            yield pid
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def move_regions(self) -> None:
        self._change_a_region("move '{}'")

    def split_a_region(self) -> None:
        self._change_a_region("split '{}'")

    def _change_a_region(self, command: str) -> None:
        prefix = self.crew.what.url.rpartition("/")[2].partition("?")[0]
        with suppress(OSError, TException):  # the gateway may be gone
            with closing(happybase.Connection(*self.cluster.gateway, timeout=60_000)) as connection:
                names = [
                    region["name"].decode(errors="replace").rstrip(".").rpartition(".")[2]
                    for table in ("index", "documents", "meta")
                    for region in connection.table(f"{prefix}_{table}").regions()
                ]
            self._run_in_shell(command.format(self.chance.choice(names)))

    def take_a_snapshot(self) -> None:
        """And makes a store of it, which is judged at the end."""
        direct = self.cluster.url(self.crew.what.url.rpartition("/")[2].partition("?")[0])
        name = f"snapshot-{time.time_ns()}"
        url = self.cluster.url(name)
        begin = time.monotonic()
        if self._run_in_shell(snapshot(direct, name).script):
            end = time.monotonic()
            if self._run_in_shell(restore(url, name).script):
                self.snapshots.append(Snapshot(url, begin, end))

    def _run_in_shell(self, script: str | None) -> bool:
        """Whether that could be done: regions may be under way. An error would end the shell."""
        assert script is not None
        commands = script.strip().removesuffix("exit")
        with self._shell:
            said = self.cluster.shell(
                f"begin\n{commands}\nputs '{DONE}'\nrescue Object => e\nputs e\nend\nexit\n"
            )
        return DONE in said

    def _processes(self, kind: str) -> list[str]:
        return [name for name in self.cluster.description["pids"] if name.startswith(kind)]
