"""What is wrong is named, goes to --rejects, decides the exit code, and loses nothing else."""

import errno
import gzip
import json
import os
import re
import resource
import subprocess

import click
import pytest

import simhbase
from simhbase.cli.output import fail
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs.files import OutputFile
from simhbase.errors import OutputFailed
from tests.command_line import (
    COMMAND,
    documents,
    environment,
    fingerprints,
    read_lines,
    result,
    run,
    run_alone,
    texts,
    write_lines,
)

GOOD, LAST = texts(2)
SPREAD = 0x9E3779B97F4A7C15  # its multiples are far from each other
STORE = ("--store", "rocksdb:s.db")


def run_with_small_files(*arguments, cwd, largest):
    """The nearest thing to a full disk that needs no rights: no file can have more bytes."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest)),
        timeout=120,
    )


def line(**fields):
    return json.dumps(fields, ensure_ascii=False).encode()


BAD_LINES = {
    "no features": (line(id="bad", text="，。！？"), "bad", "0 distinct features"),
    "no id": (line(text=GOOD), None, "no field 'id'"),
    "the same id": (line(id="good", text=LAST), "good", "the same id came before, in line 1"),
    "not UTF-8": (b'{"id": "bad", "text": "caf\xe9"}', None, "not UTF-8"),
    "a line too long": (b'{"id": "bad", "text": "' + b"x" * (50 << 20) + b'"}', None, "bytes"),
}


@pytest.mark.parametrize(("bad", "name", "reason"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_rejected_and_the_others_are_loaded(tmp_path, bad, name, reason):
    lines = [line(id="good", text=GOOD), bad, line(id="last", text=LAST)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    done = run("load", "a.jsonl", "--rejects", "r.jsonl", "--json", *STORE, cwd=tmp_path)
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert (report["documents"], report["loaded"], report["rejected"]) == (3, 2, 1)
    (reject,) = read_lines(tmp_path / "r.jsonl")
    assert (reject["source"], reject["line"]) == ("a.jsonl", 2)
    assert reject["id"] in (name, "bad" if name else None)
    assert reason in reject["reason"]
    told = done.stderr.decode()
    assert "a.jsonl, line 2" in told
    assert reject["reason"] in told
    assert name is None or f"id {name}" in told
    for text, found in ((GOOD, "good"), (LAST, "last")):
        answer = result("find", "--text", text, *STORE, cwd=tmp_path)
        assert [match["id"] for match in answer["matches"]] == [found]


def test_of_a_gzip_that_was_cut_short_nothing_is_loaded_that_cannot_be_checked(tmp_path):
    lines = [line(id=f"d{number}", text=text) + b"\n" for number, text in enumerate(texts(2000))]
    whole, cut = gzip.compress(b"".join(lines[:500])), gzip.compress(b"".join(lines[500:]))
    (tmp_path / "a.jsonl.gz").write_bytes(whole + cut[: len(cut) // 2])
    documents(tmp_path / "b.jsonl", [LAST], prefix="whole")
    report = result(
        "load", "a.jsonl.gz", "b.jsonl", "--rejects", "r.jsonl", *STORE, cwd=tmp_path, exit_code=3
    )
    assert report["loaded"] == 501
    last = read_lines(tmp_path / "r.jsonl")[-1]
    assert (last["source"], last["line"]) == ("a.jsonl.gz", 501)
    assert "cut short" in last["reason"]
    assert result("find", "--id", "whole0", *STORE, cwd=tmp_path)["matches"]


@pytest.mark.parametrize("missing", ["missing.jsonl", "nothing/*.jsonl"])
def test_a_source_that_is_missing_is_named_and_is_no_document(tmp_path, missing):
    documents(tmp_path / "a.jsonl", [GOOD])
    done = run("load", missing, "a.jsonl", "--rejects", "r.jsonl", "--json", *STORE, cwd=tmp_path)
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert (report["documents"], report["loaded"], report["rejected"]) == (1, 1, 0)
    (reject,) = read_lines(tmp_path / "r.jsonl")
    assert (reject["source"], reject["line"], reject["id"]) == (missing, None, None)
    assert missing in done.stderr.decode()


@pytest.mark.parametrize("command", ["load", "dedup", "fingerprint", "idf"])
def test_files_of_a_folder_that_are_not_read_are_told_once(tmp_path, command):
    folder = tmp_path / "corpus"
    folder.mkdir()
    documents(folder / "a.jsonl", texts(200))
    for name in ("b.pdf", "c.pdf", "d.doc", ".e.pdf"):
        (folder / name).touch()
    arguments = {"idf": ("--boilerplate", "b.txt"), "load": STORE}.get(command, ())
    done = run(command, "corpus", *arguments, cwd=tmp_path)
    told = "corpus: 3 files were not read, as their names tell no format (.pdf 2, .doc 1): name them, or give"
    assert done.stderr.decode().splitlines().count(f"{told} their format") == 1


@pytest.mark.parametrize("command", ["find", "dedup", "fingerprint"])
def test_a_source_that_is_missing_is_neither_a_query_nor_in_the_answer(tmp_path, command):
    documents(tmp_path / "a.jsonl", [GOOD])
    result("load", "a.jsonl", cwd=tmp_path)
    done = run(command, "missing.jsonl", "a.jsonl", "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert b"missing.jsonl: it cannot be opened: No such file or directory" in done.stderr
    assert done.stdout.count(b"\n") == 1
    if command == "dedup":
        summary = json.loads(done.stdout)
        assert (summary["documents"], summary["unique"], summary["rejected"]) == (1, 1, 0)


def test_a_source_that_is_missing_is_more_than_no_rejects(tmp_path):
    documents(tmp_path / "a.jsonl", [GOOD])
    done = run("load", "a.jsonl", "missing.jsonl", "--max-rejects", 0, *STORE, cwd=tmp_path)
    assert done.returncode == 16
    assert b"missing.jsonl" in done.stderr


@pytest.mark.parametrize("command", ["load", "find", "dedup", "fingerprint"])
def test_nothing_that_can_be_read_is_a_failure(tmp_path, command):
    result("tables", "create", cwd=tmp_path)
    for source in ("missing.jsonl", "broken.jsonl"):
        (tmp_path / "broken.jsonl").write_text("not JSON\n{}\n")
        done = run(command, source, "--yes", "--rejects", "r.jsonl", cwd=tmp_path)
        assert done.returncode == 1
        assert source in done.stderr.decode()
        assert "nothing could be read" in done.stderr.decode()
        assert read_lines(tmp_path / "r.jsonl")[0]["source"] == source


@pytest.mark.parametrize(
    "options",
    [
        ("missing.jsonl",),
        ("broken.jsonl",),
        ("a.jsonl", "--max-rejects", 0, "broken.jsonl"),
        ("--set", "k=4", "a.jsonl"),
    ],
    ids=str,
)
def test_a_first_load_that_fails_leaves_no_store(tmp_path, options):
    documents(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "broken.jsonl").write_text("not JSON\n")
    assert run("load", *options, cwd=tmp_path).returncode in (1, 2, 16)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "broken.jsonl"]
    done = run("find", "--text", GOOD, cwd=tmp_path)
    assert done.returncode == 10
    assert b"create one with simhbase load or simhbase tables create" in done.stderr


@pytest.mark.parametrize("lines", ["", '{"id": 1, "text": ""}\n'])
def test_a_first_load_that_ends_well_makes_a_store_whatever_there_was_to_store(tmp_path, lines):
    (tmp_path / "a.jsonl").write_text(lines)
    assert run("load", "a.jsonl", cwd=tmp_path).returncode == (3 if lines else 0)
    assert result("stats", "--exact", cwd=tmp_path)["documents"] == 0


@pytest.mark.parametrize("command", ["load", "find", "dedup", "fingerprint"])
def test_no_documents_at_all_are_no_failure(tmp_path, command):
    result("tables", "create", cwd=tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    done = run(command, "empty.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"warning: the input has no documents\n")


def test_too_few_open_files_are_named(tmp_path, monkeypatch):
    def refused(job):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("simhbase.loads.load.loading", refused)
    done = run("load", "a.jsonl", *STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert b"Too many open files: allow more, for example with 'ulimit -n 1024'" in done.stderr


def test_lines_that_end_with_cr_only_are_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,text\ra,one two three\r")
    done = run("load", "a.csv", *STORE, cwd=tmp_path)
    assert b"lines end with CR only" in done.stderr


def test_many_rejects_are_all_in_the_file_and_a_few_on_stderr(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": 0, "text": GOOD}, *({"id": n} for n in range(1, 101))])
    done = run("load", "a.jsonl", "--rejects", "r.jsonl", *STORE, cwd=tmp_path)
    assert done.returncode == 3
    assert [reject["line"] for reject in read_lines(tmp_path / "r.jsonl")] == list(range(2, 102))
    told = done.stderr.decode().splitlines()
    assert len(told) == 4
    assert told[-2:] == [
        "r.jsonl lists all rejected records",
        "unreadable: a.jsonl: only 1 of its 101 records could be used",
    ]


@pytest.mark.parametrize(("allowed", "exit_code"), [(3, 3), (2, 16), (0, 16)])
def test_more_rejects_than_allowed_are_a_failure(tmp_path, allowed, exit_code):
    write_lines(tmp_path / "a.jsonl", [{"id": "a", "text": GOOD}, {}, {}, {}])
    done = run("load", "a.jsonl", "--max-rejects", allowed, *STORE, cwd=tmp_path)
    assert done.returncode == exit_code
    assert ("--max-rejects: " in done.stderr.decode()) == (exit_code == 16)


def test_a_load_stopped_by_rejects_keeps_what_was_stored_before(tmp_path):
    values = [{"id": f"d{number}", "f": f"{number * SPREAD % (1 << 64):016x}"} for number in range(5000)]
    write_lines(tmp_path / "a.jsonl", [*values, {}])
    options = ("--fingerprint-field", "f", "--unique-only", "--max-rejects", 0, "--rejects", "r.jsonl")
    done = run("load", "a.jsonl", *options, *STORE, cwd=tmp_path)
    assert done.returncode == 16
    assert "stopped after 4,096 documents" in done.stderr.decode()
    assert result("stats", "--exact", *STORE, cwd=tmp_path)["documents"] == 4096
    assert not (tmp_path / "r.jsonl").exists()
    assert len(read_lines(tmp_path / "r.jsonl.part")) == 1


def test_a_store_that_another_process_writes_to_exits_13_and_can_be_read(tmp_path):
    file = fingerprints(tmp_path / "a.jsonl", {"a": 0})
    load = ("load", "--fingerprint-field", "f", file, *STORE)
    assert run(*load, cwd=tmp_path).returncode == 0
    with simhbase.open(f"rocksdb:{tmp_path}/s.db"):
        for command in (load, ("delete", "a", *STORE), ("tables", "drop", "--yes", *STORE)):
            done = run_alone(*command, cwd=tmp_path)
            assert done.returncode == 13
            assert b"s.db" in done.stderr
            assert done.stdout == b""
        assert run_alone("find", "--id", "a", *STORE, cwd=tmp_path).returncode == 0
    assert run(*load, cwd=tmp_path).returncode == 0


def test_a_load_that_does_not_get_the_store_touches_no_file(tmp_path):
    file = fingerprints(tmp_path / "a.jsonl", {"a": 0})
    parts = [tmp_path / f"{name}.part" for name in ("u", "d", "r")]
    for part in parts:
        part.write_bytes(b"acknowledged\n")
    files = ("--unique-only", "--unique", "u", "--duplicates", "d", "--rejects", "r")
    with simhbase.open(f"rocksdb:{tmp_path}/s.db", create=simhbase.Profile(verify=False)):
        done = run_alone("load", "--fingerprint-field", "f", *files, file, *STORE, cwd=tmp_path)
    assert done.returncode == 13
    assert [part.read_bytes() for part in parts] == [b"acknowledged\n"] * 3


def test_a_file_that_another_run_is_writing_exits_13(tmp_path):
    file = documents(tmp_path / "a.jsonl", texts(2))
    with OutputFile(tmp_path / "x.jsonl") as running:
        running.write([b"first"])
        for command in (("dedup", "--unique", "x.jsonl"), ("idf", "-o", "x.jsonl")):
            done = run_alone(*command, file, cwd=tmp_path)
            assert done.returncode == 13
            assert b"another run is writing" in done.stderr
            assert b"x.jsonl.part" in done.stderr
        assert (tmp_path / "x.jsonl.part").read_bytes() == b"first\n"


@pytest.mark.parametrize(
    "files",
    [
        ("--unique", "o", "--duplicates", "o"),
        ("--unique", "o", "--duplicates", "./o"),
        ("--unique", "link", "--duplicates", "o"),
        ("--unique", "o", "--rejects", "o"),
        ("--unique", "o.part", "--duplicates", "o"),
    ],
    ids=" ".join,
)
def test_two_outputs_in_one_file_are_a_usage_error(tmp_path, files):
    documents(tmp_path / "a.jsonl", texts(2))
    (tmp_path / "link").symlink_to("o")
    for command in (("load", "--unique-only", *STORE), ("dedup",)):
        done = run(*command, *files, "a.jsonl", cwd=tmp_path)
        assert done.returncode == 2
        assert b"two options write to" in done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "link"]


def test_outputs_that_nobody_wants_may_go_to_one_device(tmp_path):
    documents(tmp_path / "a.jsonl", texts(2))
    files = ("--unique", "/dev/null", "--duplicates", "/dev/null")
    assert result("load", "--unique-only", *files, "a.jsonl", *STORE, cwd=tmp_path)["loaded"] == 2


def test_what_cannot_be_an_id_is_not_stored(tmp_path):
    result("load", documents(tmp_path / "a.jsonl", texts(1)), *STORE, cwd=tmp_path)
    ids = ("--id", b"\xff", "--id", "", "--id", "d0", "--yes", "--rejects", "r.jsonl")
    command = [*COMMAND, "find", *ids, *STORE]
    for more in ((), ("--json",)):
        done = subprocess.run([*command, *more], cwd=tmp_path, env=environment(), capture_output=True)
        assert done.returncode == 3, done.stderr
        assert b"rejected: --id, id \\udcff: no document is stored under this id" in done.stderr
    answers = [json.loads(answer) for answer in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == ["\udcff", "", "d0"]
    assert [len(answer["matches"]) for answer in answers] == [0, 0, 1]
    assert read_lines(tmp_path / "r.jsonl")[0]["id"] == "\udcff"


def test_control_characters_in_an_id_do_not_reach_the_terminal(tmp_path):
    evil = "a\x1b[2J\r\n\x9bb"
    write_lines(tmp_path / "a.jsonl", [{"id": evil, "text": GOOD}, {"id": evil, "text": ""}])
    done = run("load", "a.jsonl", *STORE, cwd=tmp_path)
    assert r"id a\x1b[2J\x0d\x0a\x9bb: the text is empty" in done.stderr.decode()
    found = run("find", "--id", evil, *STORE, cwd=tmp_path).stdout.decode()
    assert found.splitlines()[1].endswith(r"  a\x1b[2J\x0d\x0a\x9bb")
    assert found.isascii()
    assert found.replace("\n", "").isprintable()
    assert result("find", "--id", evil, *STORE, cwd=tmp_path)["id"] == evil


def test_control_characters_in_an_error_do_not_reach_the_terminal(tmp_path):
    done = run("find", "--text", GOOD, "--store", "rocksdb:[bold]\x1b[2J", cwd=tmp_path)
    assert done.returncode == 10
    assert done.stderr.startswith(rb"Error: rocksdb:[bold]\x1b[2J: ")


def test_a_full_disk_keeps_what_was_acknowledged_and_a_second_run_finishes(tmp_path):
    values = {f"d{number}": number * SPREAD % (1 << 64) for number in range(20_000)}
    fingerprints(tmp_path / "a.jsonl", values)
    load = ("load", "--fingerprint-field", "f", "--unique-only", "a.jsonl", "--threads", 1, *STORE)

    full = run_with_small_files(*load, cwd=tmp_path, largest=1 << 20)
    assert full.returncode == 1, full.stderr
    told = full.stderr.decode()
    assert "s.db" in told
    assert "run the same command again" in told
    assert "Traceback" not in told
    loaded = int(told.split("stopped after ")[1].split()[0].replace(",", ""))
    assert 0 < loaded < 20_000
    assert result("stats", "--exact", *STORE, cwd=tmp_path)["documents"] >= loaded
    assert result(*load, cwd=tmp_path)["loaded"] == 20_000
    assert result("check", *STORE, cwd=tmp_path)["documents"] == 20_000


@pytest.mark.parametrize("option", ["--rejects", "--unique", "--duplicates"])
def test_an_output_file_that_cannot_be_written_is_named(tmp_path, option):
    write_lines(tmp_path / "a.jsonl", [{"id": 1, "text": GOOD}, {"id": 2, "text": GOOD}, {"id": 3}])
    full = run_with_small_files("dedup", "a.jsonl", option, "out.jsonl", cwd=tmp_path, largest=1)
    assert full.returncode == 1
    told = full.stderr.decode()
    assert "out.jsonl" in told or f"cannot spool documents to {tmp_path}" in told
    assert "Traceback" not in told
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("command", [("load", "--unique-only", *STORE), ("dedup",)])
def test_a_command_that_could_read_nothing_leaves_the_output_of_the_last_one(tmp_path, command):
    (tmp_path / "a.jsonl").write_text("nothing of use\n")
    (tmp_path / "u.jsonl").write_text("old")
    done = run(*command, "a.jsonl", "--yes", "--unique", "u.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "u.jsonl").read_text() == "old"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (".", "unique.jsonl"),
        ("corpus", "corpus/later/unique.jsonl.gz"),
        ("corpus/**", "corpus/there.jsonl"),
        ("link", "corpus/unique.csv"),
    ],
)
def test_an_output_that_the_next_run_would_read_as_an_input_is_refused(tmp_path, given, output):
    documents(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "corpus/later").mkdir(parents=True)
    (tmp_path / "corpus/there.jsonl").write_text("old")
    (tmp_path / "link").symlink_to("corpus")
    done = run("dedup", given, "--unique", output, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{output} would be read as part of the input {given}" in done.stderr.decode()
    assert (tmp_path / "corpus/there.jsonl").read_text() == "old"


def test_a_link_to_itself_is_one_reject_where_an_output_is_compared_with_the_inputs_of_a_glob(tmp_path):
    """It ended the whole command as a RuntimeError, up to Python 3.12."""
    documents(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    done = run("dedup", "*.jsonl", "--unique", "unique.out.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr.count(b"rejected: loop.jsonl")) == (3, 1)


@pytest.mark.parametrize("output", ["corpus/.unique.jsonl", "corpus/unique.out", "unique.jsonl"])
def test_an_output_that_no_run_reads_may_lie_beside_inputs(tmp_path, output):
    (tmp_path / "corpus").mkdir()
    documents(tmp_path / "corpus/a.jsonl", [GOOD])
    for _ in range(2):
        assert run("dedup", "corpus", "--yes", "--unique", output, cwd=tmp_path).returncode == 0
        assert len((tmp_path / output).read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_dev_stdout_is_standard_output_also_where_that_is_a_file(tmp_path, name):
    documents(tmp_path / "a.jsonl", [GOOD])
    with (tmp_path / "out.jsonl").open("wb") as out:
        out.write(b"before\n")
        out.flush()
        done = subprocess.run(
            [*COMMAND, "dedup", "a.jsonl", "--unique", name],
            cwd=tmp_path,
            env=environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "out.jsonl").read_text().startswith("before\n")


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize(
    "command",
    [
        ("tables", "describe", *STORE, "--profile-file"),
        ("calibrate", "a.jsonl", "--profile-file"),
        ("migrate", *STORE, "--to", "rocksdb:to.db", "--salvage"),
    ],
)
def test_a_file_beside_the_summary_is_not_standard_output(tmp_path, command, name):
    documents(tmp_path / "a.jsonl", [GOOD])
    run("load", *STORE, "a.jsonl", cwd=tmp_path)
    before = sorted(tmp_path.iterdir())
    done = run_alone(*command, name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"standard output has the summary" in done.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", [("load", *STORE), ("dedup",), ("fingerprint",)])
def test_an_empty_standard_input_that_nobody_named_is_no_input(tmp_path, command):
    done = run_alone(*command, cwd=tmp_path)
    assert (done.returncode, b"standard input is empty" in done.stderr) == (2, True)
    assert not list(tmp_path.iterdir())
    assert run_alone(*command, "-", cwd=tmp_path).returncode == 0


def test_a_load_counts_the_files_that_could_not_be_read(tmp_path):
    documents(tmp_path / "a.jsonl", [GOOD])
    report = result("load", "a.jsonl", "gone.jsonl", *STORE, cwd=tmp_path, exit_code=3)
    assert (report["documents"], report["rejected"], report["unreadable_sources"]) == (1, 0, 1)
    shown = run("load", "a.jsonl", "gone.jsonl", *STORE, cwd=tmp_path).stdout.decode()
    assert "unreadable sources  1" in shown
    assert "unreadable" not in run("load", "a.jsonl", *STORE, cwd=tmp_path).stdout.decode()


def test_an_output_file_in_a_closed_folder_is_named(tmp_path):
    documents(tmp_path / "a.jsonl", [GOOD])
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        inputs = Inputs([str(closed / "a.jsonl")], rejects=closed / "r.jsonl")
        with pytest.raises(OutputFailed, match=f"cannot write {closed}/r.jsonl: Permission denied"):
            inputs.require_outputs()
    finally:
        if root:
            os.seteuid(0)


def test_an_output_file_in_no_folder_is_named_before_anything_is_stored(tmp_path):
    documents(tmp_path / "a.jsonl", [GOOD])
    done = run("load", "a.jsonl", "--rejects", "nowhere/r.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "nowhere/r.jsonl" in done.stderr.decode()
    assert not (tmp_path / "simhbase.db").exists()


def test_a_malformed_idf_file_is_named(tmp_path):
    documents(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "bad.idf").write_text("word heavy\n")
    done = run("load", "a.jsonl", "--set", "weights=tfidf", "--set", "idf=bad.idf", cwd=tmp_path)
    assert done.returncode == 1
    assert "bad.idf, line 1" in done.stderr.decode()


def test_stop_words_that_are_not_utf_8_are_named(tmp_path):
    documents(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "stop.txt").write_bytes(b"\xd6\xd0\n")
    done = run("load", "a.jsonl", "--set", "stop_words=stop.txt", cwd=tmp_path)
    assert done.returncode == 1
    assert "stop.txt" in done.stderr.decode()


def test_ids_to_delete_that_are_not_utf_8_are_named_by_line(tmp_path):
    result("tables", "create", cwd=tmp_path)
    done = run("delete", "--ids-file", "-", cwd=tmp_path, stdin=b"a\n\xff\n")
    assert done.returncode == 1
    assert "line 2" in done.stderr.decode()
    (tmp_path / "ids.txt").write_bytes(b"\xff\n")
    assert "ids.txt, line 1" in run("delete", "--ids-file", "ids.txt", cwd=tmp_path).stderr.decode()


def test_an_output_never_takes_the_place_of_an_input(tmp_path):
    file = documents(tmp_path / "a.jsonl", texts(3))
    before = file.read_bytes()
    (tmp_path / "b.part").write_bytes(before)
    done = run("dedup", "--unique", "b", "b.part", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "b.part").read_bytes() == before
    for command in (
        ("load", *STORE, "--rejects", "a.jsonl"),
        ("load", *STORE, "--unique-only", "--unique", "./a.jsonl"),
        ("dedup", "--unique", "./a.jsonl"),
        ("dedup", "--duplicates", file),
        ("idf", "-o", "a.jsonl"),
    ):
        done = run(*command, "a.jsonl", cwd=tmp_path)
        assert done.returncode == 2
        assert b"a.jsonl is an input of this command" in done.stderr
        assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("fingerprint a.jsonl", "a.jsonl is an input of this command"),
        ("pairs -", "a.jsonl is an input of this command"),
        ("match --against a.jsonl b.jsonl", "a.jsonl is an input of this command"),
        ("dedup --json .", "a.jsonl would be read as part of the input ."),
        ("fingerprint ?.jsonl", "a.jsonl would be read as part of the input ?.jsonl"),
        ("fingerprint --rejects a.jsonl b.jsonl", "two options write to a.jsonl"),
    ],
)
def test_standard_output_is_not_read(tmp_path, command, said):
    """Lines that were appended to an input were read as its records, of some commands without end. Standard
    input has the file, too."""
    file = documents(tmp_path / "a.jsonl", texts(3))
    before = documents(tmp_path / "b.jsonl", texts(3)).read_bytes()
    with file.open("ab") as output, file.open("rb") as given:
        done = subprocess.run(
            [*COMMAND, *command.split()],
            cwd=tmp_path,
            env=environment(),
            stdin=given,
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        )
    assert done.returncode == 2
    assert said in done.stderr.decode().replace(f"{tmp_path.resolve()}/", "")
    assert file.read_bytes() == before


@pytest.mark.parametrize("given", [["-"], []])
def test_the_file_of_standard_input_is_not_replaced(tmp_path, given):
    file = documents(tmp_path / "a.jsonl", texts(3))
    before = file.read_bytes()
    with file.open("rb") as read:
        done = subprocess.run(
            [*COMMAND, "dedup", "--yes", "--unique", "a.jsonl", *given],
            cwd=tmp_path,
            env=environment(),
            stdin=read,
            capture_output=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, b"a.jsonl is an input of this command" in done.stderr) == (2, True)
    assert file.read_bytes() == before


@pytest.mark.parametrize("command", [("find", *STORE), ("match", "--against", "a.jsonl")], ids=lambda c: c[0])
@pytest.mark.parametrize(("given", "is_told"), [(GOOD, True), ("broken.jsonl", False)], ids=["text", "file"])
def test_a_text_that_is_given_for_a_file_is_told_of_the_option(tmp_path, command, given, is_told):
    documents(tmp_path / "a.jsonl", [GOOD])
    (tmp_path / "broken.jsonl").write_text("not JSON\n")
    result("load", "a.jsonl", *STORE, cwd=tmp_path)
    told = run(*command, given, cwd=tmp_path).stderr.decode().splitlines()
    assert ("arguments are files: to look up a text, use --text TEXT" in told) == is_told


def test_reasons_name_options_wherever_they_are(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": "a", "text": GOOD, "day": "1"}, {"text": GOOD}, {"id": "b"}])
    tagged = ("--tag-field", "day=date", "--rejects", "r.jsonl")
    run("load", "a.jsonl", *tagged, *STORE, cwd=tmp_path)
    hints = [
        "name another tag field (tag_fields)",
        "name another id field (id_field)",
        "name another text field (text_field)",
    ]
    for reject, hint in zip(read_lines(tmp_path / "r.jsonl"), hints, strict=True):
        assert hint in reject["reason"]
    result("load", "a.jsonl", *STORE, cwd=tmp_path, exit_code=3)
    *_, found = run("find", "a.jsonl", "--json", *STORE, cwd=tmp_path).stdout.splitlines()
    assert "name another text field (text_field)" in json.loads(found)["reason"]


@pytest.mark.parametrize(
    ("options", "where"), [((), "--rejects FILE"), (("--rejects", "r.jsonl"), "r.jsonl")]
)
def test_rejects_are_counted_by_source_and_reason(tmp_path, options, where):
    write_lines(tmp_path / "a.jsonl", [*({"id": number} for number in range(20)), {"id": "b", "text": ""}])
    write_lines(tmp_path / "b.jsonl", [{"id": number + 0.5} for number in range(3)])
    told = run("fingerprint", "a.jsonl", "b.jsonl", *options, cwd=tmp_path).stderr.decode().splitlines()
    no_text = "no field 'text' among 'id': name another text field (text_field)"
    empty = "the text is empty"
    no_id = "the id is 0.5: ids are texts, whole numbers or UUIDs"
    assert told == [
        f"rejected: a.jsonl, line 1, id 0: {no_text}",
        f"rejected: a.jsonl, line 21, id b: {empty}",
        f"rejected: b.jsonl, line 1: {no_id}",
        "rejected: 20 records of a.jsonl like that of line 1: "
        "no field ... among ...: name another text field (text_field)",
        "rejected: 3 records of b.jsonl like that of line 1: " + no_id.replace("0.5", "..."),
        f"{where} lists all rejected records",
        "unreadable: a.jsonl: only 0 of its 21 records could be used",
    ]


def test_a_source_of_which_nearly_nothing_could_be_used_is_named(tmp_path):
    good = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts(30))]
    write_lines(tmp_path / "a.jsonl", good)
    for count, bad in ((9, False), (10, True)):
        write_lines(tmp_path / "b.jsonl", [{"id": f"b{number}"} for number in range(count)])
        write_lines(tmp_path / "c.jsonl", [*({"id": number} for number in range(9)), good[0] | {"id": "c"}])
        for command in (["load", *STORE], ["dedup"]):
            done = run(*command, "--json", "a.jsonl", "b.jsonl", "c.jsonl", cwd=tmp_path)
            assert done.returncode == 3
            assert json.loads(done.stdout)["unusable_sources"] == ["b.jsonl"] * bad
            said = b"unreadable: b.jsonl: only 0 of its 10 records could be used" in done.stderr
            assert said == bad
    for command in (["fingerprint"], ["idf", "-o", "w.txt", "--yes"], ["find", *STORE]):
        assert (
            b"unreadable: b.jsonl: only 0 of its" in run(*command, "a.jsonl", "b.jsonl", cwd=tmp_path).stderr
        )


@pytest.mark.parametrize(("share", "fails"), [("5%", True), ("9.9%", True), ("10 %", False), ("99%", False)])
def test_a_share_of_rejects_may_be_the_limit(tmp_path, share, fails):
    rows = [{"id": number, "text": text} for number, text in enumerate(texts(18))]
    write_lines(tmp_path / "a.jsonl", [{"id": "x"}, {"id": "y"}, *rows])
    for command in (["load", *STORE], ["dedup"], ["fingerprint"]):
        done = run(*command, "--max-rejects", share, "a.jsonl", cwd=tmp_path)
        assert done.returncode == (16 if fails else 3)
        assert (b"--max-rejects: 2 of 20 records or sources were rejected" in done.stderr) == fails
    assert run("dedup", "--max-rejects", "5x", "a.jsonl", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("options", "exit_code", "told"),
    [
        (("--keep", "newest", "--date-field", "dat"), 1, b"--keep: no document has a value in field 'dat'"),
        (("--keep", ""), 2, b"--keep: must be first, longest"),
        (("--keep", "longest", "--fingerprint-field", "text"), 2, b"have no length"),
        (("--keep", "date", "--format", "lines"), 2, b"have no fields"),
        (("--keep", "dat", "--format", "csv"), 1, b"no column 'dat'"),
    ],
)
def test_a_representative_that_cannot_be_told_is_an_error(tmp_path, options, exit_code, told):
    documents(tmp_path / "a.jsonl", texts(2))
    if "csv" in options:
        (tmp_path / "a.jsonl").write_text("id,text,date\na,one two,3\n")
    done = run("dedup", *options, "--unique", "u.jsonl", "a.jsonl", cwd=tmp_path)
    assert done.returncode == exit_code
    assert told in done.stderr
    written = tmp_path / "u.jsonl"
    assert not written.exists() or not written.read_bytes()


def test_values_that_cannot_be_compared_are_rejected_and_odd_ones_told(tmp_path):
    one = texts(1)[0]
    values = [3, [1], True, "n/a", None, {}]
    write_lines(tmp_path / "a.jsonl", ({"id": n, "text": one, "v": v} for n, v in enumerate(values)))
    done = run("dedup", "--keep", "v", "--rejects", "r.jsonl", "a.jsonl", cwd=tmp_path)
    assert done.returncode == 3
    assert b"'n/a' is not a number" in done.stderr
    assert [line["id"] for line in read_lines(tmp_path / "r.jsonl")] == ["1", "2", "5"]


def test_an_error_that_quotes_much_is_shown_in_part(tmp_path, capsys):
    with pytest.raises(click.exceptions.Exit):
        fail(f"begins {'x' * 1_000_000} ends", 1)
    said = capsys.readouterr().err
    assert re.fullmatch(r"Error: begins x+ \.\.\. x+ ends\n", said)
    assert len(said) < 10_000


@pytest.mark.parametrize(
    "arguments",
    [[], ["--{}"], ["stats"], ["find", "--{}"], ["find", "--text", "a", "--since"], ["tables", "create"]],
    ids=lambda arguments: " ".join(arguments) or "alone",
)
def test_a_store_s_url_in_a_wrong_place_is_shown_without_its_password(arguments, tmp_path):
    url = "postgres://bob:hunter@h/db"
    given = [each.format(url) for each in arguments]
    done = run(*given, *([] if given != arguments else [url]), cwd=tmp_path)
    assert done.returncode == 2
    assert b"hunter" not in done.stdout + done.stderr
    assert b"postgres://bob@h/db" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["dedup", ""], "the name of an input is empty"),
        (["load", *STORE, "file://"], "the name of an input is empty"),
        (["dedup", "a.jsonl", "--unique", ""], "the name is empty"),
        (["dedup", "a.jsonl", "--unique", "u.jsonl.bz2"], "u.jsonl.bz2: JSON lines are written, not .bz2"),
        (["dedup", "a.jsonl", "--duplicates", "d.csv"], "JSON lines are written, not .csv"),
        (["load", *STORE, "a.jsonl", "--new", "n.xlsx"], "not .xlsx"),
        (["fingerprint", "a.jsonl", "--rejects", "r.parquet"], "JSON lines are written, not .parquet"),
        (["load", "--store", "rocksdb://s.db", "a.jsonl"], "two slashes name a host"),
        (["load", *STORE, "--encoding", "punycode", "a.jsonl"], "no text encoding 'punycode'"),
        (["load", *STORE, "--encoding", "unicode_escape", "a.jsonl"], "no text encoding"),
        (["load", *STORE, "--id-prefix", "{name}/", "a.jsonl"], "{name} stands for nothing"),
        (["load", *STORE, "--id-prefix", "{file}/{ file }/", "a.jsonl"], "{ file } stands for nothing"),
        (["load", *STORE, "--id-prefix", "{file", "a.jsonl"], "{file stands for nothing"),
        (["load", *STORE, "--set", "k=2", "--set", "k=3", "a.jsonl"], "'k' is set twice"),
        (["dedup", "--set", "k=", "a.jsonl"], "--set k: must be an integer, not ''"),
        (["dedup", "--set", "k=3", "--set", "bits=", "a.jsonl"], "--set bits: must be an integer, not ''"),
        (["dedup", "--set", f"min_length={1 << 64}", "a.jsonl"], "--set min_length: must be at most"),
        (["find", *STORE, "--text", b"abc \xff"], "not UTF-8 at character 5"),
    ],
)
def test_what_is_not_certain_is_refused_before_anything_is_read(arguments, reason, tmp_path):
    documents(tmp_path / "a.jsonl", texts(1))
    command = [*map(os.fsencode, COMMAND), *map(os.fsencode, arguments)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert reason in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
