"""Rows into HBase as files of its own, past its gateways, write-ahead logs and memory: for loads of millions.

They are written as SequenceFiles. HBase's own tools do the rest: Import sorts them, cuts at the borders of
regions, and writes an HFile for each region as the table wants it (encoding, blocks, bloom filters), and
BulkLoadHFilesTool hands these to the regions. Jobs run in one process, or on the cluster that HADOOP_CONF_DIR
names.

The loader of HBase before 2.6.8 loses rows where a file crosses a border that a region has got meanwhile, and
the loading is repeated after a failure (HBASE-30501). So no HFile is loaded twice, and none that is older
than a border. Rows are loaded when they are counted: the tool RowCounter looks at cells of just their time,
and where it finds more or fewer than were given, or they are few, each is looked for. Until then the
SequenceFiles stay, of which new HFiles can be made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, UsageError
from simhbase.stores.base import RecordTable
from simhbase.stores.hbase import tools
from simhbase.stores.hbase.clocks import ROW as CLOCK_ROW
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.sequencefile import SequenceFile, read_keys
from simhbase.stores.hbase.store import HBaseStore
from simhbase.stores.hbase.tools import ToolFailed, Tools
from simhbase.stores.hbase.workfolder import WorkFolder, writing

CLUSTER_VARIABLE = "HADOOP_CONF_DIR"
ATTEMPTS = 3  # at a table, before a person has to look
LOOKED_FOR = 50_000  # rows, at most, that are looked for one by one at once: that takes as long as the tool
LOOKED_FOR_AT_ONCE = 10_000
_REDUCERS_MEMORY = 0.6  # of a process in which several work at a time
_ROWS, _HFILES = "rows", "hfiles"


class Rows:
    """What a table is to get: rows whose cells have one time. Raises StoreFailed where the disk is full.

    expected: how many different rows; of those of the index it is for the caller to say.
    """

    def __init__(self, table: str, family: bytes, time: int, folder: Path) -> None:
        self.table = table
        self.time = time
        self.expected = 0
        self.path = folder / "part-00000"
        self._family = family
        self._file: SequenceFile | None = None

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Takes rows of records, all different."""
        if rows:
            self.expected += len(rows)
            with writing(self.path.parent):
                self._open_file.put(rows, self.time)

    def put_keys(self, keys: NDArray[np.uint8]) -> None:
        """Takes rows of the index: uint8 (n, tables, 13)."""
        with writing(self.path.parent):
            self._open_file.put_keys(keys.reshape(-1, KEY_BYTES), self.time)

    @property
    def _open_file(self) -> SequenceFile:
        if self._file is None:
            self.path.parent.mkdir(parents=True)
            self._file = SequenceFile(self.path.open("wb"), self._family)
        return self._file

    def close(self) -> None:
        """No more come; may be called twice."""
        if self._file is not None:
            with writing(self.path.parent):
                self._file.close()


@dataclass(frozen=True)
class RowFiles:
    """SequenceFiles of rows of a table, all different, whose cells have one time.

    uri: the folder where HBase's tools find them; paths: the files on this machine, asked where rows are
    looked for one by one.
    """

    table: str
    time: int
    rows: int
    uri: str
    paths: Callable[[], Iterable[Path]]


class HFiles:
    """Hands rows to the tables of a store.

    command: HBase's, of `hbase_command`; alive: is called every second while a tool runs; note: with what a
    person should know.
    """

    def __init__(
        self,
        store: HBaseStore,
        command: Sequence[str],
        folder: WorkFolder,
        alive: Callable[[], object],
        note: Callable[[str], object],
    ) -> None:
        self._store = store
        self._folder = folder
        self._tools = Tools(command, folder.logs, alive)
        self._note = note

    def require(self) -> None:
        """Raises UsageError where the tools are too old, or work on another HBase than the store is in;
        StoreFailed where one fails."""
        version = self._tools.version()
        shown = ".".join(map(str, version))
        if version < tools.LEAST_VERSION:
            raise UsageError(f"the command hbase is of HBase {shown}: 2.2 and later load HFiles")
        if version[0] > tools.TRIED_VERSIONS:
            self._note(f"the command hbase is of HBase {shown}, with which this has not been tried")
        meta, row = self._store.table("meta").name, CLOCK_ROW.decode()
        time = self._store.server_time()
        if not self._count(meta, {"starttime": time, "range": f"{row},{row}0"}, does_little=True):
            raise UsageError(
                f"the command hbase does not find in {meta} what was written there through "
                f"{self._store.url}: it is configured for another HBase. Give it the configuration of this "
                "one (HBASE_CONF_DIR)"
            )
        self._folder.remove_copies(self._tools)

    def close(self) -> None:
        """Removes copies on other file systems, or says that they stay."""
        try:
            self._folder.remove_copies(self._tools)
        except ToolFailed as error:
            self._note(f"all is loaded, but {error}")

    def rows(self, table: str, time: int) -> Rows:
        """A new file of rows for a table, to be closed before it is handed over."""
        family = self._store.table(table).column.rstrip(b":")
        return Rows(table, family, time, self._folder.local / _ROWS / table)

    def hand_over(self, rows: Rows, require: Callable[[], object]) -> None:
        """All rows are in their table when it returns. require: is called before they are loaded, and may
        raise. Raises StoreFailed where they cannot be brought there, and what a read raises."""
        rows.close()
        if rows.expected:
            name = f"{_ROWS}/{rows.table}"
            self._folder.publish(name, self._tools)
            uri = self._folder.uri(name)
            files = RowFiles(rows.table, rows.time, rows.expected, uri, lambda: [rows.path])
            self.hand_over_files(files, require)
            self._folder.remove(name, self._tools)

    def files(self, table: str, time: int, rows: int, uri: str) -> RowFiles:
        """So many rows for a table that somebody else has written to the files of a folder, which stay."""
        return RowFiles(table, time, rows, uri, lambda: self.fetched(uri).glob("part-*"))

    def fetched(self, uri: str) -> Path:
        """A file or folder on this machine, or a copy of it here."""
        return self._folder.fetched(uri, self._tools)

    def hand_over_files(self, files: RowFiles, require: Callable[[], object]) -> None:
        """The same of rows that are in files already."""
        for attempt in range(1, ATTEMPTS + 1):
            problem = self._attempt(files, require)
            if problem is None:
                self._folder.remove(f"{_HFILES}/{files.table}", self._tools)
                return
            if attempt < ATTEMPTS:
                self._note(f"new HFiles are made: {problem}")
        raise StoreFailed(
            f"loading {files.rows:,} rows into {self._name(files.table)} failed {ATTEMPTS} times: {problem}. "
            "What was loaded does no harm: run the same command again"
        )

    def _attempt(self, files: RowFiles, require: Callable[[], object]) -> str | None:
        """Makes HFiles, loads them and counts; what went wrong with that, None where nothing did."""
        name, hfiles = self._name(files.table), f"{_HFILES}/{files.table}"
        self._folder.remove(hfiles, self._tools)
        borders = self._store.region_starts(files.table)
        self._tools.run(
            f"making HFiles for {name}",
            f"import-{files.table}",
            tools.IMPORT,
            *self._job_options(),
            f"-Dimport.bulk.output={self._folder.uri(hfiles)}",
            name,
            files.uri,
        )
        if self._store.region_starts(files.table) != borders:
            return f"regions of {name} were split or merged meanwhile"
        require()
        try:
            doing = f"loading HFiles into {name}"
            self._tools.run(
                doing,
                f"load-{files.table}",
                tools.BULK_LOAD,
                self._folder.uri(hfiles),
                name,
                does_little=True,
            )
        except ToolFailed as error:
            return str(error)
        if files.rows > LOOKED_FOR and self._count_of(files) == files.rows:
            return None
        missing = self._missing(files)
        return f"{missing:,} of {files.rows:,} rows of {name} are missing" if missing else None

    def _count_of(self, files: RowFiles) -> int:
        """How many rows of the table have cells of their time."""
        return self._count(self._name(files.table), {"starttime": files.time, "endtime": files.time + 1})

    def _count(self, name: str, options: Mapping[str, object], *, does_little: bool = False) -> int:
        """How many rows of a table the tool counts with these options."""
        counted = self._tools.run(
            f"counting the rows of {name}",
            f"count-{name.rpartition('_')[2]}",
            tools.COUNT,
            *self._job_options(),
            name,
            *(f"--{option}={value}" for option, value in options.items()),
            does_little=does_little,
        )
        found = re.findall(r"^\s*ROWS=(\d+)", counted, re.MULTILINE)
        return int(found[-1]) if found else 0  # a counter that was not counted up is not shown

    def _missing(self, files: RowFiles) -> int:
        """How many rows are not there with this time or a later one: each is looked for."""
        keys = chain.from_iterable(map(read_keys, files.paths()))
        missing = 0
        while some := list(islice(keys, LOOKED_FOR_AT_ONCE)):
            self._tools.alive()
            missing += int(np.count_nonzero(self._times(files.table, some) < files.time))
        return missing

    def _times(self, table: str, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """The times of the cells of rows, -1 where there is none."""
        if table == INDEX:
            return self._store.drawers.times(np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES))
        cells = self._store.records(cast(RecordTable, table)).get(keys)
        return np.array([-1 if cell is None else cell.version for cell in cells], dtype=np.int64)

    def _name(self, table: str) -> str:
        return self._store.table(table).name

    def _job_options(self) -> list[str]:
        """Where jobs put what they need meanwhile, and, where they run in one process, how many threads work
        for them: a cluster has its own limits."""
        # Without a file system: it must be the one that Hadoop is configured for.
        options = {"hbase.fs.tmp.dir": str(self._folder.local / "staging")}
        if CLUSTER_VARIABLE not in os.environ:
            cores = os.cpu_count() or 1
            options |= {
                "mapreduce.cluster.local.dir": str(self._folder.local / "spill"),
                "mapreduce.local.map.tasks.maximum": str(cores),
                "mapreduce.local.reduce.tasks.maximum": str(cores),
                "mapreduce.reduce.shuffle.input.buffer.percent": f"{_REDUCERS_MEMORY / cores:.2f}",
                "mapreduce.reduce.input.buffer.percent": f"{_REDUCERS_MEMORY / cores:.2f}",
            }
        return [f"-D{name}={value}" for name, value in options.items()]
