"""Files on their way to HBase: where this process writes them, and where HBase's tools read them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

from simhbase.errors import StoreFailed
from simhbase.stores.hbase.tools import Tools

LOCAL = "file://"


class WorkFolder:
    """A new folder in `where`: a folder, or a URI of a file system of Hadoop's; None for the system's folder
    for what is temporary. What an earlier one of this name has left is removed.

    local: where this process writes. The tools read the same files, or, where these are on another file
    system (hdfs://...), copies of them.
    """

    def __init__(self, where: str | None, name: str) -> None:
        where = where or gettempdir()
        is_remote = "://" in where and not where.startswith(LOCAL)
        # Tools that a killed run has left may still write to its own.
        run = token_hex(4)
        self._top = Path(gettempdir() if is_remote else where.removeprefix(LOCAL)).resolve() / name
        self._remote_top = f"{where.rstrip('/')}/{name}" if is_remote else None
        self._remote = f"{self._remote_top}/{run}" if is_remote else None
        self.local = self._top / run
        self.log = self.local / "tools.log"
        shutil.rmtree(self._top, ignore_errors=True)
        with writing(self.local):
            self.local.mkdir(parents=True)

    def uri(self, name: str) -> str:
        """Where the tools find what has this name."""
        return f"{self._remote or f'{LOCAL}{self.local}'}/{name}"

    def publish(self, name: str, tools: Tools) -> None:
        """Makes a folder visible to the tools."""
        if self._remote:
            doing, parent = f"copying files to {self._remote}", self.uri(name).rpartition("/")[0]
            tools.files(doing, "-mkdir", "-p", parent)
            tools.files(doing, "-put", f"{LOCAL}{self.local / name}", parent)

    def fetched(self, uri: str, tools: Tools) -> Path:
        """What is at a URI, a copy of it where this process cannot read it there."""
        if uri.startswith(LOCAL):
            return Path(uri.removeprefix(LOCAL))
        copy = self.local / "fetched" / uri.rpartition("/")[2]
        shutil.rmtree(copy, ignore_errors=True)
        copy.parent.mkdir(exist_ok=True)
        tools.files(f"copying {uri} to {copy.parent}", "-get", uri, f"{LOCAL}{copy}")
        return copy

    def remove(self, name: str, tools: Tools) -> None:
        """Removes a folder, that of the tools as well, if it is there."""
        shutil.rmtree(self.local / name, ignore_errors=True)
        if self._remote:
            self._remove(self.uri(name), tools)

    def remove_copies(self, tools: Tools) -> None:
        """Removes what this run and earlier ones of its name have copied to another file system."""
        if self._remote_top:
            self._remove(self._remote_top, tools)

    def _remove(self, uri: str, tools: Tools) -> None:
        tools.files(f"removing {uri}", "-rm", "-r", "-f", "-skipTrash", uri)

    def close(self, *, keeping_log: bool) -> None:
        """Removes all that is here, but for the log of the tools if somebody may want it."""
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
    """Raises StoreFailed where a folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(
            f"cannot write the files of the load in {folder}: {error.strerror}. Name a work folder that can "
            "be written and has room, about 1 kB a document"
        ) from error
