"""Loads HFiles that were written elsewhere, such as by Spark, into HBase: `simhbase load-hfiles`.

A folder has the HFiles of each table, TABLE/FAMILY/NUMBER, and a manifest, written last. They are like those
of `HFileLoad`, all with one version, and are loaded in the same order with the same checks. The folder is
kept: loading it again changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, cast

from simhbase.corpus.watcher import NULL_WATCHER, Watcher
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import BadInput, ProfileMismatch, StoreFailed, UsageError
from simhbase.index import Index, open_index
from simhbase.index.load_log import Count, LoadLog
from simhbase.loads.hfiles import TABLES, Handover
from simhbase.model import wire
from simhbase.process.plain_files import open_plain
from simhbase.stores import backend
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfiles import HFile, HFiles
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.tools import hbase_command
from simhbase.stores.hbase.workfolder import LOCAL, WorkFolder

MANIFEST, FORMAT = "manifest.json", 1
PLAIN = (stat.S_IFREG, stat.S_IFDIR)
MOST_BYTES = 256 << 20  # of a manifest, which has some 6 kB a file
IF_OLD = (
    "Write the HFiles again, to another folder, and load these; if this takes as long, with fewer documents"
)
COUNTED = ("added", "updated", "unchanged", "rejected")


@dataclass(frozen=True)
class TableFiles:
    """HFiles for a table, and the timestamp of their cells."""

    time: Count
    files: tuple[HFile, ...]


@dataclass(frozen=True)
class HFileInput:
    """Manifest of a folder of HFiles.

    store, tables_digest: the tables they were written for; version: of the documents; begun: when writing
    began, both in milliseconds since 1970. added, updated, unchanged, rejected: counts of documents; samples:
    some of their ids; tables: by name, without tables that get no rows.
    """

    store: str
    tables_digest: str
    version: Count
    begun: Count
    added: Count
    updated: Count
    unchanged: Count
    rejected: Count
    samples: tuple[str, ...]
    tables: Mapping[str, TableFiles]

    def __post_init__(self) -> None:
        """Raises ValueError for rows of another size than those of the index."""
        of_index = self.tables[INDEX].files if INDEX in self.tables else ()
        if any(len(row) != KEY_BYTES for file in of_index for row in file.samples):
            raise ValueError(f"rows of the index have {KEY_BYTES} bytes")

    def encode(self) -> bytes:
        return wire.encode(self, format=FORMAT)

    @staticmethod
    def decode(content: bytes, folder: str) -> HFileInput:
        """Decode a manifest. Raises BadInput if it is invalid or of another version."""
        try:
            if wire.decode(content, dict[str, Any]).get("format") == FORMAT:
                return wire.decode(content, HFileInput)
        except BadInput as error:
            raise BadInput(
                f"{folder}/{MANIFEST} is not a manifest of HFiles: give the folder that "
                "simhbase.spark.hfile_input wrote"
            ) from error
        raise BadInput(f"{folder} was written by another version of simhbase: write it again")


@dataclass(frozen=True)
class HFilesReport:
    """Counts of the documents in the loaded HFiles, compared with those stored when the HFiles were written.
    overridden: of these documents, those that others have deleted or changed since, which stay as they are.
    """

    added: int
    updated: int
    unchanged: int
    rejected: int
    overridden: int
    seconds: float


def load_hfiles(
    folder: str | Path,
    store: str,
    *,
    work_folder: str | Path | None = None,
    watcher: Watcher = NULL_WATCHER,
) -> HFilesReport:
    """Load HFiles written by `simhbase.spark.hfile_input` with HBase's bulk load tool.

    folder: a local folder, or a URI that HBase's tool can read; it is kept. store: URL of the store they were
    written for. work_folder: as for `load`, for the tool's log; default: in `folder`.

    May be repeated after an interruption: cells have fixed timestamps, so loading them twice changes nothing.
    Raises BadInput if there is no manifest; ProfileMismatch if the files were written for other tables;
    StoreBusy if another process loads the folder; StoreFailed if a tool fails, or the files are too old to be
    safe; UsageError if HBase's tools are missing.
    """
    if not backend(store).takes_hfiles:
        raise UsageError(f"{store} is not in HBase: HFiles can only be loaded into HBase")
    start, uri = monotonic(), uri_of(str(folder))
    _require_own_files(uri)
    if uri.startswith(LOCAL) and not Path(uri.removeprefix(LOCAL), MANIFEST).is_file():
        raise BadInput(
            f"{uri.removeprefix(LOCAL)} has no {MANIFEST}, which simhbase.spark.hfile_input writes "
            "last: check that this is its folder, and that it has succeeded"
        )
    command = hbase_command()
    with open_index(store) as index:
        index.require_no_scopes("HFiles")
        digest = hashlib.blake2b(f"{index.store.url} {uri}".encode(), digest_size=8).hexdigest()
        with LoadLog.begin(index.store, f"{uri.rpartition('/')[2][:80]}-{digest[:8]}", digest) as log:
            place = WorkFolder(str(work_folder or uri), f"simhbase-load-{digest}")
            hfiles = HFiles(cast(HBaseStore, index.store), command, place, log.require_held, watcher.note)
            try:
                found, overridden = _handed_over(index, hfiles, uri)
            except BaseException as error:
                place.close(keeping_log=isinstance(error, StoreFailed))
                raise
            finally:
                hfiles.close()
            place.close(keeping_log=False)
            counts = {name: getattr(found, name) for name in COUNTED}
            log.change(counts=counts)
    return HFilesReport(**counts, overridden=overridden, seconds=round(monotonic() - start, 3))


def _handed_over(index: Index, hfiles: HFiles, uri: str) -> tuple[HFileInput, int]:
    """Load all files in a folder. Returns its manifest, and the number of documents that are overridden."""
    with open_plain(hfiles.fetched(f"{uri}/{MANIFEST}")) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BadInput(f"{uri}/{MANIFEST} has more than {MOST_BYTES >> 20} MiB: is it another file?")
    found = HFileInput.decode(content, uri)
    if found.tables_digest != index.tables_digest:
        raise ProfileMismatch(
            f"the HFiles in {uri} were written for other tables (of {found.store!r}, or dropped since) than "
            f"those of {index.store.url}: write them again"
        )
    handover = Handover(index, found.version, found.begun, IF_OLD, index.store.now)
    handover.require_fresh()
    hfiles.start()
    for name in TABLES:
        if table := found.tables.get(name):
            folder = f"{uri}/{name}"
            hfiles.hand_over_files(name, table.time, folder, table.files, handover.require_fresh)
    handover.look_up(found.samples)
    documents = found.tables.get("documents")
    overridden = hfiles.hidden("documents", documents.time) if documents else 0
    hfiles.finish()
    return found, overridden


def _require_own_files(uri: str) -> None:
    """Raises BadInput for a link, pipe or device in a local folder, which may come from a stranger: HBase's
    tool would load a file that a link leads to, and wait for the writer of a pipe."""
    if not uri.startswith(LOCAL):
        return
    top = Path(uri.removeprefix(LOCAL))
    tables = [top / name for name in TABLES]
    walked = (each for table in tables for each in os.walk(table))
    below = (Path(above, name) for above, folders, files in walked for name in (*folders, *files))
    for path in chain([top / MANIFEST, *tables], below):
        if os.path.lexists(path) and stat.S_IFMT(path.lstat().st_mode) not in PLAIN:
            raise BadInput(
                f"{path} is a link, pipe or device, and HFiles are loaded from plain files only: put the "
                "file itself in its place, or remove it"
            )


def uri_of(folder: str) -> str:
    """The URI of a folder, for HBase's tools."""
    return folder.rstrip("/") if "://" in folder else f"{LOCAL}{Path(folder).resolve()}"
