"""The stores that the contract is checked against. A new one is a line in BACKENDS."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from simhbase.stores import create_store, open_store
from simhbase.stores.base import Store


@dataclass
class Backend:
    """Makes stores of one kind; close_all() ends all of them.

    url: a fresh store's URL, given a folder for its files and a number that no other store has.
    persists: the rows are still there when the store is opened again.
    """

    folder: Path
    url: Callable[[Path, int], str]
    persists: bool
    opened: list[Store] = field(default_factory=list)

    def fresh(self) -> Store:
        self.opened.append(create_store(self.url(self.folder, len(self.opened))))
        return self.opened[-1]

    def reopened(self, store: Store) -> Store:
        store.close()
        self.opened.append(open_store(store.url, "write"))
        return self.opened[-1]

    def close_all(self) -> None:
        for store in self.opened:
            store.close()


BACKENDS: dict[str, tuple[Callable[[Path, int], str], bool]] = {
    "memory": (lambda folder, number: "memory:", False),
    "rocksdb": (lambda folder, number: f"rocksdb:{folder / str(number)}", True),
}


def made(name: str, folder: Path) -> Iterator[Backend]:
    backend = Backend(folder, *BACKENDS[name])
    yield backend
    backend.close_all()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    yield from made(request.param, tmp_path)


@pytest.fixture(params=[name for name, (_, persists) in BACKENDS.items() if persists])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """The backends whose rows are still there when a store is opened again."""
    yield from made(request.param, tmp_path)


@pytest.fixture
def store(backend: Backend) -> Store:
    return backend.fresh()
