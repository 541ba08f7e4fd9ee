"""What happens to a PostgreSQL or Redis with another server that must acknowledge what it is told."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar

from tests.adversary.damage import damage_a_row
from tests.adversary.faults import Faults, Kind
from tests.relay import LOCALHOST, Relay
from tests.services import Server


@dataclass
class ServerFaults(Faults):
    """server: that is written to; second: its replica; replication: leads from this to that; committing: what
    a request to commit has in it."""

    server: Server = field(kw_only=True)
    second: Server = field(kw_only=True)
    replication: Relay = field(kw_only=True)
    committing: ClassVar[str]

    def _groups(self) -> list[list[Kind]]:
        return [
            [self.lose_an_answer],
            [
                *(self.kill_the_server, self.hang, self.lose_the_second, self.fail_over, self.damage_a_row),
                *self._of_all_data(),
            ],
        ]

    def _of_all_data(self) -> list[Kind]:
        """What happens to everything that a server has."""
        return []

    @staticmethod
    def url_at(server: Server) -> str:
        """The store's URL at a server."""
        raise NotImplementedError

    def kill_the_server(self) -> None:
        self.server.stop("immediate")
        time.sleep(self.chance.uniform(0, 2))
        self.server.start()

    def hang(self) -> None:
        for relay in self.relays:
            relay.hang()
        time.sleep(self.chance.uniform(0, 2))
        for relay in self.relays:
            relay.go_on()

    def lose_an_answer(self) -> None:
        """Of a commit: what was done is not known."""
        for relay in self.relays:
            relay.lose_answer_to(self.committing)
        time.sleep(self.chance.uniform(0, 1))

    def damage_a_row(self) -> str:
        return damage_a_row(self)

    def lose_the_second(self) -> None:
        """It is away for a while: nothing is acknowledged meanwhile."""
        with self._second_away():
            time.sleep(self.chance.uniform(2, 8))

    @contextmanager
    def _second_away(self) -> Iterator[None]:
        self.replication.refuse()
        try:
            yield
        finally:
            self.replication.come_back()

    def fail_over(self) -> None:
        """The second server, which was away for a while, takes the place of the first, whose data are lost.
        All that was acknowledged is there."""
        with self._second_away():
            self._repeat_while_away()
            time.sleep(self.chance.uniform(2, 5))
            self.server.stop("immediate")
            self._promote()
            self.server, self.second = self.second, self.server
            self.url = self.url_at(self.server)
            for relay in (*self.relays, self.replication):
                relay.lead_to((LOCALHOST, self.server.port))
        for relay in self.relays:
            relay.cut()
        self._follow()

    def _repeat_while_away(self) -> None:
        """Requires that what failed without the second server fails again."""

    def _promote(self) -> None:
        """Has the second server take writes."""
        raise NotImplementedError

    def _follow(self) -> None:
        """Makes the second server a copy of the first."""
        raise NotImplementedError

    def undo(self) -> None:
        for relay in self.relays:
            relay.go_on()
        self.server.start()


def emptied(server: Server) -> None:
    """Removes what a server has stored; its port stays."""
    for each in server.folder.iterdir():
        if each.name != "port":
            with suppress(NotADirectoryError):
                shutil.rmtree(each)
                continue
            each.unlink()
