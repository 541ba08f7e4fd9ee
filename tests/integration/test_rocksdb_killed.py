"""A writer that is killed, or read while it writes: what it acknowledged is there, in its last state."""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, encode
from simhbase.errors import StoreBusy
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Store
from simhbase.stores.rocksdb.note import NOTE
from tests.integration.test_rocksdb_damage import build

LAYOUT = layout("5x2")
ROUND = 20  # batches after which a batch's rows are removed again


def keys_of(batch: int) -> NDArray[np.uint8]:
    return encode(np.random.default_rng(batch).integers(0, 2**64, 50, dtype=np.uint64), LAYOUT)


def write_batch(store: Store, batch: int) -> None:
    """New rows, rows that are replaced, rows that are deleted, and enough of all to cause flushes."""
    documents = store.records("documents")
    documents.put([(b"new:%d" % batch, os.urandom(30_000)), (b"last", b"%d" % batch)])
    documents.delete([b"new:%d" % (batch - ROUND)])
    store.drawers.add(keys_of(batch))
    gone = (keys_of(batch - ROUND) if batch >= ROUND else keys_of(0)[:0]).reshape(-1, KEY_BYTES)
    store.drawers.remove(gone, np.zeros(len(gone), dtype=np.int64))
    store.records("meta").put([(b"last", b"%d" % batch)])


def assert_state_after(store: Store, batch: int) -> int:
    """The store has what write_batch left of every batch up to this one, and maybe of later ones.

    Returns the last batch of which it has anything.
    """
    documents = store.records("documents")
    (last,) = documents.get([b"last"])
    assert last is not None
    assert batch <= int(last.value)
    kept = range(max(0, int(last.value) - ROUND + 1), batch + 1)
    gone = range(max(0, batch - 2 * ROUND), batch - ROUND + 1)
    assert None not in documents.get([b"new:%d" % number for number in kept])
    assert set(documents.get([b"new:%d" % number for number in gone])) <= {None}
    for number in kept:
        assert (store.drawers.times(keys_of(number)) >= 0).all()
    for number in gone:
        assert (store.drawers.times(keys_of(number)) < 0).all()
    return int(last.value)


def write_until_killed(url: str, first: int, acknowledge: Connection) -> None:
    store = open_store(url, "write")
    for batch in range(first, first + 1_000_000):
        write_batch(store, batch)
        store.sync()
        acknowledge.send(batch)


@contextmanager
def writer(url: str, first: int) -> Iterator[tuple[Connection, Callable[[], None]]]:
    """A process that writes batches from `first` on: what it acknowledges, and how to kill it."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=write_until_killed, args=(url, first, send), daemon=True)
    process.start()
    send.close()

    def kill() -> None:
        process.kill()
        process.join()

    try:
        yield receive, kill
    finally:
        kill()
        receive.close()


def last_of(acknowledged: Connection, before: int) -> int:
    """The last batch that has been acknowledged by now."""
    last = before
    while acknowledged.poll():
        try:
            last = acknowledged.recv()
        except EOFError:
            break
    return last


def kill_writers(url: str, kills: int) -> None:
    create_store(url).close()
    batch = -1
    for _ in range(kills):
        with writer(url, batch + 1) as (acknowledged, kill):
            batch = acknowledged.recv()
            time.sleep(random.uniform(0, 1.0))  # any moment will do: every one has to be survived
            kill()
            batch = last_of(acknowledged, batch)
        with closing(open_store(url, "read")) as reader:
            seen = assert_state_after(reader, batch)
        with closing(open_store(url, "write")) as store:
            assert seen == assert_state_after(store, batch) <= batch + 1


def test_everything_acknowledged_survives_the_killing_of_the_writer(tmp_path: Path) -> None:
    kill_writers(f"rocksdb:{tmp_path / 'store'}", kills=2)


@pytest.mark.full
def test_everything_acknowledged_survives_a_long_series_of_kills(tmp_path: Path) -> None:
    kill_writers(f"rocksdb:{tmp_path / 'store'}", kills=100)


def follow_a_writer(url: str, seconds: float) -> None:
    create_store(url).close()
    with writer(url, 0) as (acknowledged, _), closing(open_store(url, "read")) as reader:
        batch = acknowledged.recv()
        behind = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            batch = last_of(acknowledged, batch)
            try:
                reader.refresh()
            except StoreBusy:  # says that the files change faster than they can be opened
                continue
            behind.append(assert_state_after(reader, batch) - batch)
    assert min(behind) < ROUND  # otherwise no rows were compared


def test_a_reader_beside_a_writing_process_sees_all_that_was_acknowledged(tmp_path: Path) -> None:
    follow_a_writer(f"rocksdb:{tmp_path / 'store'}", seconds=5)


@pytest.mark.full
def test_a_reader_keeps_up_with_a_writing_process_for_long(tmp_path: Path) -> None:
    follow_a_writer(f"rocksdb:{tmp_path / 'store'}", seconds=300)


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("has_note", [True, False])
def test_a_writer_that_is_killed_between_any_steps_of_its_note_loses_nothing(
    tmp_path: Path, has_note: bool, step: int
) -> None:
    """Its store opens, and a copy of it opens with everything or is refused."""
    store = build(tmp_path / "store")
    if not has_note:
        (store / NOTE).unlink()
    done = subprocess.run(
        [sys.executable, "-m", "tests.noted", store, str(step)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40
