"""The command line as a process: its streams, its signals, its workers, its start."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pytest

import simhbase
from simhbase.admin.check import Checker
from simhbase.cli import COMMANDS, cli
from simhbase.index.rows import Entry, document_id
from simhbase.process.interrupt import defer_interrupts
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

STORE = ("--store", "rocksdb:s.db")
SPREAD = 0x9E3779B97F4A7C15  # a multiplier that spreads 0, 1, 2... over all 64 bits


def start(*arguments: object, cwd: Path, **streams: object) -> subprocess.Popen[bytes]:
    """A command in a process group of its own, as a terminal gives it."""
    command = [*COMMAND, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # call-overload: which of Popen's forms it is, is in the values of a mapping, which mypy does not follow.
    return subprocess.Popen(command, cwd=cwd, env=environment(), start_new_session=True, **pipes | streams)  # type: ignore[call-overload]


def content(path: Path) -> dict[str, int]:
    """What a store holds; nothing of it is half done."""
    with simhbase.open(f"rocksdb:{path}", access="read") as index:
        assert not Checker(index.store, index.profile.index_scheme).check().problems
        return {
            document_id(key): Entry.decode(key, cell.value).fingerprint
            for batch in index.store.records("documents").iterate()
            for key, cell in batch
        }


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in a minute"
        time.sleep(0.05)


def feed_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], lines: bytes) -> None:
    """Write lines to standard input until a condition holds. What a command has done waits for its next
    lines, where threads work, so it gets a few at a time."""
    rest = iter(lines.splitlines(keepends=True))
    while some := b"".join(islice(rest, 500)):
        process.stdin.write(some)
        process.stdin.flush()
        if condition():
            return
    wait_until(condition)


def holds_documents(path: Path) -> bool:
    """Whether a store holds some by now; its writer may be at work."""
    try:
        with simhbase.open(f"rocksdb:{path}", access="read") as index:
            return bool(next(index.store.records("documents").iterate(), []))
    except simhbase.errors.TablesMissing:
        return False


# --- streams ---


def test_results_go_to_stdout_and_messages_to_stderr(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": 1, "text": text} for text in texts(1)] + [{"id": 2}])
    done = run_alone("load", "a.jsonl", "--json", *STORE, cwd=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout)["loaded"] == 1
    assert done.stderr.decode().splitlines() == [
        "rejected: a.jsonl, line 2, id 2: no field 'text' among 'id': name another text field (text_field)"
    ]


def test_a_command_is_quiet_on_stderr_where_that_is_no_terminal(tmp_path):
    documents(tmp_path / "a.jsonl", texts(20))
    for command in (("load", "a.jsonl"), ("find", "a.jsonl", "--json"), ("check",), ("stats",)):
        done = run_alone(*command, *STORE, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout


def test_progress_with_rate_and_time_left_is_shown_on_a_terminal(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3000))
    ours, theirs = pty.openpty()
    shown = b""
    with start("load", "a.jsonl", "--json", *STORE, cwd=tmp_path, stderr=theirs) as process:
        os.close(theirs)
        with suppress(OSError):  # how a terminal ends when nobody holds its other side
            while block := os.read(ours, 1 << 16):
                shown += block
        os.close(ours)
        output, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(output)["loaded"] == 3000
    for part in (b" documents", b"/s", b"left:"):
        assert part in shown


def test_a_reader_that_leaves_early_ends_the_command_quietly(tmp_path):
    fingerprints(tmp_path / "a.jsonl", {f"d{number}": number * SPREAD % 2**64 for number in range(12_000)})
    run("load", "--fingerprint-field", "f", "a.jsonl", *STORE, cwd=tmp_path)
    with start("find", "--fingerprint-field", "f", "a.jsonl", "--json", *STORE, cwd=tmp_path) as find:
        assert json.loads(find.stdout.readline())["id"] == "d0"
        find.stdout.close()
        assert find.stderr.read() == b""
    assert find.returncode == 141


def test_it_ends_so_where_its_messages_had_the_same_reader(tmp_path):
    (tmp_path / "a.jsonl").write_text("no json\n" * 3_000)
    command = [*COMMAND, "load", *STORE, "a.jsonl"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as load:
        load.stdout.readline()
        load.stdout.close()
    assert load.returncode == 141


def test_a_terminal_shows_a_reject_once(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": "bad", "text": ""}, {"id": "good", "text": texts(1)[0]}])
    run("load", "a.jsonl", *STORE, cwd=tmp_path)
    ours, theirs = pty.openpty()
    with start(
        "find", "a.jsonl", "missing.jsonl", *STORE, cwd=tmp_path, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how a terminal ends when nobody holds its other side
            while block := os.read(ours, 1 << 16):
                shown += block
        os.close(ours)
    assert process.returncode == 3
    assert shown.count(b"the text is empty") == 1
    assert shown.count(b"missing.jsonl") == 1
    assert b"1 of 2 queries have matches" in shown


def test_a_full_disk_behind_standard_output_is_told(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3))
    with (
        Path("/dev/full").open("wb") as full,
        start("fingerprint", "a.jsonl", cwd=tmp_path, stdout=full) as process,
    ):
        _, told = process.communicate()
    assert told == b"Error: cannot write to standard output: No space left on device\n"
    assert process.returncode == 1


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["dedup", "--help"]])
def test_help_that_cannot_be_written_or_is_not_read_is_told(tmp_path, arguments):
    with (
        Path("/dev/full").open("wb") as full,
        start(*arguments, cwd=tmp_path, stdout=full) as process,
    ):
        _, told = process.communicate()
    assert told.count(b"\n") == 1
    assert b"No space left on device" in told
    assert process.returncode == 1
    reading, writing = os.pipe()
    os.close(reading)
    with start(*arguments, cwd=tmp_path, stdout=writing) as process:
        os.close(writing)
        assert process.communicate()[1] == b""
    assert process.returncode == 141


def shown_on_a_terminal(*arguments: object, cwd: Path, columns: int) -> bytes:
    """What a command shows on a terminal of so many columns, which its stderr is."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    shown = b""
    with start(*arguments, cwd=cwd, stderr=theirs) as process:
        os.close(theirs)
        with suppress(OSError):  # how a terminal ends when nobody holds its other side
            while block := os.read(ours, 1 << 16):
                shown += block
        os.close(ours)
        process.communicate()
    assert process.returncode == 0
    return shown


def test_progress_fits_a_narrow_terminal(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3000))
    shown = shown_on_a_terminal("dedup", "a.jsonl", cwd=tmp_path, columns=40)
    assert b" documents" in shown
    for line in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).splitlines():
        assert len(line.decode()) <= 40
        assert "…" not in line.decode()


FAILING = """
import sys, click
from simhbase.cli import Commands

def fail():
    sys.stdout.write("printed")
    raise OSError(5, "the disk is broken")

class Failing(Commands):
    def get_command(self, context, name):
        return click.Command(name, callback=fail)

Failing()(["fail"])
"""


def test_what_was_printed_before_an_error_of_the_system_is_not_lost():
    buffering = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, check=False, env=buffering)
    assert (done.returncode, done.stdout) == (1, b"printed")
    assert b"the disk is broken" in done.stderr


def test_no_progress_is_shown_beside_results_that_a_pipe_takes(tmp_path):
    documents(tmp_path / "a.jsonl", texts(300))
    assert shown_on_a_terminal("fingerprint", "a.jsonl", cwd=tmp_path, columns=120) == b""


# --- signals ---


@pytest.mark.parametrize("threads", [1, 2])
def test_a_load_that_was_interrupted_keeps_what_it_says_and_is_gone_on_with(tmp_path, threads):
    values = {f"d{number}": number * SPREAD % 2**64 for number in range(16_000)}
    lines = fingerprints(tmp_path / "a.jsonl", values).read_bytes()
    options = ("--fingerprint-field", "f", "--unique-only", "--threads", threads, *STORE)

    with start("load", *options, "--unique", "u.jsonl", "-", cwd=tmp_path) as process:
        feed_until(lambda: holds_documents(tmp_path / "s.db"), process, lines)  # and waits for more
        os.killpg(process.pid, signal.SIGINT)
        output, told = process.communicate()
    assert process.returncode == 130, told
    assert output == b""
    assert b"Traceback" not in told
    kept = int(told.decode().split("stopped after ")[1].split()[0].replace(",", ""))
    assert len(content(tmp_path / "s.db")) == kept > 0
    assert len(read_lines(tmp_path / "u.jsonl.part")) == kept
    assert not (tmp_path / "u.jsonl").exists()

    report = result("load", *options, "--unique", "u.jsonl", "a.jsonl", cwd=tmp_path)
    assert (report["loaded"], report["duplicates"]) == (16_000, 0)
    assert content(tmp_path / "s.db") == values
    assert len(read_lines(tmp_path / "u.jsonl")) == 16_000


@pytest.mark.parametrize("everybody", [False, True])  # whether the workers get the signal, too
def test_a_load_that_is_terminated_ends_as_one_that_is_interrupted(tmp_path, everybody):
    values = {f"d{number}": number * SPREAD % 2**64 for number in range(16_000)}
    lines = fingerprints(tmp_path / "a.jsonl", values).read_bytes()
    options = ("--fingerprint-field", "f", "--threads", 2, *STORE)
    with start("load", *options, "-", cwd=tmp_path) as process:
        feed_until(lambda: holds_documents(tmp_path / "s.db"), process, lines)
        (os.killpg if everybody else os.kill)(process.pid, signal.SIGTERM)
        output, told = process.communicate()
    assert process.returncode == 143, told
    assert output == b""
    first, last = told.decode().splitlines()
    assert first.startswith("stopped after ")
    assert last == "Error: terminated"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_load_that_said_what_it_did_has_done_it(tmp_path, number):
    """A scheduler that is told otherwise runs it again, and gets empty lists of what is new."""
    values = {f"d{number}": number * SPREAD % 2**64 for number in range(2_000)}
    fingerprints(tmp_path / "a.jsonl", values)
    options = ("--fingerprint-field", "f", "--name", "night", "--new", "new.jsonl", *STORE, "a.jsonl")
    with start("load", *options, "--json", cwd=tmp_path) as process:
        assert json.loads(process.stdout.readline())["added"] == 2_000
        while process.poll() is None:
            process.send_signal(number)
            time.sleep(0.001)
    assert process.returncode == 0
    assert len(read_lines(tmp_path / "new.jsonl")) == 2_000
    assert result("loads", *STORE, cwd=tmp_path)["state"] == "finished"


def test_a_reader_that_is_terminated_leaves_no_folder(tmp_path, monkeypatch):
    documents(tmp_path / "a.jsonl", texts(1))
    run("load", "a.jsonl", *STORE, cwd=tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    with start("find", "-", *STORE, cwd=tmp_path) as process:
        wait_until(lambda: any((tmp_path / "temporary").iterdir()))
        process.terminate()
        process.communicate()
    assert process.returncode == 143
    assert not list((tmp_path / "temporary").iterdir())


def test_an_interrupt_while_nothing_is_under_way_exits_130_too(tmp_path):
    with start("load", "-", "--rejects", "r.jsonl", *STORE, cwd=tmp_path) as process:
        wait_until(lambda: (tmp_path / "r.jsonl.part").exists())
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode == 130, told
    # The file is there a moment before the load has begun, of which alone the first line tells.
    said = [b"stopped before anything was loaded", b"Error: interrupted"]
    assert told.splitlines() in (said, said[1:])
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    "moment", [pytest.param(n, marks=[pytest.mark.full] if n > 2 else []) for n in range(12)]
)
def test_a_load_that_was_killed_loses_nothing_acknowledged_and_is_gone_on_with(tmp_path, moment):
    values = {f"d{number}": number * SPREAD % 2**64 for number in range(12_000)}
    fingerprints(tmp_path / "a.jsonl", values)
    load = ("load", "--fingerprint-field", "f", "--unique-only", "a.jsonl", *STORE)
    with start(*load, "--unique", "u.jsonl", "--threads", 1, cwd=tmp_path) as process:
        wait_until(lambda: holds_documents(tmp_path / "s.db"))
        time.sleep(0.03 * moment)
        os.killpg(process.pid, signal.SIGKILL)

    (acknowledged,) = tmp_path.glob("u.jsonl*")  # whole already if the kill came too late
    done = run("find", "--fingerprint-field", "f", acknowledged, "--json", *STORE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == len(read_lines(acknowledged))
    for answer in map(json.loads, done.stdout.splitlines()):
        assert answer["id"] in [match["id"] for match in answer["matches"]]
    assert result(*load, cwd=tmp_path)["loaded"] == 12_000
    assert content(tmp_path / "s.db") == values


def test_an_interrupt_that_is_put_off_comes_after_the_work():
    done = []

    @defer_interrupts()
    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


# --- threads and worker processes ---


def test_any_number_of_threads_gives_the_same(tmp_path):
    some = texts(1500, words=12)
    again = [text.upper() for text in some[::3]]
    mixed = [text for pair in zip(some, [*again, *[""] * 1000], strict=True) for text in pair]
    documents(tmp_path / "a.jsonl", mixed)

    def everything(threads: int) -> list[object]:
        folder = tmp_path / str(threads)
        folder.mkdir()
        options = ("--unique", "--duplicates", "--evidence", "--rejects")
        files = tuple(each for option in options for each in (option, f"{option[2:]}.jsonl"))
        options = ("../a.jsonl", "--yes", "--threads", threads)
        load = result("load", "--unique-only", *files, *STORE, *options, cwd=folder, exit_code=3)
        lines = [(folder / name).read_bytes() for name in files[1::2]]
        dedup = result("dedup", *files, *options, cwd=folder, exit_code=3)
        lines += [(folder / name).read_bytes() for name in files[1::2]]
        chosen = ("--chains", "--keep", "longest", "--min-similarity", "0.3")
        result("dedup", *files, *options, *chosen, cwd=folder, exit_code=3)
        lines += [(folder / name).read_bytes() for name in files[1::2]]
        found = run("find", *STORE, *options, cwd=folder).stdout
        made = run("fingerprint", *options, cwd=folder).stdout
        run("idf", "-o", "x.idf", *options, cwd=folder)
        idf = (folder / "x.idf").read_bytes()
        return [
            load | {"seconds": 0},
            dedup | {"seconds": 0},
            lines,
            found,
            made,
            idf,
            content(folder / "s.db"),
        ]

    alone = everything(1)
    assert (alone[0]["loaded"], alone[0]["duplicates"], alone[0]["rejected"]) == (1500, 500, 1000)
    assert everything(3) == alone


# --- start ---


def test_help_starts_without_what_takes_long_to_import():
    script = "import sys; from simhbase.cli import main; sys.argv[1:] = ['--help']\n"
    script += "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, check=True)
    assert b"dedup" in done.stdout
    imported = set(done.stderr.decode().split())
    assert "click" in imported
    assert imported.isdisjoint({"numpy", "rocksdict", "rich", "zstandard", "multiprocessing"})


def test_help_of_every_command_begins_with_its_line_in_the_list():
    for name, line in COMMANDS.items():
        command = cli.get_command(None, name)
        assert command is not None
        assert command.help is not None
        assert command.help.splitlines()[0] == line


def test_the_help_of_every_option_says_what_it_does_by_itself():
    for name in COMMANDS:
        command = cli.get_command(None, name)
        for option in getattr(command, "params", ()):
            text = getattr(option, "help", None) or "An argument has none."
            assert not text.startswith(("The same", "auto:", "By default"))
            assert text.endswith((".", "]", ":", ")")) or option.opts == ["--store"], (name, option.opts)


def test_an_unexpected_error_is_short_and_says_how_to_see_more(tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("the moon is full")

    monkeypatch.setattr("simhbase.index.open_index", broken)
    done = run("stats", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "Error: unexpected RuntimeError: the moon is full (SIMHBASE_DEBUG=1 shows where)"
    ]
    monkeypatch.setenv("SIMHBASE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli(["stats"])


def test_the_version_is_that_of_the_package(tmp_path):
    done = run_alone("--version", cwd=tmp_path)
    assert done.stdout.decode() == f"simhbase, version {version('simhbase')}\n"


@pytest.mark.parametrize(
    ("closed", "command", "exit_code", "said"),
    [
        (1, ("load", "a.jsonl", *STORE), 1, "cannot write to standard output: Bad file descriptor"),
        (1, ("dedup", "--unique", "u.jsonl", "a.jsonl"), 1, "cannot write to standard output: Bad file"),
        (0, ("load", "-", *STORE), 1, "rejected: stdin: it cannot be read further: Bad file descriptor"),
        (0, ("fingerprint",), 2, "no input: standard input cannot be read (Bad file descriptor)"),
        (0, ("fingerprint", "a.jsonl"), 0, ""),
        (2, ("fingerprint", "a.jsonl"), 0, ""),
        (1, ("--help",), 1, "Error: unexpected OSError: [Errno 9] Bad file descriptor"),
        (1, ("dedup", "--help"), 1, "Error: unexpected OSError: [Errno 9] Bad file descriptor"),
    ],
)
def test_closed_streams_are_told_before_any_work(tmp_path, closed, command, exit_code, said):
    documents(tmp_path / "a.jsonl", texts(1))
    others = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(
        [*COMMAND, *map(str, command)],
        cwd=tmp_path,
        env=environment(),
        preexec_fn=lambda: os.close(closed),
        **others,
    )
    _, stderr = process.communicate()
    assert process.returncode == exit_code
    assert said in stderr.decode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]
