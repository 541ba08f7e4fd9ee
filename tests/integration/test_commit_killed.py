"""A commit that the loss of the process or of power cuts short: all tables have it, or none has."""

import multiprocessing
import random
import shutil
import time
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from simhbase.admin.check import Checker
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index.reader import Reader
from simhbase.index.writer import DocumentBatch, Writer, known
from simhbase.model.values import Query
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Store
from simhbase.stores.rocksdb.note import NOTE
from tests.content import content

FORM = SketchParameters(slots=32)
SCHEME = SimHashScheme(layout("5x2"), k=3, sketching=FORM)
DOCUMENTS = 60
Stored = dict[str, int]


def fingerprints(values: list[int]) -> FingerprintBatch:
    """Fingerprints, each with a sketch of its own."""
    sketches = [np.random.default_rng(value).integers(0, 256, FORM.bytes, np.uint8) for value in values]
    return FingerprintBatch(
        np.array(values, dtype=np.uint64), np.array(sketches).reshape(len(values), FORM.bytes)
    )


def add(store: Store, documents: Stored) -> None:
    Writer(store, SCHEME).add(DocumentBatch(list(documents), fingerprints(list(documents.values()))))


def change(store: Store, number: int) -> Stored:
    """The step of a number: all ids get other fingerprints, which some share, or some of them are deleted.
    What is stored afterwards."""
    chance = random.Random(number)
    values = [chance.getrandbits(64) for _ in range(DOCUMENTS // 2)]
    documents = {f"d{place}": chance.choice(values) for place in range(DOCUMENTS)}
    if number % 2 == 0:
        add(store, documents)
        return documents
    gone = chance.sample(sorted(documents), DOCUMENTS // 3)
    Writer(store, SCHEME).delete(gone)
    return {name: value for name, value in change_of(number - 1).items() if name not in gone}


def change_of(number: int) -> Stored:
    """What is stored after a step."""
    with closing(create_store("memory:")) as store:
        for each in range(number - number % 2, number + 1):
            stored = change(store, each)
    return stored


def assert_whole(store: Store, *allowed: Stored) -> Stored:
    """The tables agree with each other and hold one of what is allowed, which is returned."""
    report = Checker(store, SCHEME).check()
    assert (report.problems, report.garbage) == ({}, {})
    ids = [f"d{place}" for place in range(DOCUMENTS)]
    found = zip(ids, known(store, ids), strict=True)
    stored = {document: each.entry.fingerprint for document, each in found if each}
    assert stored in allowed
    lookups = Reader(store, SCHEME).find(fingerprints(list(stored.values())), Query(k=0))
    for document, lookup in zip(stored, lookups, strict=True):
        assert document in [match.id for match in lookup.matches if match.similarity == 1]
    return stored


@pytest.mark.parametrize("step", [1, 2], ids=["a delete", "an add that moves"])
def test_a_log_that_ends_anywhere_within_a_commit_leaves_all_or_nothing(tmp_path: Path, step: int) -> None:
    with closing(create_store(f"rocksdb:{tmp_path}/store")) as store:
        for number in range(step):
            before = change(store, number)
        earlier = length_of_log(tmp_path / "store")
        after = change(store, step)
        whole = length_of_log(tmp_path / "store")
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
    (tmp_path / "copy" / NOTE).unlink()  # as nothing was written meanwhile
    assert whole > earlier
    cuts = sorted({earlier, whole, whole - 1, *random.Random(step).sample(range(earlier, whole), 20)})
    outcomes = []
    for cut in cuts:
        target = tmp_path / "cut"
        shutil.copytree(tmp_path / "copy", target)
        with log_of(target).open("r+b") as log:
            log.truncate(cut)
        for access in ("read", "write"):
            with closing(open_store(f"rocksdb:{target}", access)) as store:
                outcomes.append(assert_whole(store, before, after) == after)
        shutil.rmtree(target)
    assert outcomes == [False] * (len(outcomes) - 2) + [True] * 2, "the log is one record"


def log_of(folder: Path) -> Path:
    return max(folder.glob("*.log"))


def length_of_log(folder: Path) -> int:
    return log_of(folder).stat().st_size


def change_until_killed(url: str, first: int, acknowledge: Connection) -> None:
    store = open_store(url, "write")
    for number in range(first, first + 1_000_000):
        change(store, number)
        acknowledge.send(number)


def kill_writers(url: str, kills: int) -> None:
    create_store(url).close()
    context = multiprocessing.get_context("spawn")
    last = -1
    for _ in range(kills):
        receive, send = context.Pipe(duplex=False)
        first = last + 1 - (last + 1) % 2  # a step that adds does not depend on what was there
        process = context.Process(target=change_until_killed, args=(url, first, send), daemon=True)
        process.start()
        send.close()
        last = receive.recv()
        time.sleep(random.uniform(0, 0.5))  # any moment will do: every one has to be survived
        process.kill()
        process.join()
        while receive.poll():
            try:
                last = receive.recv()
            except EOFError:
                break
        with closing(open_store(url, "read")) as reader:
            seen = content(reader)
            stored = assert_whole(reader, change_of(last), change_of(last + 1))
        with closing(open_store(url, "write")) as store:
            assert content(store) == seen
        last += stored != change_of(last)


def test_the_tables_agree_after_each_kill_of_a_writer(tmp_path: Path) -> None:
    kill_writers(f"rocksdb:{tmp_path}/store", kills=2)


@pytest.mark.full
def test_the_tables_agree_after_a_long_series_of_kills(tmp_path: Path) -> None:
    kill_writers(f"rocksdb:{tmp_path}/store", kills=60)
