"""Scopes of several sizes and ages: what statistics say of them, what expires, and a drop that is stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import simhbase
from simhbase import Document, Index
from simhbase.admin import Administrator, stats
from simhbase.admin.check import Checker
from simhbase.admin.vacuum import Vacuum
from simhbase.index.scoped import StoreOfScopes
from simhbase.index.stored_profile import write_profile
from simhbase.profile.profile import make_profile
from simhbase.stores import create_store
from simhbase.stores.base import now
from tests.contract.conftest import EMBEDDED, Backend, kind_called
from tests.near import versions

SIZES = {"a": 300, "ab": 5}
TTL = 1000  # seconds


@pytest.fixture
def whole(backend: Backend) -> Iterator[Index]:
    """A store of two scopes that have texts in common."""
    texts = list(versions(40, 1, words=40))
    with simhbase.open(backend.url(0), create="default", scoped=True) as index:
        for scope, size in SIZES.items():
            documents = [Document(str(number), texts[number % len(texts)]) for number in range(size)]
            index.within(scope).add(documents)
        yield index


def test_statistics_are_of_the_scope(whole: Index) -> None:
    for scope, size in SIZES.items():
        index = whole.within(scope)
        distinct = {each.fingerprint for each in index.stored()}
        for exact in (False, True):
            found = Administrator(index).stats(exact)
            assert (found.documents, found.fingerprints, found.exact) == (size, len(distinct), True)
            assert found.index_rows == len(distinct) * index.profile.index_scheme.tables
            assert found.drawers.sampled > 0
    assert Administrator(whole).stats(exact=True).documents == sum(SIZES.values())
    assert Administrator(whole.within("new")).stats().documents == 0


def test_of_a_large_scope_some_ranges_are_read(whole: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "SAMPLED", 100)
    found = Administrator(whole.within("a")).stats()
    least, most = found.ranges["documents"]
    assert not found.exact
    assert "documents" in found.estimates
    assert least <= SIZES["a"] <= most
    assert Administrator(whole.within("a")).stats(exact=True).documents == SIZES["a"]


def test_what_a_stopped_drop_has_left_is_dropped_by_the_next(
    whole: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = type(whole.within("a"))
    delete_seen, removed = scope.delete_seen, list[int]()

    def stopping(self: Index, seen: Mapping[str, int]) -> int:
        if len(removed) == 3:
            raise KeyboardInterrupt
        removed.append(delete_seen(self, seen))
        return removed[-1]

    with monkeypatch.context() as patch:
        patch.setattr(scope, "delete_seen", stopping)
        with pytest.raises(KeyboardInterrupt):
            Administrator(whole).drop_scope("a")
    left = SIZES["a"] - sum(removed)
    assert len(whole.within("a")) == left > 0
    assert "a" in Administrator(whole).scopes()
    assert Administrator(whole).drop_scope("a") == left
    assert Administrator(whole).scopes() == ["ab"]
    assert len(whole.within("ab")) == SIZES["ab"]
    assert Checker(whole.store, whole.profile.index_scheme).check().clean


@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize("profile", ["default", "complete"])
def test_documents_of_a_scope_expire_as_elsewhere(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, profile: str
) -> None:
    ahead = 0
    store = create_store(kind_called(kind, request).url(tmp_path, 0))
    stored = write_profile(store, make_profile({}, profile), ttl=TTL, scoped=True)
    text, other = list(versions(2, 1, words=40))[:2]
    with StoreOfScopes(store, stored, clock=lambda: now() + ahead) as whole:
        old, young = whole.within("old"), whole.within("young")
        old.add([Document("d", text), Document("e", other)])
        ahead = (TTL - 5) * 1000
        young.add([Document("d", text)])
        assert [match.id for match in old.find(text).matches if match.id == "d"] == ["d"]
        ahead = (TTL + 5) * 1000
        assert (old.find(text).matches, len(old), old.documents(["d"])) == ((), 0, [None])
        assert [match.id for match in young.find(text).matches] == ["d"]
        assert Administrator(old).stats().documents == 0
        assert old.claim("f", text).accepted
        assert Vacuum(store, whole.profile.index_scheme, clock=whole.clock).run().expired == 2
        assert (sorted(old), sorted(young)) == (["f"], ["d"])
        assert Checker(store, whole.profile.index_scheme, clock=whole.clock).check().clean
