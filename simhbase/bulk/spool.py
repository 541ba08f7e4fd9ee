"""Lines put aside on disk until it is known which of them are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

from simhbase.errors import SimhbaseError


class Spool:
    """Lines in a file without a name, which is gone with the process.

    It lies in the folder that the output goes to, so that only one place needs the room.
    Raises SimhbaseError naming the folder where it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        with self._failing_clearly():
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what a full disk left unwritten is tried again, and wanted by nobody
            self._file.close()

    def write(self, lines: Iterable[bytes]) -> None:
        """Appends lines, given without their line breaks."""
        with self._failing_clearly():
            self._file.writelines(line + b"\n" for line in lines)
            self._file.flush()

    def lines(self) -> Iterator[bytes]:
        """All of them from the first on, without their line breaks."""
        with self._failing_clearly():
            self._file.seek(0)
        return (line.removesuffix(b"\n") for line in self._file)

    @contextmanager
    def _failing_clearly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SimhbaseError(f"cannot put lines aside in {self._folder}: {error.strerror}") from error
