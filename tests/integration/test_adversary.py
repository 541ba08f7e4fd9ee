"""Everybody at once on the same documents while everything fails; see tests/adversary."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adversary.contest import Contest, oppose_hbase, oppose_rocksdb
from tests.adversary.judging import Outcome
from tests.adversary.strangers import oppose_strangers
from tests.cluster import Cluster

# For an hour of it: SIMHBASE_ADVERSARY=3600 pytest --full --hbase-cluster --postgresql --redis
# tests/integration/test_adversary.py
SECONDS = float(os.environ.get("SIMHBASE_ADVERSARY", "600"))
STORES = ("rocksdb", "redis", "postgresql", "hbase")


def shown(outcome: Outcome) -> str:
    return json.dumps(vars(outcome))


def test_a_folder_loses_nothing_and_hides_no_damage(tmp_path: Path, record_property):
    """Kills, power cuts and damaged files beside readers lose no document, and answer no lookup wrongly."""
    record_property("adversary", shown(oppose_rocksdb(Contest(tmp_path, 5, seed=1))))


def test_strangers_neither_stop_a_service_nor_hide_what_is_honest(tmp_path: Path, record_property):
    """Honest clients are answered beside hostile ones, and honest documents kept beside hostile files."""
    record_property("adversary", json.dumps(vars(oppose_strangers(Contest(tmp_path, 6, seed=1)))))


@pytest.mark.hbase
def test_everybody_at_once_loses_nothing_and_accepts_nobody_twice(
    hbase: Cluster, tmp_path: Path, record_property
):
    """Late copies of calls, hangs and kills of workers neither lose nor hide a document."""
    contest = Contest(tmp_path, 15, seed=1, calm=0, only=("kill_a_worker", "repeat_a_call_late", "hang"))
    record_property("adversary", shown(oppose_hbase(contest, hbase)))


@pytest.mark.full
@pytest.mark.hbase_cluster
@pytest.mark.postgresql
@pytest.mark.redis
def test_all_stores_side_by_side_stand_every_fault(record_property):
    """Each store keeps what it acknowledged and names every damage, while all four run together."""
    command = [sys.executable, "-m", "tests.adversary", "--seconds", str(SECONDS), "--seed", "2"]
    done = subprocess.run([*command, *STORES], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        record_property("adversary", line)
