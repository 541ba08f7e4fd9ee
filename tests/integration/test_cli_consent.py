"""Commands that remove much or replace files ask first; without a terminal they need --yes."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

import simhbase
from simhbase.admin.removal import Removal
from simhbase.index.rows import document_key
from tests.command_line import COMMAND, documents, environment, result, run, texts

STORE = ("--store", "rocksdb:s.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a store of 12 documents."""
    result("load", *STORE, documents(tmp_path / "a.jsonl", texts(12)), cwd=tmp_path)
    return tmp_path


def stored(folder: Path, store: str = "rocksdb:s.db") -> int:
    return int(result("stats", "--exact", "--store", store, cwd=folder)["documents"])


def on_terminal(folder: Path, answer: bytes, *command: str) -> tuple[int, bytes]:
    """Exit code of a command on a terminal with this answer, and what it showed there."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    with os.fdopen(theirs, "r+b", buffering=0) as terminal:
        done = subprocess.run(
            [*COMMAND, *command],
            cwd=folder,
            env=environment(),
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            check=False,
            timeout=120,
        )
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    return done.returncode, shown


def ids(count: int) -> list[str]:
    return [f"d{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("removed", "of", "is_much"),
    [(0, 0, False), (1, 1, True), (8, 9, False), (9, 9, True), (5, 10, False), (6, 10, True), (0, 20, False)],
)
def test_more_than_half_or_all_of_few_is_much(removed: int, of: int, is_much: bool) -> None:
    """What needs consent: more than half, of fewer than ten only all."""
    assert Removal(removed, of, "documents", "x").is_much == is_much


@pytest.mark.parametrize("given", [("--older-than", "0d"), ids(7), ("--ids-file", "-")])
def test_deleting_much_is_refused_without_consent(folder: Path, given: tuple[str, ...]) -> None:
    """A refused delete names number, share and option, and removes nothing; --dry-run only counts."""
    stdin = "\n".join(ids(7)).encode()
    count = 12 if "0d" in given else 7
    refused = run("delete", *given, *STORE, cwd=folder, stdin=stdin)
    said = refused.stderr.decode()
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert f"remove {count} of 12 documents ({100 * count / 12:.0f} %) of rocksdb:s.db: give --yes" in said
    counted = result("delete", "--dry-run", *given, *STORE, cwd=folder, stdin=stdin)
    assert (counted["would_delete"], counted["documents"], stored(folder)) == (count, 12, 12)
    assert result("delete", "--yes", *given, *STORE, cwd=folder, stdin=stdin)["deleted"] == count


def test_deleting_little_needs_no_consent(folder: Path) -> None:
    """Half of the documents, and any number of unknown ids, are deleted without a question."""
    unknown = [f"n{number}" for number in range(20)]
    assert result("delete", *ids(6), *unknown, *STORE, cwd=folder)["deleted"] == 6
    assert result("delete", "--older-than", "1d", *STORE, cwd=folder) == {"deleted": 0}


def test_a_migration_that_would_empty_its_target_is_refused(folder: Path) -> None:
    """An empty source, such as a damaged one, deletes nothing of the good copy without consent."""
    to = ("--to", "rocksdb:t.db")
    result("migrate", *STORE, *to, cwd=folder)
    result("delete", "--yes", *ids(12), *STORE, cwd=folder)
    refused = run("migrate", *STORE, *to, "--delete-missing", cwd=folder)
    assert refused.returncode == 2
    assert "remove 12 of 12 documents (100 %) of rocksdb:t.db: give --yes" in refused.stderr.decode()
    counted = result("migrate", *STORE, *to, "--delete-missing", "--dry-run", cwd=folder)
    assert (counted, stored(folder, "rocksdb:t.db")) == ({"would_delete": 12, "documents": 12}, 12)
    assert result("migrate", *STORE, *to, "--delete-missing", "--yes", cwd=folder)["deleted"] == 12


def test_a_repair_that_would_remove_most_rows_is_refused(folder: Path) -> None:
    """A store without its documents keeps what leads to them until the user agrees."""
    with simhbase.open(f"rocksdb:{folder}/s.db") as index:
        index.store.records("documents").delete([document_key(name) for name in ids(12)])
    refused = run("check", "--repair", *STORE, cwd=folder)
    assert refused.returncode == 2
    assert "remove 12 of 12 rows of the table fingerprints (100 %)" in refused.stderr.decode()
    assert result("check", *STORE, cwd=folder, exit_code=1)["listings"] == 12
    assert result("check", "--repair", "--yes", *STORE, cwd=folder)["listings"] == 0


def test_clearing_the_mute_list_is_refused(folder: Path) -> None:
    """Removing all entries needs consent, removing some does not."""
    result("mute", "add", *ids(3), *STORE, cwd=folder)
    assert result("mute", "remove", "d0", *STORE, cwd=folder)["muted"] == 2
    refused = run("mute", "remove", *ids(3), *STORE, cwd=folder)
    assert (refused.returncode, b"remove 2 of 2 muted entries (100 %)" in refused.stderr) == (2, True)
    counted = result("mute", "remove", *ids(3), "--dry-run", *STORE, cwd=folder)
    assert counted == {"would_remove": 2, "muted": 2}
    assert result("mute", "remove", *ids(3), "--yes", *STORE, cwd=folder) == {"removed": 2, "muted": 0}


def test_dropping_is_refused(folder: Path) -> None:
    """A store is dropped only with consent; --dry-run names it."""
    assert run("tables", "drop", *STORE, cwd=folder).returncode == 2
    assert result("tables", "drop", "--dry-run", *STORE, cwd=folder)["would_drop"] == ["rocksdb:s.db"]
    assert stored(folder) == 12
    assert result("tables", "drop", "--yes", *STORE, cwd=folder)["dropped"]
    assert not (folder / "s.db").exists()


def test_the_documents_of_a_damaged_store_are_not_called_none(folder: Path) -> None:
    """Before it is dropped: there are some, and no command can count them."""
    (folder / "s.db/CURRENT").unlink()
    assert result("tables", "drop", "--dry-run", *STORE, cwd=folder)["documents"] == "unknown"
    refused = run("tables", "drop", *STORE, cwd=folder)
    assert (refused.returncode, b"(not complete, or damaged)" in refused.stderr) == (2, True)


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 12), (b"y\n", 0, 0)])
def test_a_terminal_is_asked(folder: Path, answer: bytes, code: int, left: int) -> None:
    """On a terminal the command waits for an answer, and follows it."""
    done, shown = on_terminal(folder, answer, "delete", "--older-than", "0d", *STORE)
    assert b"Remove 12 of 12 documents (100 %) of rocksdb:s.db?" in shown
    assert (done, stored(folder)) == (code, left)


WRITING = [
    ("dedup", "a.jsonl", "--unique", "out"),
    ("dedup", "a.jsonl", "--evidence", "out", "--duplicates", "-"),
    ("load", "a.jsonl", *STORE, "--new", "out"),
    ("load", "a.jsonl", "--store", "rocksdb:new.db", "--rejects", "out"),
    ("match", "a.jsonl", "--against", "a.jsonl", "--rejects", "out"),
    ("find", "a.jsonl", *STORE, "--rejects", "out"),
    ("fingerprint", "a.jsonl", "--rejects", "out"),
    ("idf", "a.jsonl", "-o", "out", "--rejects", "/dev/null"),
    ("idf", "a.jsonl", "-o", "/dev/stdout", "--boilerplate", "out"),
    ("calibrate", "a.jsonl", "--profile-file", "out"),
    ("tables", "describe", *STORE, "--profile-file", "out"),
]


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_an_output_file_that_exists_is_kept_without_consent(folder: Path, command: tuple[str, ...]) -> None:
    """Each command names the file and its size, and has read and written nothing."""
    (folder / "out").write_bytes(b"precious")
    refused = run(*command, cwd=folder)
    said = refused.stderr.decode()
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert said == "Error: this would replace out (8 bytes): give --yes to do it\n"
    assert (folder / "out").read_bytes() == b"precious"
    assert sorted(path.name for path in folder.iterdir()) == ["a.jsonl", "out", "s.db"]


@pytest.mark.parametrize(("content", "given"), [(b"", ()), (b"old", ("--yes",))])
def test_an_empty_file_or_one_with_consent_is_replaced(
    folder: Path, content: bytes, given: tuple[str, ...]
) -> None:
    """An empty file holds nothing to lose; --yes replaces others."""
    (folder / "out").write_bytes(content)
    result("dedup", "a.jsonl", "--unique", "out", *given, cwd=folder)
    assert len((folder / "out").read_bytes().splitlines()) == 12


def test_existing_plots_are_named(folder: Path) -> None:
    """Plots that exist in the folder are outputs like others."""
    pytest.importorskip("matplotlib")
    (folder / "plots").mkdir()
    (folder / "plots/pareto.svg").write_bytes(b"old")
    refused = run("calibrate", "a.jsonl", "--plots", "plots", cwd=folder)
    assert refused.returncode == 2
    assert b"replace plots/pareto.svg (3 bytes): give --yes" in refused.stderr


def test_a_load_writes_its_files_again(folder: Path) -> None:
    """A finished load is run again without consent; with a file that was changed since, or from another
    load, it asks."""
    load = ("load", "a.jsonl", *STORE, "--unique-only", "--unique", "u.csv", "--duplicates", "d.jsonl")
    for _ in range(2):
        result(*load, cwd=folder)
    assert run(*load, "--name", "other", cwd=folder).returncode == 2
    (folder / "u.csv").write_bytes(b"mine")
    refused = run(*load, cwd=folder)
    assert (refused.returncode, b"replace u.csv (4 bytes): give --yes" in refused.stderr) == (2, True)
    assert (folder / "u.csv").read_bytes() == b"mine"


def test_python_replaces_files(folder: Path) -> None:
    """A program says what it wants: functions replace files without a question."""
    (folder / "out").write_bytes(b"old")
    simhbase.dedup(folder / "a.jsonl", unique=folder / "out")
    assert len((folder / "out").read_bytes().splitlines()) == 12


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_terminal_is_asked_once_for_all_files(folder: Path, answer: bytes, code: int) -> None:
    """One question names all files, also where a command checks its files at two places."""
    for name in ("out", "more"):
        (folder / name).write_bytes(b"old")
    head = "All of these texts begin with one and the same line of words\n"
    documents(folder / "b.jsonl", [head + text for text in texts(12)])
    command = ("idf", "b.jsonl", "-o", "out", "--boilerplate", "more")
    done, shown = on_terminal(folder, answer, *command)
    assert shown.count(b"[y/N]") == 1
    assert b"Replace out (3 bytes), more (3 bytes)?" in shown
    assert (done, (folder / "out").read_bytes() != b"old") == (code, code == 0)
