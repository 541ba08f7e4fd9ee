"""What a call has acknowledged is on the disk: it writes nothing behind its last sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest

from simhbase.admin.check import Checker
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.rows import listing_key
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.base import Store
from simhbase.stores.rocksdb import database

SCHEME = SimHashScheme(layout("5x2"), k=3)


@pytest.fixture
def empty(tmp_path) -> Iterator[Store]:
    with closing(create_store(f"rocksdb:{tmp_path}/store")) as opened:
        yield opened


@pytest.fixture
def store(empty) -> Store:
    add(empty, there=0)
    return empty


@pytest.fixture
def noted(monkeypatch) -> list[str]:
    """What is written and synced from now on."""
    notes: list[str] = []

    def note(owner: type, name: str) -> None:
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, **named: notes.append(name) or real(*given, **named))

    note(database.Database, "write")
    note(database.Database, "sync")
    return notes


def add(store: Store, **documents: int) -> object:
    values = np.array(list(documents.values()), dtype=np.uint64)
    return Writer(store, SCHEME).add(DocumentBatch(list(documents), FingerprintBatch.bare(values)))


@pytest.mark.parametrize(
    "call",
    [
        lambda store: add(store, new=1),
        lambda store: add(store, there=1),
        lambda store: Writer(store, SCHEME).delete(["there"]),
    ],
    ids=["a new document", "a moved document", "a deletion"],
)
def test_a_change_of_documents_is_one_write_and_one_sync(store, noted, call: Callable[[Store], object]):
    call(store)
    assert noted == ["write", "sync"]


def test_a_profile_is_synced(empty, noted):
    write_profile(empty, Profile(verify=False))
    assert "write" in noted
    assert noted[-1] == "sync"


def test_a_repair_is_synced(store, noted):
    store.records("fingerprints").delete([listing_key(0, "there")])
    Checker(store, SCHEME, repair=True).check()
    assert noted.count("write") > 1
    assert noted[-1] == "sync"


def test_an_unchanged_document_writes_nothing(store, noted):
    add(store, there=0)
    assert noted == []


def test_a_deletion_of_nothing_writes_nothing(store, noted):
    assert Writer(store, SCHEME).delete(["nobody"]) == 0
    assert noted == []
