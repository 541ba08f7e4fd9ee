"""Stores in a real PostgreSQL: what SQL users see, many processes, and a server that fails."""

import multiprocessing
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import combinations
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import psycopg
import pytest

import simhbase
from simhbase.errors import StoreBusy, StoreFailed, StoreUnreachable, TablesMissing, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.model.values import Claim
from simhbase.profile.profile import Profile
from simhbase.stores import create_store, drop_store, open_store
from simhbase.stores.postgresql.client import Client
from simhbase.stores.postgresql.failures import translated
from simhbase.stores.postgresql.url import parse
from tests.claimed import clusters
from tests.command_line import documents, run, texts
from tests.postgresql import PostgreSQL
from tests.relay import LOCALHOST, Relay
from tests.services import started

pytestmark = pytest.mark.postgresql
K = 3
FAR = 0xFF << 40


@pytest.fixture
def url(postgresql: PostgreSQL) -> str:
    """A store with a profile, and nothing in it."""
    url = postgresql.empty_store("integration")
    simhbase.open(url, create=Profile(verify=False)).close()
    return url


def add(index: Index, given: Sequence[tuple[str, int]]) -> None:
    values = np.array([value for _, value in given], dtype=np.uint64)
    index.add_fingerprints([name for name, _ in given], values)


def test_many_near_fingerprints_are_not_put_on_disk_again_and_again(url: str) -> None:
    near = [sum(1 << bit for bit in bits) for bits in combinations(range(64), K)]
    with open_index(url) as index:
        for start in range(0, len(near), 10_000):
            add(index, [(f"{value:x}", value) for value in near[start : start + 10_000]])
        begun = monotonic()
        (lookup,) = index.find_fingerprints([0])
        seconds = monotonic() - begun
    assert len(lookup.matches) == len(near)
    assert seconds < 20  # a minute with a hash that the server had planned for three of them


# SQL


def as_signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


@pytest.mark.parametrize("layout", ["5x2", "4x4", "2x1p1"])
def test_the_function_of_neighbours_answers_as_brute_force(postgresql: PostgreSQL, layout: str) -> None:
    url = postgresql.empty_store("neighbours")
    given = [
        *clusters(60, 5),
        ("ones", (1 << 64) - 1),
        ("zero", 0),
        ("höchst", 1 << 63),
        ("same", 1 << 63),
    ]
    with simhbase.open(url, create=Profile(verify=False, layout=layout)) as index:
        add(index, given)
    with psycopg.connect(postgresql.url, autocommit=True) as connection:
        for k in range(K + 1):
            for _, value in given[::9] + given[-4:]:
                question = "SELECT id, found, distance FROM neighbours.near(%s, %s)"
                found = connection.execute(question, (as_signed(value), k)).fetchall()
                expected = {
                    (name, as_signed(other), (other ^ value).bit_count())
                    for name, other in given
                    if (other ^ value).bit_count() <= k
                }
                assert set(found) == expected
                assert len(found) == len(expected)
    with pytest.raises(psycopg.errors.RaiseException, match="k must be 0 to 3"):
        postgresql.sql("SELECT * FROM neighbours.near(1, 4)")


def test_fingerprints_are_seen_beside_a_users_own_columns(postgresql: PostgreSQL, url: str) -> None:
    with open_index(url) as index:
        add(index, [("a", 5), ("b", (1 << 64) - 2)])
    found = postgresql.sql(
        "SELECT title, integration.fingerprint(id) "
        "FROM (VALUES ('a', 'A'), ('c', 'C')) AS articles(id, title)"
    )
    assert found == [("A", 5), ("C", None)]
    joined = postgresql.sql(
        "SELECT title, stored.fingerprint, stored.written > now() - interval '1 hour' "
        "FROM (VALUES ('b', 'B')) AS articles(id, title) JOIN integration.stored USING (id)"
    )
    assert joined == [("B", -2, True)]


def test_ids_that_text_cannot_hold_are_shown_all_the_same(postgresql: PostgreSQL, url: str) -> None:
    with open_index(url) as index:
        add(index, [("höchst", 4), ("a\0ü", 5)])
    seen = postgresql.sql("SELECT id FROM integration.stored ORDER BY fingerprint")
    assert seen == [("höchst",), (r"a\000\303\274",)]
    near = "SELECT id FROM integration.near(4, 1)"
    assert postgresql.sql(near) == [("höchst",), (r"a\000\303\274",)]


def test_functions_mean_the_same_whatever_the_path_of_a_caller(postgresql: PostgreSQL, url: str) -> None:
    """Another function may have the name of one of the system's, and come first."""
    with open_index(url) as index:
        add(index, [("a", 5)])
    made = "FUNCTION mine.{}(bytea, int) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$"
    postgresql.sql("CREATE SCHEMA mine")
    try:
        postgresql.sql(f"CREATE {made.format('substr')}")
        with psycopg.connect(postgresql.url, autocommit=True) as connection:
            connection.execute("SET search_path = mine, pg_catalog")
            asked = "SELECT integration.fingerprint('a'), id FROM integration.near(4, 1)"
            assert connection.execute(asked).fetchall() == [(5, "a")]
    finally:
        postgresql.sql("DROP SCHEMA mine CASCADE")


# What others have made


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("TABLE {}.documents (id int, body text)", "{}.documents"),
        ("TABLE {}.index (page int)", "{}.index"),
        ("VIEW {}.stored AS SELECT 1 AS one", "{}.stored"),
        ("FUNCTION {}.fingerprint(text) RETURNS int LANGUAGE sql AS 'SELECT 1'", "{}.fingerprint(text)"),
    ],
)
def test_what_others_have_made_is_neither_dropped_nor_built_on(
    postgresql: PostgreSQL, made: str, named: str
) -> None:
    url = postgresql.empty_store("others")
    postgresql.sql("CREATE SCHEMA others")
    postgresql.sql(f"CREATE {made.format('others')}")
    try:
        with pytest.raises(TablesMissing, match="no tables to drop"):
            drop_store(url)
        with pytest.raises(StoreFailed, match=re.escape(f"there is already {named.format('others')}, which")):
            create_store(url)
        postgresql.sql(f"DROP {made.split()[0]} {named.format('others')}")  # it is there
    finally:
        postgresql.sql("DROP SCHEMA others CASCADE")


@pytest.fixture
def strange(postgresql: PostgreSQL) -> Iterator[str]:
    """A store of a role that may do less than the one of the tests, which notes who executes its function."""
    url = postgresql.empty_store("strange")
    simhbase.open(url, create=Profile(verify=False)).close()
    with open_index(url) as index:
        add(index, [("a", 5)])
    tables = [
        name for (name,) in postgresql.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'strange'")
    ]
    for each in (
        "CREATE ROLE stranger",
        "CREATE TABLE strange.ran (who text)",
        "GRANT ALL ON SCHEMA strange TO stranger",
        "ALTER SCHEMA strange OWNER TO stranger",
        *(f"ALTER TABLE strange.{name} OWNER TO stranger" for name in [*tables, "ran"]),
        "CREATE FUNCTION strange.same(bytea) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN $1",
        "CREATE FUNCTION strange.run(bytea) RETURNS bytea LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO strange.ran VALUES (current_user); RETURN $1; END $$",
        "CREATE FUNCTION strange.fire() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO strange.ran VALUES (current_user); RETURN new; END $$",
    ):
        postgresql.sql(each)
    try:
        yield url
    finally:
        postgresql.sql("DROP SCHEMA strange CASCADE")
        postgresql.sql("DROP ROLE stranger")


BESIDE = [
    ("CREATE TRIGGER t BEFORE INSERT ON strange.{} FOR EACH ROW EXECUTE FUNCTION strange.fire()", "triggers"),
    (
        "CREATE RULE r AS ON INSERT TO strange.{} DO ALSO INSERT INTO strange.ran VALUES (current_user)",
        "rules",
    ),
    ("CREATE TABLE strange.child () INHERITS (strange.{})", "tables that inherit"),
]
IN_COLUMNS = [
    ("ALTER TABLE strange.documents ADD CHECK (strange.run(key) = key)", "constraints"),
    ("CREATE INDEX ON strange.documents (strange.same(key))", "constraints, defaults, types or indexes"),
    ("ALTER TABLE strange.documents ALTER value SET DEFAULT strange.run('')", "constraints, defaults"),
]


@pytest.mark.parametrize(
    ("made", "named", "table"),
    [
        *((made, named, table) for made, named in BESIDE for table in ("documents", "meta", "index")),
        *((made, named, "documents") for made, named in IN_COLUMNS),
    ],
)
def test_code_of_another_role_beside_its_tables_is_not_executed(
    postgresql: PostgreSQL, strange: str, made: str, named: str, table: str
) -> None:
    """It had the rights of who loaded, of the server's administrator, too."""
    postgresql.sql(made.format(table))
    postgresql.sql("TRUNCATE strange.ran")
    refused = pytest.raises(StoreFailed, match=f"strange.{table} of stranger has {named}")
    for access in ("read", "write"):
        with refused:
            open_store(strange, access)  # type: ignore[arg-type]
    with refused:
        create_store(strange)
    assert postgresql.sql("SELECT who FROM strange.ran") == []


@pytest.mark.parametrize("table", ["documents", "meta"])
def test_a_view_of_another_role_in_place_of_a_table_is_not_read(
    postgresql: PostgreSQL, strange: str, table: str
) -> None:
    """Its functions had the rights of who looked something up: they could start programs on the server."""
    postgresql.sql(f"ALTER TABLE strange.{table} RENAME TO kept")
    postgresql.sql(
        f"CREATE VIEW strange.{table} AS SELECT key, value, version FROM strange.kept "
        "WHERE strange.run(key) = key"
    )
    postgresql.sql(f"ALTER VIEW strange.{table} OWNER TO stranger")
    with pytest.raises(StoreFailed, match=f"strange.{table} of stranger is no table"):
        open_store(strange, "read")
    assert postgresql.sql("SELECT who FROM strange.ran") == []


def test_tables_of_another_role_with_an_access_method_of_the_server_are_used(
    postgresql: PostgreSQL, strange: str
) -> None:
    """Such as one that encrypts: it was taken for code of their owner, and only superusers make some."""
    postgresql.sql("CREATE ACCESS METHOD encrypted TYPE TABLE HANDLER heap_tableam_handler")
    postgresql.sql("ALTER TABLE strange.documents SET ACCESS METHOD encrypted")
    try:
        with open_index(strange) as index:
            assert [match.id for match in index.find_fingerprints([5])[0].matches] == ["a"]
    finally:
        postgresql.sql("ALTER TABLE strange.documents SET ACCESS METHOD heap")
        postgresql.sql("DROP ACCESS METHOD encrypted")


def test_tables_of_another_role_and_what_this_one_has_put_beside_its_own_are_used(
    postgresql: PostgreSQL, strange: str, url: str
) -> None:
    with open_index(strange) as index:
        add(index, [("b", 6)])
        assert [match.id for match in index.find_fingerprints([5])[0].matches] == ["a", "b"]
    postgresql.sql(
        "CREATE TRIGGER t AFTER INSERT ON integration.documents FOR EACH ROW EXECUTE FUNCTION strange.fire()"
    )
    with open_index(url) as index:
        add(index, [("b", 6)])
    assert postgresql.sql("SELECT who FROM strange.ran") == [("simhbase",)]


def test_functions_of_others_with_other_parameters_stay(postgresql: PostgreSQL) -> None:
    url = postgresql.empty_store("others")
    postgresql.sql("CREATE SCHEMA others")
    postgresql.sql("CREATE FUNCTION others.near(int, int) RETURNS int LANGUAGE sql AS 'SELECT 7'")
    try:
        simhbase.open(url, create=Profile(verify=False)).close()
        drop_store(url)
        assert postgresql.sql("SELECT others.near(1, 2)") == [(7,)]
    finally:
        postgresql.sql("DROP SCHEMA others CASCADE")


def test_a_view_on_the_tables_is_named_where_they_cannot_be_dropped(postgresql: PostgreSQL, url: str) -> None:
    postgresql.sql("CREATE VIEW public.mine AS SELECT id FROM integration.stored")
    try:
        with pytest.raises(StoreFailed, match=r"view public\.mine depends on view"):
            drop_store(url)
    finally:
        postgresql.sql("DROP VIEW public.mine")


def test_a_database_that_cannot_show_all_ids_is_refused(postgresql: PostgreSQL) -> None:
    postgresql.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    try:
        with pytest.raises(StoreFailed, match="encoding is LATIN1"):
            create_store(f"{postgresql.url.rpartition('/')[0]}/latin?schema=latin")
    finally:
        postgresql.sql("DROP DATABASE latin")


# Settings of a role


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_under_the_lock_all_is_seen_that_others_have_committed(
    postgresql: PostgreSQL, url: str, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    """Also where transactions see nothing by default that was committed after they began."""
    level = isolation.replace(" ", r"\ ")
    monkeypatch.setenv("PGOPTIONS", f"-c default_transaction_isolation={level}")
    values = FingerprintBatch.bare(np.array([4], dtype=np.uint64))
    with open_index(url) as one, open_index(url) as other, ThreadPoolExecutor(1) as pool:
        with one.store.exclusive():
            claiming = pool.submit(other.claim_batch, ["late"], values)
            wait_for_a_lock(postgresql)
            add(one, [("early", 5)])
        (claim,) = claiming.result().claims
        assert (claim.outcome, claim.match.id) == ("duplicate", "early")
        add(one, [("moves", FAR)])
        with one.store.exclusive():
            deleting = pool.submit(other.delete, ["moves"])
            wait_for_a_lock(postgresql)
            add(one, [("stays", FAR)])
        deleting.result()
        (lookup,) = one.find_fingerprints([FAR])
        assert [match.id for match in lookup.matches] == ["stays"]


def wait_for_a_lock(postgresql: PostgreSQL) -> None:
    while not postgresql.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
        sleep(0.01)


def test_what_a_role_sets_for_its_statements_is_not_taken(
    postgresql: PostgreSQL, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["statement_timeout=200", "standard_conforming_strings=off", "search_path=none"]
    if postgresql.sql("SELECT current_setting('transaction_timeout', true)") != [(None,)]:
        settings.append("transaction_timeout=200")
    monkeypatch.setenv("PGOPTIONS", " ".join(f"-c {setting}" for setting in settings))
    other = postgresql.empty_store("others")
    simhbase.open(other, create=Profile(verify=False)).close()
    with open_index(url) as one, open_index(url) as other_one, ThreadPoolExecutor(1) as pool:
        with one.store.exclusive():
            adding = pool.submit(add, other_one, [("a", 1)])
            wait_for_a_lock(postgresql)
            sleep(0.5)
        adding.result()


# Answers that are waited for


def test_lookups_and_claims_wait_for_few_answers(postgresql: PostgreSQL, url: str) -> None:
    with (
        Relay((LOCALHOST, postgresql.port)) as relay,
        open_index(postgresql.through(relay, "integration", connections=1)) as index,
    ):

        def waited_for(work: Callable[[], object]) -> int:
            before = relay.turns
            work()
            index.documents(["a"])  # once, when all before has passed the relay
            return relay.turns - before - 1

        def claim(document: str, value: int) -> Claim:
            values = FingerprintBatch.bare(np.array([value], dtype=np.uint64))
            (answer,) = index.claim_batch([document], values).claims
            return answer

        add(index, [("a", 1), ("b", 1 << 40)])
        index.find_fingerprints([1])  # the layout is read once
        index.find_fingerprints([1, 0xFFFF << 20])  # and each statement prepared
        claim("c", 1 << 50)
        # One statement, whether or not something is near.
        assert waited_for(lambda: index.find_fingerprints([1])) == 1
        assert waited_for(lambda: index.find_fingerprints([0xFFFF << 20])) == 1
        # What begins a snapshot goes with the drawers, then come the ids; then what ends it, not waited for.
        assert waited_for(lambda: index.find_fingerprints([1, 0xFFFF << 20])) == 3
        assert waited_for(lambda: index.find_fingerprints([0xFFFF << 20, 0xFFFF << 24])) == 2
        assert waited_for(lambda: index.documents(["a"])) == 1
        # The lock; the document; what is near; the document again; all changes with their end.
        assert waited_for(lambda: claim("d", 0x0F0F_0F0F << 30)) == 5
        assert waited_for(lambda: claim("e", 3)) == 4  # a duplicate: no change, but the end


def test_no_lookup_waits_for_the_end_of_its_snapshot(postgresql: PostgreSQL, url: str) -> None:
    """A lookup of several, which is a transaction."""
    with (
        Relay((LOCALHOST, postgresql.port)) as relay,
        open_index(postgresql.through(relay, "integration", connections=1)) as index,
        ThreadPoolExecutor(1) as pool,
    ):
        add(index, [("a", 1)])
        hangs = relay.hang_before("COMMIT\0")
        looking = pool.submit(index.find_fingerprints, [1, FAR])
        try:
            found, _ = looking.result(timeout=60)
            assert hangs.wait(timeout=60)  # what is not waited for is on its way
        finally:
            relay.go_on()
        assert [match.id for match in found.matches] == ["a"]
        add(index, [("b", 2)])  # by the same connection
        found, _ = index.find_fingerprints([1, FAR])
        assert [match.id for match in found.matches] == ["a", "b"]


# Failures


@pytest.mark.parametrize(
    ("values", "last"),
    [([1], ""), ([1, FAR], "BEGIN"), ([1, FAR], "COMMIT\0")],
    ids=["statement", "BEGIN", "COMMIT"],
)
def test_a_server_that_hangs_is_not_waited_for_without_end(
    postgresql: PostgreSQL, url: str, values: Sequence[int], last: str
) -> None:
    """A lookup of one is a single statement, which hangs at whatever it sends; one of several is a
    transaction."""
    through = {"connections": 1, "timeout": 1, "connect_timeout": 2}
    with (
        Relay((LOCALHOST, postgresql.port)) as relay,
        open_index(postgresql.through(relay, "integration", **through)) as index,
    ):
        add(index, [("a", 1)])
        index.find_fingerprints([1])  # its statement is prepared once
        hangs = relay.hang_before(last)
        with suppress(StoreUnreachable):  # a lookup does not wait for what ends its snapshot
            index.find_fingerprints(values)
        assert hangs.wait(timeout=60)
        with pytest.raises(StoreUnreachable):
            index.find_fingerprints(values)
        with pytest.raises(StoreUnreachable):
            add(index, [("b", 2)])
        relay.go_on()
        add(index, [("b", 2)])
        assert index.fingerprints(["a", "b"]) == [1, 2]


def test_a_statement_that_takes_long_is_waited_for(
    postgresql: PostgreSQL, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a server that executes it, and one that takes no further connection."""
    client = Client(parse(f"{url}&timeout=1"), "read")
    assert client.rows("waiting", "SELECT 1 FROM pg_sleep(2.5)") == [(1,)]
    client.close()
    monkeypatch.setenv("PGPASSWORD", "right")
    postgresql.sql("CREATE ROLE one LOGIN PASSWORD 'right' CONNECTION LIMIT 1")
    client = Client(parse(f"{url}&timeout=1".replace("simhbase@", "one@")), "read")
    assert client.rows("waiting", "SELECT 1 FROM pg_sleep(2.5)") == [(1,)]
    client.close()
    postgresql.sql("DROP ROLE one")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", "terminating connection"),
        ("SELECT set_config('transaction_timeout', '10', false), pg_sleep(10)", "transaction timeout"),
        ("DO $$ BEGIN RAISE 'late' USING ERRCODE = 'serialization_failure'; END $$", "late"),
        ("DO $$ BEGIN RAISE 'late' USING ERRCODE = 'connection_failure'; END $$", "late"),
    ],
)
def test_failures_that_pass_are_repeated_until_the_time_is_up(
    postgresql: PostgreSQL, url: str, statement: str, said: str
) -> None:
    """A session that the server ends, and a statement that failed for others' sake."""
    if "transaction_timeout" in statement:
        assert postgresql.sql("SHOW server_version_num") >= [("170000",)], "older than transaction_timeout"
    client = Client(parse(f"{url}&timeout=1"), "write")
    with closing(client):
        with pytest.raises(StoreUnreachable, match=said):
            client.run("trying", statement)
        assert client.retries > 0
        assert client.rows("asking", "SELECT 1") == [(1,)]


def test_a_connection_that_is_lost_between_statements_sent_together_passes(url: str) -> None:
    """psycopg has another error for it than where statements are sent one by one."""
    lost = list[bool]()

    def lose_first(connection: psycopg.Connection[Any]) -> object:
        with connection.pipeline():
            connection.execute("SELECT 1")
            if not lost:
                lost.append(True)
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as own:
                    own.shutdown(socket.SHUT_RDWR)
            return connection.execute("SELECT 2").fetchone()

    with open_index(url) as index:
        client = index.store._client  # type: ignore[attr-defined]
        assert client.call("asking", lose_first) == (2,)
        assert client.retries == 1
    said = "server closed the connection unexpectedly"  # as a result, which has no state
    translated_error = translated(psycopg.DatabaseError(said), "reading", parse(url), ())
    assert isinstance(translated_error, StoreUnreachable)


def test_what_an_administrator_cancels_is_not_repeated(url: str) -> None:
    """pg_cancel_backend has a purpose, and statement_timeout of a role would end each repetition, too."""
    client = Client(parse(url), "write")
    with closing(client), pytest.raises(StoreFailed, match="if statement_timeout ended it, raise that"):
        client.run("trying", "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(10)")
    assert client.retries == 0


def test_settings_that_lose_acknowledged_writes_are_named(
    postgresql: PostgreSQL, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's own answers: settings, a standby that is not waited for, an unlogged table."""
    postgresql.sql("ALTER TABLE integration.fingerprints SET UNLOGGED")
    monkeypatch.setenv("PGOPTIONS", "-c zero_damaged_pages=on")
    with psycopg.connect(
        postgresql.url, replication="database", application_name="second", autocommit=True
    ) as standby:
        ((position,),) = postgresql.sql("SELECT pg_current_wal_flush_lsn()::text")
        standby.pgconn.send_query(f"START_REPLICATION PHYSICAL {position}".encode())
        streaming = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
        while not postgresql.sql(streaming):
            sleep(0.01)
        warnings = simhbase.tables.check(url).warnings
        standby.close()
    expected = (
        "fsync is off",
        "full_page_writes is off",
        "zero_damaged_pages is on",
        "second follows later",
        "fingerprints: a crash",
    )
    assert [each.startswith(begin) for each, begin in zip(warnings, expected, strict=True)] == [True] * 5


def test_errors_have_the_exit_codes_of_other_stores(
    postgresql: PostgreSQL, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def code(store: str, *command: str) -> tuple[int, str]:
        done = run(*(command or ("find", "--id", "a")), "--store", store, cwd=tmp_path)
        return done.returncode, done.stderr.decode()

    nowhere, database = (
        re.sub(r":\d+/", ":1/", url),
        url.replace("/postgres?", "/other?"),
    )
    assert code(f"{nowhere}&timeout=1")[0] == 11
    assert code(database)[0] == 10
    assert code(postgresql.store("missing"))[0] == 10
    assert code(url, "tables", "create", "--set", "k=2")[0] == 12
    assert code(url.replace("simhbase@", "simhbase:secret@"))[0] == 2
    assert "secret" not in code(url.replace("simhbase@", "simhbase:secret@"))[1]
    assert code(f"{url}&connections=0")[0] == 2
    assert code(f"{url}&nonsense=1")[0] == 2
    assert code(url.replace("schema=integration", "schema=a-b"))[0] == 2
    postgresql.sql("DROP ROLE IF EXISTS other")
    postgresql.sql("CREATE ROLE other LOGIN PASSWORD 'right'")
    other = url.replace("simhbase@", "other@")
    monkeypatch.setenv("PGPASSWORD", "wrong")
    exit_code, said = code(other)
    assert (exit_code, "password authentication failed" in said) == (1, True)
    monkeypatch.setenv("PGPASSWORD", "right")
    exit_code, said = code(other)
    assert (exit_code, "permission denied" in said) == (1, True)
    postgresql.sql("GRANT USAGE ON SCHEMA integration TO other")
    postgresql.sql("GRANT SELECT ON ALL TABLES IN SCHEMA integration TO other")
    assert code(other)[0] == 3  # who may read can look up: there is no such id
    path = documents(tmp_path / "news.jsonl", texts(2))
    exit_code, said = code(other, "load", str(path))
    assert (exit_code, "permission denied" in said) == (1, True)
    # Rows that a policy hides were missing from answers, or were lost ones, which a repair removes.
    for table in ("index", "documents"):
        postgresql.sql(f"ALTER TABLE integration.{table} ENABLE ROW LEVEL SECURITY")
        exit_code, said = code(other, "list" if table == "documents" else "check")
        assert (exit_code, "row-level security" in said) == (1, True)
        postgresql.sql(f"ALTER TABLE integration.{table} DISABLE ROW LEVEL SECURITY")
    postgresql.sql("ALTER ROLE other CONNECTION LIMIT 0")
    assert code(f"{other}&timeout=1")[0] == 11
    postgresql.sql("ALTER ROLE other CONNECTION LIMIT -1")
    postgresql.sql("ALTER ROLE other SET default_transaction_read_only = on")
    exit_code, said = code(other, "load", str(path))
    assert (exit_code, "read-only" in said) == (1, True)
    postgresql.sql("DROP OWNED BY other")
    postgresql.sql("DROP ROLE other")


def test_a_long_transaction_that_blocks_is_waited_for_and_then_said(postgresql: PostgreSQL, url: str) -> None:
    with open_index(f"{url}&timeout=1") as index, psycopg.connect(postgresql.url) as blocking:
        blocking.execute("LOCK TABLE integration.documents IN EXCLUSIVE MODE")
        with pytest.raises(StoreBusy, match="held a lock for 1 s"):
            add(index, [("a", 1)])
        assert index.documents(["a"]) == [None]  # reads go on
        blocking.rollback()
        add(index, [("a", 1)])


def test_what_fails_within_exclusive_leaves_nothing(url: str) -> None:
    with closing(open_store(url, "write")) as store:
        with suppress(ZeroDivisionError), store.exclusive():
            store.records("documents").put([(b"a", b"1")], 1)
            _ = 1 / 0
        assert store.records("documents").get([b"a"]) == [None]


def test_a_server_that_becomes_read_only_answers_lookups(postgresql: PostgreSQL, url: str) -> None:
    with open_index(url) as index:
        add(index, [("a", 1)])
        try:
            postgresql.sql("ALTER SYSTEM SET default_transaction_read_only = on")
            postgresql.sql("SELECT pg_reload_conf()")
            while postgresql.sql("SHOW default_transaction_read_only") != [("on",)]:
                sleep(0.02)
            with pytest.raises(StoreFailed, match="read-only, such as a standby"):
                add(index, [("b", 1)])
            with pytest.raises(StoreFailed, match="read-only"):
                index.store.require_writable()
            assert index.fingerprints(["a", "b"]) == [1, None]
        finally:
            postgresql.sql("ALTER SYSTEM RESET default_transaction_read_only")
            postgresql.sql("SELECT pg_reload_conf()")
        while postgresql.sql("SHOW default_transaction_read_only") != [("off",)]:
            sleep(0.02)
        add(index, [("b", 1)])
        assert index.fingerprints(["a", "b"]) == [1, 1]


def test_a_full_disk_refuses_a_batch_and_leaves_the_others() -> None:
    """The server's files cannot grow, which is what a full disk is to it."""
    with started(PostgreSQL) as own:
        url = own.store("full")
        with simhbase.open(url, create=Profile(verify=False, layout="4x1")) as index:
            values = np.random.default_rng(1).integers(0, 1 << 64, 22_000, dtype=np.uint64)
            ids = [f"{number}/{'x' * 900}" for number in range(len(values))]
            index.add_fingerprints(ids[:20_000], values[:20_000])
            ((limit,),) = own.sql("SELECT pg_relation_size('full.documents')")
            assert isinstance(limit, int)
            assert limit > 16 << 20  # the size of the server's log files
            with own.largest_file(limit):
                with open_index(url) as other, pytest.raises(StoreFailed, match="could not extend"):
                    other.add_fingerprints(ids[20_000:], values[20_000:])
                assert index.fingerprints(ids[:20_000:1_000]) == values[:20_000:1_000].tolist()
                assert index.fingerprints(ids[20_000::100]) == [None] * 20
            with open_index(url) as other:
                assert other.add_fingerprints(ids, values).added == 2_000
        assert simhbase.check(url).clean


def test_what_has_no_place_is_refused(url: str) -> None:
    with pytest.raises(TablesMissing):
        open_store(url.replace("integration", "nowhere"), "read")
    with pytest.raises(UsageError, match="pg_dump"):
        simhbase.tables.snapshot(url, "folder")
    with pytest.raises(StoreUnreachable):
        open_store("postgresql://nobody@127.0.0.1:1/postgres?timeout=1", "read")
    with closing(open_store(url, "read")) as store, pytest.raises(StoreFailed, match="read-only"):
        store.records("meta").put([(b"a", b"")])
    assert multiprocessing.active_children() == []


def test_a_repeated_call_is_not_acknowledged_without_the_standby(url: str, postgresql: PostgreSQL) -> None:
    """What it finds unchanged may be a row that no standby has, so its commit waits for one, too."""
    with open_index(url) as index, ThreadPoolExecutor(1) as pool:
        index.add_fingerprints(["a"], [7])
        postgresql.sql("ALTER SYSTEM SET synchronous_standby_names = 'away'")
        postgresql.sql("SELECT pg_reload_conf()")
        try:
            while postgresql.sql("SHOW synchronous_standby_names") != [("away",)]:
                sleep(0.02)
            repeated = pool.submit(index.add_fingerprints, ["a"], [7])
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            while postgresql.sql(waiting) != [(1,)]:
                assert not repeated.done()
                sleep(0.02)
        finally:
            postgresql.sql("ALTER SYSTEM RESET synchronous_standby_names")
            postgresql.sql("SELECT pg_reload_conf()")
        assert repeated.result().unchanged == 1
