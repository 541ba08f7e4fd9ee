"""Stands between a client and a server, and lets happen to their connections what networks let happen."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

LOCALHOST = "127.0.0.1"
ANSWERED = 60.0  # seconds


@dataclass
class _Link:
    """A connection through the relay."""

    client: socket.socket
    server: socket.socket
    loses_answer: threading.Event = field(default_factory=threading.Event)
    is_answered: bool = True  # what was asked last

    def cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):  # it was cut already
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Relay:
    """Listens on a free port and passes everything on to a server."""

    def __init__(self, server: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._tls = tls
        self._listener = socket.create_server((LOCALHOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: list[_Link] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._lost: list[tuple[bytes, str]] = []
        self._before: list[tuple[bytes, Callable[[], object]]] = []
        self._kept: dict[bytes, bytes] = {}
        self.connections = 0
        self.turns = 0  # requests after an answer: how often a client has waited, at most
        self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_on()
        self.refuse()

    def cut(self) -> None:
        """Ends all connections."""
        for link in self._links:
            link.cut()
        self._links.clear()

    def refuse(self) -> None:
        """Is gone, with all connections."""
        # A thread in accept() keeps a closed listener alive.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut()

    def lead_to(self, server: tuple[str, int]) -> None:
        """Passes new connections on to another server."""
        self._server = server

    def come_back(self) -> None:
        """After `refuse`: listens on the same port again."""
        self._listener = socket.create_server((LOCALHOST, self.port))
        self._listen()

    def hang(self) -> None:
        """Takes everything, and passes nothing on."""
        self._flowing.clear()

    def go_on(self) -> None:
        """After `hang`."""
        self._flowing.set()

    def lose_answer_to(self, method: str) -> None:
        """Cuts the connection of the next request for a method when its answer comes."""
        self._lost.append((method.encode(), "answer"))

    def lose_request_for(self, method: str) -> None:
        """Cuts the connection of the next request for a method before the server has it."""
        self._lost.append((method.encode(), "request"))

    def before(self, method: str, action: Callable[[], object]) -> None:
        """Does something before it passes the next message on that asks for a method; the next but one
        where this was called twice, and so on."""
        self._before.append((method.encode(), action))

    def hang_before(self, method: str) -> threading.Event:
        """Hangs when the next message asks for a method, which sets the event."""
        hangs = threading.Event()

        def hang() -> None:
            self.hang()
            hangs.set()

        self.before(method, hang)
        return hangs

    def keep(self, method: str) -> None:
        """Keeps a copy of the next message that asks for a method."""
        self._kept[method.encode()] = b""

    def send_kept_again(self) -> None:
        """Sends what was kept, and forgets it with its answers."""
        for method, message in self._kept.items():
            assert message, f"nothing asked for {method.decode()}"
            with socket.create_connection(self._server) as server:
                server.settimeout(ANSWERED)
                server.sendall(message)
                server.recv(1 << 16)
        self._kept.clear()

    @property
    def has_lost_all(self) -> bool:
        return not self._lost

    def _listen(self) -> None:
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            self.connections += 1
            try:
                if self._tls is not None:
                    client = self._tls.wrap_socket(client, server_side=True)
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            self._links.append(link)
            threading.Thread(target=self._carry_requests, args=(link,), daemon=True).start()
            threading.Thread(target=self._carry_answers, args=(link,), daemon=True).start()

    def _carry_requests(self, link: _Link) -> None:
        try:
            while data := link.client.recv(1 << 16):
                self._flowing.wait()
                self._look_at(data)
                self.turns += link.is_answered
                link.is_answered = False
                for method, what in self._lost:
                    if method in data:
                        self._lost.remove((method, what))
                        if what == "request":
                            return
                        link.loses_answer.set()
                        break
                link.server.sendall(data)
        except OSError:
            pass  # cut from outside
        finally:
            link.cut()

    def _look_at(self, data: bytes) -> None:
        for method, message in self._kept.items():
            # What fills the buffer may be the beginning of more.
            if method in data and not message and len(data) < 1 << 16:
                self._kept[method] = data
        for number, (method, action) in enumerate(self._before):
            if method in data:
                del self._before[number]
                action()
                return

    def _carry_answers(self, link: _Link) -> None:
        try:
            while data := link.server.recv(1 << 16):
                self._flowing.wait()
                if link.loses_answer.is_set():
                    return
                link.is_answered = True
                link.client.sendall(data)
        except OSError:
            pass  # cut from outside
        finally:
            link.cut()
