"""Connections to several gateways, opened when they are needed and kept for the next call."""

from __future__ import annotations

import os
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from simhbase.errors import StoreFailed
from simhbase.stores.hbase.address import Address, Gateway
from simhbase.stores.hbase.connection import Broken, Connection, connect

SHORTEST_REST, LONGEST_REST = 0.5, 30.0  # seconds in which a gateway that failed is asked after the others


@dataclass
class _Standing:
    """How a gateway has done lately."""

    rest: float = 0.0
    until: float = 0.0

    def failed(self) -> None:
        self.rest = min(max(2 * self.rest, SHORTEST_REST), LONGEST_REST)
        self.until = time.monotonic() + self.rest

    def answered(self) -> None:
        self.rest = self.until = 0.0


@dataclass
class _State:
    """What belongs to one process: a child of it starts anew, with sockets and a lock of its own."""

    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: deque[Connection] = field(default_factory=deque)
    turn: int = field(default_factory=lambda: random.randrange(1 << 16))


class Pool:
    """Lends connections to gateways of one Thrift version, the most recently used first.

    New ones go to the gateways in turn, beginning anywhere, so that many processes use all evenly.
    """

    def __init__(
        self, url: str, gateways: tuple[Gateway, ...], tls: ssl.SSLContext | None, version: int
    ) -> None:
        self._url = url
        self._gateways = gateways
        self._tls = tls
        self._version = version
        self._standing = {gateway: _Standing() for gateway in gateways}
        self._state = _State()
        self._closed = False

    def take(self, most: int, deadline: float) -> list[Connection]:
        """From 1 to `most` connections that answer. Raises Broken where no gateway does, and
        StoreFailed where one is no gateway or the pool is closed."""
        if self._closed:
            raise StoreFailed(f"{self._url} was closed: open it again")
        state = self._of_this_process()
        taken: list[Connection] = []
        try:
            while len(taken) < most:
                idle = self._pop_usable(state)
                taken.append(idle if idle is not None else self._open(state, deadline))
        except Broken:
            if not taken:
                raise
        except BaseException:
            self.give_back(taken)
            raise
        return taken

    def give_back(self, connections: Iterable[Connection]) -> None:
        """Keeps connections that have no request without an answer."""
        state = self._of_this_process()
        with state.lock:
            state.idle.extend(connections)
            while state.idle and (self._closed or not state.idle[0].is_usable()):
                state.idle.popleft().close()

    def give_up(self, connections: Sequence[Connection]) -> None:
        """Closes connections that broke, with all that are idle to the same gateways: whatever happened
        to these gateways, others are asked first for a while."""
        failed = {connection.gateway for connection in connections}
        state = self._of_this_process()
        with state.lock:
            closing = [*connections, *(idle for idle in state.idle if idle.gateway in failed)]
            state.idle = deque(idle for idle in state.idle if idle.gateway not in failed)
        for connection in closing:
            connection.close()
        for gateway in failed:
            self._standing[gateway].failed()

    def require_life(self, gateway: Gateway, deadline: float) -> None:
        """Raises Broken where a gateway does not answer a question that needs no HBase."""
        self.give_back([connect(gateway, self._tls, deadline, self._version)])

    def close(self) -> None:
        """Closes what is idle now, and what is lent when it comes back."""
        self._closed = True
        self.give_back(())

    def _of_this_process(self) -> _State:
        if self._state.process != os.getpid():
            inherited, self._state = self._state, _State()
            for connection in inherited.idle:
                connection.close()
        return self._state

    def _pop_usable(self, state: _State) -> Connection | None:
        with state.lock:
            while state.idle:
                connection = state.idle.pop()
                if connection.is_usable():
                    return connection
                connection.close()
        return None

    def _open(self, state: _State, deadline: float) -> Connection:
        """A new connection to the first gateway that answers. Raises Broken with the problem of each."""
        with state.lock:
            state.turn += 1
            turn = state.turn % len(self._gateways)
        gateways = self._gateways[turn:] + self._gateways[:turn]
        now = time.monotonic()
        problems = []
        for gateway in sorted(gateways, key=lambda gateway: self._standing[gateway].until > now):
            try:
                connection = connect(gateway, self._tls, deadline, self._version)
            except Broken as error:
                self._standing[gateway].failed()
                problems.append(str(error))
            else:
                self._standing[gateway].answered()
                return connection
        raise Broken("; ".join(problems))


def thrift1_pool(address: Address) -> Pool:
    """Connections to the gateways that read and write."""
    return Pool(address.url, address.gateways, _tls(address), version=1)


def thrift2_pool(address: Address) -> Pool:
    """Connections to the gateways that create and drop tables."""
    return Pool(address.url, address.administration, _tls(address), version=2)


def _tls(address: Address) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    try:
        return ssl.create_default_context(cafile=address.certificates)
    except OSError as error:
        raise StoreFailed(
            f"ca={address.certificates} holds no certificates that can be read: {error}"
        ) from error
