"""A load that was stopped anywhere goes on, and ends with the rows and files of one that was not."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir, suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from unittest.mock import patch

import pytest

import simhbase
from simhbase.admin import Administrator
from simhbase.corpus import parser, record
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import files as outputs
from simhbase.corpus.outputs.files import OutputFile
from simhbase.corpus.record import InputOptions
from simhbase.corpus.watcher import NULL_WATCHER
from simhbase.errors import BadInput, OutputFailed, StoreBusy, StoreUnreachable, TablesMissing
from simhbase.index import Index, load_log, open_index
from simhbase.index.load_log import LoadLog
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.loads import load as load_job
from simhbase.loads.checkpoints import Checkpoints
from simhbase.profile.profile import Profile
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Access
from simhbase.text.html import extract_html
from tests.command_line import COMMAND, environment, result, run, run_alone
from tests.content import content
from tests.stopping import Crash, Stopping

FILES = ("unique.jsonl.gz", "duplicates.jsonl", "rejects.jsonl.zst", "evidence.jsonl")


def corpus(path: Path, count: int) -> None:
    """Texts of which some are near others, some have no fingerprint, and some ids come twice."""
    chance = random.Random(5)
    words = [f"word{number}" for number in range(3000)]
    texts: list[str] = []
    with path.open("w") as file:
        for number in range(count):
            text = " ".join(chance.choices(words, k=80))
            if texts and chance.random() < 0.3:
                text = chance.choice(texts) + " more" * chance.randrange(3)
            texts.append(text)
            name = "twice" if chance.random() < 0.05 else f"d{number}"
            given = "x" if chance.random() < 0.1 else text
            line = json.dumps({"id": name, "text": given}) if chance.random() > 0.03 else "no json"
            file.write(line + "\n")


def load_into(
    folder: Path, unique_only: bool = True, read: InputOptions | None = None, **options: object
) -> simhbase.LoadReport:
    """The corpus of a folder into its store, in this process."""
    inputs = Inputs(["a.jsonl"], read or InputOptions(), threads=2, rejects=Path(FILES[2]))
    files = {"unique": FILES[0], "duplicates": FILES[1], "evidence": FILES[3]} if unique_only else {}
    with chdir(folder):
        return simhbase.load(inputs, "rocksdb:s.db", unique_only=unique_only, **files, **options)


def outcome(folder: Path) -> tuple[dict[str, object], list[bytes | None]]:
    """All rows and files."""
    with open_index(f"rocksdb:{folder / 's.db'}", access="read") as index:
        rows = {table: held for table, held in content(index.store).items() if table != "meta"}  # has a token
    assert not list(folder.glob("*.part"))
    return rows, [(folder / name).read_bytes() if (folder / name).exists() else None for name in FILES]


@pytest.fixture
def small_writes(monkeypatch):
    """A write of six documents, so that a small load has many."""
    monkeypatch.setattr(record, "CHUNK_RECORDS", 3)
    monkeypatch.setattr(load_job, "CHUNKS_AT_ONCE", 2)


@pytest.fixture
def folders(tmp_path) -> Callable[[], Path]:
    """Makes folders with the same corpus."""
    corpus(tmp_path / "corpus.jsonl", 60)
    numbers = iter(range(10_000))

    def make() -> Path:
        folder = tmp_path / f"f{next(numbers)}"
        folder.mkdir()
        (folder / "a.jsonl").write_bytes((tmp_path / "corpus.jsonl").read_bytes())
        simhbase.tables.create(f"rocksdb:{folder / 's.db'}")
        return folder

    return make


class Steps:
    """Ends a load after so many calls of its store and steps with its files."""

    def __init__(self, calls: int, torn: bool) -> None:
        self.calls, self.torn = calls, torn
        self.stopping: Stopping | None = None

    def open_index(
        self, url: str, create: Profile | None = None, access: Access = "write", scope: str | None = None
    ) -> Index:
        store = open_store(url, access) if create is None else create_store(url)
        if create is not None:
            write_profile(store, create)
        profile = read_profile(store)
        self.stopping = Stopping(store, self.calls, torn=self.torn)  # what opens it is no part of this
        index = Index(self.stopping, profile)
        index.close = store.close
        return index

    def before(self, call: Callable[..., object]) -> Callable[..., object]:
        def stepped(*arguments: object, **options: object) -> object:
            if self.stopping is None:
                return call(*arguments, **options)
            return self.stopping.spend(call, "file", *arguments, **options)

        return stepped

    def load(self, folder: Path, unique_only: bool, read: InputOptions | None = None) -> bool:
        """Whether the load came to its end."""
        with (
            patch.object(load_job, "open_index", self.open_index),
            patch.object(OutputFile, "write", self.before(OutputFile.write)),
            patch.object(OutputFile, "checkpoint", self.before(OutputFile.checkpoint)),
            patch.object(Path, "replace", self.before(Path.replace)),
        ):
            try:
                load_into(folder, unique_only, read)
            except (Crash, OutputFailed):
                load_log._held.clear()  # the process is gone
                return False
        return True


@pytest.mark.parametrize(
    "torn", [pytest.param(False, marks=pytest.mark.full), True], ids=["between calls", "within a call"]
)
@pytest.mark.parametrize("unique_only", [True, False], ids=["unique only", "all"])
def test_a_load_that_was_stopped_at_any_step_ends_as_an_undisturbed_one(
    folders, small_writes, unique_only, torn, pytestconfig
):
    undisturbed = folders()
    whole = load_into(undisturbed, unique_only)
    assert bool(whole.largest) == unique_only
    expected = outcome(undisturbed)
    assert all(expected[1]) == unique_only
    stops = 0
    calls = 0
    while True:
        folder = folders()
        if Steps(calls, torn).load(folder, unique_only):
            break
        report = load_into(folder, unique_only)
        assert outcome(folder) == expected, calls
        assert (report.documents, report.sources, report.largest) == (60, whole.sources, whole.largest)
        stops += 1
        # Of the first writes all with --full, and one of three without; some of the others.
        first = 1 if pytestconfig.getoption("--full") else 3
        calls += first if calls < 40 else 7
    assert stops > 15


@pytest.mark.parametrize("name", [FILES[0], "unique.csv", "unique.tsv.gz", "unique.parquet"])
def test_a_load_that_is_stopped_again_and_again_ends_as_an_undisturbed_one(
    folders, small_writes, monkeypatch, name
):
    monkeypatch.setattr(sys.modules[__name__], "FILES", (name, *FILES[1:]))
    undisturbed = folders()
    load_into(undisturbed)
    folder = folders()
    tries = 0
    while not Steps(45, torn=False).load(folder, unique_only=True):
        tries += 1
        assert tries < 100
    assert tries > 3
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.parametrize("step", ["replace", "unlink"])
def test_a_table_that_was_being_made_is_there_when_the_load_is_run_again(folders, monkeypatch, step):
    monkeypatch.setattr(sys.modules[__name__], "FILES", ("unique.parquet", *FILES[1:]))
    undisturbed, folder = folders(), folders()
    load_into(undisturbed)
    with monkeypatch.context() as patched:
        patched.setattr(Path, step, crashing(getattr(Path, step), "unique.parquet"))
        with suppress(Crash):
            load_into(folder)
        load_log._held.clear()  # the process is gone
    assert (folder / "unique.parquet.part").exists()
    assert loads(folder)[0].progress == "finishing"
    load_into(folder)
    assert outcome(folder) == outcome(undisturbed)
    assert not (folder / "unique.parquet.made").exists()


def crashing(call: Callable[..., object], name: str) -> Callable[..., object]:
    """The same, but for a file whose name begins so and what is made of it."""

    def stepped(path: Path, *arguments: object, **options: object) -> object:
        if path.name.startswith(name):
            raise Crash
        return call(path, *arguments, **options)

    return stepped


@pytest.mark.parametrize("id_from", ["line", "text"])
def test_ids_that_are_made_of_places_or_texts_are_the_same_after_a_stop(folders, small_writes, id_from):
    read = InputOptions(id_from=id_from, html=True)
    undisturbed, folder = folders(), folders()
    for path in (undisturbed / "a.jsonl", folder / "a.jsonl"):
        path.write_text(path.read_text().replace('"text": "', '"text": "<p>'))
    load_into(undisturbed, read=read)
    assert not Steps(45, torn=False).load(folder, unique_only=True, read=read)
    load_into(folder, read=read)
    assert outcome(folder) == outcome(undisturbed)


def test_pages_that_were_rejected_are_not_parsed_in_this_process_after_a_stop(
    folders, small_writes, monkeypatch
):
    """They may take any time and memory."""
    read, folder = InputOptions(id_from="text", html=True), folders()
    page = f"<p {' '.join(f'a{number}' for number in range(3000))}>"
    with (folder / "a.jsonl").open("r+") as file:
        rest = file.read().replace('"text": "', '"text": "<p>')
        file.seek(0)
        file.write(json.dumps({"id": "hostile", "text": page}) + "\n" + rest)
    assert not Steps(45, torn=False).load(folder, unique_only=True, read=read)

    def extracted(html: str, *rest: object) -> object:
        assert html != page
        return extract_html(html, *rest)

    monkeypatch.setattr(parser, "extract_html", extracted)
    assert load_into(folder, read=read).rejected
    assert loads(folder)[0].progress == "finished"


def stopped(folder: Path) -> None:
    """Stops a load in the middle."""
    assert not Steps(60, torn=False).load(folder, unique_only=True)


def test_what_was_loaded_is_not_loaded_again(folders, small_writes):
    folder = folders()
    stopped(folder)
    (state,) = loads(folder)
    written: list[str] = []
    store_kept = load_job.store_kept
    with patch.object(
        load_job,
        "store_kept",
        lambda index, some, *rest: written.extend(some.ids) or store_kept(index, some, *rest),
    ):
        report = load_into(folder)
    assert state.progress == "running"
    assert replace(state, changed=0).was_killed
    assert state.parts > 1
    assert 0 < len(written) < report.loaded + report.duplicates
    (state,) = loads(folder)
    assert (state.progress, state.counts["added"]) == ("finished", report.added)


def loads(folder: Path) -> list:
    with open_index(f"rocksdb:{folder / 's.db'}", access="read") as index:
        return Administrator(index).loads()


def test_inputs_that_have_changed_are_loaded_anew_and_of_a_named_load_refused(
    folders, small_writes, tmp_path
):
    folder = folders()
    stopped(folder)
    lines = (folder / "a.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "a.jsonl").write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    assert load_into(folder).documents == 60
    with pytest.raises(BadInput, match=r"cannot resume the load 'mine'.*simhbase loads forget mine"):
        stop_named_and_change(folder)
    with open_index(f"rocksdb:{folder / 's.db'}") as index:
        assert Administrator(index).forget_load("mine")
    assert load_into(folder, name="mine").documents == 60


def stop_named_and_change(folder: Path) -> None:
    written = iter(range(3))

    def write_twice(*arguments: object) -> object:
        next(written, None)
        if next(written, None) is None:
            raise KeyboardInterrupt
        return load_job_all(*arguments)

    load_job_all = load_job.store_kept
    with patch.object(load_job, "store_kept", write_twice), pytest.raises(KeyboardInterrupt):
        load_into(folder, name="mine")
    lines = (folder / "a.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "a.jsonl").write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    load_into(folder, name="mine")


def test_a_load_whose_unfinished_file_is_gone_begins_anew(folders, small_writes):
    folder, undisturbed = folders(), folders()
    load_into(undisturbed)
    stopped(folder)
    (folder / f"{FILES[0]}.part").unlink()
    load_into(folder)
    assert outcome(folder)[1][2] == outcome(undisturbed)[1][2]
    assert outcome(folder)[0] == outcome(undisturbed)[0]


def test_a_load_that_was_interrupted_says_why(folders, small_writes):
    folder = folders()
    with (
        patch.object(load_job, "store_kept", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        load_into(folder)
    (state,) = loads(folder)
    assert (state.progress, state.reason, state.was_killed) == ("stopped", "interrupted", False)


def test_two_loads_of_one_name_do_not_run_at_once(folders, small_writes):
    folder = folders()
    with (
        open_index(f"rocksdb:{folder / 's.db'}") as index,
        LoadLog.begin(index.store, "one", "task"),
        pytest.raises(StoreBusy, match="'one' is running already"),
    ):
        LoadLog.begin(index.store, "one", "task")


# As commands


def command(folder: Path) -> list[str]:
    return [
        *COMMAND, "load", "--unique-only", "--unique", FILES[0], "--duplicates", FILES[1],
        "--rejects", FILES[2], "--evidence", FILES[3], "--store", "rocksdb:s.db", "a.jsonl",
    ]  # fmt: skip


def killed_at_random(folder: Path, seconds: float) -> bool:
    """Whether a load was killed before it ended."""
    loading = subprocess.Popen(
        command(folder), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with suppress(subprocess.TimeoutExpired):
        loading.wait(seconds)
    loading.kill()
    _, said = loading.communicate()
    assert loading.returncode in (-signal.SIGKILL, 3), said  # 3: some were rejected
    return loading.returncode != 3


def has_finished(folder: Path) -> bool:
    """Whether a load came to its end before its process was killed: run again, it would begin anew."""
    try:
        return any(state.progress == "finished" for state in loads(folder))
    except TablesMissing:  # killed before it had made them
        return False


def kill_and_compare(tmp_path: Path, count: int, record: Callable[[str, object], None]) -> None:
    """Kills a load again and again, until one of its runs comes to its end."""
    chance = random.Random(count)
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        corpus(folder / "a.jsonl", count)
    begun = time.monotonic()
    done = subprocess.run(command(one), cwd=one, env=environment(), capture_output=True, check=False)
    assert done.returncode == 3
    took, kills = time.monotonic() - begun, 0
    # Later, as there is more to pass over.
    while killed_at_random(other, took * chance.uniform(0.1, 1 + kills / 6)) and not has_finished(other):
        kills += 1
        assert kills < 100
    record("kills", kills)
    assert outcome(other) == outcome(one)


def test_a_load_that_was_killed_leaves_the_files_of_an_undisturbed_one(tmp_path, record_property):
    kill_and_compare(tmp_path, 10_000, record_property)


def test_loads_lists_and_forgets(tmp_path):
    corpus(tmp_path / "a.jsonl", 100)
    store = ("--store", "rocksdb:s.db")
    assert run("load", "a.jsonl", "--name", "nightly", *store, cwd=tmp_path).returncode == 3
    assert (
        run("load", "-", *store, cwd=tmp_path, stdin=b'{"id": "a", "text": "one two three"}').returncode == 0
    )
    shown = run("loads", *store, cwd=tmp_path).stdout.decode()
    assert re.search(r"^nightly +finished .* \d+ +0 +\d+ ", shown, re.MULTILINE)
    line = result("loads", *store, cwd=tmp_path)
    assert (line["name"], line["state"], line["reason"]) == ("nightly", "finished", None)
    assert result("loads", "forget", "nightly", *store, cwd=tmp_path) == {"forgotten": ["nightly"]}
    again = run("loads", "forget", "nightly", *store, cwd=tmp_path)
    assert (again.returncode, b"no load 'nightly'" in again.stderr) == (2, True)
    assert run("loads", *store, cwd=tmp_path).stdout == b""
    for name in ("one", "two"):
        run("load", "a.jsonl", "--name", name, *store, cwd=tmp_path)
    none = run("loads", "forget", *store, cwd=tmp_path)
    assert (none.returncode, b"--finished" in none.stderr) == (2, True)
    both = {"forgotten": ["two", "one"]}
    assert result("loads", "forget", "two", "--finished", *store, cwd=tmp_path) == both
    assert result("loads", "forget", "--finished", *store, cwd=tmp_path) == {"forgotten": []}


def test_a_load_waits_for_the_store_as_long_as_it_may(tmp_path):
    corpus(tmp_path / "a.jsonl", 20)
    assert run("load", "a.jsonl", cwd=tmp_path).returncode == 3
    with open_index(f"rocksdb:{tmp_path / 'simhbase.db'}"):
        done = run_alone("load", "a.jsonl", "--lock-wait", "1s", cwd=tmp_path)
        assert (done.returncode, done.stderr.count(b"waiting: ")) == (13, 1)
        waiting = subprocess.Popen(
            [*COMMAND, "load", "a.jsonl", "--lock-wait", "1h"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert waiting.stderr is not None
        assert b"waiting: " in waiting.stderr.readline()
        assert waiting.poll() is None
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, b"unchanged" in out) == (3, True)


# Who else is there


@pytest.mark.parametrize(
    "torn", [pytest.param(False, marks=pytest.mark.full), True], ids=["between calls", "within a call"]
)
def test_a_load_that_was_stopped_before_and_after_it_made_the_store_ends_as_an_undisturbed_one(
    folders, small_writes, torn
):
    """All of the first batches is rejected, so that the store is made late."""

    def new() -> Path:
        folder = folders()
        rmtree(folder / "s.db")
        lines = (folder / "a.jsonl").read_text()
        (folder / "a.jsonl").write_text("no json\n" * 14 + lines)
        return folder

    undisturbed = new()
    load_into(undisturbed)
    expected = outcome(undisturbed)
    for calls in range(0, 60, 4 if torn else 6):
        folder = new()
        assert not Steps(calls, torn).load(folder, unique_only=True)
        load_into(folder)
        assert outcome(folder) == expected, calls
    assert len(loads(undisturbed)) == 1


def test_leading_rejects_are_noted_write_by_write(folders, small_writes):
    folder = folders()
    rmtree(folder / "s.db")
    (folder / "a.jsonl").write_text("no json\n" * 30 + '{"id": "a", "text": "one two three four"}\n')
    with (
        patch.object(Checkpoints, "note_all", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        load_into(folder)
    (state,) = loads(folder)
    assert state.parts == 6
    assert load_into(folder).documents == 31


def test_what_cannot_be_read_again_is_loaded_whole_and_not_noted(tmp_path):
    corpus(tmp_path / "a.jsonl", 3000)
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} load --format jsonl --json --store rocksdb:s.db <(cat a.jsonl)"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["documents"] == 3000
    assert loads(tmp_path) == []
    named = run("load", "-", "--name", "n", cwd=tmp_path, stdin=b"x")
    assert (named.returncode, b"--name: is only for loads that can be resumed" in named.stderr) == (2, True)


def test_the_unfinished_file_of_another_load_is_not_taken_for_ones_own(folders, small_writes):
    folder, undisturbed = folders(), folders()
    load_into(undisturbed)
    stopped(folder)
    others = '{"id": "x", "text": "another load of the same output"}\n' * 400
    (folder / f"{FILES[0]}.part").write_text(others)
    load_into(folder)
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.parametrize("error", [KeyboardInterrupt, Crash])
@pytest.mark.parametrize("renamed", [0, 1, 2, 3])
def test_a_named_load_that_is_stopped_while_its_files_get_their_names_goes_on(
    folders, small_writes, renamed, error
):
    folder, undisturbed = folders(), folders()
    load_into(undisturbed)
    rename, done = outputs.rename, iter(range(renamed))

    def stop_later(*paths: Path) -> None:
        if next(done, None) is None:
            raise error
        rename(*paths)

    with patch.object(outputs, "rename", stop_later), suppress(error):
        load_into(folder, name="mine")
    load_log._held.clear()
    load_into(folder, name="mine")
    assert outcome(folder) == outcome(undisturbed)


def test_what_comes_into_a_folder_after_its_load_was_stopped_at_its_end_is_loaded(tmp_path):
    (tmp_path / "in").mkdir()
    corpus(tmp_path / "in/a.jsonl", 50)
    inputs = Inputs([str(tmp_path / "in")], rejects=tmp_path / "r.jsonl")
    store = f"rocksdb:{tmp_path / 's.db'}"
    with patch.object(outputs, "rename", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        simhbase.load(inputs, store)
    (tmp_path / "in/b.jsonl").write_text('{"id": "b", "text": "one two three four five"}\n')
    assert simhbase.load(inputs, store).documents == 51


def test_names_that_are_no_utf_8_are_loaded_and_said(tmp_path):
    name = os.fsdecode(b"e\xff.jsonl")
    corpus(tmp_path / name, 20)
    done = run_alone(
        "load", name, "--rejects", os.fsdecode(b"r\xff"), *("--store", "rocksdb:s.db"), cwd=tmp_path
    )
    assert done.returncode == 3, done.stderr
    (state,) = loads(tmp_path)
    assert state.progress == "finished"
    refused = run_alone("load", name, "--name", os.fsdecode(b"n\xff"), cwd=tmp_path)
    assert (refused.returncode, b"is not a valid name of a load" in refused.stderr) == (2, True)
    assert not (tmp_path / "simhbase.db").exists()
    assert run("load", name, "--name", "", cwd=tmp_path).returncode == 2


def test_a_file_that_was_renamed_is_another_input(folders, small_writes):
    """Its documents may be named after it."""
    folder = folders()
    add_batch, calls = Index.add_batch, iter(range(3))

    def stop_later(*arguments: object) -> object:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return add_batch(*arguments)

    inputs = Inputs(["*.jsonl"], InputOptions(id_from="line"), threads=1)
    with chdir(folder):
        with patch.object(Index, "add_batch", stop_later), pytest.raises(KeyboardInterrupt):
            simhbase.load(inputs, "rocksdb:s.db", name="mine")
        Path("a.jsonl").rename("b.jsonl")
        with pytest.raises(BadInput, match="inputs changed since the interrupted run"):
            simhbase.load(inputs, "rocksdb:s.db", name="mine")


def test_a_process_whose_store_failed_at_the_end_may_load_again(folders, small_writes):
    folder = folders()
    change = LoadLog.change

    def fail_at_the_end(self: LoadLog, **values: object) -> None:
        if values.get("progress") == "finished":
            raise StoreUnreachable("gone")
        change(self, **values)

    with patch.object(LoadLog, "change", fail_at_the_end), pytest.raises(StoreUnreachable):
        load_into(folder)
    assert load_into(folder).documents == 60


def test_a_run_says_how_many_documents_another_one_has_done(folders, small_writes, capsys):
    folder = folders()
    stopped(folder)
    (state,) = loads(folder)
    said: list[str] = []
    with patch.object(type(NULL_WATCHER), "note", lambda self, text: said.append(text)):
        load_into(folder)
    done = sum(state.counts[name] for name in ("added", "updated", "unchanged", "duplicates", "rejected"))
    assert f"resuming after {done:,} documents, where the run of" in said[0]
    assert done <= 60


@pytest.mark.parametrize("stop", [False, True])
def test_a_large_load_compacts_its_store_unless_somebody_has_no_time_for_that(folders, monkeypatch, stop):
    settled = []

    def compact(self: object, progress: object) -> None:
        settled.append(self)
        if stop:
            raise KeyboardInterrupt

    monkeypatch.setattr("simhbase.stores.rocksdb.store.RocksStore.compact", compact)
    monkeypatch.setattr(load_job, "SETTLED", 20)
    folder = folders()
    assert load_into(folder).loaded >= 20
    assert len(settled) == 1
    (state,) = loads(folder)
    assert state.progress == "finished"
    load_into(folder)  # nothing is new
    assert len(settled) == 1


def test_a_store_is_told_behind_forget(tmp_path):
    corpus(tmp_path / "a.jsonl", 20)
    run("load", "a.jsonl", "--name", "n", cwd=tmp_path)
    done = run("loads", "--store", "rocksdb:other.db", "forget", "n", cwd=tmp_path)
    assert (done.returncode, b"put --store after forget" in done.stderr) == (2, True)
    assert run("loads", "forget", "n", cwd=tmp_path).returncode == 0


def test_a_load_waits_for_a_store_that_another_process_makes_meanwhile(tmp_path, monkeypatch):
    corpus(tmp_path / "a.jsonl", 20)
    monkeypatch.setattr(load_job, "_RETRY_SECONDS", 0.01)
    tries: list[str] = []

    def busy_at_first(
        url: str, create: Profile | None = None, access: Access = "write", scope: str | None = None
    ) -> Index:
        tries.append(url)
        if create is not None and len(tries) < 4:
            raise StoreBusy("another process writes to it")
        return open_index(url, create, access, scope=scope)

    with patch.object(load_job, "open_index", busy_at_first):
        store = f"rocksdb:{tmp_path / 's.db'}"
        assert simhbase.load(tmp_path / "a.jsonl", store, lock_wait=60).documents == 20
    assert len(tries) == 4
