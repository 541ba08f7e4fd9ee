"""`simhbase spark find` and `match` have the answers, the rejects and the exit codes of the commands of one
machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import simhbase
from simhbase.corpus.rejects import TooManyRejects
from simhbase.corpus.watcher import Watcher
from simhbase.errors import BadInput, TablesMissing, UsageError
from simhbase.model.values import Query
from simhbase.spark import answer_files
from simhbase.spark.answer_files import find_files, match_files
from tests.command_line import read_lines, run, texts, write_lines

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Files of an archive and of a day: near texts, copies, repeated ids, records that are rejected."""
    folder = tmp_path_factory.mktemp("answers")
    contents = texts(30, words=60)
    archive = [{"id": f"a{n}", "text": text} for n, text in enumerate(contents[:20])]
    archive += [{"id": f"c{n}", "text": contents[3]} for n in range(5, 0, -1)]
    archive += [{"id": f"n{n}", "text": f"{contents[n]} more words {n}"} for n in range(0, 20, 3)]
    archive += [{"id": "a1", "text": contents[25]}, {"id": "short", "text": "?"}]
    (folder / "archive" / "sub").mkdir(parents=True)
    write_lines(folder / "archive" / "b.jsonl", archive[::2])
    write_lines(folder / "archive" / "sub" / "a.jsonl", archive[1::2])
    day = [{"id": f"d{n}", "text": f"{text} today"} for n, text in enumerate(contents)]
    day += [{"id": "a7", "text": contents[7]}, {"id": "d1", "text": contents[3]}, {"id": "empty", "text": ""}]
    write_lines(folder / "day.jsonl", day)
    with (folder / "day.jsonl").open("a") as file:
        file.write('{broken\n{"text": "no id"}\n')
    return folder


def lines_of(folder: Path) -> list[str]:
    parts = sorted(folder.glob("part-*"))
    return [line for part in parts for line in part.read_text("utf-8").splitlines()]


def compared(spark, folder: Path, out: Path, job, command: list[object], **how) -> answer_files.AnswersReport:
    """Run both, and compare answers and rejects line by line."""
    alone = run(*command, "--json", "--rejects", out / "alone.jsonl", cwd=folder)
    outputs = {name: str(out / name) for name in ("answers", "rejects", "report")}
    report = job(spark, **how, **outputs, overwrite=True)
    assert alone.returncode == 3, alone.stderr
    assert lines_of(out / "answers") == alone.stdout.decode().splitlines()
    assert lines_of(out / "rejects") == (out / "alone.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines_of(out / "answers")]
    assert report.documents == len(found)
    assert report.with_matches == sum(bool(each["matches"]) for each in found) >= 10
    assert report.truncated == sum(each["truncated"] for each in found)
    written = json.loads((out / "report").read_text())
    assert written == {name: getattr(report, name) for name in written} | {"unusable_sources": []}
    assert {path.suffix for path in out.iterdir()} <= {"", ".jsonl", ".db"}
    return report


@pytest.mark.parametrize(
    ("profile", "query", "options", "how"),
    [
        ({"scheme": "minhash"}, Query(min_similarity=0.8), ["--min-similarity", "0.8"], {}),
        pytest.param(
            {"k": 3, "verify": False},
            Query(),
            ["--exclude-self", "--ids-limit", "2"],
            {"exclude_self": True, "ids_limit": 2},
            marks=pytest.mark.full,
        ),
    ],
)
def test_stored_documents_are_found_as_by_the_command(spark, tmp_path, corpus, profile, query, options, how):
    store = f"rocksdb:{tmp_path}/store.db"
    simhbase.load([corpus / "archive"], store, profile)
    day = str(corpus / "day.jsonl")
    command = ["find", "--store", store, *options, day]
    report = compared(
        spark, corpus, tmp_path, find_files, command, inputs=[day], store=store, query=query, **how
    )
    assert bool(report.truncated) == ("ids_limit" in how)
    assert report.rejected == 3


@pytest.mark.parametrize(
    ("profile", "options", "how"),
    [
        pytest.param({}, [], {}, marks=pytest.mark.full),
        ({"scheme": "simhash", "verify": False}, ["--ids-limit", "2"], {"ids_limit": 2}),
        ({}, ["--ids-limit", "3", "--matches-limit", "4"], {"ids_limit": 3, "matches_limit": 4}),
        pytest.param(
            {},
            ["--min-similarity", "0.9", "--ids-limit", "3"],
            {"min_similarity": 0.9, "ids_limit": 3},
            marks=pytest.mark.full,
        ),
    ],
)
def test_documents_are_matched_among_others_as_by_the_command(
    spark, tmp_path, corpus, monkeypatch, profile, options, how
):
    monkeypatch.setattr(answer_files, "_INDEXED_AT_ONCE", 7)
    day, archive = str(corpus / "day.jsonl"), str(corpus / "archive")
    settings = [
        word
        for name, value in profile.items()
        for word in ("--set", f"{name}={json.dumps(value).strip(chr(34))}")
    ]
    command = ["match", "--against", archive, *settings, *options, day]
    report = compared(
        spark, corpus, tmp_path, match_files, command, inputs=[day], against=[archive], profile=profile, **how
    )
    assert bool(report.truncated) == ("ids_limit" in how)


@pytest.mark.full
def test_files_are_matched_among_themselves_without_each_document_itself(spark, tmp_path, corpus):
    archive = str(corpus / "archive")
    command = ["match", "--against", archive, archive]
    other = f"{archive}/../archive"  # the same folder
    compared(spark, corpus, tmp_path, match_files, command, inputs=[other], against=[archive])


class Changing(Watcher):
    """Changes a file once it was read: each text, but not its length."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, text: str) -> None:
        lines = read_lines(self._path)
        write_lines(
            self._path, [line | {"text": line["text"].swapcase().replace("E", "X")} for line in lines]
        )


@pytest.mark.parametrize("changed", ["day.jsonl", "archive.jsonl"])
def test_files_that_change_before_their_texts_are_compared_are_noticed(spark, tmp_path, corpus, changed):
    """Their documents matched nothing."""
    day, archive = tmp_path / "day.jsonl", tmp_path / "archive.jsonl"
    write_lines(archive, read_lines(corpus / "archive" / "b.jsonl"))
    write_lines(day, read_lines(corpus / "archive" / "sub" / "a.jsonl"))
    watcher, answers = Changing(tmp_path / changed), tmp_path / "answers"
    with pytest.raises(BadInput, match="the input changed while it was read"):
        match_files(spark, [str(day)], [str(archive)], answers=str(answers), watcher=watcher)
    assert not answers.exists()


def test_what_cannot_be_answered_is_refused_and_leaves_nothing(spark, tmp_path, corpus):
    day, archive = str(corpus / "day.jsonl"), str(corpus / "archive")
    (tmp_path / "there").mkdir()
    bad = str(write_lines(tmp_path / "bad.jsonl", [{"id": "short", "text": "?"}]))
    answers = {"answers": str(tmp_path / "answers")}
    with pytest.raises(UsageError, match="exists: name another one"):
        match_files(spark, ["nowhere"], [archive], answers=str(tmp_path / "there"))
    with pytest.raises(UsageError, match="is, holds or is within the input"):
        match_files(spark, [day], [archive], answers=f"{archive}/answers")
    with pytest.raises(TooManyRejects):
        match_files(spark, [day], [archive], **answers, max_rejects=2)
    with pytest.raises(BadInput, match="nothing could be read"):
        match_files(spark, [day], [bad], **answers)
    with pytest.raises(TablesMissing):
        find_files(spark, [day], f"rocksdb:{tmp_path}/none.db", **answers)
    with pytest.raises(UsageError, match="no files to search"):
        match_files(spark, [day], [])
    assert {path.name for path in tmp_path.iterdir()} == {"there", "bad.jsonl"}


def test_the_command_prints_its_report_and_ends_with_the_code_of_rejects(spark, tmp_path, corpus):
    write_lines(tmp_path / "archive.jsonl", read_lines(corpus / "archive" / "b.jsonl"))
    options = ["--against", tmp_path / "archive.jsonl", "--answers", tmp_path / "answers"]
    done = run("spark", "match", *options, "--json", corpus / "day.jsonl", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["documents"] == 35
    assert done.stderr.decode().startswith("rejected: ")
