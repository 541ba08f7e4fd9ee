"""Lost and damaged files of a RocksDB store: each is an error, or the answer is whole."""

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest

import simhbase
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.profile import Profile
from simhbase.stores.base import Access
from tests.command_line import run

VALUES = np.random.default_rng(7).integers(0, 2**64, 200, dtype=np.uint64)
IDS = [f"doc/{number:03d}" for number in range(len(VALUES))]
ACCESS: tuple[Access, ...] = ("read", "write")
Damage = Callable[[Path], object]


def add(index: Index, part: slice = slice(None)) -> None:
    index.add_batch(IDS[part], FingerprintBatch.bare(VALUES[part]))


def build(folder: Path) -> Path:
    """A store of which each table has one data file."""
    with simhbase.open(f"rocksdb:{folder}", create=Profile(verify=False)) as index:
        add(index)
        index.store.compact(whole=True)
    return folder


KILLED = """
import os, sys
import simhbase
from tests.integration.test_rocksdb_damage import add
index = simhbase.open(sys.argv[1])
for start in range(0, 200, 20):
    add(index, slice(start, start + 20))
    if start == 60 and sys.argv[2] == "flushed":
        for table in index.store.database.families.values():
            table.flush()
os.kill(os.getpid(), 9)
"""


def build_by_killed(folder: Path, flushed: str) -> Path:
    """A store with all or most documents in its log, whose writer was killed."""
    simhbase.open(f"rocksdb:{folder}", create=Profile(verify=False)).close()
    subprocess.run([sys.executable, "-c", KILLED, f"rocksdb:{folder}", flushed], check=False, timeout=60)
    return folder


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("closed") / "store")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_by_killed(tmp_path_factory.mktemp("killed") / "store", "in the log")


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_by_killed(tmp_path_factory.mktemp("flushed") / "store", "flushed")


def copy_of(store: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(store, to))


def the(store: Path, pattern: str) -> Path:
    (file,) = store.glob(pattern)
    return file


def found_in(index: Index) -> int:
    """How many documents are found by their fingerprints."""
    lookups = zip(IDS, index.find_batch(FingerprintBatch.bare(VALUES)), strict=True)
    return sum(name in [match.id for match in lookup.matches] for name, lookup in lookups)


def assert_whole(index: Index) -> None:
    assert found_in(index) == len(IDS)
    assert all(index.documents(IDS))


def outcome(store: Path, access: Access) -> str:
    """What an opening and complete reading ended with: the error, or the number of documents found."""
    try:
        with simhbase.open(f"rocksdb:{store}", access=access) as index:
            there = sum(each is not None for each in index.documents(IDS))
            return f"{there} stored, {found_in(index)} found, {len(index)} counted"
    except StoreFailed as error:
        return str(error)


WHOLE = "200 stored, 200 found, 200 counted"


def flip(at: int) -> Damage:
    def change(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[at] ^= 4
        file.write_bytes(content)

    return change


def cut(share: float) -> Damage:
    return lambda file: os.truncate(file, int(file.stat().st_size * share))


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


LOSSES: dict[str, Damage] = {
    "lost": Path.unlink,
    "empty": cut(0),
    "cut": cut(0.5),
    "a folder": make_folder,
    "a flip in its footer": flip(-20),
}


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_damaged_data_file_is_named_whichever_table_it_belongs_to(
    closed: Path, tmp_path: Path, loss: str, access: Access
) -> None:
    """A reader took the table for an empty one."""
    names = [file.name for file in closed.glob("*.sst")]
    assert len(names) == 4
    for name in names:
        store = copy_of(closed, tmp_path / "copy")
        LOSSES[loss](store / name)
        said = outcome(store, access)
        assert name in said
        assert "simhbase tables restore" in said


def test_flips_in_data_files_are_errors_or_harmless(closed: Path, tmp_path: Path) -> None:
    """Each block has a checksum."""
    chance = random.Random(3)
    for file in closed.glob("*.sst"):
        for at in [chance.randrange(file.stat().st_size) for _ in range(5)]:
            store = copy_of(closed, tmp_path / "copy")
            flip(at)(store / file.name)
            said = outcome(store, "read")
            assert said == WHOLE or file.name in said


def exchange_files(store: Path) -> None:
    """The files of two tables change their names."""
    first, second = sorted(store.glob("*.sst"))[:2]
    first.rename(store / "kept")
    second.rename(first)
    (store / "kept").rename(second)


def take_files_of_another_store(store: Path) -> None:
    other = build(store.with_name("other"))
    for file in store.glob("*.sst"):
        shutil.copy(other / file.name, file)


@pytest.mark.parametrize("mix", [exchange_files, take_files_of_another_store])
@pytest.mark.parametrize("access", ACCESS)
def test_files_of_another_table_or_store_are_refused(
    closed: Path, tmp_path: Path, mix: Damage, access: Access
) -> None:
    store = copy_of(closed, tmp_path / "copy")
    mix(store)
    assert "Corruption" in outcome(store, access)


@pytest.mark.parametrize("damage", [*LOSSES.values(), flip(3)], ids=[*LOSSES, "a flip"])
@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*"])
def test_nothing_is_built_over_data_files_that_no_manifest_names(
    closed: Path, tmp_path: Path, pattern: str, damage: Damage
) -> None:
    """A store without CURRENT said that there is none, and a load created it again."""
    store = copy_of(closed, tmp_path / "copy")
    file = the(store, pattern)
    if file.name == "CURRENT" and damage is LOSSES["a flip in its footer"]:
        damage = flip(-2)
    damage(file)
    files = {file.name for file in store.glob("*.sst")}
    for access in ACCESS:
        said = outcome(store, access)
        assert "CURRENT" in said or "MANIFEST" in said
        assert "simhbase tables restore" in said
    with pytest.raises(StoreFailed, match=r"CURRENT|MANIFEST"):
        simhbase.open(f"rocksdb:{store}", create=Profile(verify=False))
    assert {file.name for file in store.glob("*.sst")} == files


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_flip_in_the_log_is_an_error(killed: Path, tmp_path: Path, share: float, access: Access) -> None:
    """It dropped all acknowledged writes behind it."""
    store = copy_of(killed, tmp_path / "copy")
    log = the(store, "*.log")
    flip(int(log.stat().st_size * share))(log)
    assert "Corruption" in outcome(store, access)
    assert "simhbase tables restore" in outcome(store, access)


@pytest.mark.parametrize("access", ACCESS)
def test_a_log_that_a_crash_has_cut_opens_with_all_before_the_cut(
    killed: Path, tmp_path: Path, access: Access
) -> None:
    store = copy_of(killed, tmp_path / "copy")
    assert outcome(store, access) == WHOLE
    store = copy_of(killed, tmp_path / "copy")
    log = the(store, "*.log")
    os.truncate(log, log.stat().st_size - 3)
    assert outcome(store, access) == "180 stored, 180 found, 180 counted"


@pytest.mark.parametrize("access", ACCESS)
def test_a_log_that_is_missing_is_an_error(killed: Path, tmp_path: Path, access: Access) -> None:
    """As in a folder that was copied while its writer went on to the next log."""
    store = copy_of(killed, tmp_path / "copy")
    the(store, "*.log").unlink()
    assert "log, or a later one, is missing" in outcome(store, access)


@pytest.mark.parametrize("access", ACCESS)
def test_a_manifest_that_lacks_what_came_before_the_log_is_an_error(
    flushed: Path, tmp_path: Path, access: Access
) -> None:
    """As in a folder that was copied while its writer flushed: 80 documents were not there."""
    store = copy_of(flushed, tmp_path / "copy")
    assert outcome(store, access) == WHOLE
    manifest = the(flushed, "MANIFEST-*")
    store = copy_of(flushed, tmp_path / "copy")
    for size in range(manifest.stat().st_size - 1, 0, -97):
        os.truncate(store / manifest.name, size)
        said = outcome(store, access)
        assert said == WHOLE or "MANIFEST" in said
        store = copy_of(flushed, tmp_path / "copy")


@pytest.mark.parametrize(
    "command",
    [
        ["find", "--id", IDS[0]],
        ["list"],
        ["stats"],
        ["check"],
        ["check", "--repair"],
        ["vacuum"],
        ["delete", "--older-than", "30d"],
        ["tables", "check"],
        ["tables", "describe"],
        ["tables", "create"],
        ["tables", "snapshot", "copy-of-it"],
        ["migrate", "--to", "rocksdb:good", "--delete-missing"],
        ["migrate", "--store", "rocksdb:good", "--to", "rocksdb:bad", "--delete-missing"],
        ["tables", "restore", "bad", "--store", "rocksdb:restored"],
    ],
    ids=" ".join,
)
def test_every_command_fails_on_a_store_with_a_lost_file(
    closed: Path, tmp_path: Path, command: list[str]
) -> None:
    """`migrate --delete-missing` deleted every document of the good copy."""
    good = copy_of(closed, tmp_path / "good")
    for name in sorted(file.name for file in closed.glob("*.sst")):
        bad = copy_of(closed, tmp_path / "bad")
        (bad / name).unlink()
        done = run(*command, cwd=tmp_path, SIMHBASE_STORE="rocksdb:bad")
        assert done.returncode == 1, done
        assert name in done.stderr.decode()
        assert not done.stdout
    assert outcome(good, "read") == WHOLE


def test_a_profile_that_is_lost_is_no_interrupted_creation(tmp_path: Path) -> None:
    """The advice was to run the creation again."""
    url = f"rocksdb:{build(tmp_path / 'store')}"
    with simhbase.open(url) as index:
        index.store.records("meta").delete([b"profile"])
    for opening in (
        lambda: simhbase.open(url, access="read"),
        lambda: simhbase.open(url),
        lambda: simhbase.open(url, create=Profile(verify=False)),
    ):
        with pytest.raises(StoreFailed, match=r"holds documents.*lost the profile"):
            opening()


def test_a_file_that_is_lost_while_it_is_open_is_noticed_when_the_files_change(tmp_path: Path) -> None:
    url = f"rocksdb:{build(tmp_path / 'store')}"
    with simhbase.open(url) as writer, simhbase.open(url, access="read") as reader:
        lost = next((tmp_path / "store").glob("*.sst"))
        lost.unlink()
        assert all(reader.documents(IDS)), "an open file can be read"
        writer.delete(IDS[:1])
        for table in writer.store.database.families.values():
            table.flush()
        with pytest.raises(StoreFailed, match=lost.name):
            reader.find_batch(FingerprintBatch.bare(VALUES))


def rewrite(url: str, stop: Event) -> None:
    """Writes, flushes and compacts without a pause."""
    chance = random.Random(1)
    with simhbase.open(url) as index:
        while not stop.is_set():
            for _ in range(3):
                some = chance.sample(range(len(IDS)), 20)
                tags = [(("n", str(chance.random())),)] * len(some)
                index.add_batch([IDS[each] for each in some], FingerprintBatch.bare(VALUES[some]), tags)
            index.store.compact(whole=True)


@pytest.mark.parametrize("lookups", [40, pytest.param(4000, marks=pytest.mark.full)])
def test_readers_beside_a_writer_that_compacts_find_every_document(tmp_path: Path, lookups: int) -> None:
    """Openings lacked files that a compaction had removed meanwhile: 20 of 5,000 lookups found nothing."""
    url = f"rocksdb:{build(tmp_path / 'store')}"
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    writer = spawn.Process(target=rewrite, args=(url, stop))
    writer.start()
    try:
        follower = simhbase.open(url, access="read")
        for number in range(lookups):
            assert_whole(follower)
            if number % 4 == 0:
                with simhbase.open(url, access="read") as opened:
                    assert_whole(opened)
        follower.close()
        assert writer.is_alive()
    finally:
        stop.set()
        writer.join(60)
