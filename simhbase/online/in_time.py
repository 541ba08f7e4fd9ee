"""Answers of web servers that are read until a moment, and not for a while after each byte."""

from __future__ import annotations

import time
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from socket import socket
from typing import Any


class ResponseInTime(HTTPResponse):
    """An answer whose headers and body have to arrive within the timeout of its socket, from now on."""

    def __init__(self, sock: socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = BufferedReader(_Received(sock))


class _Received(RawIOBase):
    """What a socket receives. Sockets count their timeout anew for each read, so that headers of which a byte
    arrives now and then would be waited for without end."""

    def __init__(self, sock: socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb", buffering=0)
        timeout = sock.gettimeout()
        self._end = None if timeout is None else time.monotonic() + timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        if self._end is not None:
            left = self._end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._sock.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
