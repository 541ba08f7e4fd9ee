"""Temporary storage on disk for documents until it is known which are needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import SimhbaseError
from simhbase.process.slices import Numbers

IN_MEMORY = 64 << 20  # bytes of rows
_DENSE_BYTES = 16 << 20  # of values that are read at once
_DENSE = 4  # if at least one in 4 rows of a range is wanted, the whole range is read
_MOST_BYTES = 1 << 30  # of one call, which reads at most 2 GiB


class Spool:
    """Byte strings, numbered from 0 in order of arrival, each readable at any time.

    They are in an unlinked file, which disappears with the process. Raises SimhbaseError with the
    folder's name if it cannot be written or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places = SpooledRows(folder, np.empty((0, 2), dtype=np.int64))  # start and size of each
        self._end = 0
        self._file = _file(folder)

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        self._places.close()
        with suppress(OSError):  # closing flushes again, which fails on a full disk
            self._file.close()

    def append(self, values: Iterable[bytes]) -> None:
        values = list(values)
        with _failing_clearly(self._folder):
            self._file.write(b"".join(values))
            self._file.flush()
        sizes = np.array(list(map(len, values)), dtype=np.int64)
        ends = self._end + np.cumsum(sizes)
        self._places.append(np.column_stack([ends - sizes, sizes]))
        self._end += int(sizes.sum())

    def sizes(self, numbers: Numbers) -> NDArray[np.int64]:
        """Sizes in bytes of the values with these numbers: int64 (m,)."""
        return self._places[numbers][:, 1]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        places = self._places[np.array(numbers, dtype=np.int64)]
        if not len(places):
            return []
        first, span = int(places[0, 0]), int(places[-1].sum() - places[0, 0])
        with _failing_clearly(self._folder, self._file):
            # Those that follow each other are read at once.
            if span <= _DENSE_BYTES and bool((places[1:, 0] == places[:-1].sum(axis=1)).all()):
                content = os.pread(self._file.fileno(), span, first)
                return [content[start : start + size] for start, size in (places - [first, 0]).tolist()]
            return [os.pread(self._file.fileno(), size, start) for start, size in places.tolist()]


class SpooledRows:
    """Rows of numbers, which are indexed like an array. The first IN_MEMORY bytes stay in memory; if there
    are more, all are in an unlinked file.

    nothing: an empty array of their dtype and shape. Raises SimhbaseError with the folder's name if it cannot
    be written or read.
    """

    def __init__(self, folder: Path, nothing: NDArray[Any]) -> None:
        self._folder = folder
        self._nothing = nothing
        self._row_bytes = nothing.itemsize * prod(nothing.shape[1:])
        self._count = 0
        self._held = [nothing]
        self._file: BinaryIO | None = None

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        if self._file:
            with suppress(OSError):  # as above
                self._file.close()

    def append(self, rows: NDArray[Any]) -> None:
        self._count += len(rows)
        self._held.append(rows)
        if self._file or self._count * self._row_bytes > IN_MEMORY:
            self._file = self._file or _file(self._folder)
            with _failing_clearly(self._folder):
                self._file.writelines(each.tobytes() for each in self._held)
            self._held = [self._nothing]

    def __getitem__(self, numbers: Numbers) -> NDArray[Any]:
        """The rows at m positions: (m, ...)."""
        if not self._file:
            if self._held[1:]:
                self._held = [np.concatenate(self._held)]
            return self._held[0][numbers]
        if not len(numbers):
            return self._nothing
        with _failing_clearly(self._folder, self._file):
            self._file.flush()
            first, last = int(numbers.min()), int(numbers.max())
            if last - first < min(_DENSE * len(numbers), _MOST_BYTES // max(self._row_bytes, 1)):
                return self._read(first, last + 1)[numbers - first]
            size, file = self._row_bytes, self._file.fileno()
            starts = (numbers.astype(np.int64) * size).tolist()
            return self._array(b"".join([os.pread(file, size, start) for start in starts]))

    def _read(self, first: int, end: int) -> NDArray[Any]:
        assert self._file is not None
        size = self._row_bytes
        return self._array(os.pread(self._file.fileno(), (end - first) * size, first * size))

    def _array(self, rows: bytes) -> NDArray[Any]:
        return np.frombuffer(rows, self._nothing.dtype).reshape(-1, *self._nothing.shape[1:])


def _file(folder: Path) -> BinaryIO:
    with _failing_clearly(folder):
        return cast(BinaryIO, TemporaryFile(dir=folder))


@contextmanager
def _failing_clearly(folder: Path, file: BinaryIO | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SimhbaseError(f"cannot spool documents to {folder.resolve()}: {error.strerror}") from error
    except ValueError as error:
        if file is None or not file.closed:
            raise
        raise SimhbaseError("this result was closed: use it before close(), or within its 'with'") from error
