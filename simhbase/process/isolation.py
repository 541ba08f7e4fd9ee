"""Reads files in a process with limits of time and memory, for libraries that have none: pyarrow.

The process opens nothing: it asks this one for each part of a file. So it reads whatever this one can open.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from io import SEEK_CUR, SEEK_END, SEEK_SET, BytesIO, RawIOBase
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeVar

from simhbase.errors import SimhbaseError
from simhbase.process.workers import (
    MIB,
    Bounds,
    Raised,
    Worker,
    end_for_memory,
    limit_memory,
    limited_time,
    started,
)

Answer = TypeVar("Answer")

_PART = 8 << 20  # bytes of a file that are handed over at once


class LimitExceeded(SimhbaseError):
    """The process took more than its bounds, or died otherwise, as libraries do that lack memory."""

    def __init__(self, reason: str, *, is_of_time: bool) -> None:
        super().__init__(reason)
        self.is_of_time = is_of_time


class IsolatedReader:
    """A process that calls functions with a file, one call at a time. It starts with the first call.

    prepare: what it does once, before its memory is limited, such as imports.
    """

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._worker: Worker | None = None

    def answers(
        self,
        function: Callable[..., Iterable[Answer]],
        file: RawIOBase | BytesIO,
        *arguments: object,
        bounds: Bounds,
    ) -> Generator[Answer, None, None]:
        """What function(file, *arguments) gives, called in the process. file: seekable. bounds: of the call.

        function, arguments and answers must be picklable. Exceptions of the function are re-raised. Raises
        LimitExceeded where the process exceeds the bounds or dies; a new one serves the next call.
        """
        size = file.seek(0, SEEK_END)
        seconds = round(bounds.seconds + bounds.seconds_per_mib * size / MIB, 1)
        worker, answer = self._running(), None
        try:
            worker.pipe.send(_Call(function, size, arguments, seconds, bounds.memory))
            while not isinstance(answer := worker.pipe.recv(), (_End, Raised)):
                if isinstance(answer, _Wanted):
                    worker.pipe.send(_read(file, answer))
                else:
                    yield answer
        except (EOFError, OSError) as error:
            worker.process.kill()  # without effect on one that has ended
            worker.join()
            taken = worker.exceeded(seconds, bounds.memory)
            reason = f"it takes more than {taken}" if taken else worker.how_it_died()
            raise LimitExceeded(reason, is_of_time=worker.is_out_of_time) from error
        finally:
            if not isinstance(answer, (_End, Raised)):  # it is at work, or dead
                self.close()
        if isinstance(answer, Raised):
            raise answer.error

    def close(self) -> None:
        """Stop the process. A further call starts another one."""
        if self._worker is not None:
            self._worker.process.kill()
            self._worker.join()
            self._worker = None

    def _running(self) -> Worker:
        if self._worker is None:
            self._worker = started(_serve, self._prepare)
            if not self._worker.is_ready():
                worker, self._worker = self._worker, None
                worker.join()
                raise SimhbaseError(
                    f"reading tables in a process of their own failed: {worker.how_it_died()} when it "
                    "started. The system may lack memory"
                )
        return self._worker


class _Call(NamedTuple):
    function: Callable[..., Iterable[Any]]
    size: int
    arguments: tuple[Any, ...]
    seconds: float
    memory: int


class _Wanted(NamedTuple):
    """A part of the file that the process asks for."""

    begin: int
    size: int


class _End(NamedTuple):
    """All answers of a call were given."""


def _read(file: RawIOBase | BytesIO, wanted: _Wanted) -> bytes | Raised:
    try:
        file.seek(wanted.begin)
        return file.read(wanted.size) or b""
    except OSError as error:  # as of a server; without what cannot be handed over
        return Raised(OSError(error.errno, error.strerror) if error.strerror else OSError(str(error)))


class _ServedFile(RawIOBase):
    """The file of a call, as the process sees it."""

    def __init__(self, pipe: Connection, size: int) -> None:
        self._pipe, self._size, self._place = pipe, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        self._place = offset + {SEEK_SET: 0, SEEK_CUR: self._place, SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1, /) -> bytes:
        """Sizes in damaged files may be larger than memory, which Python takes before it reads."""
        end = self._size if size < 0 else min(self._place + size, self._size)
        parts = list[bytes]()
        while self._place < end:
            self._pipe.send(_Wanted(self._place, min(end - self._place, _PART)))
            data = self._pipe.recv()
            if isinstance(data, Raised):
                raise data.error
            if not data:  # it has become shorter
                break
            self._place += len(data)
            parts.append(data)
        return b"".join(parts)


def _serve(pipe: Connection, prepare: Callable[[], None]) -> None:
    prepare()
    pipe.send(True)  # has started
    while True:
        call: _Call = pipe.recv()
        try:
            with limited_time(call.seconds):
                limit_memory(call.memory)
                for answer in call.function(_ServedFile(pipe, call.size), *call.arguments):
                    pipe.send(answer)
            pipe.send(_End())
        except MemoryError:
            end_for_memory()
        except Exception as error:
            pipe.send(Raised(error))
