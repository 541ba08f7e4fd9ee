"""What holds for rocksdb:PATH beyond the contract: who may open it, what readers see, what failures say."""

import errno
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.errors import ReadOnly, StoreBusy, StoreFailed, TablesMissing, UsageError
from simhbase.index import open_index
from simhbase.profile.profile import Profile
from simhbase.stores import create_store, drop_store, open_store
from simhbase.stores.base import Access, Changes, RecordTable, Store
from simhbase.stores.rocksdb import database, follower, note, salvage
from simhbase.stores.rocksdb.database import Database
from simhbase.stores.rocksdb.follower import Follower
from simhbase.stores.rocksdb.integrity import growth_of
from simhbase.stores.rocksdb.options import CONFIGURATION
from tests.limits import files_up_to

LAYOUT = layout("5x2")
FINGERPRINTS = np.random.default_rng(1).integers(0, 2**64, 500, dtype=np.uint64)
KEYS = encode(FINGERPRINTS, LAYOUT)
PREFIXES = np.unique(prefixes(FINGERPRINTS, LAYOUT).reshape(-1, PREFIX_BYTES), axis=0)
NO_TIMES = np.zeros(2500, dtype=np.int64)
FLUSHING = [(b"filler:%04d" % i, os.urandom(4096)) for i in range(3000)]  # more than a table keeps in memory


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"rocksdb:{tmp_path / 'store'}"


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Opens stores that the test need not close."""
    stores: list[Store] = []

    def remember(store: Store) -> Store:
        stores.append(store)
        return store

    yield remember
    for store in stores:
        store.close()


def folder(url: str) -> Path:
    return Path(url.removeprefix("rocksdb:"))


def there(store: Store, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows the index holds."""
    return store.drawers.times(keys) >= 0


def values(store: Store, table: RecordTable, *keys: bytes) -> list[bytes | None]:
    return [None if cell is None else cell.value for cell in store.records(table).get(keys)]


def flush_by_filling(store: Store) -> None:
    store.records("meta").put(FLUSHING)
    store.records("documents").put([(b"next", b"")])  # a write after the filling one starts the flush
    deadline = time.monotonic() + 60
    while not list(folder(store.url).glob("*.sst")):
        assert time.monotonic() < deadline, "nothing was flushed"
        time.sleep(0.01)
    time.sleep(0.1)  # until the manifest has it


# Opening


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_path_without_a_store_is_missing_and_stays_as_it_was(url: str, access: Access) -> None:
    with pytest.raises(TablesMissing, match="no store"):
        open_store(url, access)
    assert not folder(url).exists()


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_file_or_another_folder_is_no_store(tmp_path: Path, access: Access) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "file", tmp_path):
        with pytest.raises(TablesMissing, match="no store"):
            open_store(f"rocksdb:{path}", access)
        with pytest.raises(TablesMissing, match="no store"):
            drop_store(f"rocksdb:{path}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_store_is_not_created_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "file", tmp_path):
        with pytest.raises(UsageError, match="give the store its own folder"):
            create_store(f"rocksdb:{path}")


def test_a_url_without_a_path_is_refused() -> None:
    with pytest.raises(UsageError, match="folder"):
        create_store("rocksdb:")


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_path_that_rocksdb_cannot_open_is_refused_and_stays_as_it_was(
    tmp_path: Path, access: Access
) -> None:
    """File names in other encodings, as of old Latin-1 systems."""
    url = f"rocksdb:{tmp_path}/caf\udce9.db"
    for use in (open_store, create_store):
        with pytest.raises(UsageError, match="is not UTF-8, which RocksDB needs"):
            use(url, access)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("left", [[], ["rocksdict-config.json"]])
def test_a_creation_that_stopped_before_the_tables_is_missing_and_can_be_repeated(
    url: str, left: list[str]
) -> None:
    folder(url).mkdir()
    for name in left:
        (folder(url) / name).write_text("{}")
    with pytest.raises(TablesMissing):
        open_store(url, "write")
    create_store(url).close()
    open_store(url, "write").close()


def test_a_store_without_all_its_tables_is_missing_until_it_is_completed(url: str) -> None:
    from rocksdict import Options, Rdict

    half = Rdict(str(folder(url)), Options(raw_mode=True))
    half.create_column_family("index", Options(raw_mode=True)).close()
    half.close()
    for access in ("read", "write"):
        with pytest.raises(TablesMissing, match="documents, fingerprints, meta"):
            open_store(url, access)
    create_store(url).close()
    open_store(url, "read").close()


def test_a_store_in_a_relative_path_stays_where_it_is_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = create_store("rocksdb:store")
    reader = open_store("rocksdb:store", "read")
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.records("documents").put(FLUSHING)
    store.records("documents").put([(b"key", b"value")])
    store.sync()
    reader.refresh()
    assert values(reader, "documents", b"key") == [b"value"]
    store.close()
    reader.close()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_dropping_leaves_nothing_behind(url: str) -> None:
    store = create_store(url)
    store.drawers.add(KEYS)
    store.close()
    drop_store(url)
    assert not folder(url).exists()


def test_a_store_that_is_open_is_busy(url: str, opened: Callable[..., Store]) -> None:
    store = opened(create_store(url))
    for use in (lambda: open_store(url, "write"), lambda: create_store(url), lambda: drop_store(url)):
        with pytest.raises(StoreBusy, match=f"{url}.*Wait until"):
            use()
    store.drawers.add(KEYS)
    assert there(store, KEYS).all()


def test_another_process_that_writes_makes_it_busy_too(url: str, opened: Callable[..., Store]) -> None:
    opened(create_store(url))
    program = "import sys; from simhbase.stores import open_store; open_store(sys.argv[1], 'write')"
    ended = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=False)
    assert "StoreBusy" in ended.stderr


def test_a_lock_that_another_process_keeps_is_not_waited_for_without_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = create_store(url)
    monkeypatch.setattr(note, "LOCK_SECONDS", 0.1)
    lock = os.open(folder(url) / note.NOTE_LOCK, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    store.drawers.add(KEYS)
    store.close()
    with pytest.raises(StoreBusy, match="has a lock"):
        open_store(url, "write")
    os.close(lock)
    with closing(open_store(url, "write")) as store:
        assert there(store, KEYS).all()


@pytest.mark.parametrize(("of_folder", "of_locks"), [(0o755, 0o600), (0o775, 0o660), (0o777, 0o666)])
def test_only_those_who_may_write_can_lock_a_store(url: str, of_folder: int, of_locks: int) -> None:
    """Any user who might read LOCK, or the folder, kept all writers out, for ever."""
    folder(url).mkdir(parents=True)
    folder(url).chmod(of_folder)
    create_store(url).close()
    for name in ("LOCK", note.NOTE_LOCK):
        assert stat.S_IMODE((folder(url) / name).stat().st_mode) == of_locks, name
    (folder(url) / "LOCK").chmod(0o644)  # as in a store of before
    open_store(url, "write").close()
    assert stat.S_IMODE((folder(url) / "LOCK").stat().st_mode) == of_locks


@pytest.mark.parametrize("name", ["fchmod", "fchown", "chmod"])
def test_disks_without_modes_and_owners_may_have_stores(
    url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, name, refuse)
    create_store(url).close()
    open_store(url, "write").close()


def test_a_closed_store_is_free_at_once_whatever_was_left_half_read(url: str) -> None:
    store = create_store(url)
    store.drawers.add(KEYS)
    store.records("documents").put([(b"%d" % i, b"") for i in range(20_000)])
    rows, records = store.drawers.iterate(), store.records("documents").iterate()
    next(rows)
    next(records)
    kept = []
    for failing in (lambda: store.drawers.add("no keys"), lambda: store.records("meta").scan([b"a"], "many")):
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is, its traceback has frames
            failing()
        kept.append(caught)
    store.close()
    again = open_store(url, "write")
    assert there(again, KEYS).all()
    again.close()
    with pytest.raises(StoreFailed, match="closed"):
        next(rows)
    with pytest.raises(StoreFailed, match="closed"):
        next(records)
    assert all(traceback.format_exception(error.value) for error in kept)


FORKING = """
import os, sys
from simhbase.stores import create_store, open_store
create_store(sys.argv[1]).close()
if child := os.fork():
    os.waitpid(child, 0)
else:
    open_store(sys.argv[1], "write")
"""


def test_a_fork_of_a_process_that_had_a_store_is_refused_one(url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, url], capture_output=True, text=True, check=False, timeout=60
    )
    assert "StoreFailed" in ended.stderr
    assert "forked" in ended.stderr


# Readers


def test_a_reader_sees_what_is_only_in_the_log(url: str, opened: Callable[..., Store]) -> None:
    writer = opened(create_store(url))
    writer.records("meta").put([(b"before", b"1")])
    reader = opened(open_store(url, "read"))
    assert values(reader, "meta", b"before") == [b"1"]
    writer.drawers.add(KEYS)
    writer.records("meta").put([(b"after", b"2")])
    reader.refresh()
    assert there(reader, KEYS).all()
    read = list(reader.drawers.read(PREFIXES, limit=None))
    assert sum(len(part.fingerprints) for part in read) >= len(PREFIXES)
    assert values(reader, "meta", b"after") == [b"2"]


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.drawers.add(KEYS),
        lambda store: store.drawers.remove(KEYS[0], NO_TIMES[:10]),
        lambda store: store.commit(Changes(1, KEYS, KEYS[:0])),
        lambda store: store.records("meta").put([(b"a", b"")]),
        lambda store: store.records("meta").delete([b"a"]),
        lambda store: store.records("meta").compare_and_set(b"a", None, b"1"),
    ],
)
def test_a_reader_cannot_write(
    url: str, opened: Callable[..., Store], write: Callable[[Store], object]
) -> None:
    create_store(url).close()
    reader = opened(open_store(url, "read"))
    with pytest.raises(ReadOnly, match="opened for reading"):
        write(reader)


@pytest.mark.parametrize("flush", ["by filling the memory", "by closing"])
def test_a_reader_sees_replaced_and_deleted_rows_after_a_flush(
    url: str, opened: Callable[..., Store], flush: str
) -> None:
    writer = opened(create_store(url))
    meta = writer.records("meta")
    meta.put([(b"replaced", b"old"), (b"deleted", b"old")])
    writer.drawers.add(KEYS)
    reader = opened(open_store(url, "read"))
    reader.refresh()
    meta.put([(b"replaced", b"new")])
    meta.delete([b"deleted"])
    writer.drawers.remove(KEYS[:250].reshape(-1, KEY_BYTES), NO_TIMES)
    if flush == "by closing":
        writer.close()
    else:
        flush_by_filling(writer)
    reader.refresh()
    assert values(reader, "meta", b"replaced", b"deleted") == [b"new", None]
    found = reader.records("meta").scan([b"replaced", b"deleted"], 5)
    assert [[(key, cell.value) for key, cell in rows] for rows in found] == [[(b"replaced", b"new")], []]
    assert there(reader, KEYS).tolist() == [[False] * 10] * 250 + [[True] * 10] * 250


def test_a_reader_follows_one_writer_after_another(url: str, opened: Callable[..., Store]) -> None:
    create_store(url).close()
    reader = opened(open_store(url, "read"))
    for number in range(5):
        writer = open_store(url, "write")
        writer.records("meta").put([(b"count", b"%d" % number)])
        reader.refresh()
        assert values(reader, "meta", b"count") == [b"%d" % number]
        if number % 2:
            writer.records("meta").put(FLUSHING[:100])
        writer.close()
        reader.refresh()
        assert values(reader, "meta", b"count") == [b"%d" % number]


def test_a_reader_sees_what_is_written_long_after_files_were_added(
    url: str, opened: Callable[..., Store]
) -> None:
    writer = opened(create_store(url))
    reader = opened(open_store(url, "read"))
    for write in (lambda: None, lambda: flush_by_filling(writer)):
        write()
        reader.refresh()
        os.utime(folder(url), ns=(1, 1))
        for number in range(3):
            reader.refresh()
            writer.records("meta").put([(b"count", b"%d" % number)])
            reader.refresh()
            assert values(reader, "meta", b"count") == [b"%d" % number]
    writer.close()
    reader.refresh()
    drop_store(url)
    with pytest.raises(TablesMissing):
        reader.refresh()


def test_a_follower_that_was_told_of_other_files_watches_these(tmp_path: Path) -> None:
    """Also where the time of the folder does not tell that it has others."""
    (tmp_path / "MANIFEST-000001").write_bytes(b"")
    (tmp_path / "000002.log").write_bytes(b"")
    with closing(Follower("rocksdb:store", tmp_path)) as follower:
        follower._seen = growth_of(tmp_path)
        os.utime(tmp_path, ns=(1, 1))
        assert follower.new_growth() is None  # from here on it watches these two
        (tmp_path / "000002.log").write_bytes(b"more")
        (tmp_path / "000003.log").write_bytes(b"")
        os.utime(tmp_path, ns=(1, 1))
        grown = follower.new_growth()
        assert grown is not None
        follower._seen = grown  # as `level` does
        assert follower.new_growth() is None


@pytest.mark.parametrize(
    ("nanosecond", "ticks", "watches"), [(1, -1.0, True), (1, 1e9, False), (0, -1.0, False)]
)
def test_a_follower_watches_files_once_a_later_change_has_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nanosecond: int, ticks: float, watches: bool
) -> None:
    monkeypatch.setattr(follower, "TICKS", ticks)
    log = tmp_path / "1.log"
    log.write_bytes(b"rows")
    hour_ahead = (int(time.time()) + 3600) * follower.SECOND_NS + nanosecond
    with closing(Follower("rocksdb:store", tmp_path)) as following:
        following._seen = growth_of(tmp_path)
        os.utime(tmp_path, ns=(hour_ahead, hour_ahead))
        assert following.new_growth() is None
        assert (following._settled == hour_ahead) is watches
        log.write_bytes(b"more rows")
        assert following.new_growth() == growth_of(tmp_path)


def test_several_readers_read_beside_each_other(url: str, opened: Callable[..., Store]) -> None:
    writer = opened(create_store(url))
    readers = [opened(open_store(url, "read")) for _ in range(3)]
    writer.drawers.add(KEYS)
    for reader in readers:
        reader.refresh()
        assert there(reader, KEYS).all()


def test_a_reader_leaves_no_files_behind(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_store(url).close()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    reader = open_store(url, "read")
    assert list(scratch.iterdir())
    reader.close()
    reader.close()
    with pytest.raises(TablesMissing):
        open_store(f"{url}-elsewhere", "read")
    assert list(scratch.iterdir()) == []


def test_what_a_killed_reader_left_is_removed_by_the_next(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_store(url).close()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code = (
        "import os, sys; from simhbase.stores import open_store; it = open_store(sys.argv[1], 'read'); "
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, url]
    killed = subprocess.run(command, check=False, env=os.environ | {"TMPDIR": str(temporary)})
    assert killed.returncode == -signal.SIGKILL
    left = set(temporary.iterdir())
    assert left
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with closing(open_store(url, "read")):
        assert left.isdisjoint(temporary.iterdir())


def test_a_reader_of_a_dropped_store_says_that_it_is_gone(url: str, opened: Callable[..., Store]) -> None:
    create_store(url).close()
    reader = opened(open_store(url, "read"))
    drop_store(url)
    with pytest.raises(TablesMissing, match="no store"):
        reader.refresh()


# Failures


def test_a_store_that_may_not_be_opened_says_so(url: str) -> None:
    create_store(url).close()
    with closed_to_this_user(folder(url)):
        for access in ("read", "write"):
            with pytest.raises(StoreFailed, match="Permission denied"):
                open_store(url, access)
        with pytest.raises(StoreFailed, match="Permission denied"):
            create_store(url)
    open_store(url, "write").close()


def test_a_store_that_may_not_be_written_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own folders are closed to others
        Path(place).chmod(0o755)
        url = f"rocksdb:{place}/store"
        writer = create_store(url)
        writer.drawers.add(KEYS)
        writer.close()
        with closed_to_this_user(folder(url), 0o755):
            reader = open_store(url, "read")
            assert there(reader, KEYS).all()
            reader.close()


def test_a_reader_who_may_not_write_sees_what_another_user_writes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_rdict = follower.open_rdict

    def refusing(path: Path, *options: object) -> object:
        # Another user in this process would take the writer's rights as well.
        if path == folder(url):
            raise OSError("Read-only file system (os error 30)")
        return open_rdict(path, *options)  # type: ignore[arg-type]

    writer = create_store(url)
    writer.drawers.add(KEYS[:10])
    writer.sync()
    monkeypatch.setattr(follower, "open_rdict", refusing)
    reader = open_store(url, "read")
    assert there(reader, KEYS).any(axis=1).sum() == 10
    for seen, more in ((20, []), (30, FLUSHING)):  # by what is in the log, and by what is in files
        writer.drawers.add(KEYS[:seen])
        writer.records("documents").put(more)
        writer.sync()
        reader.refresh()
        assert there(reader, KEYS).any(axis=1).sum() == seen
    reader.close()
    writer.close()


def test_a_reader_who_may_not_write_sees_what_writers_write_one_after_the_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each leaves logs that the next one deletes."""
    open_rdict = follower.open_rdict
    reading = False

    def refusing(path: Path, *options: object) -> object:
        if reading and path == folder(url):
            raise OSError("Read-only file system (os error 30)")
        return open_rdict(path, *options)  # type: ignore[arg-type]

    create_store(url).close()
    monkeypatch.setattr(follower, "open_rdict", refusing)
    reading = True
    reader = open_store(url, "read")
    for seen in range(5, 41, 5):
        reading = False
        writer = open_store(url, "write")
        writer.drawers.add(KEYS[:seen])
        writer.sync()
        reading = True
        reader.refresh()
        assert there(reader, KEYS).any(axis=1).sum() == seen
        reading = False
        writer.close()
        reading = True
    reader.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("given", [".", ".."])
def test_a_reader_writes_nothing_in_the_folder_of_another_user(
    url: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner can put a link there after it was looked at: the file that it leads to was overwritten."""
    store = create_store(url)
    store.drawers.add(KEYS)
    store.close()
    kept = tmp_path / "kept"
    kept.write_text("kept")

    def linking(*of_store: Any) -> None:
        require_store(*of_store)
        configuration = folder(url) / CONFIGURATION
        configuration.unlink()
        configuration.symlink_to(kept)

    require_store = follower.require_store
    monkeypatch.setattr(follower, "require_store", linking)
    os.chown(folder(url) / given, 1, -1)
    with closing(open_store(url, "read")) as reader:
        assert there(reader, KEYS).all()
    assert kept.read_text() == "kept"


def test_a_store_that_may_not_be_written_says_so_to_a_writer(url: str) -> None:
    create_store(url).close()
    with closed_to_this_user(folder(url), 0o755), pytest.raises(StoreFailed, match="needs write permission"):
        open_store(url, "write")


@contextmanager
def closed_to_this_user(path: Path, mode: int = 0) -> Iterator[None]:
    """Root becomes nobody meanwhile; anybody else owns the folder, and has the rights of the mode."""
    path.chmod(mode & 0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(0o700)


def test_a_damaged_store_says_what_is_wrong(url: str) -> None:
    create_store(url).close()
    (folder(url) / "CURRENT").write_text("MANIFEST-999999\n")
    for access in ("read", "write"):
        with pytest.raises(StoreFailed, match="MANIFEST-999999"):
            open_store(url, access)


def fill(store: Store) -> int:
    """Writes batches until one fails; returns how many did not."""
    for number in range(10_000):
        try:
            store.drawers.add(encode(batch(number), LAYOUT))
            store.records("documents").put([(b"%d" % number, os.urandom(20_000))])
            store.sync()
        except StoreFailed:
            return number
    raise AssertionError("the store never filled up")


def batch(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 2**64, 100, dtype=np.uint64)


def assert_everything_acknowledged_is_there(url: str, batches: int) -> None:
    store = open_store(url, "write")
    try:
        for number in range(batches):
            assert there(store, encode(batch(number), LAYOUT)).all()
        found = values(store, "documents", *(b"%d" % number for number in range(batches)))
        assert all(value is not None and len(value) == 20_000 for value in found)
        store.drawers.add(KEYS)
        store.sync()
    finally:
        store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here (that takes root)")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_is_named_and_costs_nothing_that_was_acknowledged(small_disk: Path) -> None:
    url = f"rocksdb:{small_disk / 'store'}"
    store = create_store(url)
    batches = fill(store)
    assert batches > 10
    with pytest.raises(
        StoreFailed, match=f"writing to {url} failed: .*No space left on device.*Free some disk space"
    ):
        store.records("documents").put([(b"more", bytes(8 << 20))])
    store.close()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert_everything_acknowledged_is_there(url, batches)


def test_a_store_writes_again_once_a_full_disk_has_room(small_disk: Path) -> None:
    url = f"rocksdb:{small_disk / 'store'}"
    store = create_store(url)
    batches = fill(store)
    with pytest.raises(StoreFailed, match="free some disk space and repeat this"):
        store.require_writable()
    assert there(store, encode(batch(batches - 1), LAYOUT)).all(), "what is stored can be read meanwhile"
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    store.require_writable()
    store.records("documents").put([(b"more", b"room")])
    store.sync()
    store.close()
    assert_everything_acknowledged_is_there(url, batches)


def test_a_store_writes_again_after_a_refused_write_beside_threads_that_read(url: str) -> None:
    with files_up_to(4 << 20):
        store = create_store(url)
        batches = fill(store)
    expected = encode(batch(0), LAYOUT)
    ended = threading.Event()

    def read() -> int:
        reads = 0
        while not ended.is_set():
            assert there(store, expected).all()
            assert len(next(store.drawers.iterate()).keys) > 0
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as threads:
        reading = [threads.submit(read) for _ in range(3)]
        try:
            for number in range(5):
                store.records("documents").put([(b"more", b"%d" % number)])
                store.require_writable()
                store.database.failed = StoreFailed("tried")  # as after a failed write
        finally:
            ended.set()
        assert all(each.result() for each in reading)
    assert values(store, "documents", b"more") == [b"4"]
    store.close()
    assert_everything_acknowledged_is_there(url, batches)


def replaced_by_another_store(path: Path) -> None:
    other = path.with_name("other")
    create_store(f"rocksdb:{other}").close()
    path.rename(path.with_name("away"))
    other.rename(path)


def replaced_within_its_folder(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()
    create_store(f"rocksdb:{path}.other").close()
    for file in path.with_name(path.name + ".other").iterdir():
        file.rename(path / file.name)


@pytest.mark.parametrize("lose", [shutil.rmtree, replaced_by_another_store, replaced_within_its_folder])
def test_nothing_is_acknowledged_once_the_folder_was_removed_or_replaced(
    url: str, lose: Callable[[Path], None]
) -> None:
    store = create_store(url)
    store.records("documents").put([(b"first", b"1")])
    store.require_writable()
    lose(folder(url))
    for write in (
        lambda: store.records("documents").put([(b"second", b"2")]),
        lambda: store.drawers.add(KEYS),
        store.sync,
        store.require_writable,
    ):
        with pytest.raises(StoreFailed, match="removed or replaced"):
            write()
    store.close()


def test_a_folder_that_came_back_is_written_again(url: str) -> None:
    store = create_store(url)
    folder(url).rename(folder(url).with_name("away"))
    with pytest.raises(StoreFailed, match="removed or replaced"):
        store.records("documents").put([(b"first", b"1")])
    folder(url).with_name("away").rename(folder(url))
    store.records("documents").put([(b"first", b"2")])
    store.require_writable()
    assert values(store, "documents", b"first") == [b"2"]
    store.close()


def test_a_refused_write_costs_nothing_that_was_acknowledged(url: str) -> None:
    with files_up_to(4 << 20):
        store = create_store(url)
        batches = fill(store)
        assert batches > 10
        with pytest.raises(StoreFailed, match=f"{url} failed: .*File too large"):
            store.records("documents").put([(b"more", bytes(8 << 20))])
        store.close()
    assert_everything_acknowledged_is_there(url, batches)


def test_a_short_range_of_a_table_is_read_without_what_follows(tmp_path, monkeypatch):
    with open_index(f"rocksdb:{tmp_path / 'store'}", create=Profile(verify=False), scoped=True) as whole:
        for scope, size in (("few", 5), ("many", 5000)):
            ids = [f"d{number}" for number in range(size)]
            whole.within(scope).add_fingerprints(ids, [number << 9 for number in range(size)])
        rows, read = Database.rows, list[int]()

        def counting(*given):
            found = rows(*given)
            read.append(sum(map(len, found)))
            return found

        monkeypatch.setattr(Database, "rows", counting)
        assert len(whole.within("few")) == 5
    assert sum(read) == 5


@pytest.mark.parametrize("pattern", [database._LINKED, salvage._TEMPORARY])
@pytest.mark.parametrize("part", ["a.", "/links", "/simhbase-salvage-", "/simhbase-salvage-/a"])
def test_folders_in_messages_are_left_out_in_linear_time(pattern: re.Pattern[str], part: str) -> None:
    """40 kB without a space took 3 s."""

    def seconds(size: int) -> float:
        begun = time.process_time()
        pattern.sub("", part * size)
        return time.process_time() - begun

    assert min(seconds(40_000) for _ in range(3)) < 8 * seconds(10_000) + 0.1
