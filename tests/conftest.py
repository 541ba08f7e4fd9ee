from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.cluster import Cluster, started
from tests.kerberos import Realm
from tests.local_spark import FOR_FEW_ROWS, local_spark
from tests.postgresql import PostgreSQL
from tests.redis import Redis
from tests.services import started as started_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

# A shell starts what it runs in the background with Ctrl-C ignored, and children would inherit that from us.
signal.signal(signal.SIGINT, signal.default_int_handler)

EXAMPLES = {False: 30, True: 300}  # of a property that does not name another number; with --full

# Marks of tests that run only if their option is given.
SERVICES = ("postgresql", "redis")
MODES = {"hbase": "--standalone", "hbase_cluster": "--cluster", "kerberos": "--kerberos"}
MARKS = ("full", *MODES, *SERVICES, "spark", "browser", "operations")
PATIENCE = 120.0  # seconds
LONG = 7_200.0  # seconds that a test marked full may take
TOGETHER = (
    *MODES,
    *SERVICES,
    "spark",
    "browser",
)  # of which each has its own process, which starts what the tests run on
# PySpark leaves its connections to Java to the garbage collector, compares versions by distutils (3.5), and
# says so of pandas 3 (4).
OF_PYSPARK = (
    "unclosed <socket:ResourceWarning",
    "(The )?distutils:DeprecationWarning",
    "PySpark does not yet fully support pandas:FutureWarning",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked full, which take long")
    parser.addoption(
        "--examples",
        type=int,
        help=f"of each property without its own number: {EXAMPLES[False]}, or {EXAMPLES[True]} with --full",
    )
    parser.addoption(
        "--fuzz",
        type=float,
        default=10,
        metavar="SECONDS",
        help="how long to compare fingerprints of random texts with their definition",
    )
    parser.addoption("--fuzz-seed", type=int, help="repeat such a comparison")
    parser.addoption("--spark", action="store_true", help="also run the tests marked spark, which need Java")
    for mark in SERVICES:
        parser.addoption(
            option(mark),
            action="store_true",
            help=f"also run the tests marked {mark}, on a server that scripts/services starts for them; with "
            f"{variable(mark)}=FOLDER on the one there, which goes on running if it is up",
        )
    parser.addoption(
        "--browser", action="store_true", help="also run the tests marked browser, which need Chromium"
    )
    parser.addoption(
        "--operations",
        action="store_true",
        help="also run the tests marked operations, which need nginx, Prometheus and actionlint",
    )
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
    examples = config.getoption("--examples") or EXAMPLES[config.getoption("--full")]
    # In CI the same ones each run, which a failure shows how to repeat.
    chosen = settings.get_profile("ci" if "CI" in os.environ else "default")
    settings.register_profile("simhbase", chosen, deadline=None, max_examples=examples)
    settings.load_profile("simhbase")
    for mark, mode in MODES.items():
        line = f"{mark}: needs HBase as scripts/hbase starts it with {mode}; runs with {option(mark)} only"
        config.addinivalue_line("markers", line)
    for mark in SERVICES:
        config.addinivalue_line("markers", f"{mark}: needs its server; runs with {option(mark)} only")
    config.addinivalue_line("markers", "spark: needs Java 8, 11 or 17; runs with --spark only")
    config.addinivalue_line("markers", "browser: needs Chromium; runs with --browser only")
    operations = "operations: needs nginx, Prometheus, actionlint; runs with --operations only"
    config.addinivalue_line("markers", operations)


def pytest_itemcollected(item: pytest.Item) -> None:
    """One process runs all tests on one HBase, on Spark or in the browser, and starts it; where they need
    two of these, the process of the first."""
    if groups := [mark for mark in TOGETHER if item.get_closest_marker(mark)]:
        item.add_marker(pytest.mark.xdist_group(groups[0]))
    if item.get_closest_marker("full"):
        item.add_marker(pytest.mark.timeout(LONG))
    if item.get_closest_marker("spark"):
        for warning in OF_PYSPARK:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{warning}"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark in left_out(config):
        marked = [item for item in items if item.get_closest_marker(mark)]
        items[:] = [item for item in items if item not in marked]
        config.hook.pytest_deselected(items=marked)
    # Those that mostly wait for servers go first, and others beside them.
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in reversed(MODES)])


def left_out(config: pytest.Config) -> list[str]:
    """The marks of tests that do not run."""
    return [mark for mark in MARKS if not config.getoption(option(mark))]


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"tests marked {mark} are left out; {option(mark)} runs them" for mark in left_out(config)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have measured."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, value in report.user_properties:
                    terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(scope="session")
def hbase() -> Iterator[Cluster]:
    """One standalone HBase for all tests; where it does not start they fail."""
    with running("hbase") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def hbase_cluster() -> Iterator[Cluster]:
    """The same with every process of its own: 3 region servers, 2 gateways. A test that kills some of
    them brings them back with `hbase_cluster.run("up")`."""
    with running("hbase_cluster") as cluster:
        yield cluster


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Cluster:
    """The HBase of several servers for a test that is marked so, and the standalone one for others."""
    needs_several = request.node.get_closest_marker("hbase_cluster")
    cluster: Cluster = request.getfixturevalue("hbase_cluster" if needs_several else "hbase")
    return cluster


@pytest.fixture(scope="session")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """One standalone HBase that asks for Kerberos tickets; where it does not start tests fail."""
    with running("kerberos") as cluster:
        yield Realm(cluster, tmp_path_factory.mktemp("tickets"))


@pytest.fixture(scope="module")
def patient() -> Iterator[None]:
    """Opening a store waits longer: on a slow machine a gateway that has just started answers late."""
    from simhbase.stores.hbase import administration, client

    with pytest.MonkeyPatch.context() as patch:
        for module in (administration, client):
            patch.setattr(module, "OPENING_SECONDS", PATIENCE)
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """One PostgreSQL for all tests; where it does not start they fail."""
    with started_server(PostgreSQL, os.environ.get("SIMHBASE_POSTGRESQL")) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    """One Redis for all tests; where it does not start they fail."""
    with started_server(Redis, os.environ.get("SIMHBASE_REDIS")) as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark of two threads for all tests; where there is no Java it does not start, and they fail."""
    with local_spark(tmp_path_factory.mktemp("spark"), **FOR_FEW_ROWS) as session:
        yield session


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for the tests of a file; where there is none they fail. It is gone after them: as long as
    it is there its thread counts as one that runs an event loop, and nothing else can run one in it."""
    from tests.browser import chromium

    with chromium() as started:
        yield started


def running(mark: str) -> AbstractContextManager[Cluster]:
    """The HBase for the tests with a mark."""
    return started(os.environ.get(variable(mark)), MODES[mark])
