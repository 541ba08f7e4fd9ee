"""What stores have in common that change all their tables in one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar, cast

from msgspec import Meta as Allowed

from simhbase.drawers.layout import Layout
from simhbase.errors import TablesMissing
from simhbase.model.moment import LATEST
from simhbase.process.progress import Progress, no_progress
from simhbase.stores.backend import Backend
from simhbase.stores.base import (
    ATOMIC_TABLES,
    LARGEST_COMMIT,
    MET,
    TTL_ROW,
    Access,
    Cell,
    Records,
    RecordTable,
    Store,
    Version,
    now,
)
from simhbase.stores.meta import Meta

if TYPE_CHECKING:
    from simhbase.stores.pool import Pool

R = TypeVar("R", bound=Records)
T = TypeVar("T")
Seconds = Annotated[int, Allowed(ge=1, le=LATEST // 1000)]


class BaseStore(ABC, Generic[R]):
    """A store that one process writes. What needs nothing done in most stores does nothing here."""

    url: str
    tables: tuple[RecordTable, ...] = ATOMIC_TABLES
    multi_writer = False
    keeps_hints = False
    largest_commit = LARGEST_COMMIT
    _records: dict[RecordTable, R]
    _ttl: tuple[int | None] | None = None

    def records(self, table: RecordTable) -> R:
        return self._records[table]

    @abstractmethod
    def new_records(self, table: RecordTable) -> R:
        """What reads and writes a table."""

    def keep_counts(self) -> None:
        if MET not in self._records:
            self._records[MET] = self.new_records(MET)
            self.tables = (*ATOMIC_TABLES, MET)

    def ttl(self) -> int | None:
        """Seconds after which documents expire; cached."""
        if self._ttl is None:
            meta = Meta(self)
            seconds = meta.get(TTL_ROW)
            self._ttl = (None if seconds is None else meta.decode(TTL_ROW, seconds, Seconds),)
        return self._ttl[0]

    now = staticmethod(now)

    @abstractmethod
    def read_consistent(self, read: Callable[[], T]) -> T: ...

    def arrange(self, layout: Layout | None) -> None: ...

    def fail_fast(self) -> None: ...

    def refresh(self) -> None: ...

    def sync(self) -> None: ...

    def warnings(self) -> Sequence[str]:
        return ()

    def recount(self, *, repair: bool) -> Sequence[str]:
        return ()

    def require_writable(self) -> None: ...

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None: ...

    def counters(self) -> Mapping[str, int]:
        return {}

    def gauges(self) -> Mapping[str, int]:
        return {}


class ServerStore(BaseStore[R]):
    """A store on a server that any number of processes write."""

    multi_writer = True
    _client: Pool[Any]

    def __init__(self, url: str, access: Access) -> None:
        self.url = url
        self._access = access
        self._ahead = 0  # milliseconds of this machine's clock

    @abstractmethod
    def open(self) -> None:
        """Read the server's clock. Raises TablesMissing, and StoreFailed for a server that cannot be used or
        written to."""

    @abstractmethod
    def create(self, *, counts: bool) -> None:
        """Create what is missing. counts: also the table `met`."""

    @abstractmethod
    def existing(self) -> list[str]:
        """Names of what `drop` would delete."""

    @abstractmethod
    def drop(self) -> None: ...

    def now(self) -> int:
        """The server's clock."""
        return now() - self._ahead

    def _take_clock(self, before: int, server: int) -> None:
        """Notes how far this machine's clock is ahead of a server's that was asked since `before`. The call
        itself accounts for part of the difference."""
        self._ahead = max(before - server, 0) + min(now() - server, 0)

    def fail_fast(self) -> None:
        self._client.outage.fails_fast = True

    def counters(self) -> Mapping[str, int]:
        return {"retries": self._client.retries}

    def gauges(self) -> Mapping[str, int]:
        return {"connections_allowed": self._client.most, "connections_in_use": self._client.in_use}

    def close(self) -> None:
        self._client.close()


class ServerBackend(Backend):
    """A store on a server, which creates its tables when it is told to. kind: of the store."""

    on_server = True
    kind: type[ServerStore[Any]]

    def open(self, access: Access) -> Store:
        store = self.kind(self.url, access)
        try:
            store.open()
        except BaseException:
            store.close()
            raise
        return cast(Store, store)

    def create(self, access: Access = "write", *, counts: bool = False) -> Store:
        with closing(self.kind(self.url, "write")) as store:
            store.create(counts=counts)
        return self.open(access)

    def drop(self) -> None:
        self.droppable()
        with closing(self.kind(self.url, "write")) as store:
            store.drop()

    def droppable(self) -> list[str]:
        with closing(self.kind(self.url, "read")) as store:
            if there := store.existing():
                return there
        raise TablesMissing(f"{self.url}: there are no tables to drop")


class _Lockable(Protocol):
    def exclusive(self) -> AbstractContextManager[object]: ...


class LockedRecords(ABC):
    """Reads a row before it writes it, under the lock of a store that one process writes."""

    _store: _Lockable

    @abstractmethod
    def get(self, keys: Sequence[bytes]) -> list[Cell | None]: ...

    @abstractmethod
    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None: ...

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        with self._store.exclusive():
            (found,) = self.get([key])
            if (found and found.value) != expected:
                return found is not None and found.value == value
            self.put([(key, value)], found.version + 1 if found else 0)
            return True
