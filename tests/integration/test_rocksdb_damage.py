"""Lost and damaged files of a RocksDB store: each is an error, or the answer is whole."""

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from rocksdict import AccessType, Options, Rdict

import simhbase
from simhbase.errors import StoreBusy, StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.profile.profile import Profile
from simhbase.stores.base import Access
from simhbase.stores.rocksdb import follower
from simhbase.stores.rocksdb.memory import Memory
from simhbase.stores.rocksdb.note import NOTE
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
    (folder / NOTE).unlink()  # its copies would be refused, although nothing writes meanwhile
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
    said = outcome(store, access)
    assert ".sst" in said
    assert "simhbase tables restore" in said


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


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", NOTE])
@pytest.mark.parametrize("access", ACCESS)
def test_an_end_that_a_closed_store_has_lost_is_an_error(
    closed: Path, tmp_path: Path, pattern: str, access: Access
) -> None:
    """22 of 55 manifests that were cut opened, and lacked documents."""
    file = the(closed, pattern)
    size = file.stat().st_size
    for end in {size - 1, *range(0, size, 1 + size // 8)}:
        store = copy_of(closed, tmp_path / "copy")
        os.truncate(store / file.name, end)
        kept = {each.name for each in store.iterdir()}
        said = outcome(store, access)
        assert file.name in said or "CURRENT" in said
        assert "simhbase tables restore" in said
        assert {each.name for each in store.iterdir()} >= kept


@pytest.mark.parametrize("access", ACCESS)
def test_a_log_added_to_a_closed_store_is_an_error(closed: Path, tmp_path: Path, access: Access) -> None:
    """As in a folder that was copied over another one."""
    store = copy_of(closed, tmp_path / "copy")
    shutil.copy(the(store, "*.log"), store / "999999.log")
    assert "999999.log changed after the store was closed" in outcome(store, access)


def hard_linked(store: Path, to: Path) -> Path:
    return Path(shutil.copytree(store, to, copy_function=os.link))


def snapshot(store: Path, to: Path) -> Path:
    assert run("tables", "snapshot", to, "--store", f"rocksdb:{store}", cwd=store).returncode == 0
    return to


def moved(store: Path, to: Path) -> Path:
    return store.rename(to)


@pytest.mark.parametrize("way", [copy_of, hard_linked, snapshot, moved])
def test_copies_of_a_closed_store_are_whole_and_may_be_written(
    closed: Path, tmp_path: Path, way: Callable[[Path, Path], Path]
) -> None:
    """The note of the closed store is true of them, and writing to one leaves the other as it is."""
    original = copy_of(closed, tmp_path / "original")
    copy = way(original, tmp_path / "copy")
    with simhbase.open(f"rocksdb:{copy}") as index:
        index.delete(IDS[:1])
    assert outcome(copy, "read") == "199 stored, 199 found, 199 counted"
    if original.exists():
        assert outcome(original, "read") == WHOLE
        assert outcome(original, "write") == WHOLE


def test_a_store_whose_writer_was_killed_opens_where_it_lies_and_its_copies_are_refused(
    tmp_path: Path,
) -> None:
    """A copy of it looks like one that was made while the writer wrote."""
    store = build(tmp_path / "store")
    subprocess.run([sys.executable, "-c", KILLED, f"rocksdb:{store}", ""], check=False, timeout=60)
    copies = [copy_of(store, tmp_path / "copy"), hard_linked(store, tmp_path / "linked")]
    for copy in copies:
        for access in ACCESS:
            assert "its folder is a copy" in outcome(copy, access)
    (copies[0] / NOTE).unlink()
    for readable in (copies[0], store):
        assert outcome(readable, "read") == WHOLE
        assert outcome(readable, "write") == WHOLE
        assert outcome(copy_of(readable, tmp_path / "again"), "read") == WHOLE


@pytest.mark.parametrize("copies", [4, pytest.param(100, marks=pytest.mark.full)])
def test_a_copy_made_while_a_process_writes_is_an_error(tmp_path: Path, copies: int) -> None:
    """Copies opened, and lacked documents that were acknowledged before."""
    store = build(tmp_path / "store")
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    writer = spawn.Process(target=rewrite, args=(f"rocksdb:{store}", stop))
    writer.start()
    try:
        manifest = the(store, "MANIFEST-*")
        while manifest.exists() and writer.is_alive():  # until it has opened the store
            pass
        for _ in range(copies):
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            subprocess.run(["cp", "-r", store, tmp_path / "copy"], check=False, capture_output=True)
            for access in ACCESS:
                assert "its folder is a copy" in outcome(tmp_path / "copy", access)
        assert writer.is_alive()
    finally:
        stop.set()
        writer.join(60)
    assert outcome(copy_of(store, tmp_path / "copy"), "read") == WHOLE


@pytest.mark.parametrize("file", ["OPTIONS-*", "IDENTITY", "rocksdict-config.json"])
@pytest.mark.parametrize("access", ACCESS)
def test_a_damaged_file_without_rows_is_named_or_not_needed(
    closed: Path, tmp_path: Path, file: str, access: Access
) -> None:
    for damage in (*LOSSES.values(), flip(3)):
        store = copy_of(closed, tmp_path / "copy")
        damaged = max(store.glob(file))
        damage(damaged)
        said = outcome(store, access)
        assert said == WHOLE or damaged.name in said


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may enter."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def another_user() -> Iterator[None]:
    """Root becomes nobody meanwhile."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_that_may_not_be_written_with_a_lost_file_names_the_file(closed: Path, public: Path) -> None:
    """Readers link its files to a folder of their own."""
    store = copy_of(closed, public / "store")
    for name in [file.name for file in closed.glob("*.sst")]:
        content = (store / name).read_bytes()
        (store / name).unlink()
        store.chmod(0o555)
        with another_user():
            assert name in outcome(store, "read")
        store.chmod(0o755)
        (store / name).write_bytes(content)
    store.chmod(0o555)
    with another_user():
        assert outcome(store, "read") == WHOLE


def test_a_file_that_may_not_be_read_is_named(closed: Path, public: Path) -> None:
    store = copy_of(closed, public / "store")
    store.chmod(0o555)
    for file in store.iterdir():
        if file.name in ("LOG", "LOCK") or "LOG.old" in file.name:
            continue
        mode = file.stat().st_mode
        file.chmod(0)
        with another_user():
            said = outcome(store, "read")
        assert said == WHOLE or (file.name in said and "read permission" in said), file
        file.chmod(mode)
    store.chmod(0o755)


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Syncing a file whose path contains FAULT_PATH fails from the call number FAULT_FIRST on. */
static int fails(int file) {
    static int count;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, getenv("FAULT_PATH"))) return 0;
    return __sync_add_and_fetch(&count, 1) >= atoi(getenv("FAULT_FIRST"));
}
#define SYNC(name) \
    int name(int file) { \
        if (fails(file)) { errno = EIO; return -1; } \
        return ((int (*)(int))dlsym(RTLD_NEXT, #name))(file); \
    }
SYNC(fsync)
SYNC(fdatasync)
"""

REFUSED = """
import sys
import simhbase
from tests.integration.test_rocksdb_damage import add
index = None
for start in range(0, 200, 20):
    try:
        index = index or simhbase.open(sys.argv[1])
        add(index, slice(start, start + 20))
        print(start)
        index.store.sync()
        index.store.compact(whole=True)
        index.close()
        index = None
    except simhbase.SimhbaseError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"], cwd=folder, check=True)
    return folder / "shim.so"


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD")
@pytest.mark.parametrize(
    "path",
    ["MANIFEST", NOTE, *(pytest.param(each, marks=pytest.mark.full) for each in (".log", ".sst", "/store"))],
)
def test_a_disk_that_fails_to_sync_is_no_damaged_file_and_loses_nothing(
    tmp_path: Path, shim: Path, path: str
) -> None:
    """The advice was to restore a snapshot."""
    store = tmp_path / "store"
    simhbase.open(f"rocksdb:{store}", create=Profile(verify=False)).close()
    fault = {"LD_PRELOAD": str(shim), "FAULT_PATH": path, "FAULT_FIRST": "3"}
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, f"rocksdb:{store}"],
        env={**os.environ, **fault},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said = done.stdout.splitlines()
    acknowledged = [int(line) for line in said if line.isdigit()]
    errors = [line for line in said if not line.isdigit()]
    assert errors
    assert all("disk" in line and "restore" not in line for line in errors), errors
    for access in ACCESS:
        with simhbase.open(f"rocksdb:{store}", access=access) as index:
            assert all(all(index.documents(IDS[start : start + 20])) for start in acknowledged)


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


def test_a_file_that_is_lost_while_a_reader_opens_is_named(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at all files and the opening behind it, RocksDB left the file out."""
    real = follower.open_rdict
    for name in sorted(file.name for file in closed.glob("*.sst")):
        store = copy_of(closed, tmp_path / "copy")

        def opened(path: Path, options: Options, access: AccessType, memory: Memory) -> Rdict:
            found = real(path, options, access, memory)
            (store / name).unlink(missing_ok=True)  # noqa: B023  # called within the loop
            return found

        monkeypatch.setattr(follower, "open_rdict", opened)
        said = outcome(store, "read")
        assert f"{name} cannot be opened any more" in said
        assert "simhbase tables restore" in said


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


@pytest.mark.parametrize("lookups", [12, pytest.param(4000, marks=pytest.mark.full)])
def test_readers_beside_a_writer_that_compacts_find_every_document(tmp_path: Path, lookups: int) -> None:
    """Openings lacked files that a compaction had removed meanwhile: 20 of 5,000 lookups found nothing."""
    url = f"rocksdb:{build(tmp_path / 'store')}"
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    writer = spawn.Process(target=rewrite, args=(url, stop))
    writer.start()
    try:
        follower = simhbase.open(url, access="read")
        answered = 0
        while answered < lookups and writer.is_alive():
            with suppress(StoreBusy):  # says that the files change faster than they can be opened
                assert_whole(follower)
                answered += 1
                if answered % 4 == 0:
                    with simhbase.open(url, access="read") as opened:
                        assert_whole(opened)
        follower.close()
        assert writer.is_alive()
    finally:
        stop.set()
        writer.join(60)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def leading_to(target: str) -> Damage:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize(
    "place", [pipe, leading_to("../victim"), leading_to("/dev/zero")], ids=["pipe", "file", "device"]
)
@pytest.mark.parametrize(
    "name", [NOTE, "rocksdict-config.json", "LOCK", "999999.log", "MANIFEST-999999", "ingest", "ingest/index"]
)
def test_a_folder_of_a_stranger_leads_nowhere(
    closed: Path, tmp_path: Path, name: str, place: Damage, access: Access
) -> None:
    victim, store = tmp_path / "victim", copy_of(closed, tmp_path / "store")
    victim.write_text("of another")
    (store / name).parent.mkdir(exist_ok=True)
    (store / name).unlink(missing_ok=True)
    place(store / name)
    with pytest.raises(StoreFailed, match=f"{Path(name).name} in its folder is a link, pipe or device"):
        simhbase.open(f"rocksdb:{store}", access=access)
    salvaged = ("migrate", "--store", f"rocksdb:{store}", "--to", f"rocksdb:{tmp_path / 'new'}")
    done = run(*salvaged, "--salvage", "lost.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert b"is a link, pipe or device" in done.stderr
    assert victim.read_text() == "of another"


def test_a_store_is_not_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "rocksdict-config.json").symlink_to("../victim")
    with pytest.raises(StoreFailed, match="is a link"):
        simhbase.open(f"rocksdb:{tmp_path / 'store'}", create="default")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("access", ACCESS)
def test_a_file_of_others_that_is_named_like_a_log_is_no_log(
    killed: Path, tmp_path: Path, access: Access
) -> None:
    store = copy_of(killed, tmp_path / "store")
    (store / "load.log").write_text("of a user")
    with simhbase.open(f"rocksdb:{store}", access=access) as index:
        assert_whole(index)


def test_a_large_file_in_a_store_takes_little_memory(closed: Path, tmp_path: Path) -> None:
    store = copy_of(closed, tmp_path / "store")
    with (store / "MANIFEST-999999").open("wb") as file:
        file.truncate(1 << 28)
    tracemalloc.start()
    try:
        assert "MANIFEST-999999 changed after the store was closed" in outcome(store, "read")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 25


def test_a_reader_opens_again_through_no_link(tmp_path: Path) -> None:
    store, victim = f"rocksdb:{tmp_path / 'store'}", tmp_path / "victim"
    victim.write_text("of another")
    simhbase.open(store, create="default").close()
    with simhbase.open(store, access="read") as index:
        (tmp_path / "new.jsonl").write_text('{"id": "a", "text": "a text that is stored by another process"}')
        assert run("load", "--store", store, "new.jsonl", cwd=tmp_path).returncode == 0
        (tmp_path / "store" / "rocksdict-config.json").unlink()
        (tmp_path / "store" / "rocksdict-config.json").symlink_to("../victim")
        with pytest.raises(StoreFailed, match="is a link"):
            index.fingerprints(["a"])
    assert victim.read_text() == "of another"


@pytest.mark.parametrize("place", [pipe, leading_to("../victim")], ids=["pipe", "folder"])
@pytest.mark.parametrize("name", ["ingest", "archive"])
def test_a_folder_of_a_stranger_is_not_dropped(tmp_path: Path, name: str, place: Damage) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "000123.log").write_text("of another")
    simhbase.open(f"rocksdb:{tmp_path / 'store'}", create="default").close()
    place(tmp_path / "store" / name)
    with pytest.raises(StoreFailed, match=f"{name} in its folder is a link"):
        simhbase.tables.drop(f"rocksdb:{tmp_path / 'store'}")
    assert (tmp_path / "victim" / "000123.log").read_text() == "of another"
