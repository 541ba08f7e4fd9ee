from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from simhbase.errors import SimhbaseError, UsageError
from simhbase.parallel import AHEAD, AHEAD_SIZE, map_in_threads
from simhbase.workers import map_in_processes

POOLS = pytest.mark.parametrize(
    ("map_in_order", "workers"), [(map_in_threads, 1), (map_in_threads, 2), (map_in_processes, 2)]
)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
REPOSITORY = Path(__file__).parents[2]
LARGE = 20 << 20  # bytes


def double(number: int) -> int:
    return 2 * number


def slower_for_smaller(number: int) -> int:
    time.sleep(0.2 / (number + 1))
    return number


def dying_within_its_result(number: int) -> bytes:
    """A large result, of which the process writes a part before it is killed."""
    if number == 0:
        return b""
    send = Connection._send

    def send_a_part(self: Connection, data: bytes) -> None:
        send(self, data[: LARGE // 2])
        if len(data) > LARGE:
            os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = send_a_part
    return bytes(LARGE)


def process_id(_: object) -> int:
    return os.getpid()


def fail_at_three(number: int) -> int:
    if number == 3:
        raise ValueError(f"no {number} here")
    return number


def die_at_three(number: int) -> int:
    if number == 3:
        os._exit(9)
    return number


def comes_true(check: Callable[[], bool], limit: float = 60) -> bool:
    """Whether `check` comes true before a limit that only a hang reaches."""
    deadline = time.monotonic() + limit
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@POOLS
def test_results_come_in_the_order_of_the_items(map_in_order, workers):
    assert list(map_in_order(slower_for_smaller, range(12), workers)) == list(range(12))


@POOLS
def test_no_items_give_no_results(map_in_order, workers):
    assert list(map_in_order(double, [], workers)) == []


def test_one_thread_is_this_one_and_several_are_others():
    threads = [set(map_in_threads(lambda _: threading.get_ident(), range(8), number)) for number in (1, 2)]
    assert threads[0] == {threading.get_ident()}
    assert threading.get_ident() not in threads[1]


def test_worker_processes_are_others():
    assert os.getpid() not in set(map_in_processes(process_id, range(8), 2))


def is_even(number: int) -> bool:
    return number % 2 == 0


def test_items_that_are_not_chosen_come_as_they_are_in_their_places():
    found = list(map_in_processes(double, range(8), 2, chosen=is_even))
    assert found == [2 * number if is_even(number) else number for number in range(8)]


@POOLS
def test_endless_items_are_taken_only_a_little_ahead_of_the_results(map_in_order, workers):
    numbers = count()
    results = map_in_order(double, numbers, workers)
    assert list(islice(results, 20)) == [2 * i for i in range(20)]
    taken = next(numbers)
    assert taken <= 20 + workers * AHEAD
    results.close()


@pytest.mark.parametrize("map_in_order", [map_in_threads, map_in_processes])
def test_large_items_are_taken_one_after_the_other_and_medium_ones_two_at_a_time(map_in_order):
    for size, ahead in ((2 * AHEAD_SIZE, 1), (AHEAD_SIZE, 2)):
        taken: list[int] = []
        numbers = (taken.append(number) or number for number in range(6))
        with closing(map_in_order(double, numbers, 2, size=lambda _, size=size: size)) as results:
            most = max(len(taken) - position for position, _ in enumerate(results))
        assert most == ahead


@POOLS
def test_an_exception_of_the_function_arrives_as_it_is_after_the_results_before_it(map_in_order, workers):
    results = map_in_order(fail_at_three, range(6), workers)
    assert list(islice(results, 3)) == [0, 1, 2]
    with pytest.raises(ValueError, match="no 3 here"):
        next(results)


def test_no_thread_outlives_a_map_however_it_ends():
    before = threading.active_count()
    assert len(list(map_in_threads(double, range(99), 3))) == 99
    with pytest.raises(ValueError, match="no 3 here"):
        list(map_in_threads(fail_at_three, range(99), 3))
    with closing(map_in_threads(double, count(), 3)) as results:
        assert next(results) == 0
    assert threading.active_count() == before


def test_a_worker_that_dies_is_told_plainly():
    with pytest.raises(SimhbaseError, match="one of 2 worker processes died"):
        list(map_in_processes(die_at_three, range(20), 2))


def test_no_pipe_of_dead_workers_is_closed_twice(monkeypatch):
    """Another file may have its number by then. Without the fix, the executor's thread fails in this test."""

    def close_late_in_threads(connection: Connection) -> None:
        handle = connection._handle
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.5)
        os.close(handle)

    monkeypatch.setattr(Connection, "_close", close_late_in_threads)
    with pytest.raises(SimhbaseError, match="one of 2 worker processes died"):
        list(map_in_processes(die_at_three, range(20), 2))


def test_fewer_than_one_thread_or_process_is_refused():
    with pytest.raises(UsageError, match="threads: must be at least 1, not 0"):
        map_in_threads(double, [1], 0)
    with pytest.raises(UsageError, match="processes: must be at least 1, not 0"):
        map_in_processes(double, [1], 0)


SLEEPERS = """
import os, sys, time
from pathlib import Path
from simhbase.workers import map_in_processes

def sleep(number):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    try:
        list(map_in_processes(sleep, range(100), 2))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def start_sleepers(folder: Path, pids: Path) -> subprocess.Popen[bytes]:
    """A process in a group of its own, like a terminal's job, whose two workers are in long work."""
    script = folder / "sleepers.py"
    script.write_text(SLEEPERS)
    return subprocess.Popen(
        [sys.executable, str(script), str(pids)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


@pytest.fixture
def sleepers(tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    parent = start_sleepers(tmp_path, pids)
    assert comes_true(lambda: len(list(pids.iterdir())) == 2)
    workers = [int(path.name) for path in pids.iterdir()]
    yield parent, workers
    for pid in [parent.pid, *workers]:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    parent.communicate()


@LINUX
def test_ctrl_c_ends_workers_in_the_middle_of_an_item_without_a_word_from_them(sleepers):
    parent, workers = sleepers
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=60)
    assert (parent.returncode, out, err) == (130, b"", b"")
    assert comes_true(lambda: not any(map(alive, workers)))


@LINUX
def test_workers_do_not_outlive_a_killed_parent(sleepers):
    parent, workers = sleepers
    parent.kill()
    assert comes_true(lambda: not any(map(alive, workers)))


@LINUX
@pytest.mark.parametrize("delay", [0.1, 0.2, 0.3, 0.4])
def test_ctrl_c_while_workers_start_is_silent_too(tmp_path, delay):
    parent = start_sleepers(tmp_path, tmp_path)
    assert comes_true(lambda: children(parent.pid) != [])
    time.sleep(delay)
    os.killpg(parent.pid, signal.SIGINT)
    _, err = parent.communicate(timeout=60)
    assert (parent.returncode, err) == (130, b"")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@LINUX
def test_leaving_early_ends_the_workers(tmp_path):
    before = set(children(os.getpid()))
    results = map_in_processes(process_id, count(), 2)
    workers = set(islice(results, 20))
    assert workers & set(children(os.getpid()))
    results.close()
    assert set(children(os.getpid())) - before <= resource_trackers()


def resource_trackers() -> set[int]:
    return {
        child
        for child in children(os.getpid())
        if b"resource_tracker" in Path(f"/proc/{child}/cmdline").read_bytes()
    }


@LINUX
def test_a_worker_that_dies_within_a_large_result_keeps_nobody_waiting():
    script = (
        "from contextlib import closing\n"
        "from simhbase.errors import SimhbaseError\n"
        "from simhbase.workers import map_in_processes\n"
        "from tests.integration.test_parallel import dying_within_its_result\n"
        "if __name__ == '__main__':\n"
        "    with closing(map_in_processes(dying_within_its_result, range(6), 2)) as results:\n"
        "        next(results)\n"
        "        try:\n"
        "            next(results)\n"
        "        except SimhbaseError as error:\n"
        "            print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "one of 2 worker processes died" in done.stdout


def wait_long(item: bytes) -> int:
    if item:
        time.sleep(60)
    return len(item)


def test_leaving_while_a_large_item_is_on_its_way_keeps_nobody_waiting():
    """The pipe to the workers is full, and they end without having read it."""
    items = [b"", *[bytes(1 << 20)] * 5]
    results = map_in_processes(wait_long, items, 2)
    assert next(results) == 0
    thread = threading.Thread(target=results.close, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
