"""Functions that read a file in a process with limits."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import pytest

from simhbase.process.isolation import IsolatedReader, LimitExceeded
from simhbase.process.workers import Bounds, started

BOUNDS = Bounds(10, 200 << 20)
CONTENT = bytes(range(256)) * 100_000


def prepare() -> None:
    """Nothing is imported."""


@pytest.fixture(name="reader")
def _reader() -> Iterator[IsolatedReader]:
    with closing(IsolatedReader(prepare)) as reader:
        yield reader


def parts_of(file: Any, size: int) -> Iterator[bytes]:
    while part := file.read(size):
        yield part


def places_of(file: Any, *places: int) -> Iterator[tuple[int, bytes]]:
    for place in places:
        yield file.seek(place), file.read(3)


def dies(file: Any, how: str) -> Iterator[Any]:
    yield file.read(1)
    match how:
        case "memory":
            yield len(bytearray(1 << 30))
        case "time":
            yield sum(count())
        case "crash":
            os.abort()


def raises(file: Any) -> Iterator[bytes]:
    yield file.read(1)
    raise ValueError("this is no such file")


def told(file: Any) -> Iterator[str]:
    try:
        file.read(1)
    except OSError as error:
        yield f"{error.errno} {error.strerror}"


def process(_file: Any) -> Iterator[int]:
    yield os.getpid()


def never_ends(_file: Any) -> Iterator[int]:
    yield os.getpid()
    yield from count()


@pytest.mark.parametrize("size", [7_000_001, -1])
def test_a_file_is_read_there_as_here(reader, size):
    file = io.BytesIO(CONTENT)
    assert b"".join(reader.answers(parts_of, file, size, bounds=BOUNDS)) == CONTENT
    end = len(CONTENT)
    found = [*reader.answers(places_of, file, 5, end - 2, end, end + 9, bounds=BOUNDS)]
    assert found == [(5, b"\5\6\7"), (end - 2, b"\xfe\xff"), (end, b""), (end + 9, b"")]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("memory", "it takes more than 200 MiB of memory"),
        ("time", "it takes more than 0.5 s of processor time"),
        ("crash", r"its process died \(SIGABRT\)"),
    ],
)
def test_what_exceeds_its_bounds_or_crashes_ends_alone(reader, how, said):
    file = io.BytesIO(CONTENT)
    answers = reader.answers(dies, file, how, bounds=Bounds(0.5, 200 << 20))
    assert next(answers) == b"\0"
    with pytest.raises(LimitExceeded, match=said) as raised:
        next(answers)
    assert raised.value.is_of_time == (how == "time")
    assert [*reader.answers(places_of, file, 5, bounds=BOUNDS)] == [(5, b"\5\6\7")]


def test_time_is_given_by_the_size_of_a_file(reader):
    with pytest.raises(LimitExceeded, match="more than 1 s of"):
        list(reader.answers(dies, io.BytesIO(bytes(2 << 20)), "time", bounds=Bounds(0.2, 200 << 20, 0.4)))


def test_errors_are_raised_here_and_the_process_goes_on(reader):
    file = io.BytesIO(CONTENT)
    (before,) = reader.answers(process, file, bounds=BOUNDS)
    with pytest.raises(ValueError, match="this is no such file"):
        list(reader.answers(raises, file, bounds=BOUNDS))
    assert [*reader.answers(process, file, bounds=BOUNDS)] == [before]


def test_errors_of_the_file_are_raised_there(reader):
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "the server is gone")

    assert [*reader.answers(told, Broken(CONTENT), bounds=BOUNDS)] == ["5 the server is gone"]


def test_what_nobody_waits_for_is_stopped(reader):
    answers = reader.answers(never_ends, io.BytesIO(CONTENT), bounds=BOUNDS)
    number = next(answers)
    answers.close()
    with pytest.raises(ProcessLookupError):  # it was waited for, too
        os.kill(number, 0)


def read_far() -> list[bytes]:
    with closing(IsolatedReader(prepare)) as reader:
        return list(reader.answers(parts_of, io.BytesIO(b"abc"), 2, bounds=BOUNDS))


def test_a_process_of_a_pool_may_start_one() -> None:
    """multiprocessing lets no daemonic process start others, as they might be left behind."""
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(read_far) == [b"ab", b"c"]


def waits(pipe: Connection) -> None:
    pipe.send(True)
    pipe.recv()


def test_a_process_whose_parent_has_ended_says_nothing():
    worker = started(waits)
    assert worker.is_ready()
    worker.pipe.close()
    worker.process.join()
    assert worker.process.exitcode == 0  # after an exception it would be 1
