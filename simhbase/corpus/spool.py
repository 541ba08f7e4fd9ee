"""What is put aside on disk until it is known which of it is wanted."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import SimhbaseError


class Spool:
    """Byte strings, numbered from 0 in the order they came in, of which any can be read again.

    They lie in a file without a name, which is gone with the process; each takes 8 bytes of memory.
    Raises SimhbaseError naming the folder where it cannot be written or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._ends = array("Q", [0])
        with self._failing_clearly():
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # closed by __exit__

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what a full disk left unwritten is tried again, and wanted by nobody
            self._file.close()

    def put_aside(self, values: Iterable[bytes]) -> None:
        """Puts more behind those that are there."""
        values = list(values)
        with self._failing_clearly():
            self._file.write(b"".join(values))
            self._file.flush()
        for value in values:
            self._ends.append(self._ends[-1] + len(value))

    def sizes(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many bytes those of these numbers have: int64 (m,)."""
        ends = np.frombuffer(self._ends, dtype=np.int64)
        return ends[numbers + 1] - ends[numbers]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        with self._failing_clearly():
            return [self._read(number) for number in numbers]

    def _read(self, number: int) -> bytes:
        start, end = self._ends[number], self._ends[number + 1]
        return os.pread(self._file.fileno(), end - start, start)

    @contextmanager
    def _failing_clearly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SimhbaseError(f"cannot put documents aside in {self._folder}: {error.strerror}") from error
