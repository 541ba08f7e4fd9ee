"""The tables of a store, and operations on all of them in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from secrets import token_hex
from typing import Any, TypeVar

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import SimhbaseError, StoreFailed, StoreUnreachable, TablesMissing
from simhbase.model.urls import without
from simhbase.stores.atomic import ServerStore
from simhbase.stores.base import (
    FINGERPRINT_BYTES,
    MET,
    Access,
    Changes,
    NearLimits,
    NearRows,
    RecordTable,
    Row,
    listed_by,
    now,
)
from simhbase.stores.redis.client import (
    Client,
    cluster_refused,
    given_secrets,
    packed,
    scanned,
    understanding,
)
from simhbase.stores.redis.drawers import RedisDrawers, name_of, packed_rows
from simhbase.stores.redis.records import RedisRecords, suffixed_rows, table_changes
from simhbase.stores.redis.url import parse

T = TypeVar("T")
OLDEST_SERVER = 7
_THERE = "return {redis.call('HEXISTS', KEYS[1], 'store'), redis.call('EXISTS', unpack(KEYS, 2))}"
REMOVED_AT_ONCE = 10_000


class RedisStore(ServerStore[RedisRecords]):
    largest_commit = 2_000  # the server answers nobody else during a commit
    _client: Client

    def __init__(self, url: str, access: Access) -> None:
        super().__init__(url, access)
        self._client = Client(parse(url))
        self._records = {table: self.new_records(table) for table in self.tables}
        self.drawers = RedisDrawers(self._client)

    def new_records(self, table: RecordTable) -> RedisRecords:
        return RedisRecords(self._client, table)

    @understanding("counts")
    def open(self) -> None:
        before = now()
        counts = self._client.key("counts")
        (identity, counted), there, (seconds, microseconds) = self._client.ask(
            "opening",
            packed("HMGET", counts, "store", "meta")
            + packed("ZCARD", self._client.key("meta:"))
            + packed("TIME"),
            3,
        )
        self._take_clock(before, int(seconds) * 1000 + int(microseconds) // 1000)
        self._require_usable()
        if identity is None:
            raise self._missing()
        if not there and counted != b"0":
            raise StoreFailed(
                f"opening {self.url}: the profile and all other rows of meta are lost. Restore the server's "
                "data, or run 'simhbase tables drop' and 'tables create', and load the documents again"
            )
        self._client.identity = identity

    @understanding("counts")
    def _missing(self) -> SimhbaseError:
        """Why there was no identity."""
        prefix = self._client.address.prefix
        keys = [self._client.key(name) for name in ("counts", "meta:", *self.tables)]
        # In one step: the server may be filled meanwhile, and to give it another identity would be wrong.
        is_back, others = self._client.read("opening", "EVAL_RO", _THERE, len(keys), *keys)
        if is_back:
            return StoreUnreachable(
                f"opening {self.url}: the server had no tables a moment ago, and has them now: try again"
            )
        if others:
            return StoreFailed(
                f"opening {self.url}: the key {prefix}:counts is lost, or 'simhbase tables drop' was "
                "interrupted. Run that again, or restore the server's data. To continue with what is left, "
                f"run redis-cli HSET {prefix}:counts store '1 {token_hex(8)}', then 'simhbase check --repair'"
            )
        return TablesMissing(
            f"{self.url}: there are no tables with the prefix {prefix}. Create them with 'simhbase tables "
            "create', or correct prefix= or the number of the database in the URL"
        )

    def _require_usable(self) -> None:
        doing, told = f"opening {self.url}", self._told("server", "replication", "cluster", "memory")
        version = told.get("redis_version", "")
        if version and int(version.partition(".")[0]) < OLDEST_SERVER:
            raise StoreFailed(
                f"{doing}: the server is of version {version}, and {OLDEST_SERVER} or newer is needed"
            )
        if told.get("cluster_enabled") == "1":
            raise cluster_refused(doing)
        read_only = told.get("role") == "slave" and told.get("slave_read_only") != "0"
        if read_only and self._access != "read":
            raise StoreFailed(f"{doing}: the server is a read-only replica. Name the primary")
        self._client.may_lock = not read_only
        if told.get("maxmemory_policy", "").startswith("allkeys") and told["maxmemory"] != "0":
            raise StoreFailed(
                f"{doing}: maxmemory-policy is {told['maxmemory_policy']}: when memory is full, the server "
                "evicts rows, which lookups then do not find. Set noeviction, and run 'simhbase check'"
            )

    @understanding("counts")
    def _told(self, *sections: str) -> dict[str, str]:
        """What the server says about itself; nothing if the user may not ask."""
        try:
            text: bytes = self._client.read("opening", "INFO", *sections)
        except StoreFailed as error:
            if "NOPERM" in str(error):
                return {}
            raise
        said = without(text.decode(errors="replace"), given_secrets())
        lines = (line.partition(":") for line in said.splitlines())
        return {name: value for name, _, value in lines}

    def create(self, *, counts: bool) -> None:
        self._require_usable()
        key = self._client.key("counts")
        if not self._client.read("creating", "HEXISTS", key, "store"):
            # Another process may have created it since.
            if self.existing() and not self._client.read("creating", "HEXISTS", key, "store"):
                raise StoreFailed(
                    f"creating {self.url}: there are keys with the prefix {self._client.address.prefix}, "
                    "left by an interrupted drop or made by others. Run 'simhbase tables drop', which "
                    "removes them, or name another prefix= in the URL"
                )
            counted = ("removals", "index", *self.tables)
            self._client.change("creating", "create", f"1 {token_hex(8)}", *counted)
        if counts:
            self._client.read("creating", "HSETNX", key, MET, 0)

    def existing(self) -> list[str]:
        """The pattern of the keys."""
        for _ in self._keys():
            return [f"{self._client.address.prefix}:*"]
        return []

    def drop(self) -> None:
        """Removes all keys."""
        self._require_usable()
        with self.exclusive():
            # From then on, those who have opened it can read and change nothing.
            self._client.read("dropping", "UNLINK", self._client.key("counts"))
            for keys in self._keys():
                self._client.read("dropping", "UNLINK", *keys)

    def _keys(self) -> Iterator[list[bytes]]:
        """All keys but those of the lock, in parts, in no order."""
        of_lock = self._client.lock_keys
        for keys in scanned(self._client, "dropping", self._client.key("*"), REMOVED_AT_ONCE):
            if found := [key for key in keys if key not in of_lock]:
                yield found

    def exclusive(self) -> AbstractContextManager[object]:
        return self._client.exclusive()

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        return self.read_consistent(partial(self._near, value, prefixes, limits))

    def _near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        """Asks with the drawers what an equal fingerprint lists: most texts that are found are stored as they
        are, and need a round trip less."""
        listings, names = self._records["fingerprints"], list(map(name_of, prefixes))
        equal = value.to_bytes(FINGERPRINT_BYTES) + limits.of
        commands = self.drawers.asking(names, limits.drawer) + listings.scanning(equal, limits.listed)
        *answers, members = self._client.ask("reading", commands, len(names) + 1)
        hits = self.drawers.hits(value, names, answers, limits.bits, limits.drawer)

        def scan(wanted: list[bytes], most: int) -> list[list[Row]]:
            others = [each for each in wanted if each != equal]
            found = dict(zip(others, listings.scan(others, most), strict=True))
            return [found[each] if each in found else listings.scanned(equal, members) for each in wanted]

        return listed_by(hits, limits, scan, self._records["documents"].get)

    def read_consistent(self, read: Callable[[], T]) -> T:
        return self._client.consistent(read)

    def commit(self, changes: Changes) -> None:
        tables = list[Any]()
        for table in changes.put.keys() | changes.delete.keys():
            put = list(suffixed_rows(changes.rows(table), changes.version))
            deleted = [(key, b"") for key in changes.delete.get(table, ())]
            tables += table_changes(table, deleted, put)
        rows = [packed_rows(keys.reshape(-1, KEY_BYTES)) for keys in (changes.unindex, changes.index)]
        is_put = bool(rows[1]) or any(len(keys) for keys, _ in changes.put.values())
        with self.exclusive():
            self._client.change("writing", "change", int(is_put), *rows, *tables)

    @understanding("counts")
    def sync(self) -> None:
        """Has the append-only file written to disk, where the server does that each second and can be asked
        to (WAITAOF, from Redis 7.2 on)."""
        if self._setting("appendfsync") != "everysec" or self._told("persistence").get("aof_enabled") != "1":
            return
        commands = self._client.touch + packed("WAITAOF", 1, 0, self._client.waiting_ms)
        try:
            _, (written, _) = self._client.ask("syncing", commands, 2)
        except StoreFailed as error:
            if "unknown command" not in str(error) and "NOPERM" not in str(error):
                raise
        else:
            if not written:
                raise StoreUnreachable(f"syncing {self.url}: the server has not written to disk in time")

    def recount(self, *, repair: bool) -> Sequence[str]:
        wrong = [table for table, each in self._records.items() if not each.recount(repair=repair)]
        if not repair:  # without the lock, index rows cannot be counted exactly
            return wrong
        with self.exclusive():
            is_right = self._client.change("counting", "recount_index", self.drawers.count())
        return wrong if is_right else [*wrong, "index"]

    def require_writable(self) -> None:
        """Raises StoreFailed if the server is read-only or its memory is full, StoreUnreachable."""
        self.open()
        if self._access != "read":
            self._client.change("writing", "change", 1, b"", b"")

    def warnings(self) -> Sequence[str]:
        told = self._told("persistence", "memory", "replication", "stats")
        found = list[str]()
        if not told:
            return ["the user may not ask the server (INFO) which durability it promises"]
        if told.get("aof_enabled") != "1":
            found.append(
                "appendonly is off: when the server stops, what was acknowledged since its last snapshot is "
                "lost, and claims are accepted a second time. Set appendonly yes"
            )
        elif (fsync := self._setting("appendfsync")) not in ("always", None):
            found.append(
                f"appendfsync is {fsync}: when the machine crashes, acknowledged writes of the last "
                f"{'two seconds' if fsync == 'everysec' else 'half minute or so'} are lost"
            )
        policy = told.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            what = "rows of documents" if policy.startswith("allkeys") else "the lock of writers"
            found.append(
                f"maxmemory-policy is {policy}: when memory is full, the server evicts {what}. "
                "Set noeviction, which refuses writes"
            )
        if (evicted := told.get("evicted_keys", "0")) != "0":
            found.append(
                f"the server has evicted {evicted} keys since it started. Run 'simhbase check', and set "
                "maxmemory-policy noeviction"
            )
        if told.get("connected_slaves", "0") != "0" and not self._client.address.replicas:
            found.append(
                "replicas follow later: a failover loses what was acknowledged shortly before. replicas=1 in "
                "the URL waits for one of them"
            )
        return found

    @understanding("counts")
    def _setting(self, name: str) -> str | None:
        """A setting of the server, if the user may ask."""
        with suppress(StoreFailed):
            found: list[bytes] = self._client.read("asking", "CONFIG", "GET", name)
            return found[1].decode() if found else None
        return None
