"""HFiles of documents that were made elsewhere (on Spark, for instance), into HBase: `simhbase load-hfiles`.

A folder holds the HFiles of each table, TABLE/FAMILY/NUMBER, and the manifest, written last, which says what
they are. They are made as `HFileLoad` makes its own, all with one version, and handed over in the same order
and with the same checks. The folder stays: loading it again changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, cast

import orjson

from simhbase.corpus.watcher import NOBODY, Watcher
from simhbase.errors import BadInput, ProfileMismatch, StoreFailed, UsageError
from simhbase.index import Index, open_index
from simhbase.index.load_log import LoadLog
from simhbase.jobs.hfiles import TABLES, Handover
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfiles import HFile, HFiles
from simhbase.stores.hbase.tools import hbase_command
from simhbase.stores.hbase.workfolder import LOCAL, WorkFolder

MANIFEST, FORMAT = "manifest.json", 3
IF_OLD = (
    "Make the rows anew, in another folder, and load these; if that is as slow, of fewer documents at a time"
)
COUNTED = ("added", "updated", "unchanged", "rejected")


@dataclass(frozen=True)
class TableFiles:
    """The HFiles that a table gets, and the time of their cells."""

    time: int
    files: tuple[HFile, ...]

    @property
    def rows(self) -> int:
        """How many rows they have together."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class HFileInput:
    """What the rows in a folder are.

    store, tables_digest: the tables that they were made for; version: of the documents; begun: when their
    making did, both in milliseconds since 1970. added, updated, unchanged, rejected: what becomes of the
    documents; samples: ids of some; tables: by name, without those that get nothing.
    """

    store: str
    tables_digest: str
    version: int
    begun: int
    added: int
    updated: int
    unchanged: int
    rejected: int
    samples: tuple[str, ...]
    tables: Mapping[str, TableFiles]

    def encode(self) -> bytes:
        """The manifest."""
        return orjson.dumps({"format": FORMAT, **asdict(self)}, default=bytes.hex, option=orjson.OPT_INDENT_2)

    @staticmethod
    def decode(content: bytes, folder: str) -> HFileInput:
        """The same of a manifest in a folder. Raises BadInput where it is none that this version writes."""
        try:
            found = orjson.loads(content)
            if found.pop("format") != FORMAT:
                raise BadInput(f"{folder} was made by another version of simhbase: make it again")
            tables = {
                name: TableFiles(table["time"], tuple(map(_file, table["files"])))
                for name, table in found.pop("tables").items()
            }
            return HFileInput(**found | {"samples": tuple(found["samples"]), "tables": tables})
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadInput(
                f"{folder}/{MANIFEST} is no manifest of rows for HBase: name the folder that "
                "simhbase.jobs.spark.hfile_input has written"
            ) from error


def _file(told: Mapping[str, Any]) -> HFile:
    return HFile(told["name"], told["rows"], tuple(map(bytes.fromhex, told["samples"])))


@dataclass(frozen=True)
class HFilesReport:
    """What became of the documents whose HFiles were loaded, by what was stored when these were made."""

    added: int
    updated: int
    unchanged: int
    rejected: int
    seconds: float


def load_hfiles(
    folder: str | Path,
    store: str,
    *,
    work_folder: str | Path | None = None,
    watcher: Watcher = NOBODY,
) -> HFilesReport:
    """Loads the HFiles that `simhbase.jobs.spark.hfile_input` has written into the store they were made for,
    by HBase's own tool.

    folder: one of this machine, or a URI that HBase's tool reads; it stays. store: its URL. work_folder: as
    of `load`, for the tool's log, by default within that folder.

    A load that was stopped is run again: cells have the time they were made with, so that what is loaded
    twice is there once. Raises BadInput where there is no manifest; ProfileMismatch where the rows are those
    of other tables; StoreBusy where another process loads the same folder; StoreFailed where a tool fails,
    or the rows were made so long ago that it would be dangerous; UsageError where there are no tools.
    """
    if not store.startswith("hbase:"):
        raise UsageError(f"{store} is no store in HBase: only that takes HFiles")
    start, uri = monotonic(), uri_of(str(folder))
    _require_manifest(uri)
    command = hbase_command()
    with open_index(store) as index:
        found = _loaded(index, uri, work_folder, command, watcher.note)
    return HFilesReport(
        found.added, found.updated, found.unchanged, found.rejected, round(monotonic() - start, 3)
    )


def _loaded(
    index: Index,
    uri: str,
    work_folder: str | Path | None,
    command: Sequence[str],
    note: Callable[[str], object],
) -> HFileInput:
    digest = hashlib.blake2b(f"{index.store.url} {uri}".encode(), digest_size=8).hexdigest()
    with LoadLog.begin(index.store, f"{uri.rpartition('/')[2][:80]}-{digest[:8]}", digest) as log:
        place = WorkFolder(str(work_folder or uri), f"simhbase-load-{digest}")
        hfiles = HFiles(cast(HBaseStore, index.store), command, place, log.require_held, note)
        try:
            found = _handed_over(index, hfiles, uri)
        except BaseException as error:
            place.close(keeping_log=isinstance(error, StoreFailed))
            raise
        finally:
            hfiles.close()
        place.close(keeping_log=False)
        log.change(counts={name: getattr(found, name) for name in COUNTED})
    return found


def _handed_over(index: Index, hfiles: HFiles, uri: str) -> HFileInput:
    """What the rows in a folder are, all of which are in the store when it returns."""
    found = HFileInput.decode(hfiles.fetched(f"{uri}/{MANIFEST}").read_bytes(), uri)
    if found.tables_digest != index.tables_digest:
        raise ProfileMismatch(
            f"the rows in {uri} were made for the tables of {found.store} as these were then, which are not "
            f"those of {index.store.url} now: make them again for these"
        )
    handover = Handover(index, found.version, found.begun, IF_OLD, index.store.now)
    handover.require_fresh()
    hfiles.start()
    for name in TABLES:
        if table := found.tables.get(name):
            folder = f"{uri}/{name}"
            hfiles.hand_over_files(name, table.time, folder, table.files, handover.require_fresh)
    handover.look_up(found.samples)
    hfiles.finish()
    return found


def uri_of(folder: str) -> str:
    """A folder as HBase's tools are told of it."""
    return folder.rstrip("/") if "://" in folder else f"{LOCAL}{Path(folder).resolve()}"


def _require_manifest(uri: str) -> None:
    """Raises BadInput where a folder of this machine has none."""
    if uri.startswith(LOCAL) and not Path(uri.removeprefix(LOCAL), MANIFEST).is_file():
        raise BadInput(
            f"{uri.removeprefix(LOCAL)} has no {MANIFEST}, which simhbase.jobs.spark.hfile_input writes when "
            "all rows are there: name its folder, and see that it has ended well"
        )
