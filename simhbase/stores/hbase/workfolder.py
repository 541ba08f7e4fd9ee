"""The folder for HFiles: where this process writes them, and where HBase's tools read them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

from simhbase.errors import StoreFailed
from simhbase.process.plain_files import refuse_prepared
from simhbase.stores.hbase.tools import Tools

LOCAL = "file://"


class WorkFolder:
    """A new folder in `where`: a local folder, or a URI of a Hadoop file system; None for the system's
    temporary folder. Removes what an earlier run with this name has left.

    local: where this process writes. The tools read the same files, or copies on another file system
    (hdfs://...).
    """

    def __init__(self, where: str | None, name: str) -> None:
        where = where or gettempdir()
        is_remote = "://" in where and not where.startswith(LOCAL)
        # Tools of a killed run may still write to its folder.
        run = token_hex(4)
        above = Path(gettempdir() if is_remote else where.removeprefix(LOCAL))
        if os.path.lexists(above):
            with writing(above):
                refuse_prepared(above)
        self._top = above.resolve() / name
        self._remote_top = f"{where.rstrip('/')}/{name}" if is_remote else None
        self._remote = f"{self._remote_top}/{run}" if is_remote else None
        self._has_remote = False
        self.local = self._top / run
        self.log = self.local / "tools.log"
        if self._top.is_dir():  # of a pipe, which another user may have put there, it would wait for a writer
            shutil.rmtree(self._top, ignore_errors=True)
        with writing(self.local):
            self._top.parent.mkdir(parents=True, exist_ok=True)
            # Others can compute the name: what they made there, or a link, is still there and not used.
            self._top.mkdir(mode=0o755)
            self.local.mkdir()

    def uri(self, name: str) -> str:
        """Where the tools find a file."""
        return f"{self._remote or f'{LOCAL}{self.local}'}/{name}"

    def publish(self, name: str, tools: Tools) -> None:
        """Make a folder visible to the tools."""
        if self._remote:
            doing, parent = f"copying files to {self._remote}", self.uri(name).rpartition("/")[0]
            self._make_remote(doing, tools)
            tools.files(doing, "-mkdir", "-p", parent)
            tools.files(doing, "-put", f"{LOCAL}{self.local / name}", parent)

    def _make_remote(self, doing: str, tools: Tools) -> None:
        if not self._has_remote and self._remote_top:
            tools.files(doing, "-mkdir", "-p", self._remote_top.rpartition("/")[0])
            # As the local one: without -p it fails if another user has made it.
            tools.files(doing, "-mkdir", self._remote_top)
            self._has_remote = True

    def fetched(self, uri: str, tools: Tools) -> Path:
        """The file at a URI, or a local copy."""
        if uri.startswith(LOCAL):
            return Path(uri.removeprefix(LOCAL))
        copy = self.local / "fetched" / uri.rpartition("/")[2]
        shutil.rmtree(copy, ignore_errors=True)
        copy.parent.mkdir(exist_ok=True)
        tools.files(f"copying {uri} to {copy.parent}", "-get", uri, f"{LOCAL}{copy}")
        return copy

    def remove(self, name: str, tools: Tools) -> None:
        """Remove a folder, and its copy for the tools."""
        shutil.rmtree(self.local / name, ignore_errors=True)
        if self._remote:
            self._remove(self.uri(name), tools)

    def remove_copies(self, tools: Tools) -> None:
        """Remove copies of this and earlier runs on another file system."""
        if self._remote_top:
            self._remove(self._remote_top, tools)

    def _remove(self, uri: str, tools: Tools) -> None:
        tools.files(f"removing {uri}", "-rm", "-r", "-f", "-skipTrash", uri)

    def close(self, *, keeping_log: bool) -> None:
        """Remove everything, except optionally the tools' log."""
        if not keeping_log:
            shutil.rmtree(self._top, ignore_errors=True)
            return
        for path in self.local.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path != self.log:
                path.unlink()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raises StoreFailed if a folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(
            f"cannot write the files of the load in {folder}: {error.strerror}. Choose a writable work "
            "folder with enough space, about 1 kB per document"
        ) from error
