"""Stores in a real Redis that has lost all or some of their keys: an error is the answer, never nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import redis as redis_py

import simhbase
from simhbase.admin.administrator import Administrator
from simhbase.admin.check import MISCOUNTED, UNSKETCHED
from simhbase.admin.removal import Removal
from simhbase.errors import SimhbaseError, StoreFailed, StoreUnreachable, TablesMissing
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.model.values import Document
from simhbase.profile.profile import Profile
from simhbase.stores import create_store, drop_store
from simhbase.stores.base import Access
from simhbase.stores.redis.client import Connection
from simhbase.stores.redis.store import RedisStore
from tests.command_line import texts
from tests.redis import Redis
from tests.relay import LOCALHOST, Relay
from tests.services import started

pytestmark = pytest.mark.redis
VALUES = np.arange(1, 301, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
NAMES = [f"d{number}" for number in range(len(VALUES))]
PROFILE = Profile(verify=False, layout="4x1")


@pytest.fixture
def url(redis: Redis) -> str:
    """A store with documents."""
    url = redis.empty_store("lost")
    with simhbase.open(url, create=PROFILE) as index:
        index.add_fingerprints(NAMES, VALUES)
    return url


@pytest.fixture
def own() -> Iterator[Redis]:
    """A server that a test may empty."""
    with started(Redis) as server:
        yield server


def raw(server: Redis) -> "redis_py.Redis[bytes]":
    return redis_py.Redis.from_url(server.url)


# All keys are gone


def flush(server: Redis) -> None:
    server.command("FLUSHALL")


def swap(server: Redis) -> None:
    server.command("SWAPDB", 0, 5)


def restart_empty(server: Redis) -> None:
    server.command("CONFIG", "SET", "appendonly", "no")
    server.stop("immediate")
    for path in server.folder.rglob("*"):
        if path.suffix in (".aof", ".rdb", ".manifest"):
            path.unlink()
    server.start()


USES: dict[str, Callable[[Index], object]] = {
    "find": lambda index: index.find_fingerprints(VALUES[:1]),
    "find many": lambda index: index.find_fingerprints(VALUES),
    "documents": lambda index: index.documents(["d1"]),
    "stored": lambda index: len(index),
    "add of a stored one": lambda index: index.add_fingerprints(["d1"], VALUES[1:2]),
    "claim of a stored one": lambda index: index.claim_batch(["d1"], FingerprintBatch.bare(VALUES[1:2])),
    "delete": lambda index: index.delete(["d1"]),
    "mute": lambda index: index.mute(ids=["d1"]),
    "unmute": lambda index: index.unmute(ids=["d1"]),
    "change": lambda index: index.store.records("meta").delete([b"muted"]),
    "count": lambda index: index.store.recount(repair=True),
}


@pytest.mark.parametrize("lose", [flush, swap, restart_empty])
def test_the_next_call_says_that_the_tables_of_an_open_index_are_gone(
    own: Redis, lose: Callable[[Redis], None]
) -> None:
    """Every call, the first one too, and without a look at the profile: that is taken for seen just now."""
    url = own.empty_store("gone")
    with simhbase.open(url, create=PROFILE) as index:
        index.add_fingerprints(NAMES, VALUES)
        lose(own)
        for name, use in USES.items():
            index._looked = float("inf")
            with pytest.raises(TablesMissing, match="are gone"):
                print(name, use(index))
        with pytest.raises(TablesMissing):
            index.require_ready()
    assert own.command("KEYS", "gone:[^lu]*") == []  # nothing was written there


NONSENSE = [b"nonsense", -3, [[1], b"x"], [b"0", [b"b", 1]]]  # nothing ([], None) is an answer


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_answers_of_another_form_are_errors_that_name_the_key(
    url: str, nonsense: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer but those about the identity is of another form, and then these, too."""
    ask = Connection.ask

    def lied(connection: Connection, commands: bytes, answers: int) -> list[object]:
        found = ask(connection, commands, answers)
        return [each if each == state else nonsense for each in found] if state else [nonsense] * answers

    url = f"{url}&timeout=1"
    with simhbase.open(url) as index:
        client = cast(RedisStore, index.store)._client
        state = client.read("reading", "HMGET", client.key("counts"), "store", "removals")
        for told in (state, None):
            state = told
            monkeypatch.setattr(Connection, "ask", lied)
            for name, use in USES.items():
                index._looked = float("inf")
                with suppress(SimhbaseError):
                    print(name, use(index))
            drawers, documents = index.store.drawers, index.store.records("documents")
            for look in (
                lambda: list(drawers.iterate()),  # noqa: B023
                lambda: list(documents.iterate()),  # noqa: B023
                drawers.approximate_size,
                documents.approximate_size,
                cast(RedisStore, index.store).warnings,
            ):
                with suppress(SimhbaseError):
                    print(look())
            monkeypatch.undo()
    monkeypatch.setattr(Connection, "ask", lambda self, commands, answers: [nonsense] * answers)
    with pytest.raises(SimhbaseError):
        simhbase.open(url)
    with suppress(SimhbaseError):
        drop_store(url)


OTHERS: dict[str, Callable[["redis_py.Redis[bytes]"], object]] = {
    "lost:counts": lambda client: client.hset("lost:counts", "documents", "many"),
    "documents": lambda client: [
        client.zadd(key, {b"nonsense": 0}) for key in client.scan_iter("lost:documents:*", count=10_000)
    ],
    r"lost:\?\?:": lambda client: [
        client.sadd(key, b"nonsense") for key in client.scan_iter("lost:??:*", count=10_000)
    ],
}


@pytest.mark.parametrize("key", list(OTHERS))
def test_what_others_wrote_under_the_keys_is_named(redis: Redis, url: str, key: str) -> None:
    OTHERS[key](raw(redis))
    with simhbase.open(url) as index:
        uses = (
            lambda: index.find_fingerprints(VALUES[:1]),
            lambda: index.find_fingerprints(VALUES),
            lambda: list(index.store.records("documents").iterate()),
            lambda: index.documents(["d1"]),
        )
        said = []
        for use in uses:
            try:
                print(use())
            except StoreFailed as error:
                said.append(str(error))
    assert said
    assert all(re.search(key, each) and "restore its data" in each.lower() for each in said), said


def test_a_failover_to_an_empty_server_is_said(own: Redis) -> None:
    with started(Redis) as empty, Relay((LOCALHOST, own.port)) as relay:
        own.empty_store("gone")
        with simhbase.open(own.through(relay, "gone"), create=PROFILE) as index:
            index.add_fingerprints(NAMES, VALUES)
            relay.lead_to((LOCALHOST, empty.port))
            relay.cut()
            with pytest.raises(TablesMissing, match="failed over"):
                index.find_fingerprints(VALUES[:1])


@pytest.mark.parametrize(("value", "trips"), [(VALUES[0], 1), (VALUES[0] ^ 1, 2)], ids=["equal", "near"])
def test_a_lookup_takes_two_trips_at_most(redis: Redis, url: str, value: int, trips: int) -> None:
    """What an equal fingerprint lists is asked for with the drawers, what near ones list after them. The
    state of the tables is read in the same trips."""
    with Relay((LOCALHOST, redis.port)) as relay, open_index(redis.through(relay, "lost")) as index:
        index.find_fingerprints([value])
        before = relay.turns
        (found,) = index.find_fingerprints([value])
        assert [match.id for match in found.matches] == ["d0"]
        assert relay.turns - before == trips


# Some keys are gone


def first_set(client: "redis_py.Redis[bytes]", table: str) -> bytes:
    return min(client.scan_iter(f"lost:{table}:*", count=10_000))


def evict(*names: str) -> "Callable[[redis_py.Redis[bytes]], object]":
    return lambda client: client.delete(*(f"lost:{name}" for name in names))


LOSSES: "dict[str, Callable[[redis_py.Redis[bytes]], object]]" = {
    "directory": evict("documents"),
    "both directories": evict("documents", "fingerprints"),
    "end of a directory": lambda client: client.set(
        "lost:documents", client.getrange("lost:documents", 0, 99_999)
    ),
    "a flipped bit": lambda client: client.setbit("lost:documents", 8 * 200_000 + 5, 1),
    "a set of documents": lambda client: client.delete(first_set(client, "documents")),
    "a set of listings": lambda client: client.delete(first_set(client, "fingerprints")),
    "a count": lambda client: client.hdel("lost:counts", "documents"),
    "a wrong count": lambda client: client.hincrby("lost:counts", "fingerprints", 7),
}


OF_DOCUMENTS = [lose for name, lose in LOSSES.items() if name not in ("a set of listings", "a wrong count")]


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_what_reads_all_rows_says_that_some_are_lost(
    redis: Redis, url: str, lose: "Callable[[redis_py.Redis[bytes]], object]", tmp_path: Path
) -> None:
    """Also a migration that deletes. A check counts what is left and changes nothing; after a repair all rows
    agree."""
    copy = f"rocksdb:{tmp_path}/copy"
    simhbase.migrate(url, copy)
    with raw(redis) as client:
        lose(client)
    for _ in range(2):
        report = simhbase.check(url)
        assert report.problems[MISCOUNTED] == len(report.examples[MISCOUNTED])
        assert report.documents >= len(NAMES) - 1
        assert not report.clean
    with open_index(url) as index, pytest.raises(StoreFailed, match="check --repair"):
        Administrator(index).stats(exact=True)
    if lose in OF_DOCUMENTS:
        with open_index(url) as index, pytest.raises(StoreFailed, match="check --repair"):
            list(index.stored())
        with open_index(url) as index, pytest.raises(StoreFailed, match="check --repair"):
            Administrator(index).delete_older_than(timedelta(0))
        with pytest.raises(StoreFailed, match="check --repair"):
            simhbase.migrate(url, copy, delete_missing=True)
        with open_index(copy) as index:
            assert len(index) == len(NAMES)
    asked = list[Removal]()
    assert MISCOUNTED in simhbase.check(url, repair=True, agree=asked.append).problems
    assert sum(each.removed for each in asked) == sum(report.removable.values()), "counted before the repair"
    report = simhbase.check(url)
    assert report.clean
    with open_index(url) as index:
        assert len(index) == report.documents >= len(NAMES) - 1


@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize("profile", [PROFILE, Profile(), Profile(scheme="minhash")], ids=str)
def test_a_lookup_that_leads_to_a_lost_set_of_listings_is_an_error(
    redis: Redis, profile: Profile, access: Access
) -> None:
    """It said that there is no match, and a claim was accepted."""
    url, (text, other) = redis.empty_store("lost"), texts(2)
    with simhbase.open(url, create=profile) as index:
        index.add([Document("d", text)])
    with open_index(url, access=access) as index, raw(redis) as client:
        client.delete(first_set(client, "fingerprints"))
        with pytest.raises(StoreFailed, match=r"lists no document.*check --repair"):
            print(index.find(text))
        if access == "write":
            with pytest.raises(StoreFailed, match=r"lists no document.*check --repair"):
                print(index.claim("new", text))
        assert not index.find(other).matches
    assert MISCOUNTED in simhbase.check(url, repair=True).problems
    with open_index(url) as index:
        if profile.scheme == "minhash":  # the listing had the sketch
            assert UNSKETCHED in simhbase.check(url).problems
            assert not index.find(text).matches
            index.add([Document("d", text)])
        assert [match.id for match in index.find(text).matches] == ["d"]


@pytest.mark.parametrize("profile", [PROFILE, Profile()], ids=str)
def test_a_lookup_that_needs_a_lost_set_of_documents_is_an_error(redis: Redis, profile: Profile) -> None:
    url, (text,) = redis.empty_store("lost"), texts(1)
    with simhbase.open(url, create=profile) as index, raw(redis) as client:
        index.add([Document("d", text, {"lang": "en"})])
        client.delete(first_set(client, "documents"))
        with pytest.raises(StoreFailed, match=r"'d' is listed, and not stored.*check --repair"):
            print(index.find(text, tags={"lang": "en"}))


@pytest.mark.parametrize("table", ["fingerprints", "documents"])
def test_nothing_is_put_into_a_set_that_has_lost_rows(redis: Redis, table: str) -> None:
    """A set with a few rows again would not be noticed: a lookup gave the new document alone, and said
    nothing of the lost one with the same fingerprint."""
    url = redis.empty_store("lost")
    said = rf"{table}: 0 rows of a set of 1 are there.*check --repair"
    with simhbase.open(url, create=PROFILE) as index, raw(redis) as client:
        index.add_fingerprints(["kept"], VALUES[:1])
        name = first_set(client, table)
        key = name.rpartition(b":")[2] + b"x"
        client.delete(name)
        new = "new" if table == "fingerprints" else "kept"
        with pytest.raises(StoreFailed, match=said):
            index.add_fingerprints([new], VALUES[:1])
        with pytest.raises(StoreFailed, match=said):
            index.store.records(table).put([(key, b"value")], 1)
        with pytest.raises(StoreFailed, match=said):
            index.store.records(table).compare_and_set(key, None, b"value")
        assert not client.exists(name), "nothing was changed"
    assert MISCOUNTED in simhbase.check(url, repair=True).problems
    with open_index(url) as index:
        index.add_fingerprints([new], VALUES[:1])
        (found,) = index.find_fingerprints(VALUES[:1])
        assert {match.id for match in found.matches} == {"kept", new}
    assert simhbase.check(url).clean


def test_a_directory_that_is_lost_counts_no_fewer_than_none(redis: Redis, url: str) -> None:
    """Else the next document of that set was refused, as 0 of 4,294,967,295 rows were there."""
    with open_index(url) as index, raw(redis) as client:
        index.add_fingerprints(["a"], VALUES[:1])
        client.delete(b"lost:documents")
        index.delete(["a"])
        index.add_fingerprints(["a"], VALUES[:1])
        assert index.fingerprints(["a"]) == [VALUES[0]]


def test_partly_read_tables_are_verified_too(redis: Redis, url: str) -> None:
    """A part of a check, and a scan by a prefix that many sets share."""
    with raw(redis) as client:
        client.delete("lost:documents")
    assert simhbase.check(url, part=(1, 100)).examples[MISCOUNTED] == ["documents"]
    with open_index(url) as index, pytest.raises(StoreFailed, match="check --repair"):
        index.store.records("documents").scan([b"\x01", b"\x02"], 5)


def test_a_lost_profile_is_not_built_over(redis: Redis, url: str) -> None:
    """The mute list, the profile and the rest of meta are one key: they are lost together."""
    with raw(redis) as client:
        client.delete("lost:meta:")
    for call in (open_index, create_store):
        with pytest.raises(StoreFailed, match="all other rows of meta are lost"):
            call(url)


def test_lost_counts_are_said_and_counted_again(redis: Redis, url: str) -> None:
    """As the message says how."""
    with open_index(url, access="read") as reader:
        with raw(redis) as client:
            client.delete("lost:counts")
        with pytest.raises(TablesMissing, match="are gone"):
            reader.find_fingerprints(VALUES[:1])
    with pytest.raises(StoreFailed, match="redis-cli HSET lost:counts store") as said:
        open_index(url)
    (identity,) = re.findall("store '(.*?)'", str(said.value))
    with raw(redis) as client:
        client.hset("lost:counts", "store", identity)
    assert {"documents", "index"} <= {*simhbase.check(url, repair=True).examples[MISCOUNTED]}
    assert simhbase.check(url).clean
    with raw(redis) as client:
        assert client.hget("lost:counts", "index") == b"%d" % (4 * len(NAMES))


def test_counts_that_are_no_numbers_of_rows_are_named(redis: Redis, url: str) -> None:
    """One of 400 digits was an unexpected OverflowError."""
    with raw(redis) as client:
        client.hset("lost:counts", "documents", "9" * 400)
    with open_index(url, access="read") as reader, pytest.raises(StoreFailed, match="did not write what is"):
        reader.store.records("documents").approximate_size()


def test_tables_that_are_back_while_a_store_is_opened_are_not_called_lost(url: str) -> None:
    """As after SWAPDB to and fro: the advice was to give the tables another identity."""
    store = RedisStore(url, "read")
    with closing(store):
        why = store._missing()
    assert isinstance(why, StoreUnreachable)
    assert "try again" in str(why)


def test_a_server_that_evicts_rows_is_refused(own: Redis) -> None:
    """Whatever it has evicted, lookups cannot know."""
    url = own.empty_store("lost")
    simhbase.open(url, create=PROFILE).close()
    own.command("CONFIG", "SET", "maxmemory", "100mb")
    own.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    for access in ("read", "write"):
        with pytest.raises(StoreFailed, match="Set noeviction"):
            open_index(url, access=access)
    own.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    open_index(url).close()


def test_evicted_keys_are_told(own: Redis) -> None:
    """By tables check, also after the setting was corrected."""
    url = own.empty_store("lost")
    simhbase.open(url, create=PROFILE).close()
    with raw(own) as client:
        client.set("other", b"-" * 1_000_000, ex=1000)
        client.config_set("maxmemory-policy", "volatile-lru")
        client.config_set("maxmemory", client.info("memory")["used_memory"] - 500_000)
        client.set("more", b"-" * 1000)
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
    with open_index(url, access="read") as index:
        assert re.search(r"has evicted \d keys", " ".join(index.store.warnings()))


def test_an_answer_that_is_too_large_for_the_server_names_the_setting(own: Redis) -> None:
    url = f"{own.empty_store('lost')}&timeout=1"
    with simhbase.open(url, create=PROFILE) as index:
        index.add_fingerprints(NAMES, VALUES & np.uint64(0xFFFF_FFFF_FFFF))
        own.command("CONFIG", "SET", "client-output-buffer-limit", "normal 1000 0 0")
        with pytest.raises(StoreUnreachable, match="client-output-buffer-limit"):
            index.find_fingerprints(VALUES & np.uint64(0xFFFF_FFFF_FFFF))


# Replicas


def test_a_repeated_call_is_not_acknowledged_without_the_replicas(own: Redis) -> None:
    """Each call that failed for their sake fails again, though there is nothing left to change."""
    with started(Redis, None, f"replicaof={LOCALHOST} {own.port}") as replica:
        with simhbase.open(own.store("copied", replicas=1, timeout=20), create=PROFILE) as index:
            index.add_fingerprints(NAMES, VALUES)
        replica.stop("immediate")
        near_seven = FingerprintBatch.bare(np.array([7], dtype=np.uint64))
        waiting = own.store("copied", replicas=1, timeout=1)
        calls: dict[str, Callable[[Index], object]] = {
            "claim": lambda index: index.claim_batch(["new"], near_seven, 10.0),
            "claim of a duplicate": lambda index: index.claim_batch(["other"], near_seven, 10.0),
            "add": lambda index: index.add_fingerprints(["a"], VALUES[:1]),
            "delete": lambda index: index.delete(["d1"]),
            "mute": lambda index: index.mute(ids=["d2"]),
            "rows": lambda index: index.store.records("meta").delete([b"x"]),
        }
        with open_index(waiting) as index:
            for name, call in calls.items():
                for _ in range(2):
                    with pytest.raises(StoreUnreachable, match="only 0 of 1 replicas"):
                        print(name, call(index))
        with pytest.raises(StoreUnreachable, match="only 0 of 1 replicas"):
            drop_store(waiting)
