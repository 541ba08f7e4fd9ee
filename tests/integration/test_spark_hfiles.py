"""Rows that Spark has made for a store in HBase, which its real tools load."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

import simhbase
from simhbase import spark as jobs
from simhbase.admin import Administrator
from simhbase.errors import BadInput, ProfileMismatch, StoreFailed, UsageError
from simhbase.index import open_index
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.loads.hfile_input import MANIFEST
from simhbase.profile.profile import Profile
from simhbase.stores import open_store
from simhbase.stores.base import now
from simhbase.stores.hbase.tools import VARIABLE
from tests.cluster import Cluster, hooked
from tests.command_line import COMMAND, environment, run, texts
from tests.content import content
from tests.kept import rows_of, vacuumed

pytestmark = [pytest.mark.hbase, pytest.mark.spark]

PROFILE = Profile(verify=False)
COLUMNS = "id string, text string"


@pytest.fixture
def tools(hbase: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, shlex.join(hbase.command("run")))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # for so few rows


def store(hbase: Cluster, prefix: str, profile: Profile = PROFILE) -> str:
    url = hbase.empty_store(prefix)
    with closing(open_store(url, "write")) as opened:
        write_profile(opened, profile)
    return url


def rows_later(url: str) -> dict[str, object]:
    """What a store holds after a vacuum long afterwards."""
    with open_index(url) as index:
        vacuumed(index.store, index.profile.index_scheme)
        return rows_of(index.store)


def frame(spark, documents: dict[str, str]):
    return spark.createDataFrame(list(documents.items()), COLUMNS).repartition(3)


def before_and_after() -> tuple[dict[str, str], dict[str, str]]:
    """Documents of some ids, of which some are copies; what is left unchanged, moves and is new."""
    contents = texts(60)
    before = {f"{'long/' * (n % 3)}{n}": contents[n % 50] for n in range(300)}
    moved = {f"long/{n}": contents[55] for n in range(1, 40, 3)}
    return before, before | moved | {"new": contents[56], "deleted": contents[57], "ahead": contents[58]}


def add(url: str, documents: dict[str, str]) -> simhbase.AddReport:
    with open_index(url) as index:
        return index.add([simhbase.Document(*each) for each in documents.items()])


def add_beside(url: str) -> None:
    """A document that is deleted, and one written by a clock that is ahead."""
    with open_index(url) as index:
        batch = index.fingerprinter.fingerprint_many(texts(64)[62:]).fingerprints
        writer = Writer(index.store, index.profile.index_scheme)
        writer.add(DocumentBatch(["deleted"], batch[[0]]))
        writer.delete(["deleted"])
        Writer(index.store, index.profile.index_scheme, lambda: now() + 60_000).add(
            DocumentBatch(["ahead"], batch[[1]])
        )


@pytest.fixture(scope="module")
def made(hbase, spark, tmp_path_factory) -> tuple[str, Path, jobs.HFileInput]:
    """A store, and rows for it."""
    url, folder = store(hbase, "spark"), tmp_path_factory.mktemp("rows")
    (folder / "_attempts").mkdir()  # of a run that was stopped
    (folder / "_attempts" / "index-x").touch()
    before, after = before_and_after()
    add(url, before)
    add_beside(url)
    rejected = spark.createDataFrame([(None, "x"), ("", "x"), ("short", "?")], COLUMNS)
    documents = frame(spark, after).union(rejected)
    return url, folder, jobs.hfile_input(documents, url, folder, partitions=4)


def test_rows_of_spark_are_those_that_a_load_makes_in_files_of_one_region(made):
    url, folder, manifest = made
    _, after = before_and_after()
    with open_index(url) as index:
        fingerprints = index.fingerprinter.fingerprint_many(list(after.values())).fingerprints
        writer = Writer(index.store, index.profile.index_scheme)
        changes, report = writer.plan(DocumentBatch(list(after), fingerprints), manifest.version)
        assert counts(manifest) == {**counts(report), "updated": 14, "unchanged": 287}
        expected = {table: changes.rows(table) for table in changes.put}
        expected["index"] = [(key.tobytes(), b"") for key in changes.index.reshape(-1, 13)]
        starts = {table: index.store.region_starts(table) for table in expected}
    assert manifest.rejected == 3
    for table, rows in expected.items():
        made_of = manifest.tables[table]
        family = "i" if table == "index" else "d"
        assert {path.name for path in (folder / table / family).iterdir()} == {
            file.name for file in made_of.files
        }
        # Of so few rows all are samples.
        assert sorted(row for file in made_of.files for row in file.samples) == sorted(key for key, _ in rows)
        assert sum(file.rows for file in made_of.files) == len(rows)
        assert all(file.fits(starts[table]) for file in made_of.files)
    assert set(manifest.samples) <= set(after)


@pytest.mark.full
@pytest.mark.usefixtures("tools")
def test_rows_of_spark_end_as_those_of_a_usual_load(hbase, spark, tmp_path):
    before, after = before_and_after()
    urls = [store(hbase, "hfiles"), store(hbase, "usual")]
    for url in urls:
        add(url, before)
        add_beside(url)
    manifest = jobs.hfile_input(frame(spark, after), urls[0], tmp_path / "rows", partitions=4)
    report = add(urls[1], after)
    assert counts(manifest) == counts(report)
    loaded = simhbase.load_hfiles(tmp_path / "rows", urls[0])
    assert counts(loaded) == counts(manifest)
    assert rows_later(urls[0]) == rows_later(urls[1])
    assert not list((tmp_path / "rows").glob("simhbase-load-*"))
    with open_index(urls[0], access="read") as index:
        (state,) = Administrator(index).loads()
    assert (state.progress, state.counts) == ("finished", {**counts(manifest), "rejected": 0})


@pytest.mark.usefixtures("tools")
def test_documents_that_were_deleted_or_changed_since_stay_so_and_are_counted(hbase, spark, tmp_path):
    contents, url = texts(6), store(hbase, "since")
    add(url, {"old": contents[0]})
    documents = {"deleted": contents[1], "changed": contents[2], "new": contents[3], "old": contents[4]}
    jobs.hfile_input(frame(spark, documents), url, tmp_path / "rows")
    with open_index(url) as index:
        index.add([simhbase.Document("deleted", contents[1]), simhbase.Document("other", contents[5])])
        index.delete(["deleted", "other"])
    add(url, {"changed": contents[5]})
    loaded = simhbase.load_hfiles(tmp_path / "rows", url)
    assert (loaded.added, loaded.updated, loaded.overridden) == (3, 1, 2)
    with open_index(url, access="read") as index:
        found = [bool(index.find(text=text).matches) for text in contents[1:]]
    assert found == [False, False, True, True, True]


def counts(report) -> dict[str, int]:
    return {name: getattr(report, name) for name in ("added", "updated", "unchanged")}


@pytest.mark.full
@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("profile", [Profile(scheme="minhash"), Profile(verify=True, layout="6x3")])
def test_sketches_and_given_fingerprints_come_with_their_rows(hbase, spark, tmp_path, profile):
    documents = {f"{n}": text for n, text in enumerate([*texts(2_000), *texts(300)])}
    url = store(hbase, "sketches", profile)
    prints = jobs.fingerprint(frame(spark, documents), profile)
    repeated = prints.where("id = '7'").withColumn("fingerprint", F.expr("unhex('ffffffffffffffff')"))
    given = prints.union(repeated).withColumn("fingerprint", F.hex("fingerprint"))
    made = jobs.hfile_input(given, url, tmp_path / "rows", fingerprint_column="fingerprint")
    assert (made.added, made.rejected) == (len(documents), 1)
    simhbase.load_hfiles(tmp_path / "rows", url, work_folder=tmp_path)
    with open_index("memory:", create=profile) as index:
        index.add([simhbase.Document(*each) for each in documents.items()])
        expected = {name: rows for name, rows in content(index.store).items() if name != "meta"}
    assert rows_later(url) == {**expected, "obsolete": []}


@pytest.mark.full
def test_a_load_that_is_killed_is_run_again(hbase, spark, tmp_path, monkeypatch):
    """When the index is loaded, and nobody was told."""
    script = """
        if name == "load" and table == "index" and once("killed"):
            run()
            os.kill(os.getppid(), signal.SIGKILL)
        """
    monkeypatch.setenv(VARIABLE, hooked(hbase, tmp_path, script))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    url, documents = store(hbase, "killed"), {f"{n}": text for n, text in enumerate(texts(500))}
    jobs.hfile_input(frame(spark, documents), url, tmp_path / "rows")
    variables = {name: os.environ[name] for name in (VARIABLE, "JAVA_TOOL_OPTIONS")} | {"SIMHBASE_STORE": url}
    command = ["load-hfiles", str(tmp_path / "rows")]
    environ = environment(**variables)
    first = subprocess.run([*COMMAND, *command], cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL
    done = run(*command, cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr.decode()
    with open_index("memory:", create=PROFILE) as index:
        index.add([simhbase.Document(*each) for each in documents.items()])
        expected = {name: rows for name, rows in content(index.store).items() if name != "meta"}
    assert rows_later(url) == {**expected, "obsolete": []}


# What is refused


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"begun": 0}, StoreFailed, "hours ago.*Write the HFiles again, to another folder"),
        ({"tables_digest": "0"}, ProfileMismatch, "were written for other tables .* write them again"),
    ],
)
@pytest.mark.usefixtures("tools")
def test_rows_that_are_old_or_of_other_tables_are_not_loaded(made, tmp_path, changed, error, said):
    url, _, manifest = made
    (tmp_path / MANIFEST).write_bytes(replace(manifest, **changed).encode())
    with pytest.raises(error, match=said):
        simhbase.load_hfiles(tmp_path, url)


@pytest.mark.usefixtures("tools")
def test_files_that_cross_a_border_of_regions_are_not_loaded(made, tmp_path):
    url, _, manifest = made
    (file, *others), table = manifest.tables["index"].files, manifest.tables["index"]
    crossing = replace(file, samples=(b"\0" * 13, *file.samples[1:-1], b"\xff" * 13))
    tables = {"index": replace(table, files=(crossing, *others))}
    (tmp_path / MANIFEST).write_bytes(replace(manifest, tables=tables).encode())
    with pytest.raises(StoreFailed, match=r"regions of spark_index were split .* make them again"):
        simhbase.load_hfiles(tmp_path, url)


@pytest.mark.usefixtures("tools")
def test_a_folder_without_a_manifest_is_refused_and_not_made(made, tmp_path):
    with pytest.raises(BadInput, match=r"has no manifest\.json"):
        simhbase.load_hfiles(tmp_path / "x", made[0])
    assert not list(tmp_path.iterdir())
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(BadInput, match="is not a manifest of HFiles"):
        simhbase.load_hfiles(tmp_path, made[0])


@pytest.mark.parametrize("place", ["index/i/x", "documents", MANIFEST])
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/etc/hostname")], ids=["pipe", "link"]
)
def test_files_of_others_and_pipes_in_the_folder_are_not_loaded(made, tmp_path, make, place):
    """HBase's tool would copy what a link leads to into the table, and wait for the writer of a pipe."""
    url, _, manifest = made
    (tmp_path / MANIFEST).write_bytes(manifest.encode())
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).unlink(missing_ok=True)
    make(tmp_path / place)
    with pytest.raises(BadInput, match=f"{place} is a link, pipe or device"):
        simhbase.load_hfiles(tmp_path, url)


@pytest.mark.usefixtures("tools")
def test_a_manifest_that_is_too_large_is_not_read(made, tmp_path):
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(30 << 30)
    with pytest.raises(BadInput, match="has more than 256 MiB"):
        simhbase.load_hfiles(tmp_path, made[0])


def test_rows_are_not_written_to_a_folder_that_holds_others(made, spark):
    url, folder, _ = made
    with pytest.raises(UsageError, match="is not empty"):
        jobs.hfile_input(frame(spark, {}), url, folder)
    with pytest.raises(UsageError, match="fingerprints must be binary, bigint, decimals"):
        jobs.hfile_input(spark.sql("select 1d id"), url, folder / "x", fingerprint_column="id")
