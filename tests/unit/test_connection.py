"""The head of an answer leaves with its body; who reads nothing is disconnected."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from socket import create_connection, create_server
from threading import Event, Thread
from time import sleep

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn import Config, Server

from simhbase.online.connection import SLOWEST, BoundedProtocol, JoinedWrites, client_of
from simhbase.online.settings import Limits
from simhbase.process.queue import Shares


class Recorded(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("localhost", 1)})
        self.written: list[bytes] = []
        self.closed = self.aborted = False
        self.unread = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unread


def after_a_turn(act: Callable[[JoinedWrites, Recorded], None]) -> Recorded:
    async def run() -> Recorded:
        transport = Recorded()
        act(JoinedWrites(transport, asyncio.get_running_loop(), 60), transport)
        await asyncio.sleep(0)
        return transport

    return asyncio.run(run())


def test_what_is_written_in_one_turn_leaves_together() -> None:
    def act(joined: JoinedWrites, transport: Recorded) -> None:
        joined.write(b"head ")
        joined.write(b"body")
        assert transport.written == []

    assert after_a_turn(act).written == [b"head body"]


def test_a_close_comes_after_what_was_written() -> None:
    def act(joined: JoinedWrites, transport: Recorded) -> None:
        joined.write(b"answer")
        joined.close()
        assert (transport.written, transport.closed) == ([b"answer"], True)

    assert after_a_turn(act).written == [b"answer"]


def test_nothing_is_written_to_a_client_that_has_gone() -> None:
    def act(joined: JoinedWrites, transport: Recorded) -> None:
        joined.write(b"answer")
        transport.close()

    assert after_a_turn(act).written == []


def test_everything_else_is_the_transports() -> None:
    def act(joined: JoinedWrites, transport: Recorded) -> None:
        assert joined.get_extra_info("peername") == ("localhost", 1)
        assert not joined.is_closing()

    after_a_turn(act)


def test_who_reads_too_slowly_is_disconnected() -> None:
    """A byte now and then was enough to hold an answer, and its connection, for days."""

    async def read(parts: Sequence[int]) -> bool:
        transport = Recorded()
        joined = JoinedWrites(transport, asyncio.get_running_loop(), 0.1)
        joined.write(b"x" * 1000)
        transport.unread = 1000
        await asyncio.sleep(0)
        for part in parts:
            transport.unread -= part
            await asyncio.sleep(0.15)
        joined.lost()
        return transport.aborted

    due = SLOWEST // 10 + 1
    assert asyncio.run(read([1, 1]))
    assert asyncio.run(read([due, 1, 1]))
    assert not asyncio.run(read([due]))
    assert not asyncio.run(read([1000]))  # no more was left


def test_one_address_does_not_take_all_connections() -> None:
    protocol = partial(BoundedProtocol, Limits(), Shares(4))
    config = Config(PlainTextResponse("here"), http=protocol, lifespan="off", log_config=None)  # type: ignore[arg-type]
    server = Server(config)
    with create_server(("127.0.0.1", 0)) as listening, ExitStack() as held:
        thread = Thread(target=server.run, args=([listening],))
        thread.start()

        def ask(source: str) -> bytes:
            connection = create_connection(listening.getsockname(), 10, (source, 0))
            held.enter_context(closing(connection))
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                return connection.recv(12)
            except ConnectionError:
                return b""

        try:
            answers = [ask(source) for source in ("127.0.0.1",) * 5 + ("127.0.0.2",) * 3]
        finally:
            server.should_exit = True
            thread.join()
    assert answers == [b"HTTP/1.1 200"] * 4 + [b""] + [b"HTTP/1.1 200"] * 2 + [b""]


def test_a_stop_does_not_wait_for_requests_that_wait_for_another_one() -> None:
    """30 connections with 14 lookups each, of which one was answered after the other, kept the process from
    ending: it was abandoned, and exited with 1."""
    begun, go_on = Event(), Event()
    number = 0

    async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal number
        number += 1
        begun.set()
        await asyncio.to_thread(go_on.wait, 10)
        await PlainTextResponse("here")(scope, receive, send)

    protocol = partial(BoundedProtocol, Limits(), Shares(4))
    server = Server(Config(slowly, http=protocol, lifespan="off", log_config=None))  # type: ignore[arg-type]
    with create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        with closing(create_connection(listening.getsockname(), 10)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
            try:
                assert begun.wait(10)
            finally:
                server.should_exit = True
            while listening.fileno() != -1:  # until it has begun to stop
                sleep(0.01)
            sleep(0.05)
            go_on.set()
            answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            thread.join()
    assert (answers.count(b"HTTP/1.1 200"), answers.count(b"connection: close"), number) == (1, 1, 1)


def test_a_client_of_ipv6_is_its_network() -> None:
    assert client_of("2001:db9::1") == client_of("2001:db9::ffff:2") != client_of("2001:db9:0:1::1")
    for own in ("192.0.2.1", "::ffff:8.8.8.8", "::1", "fe80::1", "fe80::1%eth0", "", "unix:"):
        assert client_of(own) == own


def test_a_connection_is_read_once_in_each_turn_of_the_loop() -> None:
    """32 parts were read of each that sent much, 8 MB, before others had their turn."""
    turns, parts = 0, list[int]()

    class Slow(BoundedProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
            super().connection_made(transport)
            self.count_turns()

        def count_turns(self) -> None:
            nonlocal turns
            turns += 1
            if not self.transport.is_closing():
                self.loop.call_soon(self.count_turns)

        def data_received(self, data: bytes) -> None:
            parts.append(turns)
            super().data_received(data)
            sleep(0.02)  # there is more to read then

    config = Config(
        PlainTextResponse("not read"),
        http=partial(Slow, Limits(), Shares(4)),  # type: ignore[arg-type]
        loop="uvloop",
        lifespan="off",
        log_config=None,
    )
    server = Server(config)
    with create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            with create_connection(listening.getsockname(), 10) as connection:
                connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n")
                connection.sendall(bytes(8_000_000))
                assert connection.recv(12) == b"HTTP/1.1 200"
        finally:
            server.should_exit = True
            thread.join()
    assert len(parts) > 5
    assert len({*parts}) == len(parts)
