"""Everybody at once on the same documents while everything fails; see tests/adversary.py."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from simhbase.index.stored_profile import write_profile
from simhbase.profile import Profile
from simhbase.stores import create_store, open_store
from tests.adversary import oppose, oppose_server, shown
from tests.cluster import Cluster
from tests.postgresql import PostgreSQL
from tests.redis import Redis
from tests.services import Server, started

# For an hour of it: SIMHBASE_ADVERSARY=3600 pytest --full --hbase-cluster tests/integration/test_adversary.py
# --postgresql and --redis take a tenth of it.
SECONDS = float(os.environ.get("SIMHBASE_ADVERSARY", "600"))


def empty_index(cluster: Cluster, prefix: str) -> None:
    with closing(open_store(cluster.empty_store(prefix), "write")) as store:
        write_profile(store, Profile(verify=False))


@pytest.mark.hbase
def test_everybody_at_once_loses_nothing_and_accepts_nobody_twice(
    hbase: Cluster, tmp_path: Path, record_property
):
    empty_index(hbase, "adversary")
    record_property("adversary", shown(oppose(hbase, "adversary", tmp_path, 15, seed=1, crowd=500)))


@pytest.mark.full
@pytest.mark.hbase_cluster
@pytest.mark.parametrize("seed", range(2, 4))
def test_everybody_at_once_while_servers_are_killed(
    hbase_cluster: Cluster, tmp_path: Path, record_property, seed: int
):
    empty_index(hbase_cluster, f"adversary{seed}")
    outcome = oppose(hbase_cluster, f"adversary{seed}", tmp_path, SECONDS / 2, seed, crowd=50_000, calm=2)
    record_property(f"adversary {seed}", shown(outcome))


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(PostgreSQL, marks=pytest.mark.postgresql),
        pytest.param(Redis, marks=pytest.mark.redis),
    ],
)
def test_everybody_at_once_while_a_server_is_killed(kind: type[Server], tmp_path: Path, record_property):
    with started(kind) as server:
        with closing(create_store(server.store("adversary"))) as store:
            write_profile(store, Profile(verify=False, layout="4x1"))
        outcome = oppose_server(server, "adversary", tmp_path, SECONDS / 10, seed=3, crowd=500)
    record_property(f"adversary {server.service}", shown(outcome))
