"""The stored documents as a container, on every store."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import chain
from pathlib import Path

import pytest

import simhbase
from simhbase import Document, Index, Profile, StoredDocument
from simhbase.errors import UsageError
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.stores import create_store
from tests.command_line import result, texts
from tests.contract.conftest import EMBEDDED, kind_called


@pytest.fixture(params=[*EMBEDDED, pytest.param("hbase", marks=pytest.mark.hbase)])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    with closing(create_store(kind_called(request.param, request).url(tmp_path, 0))) as store:
        write_profile(store, Profile(verify=False))
        yield Index(store, read_profile(store))


def test_an_index_is_a_container_of_its_documents(index: Index):
    assert index
    assert list(index) == []
    assert len(index) == 0
    some = texts(5)
    index.add([Document(f"文/{n}", text, {"n": str(n % 2)}) for n, text in enumerate(some)])
    index.delete(["文/4"])
    index.add([Document("文/3", some[4], {"n": "1"})])

    assert sorted(index) == [f"文/{n}" for n in range(4)]
    assert len(index) == 4
    assert [each in index for each in ("文/3", "文/4", 3)] == [True, False, False]
    assert index["文/3"] == StoredDocument("文/3", index["文/3"].fingerprint, {"n": "1"})
    assert index["文/3"].fingerprint == index.find(some[4]).fingerprint
    with pytest.raises(KeyError, match="文/4"):
        index["文/4"]


def test_stored_documents_are_listed_by_tags_and_time(index: Index):
    index.add([Document(str(n), text, {"n": str(n % 2)}) for n, text in enumerate(texts(4))])
    assert {each.id for each in index.stored(tags={"n": "1"})} == {"1", "3"}
    assert {each.id for each in index.stored(since=timedelta(hours=1))} == set("0123")
    with pytest.raises(UsageError, match="in the future"):
        index.stored(since=timedelta(hours=-1))
    with pytest.raises(UsageError):
        index.stored(tags={"": "1"})


def test_pages_of_any_size_hold_every_document_once(index: Index, monkeypatch: pytest.MonkeyPatch):
    index.add([Document(f"文/{n}", text, {"n": str(n % 2)}) for n, text in enumerate(texts(10))])
    index.delete(["文/3"])

    def pages(**given: object) -> list[list[str]]:
        found, after = [], None
        while True:
            page = index.stored_page(after=after, **given)
            found.append([each.id for each in page.documents])
            if (after := page.after) is None:
                return found

    every = list(index)
    for limit in (1, 4, 8, 9, 10):
        found = pages(limit=limit)
        assert [each for page in found for each in page] == every
        assert max(map(len, found)) == min(limit, 9)
    assert sorted(chain(*pages(limit=2, tags={"n": "1"}))) == ["文/1", "文/5", "文/7", "文/9"]
    monkeypatch.setattr("simhbase.index.index.PAGE_READ", 1)  # a page ends with what the store reads at once
    assert sorted(chain(*pages(tags={"n": "0"}))) == [f"文/{n}" for n in range(0, 10, 2)]
    with pytest.raises(UsageError, match="limit: must be at least 1"):
        index.stored_page(limit=0)
    with pytest.raises(UsageError, match="in the future"):
        index.stored_page(since=timedelta(hours=-1))


def test_the_command_lists_documents(tmp_path: Path):
    with simhbase.open(f"rocksdb:{tmp_path}/s.db", create="default") as index:
        index.add([Document(str(n), text, {"n": str(n % 2)}) for n, text in enumerate(texts(3))])
        digits = {each.id: str(each.fingerprint) for each in index.stored()}
    listed = result("list", "--tag", "n=1", "--since", "1h", "--store", "rocksdb:s.db", cwd=tmp_path)
    assert listed == {"id": "1", "fingerprint": digits["1"], "tags": {"n": "1"}, "met": None}
