"""Commands whose inputs are on a web server."""

import gzip
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simhbase.corpus import record
from simhbase.index import open_index
from simhbase.loads import load as load_job
from tests.command_line import COMMAND, documents, environment, result, run, texts, write_lines
from tests.content import content
from tests.web import Web

STORE = ("--store", "rocksdb:s.db")
COUNT = 4800  # more than are written at once
PATIENCE = 60.0


@pytest.fixture
def served(tmp_path) -> Path:
    (tmp_path / "served").mkdir()
    return tmp_path / "served"


@pytest.fixture
def web(served) -> Iterator[Web]:
    with Web(served) as server:
        yield server


def test_all_commands_that_read_a_corpus_take_urls(web, served, tmp_path):
    contents = [f"{text}\nA line that all the texts have." for text in texts(20)]
    documents(served / "a.jsonl", contents)
    documents(served / "b.jsonl", contents, prefix="again")
    a, b, both = f"{web.url}/a.jsonl", f"{web.url}/b.jsonl", f"{web.url}/*.jsonl"
    assert result("load", a, *STORE, cwd=tmp_path)["added"] == 20
    assert len(result("find", b, *STORE, cwd=tmp_path)) == 20
    assert len(result("fingerprint", f"{web.url}/", cwd=tmp_path)) == 40
    (found, *_) = result("match", "--against", a, b, cwd=tmp_path)
    assert [match["id"] for match in found["matches"]] == ["d0"]
    assert result("dedup", both, cwd=tmp_path)["duplicates"] == 20
    assert result("idf", "-o", "x.idf", "--boilerplate", "x.txt", b, a, cwd=tmp_path)["documents"] == 40
    with gzip.open(served / "c.jsonl.gz", "wb") as file:
        file.write((served / "a.jsonl").read_bytes())
    assert result("load", f"{web.url}/c.jsonl.gz", *STORE, cwd=tmp_path)["unchanged"] == 20


def test_a_folder_on_a_server_is_one_source_of_the_summary(web, served, tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (served / "day").mkdir(exist_ok=True)
        documents(served / "day" / name, texts(3, seed=ord(name[0])), prefix=name)
    documents(served / "c.jsonl", texts(2, seed=9), prefix="c")
    done = result("dedup", f"http://me:hidden@{web.host}/day/", f"{web.url}/c.jsonl?key=hidden", cwd=tmp_path)
    assert [(each["source"], each["documents"]) for each in done["sources"]] == [
        (f"{web.url}/day/", 6),
        (f"{web.url}/c.jsonl", 2),
    ]


def loading(url: str, folder: Path) -> list[str]:
    files = ("--unique-only", "--unique", "unique.jsonl.gz", "--rejects", "rejects.jsonl")
    return [*COMMAND, "load", url, *STORE, *files, "--id-from", "line", "--threads", "1", "--json"]


def test_a_killed_load_goes_on_also_with_another_signature(web, served, tmp_path):
    lines = [*({"id": "x", "text": text} for text in texts(COUNT, words=8)), {"id": "x", "text": "?"}]
    write_lines(served / "a.jsonl", lines)
    written = (served / "a.jsonl").read_bytes().splitlines(keepends=True)
    members = [gzip.compress(b"".join(some)) for some in (written[:4608], written[4608:])]  # given one by one
    (served / "a.jsonl.gz").write_bytes(b"".join(members))
    web.holds_after["/a.jsonl.gz"] = (served / "a.jsonl.gz").stat().st_size - 1000
    first, second = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in (first, second):
        folder.mkdir()
    host = f"http://someone:hidden@{web.host}"
    load = subprocess.Popen(
        loading(f"{host}/a.jsonl.gz?signature=hidden1", first),
        cwd=first, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        noted = wait_until_some_is_noted(first)
    finally:
        load.kill()
        load.communicate()
    assert "hidden" not in json.dumps(noted)
    web.going_on.set()
    for folder, signature in ((first, "hidden2"), (second, "hidden3")):
        done = subprocess.run(
            loading(f"{host}/a.jsonl.gz?signature={signature}", folder),
            cwd=folder, env=environment(), capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 3, done.stderr
        assert (b"resuming after 4,096 documents" in done.stderr) == (folder == first)
        assert b"hidden" not in done.stdout + done.stderr
        assert json.loads(done.stdout)["documents"] == COUNT + 1
    assert outcome(first) == outcome(second)


def wait_until_some_is_noted(folder: Path) -> object:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = run("loads", *STORE, "--json", cwd=folder)
        if done.returncode == 0 and done.stdout.strip():
            noted = json.loads(done.stdout.splitlines()[0])
            if noted["loaded"]:
                return noted
        time.sleep(0.1)
    raise AssertionError("nothing was written")


def outcome(folder: Path) -> object:
    with open_index(f"rocksdb:{folder / 's.db'}", access="read") as index:
        rows = {table: held for table, held in content(index.store).items() if table != "meta"}
    return rows, [(folder / name).read_bytes() for name in ("unique.jsonl.gz", "rejects.jsonl")]


@pytest.mark.parametrize(
    ("changed", "said"), [(False, b"resuming after 12 documents"), (True, b"starting over")]
)
def test_a_file_that_has_changed_since_the_stop_is_loaded_anew(
    web, served, tmp_path, monkeypatch, changed, said
):
    monkeypatch.setattr(record, "CHUNK_RECORDS", 3)  # a write of six documents
    monkeypatch.setattr(load_job, "CHUNKS_AT_ONCE", 2)
    lines = documents(served / "a.jsonl", texts(16)).read_text().splitlines(keepends=True)
    (served / "a.jsonl").write_text("".join([*lines[:14], "no json\n"]))
    load = ("load", f"{web.url}/a.jsonl", *STORE, "--threads", 1)
    assert run(*load, "--max-rejects", 0, cwd=tmp_path).returncode == 16
    (served / "a.jsonl").write_text("".join(lines[1:] if changed else lines))
    done = run(*load, cwd=tmp_path)
    assert said in done.stderr
    assert done.returncode == 0


def test_outputs_are_local_files(web, served, tmp_path):
    documents(served / "a.jsonl", texts(2))
    where = "https://someone:hidden@host/u.jsonl?key=hidden"
    done = run("dedup", f"{web.url}/a.jsonl", "--unique", where, cwd=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr == b"Error: cannot write https://host/u.jsonl: URLs can only be read, give a local file\n"
    )


def test_an_input_named_as_a_url_of_this_machine_is_not_overwritten(tmp_path):
    path = documents(tmp_path / "a.jsonl", texts(2))
    done = run("dedup", f"file://{path}", "--unique", path, cwd=tmp_path)
    assert (done.returncode, b"is an input of this command" in done.stderr) == (2, True)
    done = run("dedup", f"file://{tmp_path}", "--unique", tmp_path / "u.jsonl", cwd=tmp_path)
    assert (done.returncode, b"would be read as part of the input" in done.stderr) == (2, True)
