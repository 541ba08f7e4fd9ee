"""What a call has acknowledged is on the disk: it writes nothing behind its last sync."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simhbase.filing import SimHashFiling
from simhbase.layout import layout
from simhbase.prints import Prints
from simhbase.profile import Profile, write_profile
from simhbase.stores import create_store
from simhbase.writer import Writer

FILING = SimHashFiling(layout("5x2"), k=3)
WRITES = ("put", "delete", "add", "remove", "compare_and_set", "increment", "sync")


class Noting:
    """A store, or a table of it, that notes what is written and synced."""

    def __init__(self, real: object, noted: list[str]) -> None:
        self._real, self._noted = real, noted

    def __getattr__(self, name: str) -> object:
        found = getattr(self._real, name)
        if name == "drawers":
            return Noting(found, self._noted)
        if name == "records":
            return lambda table: Noting(found(table), self._noted)
        if name in WRITES:
            self._noted.append(name)
        return found


def add(store: object, **documents: int) -> object:
    values = np.array(list(documents.values()), dtype=np.uint64)
    return Writer(store, FILING).add(list(documents), Prints.bare(values))


@pytest.mark.parametrize(
    "call",
    [
        lambda store: write_profile(store, Profile()),
        lambda store: add(store, new=1),
        lambda store: add(store, there=1),
        lambda store: Writer(store, FILING).delete(["there"]),
        lambda store: Writer(store, FILING).finish(["there"]),
    ],
    ids=["a profile", "a new document", "a moved document", "a deletion", "a repair"],
)
def test_a_write_ends_with_a_sync(call: Callable[[object], object]) -> None:
    store = create_store("memory:")
    add(store, there=0)
    noted: list[str] = []
    call(Noting(store, noted))
    assert noted[-1] == "sync"
    assert len(noted) > 1


def test_an_unchanged_document_writes_nothing() -> None:
    store = create_store("memory:")
    add(store, there=0)
    noted: list[str] = []
    add(Noting(store, noted), there=0)
    assert noted == []
