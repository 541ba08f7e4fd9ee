"""Stores in a PostgreSQL behind PgBouncer, which gives its sessions to one client after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pytest

import simhbase
from simhbase.errors import StoreFailed, StoreUnreachable
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store
from tests.pgbouncer import Pooler, pooling
from tests.postgresql import PostgreSQL

pytestmark = pytest.mark.postgresql
SCHEMAS = ("pooled_a", "pooled_b")
CLIENTS = 3  # of each schema; with two sessions for all
CLAIMS = 20  # of each client


@pytest.fixture(scope="module")
def by_transaction(postgresql: PostgreSQL) -> Iterator[Pooler]:
    with pooling(postgresql, pool_mode="transaction", default_pool_size=2) as pooler:
        yield pooler


@pytest.fixture(scope="module")
def by_session(postgresql: PostgreSQL) -> Iterator[Pooler]:
    with pooling(postgresql, pool_mode="session", default_pool_size=20) as pooler:
        yield pooler


@pytest.fixture
def single(postgresql: PostgreSQL) -> Iterator[Pooler]:
    """One with one session, which all its clients share."""
    with pooling(postgresql, pool_mode="transaction", default_pool_size=1) as pooler:
        yield pooler


@pytest.fixture(params=["by_transaction", "by_session"])
def pooler(request: pytest.FixtureRequest) -> Pooler:
    found: Pooler = request.getfixturevalue(request.param)
    return found


def make(pooler: Pooler, *names: str) -> list[str]:
    """The URLs of stores that were made by way of the pooler."""
    for name in names:
        pooler.postgresql.empty_store(name)
        simhbase.open(pooler.store(name), create=Profile(verify=False)).close()
    return [pooler.store(name, connections=2) for name in names]


def batch(values: Sequence[int]) -> FingerprintBatch:
    return FingerprintBatch.bare(np.array(values, dtype=np.uint64))


def add(index: Index, given: Sequence[tuple[str, int]]) -> None:
    index.add_fingerprints(
        [name for name, _ in given], np.array([value for _, value in given], dtype=np.uint64)
    )


def worked(url: str, client: int) -> list[str]:
    """Claims, looks up and deletes with an index of its own; returns the ids that are stored now. All clients
    of a store claim the same fingerprints, all stores have the same ones."""
    stored = list[str]()
    values = np.random.default_rng(1).integers(0, 1 << 64, CLAIMS, dtype=np.uint64).tolist()
    with open_index(url) as index:
        for number, value in enumerate(values):
            name = f"{url}/{client}/{number}"
            (claim,) = index.claim_batch([name], batch([value])).claims
            if claim.outcome == "accepted":
                stored.append(name)
            else:
                assert claim.match is not None
                assert claim.match.id.startswith(url)
            (found,) = index.find_fingerprints([value])
            assert [match.id.startswith(url) for match in found.matches] == [True]
        others = [f"{url}/{client}/gone"]
        add(index, [(others[0], values[0] ^ 0xFF)])
        index.delete(others)
    return stored


def documents(postgresql: PostgreSQL, schema: str) -> set[object]:
    return {name for (name,) in postgresql.sql(f"SELECT id FROM {schema}.stored")}


def test_each_store_has_what_was_acknowledged_to_its_clients(pooler: Pooler) -> None:
    """Several clients of two stores share the sessions; nothing comes into the other's schema."""
    urls = make(pooler, *SCHEMAS)
    with ThreadPoolExecutor(CLIENTS * len(urls)) as pool:
        jobs = {url: [pool.submit(worked, url, client) for client in range(CLIENTS)] for url in urls}
    for schema, (url, done) in zip(SCHEMAS, jobs.items(), strict=True):
        acknowledged = [name for job in done for name in job.result()]
        assert documents(pooler.postgresql, schema) == set(acknowledged)
        assert len(acknowledged) == len(set(acknowledged))
        assert simhbase.check(url).clean


def test_stores_are_made_filled_copied_and_dropped(pooler: Pooler) -> None:
    """Statements of all kinds: COPY, long drawers, pages of an iteration, VACUUM, other layouts, drops."""
    source, target = make(pooler, *SCHEMAS)
    values = np.arange(3_000, dtype=np.uint64) << np.uint64(3)
    ids = [f"news/{number}" for number in range(len(values))]
    with open_index(source) as index:
        index.add_fingerprints(ids, values)
        index.store.compact()
        assert index.fingerprints(ids[::100]) == values[::100].tolist()
    drop_store(target)
    simhbase.migrate(source, target, profile={"layout": "4x1"})
    with open_index(target) as index:
        assert index.profile.parameters()["layout"] == "4x1"
        (found,) = index.find_fingerprints([int(values[-1])])
        assert ids[-1] in {match.id for match in found.matches}
        assert index.store.records("documents").approximate_size().rows == len(ids)
    for url in (source, target):
        assert simhbase.check(url).clean
        drop_store(url)
    assert pooler.postgresql.sql("SELECT 1 FROM pg_namespace WHERE starts_with(nspname, 'pooled')") == []


def test_what_others_leave_in_a_session_is_not_taken(single: Pooler) -> None:
    """Another client has set a path of its own, short timeouts, and commits that are not waited for."""
    url, _ = make(single, *SCHEMAS)
    left = {
        "search_path": "pooled_b",
        "statement_timeout": "100ms",
        "synchronous_commit": "off",
        "default_transaction_isolation": "serializable",
    }
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        for name, value in left.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value], prepare=True)
    with open_index(url) as index:
        add(index, [("a", 1)])
        with index.store.exclusive():
            client = index.store._client  # type: ignore[attr-defined]
            asked = "SELECT current_setting('synchronous_commit'), pg_sleep(0.2)::text"
            assert client.rows("asking", asked)[0][0] == "on"
        assert index.fingerprints(["a"]) == [1]
    assert documents(single.postgresql, "pooled_a") == {"a"}


def test_nothing_is_left_in_a_session_for_others(single: Pooler) -> None:
    """Other clients of the pool find its settings as the role has them, and may write."""
    (url,) = make(single, "pooled_a")
    with open_index(url, access="read") as reader, open_index(url) as writer:
        add(writer, [("a", 1)])
        assert reader.fingerprints(["a"]) == [1]
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        kept = {"client_encoding", "application_name"}  # by PgBouncer, for each client
        left = connection.execute("SELECT name FROM pg_settings WHERE source = 'session'")
        assert {name for (name,) in left} <= kept
        assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []


def test_an_idle_client_keeps_no_session(single: Pooler, tmp_path: Path) -> None:
    """What is sent behind the end of a transaction would begin another one, which only the client's next
    statement ends; the pooler's other clients would wait for it."""
    (url,) = make(single, "pooled_a")
    with open_index(url, access="read") as reader, (tmp_path / "sent").open("w") as sent:
        client = reader.store._client  # type: ignore[attr-defined]
        client.call("asking", lambda connection: connection.pgconn.trace(sent.fileno()))
        client.run("asking", "SELECT pg_sleep(0.1)::text")
        assert client.consistent(lambda: client.rows("asking", "SELECT pg_sleep(0.1)::text, 1"))
        client.call("asking", lambda connection: connection.pgconn.untrace())
        messages = (tmp_path / "sent").read_text().splitlines()
        assert [line for line in messages if "\tSync" in line]
        assert not [line for line in messages if "\tFlush" in line]


def test_a_pool_that_gives_sessions_to_statements_is_refused(postgresql: PostgreSQL) -> None:
    """Claims need transactions; the message says which mode to set."""
    postgresql.empty_store("pooled_a")
    simhbase.open(postgresql.store("pooled_a"), create=Profile(verify=False)).close()
    with (
        pooling(postgresql, pool_mode="statement") as pooler,
        pytest.raises(StoreFailed, match=r"Use session pooling \(PgBouncer: pool_mode = session\)"),
    ):
        open_index(pooler.store("pooled_a"))


def test_a_full_pool_is_waited_for(postgresql: PostgreSQL) -> None:
    """query_wait_timeout is repeated until the time of the call is up, and passes when a session is free."""
    settings = {"pool_mode": "transaction", "default_pool_size": 1, "query_wait_timeout": 1}
    with pooling(postgresql, **settings) as pooler:
        (url,) = make(pooler, "pooled_a")
        with (
            open_index(f"{url}&timeout=2") as index,
            open_index(f"{url}&timeout=60") as patient,
            psycopg.connect(url.partition("?")[0], prepare_threshold=None) as other,
            ThreadPoolExecutor(1) as pool,
        ):
            other.execute("SELECT 1")  # its transaction has the only session
            adding = pool.submit(add, patient, [("a", 1)])
            with pytest.raises(StoreUnreachable, match="query_wait_timeout"):
                index.find_fingerprints([1])
            other.rollback()
            adding.result()
            assert index.fingerprints(["a"]) == [1]


def test_a_server_that_is_away_behind_the_pooler_is_waited_for(postgresql: PostgreSQL) -> None:
    """What PgBouncer says instead of the server passes, when the server is back."""
    with pooling(postgresql, pool_mode="transaction", server_login_retry=1, query_wait_timeout=1) as pooler:
        (url,) = make(pooler, "pooled_a")
        with open_index(f"{url}&timeout=60") as index, ThreadPoolExecutor(1) as pool:
            add(index, [("a", 1)])
            postgresql.stop("immediate")
            try:
                with pytest.raises(StoreUnreachable), open_index(f"{url}&timeout=2"):
                    pass
                looking = pool.submit(index.fingerprints, ["a"])
            finally:
                postgresql.start()
            assert looking.result() == [1]


def test_too_many_clients_of_the_pooler_are_waited_for(postgresql: PostgreSQL) -> None:
    """PgBouncer refuses clients above max_client_conn: that passes."""
    with pooling(postgresql, pool_mode="transaction", max_client_conn=2) as pooler:
        (url,) = make(pooler, "pooled_a")
        with (
            psycopg.connect(url.partition("?")[0]),
            psycopg.connect(url.partition("?")[0]),
            pytest.raises(StoreUnreachable, match="no more connections allowed"),
        ):
            open_index(f"{url}&timeout=1")
