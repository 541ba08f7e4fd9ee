"""Walks through local folders and globs. Links lead out of them only where that is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ELOOP
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import BinaryIO

from simhbase.process import plain_files
from simhbase.process.plain_files import open_plain
from simhbase.stores import is_store

# Files there tell of processes and devices, differ with each reading, and may wait for ever.
OF_SYSTEM = (Path("/proc"), Path("/sys"))

NOT_PLAIN = f"{plain_files.NOT_PLAIN}: name it to read it"
_OPENED = Path("/proc/self/fd")  # links to all that this process has opened
# Passing through a folder needs no permission to list it, where the system knows the difference.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Unread:
    """Names of links that lead out of a folder, of files and folders of /proc and /sys, and of stores."""

    links: list[str] = field(default_factory=list)
    of_system: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)

    def taken(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Those so far, which are forgotten."""
        taken = tuple(self.links), tuple(self.of_system), tuple(self.stores)
        for each in (self.links, self.of_system, self.stores):
            each.clear()
        return taken


class Walk:
    """Finds files below one folder, the root.

    Without follow_links, links that lead out of the root are not followed; with it, each linked folder is
    read once, after all others. failures: folders that cannot be listed, and why.
    """

    def __init__(self, root: Path, *, follow_links: bool) -> None:
        self._last: tuple[Path, Path] | None = None  # folder, and with links resolved
        self._root = self._real(root)
        self._follow_links = follow_links
        # The folder that files must still be in when they are opened; None: they may be anywhere.
        self.within = None if follow_links else root
        # Folders, so that links that form a loop come to an end: those read, and those that "**" has matched.
        self._read: set[tuple[int, int]] = set()
        self._matched: set[tuple[int, int]] = set()
        self._aside: dict[Path, None] = {}  # links that are not followed, as the folders are inside the root
        self.unread = Unread()
        self.failures: dict[str, str | None] = {}

    def files(self, folder: Path) -> Iterator[Path]:
        """The files below a folder: its own by name, then those of its visible subfolders. Those of stores
        are left out."""
        left, linked = [folder], list[Path]()
        while left or linked:
            place = left.pop() if left else linked.pop(0)
            if _is_known(place, self._read):
                continue
            subfolders = []
            for entry in self._entries(place):
                path = Path(entry.path)
                if not _is_folder(entry):
                    if not entry.is_symlink() or entry.name.startswith(".") or self.admits(path):
                        yield path  # hidden ones are not read
                elif entry.name.startswith("."):
                    continue
                elif _is_store(path):
                    self.unread.stores.append(printable(entry.path))
                elif not entry.is_symlink():
                    subfolders.append(path)
                elif self._is_followed(path):
                    linked.append(path)
            left += reversed(subfolders)

    def matches(self, folder: Path, pattern: Sequence[str]) -> Iterator[Path]:
        """The files and folders below a folder that match the parts of a glob, some of them twice."""
        first, *others = pattern
        if first == "**":
            for place in self._folders(folder) if others else [folder]:
                yield from self.matches(place, others) if others else [place]
        elif not has_magic(first):
            path = folder / first
            if os.path.lexists(path):
                yield from self.matches(path, others) if others else [path]
        else:
            for entry in self._entries(folder):
                is_hidden = entry.name.startswith(".") and not first.startswith(".")
                if fnmatchcase(entry.name, first) and not is_hidden:
                    path = Path(entry.path)
                    yield from self.matches(path, others) if others else [path]

    def admits(self, path: Path) -> bool:
        """True if a path may be read; else it is noted why not."""
        if not self._follow_links and not self._is_inside(path):
            self.unread.links.append(printable(str(path)))
        elif self._is_of_system(path):
            self.unread.of_system.append(printable(str(path)))
        else:
            return True
        return False

    def is_read(self, folder: Path) -> bool:
        """True if the files of a folder were found before, by whatever name."""
        return _identity(folder) in self._read

    def missed(self) -> tuple[str, ...]:
        """Links to folders inside the root that a glob did not match: nothing there was read."""
        return tuple(
            printable(str(link))
            for link in self._aside
            if _identity(link) not in self._read and _identity(link) not in self._matched
        )

    def _is_followed(self, folder: Path) -> bool:
        """True for a linked folder that is followed. What is visible inside the root is read anyway, unless
        a glob does not match it."""
        if not self._follow_links and self._is_visible(folder):
            self._aside[folder] = None
            return False
        return self.admits(folder)

    def _is_visible(self, folder: Path) -> bool:
        """True for a folder inside the root that is not hidden, by its real path: volumes of Kubernetes link
        to hidden folders."""
        real = self._real(folder)
        return real.is_relative_to(self._root) and not any(
            part.startswith(".") for part in real.relative_to(self._root).parts
        )

    def _is_inside(self, path: Path) -> bool:
        return self._real(path).is_relative_to(self._root)

    def _is_of_system(self, path: Path) -> bool:
        return any(self._real(path).is_relative_to(each) for each in OF_SYSTEM)

    def _real(self, path: Path) -> Path:
        """The path with links resolved."""
        if os.path.islink(path) or path.name in ("", ".."):  # noqa: PTH114  # raises nothing for long paths
            return resolved(path)
        if self._last is None or self._last[0] != path.parent:
            self._last = path.parent, resolved(path.parent)
        return self._last[1] / path.name

    def _folders(self, folder: Path) -> Iterator[Path]:
        """A folder and the visible ones below it."""
        left, found = [folder], set[tuple[int, int]]()
        while left:
            place = left.pop()
            if _is_known(place, found):
                continue
            yield place
            for entry in self._entries(place):
                path = Path(entry.path)
                is_visible = not entry.name.startswith(".") and _is_folder(entry)
                if is_visible and (not entry.is_symlink() or self._is_followed(path)):
                    left.append(path)
        self._matched |= found

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """The entries of a folder by name."""
        if self._is_of_system(folder):
            self.unread.of_system.append(printable(str(folder)))
            return []
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except NotADirectoryError:  # a glob goes through all that match
            return []
        except OSError as error:
            self.failures[str(folder)] = error.strerror
            return []


def open_within(path: Path, root: Path) -> BinaryIO:
    """Open a plain file below a folder. Raises OSError if it is none, or leads out of the folder.

    Whoever may write there can put a link in the place of a file, or of a folder above it, after it was
    found: so none is followed below the root, and a pipe is not waited for. The root is opened as it was
    given, since folders above it may be closed.
    """
    real, real_root = resolved(path), resolved(root)
    if not real.is_relative_to(real_root):
        raise OSError(ELOOP, "it became a link that leads out of the folder")
    place = os.open(root, _PASS & ~os.O_NOFOLLOW)
    try:
        *folders, name = real.relative_to(real_root).parts or (".",)
        for folder in folders:
            above, place = place, os.open(folder, _PASS, dir_fd=place)
            os.close(above)
        return open_plain(name, os.O_NOFOLLOW, folder=place)
    finally:
        os.close(place)


def resolved(path: Path) -> Path:
    """The absolute path with links resolved. Of a link to nothing, or to more links than the system follows:
    where it points."""
    with suppress(OSError):
        return _resolved_by_system(path)
    folder, target = path.parent, Path(path.name)
    with suppress(OSError):
        folder = _resolved_by_system(folder)
    with suppress(OSError):
        target = path.readlink()
    return Path(os.path.normpath(folder.absolute() / target))


def _resolved_by_system(path: Path) -> Path:
    """In one step: Python takes the square of the depth of a folder, which may be thousands, and calls itself
    for each link of a chain. Raises OSError."""
    if not _OPENED.is_dir():  # macOS
        return Path(os.path.realpath(path))
    place = os.open(path, os.O_PATH)
    try:
        return OF_SYSTEM[0] / (_OPENED / str(place)).readlink()  # what is no file has a relative one
    finally:
        os.close(place)


def printable(path: str) -> str:
    """The path as printable text, whatever bytes the file name has; servers may tell names with halves of
    surrogate pairs, which have none."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        name = path.encode(errors="backslashreplace")
    return name.decode("utf-8", "backslashreplace")


def _is_known(folder: Path, known: set[tuple[int, int]]) -> bool:
    """True if a folder is known, by whatever name; it is from now on."""
    identity = _identity(folder)
    if identity is None:  # listing it will fail, too
        return False
    is_known = identity in known
    known.add(identity)
    return is_known


def _identity(folder: Path) -> tuple[int, int] | None:
    """What is the same for all names of a folder; None if there is none."""
    with suppress(OSError):
        status = folder.stat()
        return status.st_dev, status.st_ino
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, which opening will tell
        return False


def _is_store(path: Path) -> bool:
    try:
        return is_store(path)
    except OSError:  # no permission: listing the folder will fail
        return False
