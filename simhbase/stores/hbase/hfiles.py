"""Loads rows as HFiles, bypassing gateways, write-ahead logs and the servers' memory, for loads of millions.

Rows are collected in buckets on disk, sorted bucket by bucket, and written as one HFile per region, which
HBase's loader moves into the regions. It must not split a file if a region was split meanwhile: before 2.6.8
it may lose one half (HBASE-30501). So region boundaries are compared just before, the loader is told to
refuse such files, and new files are written from the buckets, which are kept until all rows have arrived.

A file is moved into its region completely or not at all. So all rows have arrived if the first and last row
of each file, and some in between, are found with their time or a later one.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import numpy as np
from msgspec import Meta as Allowed
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, UsageError
from simhbase.stores.base import RecordTable
from simhbase.stores.hbase import HBaseBackend, tools
from simhbase.stores.hbase.clocks import ROW as CLOCK_ROW
from simhbase.stores.hbase.hfile import Family, HFileWriter
from simhbase.stores.hbase.schema import BLOOM_PREFIX, INDEX
from simhbase.stores.hbase.store import HBaseStore
from simhbase.stores.hbase.tools import ToolFailed, Tools
from simhbase.stores.hbase.workfolder import WorkFolder, writing
from simhbase.stores.strings import Strings

ATTEMPTS = 3  # per table
BUCKET_ROWS = 1_000_000  # sorted together in memory
MOST_BUCKETS = 128  # open files
SAMPLES = 100  # rows of each part of a file to check afterwards
LOOKED_FOR_AT_ONCE = 10_000
_ROWS, _HFILES = "rows", "hfiles"


@dataclass(frozen=True)
class HFile:
    """A written file. samples: some of its rows in order, including the first and the last."""

    name: str
    rows: Annotated[int, Allowed(ge=0, le=1 << 62)]
    samples: Annotated[tuple[bytes, ...], Allowed(min_length=1)]

    def fits(self, starts: Sequence[bytes]) -> bool:
        """True if one region contains all of its rows. starts: sorted first keys of all regions."""
        return bisect_right(starts, self.samples[0]) == bisect_right(starts, self.samples[-1])


class TableRows:
    """Rows for a table with one timestamp, in buckets on disk.

    borders: between buckets, as the first eight bytes of a row, sorted. Raises StoreFailed if the disk is
    full or damaged.
    """

    def __init__(
        self, table: str, family: Family, time: int, folder: Path, borders: NDArray[np.uint64]
    ) -> None:
        self.table = table
        self.time = time
        self.count = 0
        self._family = family
        self._folder = folder
        self._borders = borders
        self._counts = np.zeros(len(borders) + 1, dtype=np.int64)
        self._stack = ExitStack()
        with writing(folder):
            folder.mkdir(parents=True)
            paths = [folder / f"{number:03}" for number in range(len(self._counts))]
            self._files: list[BinaryIO] = [self._stack.enter_context(path.open("w+b")) for path in paths]

    def put(self, rows: Strings, values: Strings) -> None:
        """Add rows with values; of equal rows one is kept."""
        if not len(rows):
            return
        numbers = np.searchsorted(self._borders, rows.words(0), side="right").astype(np.uint8)
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=len(self._files))
        rows, values = rows.take(order), values.take(order)
        with writing(self._folder):
            ends = np.cumsum(counts).tolist()
            for file, (start, end) in zip(self._files, pairwise([0, *ends]), strict=True):
                if start < end:
                    _save(file, rows.between(start, end))
                    _save(file, values.between(start, end))
        self._counts += counts
        self.count += len(rows)

    def write(self, folder: Path, starts: Sequence[bytes]) -> list[HFile]:
        """Write all rows as HFiles, one per region with any; starts: first keys of the regions."""
        ends: list[bytes | None] = [*starts[1:], None]
        with writing(folder), ExitStack() as opened:
            folder.mkdir(parents=True)
            current = _Writing(folder, self._family, self.time, opened)
            for rows, values in self._sorted():
                start = 0
                while start < len(rows):
                    end = len(rows) if ends[0] is None else _search(rows, ends[0])
                    current.put(rows.between(start, end), values.between(start, end))
                    if end < len(rows):
                        current.finish()
                        ends.pop(0)
                    start = end
            current.finish()
        return current.files

    def _sorted(self) -> Iterator[tuple[Strings, Strings]]:
        for file, count in zip(self._files, self._counts.tolist(), strict=True):
            if count:
                rows, values = self._loaded(file, count)
                order, repeated = rows.order()
                order = order[~repeated]
                yield rows.take(order), values.take(order)

    def _loaded(self, file: BinaryIO, count: int) -> tuple[Strings, Strings]:
        parts: list[Strings] = []
        left = count
        file.seek(0)
        try:
            while left > 0:
                parts += (_load(file), _load(file))
                left -= len(parts[-1])
        except (ValueError, EOFError) as error:
            raise StoreFailed(
                f"a file of rows in {self._folder} has lost {left:,} of {count:,} rows: is the disk full or "
                "damaged? Run the same command again"
            ) from error
        return Strings.concatenated(parts[::2]), Strings.concatenated(parts[1::2])

    def close(self) -> None:
        """Remove the files; may be called twice."""
        self._stack.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Writing:
    """Writes HFiles, one region after the other."""

    def __init__(self, folder: Path, family: Family, time: int, opened: ExitStack) -> None:
        self.files: list[HFile] = []
        self._folder = folder
        self._family = family
        self._time = time
        self._opened = opened
        self._writer: HFileWriter | None = None
        self._samples: list[bytes] = []

    def put(self, rows: Strings, values: Strings) -> None:
        if not len(rows):
            return
        if self._writer is None:
            path = self._folder / f"{len(self.files):05}"
            file = self._opened.enter_context(path.open("wb", buffering=1 << 20))
            self._writer = HFileWriter(file, self._family, self._time)
        self._writer.put(rows, values)
        self._samples += samples_of(rows)

    def finish(self) -> None:
        """Finish the file of a region, if it has rows."""
        if self._writer is not None:
            self._writer.close()
            self._opened.close()
            name = f"{len(self.files):05}"
            self.files.append(HFile(name, self._writer.rows, tuple(self._samples)))
        self._writer, self._samples = None, []


def samples_of(rows: Strings) -> list[bytes]:
    """Some of the sorted rows, including the first and the last."""
    numbers = np.unique(np.linspace(0, len(rows) - 1, SAMPLES).astype(np.intp))
    return rows.take(numbers).to_list()


def even_borders(buckets: int) -> NDArray[np.uint64]:
    """Bucket borders for rows that begin with a hash."""
    return np.array([(number << 64) // buckets for number in range(1, buckets)], dtype=np.uint64)


def sampled_borders(words: NDArray[np.uint64], buckets: int) -> NDArray[np.uint64]:
    """Bucket borders, from a sample of first words of rows."""
    words = np.sort(words)
    return words[np.arange(1, buckets) * len(words) // buckets] if len(words) else words


def buckets_for(rows: int) -> int:
    """Number of buckets for this many rows."""
    return min(MOST_BUCKETS, -(-rows // BUCKET_ROWS) or 1)


class HFiles:
    """Loads rows into the tables of a store.

    command: from `hbase_command`; alive: called every second while a tool runs; note: called with messages.
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
        self._tools = Tools(command, folder.log, alive)
        self._note = note
        self._families: dict[str, Family] = {}
        self._has_tools = False

    def start(self) -> None:
        """Call this first. Raises UsageError if HFiles cannot be written for a table. Starts the tools in the
        background, which takes Java seconds."""
        self._families = families(self._store)
        self._tools.start()

    def require_tools(self, *, wait: bool = True) -> None:
        """Raises UsageError if the tools are too old or configured for another HBase, StoreFailed if one
        fails. wait: False: check only if they have started."""
        if self._has_tools or not (wait or self._tools.has_started):
            return
        version = self._tools.version()
        shown = ".".join(map(str, version))
        if version < tools.LEAST_VERSION:
            raise UsageError(f"the command hbase is of HBase {shown}: 2.2 and later load HFiles")
        if version[0] > tools.TRIED_VERSION:
            self._note(f"the command hbase is of HBase {shown}, with which this has not been tried")
        meta, time = self._store.table("meta").name, self._store.server_time()
        if not self._tools.has(meta, CLOCK_ROW.decode(), time):
            raise UsageError(
                f"the command hbase does not find in {meta} what was written there through "
                f"{self._store.url}: it is configured for another HBase. Give it the configuration of this "
                "one (HBASE_CONF_DIR)"
            )
        self._folder.remove_copies(self._tools)
        self._has_tools = True

    def close(self) -> None:
        """Stop the tools."""
        self._tools.close()

    def finish(self) -> None:
        """Remove copies on other file systems, or report that they are left."""
        try:
            self._folder.remove_copies(self._tools)
        except ToolFailed as error:
            self._note(f"all is loaded, but {error}")

    def rows(self, table: str, time: int, borders: NDArray[np.uint64]) -> TableRows:
        """New buckets for a table's rows; see TableRows."""
        return TableRows(table, self._families[table], time, self._folder.local / _ROWS / table, borders)

    def hand_over(self, rows: TableRows, require: Callable[[], object]) -> None:
        """Load rows into their table. require: called just before loading, may raise. Raises StoreFailed if
        they cannot be loaded, and the errors of reads."""
        if rows.count:
            self.require_tools()
            self._repeated(rows.table, lambda: self._attempt(rows, require))
            rows.close()

    def hand_over_files(
        self, table: str, time: int, folder: str, files: Sequence[HFile], require: Callable[[], object]
    ) -> None:
        """Load rows from existing HFiles in a folder, which are kept."""
        self.require_tools()
        starts = self._store.region_starts(table)
        if not all(file.fits(starts) for file in files):
            raise StoreFailed(
                f"regions of {self._name(table)} were split after the files in {folder} were made: make them "
                "again, in another folder"
            )
        self._repeated(table, lambda: self._load(table, time, folder, files, require, "always.copy.files"))

    def hidden(self, table: str, time: int) -> int:
        """Number of rows that were loaded with this time, and that others have written or deleted since."""
        return self._tools.hidden(self._name(table), time)

    def fetched(self, uri: str) -> Path:
        """A local file, or a local copy of it."""
        return self._folder.fetched(uri, self._tools)

    def _repeated(self, table: str, attempt: Callable[[], str | None]) -> None:
        for number in range(1, ATTEMPTS + 1):
            problem = attempt()
            if problem is None:
                return
            if number < ATTEMPTS:
                self._note(f"loading {self._name(table)} again: {problem}")
        raise StoreFailed(
            f"loading rows into {self._name(table)} failed {ATTEMPTS} times: {problem}. What was loaded does "
            "no harm: run the same command again"
        )

    def _attempt(self, rows: TableRows, require: Callable[[], object]) -> str | None:
        """Write HFiles, load them and check their rows; returns the problem, or None."""
        folder = f"{_HFILES}/{rows.table}"
        self._folder.remove(folder, self._tools)
        family = self._families[rows.table].name.decode()
        files = rows.write(self._folder.local / folder / family, self._store.region_starts(rows.table))
        self._folder.publish(folder, self._tools)
        problem = self._load(rows.table, rows.time, self._folder.uri(folder), files, require)
        self._folder.remove(folder, self._tools)
        return problem

    def _load(
        self,
        table: str,
        time: int,
        folder: str,
        files: Sequence[HFile],
        require: Callable[[], object],
        *options: str,
    ) -> str | None:
        name = self._name(table)
        starts = self._store.region_starts(table)
        if not all(file.fits(starts) for file in files):
            return f"regions of {name} were split meanwhile"
        require()
        wanted = dict.fromkeys(("hbase.loadincremental.fail.if.need.split.hfile", *options), "true")
        # HBase's own limit is 32; all files may be of one region.
        wanted["hbase.mapreduce.bulkload.max.hfiles.perRegion.perFamily"] = str(max(32, len(files)))
        if prefix := self._families[table].bloom:
            wanted[BLOOM_PREFIX] = str(prefix)  # loaders without that option split files by this one
        try:
            set_to = [f"-D{option}={value}" for option, value in wanted.items()]
            self._tools.load(f"loading HFiles into {name}", folder, name, set_to)
        except ToolFailed as error:
            return str(error)
        samples, missing = [row for file in files for row in file.samples], 0
        for start in range(0, len(samples), LOOKED_FOR_AT_ONCE):
            self._tools.alive()
            times = self._times(table, samples[start : start + LOOKED_FOR_AT_ONCE])
            missing += int(np.count_nonzero(times < time))
        rows = sum(file.rows for file in files)
        if not missing:
            return None
        return f"{missing:,} of {len(samples):,} rows looked for in {name} are missing, of {rows:,} in all"

    def _times(self, table: str, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Times of the cells of rows, -1 if absent."""
        if table == INDEX:
            return self._store.drawers.times(np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES))
        cells = self._store.records(cast(RecordTable, table)).get(keys)
        return np.array([-1 if cell is None else cell.version for cell in cells], dtype=np.int64)

    def _name(self, table: str) -> str:
        return self._store.table(table).name


def families(store: HBaseStore) -> dict[str, Family]:
    """Storage attributes of the live tables. Raises UsageError if files cannot be written for one, or if the
    URL has no Thrift 2 gateway, which provides them; StoreUnreachable."""
    live = HBaseBackend(store.url).described()
    return {
        table: Family.of(each.name, store.table(table).column.rstrip(b":"), each.attributes)
        for table, each in live.items()
    }


def _search(rows: Strings, row: bytes) -> int:
    """Number of sorted rows before this one."""
    return bisect_left(range(len(rows)), row, key=rows.__getitem__)


def _save(file: BinaryIO, strings: Strings) -> None:
    size = strings.size
    lengths = strings.lengths if size is None else np.array([size])
    for array in (np.array(len(strings)), lengths.astype(np.int32), strings.content):
        np.save(file, array, allow_pickle=False)


def _load(file: BinaryIO) -> Strings:
    count, lengths, content = (np.load(file) for _ in range(3))
    return Strings(content, np.broadcast_to(lengths, int(count)).astype(np.int64))
