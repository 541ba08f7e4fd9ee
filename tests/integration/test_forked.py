"""A process that opens an embedded store and then forks, as servers do that load the application first."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import simhbase
from simhbase import Document
from simhbase.admin.check import Checker
from tests.command_line import environment

TIMEOUT = 60  # seconds: what hangs has hung

# What parent and child do after the fork is put in. `told` is what the child was told, call by call.
PROGRAM = """
import os, signal, subprocess, sys
import simhbase
from simhbase import Document
from simhbase.errors import StoreFailed

TEXTS = [" ".join(f"word{number}x{i}" for i in range(40)) for number in range(3)]

def told(call):
    try:
        call()
    except StoreFailed as error:
        return str(error)
    return "nothing"

def another_process_deletes(url):
    command = [sys.executable, "-m", "simhbase", "delete", "--yes", "first", "--store", url]
    subprocess.run(command, check=True, capture_output=True)

def main(url, access):
    with simhbase.open(url, access=access) as index:
        index.find(TEXTS[0])
        receive, send = os.pipe()
        if not (child := os.fork()):
            changes = (
                lambda: index.add([Document("child", TEXTS[1])]),
                lambda: index.delete(["first"]),
            )
            looks = (lambda: index.find_many(TEXTS), lambda: index.find_ids(["first"]))
            for call in (
                lambda: index.find(TEXTS[0]),
                *(changes if access == "write" else looks),
                lambda: simhbase.open(url, access="read"),
            ):
                os.write(send, told(call).encode() + b"\\n")
            %(child)s
        os.close(send)
        with os.fdopen(receive) as lines:
            answers = lines.read().splitlines()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        print(*answers, sep="\\n", flush=True)
        %(parent)s

main(*sys.argv[1:])
"""
ENDS = {
    "by sys.exit": "sys.exit(7)",
    "with the index closed": "index.close(); sys.exit(7)",
    "after its last reference is gone": "del index; import gc; gc.collect(); sys.exit(7)",
    "by an error": "sys.excepthook = lambda *error: None; raise RuntimeError",
}
STAYS = "index.add([Document('parent', TEXTS[2])]); print('acknowledged', flush=True); "
PARENTS = {
    "ends": STAYS,
    "is killed": STAYS + "os.kill(os.getpid(), signal.SIGKILL)",
}


def forked(url: str, access: str, child: str, parent: str, **variables: str) -> tuple[int, list[str]]:
    program = PROGRAM % {"child": child, "parent": parent}
    done = subprocess.run(
        [sys.executable, "-c", program, url, access],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"rocksdb:{tmp_path}/store"
    with simhbase.open(url, create=simhbase.Profile(verify=False)) as index:
        index.add([Document("first", text(0))])
    return url


def text(number: int) -> str:
    return " ".join(f"word{number}x{i}" for i in range(40))


def ids(index: simhbase.Index, number: int) -> list[str]:
    return [match.id for match in index.find(text(number)).matches]


@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("child", ENDS)
def test_a_child_is_refused_its_parents_store_and_harms_it_in_no_way(url, child, parent):
    code, lines = forked(url, "write", ENDS[child], PARENTS[parent])
    assert code == (0 if parent == "ends" else -signal.SIGKILL)
    ended, find, add, delete, opened, acknowledged = lines
    assert ended == ("1" if child == "by an error" else "7")
    for answer in (find, add, delete):
        assert "was opened before this process was forked" in answer
        assert "open the store in each process" in answer
    assert "forked" in opened
    assert acknowledged == "acknowledged"
    for access in ("read", "write"):
        with simhbase.open(url, access=access) as index:
            assert [ids(index, number) for number in range(3)] == [["first"], [], ["parent"]]
            assert not Checker(index.store, index.profile.index_scheme).check().problems


@pytest.mark.parametrize("child", ENDS)
def test_a_child_leaves_its_parents_reader_its_folder(url, tmp_path, child):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    parent = "print(len(os.listdir(os.environ['TMPDIR']))); print(len(index.find(TEXTS[0]).matches)); "
    parent += "another_process_deletes(url); print(len(index.find(TEXTS[0]).matches))"
    code, lines = forked(url, "read", ENDS[child], parent, TMPDIR=str(scratch))
    assert code == 0
    ended, *told, folders, before, after = lines
    assert ended == ("1" if child == "by an error" else "7")
    assert len(told) == 4
    assert all("forked" in answer for answer in told)
    assert (folders, before, after) == ("1", "1", "0")
    assert list(scratch.iterdir()) == [], "the parent removes it"


def test_children_that_open_the_store_themselves_after_the_fork_may(url):
    """The parent has opened none."""
    program = f"""
import os, sys
import simhbase
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    with simhbase.open({url!r}, access="read") as index:
        sys.exit(len(index.find({text(0)!r}).matches))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=False, timeout=TIMEOUT
    )
    assert (done.stdout, done.stderr) == (b"1\n", b"")


@pytest.mark.parametrize("access", ["write", "read"])
def test_a_child_is_told_at_once_while_a_thread_of_its_parent_is_in_the_store(url, access):
    program = f"""
import os, sys, threading
import simhbase
from simhbase import Document
from simhbase.errors import StoreFailed

index = simhbase.open({url!r}, access={access!r})
inside, ended = threading.Event(), threading.Event()

def stay():
    with index.store._lock:
        inside.set()
        ended.wait()

threading.Thread(target=stay).start()
inside.wait()
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    ended.set()
else:
    told = 0
    for call in (
        lambda: index.find("what is there"),  # refreshes a reader
        lambda: index.find_many(["what is there", "what else"]),
        lambda: index.add([Document("child", "what a child adds")]),
        lambda: index.delete(["first"]),
        index.store.sync,
        index.require_ready,
    ):
        try:
            call()
        except simhbase.SimhbaseError:
            told += 1
    index.close()
    os._exit(told)
"""
    command = [sys.executable, "-W", "ignore:a text has at most", "-c", program]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=TIMEOUT)
    assert (done.stdout, done.stderr) == (b"6\n", b"")
