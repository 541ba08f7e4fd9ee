"""Loads into HBase by files of its own, read and loaded by its real classes."""

import json
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from itertools import count
from pathlib import Path
from typing import cast

import happybase
import numpy as np
import pytest
from numpy.typing import NDArray

import simhbase
from simhbase.admin import Administrator
from simhbase.admin.check import Checker
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.corpus.watcher import Watcher
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, encode
from simhbase.errors import SimhbaseError, StoreBusy, StoreFailed, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.claims.batch import TOKEN_BYTES
from simhbase.index.load_log import LoadState
from simhbase.index.rows import PendingCell, document_key
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.loads import hfiles as job
from simhbase.loads import load as load_job
from simhbase.loads.hfiles_unique import UniqueDocuments
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store, open_store
from simhbase.stores.base import now
from simhbase.stores.hbase import HBaseBackend, HBaseStore, administration
from simhbase.stores.hbase import hfiles as hfiles_module
from simhbase.stores.hbase.clocks import ROW as CLOCK_ROW
from simhbase.stores.hbase.hfile import GZ, Family, HFileWriter
from simhbase.stores.hbase.hfiles import HFiles, even_borders, families
from simhbase.stores.hbase.schema import INDEX, Options, TableSpec
from simhbase.stores.hbase.tools import VARIABLE, Tools, hbase_command
from simhbase.stores.hbase.workfolder import WorkFolder
from simhbase.stores.strings import Strings
from tests.cluster import QUICKLY_COMPILED, Cluster, hooked
from tests.command_line import COMMAND, environment, fingerprints, run
from tests.kept import rows_for, rows_of, vacuumed

pytestmark = pytest.mark.hbase

PROFILE = Profile(verify=False)
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
    """Makes a script the command hbase; see tests.cluster.hooked."""

    def make(script: str) -> None:
        monkeypatch.setenv(VARIABLE, hooked(hbase, tmp_path, script))
        for name, value in QUICKLY_COMPILED.items():
            monkeypatch.setenv(name, value)

    make("")
    return make


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a command hbase that starts no Java: it answers with an expression of `line`."""

    def make(answer: str, version: str = "HBase 2.6.1") -> None:
        script = f"""
import sys
print("simhbase: {version}", flush=True)
for line in sys.stdin:
    print({answer}, flush=True)
"""
        monkeypatch.setenv(VARIABLE, shlex.join([sys.executable, "-c", script]))

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
        return simhbase.load(Inputs([path.name], READ, threads=1), url, **options)  # type: ignore[arg-type]


def rows_later(url: str) -> dict[str, object]:
    """What a store holds after a vacuum long afterwards."""
    with open_index(url) as index:
        vacuumed(index.store, SCHEME)
        return rows_of(index.store)


def add(index: Index, values: dict[str, int], clock: Callable[[], int] = now) -> None:
    batch = FingerprintBatch.bare(np.array(list(values.values()), np.uint64))
    Writer(index.store, SCHEME, clock).add(DocumentBatch(list(values), batch))


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
    assert (report.added, report.updated, report.unchanged) == (2, 3, len(before) - 2)
    assert rows_later(url) == rows_for(PROFILE, after, tags)
    assert not list(tmp_path.glob("simhbase-load-*"))


def near_corpus(path: Path) -> dict[str, int]:
    """A file of documents of which every fourth is near the one before, and some near one far before."""
    values: dict[str, int] = {}
    chance = random.Random(3)
    for n in range(400):
        others = list(values.values())
        if n % 4 == 3:
            values[f"n/{n}"] = others[-1] ^ 1 << n % 64
        elif n % 10 == 9:
            values[f"n/{n}"] = chance.choice(others) ^ 0b101
        else:
            values[f"n/{n}"] = chance.getrandbits(64)
    fingerprints(path, values)
    return values


def distinct_corpus(path: Path) -> dict[str, int]:
    """A file of documents of which none is near another."""
    chance = random.Random(4)
    values = {f"d/{n}": chance.getrandbits(64) for n in range(50)}
    fingerprints(path, values)
    return values


def ids_in(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("tool")
def test_unique_documents_are_those_of_a_usual_load(hbase, url, tmp_path, monkeypatch):
    monkeypatch.setattr(load_job, "CHUNKS_AT_ONCE", 1)
    values = near_corpus(tmp_path / "c.jsonl")
    first, *_ = values
    usual = hbase.empty_store("usual")
    kept, removed = [], []
    for each, options in ((usual, {}), (url, {"via": "hfiles", "work_folder": tmp_path})):
        with open_index(each, create=PROFILE) as index:
            add(index, {"before": values[first] ^ 7, "far": 12345})
        files = {name: tmp_path / f"{name}-{len(kept)}.jsonl" for name in ("unique", "duplicates")}
        report = load(tmp_path / "c.jsonl", each, unique_only=True, **files, **options)
        kept.append(ids_in(files["unique"]))
        removed.append(ids_in(files["duplicates"]))
        assert (report.added, report.duplicates) == (len(kept[-1]), len(removed[-1]))
    assert kept[0] == kept[1]
    assert first in removed[0] == removed[1]
    assert rows_later(url) == rows_later(usual)


@pytest.mark.usefixtures("tool")
def test_what_others_claim_while_documents_are_loaded_is_settled(url, tmp_path, monkeypatch):
    """Nothing that they have stored is lost, and of near documents one is kept."""
    values = distinct_corpus(tmp_path / "c.jsonl")
    options = {
        "unique_only": True,
        "via": "hfiles",
        "work_folder": tmp_path,
        "duplicates": tmp_path / "duplicates.jsonl",
    }
    stored, dead = list(values)[1:3]
    settle = UniqueDocuments.settle

    def late(self: UniqueDocuments, batch: DocumentBatch, version: int) -> int:
        with open_index(url) as index:
            add(index, {"stored": values[stored] ^ 1})
            leave_pending(index, "dead", values[dead] ^ 1)
        return settle(self, batch, version)

    with monkeypatch.context() as patch:
        patch.setattr(UniqueDocuments, "settle", late)
        with pytest.raises(StoreFailed, match=r"^1 documents are near others that were stored or claimed"):
            load(tmp_path / "c.jsonl", url, **options)
    with open_index(url, access="read") as index:
        found = index.fingerprints([stored, "stored", dead, "dead"])
    assert found == [None, values[stored] ^ 1, values[dead], None]

    report = load(tmp_path / "c.jsonl", url, **options)
    assert ids_in(tmp_path / "duplicates.jsonl") == [stored]
    assert (report.duplicates, report.unchanged) == (1, report.loaded)


def leave_pending(index: Index, document: str, fingerprint: int) -> None:
    """A claim whose process has died before it was decided."""
    store = cast(HBaseStore, index.store)
    batch = DocumentBatch([document], FingerprintBatch.bare(np.array([fingerprint], np.uint64)))
    cell = PendingCell(0, fingerprint, lease=200)
    store.put_pending(
        b"t" * TOKEN_BYTES,
        [(document_key(document), cell.encode(document_key(document)))],
        batch.listings(SCHEME),
        batch.index_keys(SCHEME),
        [now()],
    )


@pytest.mark.usefixtures("tool")
def test_a_load_that_was_stopped_before_it_was_settled_is_settled_when_it_is_run_again(
    url, tmp_path, monkeypatch
):
    values = distinct_corpus(tmp_path / "c.jsonl")
    options = {
        "unique_only": True,
        "via": "hfiles",
        "work_folder": tmp_path,
        "duplicates": tmp_path / "d.jsonl",
    }
    near = list(values)[3]

    def stop(*_: object) -> int:
        with open_index(url) as index:
            add(index, {"late": values[near] ^ 1})
        raise StoreFailed("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(UniqueDocuments, "settle", stop)
        with pytest.raises(StoreFailed, match="stopped"):
            load(tmp_path / "c.jsonl", url, **options)
    report = load(tmp_path / "c.jsonl", url, **options)
    assert report.duplicates == 1
    assert ids_in(tmp_path / "d.jsonl") == [near]
    with open_index(url, access="read") as index:
        assert index.fingerprints([near, "late"]) == [None, values[near] ^ 1]


@pytest.mark.usefixtures("tool")
def test_unique_documents_have_new_ids(url, tmp_path):
    values = distinct_corpus(tmp_path / "c.jsonl")
    with open_index(url) as index:
        add(index, {next(iter(values)): 1})
    with pytest.raises(UsageError, match="is stored with another text"):
        load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path, unique_only=True)


KINDS = {
    "index": (Family(b"i", bloom=5), {}, 40_000),
    "tall": (Family(b"i", block_bytes=2048, bloom=5), {"index_bytes": 300}, 9_000),
    "one": (Family(b"d", bloom=0), {}, 1),
    "documents": (Family(b"d", bloom=0), {"index_bytes": 500}, 5_000),
    "compressed": (Family(b"d", bloom=8, compression=GZ), {"index_bytes": 2000}, 5_000),
    "unfiltered": (Family(b"d", block_bytes=4096), {"index_bytes": 600}, 5_000),
}


def test_hbase_reads_what_was_written(hbase, tmp_path):
    """Cells, seeks, Bloom filters and checksums, by the classes of a region server; one file is damaged."""
    time, names = 1763864000123, [*KINDS, "damaged"]
    for name in names:
        family, options, n = KINDS.get(name, KINDS["documents"])
        chance = random.Random(n)
        if family.name == b"i":
            values = np.random.default_rng(n).integers(0, 2**64, n // 10, dtype=np.uint64)
            rows = dict.fromkeys(
                key.tobytes() for key in encode(values, layout("5x2")).reshape(-1, KEY_BYTES)
            )
            rows = dict.fromkeys(rows, b"")
        else:
            ids = [f"{'news/' * (40 if number % 50 == 0 else number % 3)}{number}" for number in range(n)]
            rows = {chance.randbytes(8) + each.encode(): chance.randbytes(9 + len(each) % 3) for each in ids}
        pairs = sorted(rows.items())
        with (tmp_path / name).open("wb") as file:
            writer = HFileWriter(file, family, time, **options)
            for start in range(0, n, 3_000):
                some = pairs[start : start + 3_000]
                writer.put(*(Strings.of(column) for column in zip(*some, strict=True)))
            writer.close()
        expected = [len(part).to_bytes(4) + part for pair in pairs for part in pair]
        (tmp_path / f"{name}.expected").write_bytes(
            time.to_bytes(8) + len(pairs).to_bytes(4) + b"".join(expected)
        )
    damaged = bytearray((tmp_path / "damaged").read_bytes())
    damaged[200] ^= 1  # in the first data block
    (tmp_path / "damaged").write_bytes(damaged)
    script = Path(__file__).with_name("read_hfiles.rb")
    printed = hbase.run("run", "org.jruby.Main", str(script), *(str(tmp_path / name) for name in names))
    lines = (line.partition("simhbase: ")[2] for line in printed.splitlines() if "simhbase: " in line)
    found = dict(zip(names, map(json.loads, lines), strict=True))
    for name, (family, _, n) in KINDS.items():
        read = found[name]
        assert (read["cells"], read["wrong_cells"], read["wrong_seeks"]) == (n, 0, 0), name
        assert read["failed_checksums"] == 0
        types = {None: None, 0: "ROW"}
        assert read["bloom"] == types.get(family.bloom, "ROWPREFIX_FIXED_LENGTH")
        assert read.get("missed", 0) == 0
        assert read.get("taken", 0) < 0.05
    assert {name: found[name]["levels"] for name in KINDS if found[name]["levels"] > 1} == {
        "tall": 3, "documents": 2, "unfiltered": 2,
    }  # fmt: skip
    assert found["damaged"]["failed_checksums"] > 0


def handed_over(
    store: HBaseStore, folder: Path, require: Callable[[], object] = lambda: None
) -> tuple[NDArray[np.uint8], list[str]]:
    """Rows that were handed to the index, and what a person was told."""
    keys = encode(np.random.default_rng(1).integers(0, 2**64, 2000, dtype=np.uint64), layout("5x2"))
    notes: list[str] = []
    hfiles = HFiles(store, hbase_command(), WorkFolder(str(folder), "work"), lambda: None, notes.append)
    with closing(hfiles):
        hfiles.start()
        rows = Strings.rows_of(keys.reshape(-1, KEY_BYTES))
        with closing(hfiles.rows(INDEX, store.server_time(), even_borders(3))) as aside:
            aside.put(rows, Strings.empty(len(rows)))
            hfiles.hand_over(aside, require)
    return keys.reshape(-1, KEY_BYTES), notes


def index_rows(store: HBaseStore) -> list[bytes]:
    return [key.tobytes() for part in store.drawers.iterate() for key in part.keys]


@pytest.mark.full
@pytest.mark.usefixtures("tool")
def test_regions_that_split_and_merge_meanwhile_lose_no_row(hbase, unsplit, tmp_path):
    """First one splits when borders have been compared, so that a file of HBASE-30501 would be cut; then two
    are merged."""
    steps = [
        lambda: split(hbase, store, b"\x80"),
        lambda: merge(hbase, store),
    ]
    with closing(open_store(unsplit, "write")) as store:
        assert isinstance(store, HBaseStore)
        keys, notes = handed_over(store, tmp_path, lambda: steps and steps.pop(0)())
        assert index_rows(store) == sorted(key.tobytes() for key in keys)
    assert notes[0].startswith("loading unsplit_index again: loading HFiles into unsplit_index failed.")
    assert "fits into no region" in notes[0]


def merge(hbase: Cluster, store: HBaseStore) -> None:
    """Merges the first two regions of the index, and waits for it."""
    with closing(happybase.Connection(*hbase.gateway)) as connection:
        regions = connection.table(store.table(INDEX).name).regions()
    names = [region["name"].split(b".")[-2].decode() for region in regions]
    border = regions[1]["start_key"]
    hbase.shell(f"merge_region '{names[0]}', '{names[1]}'\nexit\n")
    end = time.monotonic() + 60
    while border in store.region_starts(INDEX):
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.full
@pytest.mark.parametrize("damage", ["file.unlink()", "os.truncate(file, file.stat().st_size // 2)"])
def test_files_that_are_lost_or_cut_short_are_made_again(tool, unsplit, tmp_path, damage):
    """HBase's tool leaves them out, and ends well."""
    tool(f"""
        if name == "load" and once("damaged"):
            file = next(Path(words[-2].removeprefix("file://"), "i").iterdir())
            {damage}
        """)
    with closing(open_store(unsplit, "write")) as store:
        assert isinstance(store, HBaseStore)
        keys, notes = handed_over(store, tmp_path)
        assert index_rows(store) == sorted(key.tobytes() for key in keys)
    (note,) = notes
    found = "100 of 300 rows looked for in unsplit_index are missing, of 20,000 in all"
    assert note == f"loading unsplit_index again: {found}"


@pytest.mark.full
@pytest.mark.usefixtures("tool")
def test_a_lost_half_of_a_file_is_noticed(unsplit, tmp_path, monkeypatch):
    with closing(open_store(unsplit, "write")) as store:
        assert isinstance(store, HBaseStore)
        load = Tools.load

        def losing(self: Tools, *arguments: object) -> None:
            load(self, *arguments)  # type: ignore[arg-type]
            part = next(iter(store.drawers.iterate()))
            end = int(np.searchsorted(part.keys[:, 0], store.region_starts(INDEX)[1][0]))
            half = slice(end // 2, end)
            store.drawers.remove(part.keys[half], part.times[half])

        monkeypatch.setattr(Tools, "load", losing)
        with pytest.raises(
            StoreFailed, match=r"failed 3 times: .* rows looked for in unsplit_index are missing"
        ):
            handed_over(store, tmp_path)


def test_a_family_that_is_encrypted_or_has_large_values_is_refused(hbase, monkeypatch):
    """As the live table says it."""
    url = hbase.url("mob")
    described = administration._descriptor

    def with_mob(table: TableSpec) -> object:
        found = described(table)
        found.columns[0].attributes = {b"IS_MOB": b"true"}
        return found

    monkeypatch.setattr(administration, "_descriptor", with_mob)
    HBaseBackend(url).make(Options(regions=1))
    try:
        with closing(open_store(url, "read")) as store, pytest.raises(UsageError, match=r"mob_index.*IS_MOB"):
            families(store)
    finally:
        drop_store(url)


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
        if name == "load" and table == {table!r} and once("killed"):
            next(Path(words[-2].removeprefix("file://"), {family!r}).iterdir()).unlink()
            run()
            os.kill(os.getppid(), signal.SIGKILL)
            sys.exit(1)
        """)
    values = corpus(tmp_path / "c.jsonl")
    command = command_for(tmp_path)
    variables = {name: os.environ[name] for name in (VARIABLE, *QUICKLY_COMPILED)}
    environ = environment(SIMHBASE_STORE=url, **variables)
    first = subprocess.run([*COMMAND, *command], cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL
    with open_index(url, access="read") as index:
        assert set(index.fingerprints(list(values))) == {None} or table == "documents"
        assert Checker(index.store, SCHEME).check().clean
        (state,) = Administrator(index).loads()
        assert state.progress == "running"
    assert list(tmp_path.glob("simhbase-load-*"))
    done = run(*command, cwd=tmp_path, SIMHBASE_STORE=url)
    assert done.returncode == 0, done.stderr.decode()
    assert rows_later(url) == rows_for(PROFILE, values)
    assert not list(tmp_path.glob("simhbase-load-*"))


def command_for(folder: Path) -> list[str]:
    return ["load", "--via", "hfiles", "--fingerprint-field", "f", "--work-folder", str(folder), "c.jsonl"]


@pytest.mark.full
@pytest.mark.parametrize("options", [[], ["--unique-only"]])
def test_a_load_that_is_killed_before_and_after_each_table_ends_as_one_that_is_not(
    url, tool, tmp_path, options
):
    tool("""
        def killed():
            os.kill(os.getppid(), signal.SIGKILL)
            sys.exit(1)
        if name == "load":
            if once(f"before-{table}"):
                killed()
            if once(f"after-{table}"):
                run()
                killed()
        """)
    values = distinct_corpus(tmp_path / "c.jsonl")
    command = [*command_for(tmp_path), *options]
    variables = {name: os.environ[name] for name in (VARIABLE, *QUICKLY_COMPILED)}
    environ = environment(SIMHBASE_STORE=url, **variables)
    codes: list[int] = []
    while codes[-1:] != [0] and len(codes) < 10:
        codes.append(subprocess.run([*COMMAND, *command], cwd=tmp_path, env=environ, check=False).returncode)
    assert codes == [-signal.SIGKILL] * 6 + [0]
    assert rows_later(url) == rows_for(PROFILE, values)
    assert not list(tmp_path.glob("simhbase-load-*"))


@pytest.mark.full
def test_a_work_folder_without_room_is_named_and_the_load_is_run_again(url, tool, tmp_path):
    """Files may have 200 kB, which those of the index exceed."""
    tool("")
    values = corpus(tmp_path / "c.jsonl", 5000)
    variables = {name: os.environ[name] for name in (VARIABLE, *QUICKLY_COMPILED)}
    full = subprocess.run(
        [*COMMAND, *command_for(tmp_path)],
        cwd=tmp_path,
        env=environment(SIMHBASE_STORE=url, **variables),
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY)),
    )
    assert full.returncode == 1
    assert b"cannot write the files of the load in" in full.stderr
    assert rows_later(url) == rows_for(PROFILE, {})
    assert not list(tmp_path.glob("simhbase-load-*/*/rows/*"))
    load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    assert rows_later(url) == rows_for(PROFILE, values)


@pytest.mark.full
def test_rounds_that_were_handed_over_count(url, tool, tmp_path, monkeypatch):
    """A load that is stopped after some rounds goes on behind these."""
    monkeypatch.setattr(job, "ROUND", 500)
    monkeypatch.setattr(load_job, "CHUNKS_AT_ONCE", 1)
    tool("""
        if name == "load" and table == "documents" and not once("first") and once("second"):
            print("Exception in thread main: no room")
            sys.exit(1)
        """)
    monkeypatch.setattr(hfiles_module, "ATTEMPTS", 1)
    values = corpus(tmp_path / "c.jsonl", 1000)
    with pytest.raises(StoreFailed, match="no room"):
        load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    report = load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    assert (report.added, report.unchanged) == (1000, 0)
    assert rows_later(url) == rows_for(PROFILE, values)


@pytest.fixture
def elsewhere(hbase: Cluster, tmp_path: Path) -> tuple[Path, list[str]]:
    """A local folder that HBase's tools know as viewfs://mount/files, and the options that tell them so."""
    conf, folder = tmp_path / "conf", tmp_path / "files"
    shutil.copytree(hbase.folder / "conf", conf)
    folder.mkdir()
    properties = {
        "fs.viewfs.mounttable.mount.link./files": f"file://{folder}",
        "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",  # as everywhere; -put needs it
    }
    lines = [
        f"<property><name>{name}</name><value>{value}</value><final>true</final></property>"
        for name, value in properties.items()
    ]
    (conf / "core-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return folder, ["--conf", str(conf)]


# The servers do not know the other file system.
ELSEWHERE = """
    if name == "load":
        line = line.replace("viewfs://mount/files", "file://{folder}")
    if {is_prepared} and words[0] == "-mkdir" and "simhbase-load" in words[-1] and once("prepared"):
        os.makedirs(words[-1].replace("viewfs://mount/files", "{folder}"))
    """


@pytest.mark.parametrize("is_prepared", [False, True])
def test_copies_for_the_tools_are_put_into_a_folder_of_this_load_alone(
    hbase, url, elsewhere, tmp_path, monkeypatch, is_prepared
):
    """Others can compute its name: who made it could replace the files that are handed over."""
    folder, options = elsewhere
    script = ELSEWHERE.format(is_prepared=is_prepared, folder=folder)
    monkeypatch.setenv(VARIABLE, hooked(hbase, tmp_path, script, *options))
    values = corpus(tmp_path / "c.jsonl")
    where = {"via": "hfiles", "work_folder": "viewfs://mount/files/deeper"}
    if is_prepared:
        with pytest.raises(StoreFailed, match="copying files to viewfs:") as raised:
            load(tmp_path / "c.jsonl", url, **where)
        assert "File exists" in str(raised.value)
    load(tmp_path / "c.jsonl", url, **where)
    assert rows_later(url) == rows_for(PROFILE, values)
    assert list(folder.rglob("*")) == [folder / "deeper"]


# What goes wrong


def test_a_tool_that_fails_is_shown_and_its_log_is_kept(url, answering, tmp_path):
    failing = (
        "2026-11-22 INFO [main]: Starting\n"
        'Exception in thread "main" java.io.IOException: no space left on device\n'
        "\tat org.apache.hadoop.fs.RawLocalFileSystem.write\n"
        "simhbase: false"
    )
    answering(f"'simhbase: true' if line.startswith('has') else {failing!r}")
    corpus(tmp_path / "c.jsonl", 10)
    with pytest.raises(StoreFailed) as raised:
        load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    said = str(raised.value)
    assert said.startswith("loading rows into hfiles_fingerprints failed 3 times: ")
    assert 'Exception in thread "main" java.io.IOException: no space left on device' in said
    (log,) = tmp_path.glob("simhbase-load-*/*/tools.log")
    assert str(log) in said
    (state,) = loads(url)
    assert (state.progress, state.parts) == ("stopped", 0)
    assert rows_later(url) == rows_for(PROFILE, {})


def loads(url: str) -> list[LoadState]:
    with open_index(url, access="read") as index:
        return Administrator(index).loads()


@pytest.mark.parametrize(
    ("answer", "version", "message"),
    [
        ("''", "HBase 1.4.13", "is of HBase 1.4.13: 2.2 and later load HFiles"),
        ("''", "Hadoop", "does not say which version of HBase it is"),
        ("sys.exit(7)", "HBase 2.6.1", "looking for clock in hfiles_meta failed .it ended with 7"),
        (
            "'simhbase: false'",
            "HBase 2.6.1",
            "does not find in hfiles_meta what was written",
        ),
    ],
)
def test_a_command_of_another_hbase_is_refused_before_anything_is_written(
    url, answering, tmp_path, answer, version, message
):
    answering(answer, version)
    corpus(tmp_path / "c.jsonl", 10)
    with pytest.raises(SimhbaseError, match=message):
        load(tmp_path / "c.jsonl", url, via="hfiles", work_folder=tmp_path)
    assert rows_later(url) == rows_for(PROFILE, {})


@pytest.mark.usefixtures("tool")
def test_the_command_is_not_refused_where_others_opened_the_store_meanwhile(hbase, url, tmp_path):
    tools = Tools(hbase_command(), tmp_path / "log", lambda: None)
    with closing(cast(HBaseStore, open_store(url, "write"))) as store, closing(tools):
        written, later = store.server_time(), store.server_time()
        meta = store.table("meta").name
        hbase.shell(f"flush '{meta}'")  # drops all versions but the latest
        assert tools.has(meta, CLOCK_ROW.decode(), written)
        assert not tools.has(meta, CLOCK_ROW.decode(), later + 3_600_000)


def test_a_command_of_another_hbase_is_refused_when_it_has_started(url, answering, tmp_path):
    """Not when everything has been read."""
    answering("'simhbase: true'", "HBase 1.4.13")

    def put_aside_for_ever() -> None:
        with job.HFileLoad(index, tmp_path, "old", lambda: None, lambda text: None) as taking:
            for number in count():
                taking.append(
                    DocumentBatch([f"{number}"], FingerprintBatch.bare(np.array([number], np.uint64)))
                )

    with open_index(url) as index, pytest.raises(UsageError, match=r"is of HBase 1\.4\.13"):
        put_aside_for_ever()


def test_without_the_command_the_message_says_where_to_get_it(url, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "hbase-of-nobody --config x")
    with pytest.raises(UsageError, match=f"no command 'hbase-of-nobody --config x'.*{VARIABLE}"):
        load(tmp_path / "missing.jsonl", url, via="hfiles")


def test_a_folder_that_cannot_be_written_is_named(url, answering, tmp_path):
    answering("'simhbase: true'")
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreFailed, match=r"cannot write the files of the load in .*/file/simhbase-load-.*work folder"
    ):
        load(tmp_path / "missing.jsonl", url, via="hfiles", work_folder=tmp_path / "file")


def test_what_was_made_long_ago_is_not_handed_over(url, answering, tmp_path):
    """Vacuum might take it for old."""
    answering("'simhbase: true'")
    times = iter([0, 0, job.MOST_AGE * 1000 + 1])
    with open_index(url) as index:
        taking = job.HFileLoad(
            index, tmp_path, "old", lambda: None, lambda text: None, clock=lambda: next(times)
        )
        with taking:
            taking.append(DocumentBatch(["a"], FingerprintBatch.bare(np.array([1], np.uint64))))
            with pytest.raises(StoreFailed, match=r"written 2\.0 hours ago"):
                taking.hand_over()


def test_a_second_run_of_a_load_leaves_the_files_of_the_first(url, answering, tmp_path):
    answering("'simhbase: true'")
    corpus(tmp_path / "c.jsonl", 10)
    options = {"via": "hfiles", "work_folder": tmp_path}
    busy: list[str] = []

    def load_again(text: str) -> None:
        with pytest.raises(StoreBusy, match="is running already"):
            load(tmp_path / "c.jsonl", url, **options)
        busy.extend(path.name for path in tmp_path.glob("simhbase-load-*/*/*"))

    class Telling(Watcher):
        def note(self, text: str) -> None:
            load_again(text)

    inputs = Inputs(["c.jsonl"], READ, threads=1, watcher=Telling())
    with chdir(tmp_path), pytest.raises(StoreFailed):
        simhbase.load(inputs, url, **options)  # type: ignore[arg-type]
    assert "documents" in busy
