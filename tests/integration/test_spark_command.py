"""`simhbase spark dedup` has the lists, the report and the exit codes of `simhbase dedup`."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # the usual name

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.corpus.rejects import TooManyRejects
from simhbase.deduplication.report import DedupReport
from simhbase.errors import BadInput, OutputFailed, SimhbaseError, UsageError
from simhbase.spark.dedup import PLACE, REPRESENTATIVE, require_same_rows
from simhbase.spark.dedup_files import dedup_files
from simhbase.spark.files import Files, _name
from simhbase.spark.fingerprints import ID
from simhbase.spark.folders import Outputs
from simhbase.spark.hfile_input import _Folder
from simhbase.spark.session import PARTITIONS, for_files, shuffle_as_read
from tests import thrift
from tests.command_line import environment, run, run_alone, texts, write_lines
from tests.examples import ROOT
from tests.unit.test_parquet import ROW_GROUPS, groups_of, with_footer

pytestmark = pytest.mark.spark


JSON_LINES = InputOptions(format="jsonl", whole_rows=True)
OUTPUTS = ("unique", "duplicates", "rejects", "report")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(tmp_path: Path) -> Path:
    """Near-duplicates in several files, and records that are rejected."""
    contents = [each for text in texts(8, words=60) for each in (text, f"{text} tail", text)]
    folder = tmp_path / "corpus"
    (folder / "a sub").mkdir(parents=True)
    for number, name in enumerate(["b.jsonl", "a.jsonl", "a sub/c.jsonl"]):
        records = [
            {"id": f"{number}-{each}", "text": text, "day": f"2026-01-{each + 1:02}"}
            for each, text in enumerate(contents[number::3])
        ]
        write_lines(folder / name, records)
    with (folder / "b.jsonl").open("a") as file:
        file.write(
            '\n{broken\r\n{"id": "s", "text": "?"}\n{"text": "no id"}\n{"id": "0-1", "text": "again"}\n'
        )
        joined = json.dumps({"id": "j1", "text": contents[1]}) + json.dumps({"id": "j2", "text": contents[5]})
        file.write(joined + "\n")
        file.write(json.dumps({"id": "1-1", "text": contents[2]}) + "\n")
    return folder


def lines_of(output: Path) -> list[str]:
    parts = sorted(output.glob("part-*")) if output.is_dir() else [output]
    return [line for part in parts for line in part.read_text("utf-8").splitlines()]


def counted(report: object) -> dict[str, object]:
    values = report if isinstance(report, Mapping) else asdict(report)  # type: ignore[call-overload]
    values = json.loads(json.dumps(values))  # tuples are lists there
    return {name: value for name, value in values.items() if name not in ("seconds", "counts")}


@pytest.mark.full
def test_spark_submit_writes_the_lists_and_the_report_of_one_machine(tmp_path, corpus):
    options = ["--keep", "newest", "--date-field", "day", "--count-field", "copies", "--json", "corpus"]
    (tmp_path / "pyspark.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w').close()\n")  # a stranger's
    with chdir(tmp_path):
        lists = [f"--{each}={each}.jsonl" for each in ("unique", "duplicates", "rejects")]
        alone = run("dedup", *lists, *options, cwd=tmp_path)
        folders = [f"--{each}={each}" for each in ("unique", "duplicates", "rejects")]
        submit = [
            shutil.which("spark-submit", path=environment()["PATH"]) or "spark-submit",
            *("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"),
            *(str(ROOT / "examples/spark/run.py"), "dedup", *folders, "--report=report.json", *options),
        ]
        done = subprocess.run(submit, capture_output=True, text=True, env=environment(), check=False)
    assert (alone.returncode, done.returncode) == (3, 3), done.stderr
    assert not (tmp_path / "run").exists()
    *messages, report = done.stdout.splitlines()  # spark-submit joins both streams
    assert counted(json.loads(report)) == counted(json.loads(alone.stdout))
    assert (tmp_path / "report.json").read_text() == f"{report}\n"
    for name in ("duplicates", "rejects"):
        assert lines_of(tmp_path / name) == (tmp_path / f"{name}.jsonl").read_text("utf-8").splitlines()
    kept = (tmp_path / "unique.jsonl").read_text("utf-8").splitlines()
    assert sorted(lines_of(tmp_path / "unique")) == sorted(kept)
    said = [line for line in alone.stderr.decode().splitlines() if line.startswith("rejected")]
    assert said == [line for line in messages if line.startswith("rejected")]
    assert len(said) == 5
    assert {path.name for path in tmp_path.iterdir() if path.suffix in (".part", ".old", ".crc")} == set()


@pytest.fixture(scope="module")
def done(spark, tmp_path_factory) -> tuple[Path, DedupReport, DedupReport]:
    """A folder with the lists of both, and the reports of one machine and of Spark."""
    folder = tmp_path_factory.mktemp("done")
    corpus = written(folder)
    inputs = [str(corpus / name) for name in ("b.jsonl", "a.jsonl", "a sub")]
    options = {"min_containment": 0.999, "keep": "first", "count_field": "copies"}
    files = {name: folder / f"{name}.jsonl" for name in ("unique", "duplicates")}
    read = Inputs(inputs, rejects=folder / "rejects.jsonl")
    alone = simhbase.dedup(read, **options, **files)
    outputs = {name: str(folder / name) for name in OUTPUTS}
    return folder, alone, dedup_files(spark, inputs, **outputs, **options)


def test_files_have_the_lists_and_the_report_of_one_machine(done):
    folder, alone, found = done
    assert alone.not_contained > 0
    assert counted(found) == counted(alone) == counted(json.loads((folder / "report").read_bytes()))
    for name in ("duplicates", "rejects"):
        assert lines_of(folder / name) == (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
    kept = (folder / "unique.jsonl").read_text("utf-8").splitlines()
    assert sorted(lines_of(folder / "unique")) == sorted(kept)
    assert {path.name for path in folder.iterdir() if not path.suffix} == {"corpus", *OUTPUTS}


def test_outputs_that_exist_are_found_before_anything_is_read_and_stay(spark, done):
    folder, *_ = done
    outputs = {name: str(folder / name) for name in OUTPUTS}
    before = {name: lines_of(folder / name) for name in OUTPUTS}
    with pytest.raises(UsageError, match=r"^unique: .*exists: name another one, or replace it"):
        dedup_files(spark, ["nowhere"], **outputs)
    with pytest.raises(TooManyRejects):
        dedup_files(spark, [str(folder / "corpus")], **outputs, overwrite=True, max_rejects=3)
    assert {name: lines_of(folder / name) for name in OUTPUTS} == before


def test_files_without_documents_have_empty_lists(spark, tmp_path):
    file = write_lines(tmp_path / "a.jsonl", [{"id": "s", "text": "?"}])
    report = dedup_files(spark, [str(file)], unique=str(tmp_path / "unique"))
    assert (report.documents, report.rejected, report.unique, report.group_count) == (1, 1, 0, 0)
    assert lines_of(tmp_path / "unique") == []


@pytest.mark.full
def test_a_record_that_has_the_field_of_counts_is_refused(spark, tmp_path, corpus):
    with pytest.raises(BadInput, match="has a field 'day' already"):
        dedup_files(spark, [str(corpus)], unique=str(tmp_path / "unique"), count_field="day")
    assert {path.name for path in tmp_path.iterdir()} == {"corpus"}


def test_files_that_change_before_they_are_read_again_are_noticed(spark, corpus):
    rows = Files.find(spark, [str(corpus)], None).rows(spark, JSON_LINES, None, None)
    documents = rows.df.select(rows.id.alias(ID), rows.place.alias(PLACE)).persist()
    chosen = documents.where(F.col(ID).startswith("0-") | (F.col(ID) == "j2"))
    kept = chosen.withColumn(REPRESENTATIVE, F.col(ID))
    rejects = documents.limit(0)

    def read_again() -> list[str]:
        seen = Observation()
        found = [row.id.decode() for row in rows.kept(kept, rejects, None, seen).collect()]
        require_same_rows(seen, documents)
        return found

    assert sorted(read_again()) == ["0-0", "0-1", "0-1", *(f"0-{number}" for number in range(2, 8)), "j2"]
    lines = (corpus / "a.jsonl").read_text()
    (corpus / "a.jsonl").write_text(lines.replace('"1-3"', '"9-9"'))
    with pytest.raises(BadInput, match="the input changed while it was read"):
        read_again()
    documents.unpersist()


def test_outputs_get_their_names_together(spark, tmp_path, monkeypatch):
    outputs = Outputs(spark, {name: str(tmp_path / name) for name in ("unique", "report")}, overwrite=True)

    def write(content: str) -> None:
        with outputs.written():
            outputs.write("unique", content.encode())
            outputs.write("report", content.encode())

    def read() -> dict[str, str]:
        return {path.name: path.read_text() for path in tmp_path.iterdir()}

    write("first")
    rename = Outputs._rename

    def failing(self: Outputs, place: str, to: str) -> None:
        if place.endswith("report.part"):
            raise OutputFailed("the disk is gone")
        rename(self, place, to)

    with monkeypatch.context() as patch:
        patch.setattr(Outputs, "_rename", failing)
        with pytest.raises(OutputFailed, match="the disk is gone"):
            write("second")
    assert read() == dict.fromkeys(outputs.paths, "first")
    write("third")
    assert read() == dict.fromkeys(outputs.paths, "third")


def test_a_folder_with_the_name_of_an_output_and_old_stays(spark, tmp_path):
    """It was deleted with what --overwrite replaces."""
    (tmp_path / "unique.old").mkdir()
    (tmp_path / "unique.old" / "mine").write_text("kept")
    outputs = Outputs(spark, {"unique": str(tmp_path / "unique")}, overwrite=True)
    for content in (b"first", b"second"):
        outputs.require([])
        with outputs.written():
            outputs.write("unique", content)
    assert (tmp_path / "unique").read_bytes() == b"second"
    assert (tmp_path / "unique.old" / "mine").read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"unique", "unique.old"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives links away")
@pytest.mark.parametrize("name", ["unique", "unique.part"])
def test_a_link_of_another_user_is_not_followed(spark, tmp_path, name):
    """Hadoop deleted all files in the folder that such a link led to, which it could not delete itself."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / name).symlink_to(tmp_path)
    os.lchown(shared / name, 1, -1)
    shared.chmod(0o1777)
    outputs = Outputs(spark, {"unique": str(shared / "unique")}, overwrite=True)
    with pytest.raises(OutputFailed, match=r"cannot write .*/shared/unique.*: it is a link of another user"):
        outputs.require([])
    assert (shared / name).is_symlink()


@pytest.mark.parametrize("name", ["unique", "unique.part"])
def test_a_pipe_or_device_is_not_replaced(spark, tmp_path, name):
    """As root, --overwrite put a file in the place of /dev/null, for all of the machine."""
    os.mkfifo(tmp_path / name)
    outputs = Outputs(spark, {"unique": str(tmp_path / "unique")}, overwrite=True)
    with pytest.raises(OutputFailed, match=rf"cannot write .*/{name}: it is a device or pipe"):
        outputs.require([])
    assert (tmp_path / name).is_fifo()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("master", ["'local[1]'", "None"])
def test_a_session_on_this_machine_listens_on_it_alone(master, tmp_path):
    """Whoever could connect ended its jobs by the links of Spark's pages, or by messages."""
    program = f"""if True:
        from simhbase.spark.session import session_of
        with session_of("listening", {master}, {{}}, "OFF") as session:
            conf = session.sparkContext.getConf()
            print(session.sparkContext.uiWebUrl)
            print(conf.get("spark.driver.bindAddress"), conf.get("spark.driver.host"))
            print(session.sparkContext._jsc.sc().env().securityManager().isAuthenticationEnabled())
        with session_of("asked", {master}, {{"spark.ui.enabled": "true"}}, "OFF") as session:
            print(session.sparkContext.uiWebUrl)"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, cwd=tmp_path, text=True
    )
    without, addresses, asks_for_secret, asked = done.stdout.split("\n")[:4]
    assert (without, addresses, asks_for_secret) == ("None", "127.0.0.1 127.0.0.1", "True")
    assert asked.startswith("http://127.0.0.1:")


def test_others_cannot_read_what_spark_keeps_meanwhile(tmp_path):
    """Whoever had an account on the machine read the texts of a job, also those that a killed one left."""
    program = """if True:
        import os, stat, sys
        from pathlib import Path
        from simhbase.spark.session import session_of
        for number in range(2):
            with session_of("keeping", "local[1]", {}, "OFF") as session:
                print(session.range(10).repartition(2).count())
                kept = {path.parent.parent for path in Path(sys.argv[1]).glob("**/blockmgr-*/??")}
                print({stat.S_IMODE(path.stat().st_mode) & 0o077 for path in kept})"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        cwd=tmp_path,
        text=True,
    )
    assert done.stdout == "10\n{0}\n" * 2, done.stderr
    assert not list(tmp_path.glob("simhbase-*"))


def test_spark_is_not_looked_for_above_the_current_folder_and_files_have_the_mode_that_umask_says(tmp_path):
    """A stranger's bin/spark-submit was run, and all on the machine could read the lists."""
    current = tmp_path / "current"
    for folder in (current, tmp_path / "jars", tmp_path / "bin"):
        folder.mkdir()
    strangers = tmp_path / "bin" / "spark-submit"
    strangers.write_text("#!/bin/sh\ntouch ../run\nexit 1\n")
    strangers.chmod(0o755)
    program = """if True:
        import os
        from simhbase.spark.session import session_of
        with session_of("writing", "local[1]", {}, "OFF") as session:
            session.range(1).selectExpr("string(id)").write.text("written")
        print("SPARK_HOME" in os.environ)"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        cwd=current,
        text=True,
        umask=0o077,
    )
    assert not (tmp_path / "run").exists()
    assert done.stdout == "False\n", done.stderr
    written = [current / "written", *(current / "written").iterdir()]
    assert {path.stat().st_mode & 0o077 for path in written} == {0}


def test_a_session_of_several_processes_on_this_machine_begins(tmp_path):
    """It was asked for a secret that nobody had given."""
    program = """if True:
        from simhbase.spark.session import session_of
        with session_of("several", "local-cluster[1,1,1024]", {}, "OFF") as session:
            print(session.range(10).repartition(2).count())"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, cwd=tmp_path, text=True
    )
    assert done.stdout == "10\n", done.stderr


@pytest.mark.parametrize("option", ["inputs", "unique"])
def test_passwords_in_uris_are_not_shown(spark, corpus, option):
    for uri in (
        "nowhere://u:secret@h/x",
        "http://u:secret@127.0.0.1:1/x.jsonl",
        "ftp://u:secret@127.0.0.1:1/x",
    ):
        given = {"inputs": [str(corpus)]} | ({"inputs": [uri]} if option == "inputs" else {"unique": uri})
        with pytest.raises(SimhbaseError) as failed:
            dedup_files(spark, **given)
        assert "secret" not in str(failed.value)


def test_files_of_servers_are_listed_without_passwords():
    uri = "http://u:secret@h/day/a.jsonl"
    assert _name(uri, "http://u:secret@h/day") == "http://h/day/a.jsonl"


def test_a_folder_of_another_user_gets_no_hfiles(tmp_path):
    """Its owner could replace them before they are loaded."""
    tmp_path.chmod(0o1777)
    (tmp_path / "out").mkdir()
    os.chown(tmp_path / "out", 1, -1)
    with pytest.raises(OutputFailed, match=r"cannot write .*/out: it is a folder of another user"):
        _Folder(f"file://{tmp_path}/out").make()
    assert list((tmp_path / "out").iterdir()) == []


def test_rows_of_parquet_are_read_and_written_with_all_columns(spark, tmp_path, corpus):
    table = pq.read_table
    frame = spark.read.json(str(corpus / "a.jsonl")).union(spark.read.json(str(corpus / "a.jsonl")))
    frame.coalesce(1).write.parquet(str(tmp_path / "table"))
    outputs = {name: str(tmp_path / name) for name in ("unique", "rejects")}
    found = dedup_files(spark, [str(tmp_path / "table")], **outputs, count_field="copies")
    assert (found.documents, found.unique, found.rejected) == (16, 8, 8)
    assert sorted(table(tmp_path / "unique").column_names) == ["copies", "day", "id", "text"]
    reject = json.loads(lines_of(tmp_path / "rejects")[0])
    assert re.fullmatch(r"the same id came before, in line 1 of .*parquet", reject["reason"])
    assert reject["line"] == 9


def test_what_cannot_be_read_or_written_is_refused(spark, tmp_path, corpus):
    with pytest.raises(UsageError, match=r"^unique: .* is, holds or is within the input"):
        dedup_files(spark, [str(corpus)], unique=str(corpus / "unique"))
    with pytest.raises(UsageError, match="finds no such file or folder"):
        dedup_files(spark, [str(tmp_path / "nothing")])
    (tmp_path / "_b.jsonl").write_bytes((corpus / "b.jsonl").read_bytes())
    with pytest.raises(UsageError, match=r"no files in .*_b\.jsonl \(Spark passes over names"):
        dedup_files(spark, [str(corpus), str(tmp_path / "_b.jsonl")])
    with pytest.raises(UsageError, match="is given twice"):
        dedup_files(spark, [str(corpus), str(corpus / "a.jsonl")])
    (corpus / "d.csv").write_text("id,text\n")
    with pytest.raises(UsageError, match=r"^format: "):
        dedup_files(spark, [str(corpus)])
    assert len(Files.find(spark, [str(corpus)], "jsonl").names) == 4


def test_damaged_files_are_an_error_whatever_the_session_does(spark, tmp_path, corpus):
    """The settings of a cluster may be to pass over what cannot be read, without a word."""
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    packed = gzip.compress((corpus / "b.jsonl").read_bytes())
    (tmp_path / "b.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing that can be read PAR1")
    for name in ("b.jsonl.gz", "b.parquet"):
        with pytest.raises(SimhbaseError):
            dedup_files(session, [str(tmp_path / name)])


def test_a_packed_file_without_a_byte_was_cut_short(spark, tmp_path, corpus):
    """Beside others it was left out without a word. One of no lines, and an empty one that is not packed, are
    sound."""
    (corpus / "d.jsonl.gz").write_bytes(gzip.compress(b""))
    (corpus / "e.jsonl").touch()
    dedup_files(spark, [str(corpus)])
    (corpus / "f 1%.jsonl.gz").touch()
    with pytest.raises(
        BadInput, match=r"f 1%\.jsonl\.gz is empty, which no packed file is: it was cut short"
    ):
        dedup_files(spark, [str(corpus)])


def test_of_a_line_that_is_too_long_no_more_is_handed_over_than_tells_this(spark, tmp_path):
    """All of it went through Arrow to Python."""
    long = json.dumps({"id": "long", "text": "x" * 1000})
    (tmp_path / "a.jsonl").write_text(f'{long}\n{{"id": "a", "text": "one two three four"}}\n')
    options = InputOptions(max_record_bytes=100)
    done = dedup_files(spark, [str(tmp_path / "a.jsonl")], rejects=str(tmp_path / "rejects"), options=options)
    assert (done.documents, done.unique) == (2, 1)
    (line,) = lines_of(tmp_path / "rejects")
    assert "the record has 101 bytes or more" in json.loads(line)["reason"]


def test_a_line_that_takes_more_memory_than_there_is_ends_the_command(tmp_path):
    """A thread of Java ended, and Python waited for its rows for ever."""
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(b'{"id": "long", "text": "')
        for _ in range(300):
            file.write(bytes(1 << 20))
    options = ("--master", "local[1]", "--conf", "spark.driver.memory=600m", "--unique", "unique")
    done = run_alone("spark", "dedup", *options, "a.jsonl.gz", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(b"Error: the Java process of Spark has ended")
    assert not (tmp_path / "unique").exists()


def test_columns_that_some_files_of_parquet_lack_are_kept(spark, tmp_path):
    """Those of the file that Spark took for an example were those of all."""
    (tmp_path / "in").mkdir()
    for name, more in (("a", {}), ("b", {"extra": ["x"]}), ("c", {"other": [1]})):
        text = f"a text of the file {name * 9} and of no other {name * 7}"
        pq.write_table(pa.table({"id": [name], "text": [text], **more}), tmp_path / f"in/{name}.parquet")
    dedup_files(spark, [str(tmp_path / "in")], unique=str(tmp_path / "unique"))
    rows = pq.read_table(tmp_path / "unique").sort_by("id").to_pylist()
    assert [(row["id"], row["extra"], row["other"]) for row in rows] == [
        ("a", None, None),
        ("b", "x", None),
        ("c", None, 1),
    ]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([0], "its groups have 3 rows, its footer counts 6"),
        ([0, 0], "its columns overlap"),
    ],
)
def test_rows_that_the_footer_of_a_parquet_file_leaves_out_are_told(spark, tmp_path, groups, said):
    """Spark takes it at its word. Before rows are read, so that the lists of all files are not written."""
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": list("abcdef"), "text": texts(6)})
    for name in ("a", "b %"):
        pq.write_table(rows, tmp_path / f"in/{name}.parquet", row_group_size=3)
    assert dedup_files(spark, [str(tmp_path / "in")]).documents == 12

    def keep(footer: thrift.Struct) -> None:
        of_groups = groups_of(footer)
        footer[ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, [of_groups[number] for number in groups]))

    with_footer(tmp_path / "in/b %.parquet", keep)
    with pytest.raises(BadInput, match=rf"b %\.parquet: it cannot be read \({said}\)$"):
        dedup_files(spark, [str(tmp_path / "in")])


def test_commands_have_a_session_with_the_settings_of_the_one_given_and_plans_of_their_own(spark, tmp_path):
    given = spark.newSession()
    settings = {
        "fs.s3a.secret.key": "hidden in lists of settings",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.files.maxPartitionBytes": "100",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        PARTITIONS: "77",
    }
    for name, value in settings.items():
        given.conf.set(name, value)
    own = for_files(given)
    found = {name: own.conf.get(name) for name in settings}
    assert found == {**settings, "spark.sql.adaptive.enabled": "false", PARTITIONS: "2"}
    file = write_lines(tmp_path / "a.jsonl", [{"id": f"{n}"} for n in range(100)])
    rows = own.read.text(str(file))
    shuffle_as_read(rows)
    assert int(own.conf.get(PARTITIONS)) == rows.rdd.getNumPartitions() > 2
    shuffle_as_read(rows.coalesce(1))
    assert int(own.conf.get(PARTITIONS)) == rows.rdd.getNumPartitions()
    assert {name: given.conf.get(name) for name in settings} == settings
