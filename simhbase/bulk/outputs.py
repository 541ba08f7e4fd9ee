"""The files that load and dedup write beside their work: --unique, --duplicates, --rejects."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import orjson

from simhbase.bulk.record import Record, Reject
from simhbase.errors import RetryableError, SimhbaseError


class OutputBusy(RetryableError):
    """Another run is writing the file."""

    exit_code = 13


class OutputFile:
    """Lines written to `PATH.part`, which becomes PATH when the `with` block ends well.

    A file under its own name is therefore whole, and the one that was there before stays until then:
    whoever waits for it (a nightly job's next step) never takes half a list for all of it. After an
    interruption or a failure PATH.part stays, with a line for everything that was acknowledged so
    far, as each write is handed to the system before the next batch begins. A second run begins it
    anew: its report is complete by itself, since load and dedup can be repeated. A second run at the
    same time is refused.

    A link stays, and the file that it names is written. What is no plain file (/dev/stdout, a pipe)
    is written to directly.
    Raises SimhbaseError naming the file where it cannot be written, OutputBusy where another run
    writes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = plain_target(path)
        self._written = part_of(self._target) if self._target else path
        with self._failing_clearly():
            self._file = _emptied(self._written) if self._target else path.open("wb")

    def write(self, lines: Iterable[bytes]) -> None:
        """Appends lines, given without their line breaks."""
        with self._failing_clearly():
            self._file.writelines(line + b"\n" for line in lines)
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
            if self._target:
                os.fsync(self._file.fileno())
                self._written.replace(self._target)  # before the lock goes with the open file
            self._file.close()

    @contextmanager
    def _failing_clearly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SimhbaseError(f"cannot write {self._written}: {error.strerror}") from error


def plain_target(path: Path) -> Path | None:
    """The plain file that a path names, through links, whether it exists or not; None for a device
    or a pipe."""
    return Path(os.path.realpath(path)) if path.is_file() or not path.exists() else None


def part_of(path: Path) -> Path:
    """Where a file lies until it is whole."""
    return path.with_name(path.name + ".part")


def _emptied(path: Path) -> BinaryIO:
    """A file that no other run writes, opened without what it held. Raises OutputBusy, OSError."""
    while True:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb")
        try:
            _lock(file, path)
            if _is_still(file, path):
                file.truncate(0)
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError as error:
        raise OutputBusy(
            f"another run is writing {path}: wait for its end, or write to another file"
        ) from error
    except OSError:
        pass  # a file system without locks, as some network ones are: better unlocked than not at all


def _is_still(file: BinaryIO, path: Path) -> bool:
    """Whether a path names an open file; not if a run that ended meanwhile has renamed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def json_line(value: Any) -> bytes:
    """A value as JSON in one line, without its line break.

    Half of a surrogate pair, which UTF-8 cannot hold, is written as its escape: the command line
    stands such ones for bytes that are no UTF-8.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=asdict, separators=(",", ":")).encode()


def unique_line(record: Record, fingerprint_bits: int = 64) -> bytes:
    """A record for --unique: its JSON line if it has one, else a line with its id and its text or
    fingerprint."""
    if record.json is not None:
        return record.json
    if record.fingerprint is not None:
        digits = fingerprint_bits // 4
        return orjson.dumps({"id": record.id, "fingerprint": f"{record.fingerprint:0{digits}x}"})
    return orjson.dumps({"id": record.id, "text": record.text})


def duplicate_line(
    record_id: str,
    duplicate_of: str,
    distance: int,
    similarity: float | None = None,
    group: str | None = None,
) -> bytes:
    """A line for --duplicates; with the similarity where it is known, and the id of a group where there
    are some."""
    line: dict[str, Any] = {"id": record_id, "duplicate_of": duplicate_of, "distance": distance}
    if similarity is not None:
        line["similarity"] = shown_similarity(similarity)
    if group is not None:
        line["group"] = group
    return orjson.dumps(line)


def shown_similarity(value: float) -> float:
    """A similarity in as many digits as mean something."""
    return round(value, 4)


def reject_line(reject: Reject) -> bytes:
    """A line for --rejects."""
    return json_line(reject)
