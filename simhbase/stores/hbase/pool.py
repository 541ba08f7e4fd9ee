"""A pool of connections to several gateways."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simhbase.errors import StoreFailed
from simhbase.process.logs import logger
from simhbase.stores.attempts import Outage
from simhbase.stores.hbase.connection import OPENING_LIMIT, AllInUse, Connection, ConnectionLost, connect
from simhbase.stores.hbase.counters import Counters
from simhbase.stores.hbase.interface import Thrift1
from simhbase.stores.hbase.url import Address, Gateway
from simhbase.stores.hbase.wires import Security

# Seconds during which a failed gateway is only used if all others fail: longer each time, and the longer it
# took to fail.
SHORTEST_REST, LONGEST_REST = 0.5, 60.0
REST_A_SECOND = 6.0
# Seconds that a gateway has to answer after a failure.
PROBING_LIMIT = 2.0

log = logger(__name__)


@dataclass
class _Standing:
    """Recent failures of a gateway."""

    outage: Outage
    rest: float = 0.0
    until: float = 0.0

    def is_resting(self) -> bool:
        return time.monotonic() < self.until

    def failed(self, seconds: float) -> None:
        """seconds: how long it took to fail."""
        longer = max(2 * self.rest, REST_A_SECOND * seconds)
        self.rest = min(max(longer, SHORTEST_REST), LONGEST_REST)
        self.until = time.monotonic() + self.rest

    def answered(self) -> None:
        self.rest = self.until = 0.0
        self.outage.answered()


@dataclass
class _State:
    """State of one process: a forked child starts with a new one."""

    process: int = field(default_factory=os.getpid)
    changed: threading.Condition = field(default_factory=threading.Condition)
    idle: deque[Connection] = field(default_factory=deque)
    open: int = 0  # idle, lent, and being opened
    waiting: int = 0
    turn: int = field(default_factory=lambda: random.randrange(1 << 16))


class Pool:
    """Lends connections to gateways of one Thrift version, most recently used first; at most `most` to all
    threads of a process.

    New connections rotate through the gateways, starting at a random one, so that many processes use all of
    them evenly.
    """

    def __init__(
        self,
        url: str,
        gateways: tuple[Gateway, ...],
        service: Any,
        version: int,
        security: Security,
        most: int,
        counters: Counters,
    ) -> None:
        self._url = url
        self._gateways = gateways
        self._service = service
        self._version = version
        self._security = security
        self.most = most
        self._counters = counters
        self._standings = {gateway: _Standing(Outage(f"gateway {gateway}")) for gateway in gateways}
        self._probes = {gateway: threading.Lock() for gateway in gateways}
        self._state = _State()
        self._closed = False

    @property
    def has_choice(self) -> bool:
        """True if there are several gateways."""
        return len(self._gateways) > 1

    def take(self, most: int, deadline: float) -> list[Connection]:
        """Take 1 to `most` connections: waits for the first, and takes more if available.

        Raises ConnectionLost if no gateway answers or no connection is free in time, StoreFailed if no
        address is a gateway, or the pool is closed.
        """
        if self._closed:
            raise StoreFailed(f"{self._url} was closed: open it again")
        state = self._of_this_process()
        taken = [self._first(state, deadline)]
        try:
            while len(taken) < most and (another := self._another(state, deadline)) is not None:
                taken.append(another)
        except BaseException:
            self.give_back(taken)
            raise
        return taken

    def is_wanted(self) -> bool:
        """True if a thread waits for a connection."""
        return self._of_this_process().waiting > 0

    def gauges(self) -> Mapping[str, int]:
        """Maximum and lent connections, and waiting threads."""
        state = self._of_this_process()
        with state.changed:
            return {
                "connections_allowed": self.most,
                "connections_in_use": state.open - len(state.idle),
                "connections_waiting": state.waiting,
            }

    def give_back(self, connections: Iterable[Connection]) -> None:
        """Return connections without pending requests."""
        state = self._of_this_process()
        with state.changed:
            state.idle.extend(connections)
            while state.idle and (self._closed or not state.idle[0].is_usable()):
                self._drop(state, state.idle.popleft())
            state.changed.notify_all()

    def discard(self, connections: Iterable[Connection]) -> None:
        """Close connections with pending requests."""
        state = self._of_this_process()
        with state.changed:
            for connection in connections:
                self._drop(state, connection)
            state.changed.notify_all()

    def give_up(self, connections: Sequence[Connection], seconds: float, problem: Exception) -> None:
        """Close connections that failed after some seconds, and all idle ones to the same gateways; others
        are preferred for a while."""
        failed = {connection.gateway for connection in connections}
        state = self._of_this_process()
        with state.changed:
            suspect = [idle for idle in state.idle if idle.gateway in failed]
            state.idle = deque(idle for idle in state.idle if idle.gateway not in failed)
        self.discard([*connections, *suspect])
        for gateway in failed:
            self._rest(gateway, seconds, problem)

    def require_life(self, gateway: Gateway, seconds: float) -> None:
        """Raises ConnectionLost if a gateway does not answer a request that needs no HBase within some
        seconds. Only one thread asks at a time."""
        with self._probes[gateway]:
            if self._standings[gateway].is_resting():
                raise ConnectionLost(f"{gateway}: no answer in time")
            start = time.monotonic()
            try:
                connect(gateway, self._service, self._version, self._security, start + seconds).close()
            except ConnectionLost as problem:
                self._rest(gateway, time.monotonic() - start, problem)
                raise
            except StoreFailed as problem:
                # Such as a Kerberos ticket that has expired, which open connections outlive.
                log.warning("%s", problem)

    def close(self) -> None:
        """Close idle connections now, and lent ones when they are returned."""
        self._closed = True
        self.give_back(())

    def _of_this_process(self) -> _State:
        if self._state.process != os.getpid():
            inherited, self._state = self._state, _State()
            self._probes = {gateway: threading.Lock() for gateway in self._gateways}
            for connection in inherited.idle:
                connection.close()
        return self._state

    def _first(self, state: _State, deadline: float) -> Connection:
        with state.changed:
            state.waiting += 1
            try:
                while (idle := self._pop_usable(state)) is None and state.open >= self.most:
                    if not state.changed.wait(max(deadline - time.monotonic(), 0.0)):
                        raise AllInUse(f"all {self.most} connections are in use by other threads")
                if idle is not None:
                    return idle
                state.open += 1
            finally:
                state.waiting -= 1
        return self._opened(state, self._in_turn(state), deadline)

    def _another(self, state: _State, deadline: float) -> Connection | None:
        """A further connection, if one is free or a gateway is healthy."""
        with state.changed:
            if state.waiting:
                return None
            idle = self._pop_usable(state)
            if idle is not None or state.open >= self.most:
                return idle
            well = [gateway for gateway in self._in_turn(state) if not self._standings[gateway].is_resting()]
            if not well:
                return None
            state.open += 1
        try:
            return self._opened(state, well, deadline)
        except (ConnectionLost, StoreFailed):
            return None

    def _in_turn(self, state: _State) -> list[Gateway]:
        """The gateways in the order to try."""
        state.turn += 1
        turn = state.turn % len(self._gateways)
        gateways = self._gateways[turn:] + self._gateways[:turn]
        return sorted(gateways, key=lambda gateway: self._standings[gateway].is_resting())

    def _opened(self, state: _State, gateways: Sequence[Gateway], deadline: float) -> Connection:
        """A new connection, already counted, to the first gateway that answers. Raises ConnectionLost with
        the problem of each, and StoreFailed if none is a gateway."""
        try:
            return self._connected(gateways, deadline)
        except BaseException:
            with state.changed:
                state.open -= 1
                state.changed.notify_all()
            raise

    def _connected(self, gateways: Sequence[Gateway], deadline: float) -> Connection:
        problems: list[ConnectionLost | StoreFailed] = []
        for gateway in gateways:
            standing = self._standings[gateway]
            start = time.monotonic()
            alone = len(gateways) == 1
            limit = OPENING_LIMIT if alone or not standing.rest else PROBING_LIMIT
            try:
                connection = connect(
                    gateway, self._service, self._version, self._security, min(deadline, start + limit)
                )
            except (ConnectionLost, StoreFailed) as problem:
                self._rest(gateway, time.monotonic() - start, problem)
                problems.append(problem)
            else:
                standing.answered()
                return connection
        if len(problems) == 1:
            raise problems[0]
        kind = StoreFailed if all(isinstance(each, StoreFailed) for each in problems) else ConnectionLost
        raise kind("; ".join(map(str, problems)))

    def _rest(self, gateway: Gateway, seconds: float, problem: Exception) -> None:
        standing = self._standings[gateway]
        standing.failed(seconds)
        if self.has_choice:
            self._counters.count("resting_gateways")
            said = f"gateway {gateway} rests for {standing.rest:.1f} s: {problem}"
            standing.outage.failed(problem, said, gone=True)

    def _pop_usable(self, state: _State) -> Connection | None:
        while state.idle:
            connection = state.idle.pop()
            if connection.is_usable():
                return connection
            self._drop(state, connection)
        return None

    def _drop(self, state: _State, connection: Connection) -> None:
        connection.close()
        state.open -= 1


def thrift1_pool(address: Address, counters: Counters) -> Pool:
    """Connections for reads and writes."""
    most = address.connections - _of_gateways2(address)
    return Pool(address.url, address.gateways, Thrift1, 1, Security.of(address), most, counters)


def thrift2_pool(address: Address, service: Any, counters: Counters) -> Pool:
    """Connections for filtered scans and administration."""
    most = max(_of_gateways2(address), 1)
    return Pool(address.url, address.gateways2, service, 2, Security.of(address), most, counters)


def _of_gateways2(address: Address) -> int:
    """Number of connections to Thrift 2."""
    return address.connections // 2 if address.gateways2 else 0
