"""Copying what can be read of a store with lost and damaged files or keys: what is not copied is listed."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import simhbase
from simhbase.admin.salvage import OLDER, UNLISTED, UNTAGGED, Loss, SalvageReport, salvage
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreBusy, StoreFailed, TablesMissing, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.profile.profile import Profile
from simhbase.stores import open_store
from simhbase.stores.rocksdb.note import NOTE
from tests.command_line import run
from tests.integration.test_rocksdb_damage import LOSSES, copy_of, cut, flip, the
from tests.redis import Redis

DOCUMENTS = 3_000
PROFILES = {"bare": Profile(verify=False), "verified": Profile(), "minhash": Profile(scheme="minhash")}
VALUES = np.random.default_rng(11).integers(0, 2**64, DOCUMENTS, dtype=np.uint64)
IDS = [f"https://example.org/news/{number:05d}" for number in range(DOCUMENTS)]
Damage = Callable[[Path], object]
Tags = tuple[tuple[str, str], ...]


def full(value: object) -> Any:
    """A parameter that is tested with --full."""
    return pytest.param(value, marks=pytest.mark.full)


class Built(NamedTuple):
    """A store of which each table has files of several levels. stored: fingerprints and tags by id."""

    folder: Path
    profile: Profile
    stored: dict[str, tuple[int, Tags]]

    def files(self, table: str) -> list[str]:
        """Names of the data files of a table."""
        with closing(open_store(f"rocksdb:{self.folder}", "read")) as store:
            live = store.database.rdict.live_files()
        return sorted(each["name"].strip("/") for each in live if table_of(each["start_key"]) == table)


def table_of(key: bytes) -> str:
    """The table of a key."""
    for table, size in (("documents", 4), ("fingerprints", 8)):
        if key[size:].startswith(b"https:"):
            return table
    return "index" if len(key) == KEY_BYTES else "meta"


def batch(profile: Profile, values: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> FingerprintBatch:
    """Fingerprints with sketches that are made of them."""
    if profile.sketching is None:
        return FingerprintBatch.bare(values)
    size = profile.sketching.bytes
    repeated = np.tile(values.view(np.uint8).reshape(-1, 8), (1, -(-size // 8)))[:, :size]
    return FingerprintBatch(values, np.ascontiguousarray(repeated))


def build(folder: Path, profile: Profile) -> Built:
    """Documents that are added, updated and deleted; the files of each step are kept apart."""
    stored: dict[str, tuple[int, Tags]] = {}

    def add(
        index: simhbase.Index, numbers: range, values: "np.ndarray[tuple[int], np.dtype[np.uint64]]"
    ) -> None:
        tags: list[Tags] = [(("n", str(number % 7)),) if number % 3 else () for number in numbers]
        names = [IDS[number] for number in numbers]
        index.add_batch(names, batch(profile, values), tags)
        stored.update(zip(names, zip(values.tolist(), tags, strict=True), strict=True))

    def delete(index: simhbase.Index, numbers: range) -> None:
        index.delete([IDS[number] for number in numbers])
        for number in numbers:
            del stored[IDS[number]]

    with simhbase.open(f"rocksdb:{folder}", create=profile) as index:
        add(index, range(2000), VALUES[:2000])
        index.mute(["other"], note="kept")
        index.store.compact(whole=True)
        add(index, range(2000, 2800), VALUES[2000:2800])
        delete(index, range(100))
        flush(index)
        add(index, range(1500, 1700), VALUES[1500:1700] ^ np.uint64(0xF0F0))
        delete(index, range(2000, 2100))
        flush(index)
        add(index, range(2800, 3000), VALUES[2800:])
    return Built(folder, profile, stored)


def flush(index: simhbase.Index) -> None:
    for table in index.store.database.families.values():
        table.flush()


@pytest.fixture(scope="module", params=PROFILES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp(request.param) / "store", PROFILES[request.param])


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("plain") / "store", PROFILES["bare"])


def salvaged(store: Path, to: Path, **options: object) -> tuple[SalvageReport, list[Loss]]:
    """The result, after a comparison of every byte of the damaged folder with what was there before."""
    before = content(store)
    lost: list[Loss] = []
    shutil.rmtree(to, ignore_errors=True)
    report = salvage(f"rocksdb:{store}", f"rocksdb:{to}", lost=lost.append, **options)
    assert content(store) == before
    return report, lost


def content(folder: Path) -> dict[str, object]:
    return {
        file.name: (sha256(file.read_bytes()).digest(), file.stat().st_mtime_ns) if file.is_file() else None
        for file in folder.iterdir()
    }


def assert_accounted_for(built: Built, to: Path, lost: list[Loss], *, may_lack: bool = False) -> int:
    """Every document is in the copy as it was, or listed. may_lack: or neither, as its writes are nowhere.
    Returns how many are in the copy as they were."""
    listed = {loss.id: loss for loss in lost if loss.id}
    with simhbase.open(f"rocksdb:{to}", access="read") as index:
        there = {
            each.id: (int(each.fingerprint), tuple(sorted(each.tags.items()))) for each in index.stored()
        }
        found = zip(built.stored, index.fingerprints(list(built.stored)), strict=True)
        assert all(value is None or name in there for name, value in found)
    wrong = {name for name, each in there.items() if built.stored.get(name) != each}
    missing = built.stored.keys() - there.keys()
    assert wrong <= listed.keys(), f"{len(wrong - listed.keys())} are not as they were, and not listed"
    if not may_lack:
        assert missing <= listed.keys(), f"{len(missing - listed.keys())} are lost, and not listed"
    told = {name: loss.problem for name, loss in listed.items()}
    assert all(name in there for name, problem in told.items() if problem in (UNTAGGED, OLDER, UNLISTED))
    assert simhbase.check(f"rocksdb:{to}").clean
    return len(there) - len(wrong)


def test_a_sound_store_is_copied_as_a_whole(built: Built, tmp_path: Path) -> None:
    report, lost = salvaged(built.folder, tmp_path / "new")
    assert (report.whole, lost, report.documents) == (True, [], len(built.stored))
    assert assert_accounted_for(built, tmp_path / "new", lost) == len(built.stored)
    with simhbase.open(f"rocksdb:{tmp_path}/new", access="read") as index:
        assert [(each.id, each.note) for each in index.muted()] == [("other", "kept")]


def test_documents_of_a_lost_or_damaged_file_are_listed(built: Built, tmp_path: Path) -> None:
    """Those of other files are copied, and those whose listing says all but the tags."""
    files = built.files("documents")
    assert len(files) >= 3
    for name, damage in zip(cycle(files), LOSSES.values(), strict=False):
        store = copy_of(built.folder, tmp_path / "store")
        damage(store / name)
        report, lost = salvaged(store, tmp_path / "new")
        assert any(each.table == "documents" and name in each.problem for each in lost)
        assert report.damages
        assert_accounted_for(built, tmp_path / "new", lost)
        assert report.lost + report.doubtful < len(built.stored) * 4 // 5


def test_only_documents_of_a_damaged_block_are_lost(built: Built, tmp_path: Path) -> None:
    """Also behind it, and those of other files with ids between."""
    chance = random.Random(5)
    for name in built.files("documents"):
        store = copy_of(built.folder, tmp_path / "store")
        data = int((store / name).stat().st_size * 0.8)  # its index and filter lie behind
        flip(chance.randrange(data))(store / name)
        _, lost = salvaged(store, tmp_path / "new")
        as_they_were = assert_accounted_for(built, tmp_path / "new", lost)
        assert len(built.stored) * 0.85 < as_they_were < len(built.stored)


@pytest.mark.parametrize("table", ["index", "fingerprints"])
def test_documents_do_not_need_the_tables_that_lead_to_them(bare: Built, tmp_path: Path, table: str) -> None:
    """They are made again."""
    for name in bare.files(table):
        store = copy_of(bare.folder, tmp_path / "store")
        (store / name).unlink()
        report, lost = salvaged(store, tmp_path / "new")
        assert (report.added, report.lost, report.doubtful) == (len(bare.stored), 0, 0)
        assert report.whole == (table == "index")
        assert assert_accounted_for(bare, tmp_path / "new", lost) == len(bare.stored)


def test_sketches_of_a_lost_file_of_listings_are_lost(tmp_path: Path) -> None:
    built = build(tmp_path / "made", PROFILES["minhash"])
    for name in built.files("fingerprints"):
        store = copy_of(built.folder, tmp_path / "store")
        (store / name).unlink()
        report, lost = salvaged(store, tmp_path / "new")
        assert report.lost > 0
        assert_accounted_for(built, tmp_path / "new", lost)


@pytest.mark.parametrize("damage", [Path.unlink, flip(3), *map(full, (cut(0), cut(0.5), cut(0.9), flip(-2)))])
@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", NOTE])
def test_all_is_copied_without_the_files_that_name_the_others(
    bare: Built, tmp_path: Path, pattern: str, damage: Damage
) -> None:
    store = copy_of(bare.folder, tmp_path / "store")
    damage(the(store, pattern))
    report, lost = salvaged(store, tmp_path / "new")
    assert report.added >= len(bare.stored)
    assert_accounted_for(bare, tmp_path / "new", lost)


def test_without_a_manifest_a_damaged_file_is_lost(built: Built, tmp_path: Path) -> None:
    for name in built.files("documents"):
        store = copy_of(built.folder, tmp_path / "store")
        the(store, "MANIFEST-*").unlink()
        flip(100)(store / name)
        _, lost = salvaged(store, tmp_path / "new")
        assert [each for each in lost if name in each.problem and "without a MANIFEST" in each.problem]
        assert_accounted_for(built, tmp_path / "new", lost)


KILLED = """
import os, sys
from tests.integration.test_salvage import DOCUMENTS, IDS, VALUES, batch, PROFILES, flush
import simhbase
index = simhbase.open(sys.argv[1])
for start in range(0, DOCUMENTS, 100):
    part = slice(start, start + 100)
    index.add_batch(IDS[part], batch(index.profile, VALUES[part]))
    if start == 1000:
        flush(index)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Most documents are in the log."""
    folder = tmp_path_factory.mktemp("killed") / "store"
    simhbase.open(f"rocksdb:{folder}", create=PROFILES["bare"]).close()
    subprocess.run([sys.executable, "-c", KILLED, f"rocksdb:{folder}"], check=False, timeout=60)
    stored: dict[str, tuple[int, Tags]] = {
        name: (value, ()) for name, value in zip(IDS, VALUES.tolist(), strict=True)
    }
    return Built(folder, PROFILES["bare"], stored)


@pytest.mark.parametrize("share", [0.3, *map(full, (0.05, 0.5, 0.9))])
def test_writes_before_and_far_behind_a_flip_in_the_log_are_copied(
    killed: Built, tmp_path: Path, share: float
) -> None:
    """The log goes on with its next block of 32 KiB."""
    store = copy_of(killed.folder, tmp_path / "store")
    (store / NOTE).unlink()
    log = the(store, "*.log")
    at = int(log.stat().st_size * share)
    flip(at)(log)
    report, lost = salvaged(store, tmp_path / "new")
    assert any("a damaged place of a log" in each.problem for each in lost)
    as_they_were = assert_accounted_for(killed, tmp_path / "new", lost, may_lack=True)
    bytes_a_document = log.stat().st_size / (DOCUMENTS - 1100)
    assert as_they_were == report.added
    assert DOCUMENTS - as_they_were < 3 * 32768 / bytes_a_document + 200


@pytest.mark.parametrize("share", [0, 0.5])
def test_the_end_of_a_log_may_be_missing_after_a_kill(killed: Built, tmp_path: Path, share: float) -> None:
    store = copy_of(killed.folder, tmp_path / "store")
    (store / NOTE).unlink()
    log = the(store, "*.log")
    os.truncate(log, int(log.stat().st_size * share))
    report, lost = salvaged(store, tmp_path / "new")
    assert not report.whole
    assert ["did not close the store" in each.problem for each in lost] == [True]


def test_a_lost_log_is_named(killed: Built, tmp_path: Path) -> None:
    store = copy_of(killed.folder, tmp_path / "store")
    the(store, "*.log").unlink()
    report, lost = salvaged(store, tmp_path / "new")
    assert any("log" in each.problem and "missing" in each.problem for each in lost)
    assert assert_accounted_for(killed, tmp_path / "new", lost, may_lack=True) == report.added >= 1100


def test_a_lost_table_of_meta_is_replaced_by_a_given_profile(built: Built, tmp_path: Path) -> None:
    store = copy_of(built.folder, tmp_path / "store")
    for name in built.files("meta"):
        (store / name).unlink()
    with pytest.raises(StoreFailed, match=r"lost the profile.*--profile FILE"):
        salvaged(store, tmp_path / "new")
    report, lost = salvaged(store, tmp_path / "new", profile=built.profile)
    assert (report.added, report.lost, report.whole) == (len(built.stored), 0, False)
    assert_accounted_for(built, tmp_path / "new", lost)


def test_random_damage_of_several_files_leaves_nothing_unsaid(built: Built, tmp_path: Path) -> None:
    """Of documents that are listed, each is copied or told."""
    chance = random.Random(9)
    for _ in range(3):
        store = copy_of(built.folder, tmp_path / "store")
        for name in chance.sample(built.files("documents") + built.files("index"), 3):
            size = (store / name).stat().st_size
            damage = chance.choice([Path.unlink, cut(chance.random()), flip(chance.randrange(size))])
            damage(store / name)
        if chance.random() < 0.5:
            the(store, "MANIFEST-*").unlink()
        _, lost = salvaged(store, tmp_path / "new")
        assert_accounted_for(built, tmp_path / "new", lost)


def test_a_folder_that_may_not_be_written_is_read(bare: Built, tmp_path: Path) -> None:
    store = copy_of(bare.folder, tmp_path / "store")
    for file in (*store.iterdir(), store):
        file.chmod(0o555)
    try:
        assert salvaged(store, tmp_path / "new")[0].whole
    finally:
        store.chmod(0o755)


def test_a_store_that_a_process_writes_is_refused(bare: Built, tmp_path: Path) -> None:
    """In this process too, whose lock is not lost by it."""
    store = copy_of(bare.folder, tmp_path / "store")
    url, to = f"rocksdb:{store}", f"rocksdb:{tmp_path}/new"
    with simhbase.open(url) as index:
        with pytest.raises(StoreBusy, match="stop its writer"):
            salvage(url, to, lost=[].append)
        done = run("migrate", "--store", url, "--to", to, "--salvage", "lost.jsonl", cwd=tmp_path)
        assert done.returncode == 13, done
        index.delete(IDS[-1:])
    assert salvage(url, to, lost=[].append).added == len(bare.stored) - 1


@pytest.mark.parametrize("folder", ["nothing", "empty"])
def test_where_nothing_is_nothing_is_made(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TablesMissing, match="no store there"):
        salvage(f"rocksdb:{tmp_path / folder}", f"rocksdb:{tmp_path}/new", lost=[].append)
    assert {each.name for each in tmp_path.iterdir()} == {"empty"}


@pytest.mark.parametrize("is_linked", [False, True])
def test_the_damaged_store_is_no_target(bare: Built, tmp_path: Path, *, is_linked: bool) -> None:
    target = bare.folder
    if is_linked:
        target = tmp_path / "link"
        target.symlink_to(bare.folder)
    before = content(bare.folder)
    with pytest.raises(UsageError, match="is the store"):
        salvage(f"rocksdb:{bare.folder}", f"rocksdb:{target}", lost=[].append)
    assert content(bare.folder) == before


# The command


def migrate(folder: Path, *options: str) -> "subprocess.CompletedProcess[bytes]":
    source = ("--store", "rocksdb:store", "--to", "rocksdb:new")
    return run("migrate", *source, "--salvage", "lost.jsonl", *options, cwd=folder)


def test_the_command_lists_what_is_lost_and_ends_with_3(built: Built, tmp_path: Path) -> None:
    store = copy_of(built.folder, tmp_path / "store")
    name = built.files("documents")[0]
    (store / name).unlink()
    done = migrate(tmp_path, "--json")
    assert done.returncode == 3, done
    lines = [json.loads(line) for line in (tmp_path / "lost.jsonl").read_bytes().splitlines()]
    report = json.loads(done.stdout)
    assert len(lines) == report["lost"] + report["doubtful"] + report["damages"]
    assert {*lines[0]} == {"problem", "id", "fingerprint", "table"}
    assert b"lost.jsonl" in done.stderr
    told = {line["id"]: line["fingerprint"] for line in lines if line["id"]}
    assert all(built.stored[name][0] == int(told[name], 16) for name in told.keys() & built.stored.keys())
    again = migrate(tmp_path)
    assert again.returncode == 2, "the list exists"
    assert migrate(tmp_path, "--yes").returncode == 3


def test_the_command_ends_with_0_if_nothing_is_lost(bare: Built, tmp_path: Path) -> None:
    copy_of(bare.folder, tmp_path / "store")
    done = migrate(tmp_path)
    assert done.returncode == 0, done
    assert (tmp_path / "lost.jsonl").read_bytes() == b""


@pytest.mark.parametrize("option", ["--delete-missing", "--dry-run"])
def test_what_a_damaged_store_lacks_deletes_nothing(tmp_path: Path, option: str) -> None:
    done = migrate(tmp_path, option)
    assert done.returncode == 2
    assert b"--salvage cannot be combined" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_takes_a_profile(built: Built, tmp_path: Path) -> None:
    store = copy_of(built.folder, tmp_path / "store")
    for name in built.files("meta"):
        (store / name).unlink()
    assert b"--profile FILE" in migrate(tmp_path).stderr
    settings = {"bare": "verify=false", "verified": "verify=true", "minhash": "scheme=minhash"}
    (chosen,) = (settings[name] for name, each in PROFILES.items() if each == built.profile)
    done = migrate(tmp_path, "--set", chosen, "--yes", "--json")
    assert (done.returncode, json.loads(done.stdout)["added"]) == (3, len(built.stored))


# Redis


@pytest.fixture
def redis_store(redis: Redis) -> str:
    url = redis.empty_store("salvage")
    with simhbase.open(url, create=PROFILES["verified"]) as index:
        index.add_batch(IDS, batch(index.profile, VALUES))
    return url


def keys_of(redis: Redis, table: str) -> list[str]:
    return sorted(redis.command("KEYS", f"salvage:{table}:*"))


LOCK = (b"salvage:lock", b"salvage:unlocked")


def state(redis: Redis) -> tuple[set[object], object]:
    """All keys but those of the lock, which expire, and the counts."""
    keys = {key for key in redis.command("KEYS", "salvage:*") if not key.startswith(LOCK)}
    return keys, redis.command("HGETALL", "salvage:counts")


@pytest.mark.redis
@pytest.mark.parametrize(
    "lose",
    [
        lambda redis: redis.command("DEL", "salvage:documents"),
        lambda redis: redis.command("DEL", "salvage:documents", "salvage:fingerprints"),
        lambda redis: redis.command("DEL", "salvage:counts"),
        lambda redis: redis.command("DEL", *keys_of(redis, "documents")[:500]),
        lambda redis: redis.command("DEL", *keys_of(redis, "fingerprints")[:500]),
    ],
    ids=["a directory", "both directories", "counts", "sets of documents", "sets of listings"],
)
def test_what_redis_has_left_is_copied(
    redis: Redis, redis_store: str, tmp_path: Path, lose: Callable[[Redis], object]
) -> None:
    lose(redis)
    before = state(redis)
    lost: list[Loss] = []
    report = salvage(redis_store, f"rocksdb:{tmp_path}/new", lost=lost.append)
    assert state(redis) == before
    built = Built(
        tmp_path,
        PROFILES["verified"],
        {name: (value, ()) for name, value in zip(IDS, VALUES.tolist(), strict=True)},
    )
    as_they_were = assert_accounted_for(built, tmp_path / "new", lost)
    assert as_they_were == report.added == DOCUMENTS - report.lost
    assert report.lost == 0 or any("rows are there" in each.problem for each in lost)


@pytest.mark.redis
def test_redis_without_keys_has_no_store(redis: Redis, tmp_path: Path) -> None:
    url = redis.empty_store("nothing-there")
    with pytest.raises(TablesMissing, match="no keys with the prefix"):
        salvage(url, f"rocksdb:{tmp_path}/new", lost=[].append)
    assert list(tmp_path.iterdir()) == []
