"""What happens to a PostgreSQL with a synchronous standby."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from simhbase.index import open_index
from tests.adversary.crew import Crew
from tests.adversary.damage import META, damage_a_row, meta_row
from tests.adversary.judging import assert_crowd
from tests.adversary.servers import ServerFaults, emptied
from tests.adversary.workers import Task, change
from tests.history import History, Sharing
from tests.postgresql import PostgreSQL
from tests.relay import LOCALHOST, Relay
from tests.services import Server, started

NAME, BESIDE = "adversary", "beside"
TIMEOUT = 20  # seconds
WAITED = 3.0  # seconds: far longer than a commit takes
FAR = 0x3333_3333_3333_3333  # near nothing else
SECONDS = 60.0
LAYOUT = meta_row("layout", "Restore the store from a copy", "find", "claim", "delete")
ACCESS = f"host replication simhbase {LOCALHOST}/32 trust\n"
IN_STEP = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state <> 'async'"


class Synchronous(PostgreSQL):
    settings = (
        *PostgreSQL.settings,
        "synchronous_standby_names='*'",
        "synchronous_commit=remote_apply",
        "wal_retrieve_retry_interval=200ms",
    )


@dataclass(frozen=True)
class Relayed(PostgreSQL):
    """A server as others see it behind a relay."""

    relay: Relay

    @cached_property
    def url(self) -> str:
        return f"postgresql://simhbase@{LOCALHOST}:{self.relay.port}/postgres"


def change_beside(task: Task) -> None:
    """Changes other documents in another schema, by the same sessions of the pooler."""
    url = task.what.url.replace(f"schema={NAME}", f"schema={BESIDE}")
    documents = tuple(f"{BESIDE}/{each}" for each in task.what.documents)
    change(replace(task, what=replace(task.what, url=url, documents=documents)))


def assert_apart(what: Sharing, crew: Crew) -> None:
    """Neither of two schemas has documents of the other, and the second one has lost none."""
    with open_index(what.url) as index:
        foreign = [document for document in index if document.startswith(BESIDE)]
    assert not foreign, f"in the wrong schema: {len(foreign)}, the first {foreign[0]}"
    history = History.of([each for each in crew.journals if each.path.stem.endswith(change_beside.__name__)])
    with open_index(what.url.replace(f"schema={NAME}", f"schema={BESIDE}")) as index:
        assert_crowd(history, index)
        assert set(index) <= set(history.documents)


@dataclass
class PostgresFaults(ServerFaults):
    server: PostgreSQL = field(kw_only=True)
    second: PostgreSQL = field(kw_only=True)
    committing: ClassVar[str] = "COMMIT\0"

    @staticmethod
    def url_at(server: Server) -> str:
        return server.store(NAME, timeout=TIMEOUT)

    def damage_a_row(self) -> str:
        return damage_a_row(self, [*META, LAYOUT])

    def _repeat_while_away(self) -> None:
        """A commit that waits for the standby when the server is killed is there afterwards. Repeated, it has
        to wait again: nothing of it is acknowledged."""
        document = f"{self.crew.what.documents[0]}/away/{self.chance.getrandbits(32)}"
        threads = ThreadPoolExecutor(2)
        first = threads.submit(self._add, document)
        wait([first], WAITED)
        self.server.stop("immediate")
        self.server.start()
        wait([first], TIMEOUT)
        again = threads.submit(self._add, document)
        done, _ = wait([again], WAITED)
        threads.shutdown(wait=False)  # it waits until the server is gone
        assert not done or again.exception(), "acknowledged without the standby"

    def _add(self, document: str) -> None:
        with open_index(self.url) as index:
            index.add_fingerprints([document], [FAR])

    def _promote(self) -> None:
        self.second.sql("SELECT pg_promote()")

    def _follow(self) -> None:
        follow(self.server, self.second, self.replication)

    def undo(self) -> None:
        super().undo()
        wait_until_in_step(self.server)


def follow(primary: PostgreSQL, standby: PostgreSQL, replication: Relay) -> None:
    """Makes a server, which does not run, a standby; returns when it has what the primary has."""
    emptied(standby)
    program, *_ = (primary.folder / "data" / "postmaster.opts").read_text().split()
    owner = standby.folder.stat()
    subprocess.run(
        [
            *(
                str(Path(program).with_name("pg_basebackup")),
                "-R",
                "-c",
                "fast",
                "-D",
                str(standby.folder / "data"),
            ),
            *("-d", f"host={LOCALHOST} port={replication.port} user=simhbase"),
        ],
        check=True,
        cwd="/",
        user=owner.st_uid,
        group=owner.st_gid,
        extra_groups=[],
    )
    standby.start()
    wait_until_in_step(primary)


def wait_until_in_step(primary: PostgreSQL) -> None:
    end = time.monotonic() + SECONDS
    while primary.sql(IN_STEP) != [(1,)]:
        assert time.monotonic() < end, "the standby does not follow"
        time.sleep(0.05)


@contextmanager
def pair() -> Iterator[tuple[PostgreSQL, PostgreSQL, Relay]]:
    """A primary, its standby, and the relay between them."""
    with (
        started(Synchronous) as primary,
        started(Synchronous) as standby,
        Relay((LOCALHOST, primary.port)) as replication,
    ):
        with (primary.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(ACCESS)
        primary.sql("SELECT pg_reload_conf()")
        standby.stop()
        follow(primary, standby, replication)
        yield primary, standby, replication
