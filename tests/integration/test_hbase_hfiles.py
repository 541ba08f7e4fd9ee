"""Loads into HBase by files of its own, made and loaded by its real tools."""

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from pathlib import Path

import numpy as np
import pytest

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.corpus.watcher import Nobody
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, encode
from simhbase.errors import SimhbaseError, StoreBusy, StoreFailed, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.check import Checker
from simhbase.index.load_log import LoadState
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import HintingWriter, now
from simhbase.jobs import hfiles as job
from simhbase.jobs import load as load_job
from simhbase.profile import Profile
from simhbase.stores import drop_store, open_store
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfiles import HFiles
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.tools import VARIABLE, hbase_command
from simhbase.stores.hbase.workfolder import WorkFolder
from tests.cluster import QUICKLY_COMPILED, Cluster
from tests.command_line import COMMAND, environment, fingerprints, run
from tests.kept import rows_for, rows_of, vacuumed

pytestmark = pytest.mark.hbase

PROFILE = Profile()
SCHEME = PROFILE.index_scheme
READ = InputOptions(fingerprint_field="f")


@pytest.fixture
def url(hbase: Cluster) -> str:
    url = hbase.empty_store("hfiles")
    with closing(open_store(url, "write")) as store:
        write_profile(store, PROFILE)
    return url


@pytest.fixture
def unsplit(hbase: Cluster) -> Iterator[str]:
    """Tables of this test alone: a region cannot be split that is the half of another one."""
    url = hbase.empty_store("unsplit")
    yield url
    drop_store(url)


@pytest.fixture
def tool(hbase: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a script the command hbase. `run()` runs HBase's own; `name` is the class without its packages,
    `table` the table's last word, and `once(word)` true the first time."""

    def make(script: str) -> None:
        path = tmp_path / "hbase.py"
        path.write_text(
            textwrap.dedent(f"""\
            import os, signal, subprocess, sys, time
            from pathlib import Path
            name, table = sys.argv[1].rpartition(".")[2], sys.argv[-1].rpartition("_")[2]
            if name in ("Import", "RowCounter"):
                table = next(a for a in sys.argv[2:] if not a.startswith("-")).rpartition("_")[2]
            real = {hbase.command("run")!r}
            def run(end=True):
                done = subprocess.run([*real, *sys.argv[1:]]).returncode
                return sys.exit(done) if end else done
            def once(word):
                mark = Path({str(tmp_path)!r}, word)
                return not mark.exists() and not mark.touch()
            """)
            + textwrap.dedent(script)
        )
        monkeypatch.setenv(VARIABLE, shlex.join([sys.executable, str(path)]))
        for name, value in QUICKLY_COMPILED.items():
            monkeypatch.setenv(name, value)

    make("run()")
    return make


def corpus(path: Path, number: int = 1000, **changed: int) -> dict[str, int]:
    """A file of documents with fingerprints, some of which several have; what it says of them."""
    chance = random.Random(1)
    several = [chance.getrandbits(64) for _ in range(20)]
    values = {
        f"{'long/' * (n % 3)}{n}": chance.choice(several) if n % 10 == 0 else chance.getrandbits(64)
        for n in range(number)
    }
    values |= changed
    fingerprints(path, values)
    return values


def load(path: Path, url: str, **options: object) -> simhbase.LoadReport:
    with chdir(path.parent):
        return simhbase.load(Inputs([path.name], READ, processes=1), url, **options)  # type: ignore[arg-type]


def rows_later(url: str) -> dict[str, object]:
    """What a store holds after a vacuum long afterwards."""
    with open_index(url) as index:
        vacuumed(index.store, SCHEME)
        return rows_of(index.store)


def add(index: Index, values: dict[str, int], clock: Callable[[], int] = now) -> None:
    batch = FingerprintBatch.bare(np.array(list(values.values()), np.uint64))
    HintingWriter(index.store, SCHEME, clock).add(list(values), batch)


@pytest.mark.usefixtures("tool")
def test_what_is_new_moved_unchanged_or_deleted_ends_as_by_a_usual_load(url, tmp_path):
    before = corpus(tmp_path / "before.jsonl")
    after = corpus(
        tmp_path / "after.jsonl", **{"0": 5, "long/1": before["0"], "deleted": 7, "ahead": 8, "new": 9}
    )
    load(tmp_path / "before.jsonl", url)
    with open_index(url) as index:
        add(index, {"deleted": 6})
        index.delete(["deleted"])
        add(index, {"ahead": 10}, clock=lambda: now() + 60_000)
    tags = {"source": "wire", "tenant": "甲"}
    report = load(tmp_path / "after.jsonl", url, via="hfiles", work_folder=tmp_path, tags=tags)
    assert (report.added, report.moved, report.unchanged) == (2, 3, len(before) - 2)
    assert rows_later(url) == rows_for(PROFILE, after, tags)
    assert not list(tmp_path.glob("simhbase-load-*"))


@pytest.mark.full
def test_regions_that_split_and_a_loader_that_is_killed_lose_no_row(hbase, tool, unsplit, tmp_path):
    """One splits while HFiles are made. Another one does when borders have been compared, and the loader is
    killed when it has cut a file at that one: the case of HBASE-30501."""
    tool("""
        if name == "BulkLoadHFilesTool" and once("killed"):
            process = subprocess.Popen([*real, *sys.argv[1:]], stdout=subprocess.PIPE, stderr=-2, text=True)
            for line in process.stdout:
                print(line, end="", flush=True)
                if "Successfully split" in line:
                    process.kill()
            sys.exit(process.wait() and 137)
        run()
        """)
    keys = encode(np.random.default_rng(1).integers(0, 2**64, 2000, dtype=np.uint64), layout("5x2"))
    notes: list[str] = []
    with closing(open_store(unsplit, "write")) as store:
        assert isinstance(store, HBaseStore)
        made = WorkFolder(str(tmp_path), "work")
        hfiles = HFiles(store, hbase_command(), made, lambda: split(hbase, store, b"\x10"), notes.append)
        rows = hfiles.rows(INDEX, store.server_time())
        rows.put_keys(keys)
        rows.expected = keys.shape[0] * keys.shape[1]
        hfiles.hand_over(rows, lambda: split(hbase, store, b"\x80"))
        stored = [key.tobytes() for part in store.drawers.iterate() for key in part.keys]
    assert stored == sorted(key.tobytes() for key in keys.reshape(-1, KEY_BYTES))
    moved, killed = notes
    assert moved == "new HFiles are made: regions of unsplit_index were split or merged meanwhile"
    assert re.match(
        r"new HFiles are made: loading HFiles into unsplit_index failed .* ended with 137", killed
    )


def split(hbase: Cluster, store: HBaseStore, key: bytes) -> None:
    """Splits a region of the index, if there is no border yet, and waits for it."""
    if key in store.region_starts(INDEX):
        return
    name = store.table(INDEX).name
    hbase.shell(f"split '{name}', \"\\x{key.hex()}\"\n")
    end = time.monotonic() + 60
    while key not in store.region_starts(INDEX):
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.full
@pytest.mark.parametrize(("table", "family"), [("index", "i"), ("documents", "d")])
def test_a_load_that_is_killed_when_a_table_is_half_loaded_is_run_again(url, tool, tmp_path, table, family):
    tool(f"""
        if name == "BulkLoadHFilesTool" and table == {table!r} and once("killed"):
            next(Path(sys.argv[2].removeprefix("file://"), {family!r}).iterdir()).unlink()
            run(end=False)
            os.kill(os.getppid(), signal.SIGKILL)
            sys.exit(1)
        run()
        """)
    values = corpus(tmp_path / "c.jsonl")
    command = [
        "load",
        "--via",
        "hfiles",
        "--fingerprint-field",
        "f",
        "--work-folder",
        str(tmp_path),
        "c.jsonl",
    ]
    variables = {name: os.environ[name] for name in (VARIABLE, *QUICKLY_COMPILED)}
    environ = environment(SIMHBASE_STORE=url, **variables)
    first = subprocess.run([*COMMAND, *command], cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL
    with open_index(url, access="read") as index:
        assert set(index.fingerprints(list(values))) == {None} or table == "documents"
        assert Checker(index.store, SCHEME).check().is_clean
        (state,) = index.loads()
        assert state.was_killed
    assert list(tmp_path.glob("simhbase-load-*"))
    done = run(*command, cwd=tmp_path, SIMHBASE_STORE=url)
    assert done.returncode == 0, done.stderr.decode()
    assert rows_later(url) == rows_for(PROFILE, values)
    assert not list(tmp_path.glob("simhbase-load-*"))


@pytest.mark.full
def test_rounds_that_were_handed_over_count(url, tool, tmp_path, monkeypatch):
    """A load that is stopped after some rounds goes on behind these."""
    monkeypatch.setattr(job, "ROUND", 500)
    monkeypatch.setattr(load_job, "PREPARED_CHUNKS_AT_ONCE", 1)
    tool("""
        if name == "Import" and table == "documents" and not once("first") and once("second"):
            print("Exception in thread main: no room")
            sys.exit(1)
        run()
        """)
    values = corpus(tmp_path / "c.jsonl", 1000)
    with pytest.raises(StoreFailed, match="no room"):
        load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    report = load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    assert (report.added, report.unchanged) == (1000, 0)
    assert rows_later(url) == rows_for(PROFILE, values)


# What goes wrong


def test_a_tool_that_fails_is_shown_and_its_log_is_kept(url, tool, tmp_path):
    tool("""
        if name == "Import":
            print("2026-11-22 INFO [main]: Starting")
            print('Exception in thread "main" java.io.IOException: no space left on device')
            print("\tat org.apache.hadoop.fs.RawLocalFileSystem.write")
            sys.exit(1)
        if name == "VersionInfo":
            print("HBase 2.6.1")
        if name == "RowCounter":
            print("\t\tROWS=1")
        """)
    corpus(tmp_path / "c.jsonl", 10)
    with pytest.raises(StoreFailed) as raised:
        load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    said = str(raised.value)
    assert said.startswith("making HFiles for hfiles_fingerprints failed")
    assert 'Exception in thread "main" java.io.IOException: no space left on device' in said
    (log,) = tmp_path.glob("simhbase-load-*/*/logs/import-fingerprints.log")
    assert str(log) in said
    (state,) = loads(url)
    assert (state.progress, state.parts) == ("stopped", 0)
    assert rows_later(url) == rows_for(PROFILE, {})


def loads(url: str) -> list[LoadState]:
    with open_index(url, access="read") as index:
        return index.loads()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('HBase 1.4.13')", "is of HBase 1.4.13: 2.2 and later load HFiles"),
        ("print('usage: hbase')", "does not say which version of HBase it is"),
        ("sys.exit(7)", "asking HBase's command for its version failed .* ended with 7"),
        ("print('HBase 2.6.1')", "does not find in hfiles_meta what was written .* another HBase"),
    ],
)
def test_a_command_of_another_hbase_is_refused_before_anything_is_read(url, tool, tmp_path, script, message):
    tool(script)
    with pytest.raises(SimhbaseError, match=message):
        load(tmp_path / "missing.jsonl", url, via="hfiles", work_folder=tmp_path)


def test_without_the_command_the_message_says_where_to_get_it(url, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "hbase-of-nobody --config x")
    with pytest.raises(UsageError, match=f"no command 'hbase-of-nobody --config x'.*{VARIABLE}"):
        load(tmp_path / "missing.jsonl", url, via="hfiles")


def test_a_folder_that_cannot_be_written_is_named(url, tool, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreFailed, match=r"cannot write the files of the load in .*/file/simhbase-load-.*`work_folder`"
    ):
        load(tmp_path / "missing.jsonl", url, via="hfiles", work_folder=tmp_path / "file")


def test_what_was_made_long_ago_is_not_handed_over(url, tool, tmp_path):
    """Vacuum might take it for old."""
    tool("print('HBase 2.6.1') if name == 'VersionInfo' else print('ROWS=1')")
    times = iter([0, 0, job.MOST_AGE * 1000 + 1])
    with open_index(url) as index:
        taking = job.HFileLoad(
            index, tmp_path, "old", lambda: None, lambda text: None, clock=lambda: next(times)
        )
        with taking:
            taking.put_aside(["a"], FingerprintBatch.bare(np.array([1], np.uint64)))
            with pytest.raises(StoreFailed, match=r"made 2\.0 hours ago"):
                taking.hand_over()


def test_a_second_run_of_a_load_leaves_the_files_of_the_first(url, tool, tmp_path):
    tool("print('HBase 2.6.1') if name == 'VersionInfo' else print('ROWS=1')")
    corpus(tmp_path / "c.jsonl", 10)
    options = {"via": "hfiles", "work_folder": tmp_path}
    busy: list[str] = []

    def load_again(text: str) -> None:
        with pytest.raises(StoreBusy, match="is running already"):
            load(tmp_path / "c.jsonl", url, **options)
        busy.extend(path.name for path in tmp_path.glob("simhbase-load-*/*/*"))

    class Telling(Nobody):
        def note(self, text: str) -> None:
            load_again(text)

    inputs = Inputs(["c.jsonl"], READ, processes=1, watcher=Telling())
    with chdir(tmp_path), pytest.raises(StoreFailed):
        simhbase.load(inputs, url, **options)  # type: ignore[arg-type]
    assert "documents" in busy
