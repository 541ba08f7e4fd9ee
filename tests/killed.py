"""Runs the command line in a process that is killed while it sends requests to HBase.

    python -m tests.killed NUMBER SHARE COMMAND...

kills it as kill -9 does when this share of what it sends for this number of times is sent: 0.0 before it,
1.0 before its answer. Number 0 kills nothing, and says on stderr how many times something is sent.
"""

import os
import signal
import sys
import time

from simhbase.cli import main
from simhbase.index import load_log
from simhbase.stores.hbase.connection import GatewaySocket

SETTLING = 0.05  # seconds until what was sent has arrived
LEASE = 0.5  # seconds for which a load waits for a sign of life of one that was killed before it


class Fuse:
    def __init__(self, number: int, share: float) -> None:
        self._number = number
        self._share = share
        self._send = GatewaySocket.send
        self.sent = 0

    def send(self, socket: GatewaySocket) -> None:
        if not socket._unsent:
            return
        self.sent += 1
        if self.sent == self._number:
            message = b"".join(socket._unsent)
            socket._unsent[:] = [message[: round(len(message) * self._share)]]
            self._send(socket)
            time.sleep(SETTLING)
            os.kill(os.getpid(), signal.SIGKILL)
        self._send(socket)


if __name__ == "__main__":
    load_log.LEASE = LEASE
    fuse = Fuse(int(sys.argv[1]), float(sys.argv[2]))
    # A method is replaced, which mypy never allows.
    GatewaySocket.send = lambda socket: fuse.send(socket)  # type: ignore[method-assign]
    sys.argv[1:3] = []
    try:
        main()
    finally:
        if fuse.sent:
            print(fuse.sent, file=sys.stderr)
