"""The files that load and dedup write beside their work: unique documents, duplicates, rejects."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import orjson
from zstandard import COMPRESSOBJ_FLUSH_BLOCK, COMPRESSOBJ_FLUSH_FINISH, ZstdCompressor

from simhbase.corpus.record import Record, Reject
from simhbase.errors import BadInput, OutputFailed, RetryableError

STANDARD_OUTPUT = Path("-")


class OutputBusy(RetryableError):
    exit_code = 13


class PartDiffers(BadInput):
    """What a stopped run left of a file is not there any more."""


class KeptBeginning(NamedTuple):
    """The beginning of an unfinished file that counts: its bytes, and their CRC-32."""

    size: int
    crc: int


NOTHING = KeptBeginning(0, 0)


def rename(path: Path, target: Path) -> None:
    """Gives a file another name, durably. Raises OSError."""
    path.replace(target)
    _sync_folder(target)


@dataclass(frozen=True)
class Form:
    """What a file holds of the lines that it is given.

    rows: makes lines of them; finish: gives what was written a name, or makes of it what has that name: the
    unfinished file, the name, and what the first holds.
    """

    rows: Callable[[Iterable[bytes]], Iterable[bytes]]
    finish: Callable[[Path, Path, KeptBeginning], None] = lambda written, target, kept: rename(
        written, target
    )


LINES = Form(lambda lines: lines)


class OutputFile:
    """Lines written to `PATH.part`, which becomes PATH when the `with` block ends well.

    A file under its own name is therefore whole, and the one that was there before stays until then:
    whoever waits for it (a nightly job's next step) never takes half a list for all of it. After an
    interruption or a failure PATH.part stays where it has lines, and `keep_partial` says that they are
    wanted: one for everything that was acknowledged so far, as each write is handed to the system before
    the next batch begins. A second run begins it anew, as its report is complete by itself; one that goes on
    where the first stopped keeps what that one had by its last `checkpoint`. A second run at the same time is
    refused.

    What is written to a name that ends in .gz or .zst is compressed. "-" is standard output. A link stays,
    and the file that it names is written. What is no plain file (a pipe, a device) is written to directly.
    keep: what to keep of an unfinished file; form: what becomes of the lines.
    Raises OutputFailed naming the file where it cannot be written, OutputBusy where another run writes it,
    PartDiffers where something else is there than is to be kept, BrokenPipeError where nobody reads a pipe
    any more.
    """

    def __init__(
        self, path: Path, *, keep_partial: bool = True, keep: KeptBeginning = NOTHING, form: Form = LINES
    ) -> None:
        self.path = path
        self._form = form
        self._keep_partial = keep_partial
        self._has_lines = False
        self._kept = keep
        self._size, self._crc = keep
        self._is_between_members = keep.size > 0
        self._abandoned = False
        with _failing_clearly(path):
            self._target = plain_target(path)
        self._written = part_of(self._target) if self._target else path
        self._compressor = _compressor(path)
        with self._failing_clearly():
            self._file = cut(self._written, keep) if self._target else _opened(path)

    def write(self, lines: Iterable[bytes]) -> None:
        """Appends lines, given without their line breaks."""
        with self._failing_clearly():
            for line in self._form.rows(lines):
                self._has_lines = True
                self._is_between_members = False
                self._put(self._compressor.compress(line + b"\n"))
            if not self._is_between_members:
                self._put(self._compressor.flush_block())
            self._file.flush()

    def checkpoint(self) -> KeptBeginning:
        """Makes durable what was written so far; what to `keep` to go on from here. What is compressed ends a
        member (or frame), as nobody can go on within one."""
        with self._failing_clearly():
            self._end_member()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._kept = KeptBeginning(self._size, self._crc)
            return self._kept

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._size += len(data)
        self._crc = zlib.crc32(data, self._crc)

    def _end_member(self) -> None:
        """Ends what is compressed so far. A file without lines is one empty member."""
        if not self._is_between_members:
            self._put(self._compressor.finish())
            self._compressor = _compressor(self.path)
            self._is_between_members = True

    def abandon(self) -> None:
        """Leaves the file that was there before, also when the `with` block ends well."""
        self._abandoned = True

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._abandoned:
            with suppress(OSError):  # a full disk would otherwise hide what happened first
                wanted = self._kept.size or (self._has_lines and self._keep_partial)
                if self._target and (self._abandoned or not wanted):
                    self._written.unlink()
            with suppress(OSError):
                self._close()
            return
        with self._failing_clearly():
            try:
                self._end_member()
                self._file.flush()
                if self._target:
                    os.fsync(self._file.fileno())
                    # Before the lock goes with the open file.
                    self._form.finish(self._written, self._target, KeptBeginning(self._size, self._crc))
            finally:
                self._close()

    def _close(self) -> None:
        if self.path != STANDARD_OUTPUT:
            self._file.close()

    def _failing_clearly(self) -> AbstractContextManager[None]:
        return _failing_clearly(self._written)


@contextmanager
def _failing_clearly(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "standard output" if path == STANDARD_OUTPUT else path
        raise OutputFailed(f"cannot write {name}: {error.strerror}") from error


def _opened(path: Path) -> BinaryIO:
    return sys.stdout.buffer if path == STANDARD_OUTPUT else path.open("wb")


class _Compressor:
    def compress(self, data: bytes) -> bytes:
        """What of the data can be written now."""
        return data

    def flush_block(self) -> bytes:
        """The rest of what came so far, that a reader may have it."""
        return b""

    def finish(self) -> bytes:
        return b""


class _Gzip(_Compressor):
    def __init__(self) -> None:
        self._compressor = zlib.compressobj(wbits=31)

    def compress(self, data: bytes) -> bytes:
        return self._compressor.compress(data)

    def flush_block(self) -> bytes:
        return self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._compressor.flush()


class _Zstd(_Compressor):
    def __init__(self) -> None:
        self._compressor = ZstdCompressor(write_checksum=True).compressobj()

    def compress(self, data: bytes) -> bytes:
        return self._compressor.compress(data)

    def flush_block(self) -> bytes:
        return self._compressor.flush(COMPRESSOBJ_FLUSH_BLOCK)

    def finish(self) -> bytes:
        return self._compressor.flush(COMPRESSOBJ_FLUSH_FINISH)


def _compressor(path: Path) -> _Compressor:
    match path.suffix.lower():
        case ".gz":
            return _Gzip()
        case ".zst":
            return _Zstd()
        case _:
            return _Compressor()


def plain_target(path: Path) -> Path | None:
    """The plain file that a path names, through links, whether it exists or not; None for a device,
    a pipe or standard output. Raises OSError where nobody may look."""
    if path == STANDARD_OUTPUT:
        return None
    return Path(os.path.realpath(path)) if path.is_file() or not path.exists() else None


def is_finished(path: Path, kept: KeptBeginning) -> bool:
    """Whether a file of which all was kept has its own name. Raises OutputFailed."""
    with _failing_clearly(path):
        target = plain_target(path)
        return target is None or (target.exists() and _is_whole(target, kept))


def _is_whole(path: Path, kept: KeptBeginning) -> bool:
    with path.open("rb") as file:
        return path.stat().st_size == kept.size and _begins_with(file, kept)


def _begins_with(file: BinaryIO, kept: KeptBeginning) -> bool:
    left, crc = kept.size, 0
    while left and (block := file.read(min(left, 1 << 20))):
        left -= len(block)
        crc = zlib.crc32(block, crc)
    return (left, crc) == (0, kept.crc)


def _sync_folder(path: Path) -> None:
    """Makes durable that a file has its name."""
    with suppress(OSError):  # of a file system that has nothing to sync
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def part_of(path: Path) -> Path:
    """Where a file lies until it is whole."""
    return path.with_name(path.name + ".part")


def made_of(path: Path) -> Path:
    """Where a file lies while it is made of what is at `part_of(path)`."""
    return path.with_name(path.name + ".made")


def cut(path: Path, keep: KeptBeginning) -> BinaryIO:
    """A file that no other run writes, opened behind what is to be kept of it, and cut there. Raises
    OutputBusy, PartDiffers, OSError."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            _lock(file, path)
            if _is_still(file, path):
                if not _begins_with(file, keep):
                    raise PartDiffers(f"{path}, which the stopped run has left, was removed or changed")
                file.truncate(keep.size)
                file.seek(keep.size)
                _sync_folder(path)
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


def parsed_line(line: bytes) -> dict[str, Any]:
    """A JSON object with its numbers as they are written. Raises BadInput for one that is nested more deeply
    than Python reads."""
    try:
        found: dict[str, Any] = json.loads(line)
    except RecursionError as error:
        raise BadInput(
            f"a document's fields are nested too deeply for a cell: {line[:80].decode(errors='replace')} ... "
            "A file of JSON lines (.jsonl) takes them"
        ) from error
    return found


def cell(value: Any) -> str:
    """A value of JSON, which is not null, in a table: a text as it is, else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def unique_line(record: Record, fingerprint_bits: int = 64) -> bytes:
    """A line of a list of unique documents: the record's JSON line if it has one (rows of tables have, where
    they were read whole), else one with its id and its text or fingerprint."""
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
    """A line of a list of duplicates; with the similarity where it is known, and the id of a group where
    there are some."""
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
    """A line of a list of rejects."""
    return json_line({name: getattr(reject, name) for name in ("source", "line", "id", "reason")})
