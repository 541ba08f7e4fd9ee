"""Lets everybody work on a store while its faults happen, then judges."""

import random
import shlex
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simhbase.index import open_index
from simhbase.index.stored_profile import write_profile
from simhbase.profile.profile import Profile
from simhbase.stores import create_store, open_store
from simhbase.stores.hbase.tools import VARIABLE
from tests.adversary import postgresql, redis, rocksdb
from tests.adversary.crew import Crew
from tests.adversary.faults import FAULTS_AT_ONCE, Faults
from tests.adversary.hbase import ClusterFaults
from tests.adversary.judging import Outcome, judged
from tests.adversary.workers import WORK, Work, load_hfiles
from tests.cluster import Cluster
from tests.history import sharing
from tests.pgbouncer import pooling
from tests.relay import LOCALHOST, Relay

DOCUMENTS = 120
GROUPS = 60  # of three fingerprints that are near each other
VICTIMS = 10
SESSIONS = 4  # of a pooler, for all workers
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Contest:
    """How long everybody works, the seed of all choices, documents with equal fingerprints, and seconds
    between two faults of a thread. folder: for what workers note; only: names of faults, if not all may
    happen."""

    folder: Path
    seconds: float
    seed: int
    crowd: int = 500
    calm: float = 1
    only: Sequence[str] = ()

    def crew(self, url: str, **options: Any) -> Crew:
        chance = random.Random(self.seed)
        return Crew(sharing(url, DOCUMENTS, GROUPS), self.folder, chance, self.crowd, self.seconds, **options)

    def run(self, faults: Faults, work: Sequence[Work]) -> None:
        """Lets workers work while faults happen."""
        crew = faults.crew
        faults.only = self.only
        faults.victims = add_victims(crew, faults.url)
        try:
            for each in work:
                crew.start(each)
            crew.wait_until_all_work()
            end = time.monotonic() + self.seconds
            with ThreadPoolExecutor(FAULTS_AT_ONCE) as pool:
                drivers = [pool.submit(faults.happen, self.calm) for _ in range(FAULTS_AT_ONCE)]
                try:
                    while time.monotonic() < end and not any(each.done() for each in drivers):
                        crew.require_life()
                        time.sleep(1)
                finally:
                    faults.over.set()
            for driver in drivers:
                driver.result()
        finally:
            crew.end()
            faults.undo()


def add_victims(crew: Crew, url: str) -> dict[str, int]:
    """Documents that no worker changes, near others, and a mute list."""
    fingerprints = crew.what.fingerprints[:VICTIMS]
    ids = [f"{crew.what.documents[0]}/victim/{number}" for number in range(VICTIMS)]
    victims = dict(zip(ids, fingerprints, strict=True))
    with open_index(url) as index:
        crew.journal("victims").perform(index, dict(victims))
        index.mute(ids=["muted"], note="an id that no document has")
    return victims


def create(url: str, **parameters: object) -> None:
    with closing(create_store(url)) as store:
        write_profile(store, Profile(verify=False, **parameters))


def oppose_rocksdb(contest: Contest) -> Outcome:
    """Asserts that nothing was lost, invented, or accepted twice, nor answered in spite of damage."""
    store = contest.folder / "store.db"
    url = f"rocksdb:{store}"
    create(url)
    command = (sys.executable, "-m", "tests.adversary.syncs", str(store))
    crew = contest.crew(url, command=command, embedded=store, variables={"PYTHONPATH": str(REPOSITORY)})
    faults = rocksdb.FolderFaults([], crew, crew.chance, url, store=store)
    contest.run(faults, rocksdb.WORK)
    return judged(crew.what, crew, faults)


def oppose_redis(contest: Contest) -> Outcome:
    with redis.pair() as (server, second, replication), Relay((LOCALHOST, server.port)) as relay:
        direct = redis.RedisFaults.url_at(server)
        create(direct, layout="4x1")
        crew = contest.crew(direct.replace(f":{server.port}", f":{relay.port}"))
        faults = redis.RedisFaults(
            *([relay], crew, crew.chance, direct), server=server, second=second, replication=replication
        )
        contest.run(faults, WORK)
        return judged(replace(crew.what, url=faults.url), crew, faults)


def oppose_postgresql(contest: Contest) -> Outcome:
    """Workers go by way of a PgBouncer that shares a few sessions among all, and among two schemas."""
    with (
        postgresql.pair() as (server, second, replication),
        Relay((LOCALHOST, server.port)) as relay,
        pooling(
            postgresql.Relayed(server.folder, relay), pool_mode="transaction", default_pool_size=SESSIONS
        ) as pooler,
    ):
        direct = postgresql.PostgresFaults.url_at(server)
        for name in (postgresql.NAME, postgresql.BESIDE):
            create(server.store(name))
        crew = contest.crew(pooler.store(postgresql.NAME, timeout=postgresql.TIMEOUT))
        faults = postgresql.PostgresFaults(
            *([relay], crew, crew.chance, direct), server=server, second=second, replication=replication
        )
        contest.run(faults, [*WORK, postgresql.change_beside, postgresql.change_beside])
        what = replace(crew.what, url=faults.url)
        outcome = judged(what, crew, faults, [postgresql.change_beside.__name__])
        postgresql.assert_apart(what, crew)
        return outcome


def oppose_hbase(contest: Contest, cluster: Cluster, prefix: str = "adversary") -> Outcome:
    direct = cluster.empty_store(prefix)
    with closing(open_store(direct, "write")) as store:
        write_profile(store, Profile(verify=False))
    relays = [
        Relay((host, int(port)))
        for host, port in (each.split(":") for each in cluster.description["gateways"])
    ]
    addresses = ",".join(f"{LOCALHOST}:{relay.port}" for relay in relays)
    crew = contest.crew(
        f"hbase://{addresses}/{direct.rpartition('/')[2]}",
        variables={VARIABLE: shlex.join(cluster.command("run"))},
    )
    faults = ClusterFaults(relays, crew, crew.chance, direct, cluster=cluster)
    contest.run(faults, [*WORK, load_hfiles])
    time.sleep(3)  # until gateways have done what they were asked before
    for relay in relays:
        relay.refuse()
    return judged(replace(crew.what, url=direct), crew, faults)
