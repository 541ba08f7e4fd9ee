"""The files named by paths, folders and globs."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from simhbase.corpus.names import EXTENSIONS, SUFFIXES, format_of
from simhbase.corpus.record import Format, Source, SourceReject
from simhbase.stores import is_store

if TYPE_CHECKING:
    from simhbase.corpus.remote import RemoteFile

_SCHEME = re.compile("[a-z][a-z0-9+.-]*://")

_SHOWN_ENDINGS = 5
_NOT_PLAIN = "it is a pipe, socket or device: name it to read it"


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A source and its file; None for standard input."""

    source: Source
    path: Path | RemoteFile | None

    def size(self) -> int | None:
        """Size on disk in bytes; None if it is not a plain file, or unknown."""
        if self.path is None:
            return None
        if not isinstance(self.path, Path):
            return self.path.size()
        try:
            status = self.path.stat()
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Visible files of a folder that were skipped: because of their unknown endings, counted by ending, or
    because their name, or that of a folder, begins with an underscore, counted by this name."""

    folder: str
    endings: Counter[str]
    of_programs: Counter[str] = field(default_factory=Counter)


Listed = FoundSource | LeftOut | SourceReject


def files_left_out(folders: Sequence[LeftOut]) -> list[str]:
    """Messages about skipped files of one or more folders."""
    unknown = [folder for folder in folders if folder.endings]
    of_programs = [folder for folder in folders if folder.of_programs]
    return [
        *([_files_of_programs(of_programs)] if of_programs else []),
        *([_files_of_unknown_endings(unknown)] if unknown else []),
    ]


def _files_of_programs(folders: Sequence[LeftOut]) -> str:
    first, *others = folders
    names = sum((each.of_programs for each in folders), Counter[str]())
    shown = [f"{name} ({count:,})" for name, count in names.most_common(_SHOWN_ENDINGS)]
    if len(names) > _SHOWN_ENDINGS:
        shown.append("...")
    count = names.total()
    message = (
        f"{first.folder}{f' and {len(others):,} more' if others else ''}: {count:,} "
        f"file{'s were' if count > 1 else ' was'} not read, as programs such as Spark keep notes under names "
        f"that begin with _: {', '.join(shown)}"
    )
    if "_delta_log" in names:
        message += (
            ". This is a Delta table, which keeps the files of older versions: documents that were changed "
            "or removed are read, too. Export one version (deltalake.DeltaTable(folder).to_pyarrow_table())"
        )
    return message


def _files_of_unknown_endings(folders: Sequence[LeftOut]) -> str:
    first, *others = folders
    endings = sum((each.endings for each in folders), Counter[str]())
    kinds = [f"{ending or 'none'} {count:,}" for ending, count in endings.most_common(_SHOWN_ENDINGS)]
    if len(endings) > _SHOWN_ENDINGS:
        kinds.append("...")
    count = endings.total()
    were, tell = ("s were", "their names tell") if count > 1 else (" was", "its name tells")
    return (
        f"{first.folder}{f' and {len(others):,} more' if others else ''}: {count:,} file{were} not read, as "
        f"{tell} no format ({', '.join(kinds)}): name them, or give their format"
    )


def local_path(given: str) -> str | None:
    """The local path of an input, also given as file:///path; None for other URLs."""
    path = given.removeprefix("file://")
    return None if _SCHEME.match(path) else path


def names_nothing(given: str) -> bool:
    """True for a local path or glob without files."""
    path = local_path(given)
    if path is None or os.path.lexists(path):
        return False
    return not (has_magic(path) and glob(path, recursive=True))  # noqa: PTH207  # Path.glob refuses /a/*


def expand(given: str, file_format: Format | None) -> Iterator[Listed]:
    """The files of an input: a file, or all files of a folder or glob, by name.

    A folder yields the files below it that are not hidden (neither they nor their folders start with a dot,
    or with an underscore as those of Spark and Hive)
    and whose name has a known ending, or all of them if `file_format` is given; files of an embedded store
    are left out. A single file is always yielded, even if it does not exist. Yields SourceRejects for inputs
    without files, and a LeftOut for skipped files.
    """
    if not has_magic(given) or os.path.lexists(given):
        yield from _file_or_folder(Path(given), file_format)
        return
    paths = sorted(map(Path, glob(given, recursive=True)))  # noqa: PTH207  # Path.glob refuses /a/*
    if not paths:
        yield SourceReject(printable(given), None, None, "no file has a name like this")
    folders = set(filter(_is_folder, paths))
    for path in paths:
        if folders.isdisjoint(path.parents):  # "**" also matches the content of matched folders
            yield from _file_or_folder(path, file_format)


def _file_or_folder(path: Path, file_format: Format | None) -> Iterator[Listed]:
    if _is_folder(path):
        yield from taken_from_folder(printable(str(path)), _folder(path), file_format)
    else:
        yield _found(path, path.as_posix())


def _folder(folder: Path) -> Iterator[FoundSource | SourceReject]:
    """All files below a folder, except those in hidden folders and of stores; then folders that cannot be
    listed."""
    failures: list[OSError] = []
    for place, subfolders, names in os.walk(folder, onerror=failures.append):
        subfolders[:] = sorted(
            name for name in subfolders if not name.startswith(".") and not _is_store(Path(place, name))
        )
        for path in (Path(place, name) for name in sorted(names)):
            yield _found(path, path.relative_to(folder).as_posix())
    for failure in failures:
        reason = f"it cannot be opened: {failure.strerror}"
        yield SourceReject(printable(failure.filename), None, None, reason)


def taken_from_folder(
    folder: str, files: Iterable[FoundSource | SourceReject], file_format: Format | None
) -> Iterator[Listed]:
    """Those files below a folder that are read (the id of each is its path in the folder), a LeftOut for the
    others, and a SourceReject if there is nothing."""
    left_out, of_programs = Counter[str](), Counter[str]()
    empty = True
    for found in files:
        if isinstance(found, SourceReject):
            yield found
            empty = False
        elif is_taken(PurePath(found.source.id), file_format):
            may_wait = isinstance(found.path, Path) and found.size() is None
            yield SourceReject(found.source.name, None, None, _NOT_PLAIN) if may_wait else found
            empty = False
        elif (part := _of_program(PurePath(found.source.id))) is not None:
            # Empty marks such as _SUCCESS need no mention.
            in_folder = PurePath(found.source.id).name != part
            if is_named(PurePath(found.source.id), file_format if in_folder else None):
                of_programs[printable(part)] += 1
        elif not (name := PurePath(found.source.id).name).startswith("."):
            path = PurePath(name.lower())
            packed = path.suffix if path.suffix in SUFFIXES else ""
            left_out[printable(PurePath(path.name.removesuffix(packed)).suffix + packed)] += 1
    if left_out or of_programs:
        yield LeftOut(folder, left_out, of_programs)
    if empty:
        wanted = "visible files" if file_format else f"files ending in {', '.join(EXTENSIONS)}"
        yield SourceReject(folder, None, None, f"the folder has no {wanted}")


def is_taken(below: PurePath, file_format: Format | None) -> bool:
    """True if a folder yields a file with this relative path."""
    return _of_program(below) is None and is_named(below, file_format)


def is_named(below: PurePath, file_format: Format | None) -> bool:
    """True for a visible file with a known format."""
    is_hidden = any(part.startswith(".") for part in below.parts)
    return not is_hidden and bool(file_format or format_of(below.name))


def _of_program(below: PurePath) -> str | None:
    """The part of a path that Spark, Hive and pyarrow skip, as _temporary; _a=1 is a partition."""
    return next((part for part in below.parts if part.startswith("_") and "=" not in part), None)


def _found(path: Path, name: str) -> FoundSource:
    return FoundSource(Source(printable(str(path)), printable(name)), path)


def _is_store(path: Path) -> bool:
    try:
        return is_store(path)
    except OSError:  # no permission: listing the folder will fail
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # no permission: opening the path will raise
        return False


def printable(path: str) -> str:
    """The path as printable text, whatever bytes the file name has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
