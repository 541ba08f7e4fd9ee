"""What the URL of a store leads to, whether there is a store or not. A backend says itself what it can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from simhbase.drawers.scheme import Scheme
from simhbase.errors import UsageError
from simhbase.stores.base import Access, NoteDamage, Store

MOST_TTL = 2**31 - 2  # seconds; HBase takes one more for never


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A live table: number of regions, durability, attributes of its column family."""

    name: str
    regions: int
    durability: str
    attributes: Mapping[str, str]


@dataclass
class Backend(ABC):
    """The store at a URL. Methods raise the errors of `simhbase.open`.

    folder: of an embedded store; on_server: a mistyped URL is an error there, not a new store;
    creates_itself: its tables need no administrator; has_administrator: of other stores, whether the URL
    names a gateway that creates, compares and drops tables; takes_hfiles: rows can be loaded as HFiles.
    """

    url: str
    folder: Path | None = field(init=False, default=None)
    on_server: ClassVar[bool] = False
    creates_itself: ClassVar[bool] = True
    has_administrator: bool = field(init=False, default=False)
    takes_hfiles: ClassVar[bool] = False

    def __post_init__(self) -> None:  # noqa: B027  # few have to
        """Parse the URL. Raises UsageError."""

    @property
    def absolute_url(self) -> str:
        """The URL for processes in other folders."""
        return self.url

    def is_same_folder(self, other: Backend) -> bool:
        """True for two URLs of one embedded store, also if one is a link to the other."""
        if self.folder is None or other.folder is None:
            return False
        return self.folder.resolve() == other.folder.resolve()

    @abstractmethod
    def open(self, access: Access) -> Store:
        """Open an existing store. Raises TablesMissing."""

    def open_damaged(self, note: NoteDamage) -> Store:
        """Open what can be read of a damaged store, which no other process may write meanwhile. Its tables
        leave out what cannot be read; note: called with what is lost by it. By default what the server cannot
        read is its error."""
        return self.open("read")

    @abstractmethod
    def create(self, access: Access = "write", *, counts: bool = False) -> Store:
        """Open a store for writing, creating what is missing. May be repeated. counts: also the table
        `met`."""

    @abstractmethod
    def drop(self) -> None:
        """Delete a store with all its data, or the remains of an interrupted creation. Raises
        TablesMissing."""

    @abstractmethod
    def droppable(self) -> list[str]:
        """Names of what `drop` would delete. Raises TablesMissing if there is nothing."""

    def copy(self, folder: str) -> None:
        """Copy an embedded store to a new folder. Raises UsageError if the folder exists, and for other
        stores."""
        raise UsageError(f"{self.url} cannot be copied to a folder")

    def table_options(self, **options: int | str | None) -> dict[str, Any]:
        """The given attributes of tables, without None. Raises UsageError for those that its tables cannot
        have."""
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name != "ttl":
                raise UsageError(
                    f"only for tables in HBase, and {self.url} is not an HBase store", parameter=name
                )
        if "ttl" in given:
            require_valid_ttl(given["ttl"])
        return given

    def create_tables(
        self, wanted: Mapping[str, Any], scheme: Callable[[], Scheme], *, counts: bool
    ) -> tuple[list[str], list[str]]:
        """Create the missing tables of a store that does not create itself, with these attributes. scheme:
        how the store is indexed. Returns the names of the created ones, and warnings."""
        return [], []

    def compare(self, wanted: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...], list[str]]:
        """Compare the attributes of tables. Returns the number compared (None: it has none), the names of
        those that could not be, and warnings. Raises SchemaDiffers."""
        return None, (), []

    def live_tables(self) -> Mapping[str, Any]:
        """The tables of a store that does not create itself, if there is somebody to ask."""
        return {}

    def creation_script(
        self, wanted: Mapping[str, Any], scheme: Callable[[], Scheme], *, counts: bool
    ) -> str:
        """A script for an administrator's shell that creates the tables."""
        raise UsageError(f"tables ddl is for stores in HBase (hbase://HOST/PREFIX), not {self.url}")

    def snapshot_script(self, name: str) -> str | None:
        """A script that takes snapshots of the tables; None: `copy` copies the store."""
        return None

    def clone_script(self, name: str) -> str | None:
        """A script that creates the tables from snapshots; None: a copy is a store."""
        return None

    def compaction_script(self) -> str | None:
        """A script that compacts the tables in full; None: `Store.compact` does."""
        return None


def require_valid_ttl(ttl: object) -> None:
    """Raises UsageError for a time to live that is no number of seconds, or too long."""
    if isinstance(ttl, bool) or not isinstance(ttl, int) or not 1 <= ttl <= MOST_TTL:
        raise UsageError(
            f"must be a whole number of seconds from 1 to {MOST_TTL}, not {ttl!r}", parameter="ttl"
        )
