"""Runs the command line in a process that is killed while it sends requests to HBase.

    python -m tests.killed NUMBER SHARE COMMAND...

kills it as kill -9 does when this share of its request of this number is sent: 0.0 before it, 1.0 before
its answer. Number 0 kills nothing, and says on stderr how many requests there are.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence

from simhbase.cli import main
from simhbase.stores.hbase.connection import Connection
from simhbase.stores.hbase.requests import Request

SETTLING = 0.05  # seconds until what was sent has arrived


class Fuse:
    def __init__(self, number: int, share: float) -> None:
        self._number = number
        self._share = share
        self._send = Connection.send
        self.sent = 0

    def send(self, connection: Connection, requests: Sequence[Request], deadline: float) -> None:
        self.sent += 1
        if self.sent == self._number:
            message = b"".join(request.message for request in requests)
            part = Request(message[: round(len(message) * self._share)], Request)
            self._send(connection, [part], deadline)
            time.sleep(SETTLING)
            os.kill(os.getpid(), signal.SIGKILL)
        self._send(connection, requests, deadline)


if __name__ == "__main__":
    fuse = Fuse(int(sys.argv[1]), float(sys.argv[2]))
    # A method is replaced, which mypy never allows.
    Connection.send = lambda *arguments: fuse.send(*arguments)  # type: ignore[method-assign]
    sys.argv[1:3] = []
    try:
        main()
    finally:
        if fuse.sent:
            print(fuse.sent, file=sys.stderr)
