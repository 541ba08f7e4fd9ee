"""`simhbase stats --hot`."""

from pathlib import Path

import numpy as np
import pytest

import simhbase
from simhbase import Profile
from tests.command_line import result, run


@pytest.fixture
def store(tmp_path: Path) -> tuple[str, str]:
    url = f"rocksdb:{tmp_path}/store.db"
    with simhbase.open(url, create=Profile(verify=False)) as index:
        values = np.array([5, 5, 5, 1 << 63, 1 << 63, 6], dtype=np.uint64)
        index.add_fingerprints(list("abcdef"), values)
    return "--store", url


def test_the_hottest_are_named_beside_the_counts(tmp_path, store):
    found = result("stats", "--hot", 2, *store, cwd=tmp_path)
    assert found["hot_fingerprints"] == [
        {"fingerprint": f"{5:016x}", "documents": 3},
        {"fingerprint": f"{1 << 63:016x}", "documents": 2},
    ]
    assert found["hot_drawers"][0] == {"flag": 5, "prefix": "0000000005", "rows": 3}
    assert found["index_rows"] > 0
    assert "hot_drawers" not in result("stats", *store, cwd=tmp_path)


def test_a_part_is_read_alone(tmp_path, store):
    found = result("stats", "--hot", 9, "--part", "2/2", *store, cwd=tmp_path)
    assert [each["documents"] for each in found["hot_fingerprints"]] == [2]
    done = run("stats", "--part", "1/2", *store, cwd=tmp_path)
    assert done.returncode == 2
    assert b"--part needs --hot" in done.stderr


def test_they_are_shown_as_tables(tmp_path, store):
    lines = run("stats", "--hot", 1, *store, cwd=tmp_path).stdout.decode().splitlines()
    place = lines.index("hot fingerprints")
    assert [line.split() for line in lines[place + 1 : place + 3]] == [
        ["fingerprint", "documents"],
        [f"{5:016x}", "3"],
    ]
