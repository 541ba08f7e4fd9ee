"""What happens to a Redis with a replica."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import ClassVar

from simhbase.admin.check import check
from simhbase.errors import RetryableError
from simhbase.index import Index, open_index
from tests.adversary.damage import CHECKED, bare, copy_beside, require_errors
from tests.adversary.faults import Kind, lasting
from tests.adversary.servers import ServerFaults, emptied
from tests.redis import Redis
from tests.relay import LOCALHOST, Relay
from tests.services import Server, started

NAME = "adversary"
TIMEOUT = 3  # seconds: a change waits for the replica for four fifths of it
OPTIONS = {"timeout": TIMEOUT, "replicas": 1}
ASIDE = 5  # number of the database that keeps what is gone
FAR = 0x3333_3333_3333_3333  # near nothing else
FILES = "appendonlydir"
# How errors name that all is gone: under an open index, while one is opened, and before.
MISSED = (
    "the tables that were opened are gone|have lost their profile while they were open"
    f"|there are no tables with the prefix {NAME}"
)
# How errors name a lost directory of documents, and a lost set of listings.
UNLISTED = (
    r"reading documents of \S+: "
    r"(\d+ rows were counted, and the directory has \d+|documents: \d+ rows of a set of \d+ are there)"
    rf"|{CHECKED}.*tables that have lost rows.*documents"
)
LEADS_NOWHERE = (
    r"reading \S+: the fingerprint [0-9a-f]{16} is in the index and lists no document"
    r"|writing \S+: fingerprints: \d+ rows of a set of \d+ are there"
    rf"|{CHECKED}.*tables that have lost rows.*fingerprints"
)
SECONDS = 60.0


@dataclass
class RedisFaults(ServerFaults):
    server: Redis = field(kw_only=True)
    second: Redis = field(kw_only=True)
    committing: ClassVar[str] = "change\r\n"
    _copied: str = ""
    _held: Index | None = None

    def _of_all_data(self) -> list[Kind]:
        return [self.lose_all_keys, self.restart_empty, self.lose_the_bitmap, self.lose_a_set]

    @staticmethod
    def url_at(server: Server) -> str:
        return server.store(NAME, **OPTIONS)

    def _promote(self) -> None:
        self.second.command("REPLICAOF", "NO", "ONE")

    def _follow(self) -> None:
        emptied(self.second)
        self.second.start()
        follow(self.second, self.replication)

    def undo(self) -> None:
        super().undo()
        follow(self.second, self.replication)

    def lose_all_keys(self) -> None:
        """They are in another database for a while, which looks as after FLUSHALL."""
        with self._all_missed():
            self.server.command("SWAPDB", 0, ASIDE)
            try:
                self._require_errors()
            finally:
                self.server.command("SWAPDB", 0, ASIDE)

    def restart_empty(self) -> None:
        """The server's files are elsewhere when it starts, for a while."""
        files = self.server.folder / FILES
        with self._all_missed(), TemporaryDirectory(dir=self.server.folder.parent) as aside:
            self.server.stop("immediate")
            moved = shutil.move(files, aside)
            self.server.start()
            try:
                self._require_errors()
            finally:
                self.server.stop("immediate")
                shutil.rmtree(files)
                shutil.move(moved, files.parent)
                self.server.start()
                # The replica has lost everything, too: until it follows again, it must not take over.
                wait_until_in_step(self.server, self.second)

    @contextmanager
    def _all_missed(self) -> Iterator[None]:
        self._copied = copy_beside(self)
        with self.damaged(MISSED), lasting(lambda: open_index(self.url)) as self._held:
            yield

    def _require_errors(self) -> None:
        victim = self.chance.choice(list(self.victims))
        held, newly = ("find", "documents", "claim", "delete"), ("open", "open to write", "check", "migrate")
        require_errors(self, MISSED, held, victim, self._copied, self._held)
        require_errors(self, MISSED, newly, victim, self._copied)
        time.sleep(self.chance.uniform(0, 3))

    def _repeat_while_away(self) -> None:
        """What failed, as the replica was away, fails again when it is repeated."""
        document, value = f"{self.crew.what.documents[0]}/away", FAR
        with open_index(self.url) as index:
            calls: Sequence[Callable[[], object]] = (
                lambda: index.claim_batch([document], bare(value)),
                lambda: index.add_batch([document], bare(value)),
                lambda: index.delete([document]),
                lambda: index.mute(ids=["muted"]),
            )
            for call in calls:
                for _ in range(2):
                    require_refusal(call)

    def lose_the_bitmap(self) -> None:
        """The server evicts the key that says which sets of documents there are; a repair makes it again."""
        victim = self.chance.choice(list(self.victims))
        self._evict(f"{NAME}:documents".encode(), UNLISTED, ("stored", "check", "migrate"), victim)

    def lose_a_set(self) -> None:
        """The server evicts listings; a repair makes them again by the documents."""
        victim = self.chance.choice(list(self.victims))
        listings = f"{NAME}:fingerprints:".encode() + self.victims[victim].to_bytes(8)[:2]
        self._evict(listings, LEADS_NOWHERE, ("find", "claim", "check"), victim)

    def _evict(self, key: bytes, named: str, operations: Sequence[str], victim: str) -> None:
        copied = copy_beside(self)
        with self.quiet(), self.damaged(named):
            self.server.command("DEL", key)
            try:
                require_errors(self, named, operations, victim, copied)
            finally:
                lasting(lambda: check(self.url, repair=True))
        report = lasting(lambda: check(self.url))
        assert report.clean, report


def follow(replica: Redis, replication: Relay) -> None:
    """Returns when the replica has what the primary has."""
    replica.command("REPLICAOF", LOCALHOST, replication.port)
    end = time.monotonic() + SECONDS
    while replica.command("INFO", "replication")["master_link_status"] != "up":
        assert time.monotonic() < end, "the replica does not follow"
        time.sleep(0.05)


def wait_until_in_step(primary: Redis, replica: Redis) -> None:
    """Returns when the replica has what a primary has that was started again."""
    end = time.monotonic() + SECONDS
    while True:
        of_primary, own = (each.command("INFO", "replication") for each in (primary, replica))
        is_same = of_primary["master_replid"] == own["master_replid"]
        if is_same and own["master_link_status"] == "up":
            return
        assert time.monotonic() < end, "the replica does not follow"
        time.sleep(0.05)


def require_refusal(call: Callable[[], object]) -> None:
    """A call fails, and may be repeated."""
    try:
        answer = call()
    except RetryableError:
        return
    raise AssertionError(f"acknowledged without the replica: {answer}")


class Replicated(Redis):
    # A replica that was away gets all data again at once.
    settings = (*Redis.settings, "repl-diskless-sync-delay=0")


@contextmanager
def pair() -> Iterator[tuple[Redis, Redis, Relay]]:
    """A primary, its replica, and the relay between them."""
    with (
        started(Replicated) as primary,
        started(Replicated) as replica,
        Relay((LOCALHOST, primary.port)) as replication,
    ):
        follow(replica, replication)
        yield primary, replica, replication
