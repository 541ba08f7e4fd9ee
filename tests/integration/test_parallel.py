from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from simhbase.errors import SimhbaseError, UsageError
from simhbase.process.parallel import AHEAD, AHEAD_SIZE, map_in_threads
from simhbase.process.workers import Bounds, map_in_processes

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
REPOSITORY = Path(__file__).parents[2]
LARGE = 20 << 20  # bytes


@dataclass(frozen=True)
class Each:
    """A function of one item as one of chunks."""

    function: Callable[[Any], Any]

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        return [self.function(item) for item in items]


MEMORY = 1 << 28  # bytes


def takes_memory_at_three(number: int) -> int:
    # Far more than the bound: what a process has when it has just started is not the same in each.
    return len(bytearray(4 * MEMORY)) if number == 3 else number


def takes_a_second(number: int) -> int:
    end = time.process_time() + 1
    while time.process_time() < end:
        pass
    return number


def named(item: Any, reason: str) -> str:
    return f"{item}: {reason}"


def in_processes(function, items, workers, size=lambda _: 0, seconds=60.0, chosen=lambda _: True):
    """map_in_processes over chunks of one item each."""
    chunks = ([item] for item in items)
    results = map_in_processes(
        Each(function),
        chunks,
        workers,
        named,
        Bounds(seconds, MEMORY),
        lambda chunk: size(chunk[0]),
        lambda chunk: chosen(chunk[0]),
    )
    with closing(results):
        for chunk in results:
            yield chunk[0]


POOLS = pytest.mark.parametrize(
    ("map_in_order", "workers"), [(map_in_threads, 1), (map_in_threads, 2), (in_processes, 2)]
)


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


def killed_if_even(number: int) -> int:
    if number % 2 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def hang_at_three(number: int) -> int:
    while number == 3:
        pass
    return number


def holds_the_interpreter(number: int) -> int:
    if number:
        re.match("(a*)*b", "a" * 60)  # takes ages, and looks at no signal
    return number


def a_tenth_of_a_second(number: int) -> int:
    start = time.process_time()
    while time.process_time() - start < 0.1:
        pass
    return number


class Unreadable:
    """A function that a worker cannot unpickle."""

    def __call__(self, number: int) -> int:
        return number

    def __reduce__(self):
        return fail_at_three, (3,)


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
    assert os.getpid() not in set(in_processes(process_id, range(8), 2))


def is_even(number: int) -> bool:
    return number % 2 == 0


def test_items_that_are_not_chosen_come_as_they_are_in_their_places():
    found = list(in_processes(double, range(8), 2, chosen=is_even))
    assert found == [2 * number if is_even(number) else number for number in range(8)]


@POOLS
def test_endless_items_are_taken_only_a_little_ahead_of_the_results(map_in_order, workers):
    numbers = count()
    results = map_in_order(double, numbers, workers)
    assert list(islice(results, 20)) == [2 * i for i in range(20)]
    taken = next(numbers)
    assert taken <= 20 + workers * AHEAD
    results.close()


@pytest.mark.parametrize("map_in_order", [map_in_threads, in_processes])
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


def map_chunks(function: Callable[[Any], Any], chunks: Iterable[Sequence[Any]], seconds: float = 60.0):
    with closing(map_in_processes(Each(function), chunks, 2, named, Bounds(seconds, MEMORY))) as results:
        return list(results)


def test_a_larger_item_may_take_more_time():
    bounds = Bounds(0.2, MEMORY, 0.2)
    size = {3: 0, 4: 50 << 20}
    mapped = map_in_processes(
        Each(takes_a_second), [[3, 4, 3]], 1, named, bounds, lambda chunk: sum(size[each] for each in chunk)
    )
    with closing(mapped) as results:
        ((lost, done, last),) = results
    assert (lost, done) == (last, 4)
    assert lost.startswith("3: it took more than 0.2 s of processor time: leave it out")


def test_an_item_whose_process_dies_is_lost_alone_and_the_others_keep_their_order():
    chunks = [list(range(start, start + 5)) for start in range(0, 20, 5)]
    first, *others = map_chunks(die_at_three, chunks)
    assert (first[:3], first[4:], others) == ([0, 1, 2], [4], chunks[1:])
    assert first[3].startswith("3: its process died (exit code 9): the system may lack memory")


def test_each_item_that_kills_its_process_is_lost_and_the_signal_named():
    ((first, *others),) = map_chunks(killed_if_even, [range(6)])
    assert others[0::2] == [1, 3, 5]
    assert first.startswith("0: its process died (SIGKILL)")
    assert [each[:2] for each in others[1::2]] == ["2:", "4:"]


def test_an_item_that_hangs_is_lost_within_bounded_time_and_the_others_go_on():
    start = time.monotonic()
    found = map_chunks(hang_at_three, [range(5), range(5, 10), [3], [11]], seconds=0.5)
    reason = (
        "3: it took more than 0.5 s of processor time: leave it out, or extract its text by another program"
    )
    assert found == [[0, 1, 2, reason, 4], [5, 6, 7, 8, 9], [reason], [11]]
    assert time.monotonic() - start < 30


def test_an_item_that_holds_the_interpreter_in_c_hangs_no_longer():
    assert map_chunks(holds_the_interpreter, [[0, 1, 0]], seconds=0.5)[0][::2] == [0, 0]


def test_an_item_that_takes_too_much_memory_is_lost_alone():
    ((*before, lost, after),) = map_chunks(takes_memory_at_three, [range(5)])
    assert (before, after) == ([0, 1, 2], 4)
    assert lost.startswith("3: it took more than 256 MiB of memory: leave it out")


def test_the_time_of_an_item_is_its_own():
    """Many items take longer than one may."""
    assert map_chunks(a_tenth_of_a_second, [range(12)], seconds=0.6) == [list(range(12))]


@LINUX
def test_a_process_killed_between_chunks_or_within_one_leaves_no_process_behind():
    before = set(children(os.getpid()))
    map_chunks(die_at_three, [[3], [3], [1]])
    assert set(children(os.getpid())) - before <= resource_trackers()


def test_a_process_that_cannot_start_is_told_plainly():
    with pytest.raises(SimhbaseError, match=r"worker process died when it started .*exit code 1.*try again"):
        map_chunks(Unreadable(), [[1]])


def test_fewer_than_one_thread_or_process_is_refused():
    with pytest.raises(UsageError, match="threads: must be at least 1, not 0"):
        list(map_in_threads(double, [1], 0))
    with pytest.raises(UsageError, match="processes: must be at least 1, not 0"):
        list(in_processes(double, [1], 0))


SLEEPERS = """
import os, sys, time
from pathlib import Path
from simhbase.process.workers import Bounds, map_in_processes

def sleep(numbers):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    try:
        list(map_in_processes(sleep, [[number] for number in range(100)], 2, print, Bounds(60, 1 << 30)))
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
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@LINUX
def test_leaving_early_ends_the_workers(tmp_path):
    before = set(children(os.getpid()))
    results = in_processes(process_id, count(), 2)
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


def test_a_worker_that_dies_within_a_large_result_keeps_nobody_waiting():
    nothing, *lost = map_chunks(dying_within_its_result, [[0], [1], [2]])
    assert nothing == [b""]
    assert [each[0][:26] for each in lost] == ["1: its process died (SIGKI", "2: its process died (SIGKI"]


def wait_long(item: bytes) -> int:
    if item:
        time.sleep(60)
    return len(item)


def test_leaving_while_a_large_item_is_on_its_way_keeps_nobody_waiting():
    """The pipe to the workers is full, and they end without having read it."""
    items = [b"", *[bytes(1 << 20)] * 5]
    results = in_processes(wait_long, items, 2)
    assert next(results) == 0
    thread = threading.Thread(target=results.close, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
