"""A store that many processes write, as HBase is, with a state that is a value.

Every cell has a version: rows of the index and of meta get the time of the server, one clock that never
shows a time twice; the others the version that the writer gives. The last writer wins by version, of one
version whoever comes last. A delete up to a version hides puts of that version and below for ever.

`carried_out` is the whole server, a function of a state and a call. `SimulatedStore` only puts calls and
answers into the form of the store protocol; where its calls go is up to `ask`, so that a test can note,
hold back, repeat or refuse them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.layout import Layout
from simhbase.drawers.rowkeys import KEY_BYTES, fingerprints_of
from simhbase.process.progress import Progress, no_progress
from simhbase.stores.arrays import limited, to_bytes
from simhbase.stores.base import (
    LARGEST_COMMIT,
    RECORD_TABLES,
    Cell,
    DrawerRows,
    IndexRows,
    NamedCells,
    NearLimits,
    NearRows,
    RecordTable,
    Row,
    Size,
    Version,
    near_by_read,
    now,
)
from simhbase.stores.hbase import HBaseStore

T = TypeVar("T")
# Cells beside the own ones of documents rows are in a table of their own, under the row's key and the name.
NAMED = "documents, named"
TABLES = ("index", *RECORD_TABLES, NAMED)
NAME_BYTES = 16


class Call(NamedTuple):
    """A call of a table. number: rows of each key at most, or by how much a counter goes up."""

    table: str
    method: str
    keys: tuple[bytes, ...]
    values: tuple[bytes, ...] = ()
    versions: tuple[int, ...] | None = None
    number: int | None = None

    @property
    def is_put(self) -> bool:
        return self.method == "put"


class Kept(NamedTuple):
    """What is kept of a key: the latest put, and up to which version puts are hidden. A cell that is hidden
    has version 0 and no value."""

    key: bytes
    version: int
    value: bytes | None
    hidden: int


Table = tuple[Kept, ...]  # by key
State = tuple[Table, ...]  # as TABLES
Answer = tuple[Any, ...]
EMPTY: State = ((),) * len(TABLES)


def table_of(state: State, name: str) -> Table:
    return state[TABLES.index(name)]


def kept(table: Table, key: bytes) -> Kept:
    """What a table has of a key."""
    at = bisect_left(table, (key,))
    return table[at] if at < len(table) and table[at].key == key else Kept(key, 0, None, 0)


def visible(table: Table, start: bytes = b"", stop: bytes = b"") -> Iterator[Kept]:
    """The cells of a table from `start` to before `stop` that are there."""
    for each in table[bisect_left(table, (start,)) : bisect_left(table, (stop,)) if stop else None]:
        if each.value is not None:
            yield each


def carried_out(state: State, call: Call, least_time: int = 0) -> tuple[State, Answer]:
    """What a call makes of a state, and its answer. The server's clock shows `least_time` at least."""
    at = TABLES.index(call.table)
    table = state[at]
    if call.method in ("put", "delete", "compare_and_set", "increment"):
        table, answer = _written(table, call, _time(state, least_time))
        return (*state[:at], table, *state[at + 1 :]), answer
    if call.method == "get_all":
        return state, tuple(_all_cells(state, key) for key in call.keys)
    if call.method == "iterate_all":
        return state, tuple((key, _all_cells(state, key)) for key in _rows(state, *call.keys))
    return state, _read(table, call)


def _rows(state: State, start: bytes, stop: bytes) -> list[bytes]:
    """The keys of documents rows that have any cell."""
    own = {each.key for each in visible(table_of(state, "documents"), start, stop)}
    named = {each.key[:-NAME_BYTES] for each in visible(table_of(state, NAMED), start)}
    return sorted(own | {key for key in named if key >= start and (not stop or key < stop)})


def _all_cells(state: State, row: bytes) -> tuple[tuple[bytes, Cell], ...]:
    """The cells of a documents row by name, the own one under the empty one."""
    own = kept(table_of(state, "documents"), row)
    named = (each for each in visible(table_of(state, NAMED), row) if each.key[:-NAME_BYTES] == row)
    found = [(b"", own), *((each.key[-NAME_BYTES:], each) for each in named)]
    return tuple((name, Cell(each.value, each.version)) for name, each in found if each.value is not None)


def _time(state: State, least: int) -> int:
    """The next time of the server's clock: later than all that it has given."""
    given = [max(each.version, each.hidden) for name in ("index", "meta") for each in table_of(state, name)]
    return max(least, *given, 0) + 1


def _written(table: Table, call: Call, time: int) -> tuple[Table, Answer]:
    match call.method:
        case "put":
            versions = call.versions or (time,) * len(call.keys)
            for key, value, version in zip(call.keys, call.values, versions, strict=True):
                table = _put(table, key, value, version)
        case "delete":
            versions = call.versions or tuple(kept(table, key).version for key in call.keys)
            for key, version in zip(call.keys, versions, strict=True):
                table = _hide(table, key, version)
        case "compare_and_set":
            ((key, there),) = ((key, kept(table, key)) for key in call.keys)
            expected, value = call.values if len(call.values) == 2 else (None, *call.values)
            if there.value != expected:
                return table, (there.value == value,)
            return _put(table, key, value, max(time, there.version + 1)), (True,)
        case "increment":
            (key,) = call.keys
            count = int.from_bytes(kept(table, key).value or b"") + 1
            return _put(table, key, count.to_bytes(8), time), (count,)
    return table, ()


def _put(table: Table, key: bytes, value: bytes, version: int) -> Table:
    there = kept(table, key)
    if version <= there.hidden or version < there.version:
        return table
    return _with(table, Kept(key, version, value, there.hidden))


def _hide(table: Table, key: bytes, version: int) -> Table:
    there = kept(table, key)
    if version <= there.hidden:
        return table
    if there.version <= version:
        return _with(table, Kept(key, 0, None, version))
    return _with(table, there._replace(hidden=version))


def _with(table: Table, each: Kept) -> Table:
    at = bisect_left(table, (each.key,))
    behind = at + (at < len(table) and table[at].key == each.key)
    return (*table[:at], each, *table[behind:])


def _read(table: Table, call: Call) -> Answer:
    match call.method:
        case "get":
            there = (kept(table, key) for key in call.keys)
            return tuple(None if each.value is None else Cell(each.value, each.version) for each in there)
        case "scan":
            return tuple(_starting(table, prefix)[: call.number] for prefix in call.keys)
        case "iterate":
            start, stop = call.keys
            found = visible(table, start, stop)
            return tuple((each.key, Cell(each.value or b"", each.version)) for each in found)
    raise AssertionError(call)


def _starting(table: Table, prefix: bytes) -> tuple[Row, ...]:
    rows = []
    for each in table[bisect_left(table, (prefix,)) :]:
        if not each.key.startswith(prefix):
            break
        if each.value is not None:
            rows.append((each.key, Cell(each.value, each.version)))
    return tuple(rows)


Ask = Callable[[Call], Answer]


class SimulatedStore:
    """See simhbase.stores.base.Store.

    fine: a call of several keys is one call a key, as regions carry them out, in order.
    """

    url = "simulated:"
    tables = RECORD_TABLES
    multi_writer = True
    keeps_hints = True
    largest_commit = LARGEST_COMMIT
    commit = HBaseStore.commit  # the order of HBase's writes is what tests explore

    def __init__(self, ask: Ask, fine: bool = False) -> None:
        self.drawers = SimulatedDrawers(ask, fine)
        self._records = {table: SimulatedRecords(ask, table, fine) for table in self.tables}
        self.document_cells = SimulatedNamedRecords(ask, fine)

    def records(self, table: RecordTable) -> "SimulatedRecords":
        return self._records[table]

    def put_pending(
        self,
        name: bytes,
        documents: Sequence[tuple[bytes, bytes]],
        listings: Sequence[tuple[bytes, bytes]],
        keys: NDArray[np.uint8],
        versions: Sequence[int],
    ) -> None:
        self.document_cells.put(name, documents, versions)
        self.records("fingerprints").put(listings, versions)
        self.drawers.add(keys)

    def ttl(self) -> None:
        return None

    def now(self) -> int:
        return now()

    def arrange(self, layout: Layout | None) -> None:
        pass

    def exclusive(self) -> AbstractContextManager[object]:
        return nullcontext()

    def read_consistent(self, read: Callable[[], T]) -> T:
        return read()

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        return near_by_read(self, value, prefixes, limits)

    def refresh(self) -> None:
        pass

    def warnings(self) -> Sequence[str]:
        return ()

    def recount(self, *, repair: bool) -> Sequence[str]:
        return ()

    def require_writable(self) -> None:
        pass

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        pass

    def sync(self) -> None:
        pass

    def counters(self) -> Mapping[str, int]:
        return {}

    def gauges(self) -> Mapping[str, int]:
        """Nothing is measured."""
        return {}

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Table:
    ask: Ask
    table: str
    fine: bool

    def many(
        self,
        method: str,
        keys: Sequence[bytes],
        values: Sequence[bytes] = (),
        versions: Sequence[int] | None = None,
        number: int | None = None,
    ) -> Answer:
        """The answer to a call of many keys, none to one of none."""
        if not keys:
            return ()
        call = Call(
            self.table,
            method,
            tuple(keys),
            tuple(values),
            None if versions is None else tuple(versions),
            number,
        )
        if not self.fine or len(keys) == 1:
            return self.ask(call)
        return tuple(part for number in range(len(keys)) for part in self.ask(_only(call, number)))


def _only(call: Call, number: int) -> Call:
    """A call with one of its keys."""
    part = slice(number, number + 1)
    versions = None if call.versions is None else call.versions[part]
    return call._replace(keys=call.keys[part], values=call.values[part], versions=versions)


class SimulatedDrawers:
    """See simhbase.stores.base.Drawers."""

    def __init__(self, ask: Ask, fine: bool) -> None:
        self._table = _Table(ask, "index", fine)

    def add(self, keys: NDArray[np.uint8], version: int | None = None) -> None:
        """version: what no store admits, and a test puts in place of the server's time."""
        rows = to_bytes(keys)
        self._table.many("put", rows, [b""] * len(rows), None if version is None else [version] * len(rows))

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        self._table.many("delete", to_bytes(keys), versions=times.tolist())

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        found = [-1 if cell is None else cell.version for cell in self._table.many("get", to_bytes(keys))]
        return np.array(found, dtype=np.int64).reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        enough = None if limit is None else limit + 1
        found = self._table.many("scan", to_bytes(prefixes), number=enough)
        rows = fingerprints_of(b"".join(key for rows in found for key, _ in rows))
        yield limited(0, np.array(list(map(len, found)), dtype=np.int64), rows, limit)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        found = self._table.ask(Call("index", "iterate", (start, stop)))
        if found:
            keys = np.frombuffer(b"".join(key for key, _ in found), dtype=np.uint8).reshape(-1, KEY_BYTES)
            yield IndexRows(keys, np.array([cell.version for _, cell in found], dtype=np.int64))

    def approximate_size(self) -> Size:
        rows = len(self._table.ask(Call("index", "iterate", (b"", b""))))
        return Size(rows, rows * KEY_BYTES)


class SimulatedRecords:
    """See simhbase.stores.base.Records."""

    def __init__(self, ask: Ask, table: RecordTable, fine: bool) -> None:
        self._table = _Table(ask, table, fine)

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        return list(self._table.many("get", keys))

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        if not isinstance(version, Sequence):
            rows = list(dict(rows).items())
            version = None if version is None else [version] * len(rows)
        self._table.many("put", [key for key, _ in rows], [value for _, value in rows], version)

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        self._table.many("delete", keys, versions=versions)

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        return [list(found) for found in self._table.many("scan", prefixes, number=limit)]

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        found = self._table.ask(Call(self._table.table, "iterate", (start, stop)))
        if found:
            yield list(found)

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        values = (value,) if expected is None else (expected, value)
        (done,) = self._table.ask(Call(self._table.table, "compare_and_set", (key,), values))
        return bool(done)

    def increment(self, key: bytes) -> int:
        (count,) = self._table.ask(Call(self._table.table, "increment", (key,)))
        return int(count)

    def approximate_size(self) -> Size:
        found = self._table.ask(Call(self._table.table, "iterate", (b"", b"")))
        return Size(len(found), sum(len(key) + len(cell.value) for key, cell in found))


class SimulatedNamedRecords:
    """See simhbase.stores.base.NamedRecords."""

    def __init__(self, ask: Ask, fine: bool) -> None:
        self._own, self._named = _Table(ask, "documents", fine), _Table(ask, NAMED, fine)

    def get(self, keys: Sequence[bytes]) -> list[NamedCells]:
        return list(map(dict, self._own.many("get_all", keys)))

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[tuple[bytes, NamedCells]]]:
        found = self._own.ask(Call("documents", "iterate_all", (start, stop)))
        if found:
            yield [(key, dict(cells)) for key, cells in found]

    def put(self, name: bytes, rows: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        self._named.many("put", [key + name for key, _ in rows], [value for _, value in rows], versions)

    def delete(self, cells: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        self._named.many("delete", [key + name for key, name in cells], versions=versions)


class Server:
    """The state of one store, and who asks it: `least_time` is what its clock shows at least."""

    def __init__(self, state: State = EMPTY) -> None:
        self.state = state
        self.least_time = 0

    def ask(self, call: Call) -> Answer:
        self.state, answer = carried_out(self.state, call, self.least_time)
        return answer
