"""Texts put aside on disk, any of which can be read again."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

from simhbase.errors import SimhbaseError


class Texts:
    """Texts in a file without a name, which is gone with the process; 8 bytes of memory a text.

    Raises SimhbaseError naming the folder where it cannot be written or read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._ends = array("Q", [0])
        try:
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # closed by __exit__
        except OSError as error:
            raise self._failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what a full disk left unwritten is tried again, and wanted by nobody
            self._file.close()

    def add(self, texts: Iterable[str]) -> None:
        """Puts texts behind those that are there."""
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        try:
            self._file.write(b"".join(encoded))
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error
        for text in encoded:
            self._ends.append(self._ends[-1] + len(text))

    def read(self, numbers: Sequence[int]) -> list[str]:
        """The texts of these numbers, which count from 0 in the order they came in."""
        try:
            return [self._read(number) for number in numbers]
        except OSError as error:
            raise self._failure(error) from error

    def _read(self, number: int) -> str:
        start, end = self._ends[number], self._ends[number + 1]
        return os.pread(self._file.fileno(), end - start, start).decode(errors="surrogatepass")

    def _failure(self, error: OSError) -> SimhbaseError:
        return SimhbaseError(f"cannot put texts aside in {self._folder}: {error.strerror}")
