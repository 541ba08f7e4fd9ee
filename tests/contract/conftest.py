"""The stores that the contract is checked against."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from simhbase.stores import create_store, open_store
from simhbase.stores.base import Store


@dataclass(frozen=True)
class Kind:
    """Stores of one scheme.

    url: a fresh store's URL, given a folder for its files and a number that no other store in the
    folder has. persists: the rows are still there when the store is opened again. opened: the same store,
    opened for writing; None: by its URL.
    """

    url: Callable[[Path, int], str]
    persists: bool
    opened: Callable[[int], Store] | None = None


@dataclass
class Backend:
    """Makes stores of one kind; close_all() ends all of them."""

    folder: Path
    kind: Kind
    opened: list[Store] = field(default_factory=list)

    def url(self, number: int) -> str:
        return self.kind.url(self.folder, number)

    def fresh(self) -> Store:
        number = len(self.opened)
        self.opened.append(self.kind.opened(number) if self.kind.opened else create_store(self.url(number)))
        return self.opened[-1]

    def reopened(self, store: Store) -> Store:
        store.close()
        self.opened.append(open_store(store.url, "write"))
        return self.opened[-1]

    def close_all(self) -> None:
        for store in self.opened:
            store.close()


EMBEDDED = {
    "memory": Kind(lambda folder, number: "memory:", persists=False),
    "rocksdb": Kind(lambda folder, number: f"rocksdb:{folder / str(number)}", persists=True),
}
LASTING = [name for name, kind in EMBEDDED.items() if kind.persists]
HBASE = pytest.param("hbase", marks=pytest.mark.hbase)
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)
REDIS = pytest.param("redis", marks=pytest.mark.redis)
SERVERS = ("postgresql", "redis", "hbase")
TURNS = cycle("ab")


def kind_called(name: str, request: pytest.FixtureRequest) -> Kind:
    if name == "hbase":
        cluster = request.getfixturevalue("hbase")
        # By turns: the versions of the store before may be up to a second ahead, and would be waited for.
        turn = next(TURNS)
        return Kind(
            lambda folder, number: cluster.empty_store(f"contract{number}{turn}"),
            persists=True,
            # Without a comparison with the schema, which takes as long as the rest.
            opened=lambda number: cluster.emptied(f"contract{number}{turn}"),
        )
    if name in ("postgresql", "redis"):
        server = request.getfixturevalue(name)
        return Kind(lambda folder, number: server.empty_store(f"contract{number}"), persists=True)
    return EMBEDDED[name]


def made(kind: Kind, folder: Path) -> Iterator[Backend]:
    backend = Backend(folder, kind)
    yield backend
    backend.close_all()


@pytest.fixture(params=[*EMBEDDED, POSTGRESQL, REDIS, HBASE])
def kind(request: pytest.FixtureRequest) -> Kind:
    return kind_called(request.param, request)


@pytest.fixture
def backend(kind: Kind, tmp_path: Path) -> Iterator[Backend]:
    yield from made(kind, tmp_path)


@pytest.fixture(params=[*LASTING, POSTGRESQL, REDIS, HBASE])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """The backends whose rows are still there when a store is opened again."""
    yield from made(kind_called(request.param, request), tmp_path)


@pytest.fixture(params=[*EMBEDDED, POSTGRESQL, REDIS])
def atomic(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """The backends that change all tables in one step."""
    yield from made(kind_called(request.param, request), tmp_path)


@pytest.fixture(params=[HBASE])
def hinting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """The backends whose tables are written separately."""
    yield from made(kind_called(request.param, request), tmp_path)


@pytest.fixture
def store(backend: Backend) -> Store:
    return backend.fresh()


def with_profiles(*profiles: str, stores: Sequence[str] = (*EMBEDDED, *SERVERS)) -> list[Any]:
    """Pairs of a store and a profile, for what no store implements itself: every profile in memory, the first
    one in the other stores."""
    pairs = [("memory", profile) for profile in profiles[1:]] + [(name, profiles[0]) for name in stores]
    return [pytest.param(pair, id="-".join(pair), marks=_marks(pair[0])) for pair in pairs]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    """The mark of what needs a server."""
    return [getattr(pytest.mark, name)] if name in SERVERS else []
