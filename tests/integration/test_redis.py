"""Stores in a real Redis: what its users see, the lock, and a server that fails."""

import os
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import hiredis
import numpy as np
import pytest
import redis as redis_py

import simhbase
from simhbase.errors import (
    SimhbaseError,
    StoreBusy,
    StoreFailed,
    StoreUnreachable,
    TablesMissing,
    UsageError,
)
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import Profile
from simhbase.stores import create_store, drop_store, open_store
from simhbase.stores.redis import client, records
from simhbase.stores.redis.client import translated
from simhbase.stores.redis.store import RedisStore
from tests.command_line import documents, run, texts
from tests.examples import Reader, blocks, page, write_articles
from tests.redis import Redis
from tests.relay import LOCALHOST, Relay
from tests.services import started

pytestmark = pytest.mark.redis
NEWS = 0x0123456789ABCDEF
HIGH = 0x8000000000000001


@pytest.fixture
def url(redis: Redis) -> str:
    """A store with a profile, and nothing in it."""
    url = redis.empty_store("integration")
    simhbase.open(url, create=Profile(verify=False, layout="4x1")).close()
    return url


@pytest.fixture
def own() -> Iterator[Redis]:
    """A server whose settings a test changes."""
    with started(Redis) as server:
        yield server


def add(index: Index, given: Sequence[tuple[str, int]]) -> None:
    values = np.array([value for _, value in given], dtype=np.uint64)
    index.add_fingerprints([name for name, _ in given], values)


def raw(server: Redis) -> "redis_py.Redis[bytes]":
    return redis_py.Redis.from_url(server.url)


def test_many_documents_with_long_tags_are_read_by_several_calls(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers to one call have a limit together, which who stored such documents near a text exceeded."""
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(records, "READ_AT_ONCE", 100)
    ids = [f"d{number}" for number in range(400)]
    tags = {f"tag{number}": "v" * 255 for number in range(16)}
    with open_index(url) as index:
        for start in range(0, len(ids), 100):
            some = ids[start : start + 100]
            index.add_fingerprints(some, [NEWS] * len(some), [tags] * len(some))
        assert [document and document.tags for document in index.documents(ids)] == [tags] * len(ids)


# What users of Redis see


def test_the_page_shows_what_commands_print(redis: Redis, tmp_path: Path) -> None:
    write_articles(tmp_path)
    redis.empty_store("articles")
    for language, block in blocks(page("docs/redis.md")):
        if language == "console redis":
            Reader(tmp_path).follow(language, block.replace("redis://127.0.0.1:6379", redis.url))


def test_the_page_on_testing_shows_tests_that_drop_their_tables(redis: Redis, tmp_path: Path) -> None:
    for language, block in blocks(page("docs/testing.md")):
        if language.startswith("file ") or language == "console redis":
            Reader(tmp_path).follow(language, block.replace("redis://127.0.0.1:6379", redis.url))
    with raw(redis) as client:
        left = [key for key in client.keys("*test_*") if not key.endswith(b":unlocked")]  # it expires
        assert left == []


def test_sets_hold_the_fingerprints_that_share_a_block(redis: Redis, url: str) -> None:
    with open_index(url) as index:
        add(index, [("a", NEWS), ("b", NEWS ^ 1), ("c", HIGH)])
    with raw(redis) as client:
        assert client.smembers("integration:01:01230000") == {b"%d" % NEWS, b"%d" % (NEWS ^ 1)}
        assert client.smembers("integration:04:cdef0000") == {b"%d" % NEWS}
        assert client.smembers("integration:01:80000000") == {b"%d" % (HIGH - (1 << 64))}
        assert client.object("encoding", "integration:01:01230000") == b"intset"
        assert client.hgetall("integration:counts")[b"documents"] == b"3"


def test_rows_are_members_of_sorted_sets(redis: Redis, url: str) -> None:
    """As schema/format.md shows it."""
    (shown,) = [block for name, block in blocks(page("schema/format.md")) if name == "redis-record"]
    key, member = shown.replace("news:documents:", "").split(maxsplit=1)
    with closing(open_store(url, "write")) as store:
        store.records("documents").put([(bytes.fromhex("34940061"), bytes.fromhex("5678"))], 0x0192_0000_0001)
    with raw(redis) as client:
        assert client.zrange(b"integration:documents:" + bytes.fromhex(key), 0, -1) == [bytes.fromhex(member)]


def test_what_is_deleted_leaves_no_key(redis: Redis, url: str) -> None:
    with open_index(url) as index, raw(redis) as client:
        before = set(client.keys("integration:*"))
        add(index, [("a", NEWS), ("b", HIGH)])
        index.delete(["a", "b"])
        left = set(client.keys("integration:*")) - before
    assert left <= {b"integration:documents", b"integration:fingerprints", b"integration:unlocked"}


def test_stores_in_one_database_are_apart(redis: Redis, url: str) -> None:
    other = redis.empty_store("integration2")
    simhbase.open(other, create=Profile(verify=False)).close()
    with open_index(other) as index:
        add(index, [("a", 1)])
    drop_store(url)
    with open_index(other, access="read") as index:
        assert index.fingerprints(["a"]) == [1]


def test_what_an_interrupted_drop_has_left_is_not_built_on(redis: Redis, url: str) -> None:
    with open_index(url) as index:
        add(index, [("a", NEWS)])
    with raw(redis) as client:
        client.delete("integration:counts")
    with pytest.raises(StoreFailed, match="integration:counts is lost, or 'simhbase tables drop' was"):
        open_index(url)
    with pytest.raises(StoreFailed, match="left by an interrupted drop or made by others"):
        create_store(url)
    drop_store(url)
    with pytest.raises(TablesMissing, match="no tables to drop"):
        drop_store(url)
    with closing(create_store(url)) as store:
        assert list(store.records("documents").iterate()) == []


def test_a_database_has_a_number(redis: Redis, tmp_path: Path) -> None:
    url = f"{redis.url}/3?prefix=numbered"
    simhbase.open(url, create=Profile(verify=False)).close()
    with closing(redis_py.Redis.from_url(f"{redis.url}/3")) as client:
        assert client.exists("numbered:counts")
    assert run("find", "--store", f"{redis.url}?prefix=numbered", "--id", "a", cwd=tmp_path).returncode == 10


def test_scripts_that_the_server_has_forgotten_are_sent_again(redis: Redis, url: str) -> None:
    with open_index(url) as index:
        add(index, [("a", 1)])
        redis.command("SCRIPT", "FLUSH")
        add(index, [("b", 1 << 40)])
        redis.command("SCRIPT", "FLUSH")
        assert len(list(index.stored())) == 2


# The lock


def test_the_lock_of_a_process_that_is_gone_is_taken(url: str) -> None:
    child = os.fork()
    if child == 0:
        store = open_store(url, "write")
        store.exclusive().__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    with open_index(f"{url}&timeout=20") as index:  # shorter than a lease
        add(index, [("a", 1)])


def test_a_lock_is_not_held_by_another_that_a_new_server_gave_its_number(own: Redis) -> None:
    url = own.empty_store("restarted")
    simhbase.open(url, create=Profile(verify=False)).close()
    with closing(open_store(url, "write")) as store, store.exclusive():
        own.stop("immediate")  # with the lock on disk
        own.start()
        with ExitStack() as others:
            for _ in range(20):
                others.enter_context(raw(own)).ping()
            with open_index(f"{url}&timeout=10") as index:  # shorter than a lease
                add(index, [("a", 1)])


def test_a_change_under_a_lock_that_another_took_is_refused(redis: Redis, url: str) -> None:
    with open_index(url) as index:
        with index.store.exclusive():
            redis.command("SET", "integration:lock", "0:another")
            with pytest.raises(StoreBusy, match="lock was lost"):
                add(index, [("a", 1)])
        assert redis.command("GET", "integration:lock") == b"0:another"
        redis.command("DEL", "integration:lock")
        assert index.documents(["a"]) == [None]
        assert redis.command("EXISTS", "integration:01:00000000") == 0
        add(index, [("a", 1)])


def test_readers_see_whole_moves_while_many_documents_move(url: str) -> None:
    """As the contract's, by lookups: the document is always near."""
    with open_index(url) as index, open_index(url, access="read") as reader, ThreadPoolExecutor(1) as pool:
        add(index, [("a", NEWS)])
        moving = pool.submit(lambda: [add(index, [("a", NEWS ^ (turn % 2))]) for turn in range(300)])
        while not moving.done():
            (found,) = reader.find_fingerprints(np.array([NEWS], dtype=np.uint64))
            assert [match.id for match in found.matches] == ["a"]
        moving.result()


# Failures


def test_errors_have_the_exit_codes_of_other_stores(
    redis: Redis, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def code(store: str, *command: str) -> tuple[int, str]:
        done = run(*(command or ("find", "--id", "a")), "--store", store, cwd=tmp_path)
        return done.returncode, done.stderr.decode()

    def named(user: str) -> str:
        return url.replace("redis://", f"redis://{user}@")

    assert code("redis://127.0.0.1:1?timeout=1")[0] == 11
    assert code(redis.store("missing"))[0] == 10
    assert code(url.replace("?", "/9?"))[0] == 10
    assert code(url.replace("?", "/99?"))[0] == 1
    assert code(url, "tables", "create", "--set", "k=2")[0] == 12
    assert code(named("me:secret"))[0] == 2
    assert "secret" not in code(named("me:secret"))[1]
    for wrong in (f"{url}&connections=0", f"{url}&nonsense=1", f"{url}&ca=file", url.replace("?", "/news?")):
        assert code(wrong)[0] == 2
    assert code(redis.store("a:b"))[0] == 2
    assert code(named("other"))[0] == 2  # without a password
    redis.command("ACL", "SETUSER", "other", "reset", "on", ">right")
    monkeypatch.setenv("REDISCLI_AUTH", "wrong")
    exit_code, said = code(named("other"))
    assert (exit_code, "WRONGPASS" in said) == (1, True)
    monkeypatch.setenv("REDISCLI_AUTH", "right")
    exit_code, said = code(named("other"))
    assert (exit_code, "NOPERM" in said) == (1, True)
    reading = ["~integration:*", "+@read", "+time", "+evalsha_ro", "+eval_ro"]
    redis.command("ACL", "SETUSER", "other", *reading)
    assert code(named("other"))[0] == 3  # who may read can look up: there is no such id
    path = documents(tmp_path / "news.jsonl", texts(2))
    exit_code, said = code(named("other"), "load", str(path))
    assert (exit_code, "NOPERM" in said) == (1, True)
    redis.command("ACL", "DELUSER", "other")


@pytest.mark.parametrize("rights", ["reader", "writer"])
def test_a_reader_beside_writers_comes_to_an_end(
    redis: Redis, url: str, monkeypatch: pytest.MonkeyPatch, rights: str
) -> None:
    """It locks them out at last, or says what to do if it may not."""
    with open_index(url) as writer:
        add(writer, [("a", NEWS)])
        with raw(redis) as client:
            client.execute_command(*f"ACL SETUSER {rights} on >secret ~integration:* +@all".split())
            if rights == "reader":
                client.execute_command(*f"ACL SETUSER {rights} -set".split())
        monkeypatch.setenv("REDISCLI_AUTH", "secret")
        named = url.replace("://", f"://{rights}@") + "&timeout=1"
        with closing(open_store(named, "read")) as reader:

            def read() -> int:
                reader.records("documents").get([b"abcd"])
                if not cast(RedisStore, reader)._client.held:  # nobody may remove rows meanwhile
                    writer.delete(["a"])
                    add(writer, [("a", NEWS)])
                reader.records("documents").get([b"abcd"])
                return 5

            if rights == "writer":
                assert reader.read_consistent(read) == 5
            else:
                with pytest.raises(StoreBusy, match="or grant a writer's rights"):
                    reader.read_consistent(read)


def test_a_password_may_be_any_bytes(own: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    with raw(own) as client:
        client.execute_command("ACL", "SETUSER", "default", b">p\xff")
        client.execute_command("ACL", "SETUSER", "default", "resetpass", b">p\xff")
    monkeypatch.setitem(os.environb, b"REDISCLI_AUTH", b"p\xff")
    create_store(own.store("any")).close()
    open_store(own.store("any"), "read").close()


def test_a_sync_waits_for_the_disk(own: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that never writes to it, but is taken for one that does each second; also for what went
    through another connection."""
    url = f"{own.empty_store('synced')}&timeout=1"
    with simhbase.open(url, create=Profile(verify=False)) as index, open_index(url) as other:
        own.command("CONFIG", "SET", "appendfsync", "no")
        add(index, [("a", 1)])
        for each in (index, other):
            monkeypatch.setattr(each.store, "_setting", lambda name: "everysec")
            with pytest.raises(StoreUnreachable, match="has not written to disk in time"):
                each.store.sync()


def test_full_memory_refuses_what_is_new_and_nothing_else(own: Redis) -> None:
    url = own.empty_store("full")
    with simhbase.open(url, create=Profile(verify=False, layout="4x1")) as index:
        add(index, [("a", 1), ("b", 1 << 40)])
        own.command("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreFailed, match="memory is full"):
            add(index, [("b", 2), ("c", 1 << 50)])
        assert index.fingerprints(["a", "b", "c"]) == [1, 1 << 40, None]
        with pytest.raises(StoreFailed, match="memory is full"):
            index.store.require_writable()
        assert index.delete(["a"]) == 1
        own.command("CONFIG", "SET", "appendfsync", "everysec")
        index.store.sync()
        own.command("CONFIG", "SET", "maxmemory", "0")
        add(index, [("c", 1 << 50)])
    assert simhbase.check(url).clean


def test_a_replica_answers_and_takes_its_primarys_place(own: Redis) -> None:
    primary = urlsplit(own.url)
    with started(Redis, None, f"replicaof={primary.hostname} {primary.port}") as replica:
        url = own.store("replicated", replicas=1, timeout=20)
        copy = replica.store("replicated")
        with simhbase.open(url, create=Profile(verify=False)) as index:
            add(index, [(f"d{number}", number << 40) for number in range(1, 50)])
        with closing(open_store(own.store("replicated"), "read")) as store:
            assert any("failover" in each for each in store.warnings())
        with open_index(copy, access="read") as index:
            assert len(list(index.stored())) == 49
        with pytest.raises(StoreFailed, match="read-only replica"):
            open_index(copy)
        with pytest.raises(StoreFailed, match="read-only replica"):
            drop_store(copy)
        own.stop("immediate")
        replica.command("REPLICAOF", "NO", "ONE")
        with open_index(copy) as index:
            assert len(list(index.stored())) == 49
            add(index, [("more", 1)])
        assert simhbase.check(copy).clean
        own.start()


def test_after_a_failover_the_address_leads_to_the_new_primary(own: Redis) -> None:
    with (
        started(Redis, None, f"replicaof={LOCALHOST} {own.port}") as replica,
        Relay((LOCALHOST, own.port)) as relay,  # a name or address that moves to the primary
    ):
        url = own.through(relay, "moved", timeout=20)
        with simhbase.open(f"{url}&replicas=1", create=Profile(verify=False)) as index:
            add(index, [("a", 1)])
        with open_index(url) as index:
            assert index.fingerprints(["a"]) == [1]
            replica.command("REPLICAOF", "NO", "ONE")
            own.command("REPLICAOF", LOCALHOST, replica.port)
            with open_index(own.through(relay, "moved"), access="read") as reader:  # a replica answers
                assert reader.fingerprints(["a", "b"]) == [1, None]
            with pytest.raises(StoreFailed, match="read-only replica"):
                index.store.require_writable()
            relay.lead_to((LOCALHOST, replica.port))
            add(index, [("b", 1 << 40)])
            assert index.store.counters()["retries"] > 0
            assert index.fingerprints(["a", "b"]) == [1, 1 << 40]
        assert simhbase.check(replica.store("moved")).clean


def test_a_drawer_is_sent_up_to_the_limit(redis: Redis, url: str) -> None:
    """Also one from which most rows were removed, whose table is nearly empty then."""
    with open_index(url) as index, raw(redis) as client:
        values = np.arange(20_000, dtype=np.uint64)
        index.store.drawers.add(index.profile.index_scheme.keys(FingerprintBatch.bare(values))[:, :1])

        def read(limit: int | None) -> tuple[list[int], bool, int]:
            before = client.info("stats")["total_net_output_bytes"]
            (rows,) = index.store.drawers.read(np.array([[0, 0, 0, 0, 1]], dtype=np.uint8), limit)
            sent = client.info("stats")["total_net_output_bytes"] - before
            return rows.fingerprints.tolist(), len(rows.truncated) > 0, sent

        found, is_truncated, sent = read(100)
        assert (len(found), is_truncated) == (100, True)
        assert found == sorted(set(found)) == read(100)[0]
        assert sent < 50_000  # with what INFO tells
        assert read(20_000)[:2] == (list(range(20_000)), False)
        assert read(19_999)[1]
        client.srem("integration:01:00000000", *range(19_900))
        assert read(101)[:2] == read(100)[:2] == read(None)[:2] == (list(range(19_900, 20_000)), False)
        assert read(99)[1]


def test_rows_are_read_without_the_names_of_all_drawers(redis: Redis, url: str) -> None:
    other = redis.empty_store("integration2")
    simhbase.open(other, create=Profile(verify=False, layout="4x1")).close()
    random = np.random.default_rng(1)
    for each in (url, other):
        with open_index(each) as index:
            values = random.integers(0, 1 << 64, 20_000, dtype=np.uint64)
            index.store.drawers.add(index.profile.index_scheme.keys(FingerprintBatch.bare(values)))
    with open_index(url, access="read") as index, raw(redis) as client:
        before = client.info("stats")["total_net_output_bytes"]
        assert len(next(iter(index.store.drawers.iterate())).keys) > 0
        sent = client.info("stats")["total_net_output_bytes"] - before
        assert sent < 1_000_000  # all names of the store's drawers are 2 MB, and their rows as many
        found = [key for rows in index.store.drawers.iterate() for key in map(bytes, rows.keys)]
        assert len(found) == len(set(found)) == 80_000


def test_replicas_that_do_not_acknowledge_are_said(url: str) -> None:
    with (
        open_index(f"{url}&replicas=1&timeout=1") as index,
        pytest.raises(StoreUnreachable, match="only 0 of 1 replicas"),
    ):
        add(index, [("a", 1)])
    with open_index(url) as index:
        add(index, [("a", 1)])  # repeated, wherever it was


def test_a_cluster_is_refused() -> None:
    with started(Redis, None, "cluster-enabled=yes") as server:
        url = server.store("cluster")
        with pytest.raises(StoreFailed, match="Redis Cluster"):
            simhbase.open(url, create=Profile(verify=False))


def test_durability_is_told_by_tables_check(own: Redis, tmp_path: Path) -> None:
    url = own.empty_store("durable")
    simhbase.open(url, create=Profile()).close()

    def said(**settings: str) -> str:
        for name, value in settings.items():
            own.command("CONFIG", "SET", name.replace("_", "-"), value)
        done = run("tables", "check", "--store", url, cwd=tmp_path)
        assert done.returncode == 0
        return done.stderr.decode()

    assert "warning" not in said(appendfsync="always")
    assert "acknowledged writes of the last two seconds" in said(appendfsync="everysec")
    assert "evicts rows" in said(maxmemory_policy="allkeys-lru")
    assert "evicts the lock" in said(maxmemory_policy="volatile-lru")
    assert "appendonly is off" in said(appendonly="no")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("LOADING Redis is loading the dataset in memory", StoreUnreachable),
        ("MASTERDOWN Link with MASTER is down", StoreUnreachable),
        ("NOREPLICAS Not enough good replicas to write", StoreUnreachable),
        ("ERR max number of clients reached", StoreUnreachable),
        ("BUSY Redis is busy running a script", StoreUnreachable),
        ("READONLY You can't write against a read only replica", StoreUnreachable),
        ("MISCONF Redis is configured to save RDB snapshots", StoreFailed),
        ("MOVED 3999 127.0.0.1:6381", StoreFailed),
        ("NOAUTH Authentication required", StoreFailed),
    ],
)
def test_errors_that_pass_are_waited_for_and_others_are_not(said: str, error: type[SimhbaseError]) -> None:
    assert type(translated(hiredis.ReplyError(said), "reading")) is error


def test_what_a_killed_server_has_acknowledged_is_there_again(own: Redis) -> None:
    url = own.empty_store("killed")
    with simhbase.open(url, create=Profile(verify=False)) as index:
        for number in range(1, 100):
            add(index, [(f"d{number}", number << 40)])
        own.stop("immediate")
        own.start()
        assert len(list(index.stored())) == 99
    assert simhbase.check(url).clean


def test_tls_is_used_and_checked(redis: Redis, url: str, tmp_path: Path) -> None:
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key -out cert"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run([*made.split(), "-addext", names], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with Relay((LOCALHOST, redis.port), tls=context) as relay:
        encrypted = f"rediss://{LOCALHOST}:{relay.port}?prefix=integration"
        with open_index(f"{encrypted}&ca={tmp_path / 'cert'}") as index:
            add(index, [("a", 1)])
            assert index.fingerprints(["a"]) == [1]
        with pytest.raises(StoreFailed, match="ca=FILE"):
            open_index(encrypted)
        with pytest.raises(UsageError, match="ca=nowhere is not a file that exists"):
            open_index(f"{encrypted}&ca=nowhere")


def test_what_has_no_place_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="BGSAVE"):
        simhbase.tables.snapshot(url, "folder")
    store = open_store(url, "read")
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        store.records("meta").get([b"a"])
