import os
import signal

import pytest
from hypothesis import settings

from tests.cluster import Cluster, Starting

# A shell starts what it runs in the background with Ctrl-C ignored, and children would inherit that from us.
signal.signal(signal.SIGINT, signal.default_int_handler)

if "CI" not in os.environ:  # there Hypothesis takes its own profile: no deadline, the same examples each run
    settings.register_profile("simhbase", deadline=None)
    settings.load_profile("simhbase")

# Marks of tests that run only if their option is given, in the order in which they run: HBase starts
# while the tests before them run.
MARKS = ("full", "hbase", "hbase_cluster")
MODES = {"hbase": "--standalone", "hbase_cluster": "--cluster"}
LEFT_OUT = pytest.StashKey[dict[str, int]]()
STARTED = pytest.StashKey[dict[str, Starting]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked full, which take long")
    for mark, mode in MODES.items():
        parser.addoption(
            option(mark),
            action="store_true",
            help=f"also run the tests marked {mark}, on an HBase that scripts/hbase starts for them with "
            f"{mode}; with {variable(mark)}=FOLDER on the one there, which goes on running if it is up",
        )


def option(mark: str) -> str:
    return f"--{mark.replace('_', '-')}"


def variable(mark: str) -> str:
    return f"SIMHBASE_{mark.upper()}"


def pytest_configure(config: pytest.Config) -> None:
    for mark, mode in MODES.items():
        line = f"{mark}: needs HBase as scripts/hbase starts it with {mode}; runs with {option(mark)} only"
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[LEFT_OUT] = {}
    for mark in MARKS:
        if not config.getoption(option(mark)):
            left_out = [item for item in items if item.get_closest_marker(mark)]
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)
            config.stash[LEFT_OUT][mark] = len(left_out)
    items.sort(key=lambda item: [item.get_closest_marker(mark) is not None for mark in reversed(MODES)])


def pytest_collection_finish(session: pytest.Session) -> None:
    needs_hbase = any(item.get_closest_marker("hbase") for item in session.items)
    if needs_hbase and not session.config.getoption("collectonly"):
        start(session.config, "hbase")


@pytest.hookimpl(trylast=True)
def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    return [
        f"{number} tests marked {mark} are left out; {option(mark)} runs them"
        for mark, number in config.stash.get(LEFT_OUT, {}).items()
        if number
    ]


def start(config: pytest.Config, mark: str) -> Starting:
    """The HBase for the tests with a mark: the first call starts it, the end of the session stops it."""
    started = config.stash.setdefault(STARTED, {})
    if mark not in started:
        started[mark] = Starting(os.environ.get(variable(mark)), MODES[mark])
        config.add_cleanup(started[mark].end)
    return started[mark]


@pytest.fixture(scope="session")
def hbase(pytestconfig: pytest.Config) -> Cluster:
    """One standalone HBase for all tests; where it does not start they fail."""
    return start(pytestconfig, "hbase").wait()


@pytest.fixture(scope="session")
def hbase_cluster(pytestconfig: pytest.Config) -> Cluster:
    """The same with every process of its own: 3 region servers, 2 gateways. A test that kills some of
    them brings them back with `hbase_cluster.run("up")`."""
    return start(pytestconfig, "hbase_cluster").wait()
