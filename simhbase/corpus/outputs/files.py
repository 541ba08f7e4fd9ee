"""Output files of load and dedup: unique documents, duplicates, rejects. Before a file with content is
replaced, a command asks (`files_in_place`, cli/consent.py)."""

from __future__ import annotations

import json
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from errno import EEXIST
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import orjson
from zstandard import COMPRESSOBJ_FLUSH_BLOCK, COMPRESSOBJ_FLUSH_FINISH, ZstdCompressor

from simhbase.corpus.fields import exact_json_value, has_field, json_value
from simhbase.corpus.record import Record, Reject
from simhbase.errors import BadInput, OutputFailed, RetryableError
from simhbase.model.urls import redacted
from simhbase.process.plain_files import STANDARD_OUTPUT, plain_target


class OutputBusy(RetryableError):
    exit_code = 13


class PartDiffers(BadInput):
    """The unfinished file of an interrupted run has changed."""


class KeptBeginning(NamedTuple):
    """The valid beginning of an unfinished file: its size in bytes, and their CRC-32."""

    size: int
    crc: int


NOTHING = KeptBeginning(0, 0)


def rename(path: Path, target: Path) -> None:
    """Rename a file durably. Raises OSError."""
    path.replace(target)
    _sync_folder(target)


@dataclass(frozen=True)
class Form:
    """Format of an output file.

    rows: converts lines to the lines to write; finish: turns the unfinished file into the final one, given
    the unfinished file (open, as others may put a link in its place), the final name, and the valid
    beginning; None to rename it.
    """

    rows: Callable[[Iterable[bytes]], Iterable[bytes]]
    finish: Callable[[BinaryIO, Path, KeptBeginning], None] | None = None


LINES = Form(iter)


class OutputFile(AbstractContextManager["OutputFile"]):
    """Lines written to `PATH.part`, which is renamed to PATH when the `with` block ends without error.

    So a file with its final name is complete, and an existing file is replaced only then: a program that
    waits for it never reads part of it. After an error or interruption PATH.part is kept if it has lines and
    `keep_partial` is set; it contains all acknowledged lines, because each write is handed to the system
    before the next batch starts. A new run starts it over, while a resumed run keeps the part before its last
    `checkpoint`. Two runs at the same time are refused.

    Names ending in .gz or .zst are compressed. "-" is standard output. Symbolic links are kept, and their
    target is written. Pipes and devices are written directly. keep: the part of an unfinished file to keep;
    form: the format. Raises OutputFailed with the file's name if it cannot be written, OutputBusy if another
    run writes it, PartDiffers if the part to keep has changed, BrokenPipeError if the reader of a pipe has
    exited.
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
        with _failing_clearly(self._written):
            if self._target:
                self._file = cut(self._written, keep)
            else:
                self._file = sys.stdout.buffer if path == STANDARD_OUTPUT else path.open("wb")

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines, given without line breaks."""
        with _failing_clearly(self._written):
            for line in self._form.rows(lines):
                self._has_lines = True
                self._is_between_members = False
                packed = self._compressor
                self._put(packed.stream.compress(line + b"\n") if packed else line + b"\n")
            if self._compressor and not self._is_between_members:
                self._put(self._compressor.stream.flush(self._compressor.block))
            self._file.flush()

    def checkpoint(self) -> KeptBeginning:
        """Make the lines written so far durable; returns what to `keep` to resume here. Ends a compressed
        member (or frame), as none can be continued."""
        with _failing_clearly(self._written):
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
        """Ends the compressed member. A file without lines has one empty member."""
        if self._compressor and not self._is_between_members:
            self._put(self._compressor.stream.flush(self._compressor.end))
            self._compressor = _compressor(self.path)
            self._is_between_members = True

    def abandon(self) -> None:
        """Keep the existing file, even if the `with` block ends without error."""
        self._abandoned = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or self._abandoned:
            with suppress(OSError):  # a full disk would hide the first error
                wanted = self._kept.size or (self._has_lines and self._keep_partial)
                if self._target and (self._abandoned or not wanted):
                    self._written.unlink()
            with suppress(OSError):
                self._close()
            return
        with _failing_clearly(self._written):
            try:
                self._end_member()
                self._file.flush()
                if self._target:
                    os.fsync(self._file.fileno())
                    # Before closing the file releases the lock.
                    if self._form.finish:
                        self._form.finish(self._file, self._target, KeptBeginning(self._size, self._crc))
                    else:
                        rename(self._written, self._target)
            finally:
                self._close()

    def _close(self) -> None:
        if self.path != STANDARD_OUTPUT:
            self._file.close()


@contextmanager
def _failing_clearly(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = "standard output" if path == STANDARD_OUTPUT else redacted(str(path))
        raise OutputFailed(f"cannot write {name}: {error.strerror}") from error


@dataclass(frozen=True)
class _Compressor:
    """A stream of zlib or zstandard, and how it is flushed: so that readers can decompress everything so far,
    and at the end of a member."""

    stream: Any
    block: int
    end: int


def _compressor(path: Path) -> _Compressor | None:
    """The compressor of a file, None for one that is not compressed."""
    match path.suffix.lower():
        case ".gz":
            return _Compressor(zlib.compressobj(wbits=31), zlib.Z_SYNC_FLUSH, zlib.Z_FINISH)
        case ".zst":
            stream = ZstdCompressor(write_checksum=True).compressobj()
            return _Compressor(stream, COMPRESSOBJ_FLUSH_BLOCK, COMPRESSOBJ_FLUSH_FINISH)
        case _:
            return None


def files_in_place(paths: Iterable[str | Path | None]) -> Iterator[Path]:
    """Existing regular files with content, which writing these paths replaces. Raises OutputFailed."""
    for path in (Path(each) for each in paths if each):
        with _failing_clearly(path):
            if (target := plain_target(path)) and target.exists() and target.stat().st_size:
                yield path


def is_finished(path: Path, kept: KeptBeginning) -> bool:
    """True if a completely written file has its final name. Raises OutputFailed."""
    with _failing_clearly(path):
        target = plain_target(path)
        if target is None:
            return True
        if not target.exists() or target.stat().st_size != kept.size:
            return False
        with target.open("rb") as file:
            return _begins_with(file, kept)


def _begins_with(file: BinaryIO, kept: KeptBeginning) -> bool:
    left, crc = kept.size, 0
    while left and (block := file.read(min(left, 1 << 20))):
        left -= len(block)
        crc = zlib.crc32(block, crc)
    return (left, crc) == (0, kept.crc)


def _sync_folder(path: Path) -> None:
    """Make the file's name durable."""
    with suppress(OSError):  # not supported by the file system
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def part_of(path: Path) -> Path:
    """Path of the unfinished file."""
    return path.with_name(path.name + ".part")


def made_of(path: Path) -> Path:
    """Path of a file that is being created from the one at `part_of(path)`."""
    return path.with_name(path.name + ".made")


def cut(path: Path, keep: KeptBeginning) -> BinaryIO:
    """Lock and open a file, truncated to the part to keep. Raises OutputBusy, PartDiffers, OSError."""
    how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW  # others may put a link into a folder that they can write to
    while True:
        try:
            opened, is_new = os.open(path, how | os.O_EXCL, 0o666), True
        except FileExistsError:
            opened, is_new = os.open(path, how, 0o666), False
        try:
            if not is_new:
                _require_own(opened, path)
            file = os.fdopen(opened, "r+b")
        except BaseException:
            os.close(opened)
            raise
        try:
            _lock(file, path)
            if _is_still(file, path):
                if keep.size and not _begins_with(file, keep):
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
            f"another run is writing {path}: wait for it to end, or write to another file"
        ) from error
    except OSError:
        pass  # some network file systems have no locks


def _is_still(file: BinaryIO, path: Path) -> bool:
    """True if a path leads to an open file; false if another run has renamed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _require_own(file: int, path: Path) -> None:
    """Raise OSError for a file that another user may have prepared, to get what is written or to choose
    where. The owner of the folder may do so anyway."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise OSError(EEXIST, "it exists, and is no plain file of one name: remove it")
    if status.st_uid not in (os.geteuid(), path.parent.stat().st_uid):
        raise OSError(EEXIST, "it exists, and belongs to another user: write to another folder")


def json_line(value: Any) -> bytes:
    """A value as one line of JSON, without line break.

    Lone surrogates are escaped: in command line arguments they represent bytes that are not UTF-8.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, default=asdict, separators=(",", ":")).encode()


def parsed_line(line: bytes) -> dict[str, Any]:
    """Parse a JSON object, keeping numbers as written. Raises BadInput if it is too deeply nested for
    Python."""
    try:
        found: dict[str, Any] = exact_json_value(line)
    except RecursionError as error:
        raise BadInput(
            f"a document is nested too deeply for a table: {line[:80].decode(errors='replace')} ... "
            "Write JSON lines (.jsonl) instead"
        ) from error
    return found


def cell(value: Any) -> str:
    """A JSON value (not null) as a table cell: strings as they are, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def unique_line(record: Record, fingerprint_bits: int = 64) -> bytes:
    """A line of a list of unique documents: the record's own JSON line if it has one (or the whole row of a
    table), otherwise one with its id and its text or fingerprint."""
    if record.json is not None:
        return record.json
    if record.fingerprint is not None:
        digits = fingerprint_bits // 4
        return orjson.dumps({"id": record.id, "fingerprint": f"{record.fingerprint:0{digits}x}"})
    return orjson.dumps({"id": record.id, "text": record.text})


def require_new_field(record: Record, line: bytes, name: str, parameter: str) -> None:
    """Raise BadInput if a line of a list of unique documents has a field, which is to be added. parameter:
    that names it."""
    if has_field(json_value(line), name):
        raise BadInput(
            f"line {record.line} of {record.source} has a field {name!r} already: name another one",
            parameter=parameter,
        )


def counted_line(line: bytes, name: str, count: int) -> bytes:
    """A JSON object with one more field; all others stay as they are written."""
    return b"%b,%b:%d}" % (line[:-1], orjson.dumps(name), count)


class Duplicate(NamedTuple):
    """A removed document, and the one that is kept. containment: of its text in the kept one. source, line:
    where the removed one is, as in Record; kept_source, kept_line: where the kept one is. None: unknown."""

    id: str
    duplicate_of: str
    distance: int
    similarity: float | None = None
    containment: float | None = None
    group: str | None = None
    source: str | None = None
    line: int | None = None
    kept_source: str | None = None
    kept_line: int | None = None


def duplicate_line(duplicate: Duplicate, more: dict[str, Any] | None = None) -> bytes:
    """A line of a list of duplicates: what is known, and more."""
    known = {name: value for name, value in duplicate._asdict().items() if value is not None}
    if duplicate.similarity is not None:
        known["similarity"] = shown_similarity(duplicate.similarity)
    if duplicate.containment is not None:
        known["containment"] = int(10_000 * duplicate.containment) / 10_000  # 1 is all of the text
    return json_line(known | (more or {}))


def shown_similarity(value: float) -> float:
    """A similarity rounded to significant digits."""
    return round(value, 4)


def reject_line(reject: Reject) -> bytes:
    return json_line({name: getattr(reject, name) for name in ("source", "line", "id", "reason")})
