"""Output folders of a job, and its report: all get their final names at the end, or none does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from pyspark.sql import SparkSession

from simhbase.errors import OutputFailed, SimhbaseError, UsageError
from simhbase.model.urls import redacted, without_passwords
from simhbase.process.plain_files import refuse_prepared

_PART = ".part"


def require_own(place: str) -> None:
    """Raises OutputFailed for what another user has put at a local path, into a folder of all users: Hadoop
    deletes what a link leads to if it cannot delete the link. And for a device or pipe, which it would
    replace by a file."""
    local = Path(place.removeprefix("file:"))
    if os.path.lexists(local):
        try:
            refuse_prepared(local)
        except OSError as error:
            raise OutputFailed(f"cannot write {redacted(place)}: {error.strerror}") from error
    if local.exists() and not (local.is_file() or local.is_dir()):
        raise OutputFailed(f"cannot write {redacted(place)}: it is a device or pipe, and no folder or file")


@dataclass(frozen=True)
class Outputs:
    """Writes to PATH.part first. paths: by option, folders and the file `report`, in any file system
    of Spark; overwrite: replace what is there."""

    session: SparkSession
    paths: Mapping[str, str]
    overwrite: bool
    # End of the names of replaced outputs until they are deleted. Users may have their own FOLDER.old.
    _old: str = field(default_factory=lambda: f".{token_hex(8)}.old", init=False)

    def require(self, inputs: Sequence[str]) -> None:
        """Raise UsageError if an output exists and must not be replaced, or is an input, another output, or
        within one; OutputFailed if its folder cannot be written. Removes what a stopped run has left."""
        places = {option: self._full(path) for option, path in self.paths.items()}
        others = {f"the input {redacted(each)}": self._full(each) for each in inputs}
        for option, place in places.items():
            shown = redacted(self.paths[option])
            named = others | {f"the output {other}": at for other, at in places.items() if other != option}
            for what, other in named.items():
                if f"{place}/".startswith(f"{other}/") or f"{other}/".startswith(f"{place}/"):
                    raise UsageError(f"{shown} is, holds or is within {what}", parameter=option)
            if self._exists(place) and not self.overwrite:
                raise UsageError(
                    f"{shown} exists: name another one, or replace it (overwrite)", parameter=option
                )
        for place in places.values():
            self._try_writing(place)

    def part(self, option: str) -> str:
        """Where to write an output until it is complete."""
        return self._full(self.paths[option]) + _PART

    def write(self, option: str, content: bytes) -> None:
        """Write an output that is a file."""
        files, path = self._at(self.part(option))
        files.setWriteChecksum(False)  # a local file system would put one beside it
        try:
            stream = files.create(path, True)
            stream.write(bytearray(content))
            stream.close()
        finally:
            files.setWriteChecksum(True)

    @contextmanager
    def written(self) -> Iterator[None]:
        """Give all outputs their final names if the block ends without error, else remove what it wrote;
        existing outputs stay then."""
        try:
            yield
            self._commit()
        finally:
            for path in self.paths.values():
                self._delete(self._full(path) + _PART)

    def _commit(self) -> None:
        done: list[str] = []
        replaced: list[str] = []
        places = [self._full(path) for path in self.paths.values()]
        try:
            for place in places:
                if self._exists(place):
                    self._rename(place, place + self._old)
                    replaced.append(place)
                self._rename(place + _PART, place)
                done.append(place)
        except BaseException:
            for place in done:
                self._rename(place, place + _PART)
            for place in replaced:
                self._rename(place + self._old, place)
            raise
        for place in replaced:
            self._delete(place + self._old)

    def _try_writing(self, place: str) -> None:
        with _failing_as(OutputFailed, f"cannot write {place}"):
            self._delete(place + _PART)
            files, path = self._at(place + _PART)
            files.mkdirs(path)
            files.delete(path, True)

    def _at(self, place: str) -> tuple[Any, Any]:
        """The file system of an output, and its path there. Raises OutputFailed as `require_own`."""
        require_own(place)
        return self._found(place)

    def _found(self, place: str) -> tuple[Any, Any]:
        context = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(place)  # type: ignore[union-attr]  # it has begun
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path

    def _full(self, place: str) -> str:
        with _failing_as(UsageError, f"cannot use {place}"):
            files, path = self._found(place)
            return str(files.makeQualified(path).toString())

    def _exists(self, place: str) -> bool:
        files, path = self._at(place)
        return bool(files.exists(path))

    def _rename(self, place: str, to: str) -> None:
        files, path = self._at(place)
        if not files.rename(path, self._at(to)[1]):
            raise OutputFailed(
                f"cannot rename {redacted(place)} to {redacted(to)}: the file system refuses it"
            )

    def _delete(self, place: str) -> None:
        files, path = self._at(place)
        files.delete(path, True)


@contextmanager
def _failing_as(kind: type[SimhbaseError], doing: str) -> Iterator[None]:
    """Raise errors of Java with what was being done."""
    try:
        yield
    except Exception as error:
        raised = getattr(error, "java_exception", None)
        if raised is None:
            raise
        raise kind(without_passwords(f"{doing}: {raised.getMessage()}")) from error
