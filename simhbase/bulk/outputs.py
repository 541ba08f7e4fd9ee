"""The files that load and dedup write beside their work: --unique, --duplicates, --rejects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import orjson

from simhbase.bulk.record import Record, Reject
from simhbase.errors import SimhbaseError


class OutputFile:
    """Lines written to `PATH.part`, which becomes PATH when the `with` block ends well.

    A file under its own name is therefore whole, and the one that was there before stays until then:
    whoever waits for it (a nightly job's next step) never takes half a list for all of it. After an
    interruption or a failure PATH.part stays, with a line for everything that was acknowledged so
    far, as each write is handed to the system before the next batch begins. A second run begins it
    anew: its report is complete by itself, since load and dedup can be repeated.

    What is no plain file (/dev/stdout, a pipe) is written to directly.
    Raises SimhbaseError naming the file where it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_plain = path.is_file() or not path.exists()
        self._written = path.with_name(path.name + ".part") if self._is_plain else path
        with self._failing_clearly():
            self._file = self._written.open("wb")

    def write(self, lines: Iterable[bytes]) -> None:
        """Appends lines, given without their line breaks."""
        data = b"".join(line + b"\n" for line in lines)
        with self._failing_clearly():
            self._file.write(data)
            self._file.flush()

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(OSError):  # a full disk would otherwise hide what happened first
                self._file.close()
            return
        with self._failing_clearly():
            if self._is_plain:
                os.fsync(self._file.fileno())
            self._file.close()
            if self._is_plain:
                self._written.replace(self.path)

    @contextmanager
    def _failing_clearly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SimhbaseError(f"cannot write {self._written}: {error.strerror}") from error


def unique_line(record: Record, fingerprint_bits: int = 64) -> bytes:
    """A record for --unique: its JSON line as it was, in other formats a line with the same fields."""
    if record.json is not None:
        return record.json
    if record.fingerprint is not None:
        digits = fingerprint_bits // 4
        return orjson.dumps({"id": record.id, "fingerprint": f"{record.fingerprint:0{digits}x}"})
    return orjson.dumps({"id": record.id, "text": record.text})


def duplicate_line(record_id: str, duplicate_of: str, distance: int) -> bytes:
    """A line for --duplicates."""
    return orjson.dumps({"id": record_id, "duplicate_of": duplicate_of, "distance": distance})


def reject_line(reject: Reject) -> bytes:
    """A line for --rejects."""
    return orjson.dumps(reject)
