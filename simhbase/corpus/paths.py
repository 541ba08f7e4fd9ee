"""The files named by paths, folders and globs."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from errno import EINVAL
from fnmatch import fnmatchcase
from glob import has_magic, iglob
from itertools import chain
from pathlib import Path, PurePath
from typing import BinaryIO, Literal, Protocol

from simhbase.corpus.folders import NOT_PLAIN, Unread, Walk, open_within, printable
from simhbase.corpus.names import EXTENSIONS, SUFFIXES, format_of
from simhbase.corpus.record import Format, Source, SourceReject
from simhbase.errors import UsageError
from simhbase.model.urls import MEANT_AS_URL, redacted
from simhbase.stores import BACKENDS

_SCHEME = re.compile("[a-z][a-z0-9+.-]*://")

_ICEBERG, _HUDI = "metadata", ".hoodie_partition_metadata"
# Names by which tables that keep older versions are known, and what exports one version.
_TABLES = {
    "_delta_log": ("a Delta table", "deltalake.DeltaTable(folder).to_pyarrow_table()"),
    _ICEBERG: ("an Iceberg table", "pyiceberg.table.StaticTable.from_metadata(file).scan().to_arrow()"),
    _HUDI: ("a Hudi table", "by Spark: spark.read.format('hudi').load(folder)"),
}
_SHOWN_ENDINGS = 5
_ENDLESS = "it is a device, which may have no end: pipe in what is to be read of it (head -c)"


class SizedFile(Protocol):
    """A file that is not on a disk of this machine."""

    def size(self) -> int | None:
        """Size in bytes; None if it is unknown."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it for reading. Raises OSError."""


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A source and its file; None for standard input. within: the folder that the file must not lead out
    of."""

    source: Source
    path: Path | SizedFile | None
    within: Path | None = None

    def open(self) -> BinaryIO:
        """Open the file. Raises OSError, also if it leads out of its folder, or is a device such as
        /dev/zero."""
        assert self.path is not None
        if self.within is not None and isinstance(self.path, Path):
            return open_within(self.path, self.within)
        file = self.path.open("rb")
        if isinstance(self.path, Path):
            status = os.fstat(file.fileno())
            is_device = stat.S_ISCHR(status.st_mode) and not file.isatty()
            if is_device and not os.path.samestat(status, Path(os.devnull).stat()):
                file.close()
                raise OSError(EINVAL, _ENDLESS)
        return file

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
    because their name, or that of a folder, begins with an underscore, counted by this name; links that were
    not followed; files and folders of /proc and /sys; folders of stores."""

    folder: str
    endings: Counter[str]
    of_programs: Counter[str] = field(default_factory=Counter)
    links: tuple[str, ...] = ()
    of_system: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.endings or self.of_programs or self.links or self.of_system or self.stores)


Listed = FoundSource | LeftOut | SourceReject


def files_left_out(folders: Sequence[LeftOut]) -> list[str]:
    """Messages about skipped files of one or more folders."""
    kinds = (
        (_files_of_programs, [folder for folder in folders if folder.of_programs]),
        (_links, [folder for folder in folders if folder.links]),
        (_files_of_system, [folder for folder in folders if folder.of_system]),
        (_stores, [folder for folder in folders if folder.stores]),
        (_files_of_unknown_endings, [folder for folder in folders if folder.endings]),
    )
    return [said(those) for said, those in kinds if those]


def _links(folders: Sequence[LeftOut]) -> str:
    links = [link for folder in folders for link in folder.links]
    were = "links that lead out of it were" if len(links) > 1 else "link that leads out of it was"
    return (
        f"{_first(folders)}: {len(links):,} {were} not followed ({_listed(links)}). The option "
        "follow_links reads the files there"
    )


def _files_of_system(folders: Sequence[LeftOut]) -> str:
    paths = [path for folder in folders for path in folder.of_system]
    return f"{_first(folders)}: files of /proc and /sys were not read ({_listed(paths)})"


def _stores(folders: Sequence[LeftOut]) -> str:
    paths = [path for folder in folders for path in folder.stores]
    were, them = ("folders were", "them") if len(paths) > 1 else ("folder was", "it")
    return (
        f"{_first(folders)}: {len(paths):,} {were} not read, as files of a store are there "
        f"({_listed(paths)}): documents beside these are read if you name {them}"
    )


def _first(folders: Sequence[LeftOut]) -> str:
    first, *others = folders
    return f"{first.folder}{f' and {len(others):,} more' if others else ''}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_SHOWN_ENDINGS], *(["..."] if names[_SHOWN_ENDINGS:] else [])])


def _files_of_programs(folders: Sequence[LeftOut]) -> str:
    first, *others = folders
    names = sum((each.of_programs for each in folders), Counter[str]())
    shown = [f"{name} ({count:,})" for name, count in names.most_common(_SHOWN_ENDINGS)]
    if len(names) > _SHOWN_ENDINGS:
        shown.append("...")
    count = names.total()
    message = (
        f"{first.folder}{f' and {len(others):,} more' if others else ''}: {count:,} "
        f"file{'s were' if count > 1 else ' was'} not read, as programs such as Spark keep notes there: "
        f"{', '.join(shown)}"
    )
    for name, (kind, export) in _TABLES.items():
        if name in names:
            message += (
                f". This is {kind}, which keeps the files of older versions: documents that were changed or "
                f"removed are read, too. Export one version ({export})"
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
    """The local path of an input, also given as file:///path; None for other URLs. Raises UsageError for what
    was meant as a URL: it would be taken for the name of a file, and shown with a password in it."""
    path = given.removeprefix("file://").removeprefix("local://")  # both of fsspec
    if not path:  # as a script has whose variable is unset
        raise UsageError("the name of an input is empty: for the current folder, say .")
    scheme, colon, _ = given.partition(":")
    is_file = given.startswith("memory://")  # of fsspec
    if colon and scheme in BACKENDS and not is_file and not os.path.lexists(given):
        raise UsageError(
            f"{redacted(given)} is the URL of a store, and inputs are files: name a store by its own option, "
            "or write ./ before the name of a file that begins so"
        )
    if _SCHEME.match(path):
        return None
    first = path.partition("/")[0]
    if given != path and "@" in first and not os.path.lexists(first):
        raise UsageError(f"{redacted(given)} is no URL of a file: give its path, or file:///PATH")
    if MEANT_AS_URL.match(path) and not os.path.lexists(first):
        raise UsageError(
            f"{redacted(given)!r} is no URL that is read: one begins with its scheme in small letters and "
            "two slashes, as https://, without anything before"
        )
    is_known = os.path.lexists(path) or redacted(path) == path
    if not is_known and not any(iglob(path, recursive=True)):  # noqa: PTH207  # token=*.jsonl names files
        raise UsageError(f"{redacted(path)!r} names no file, and may hold a password: inputs are files")
    return path


def names_nothing(given: str) -> bool:
    """True for a local path or glob without files."""
    path = local_path(given)
    if path is None or os.path.lexists(path):
        return False
    return not any(isinstance(found, FoundSource) and has_magic(path) for found in expand(path, None))


def expand(given: str, file_format: Format | None, *, follow_links: bool = False) -> Iterator[Listed]:
    """The files of an input: a file, or all files of a folder or glob, by name.

    A folder yields the files below it that are not hidden (neither they nor their folders start with a dot,
    or with an underscore as those of Spark and Hive) and whose name has a known ending, or all of them if
    `file_format` is given; folders of embedded stores are left out, and links that lead out of the folder are
    not followed unless follow_links is set. The same holds for what a glob matches: its folder is the part
    before the first wildcard. A single file is always yielded, even if it does not exist. Yields
    SourceRejects for inputs without files, and a LeftOut for skipped files.
    """
    path = Path(given)
    if has_magic(given) and not os.path.lexists(given):
        yield from _matching(given, file_format, follow_links=follow_links)
    elif os.path.isdir(path):  # noqa: PTH112  # never raises
        yield from _folder(path, Walk(path, follow_links=follow_links), file_format)
    else:
        yield _found(path, path.as_posix())


def _folder(folder: Path, walk: Walk, file_format: Format | None) -> Iterator[Listed]:
    files = (_found(path, path.relative_to(folder).as_posix(), walk.within) for path in walk.files(folder))
    name = printable(str(folder))
    yield from taken_from_folder(name, chain(files, _failures(walk)), file_format, walk.unread)


def _failures(walk: Walk) -> Iterator[SourceReject]:
    for folder, reason in walk.failures.items():
        yield SourceReject(printable(folder), None, None, f"it cannot be opened: {reason}")
    walk.failures.clear()


def _matching(given: str, file_format: Format | None, *, follow_links: bool) -> Iterator[Listed]:
    parts = Path(given).parts
    first = next(number for number, part in enumerate(parts) if has_magic(part))
    root, pattern = Path(*parts[:first]), parts[first:]
    walk, of_programs, taken = Walk(root, follow_links=follow_links), Counter[str](), list[Path]()
    paths = sorted(set(walk.matches(root, pattern))) if os.path.lexists(root) else []
    folders = set(filter(os.path.isdir, paths))
    for path in paths if not given.endswith("/") else sorted(folders):
        if not folders.isdisjoint(path.parents):  # "**" also matches the content of matched folders
            continue
        if (part := part_of_program(path.relative_to(root), pattern)) is not None:
            if (
                path in folders or _found(path, "").size() != 0
            ):  # empty marks such as _SUCCESS need no mention
                of_programs[printable(part)] += 1
        elif walk.admits(path):
            taken.append(path)
    yield from _failures(walk)
    if left_out := LeftOut(printable(given), Counter(), of_programs, *walk.unread.taken()):
        yield left_out
    for path in taken:
        if path not in folders:
            yield _waiting_for_none(_found(path, path.as_posix(), walk.within))
        elif not walk.is_read(path):
            yield from _folder(path, walk, file_format)
    if missed := LeftOut(printable(given), Counter(), links=walk.missed()):
        yield missed
    if not taken:
        yield SourceReject(printable(given), None, None, no_match(left_out or missed))


def no_match(left_out: LeftOut) -> str:
    """Why a glob names nothing."""
    return f"no file {'that is read ' if left_out else ''}has a name like this"


def _waiting_for_none(found: FoundSource) -> FoundSource | SourceReject:
    """A file, or a reject for a pipe or device: reading one may wait for ever."""
    if isinstance(found.path, Path) and found.size() is None:
        return SourceReject(found.source.name, None, None, NOT_PLAIN)
    return found


def taken_from_folder(
    folder: str,
    files: Iterable[FoundSource | SourceReject],
    file_format: Format | None,
    unread: Unread,
) -> Iterator[Listed]:
    """Those files below a folder that are read (the id of each is its path in the folder), a LeftOut for the
    others, and a SourceReject if there is nothing. unread: filled while the files are listed."""
    left_out, of_programs = Counter[str](), Counter[str]()
    empty = True
    for found in files:
        if isinstance(found, SourceReject):
            yield found
            empty = False
        elif is_taken(PurePath(found.source.id), file_format):
            yield _waiting_for_none(found)
            empty = False
        elif (part := part_of_program(PurePath(found.source.id))) is not None:
            # Empty marks such as _SUCCESS need no mention.
            in_folder = PurePath(found.source.id).name != part
            if part == _HUDI or is_named(PurePath(found.source.id), file_format if in_folder else None):
                of_programs[printable(part)] += 1
        elif not (name := PurePath(found.source.id).name).startswith("."):
            path = PurePath(name.lower())
            packed = path.suffix if path.suffix in SUFFIXES else ""
            left_out[printable(PurePath(path.name.removesuffix(packed)).suffix + packed)] += 1
    if skipped := LeftOut(folder, left_out, of_programs, *unread.taken()):
        yield skipped
    if empty:
        wanted = "visible files" if file_format else f"files ending in {', '.join(EXTENSIONS)}"
        yield SourceReject(folder, None, None, f"the folder has no {wanted}")


def is_taken(below: PurePath, file_format: Format | None) -> bool:
    """True if a folder yields a file with this relative path."""
    return part_of_program(below) is None and is_named(below, file_format)


def is_named(below: PurePath, file_format: Format | None) -> bool:
    """True for a visible file with a known format."""
    is_hidden = any(part.startswith(".") for part in below.parts)
    return not is_hidden and bool(file_format or format_of(below.name))


def part_of_program(below: PurePath, pattern: Sequence[str] = ()) -> str | None:
    """The part of a path that Spark, Hive and pyarrow skip, as _temporary, or the notes of a table of Iceberg
    or Hudi; _a=1 is a partition. pattern: of a glob, whose parts may name some."""
    if below.name == _HUDI:
        return _HUDI
    if below.parent.name == _ICEBERG and below.name.endswith(".metadata.json"):
        return _ICEBERG
    named = [part for part in pattern if part.startswith(("_", "[_"))]
    for part in below.parts:
        if part.startswith("_") and "=" not in part and not any(fnmatchcase(part, each) for each in named):
            return part
    return None


def _found(path: Path, name: str, within: Path | None = None) -> FoundSource:
    return FoundSource(Source(printable(str(path)), printable(name)), path, within)
