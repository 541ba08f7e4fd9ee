import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cluster import Cluster

if "CI" not in os.environ:  # there Hypothesis takes its own profile: no deadline, the same examples each run
    settings.register_profile("simhbase", deadline=None)
    settings.load_profile("simhbase")

LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked full, which take long")
    parser.addoption(
        "--hbase",
        action="store_true",
        help="also run the tests marked hbase, on an HBase that scripts/hbase starts for them; with "
        "SIMHBASE_HBASE=FOLDER on the one in the folder, which goes on running if it is up",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hbase: needs HBase; runs with --hbase only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[LEFT_OUT] = {}
    for mark in ("full", "hbase"):
        if not config.getoption(f"--{mark}"):
            left_out = [item for item in items if item.get_closest_marker(mark)]
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)
            config.stash[LEFT_OUT][mark] = len(left_out)


@pytest.hookimpl(trylast=True)
def pytest_report_collectionfinish(config: pytest.Config) -> Iterator[str]:
    return [
        f"{number} tests marked {mark} are left out; --{mark} runs them"
        for mark, number in config.stash.get(LEFT_OUT, {}).items()
        if number
    ]


@pytest.fixture(scope="session")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One HBase for all tests; where it does not start they fail."""
    folder = os.environ.get("SIMHBASE_HBASE")
    cluster = Cluster(Path(folder) if folder else tmp_path_factory.mktemp("hbase"))
    was_up = cluster.is_up()
    cluster.run("up")
    yield cluster
    if not was_up:
        cluster.run("down")
