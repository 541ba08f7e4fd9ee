"""A nightly load on Spark leaves the store and the lists of `simhbase load --unique-only`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import DataFrame

import simhbase
from simhbase import spark as jobs
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.rejects import TooManyRejects
from simhbase.corpus.watcher import Watcher
from simhbase.errors import BadInput, OutputFailed, UsageError
from simhbase.index import Index
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import known_in
from simhbase.jobs import pipeline
from simhbase.loads import load
from simhbase.profile.file import read_parameters
from simhbase.profile.profile import make_profile
from simhbase.spark import unique
from simhbase.stores import open_store
from tests.command_line import environment, read_lines, texts, write_lines

pytestmark = pytest.mark.spark

COLUMNS = "n long, id string, text string"
COUNTS = ("documents", "loaded", "added", "updated", "unchanged", "duplicates", "outdated", "rejected")


def variant(text: str, number: int, changes: int) -> str:
    """A text with some other words."""
    words = text.split()
    chance = random.Random(f"{number} {changes}")
    for place in chance.sample(range(len(words)), changes):
        words[place] = f"other{number}x{place}"
    return " ".join(words)


def nights(folder: Path, count: int) -> tuple[Path, Path]:
    """Documents that are stored before, and those of a night: new ones, near ones of both and of each other,
    ids with new texts, texts near the old ones of those, before and after them, and bad rows."""
    chance = random.Random(48)
    contents = texts(count, words=60)
    stored = [{"id": f"s{n}", "text": text} for n, text in enumerate(contents[: count // 2])]
    stored += [{"id": f"v{n}", "text": variant(contents[n], n, 1)} for n in range(0, count // 2, 5)]
    night: list[dict[str, object]] = []
    for number in range(count):
        text = contents[chance.randrange(count)]
        night.append({"id": f"t{number}", "text": variant(text, number, chance.choice([0, 1, 2, 4]))})
    for number in range(0, count // 2, 3):  # come again: near, as another text, or near another document
        of = contents[chance.randrange(count)] if number % 2 else contents[number]
        night.append({"id": f"s{number}", "text": variant(of, -number, chance.choice([0, 1, 3, 40]))})
    chance.shuffle(night)
    night[20:20] = [
        {"id": night[3]["id"], "text": contents[7]},
        {"id": None, "text": contents[8]},
        {"id": "", "text": contents[8]},
        {"id": "short", "text": "?"},
        {"id": "s1", "text": "?"},
        {"id": "null"},
    ]
    numbered = ({"n": n, **each} for n, each in enumerate(night))
    return write_lines(folder / "stored.jsonl", stored), write_lines(folder / "night.jsonl", numbered)


@contextmanager
def one_batch() -> Iterator[None]:
    """Loads of the command write everything together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "CHUNKS_AT_ONCE", 1 << 30)
        patch.setattr(load, "INGESTED_CHUNKS_AT_ONCE", 1 << 30)
        patch.setattr(pipeline, "JOINED_BYTES", 1 << 40)
        yield


def documents_of(url: str) -> dict[str, int]:
    with simhbase.open(url, access="read") as index:
        found = [known_in(batch) for batch in index.store.records("documents").iterate()]
        return {
            document: each.entry.fingerprint
            for some in found
            for document, each in some.items()
            if each.stored
        }


def rows(spark, night: Path, partitions: int = 3):
    return spark.read.schema(COLUMNS).json(str(night)).repartition(partitions)


def lists(found: jobs.UniqueLoad) -> tuple[dict[str, tuple], list[tuple], list[int]]:
    duplicates = {
        row.id: (row.duplicate_of, row.distance, row.similarity and round(row.similarity, 4))
        for row in found.duplicates.collect()
    }
    rejects = sorted((row.id or "", row.reason) for row in found.rejects.collect())
    return duplicates, rejects, sorted(row.n for row in found.unique.collect())


def of_command(night: Path, url: str, out: Path) -> tuple[simhbase.LoadReport, dict[str, tuple], list[int]]:
    with one_batch():
        report = simhbase.load(
            night, url, unique_only=True, unique=out / "unique.jsonl", duplicates=out / "duplicates.jsonl"
        )
    duplicates = {
        line["id"]: (line["duplicate_of"], line["distance"], line.get("similarity"))
        for line in read_lines(out / "duplicates.jsonl")
    }
    return report, duplicates, [line["n"] for line in read_lines(out / "unique.jsonl")]


class Killed(BaseException):
    pass


@pytest.mark.full
@pytest.mark.parametrize("profile", ["default", "complete"])
@pytest.mark.parametrize("count", [600, 50_000])
def test_a_night_ends_as_by_the_command_also_after_kills(
    spark, tmp_path, monkeypatch, record_property, profile, count
):
    urls = [f"rocksdb:{tmp_path}/{name}.db" for name in ("command", "spark")]
    took = require_the_same_night(spark, tmp_path, monkeypatch, urls, profile, count)
    record_property(f"{profile}, {count} documents", took)


@pytest.mark.hbase
@pytest.mark.full
@pytest.mark.parametrize("profile", ["default", "complete"])
@pytest.mark.parametrize("count", [600, 50_000])
def test_a_night_in_hbase_ends_as_by_the_command_also_after_kills(
    hbase, spark, tmp_path, monkeypatch, record_property, profile, count
):
    """Executors write. The command writes to RocksDB: in HBase, where it claims documents, it also keeps some
    that only match the old texts of ids that come again."""
    urls = [f"rocksdb:{tmp_path}/command.db", hbase.empty_store("spark")]
    with closing(open_store(urls[1], "write")) as store:
        write_profile(store, make_profile(read_parameters(profile)))
    took = require_the_same_night(spark, tmp_path, monkeypatch, urls, profile, count)
    record_property(f"{profile}, {count} documents, in HBase", took)


def require_the_same_night(spark, tmp_path, monkeypatch, urls: list[str], profile: str, count: int) -> str:
    """How long it took. urls: of the stores that the command and Spark write. Spark is killed twice: before
    it has decided, and when it has stored some."""
    before, night = nights(tmp_path, count)
    for url in urls:
        simhbase.load(before, url, read_parameters(profile))
    expected, duplicates, kept = of_command(night, urls[0], tmp_path)
    assert min(expected.added, expected.updated, expected.duplicates, expected.outdated) > 5

    def run(**options):
        given = {"name": "night 1/2", "work": tmp_path / "work", "order_column": "n", **options}
        return jobs.unique_load(rows(spark, night), urls[1], **given)

    def killed(*_: object, **__: object) -> None:
        raise Killed

    stored = documents_of(urls[1])
    with monkeypatch.context() as patch:
        patch.setattr(unique, "with_components", killed)
        with pytest.raises(Killed):
            run()
    assert documents_of(urls[1]) == stored
    begun = monotonic()
    with monkeypatch.context() as patch:
        write = unique._written

        def write_half(index: Index, rows: DataFrame, write_rows) -> None:
            list(write(index, rows.where("crc32(id) % 2 = 0"), write_rows))
            raise Killed

        patch.setattr(unique, "_written", write_half)
        with pytest.raises(Killed):
            run()
    assert documents_of(urls[1]) != stored
    decided = monotonic()
    resumed = run()
    ended = monotonic()
    assert documents_of(urls[1]) == documents_of(urls[0])
    found, rejects, numbers = lists(resumed)
    assert (found, numbers) == (duplicates, kept)
    assert len(rejects) == expected.rejected
    assert resumed.report.decided_before
    for name in ("documents", "loaded", "duplicates", "rejected", "outdated"):
        assert getattr(resumed.report, name) == getattr(expected, name), name
    fourth = run()
    assert (fourth.report.added, fourth.report.updated, fourth.report.outdated) == (0, 0, 0)
    assert lists(fourth) == (found, rejects, numbers)
    assert documents_of(urls[1]) == documents_of(urls[0])
    return (
        f"command {expected.seconds:.0f} s; Spark {decided - begun:.0f} s to decide and store half, "
        f"{ended - decided:.0f} s for the rest; {expected.loaded} loaded, {expected.duplicates} duplicates"
    )


def test_decisions_are_for_one_night_and_missing_ones_are_not_made_anew_in_silence(spark, tmp_path, caplog):
    one, other, third = texts(3)
    url = f"rocksdb:{tmp_path}/spark.db"
    frame = spark.createDataFrame([(1, "a", one), (2, "b", one + " ."), (3, "c", other)], COLUMNS)

    def run(df, **options):
        given = {"name": "night", "work": tmp_path / "work", **options}
        return jobs.unique_load(df, url, {"scheme": "minhash"}, **given)

    first = run(frame)  # creates the store
    assert (first.report.added, first.report.duplicates) == (2, 1)
    assert sorted(row.text for row in first.unique.collect()) == sorted([one, other])
    with pytest.raises(UsageError, match=r"'night' was decided for other documents, in .*again"):
        run(frame.union(spark.createDataFrame([(4, "d", third)], COLUMNS)))
    with pytest.raises(UsageError, match="'night' was decided for other options"):
        run(frame, min_similarity=0.9)
    with pytest.raises(UsageError, match=r"its decisions are not in .*elsewhere.* again"):
        run(frame, work=tmp_path / "elsewhere")
    assert "is decided again" not in caplog.text
    again = run(frame, work=tmp_path / "elsewhere", again=True)
    assert (again.report.added, again.report.unchanged, again.report.decided_before) == (0, 2, False)
    assert "the load 'night' is decided again" in caplog.text


def test_a_name_that_cannot_be_one_and_a_column_that_is_missing_leave_no_store(spark, tmp_path):
    frame = spark.createDataFrame([], COLUMNS)
    for options, said in (({"name": ""}, "not a valid name"), ({"id_column": "no"}, "no column 'no'")):
        given = {"name": "night", "work": tmp_path / "work", **options}
        with pytest.raises(UsageError, match=said):
            jobs.unique_load(frame, f"rocksdb:{tmp_path}/spark.db", **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("prepared", ["work", "work/night"])
def test_decisions_are_not_written_where_another_user_may_have_put_links(spark, tmp_path, prepared):
    """Hadoop deleted all files of the folder that a link named decided-for led to."""
    work = tmp_path / "work"
    (work / "night").mkdir(parents=True)
    (tmp_path / prepared).parent.chmod(0o1777)
    os.chown(tmp_path / prepared, 1, -1)
    frame = spark.createDataFrame([], COLUMNS)
    with pytest.raises(OutputFailed, match=f"/{prepared}: it is a folder of another user"):
        jobs.unique_load(frame, f"rocksdb:{tmp_path}/spark.db", name="night", work=work)
    assert not (tmp_path / "spark.db").exists()


@pytest.mark.full
@pytest.mark.postgresql
def test_executors_write_a_store_on_a_server(spark, postgresql, tmp_path):
    before, night = nights(tmp_path, 300)
    urls = [postgresql.empty_store(f"spark_{name}") for name in ("command", "executors")]
    for url in urls:
        simhbase.open(url, create="default").close()
        simhbase.load(before, url)
    expected, duplicates, kept = of_command(night, urls[0], tmp_path)
    for added in (expected.added, 0):
        done = jobs.unique_load(
            rows(spark, night), urls[1], name="night", work=tmp_path / "work", order_column="n"
        )
        assert documents_of(urls[1]) == documents_of(urls[0])
        found, _, numbers = lists(done)
        assert (found, numbers, done.report.added) == (duplicates, kept, added)


def test_files_are_loaded_with_the_lists_and_the_report_of_the_command(spark, tmp_path):
    before, night = nights(tmp_path, 120)
    with night.open("a") as file:
        file.write('{broken\n{"text": "no id"}\n')
    urls = [f"rocksdb:{tmp_path}/{name}.db" for name in ("command", "spark")]
    for url in urls:
        simhbase.load(before, url)
    names = ("unique", "duplicates", "rejects")
    files = {name: tmp_path / f"{name}.jsonl" for name in names}
    with one_batch():
        inputs = Inputs([night], rejects=files.pop("rejects"))
        expected = simhbase.load(inputs, urls[0], unique_only=True, **files)
    given = {"name": "night", "work": str(tmp_path / "work")}
    outputs = {name: str(tmp_path / name) for name in (*names, "report")}
    stored = documents_of(urls[1])
    with pytest.raises(TooManyRejects):
        jobs.load_files(spark, [str(night)], urls[1], **given, **outputs, max_rejects=2)
    assert documents_of(urls[1]) == stored
    found = jobs.load_files(spark, [str(night)], urls[1], **given, **outputs)
    assert documents_of(urls[1]) == documents_of(urls[0])
    assert without_times(asdict(found)) == without_times(asdict(expected))
    assert without_times(json.loads((tmp_path / "report").read_text())) == without_times(
        json.loads(json.dumps(asdict(expected)))
    )
    lines = {name: (tmp_path / f"{name}.jsonl").read_text("utf-8").splitlines() for name in names}
    for name in ("duplicates", "rejects"):
        assert lines_of(tmp_path / name) == lines[name]
    assert sorted(lines_of(tmp_path / "unique")) == sorted(lines["unique"])
    with pytest.raises(UsageError, match="exists: name another one"):
        jobs.load_files(spark, [str(night)], urls[1], **given, **outputs)
    again = jobs.load_files(spark, [str(night)], urls[1], **given, **outputs, overwrite=True)
    assert (again.added, again.updated, again.unchanged) == (0, 0, expected.loaded)
    assert lines_of(tmp_path / "duplicates") == lines["duplicates"]


class Changing(Watcher):
    """Swaps the first lines of a file once it was decided what is stored."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, text: str) -> None:
        one, other, *others = self._path.read_text().splitlines(keepends=True)
        self._path.write_text("".join([other, one, *others]))


def test_files_that_change_before_the_unique_documents_are_written_are_noticed(spark, tmp_path):
    """The list had others than those that were stored."""
    _, night = nights(tmp_path, 20)
    given = {"name": "night", "work": str(tmp_path / "work"), "watcher": Changing(night)}
    with pytest.raises(BadInput, match="the input changed while it was read"):
        jobs.load_files(
            spark, [str(night)], f"rocksdb:{tmp_path}/s.db", **given, unique=str(tmp_path / "unique")
        )
    assert not (tmp_path / "unique").exists()


def lines_of(folder: Path) -> list[str]:
    parts = sorted(folder.glob("part-*"))
    return [line for part in parts for line in part.read_text("utf-8").splitlines()]


def without_times(report: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in report.items() if name not in ("seconds", "counts")}


@pytest.mark.full
def test_a_command_that_is_killed_twice_ends_as_the_command_of_one_machine(tmp_path):
    before, night = nights(tmp_path, 1000)
    urls = [f"rocksdb:{tmp_path}/{name}.db" for name in ("command", "spark")]
    for url in urls:
        simhbase.load(before, url)
    _, duplicates, _ = of_command(night, urls[0], tmp_path)
    options = [
        "--unique-only",
        "--store",
        urls[1],
        "--name",
        "night",
        "--work",
        "work",
        "--duplicates",
        "old",
    ]
    settings = ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    simhbase_command = [sys.executable, "-m", "simhbase", "spark", "load", *options, *settings, str(night)]
    for is_decided in (False, True):
        with subprocess.Popen(
            simhbase_command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, bufsize=1
        ) as running:
            assert running.stderr is not None
            if is_decided:
                assert any(line.startswith("decided in") for line in running.stderr)
            while not (tmp_path / "work").exists():
                sleep(0.1)
            running.kill()
        assert bool(list((tmp_path / "work").glob("night/decisions/_SUCCESS"))) == is_decided
        assert not (tmp_path / "old").exists()
    done = subprocess.run(simhbase_command, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert done.returncode == 3, done.stderr
    assert documents_of(urls[1]) == documents_of(urls[0])
    assert {line["id"] for line in map(json.loads, lines_of(tmp_path / "old"))} == duplicates.keys()
