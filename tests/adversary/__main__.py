"""Runs adversaries side by side, one process for each store: see the package."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.adversary.contest import (
    Contest,
    oppose_hbase,
    oppose_postgresql,
    oppose_redis,
    oppose_rocksdb,
)
from tests.adversary.judging import Outcome
from tests.adversary.strangers import Outcome as OutcomeOfStrangers
from tests.adversary.strangers import oppose_strangers
from tests.cluster import started


def oppose_cluster(contest: Contest) -> Outcome:
    with started(None, "--cluster") as cluster:
        return oppose_hbase(contest, cluster)


# Seconds between two faults of a thread: workers of RocksDB begin again after each.
CALM = {"rocksdb": 3.0, "redis": 1.0, "postgresql": 1.0, "hbase": 2.0, "strangers": 1.0}
STORES: dict[str, Callable[[Contest], Outcome | OutcomeOfStrangers]] = {
    "rocksdb": oppose_rocksdb,
    "redis": oppose_redis,
    "postgresql": oppose_postgresql,
    "hbase": oppose_cluster,
    "strangers": oppose_strangers,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"{', '.join(STORES)}; default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults happen (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (default 1)")
    parser.add_argument("--crowd", type=int, default=500, help="documents with equal fingerprints")
    parser.add_argument("--only", default="", help="faults that may happen, such as kill_a_worker,cut_power")
    given = parser.parse_args(arguments)
    stores = given.stores or list(STORES)
    if unknown := set(stores).difference(STORES):
        parser.error(f"no store {', '.join(sorted(unknown))}: there are {', '.join(STORES)}")
    if len(stores) == 1:
        with TemporaryDirectory(prefix="simhbase-adversary-") as folder:
            only = given.only.split(",") if given.only else ()
            contest = Contest(Path(folder), given.seconds, given.seed, given.crowd, CALM[stores[0]], only)
            print(json.dumps({stores[0]: vars(STORES[stores[0]](contest))}), flush=True)
        return 0
    options = [f"--{name}={getattr(given, name)}" for name in ("seconds", "seed", "crowd", "only")]
    running = [
        subprocess.Popen([sys.executable, "-m", "tests.adversary", store, *options]) for store in stores
    ]
    return max(each.wait() for each in running)


if __name__ == "__main__":
    sys.exit(main())
