"""Rows of sketches that are lost: the check names what only the texts can bring back, and mends the rest."""

from collections.abc import Callable, Iterator

import pytest

from simhbase.admin.check import UNSKETCHED, Checker
from simhbase.errors import StoreFailed
from simhbase.index import Index
from simhbase.index.rows import Entry, document_key, listing_key
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import Writer
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from tests.command_line import texts
from tests.content import content
from tests.stopping import Crash, Stopping

PROFILES = pytest.mark.parametrize(
    "profile", [Profile(scheme="minhash"), Profile(verify=True)], ids=["minhash", "verified"]
)
(TEXT,) = texts(1)


@pytest.fixture(params=["memory", "rocksdb"])
def new_index(request, tmp_path) -> Iterator[Callable[[Profile], Index]]:
    opened: list[Index] = []

    def make(profile: Profile) -> Index:
        url = "memory:" if request.param == "memory" else f"rocksdb:{tmp_path}/{len(opened)}"
        store = create_store(url)
        write_profile(store, profile)
        opened.append(Index(store, read_profile(store)))
        return opened[-1]

    yield make
    for index in opened:
        index.close()


def lose_sketch(index: Index, document: str, kept: int | None) -> None:
    """Leaves so many bytes of a document's sketch, wherever the scheme keeps it; None: nothing of its row,
    if that has nothing else."""
    documents, listings = index.store.records("documents"), index.store.records("fingerprints")
    (found,) = documents.get([document_key(document)])
    entry = Entry.decode(document_key(document), found.value)
    if not index.profile.index_scheme.listed_sketching:
        cut = Entry(entry.fingerprint, entry.state, entry.sketch[: kept or 0])
        documents.put([(document_key(document), cut.encode(document_key(document)))], found.version)
        return
    key = listing_key(entry.fingerprint, document)
    (cell,) = listings.get([key])
    if kept is None:
        listings.delete([key])
    else:
        listings.put([(key, cell.value[:kept])], cell.version)


@PROFILES
@pytest.mark.parametrize("kept", [None, 0, 5])
def test_a_document_without_its_sketch_is_named_until_its_text_is_loaded_again(new_index, profile, kept):
    index = new_index(profile)
    fingerprints = index.fingerprinter.fingerprint_many([TEXT]).fingerprints
    index.add_batch(["a", "b"], fingerprints[[0, 0]])
    whole = content(index.store)
    lose_sketch(index, "a", kept)
    for repair in (False, True, False):
        report = Checker(index.store, profile.index_scheme, repair).check()
        assert report.problems == {UNSKETCHED: 1}
        assert report.examples == {UNSKETCHED: ["a"]}
    if profile.index_scheme.listed_sketching and kept is None:
        found = [match.id for match in index.find(TEXT, min_similarity=0.5).matches]
        assert found == ["b"], "nothing leads to a document without a listing"
        (by_id,) = index.find_ids(["a"])
        assert "lost" in by_id.reason
    else:
        with pytest.raises(StoreFailed, match="is damaged"):
            index.find(TEXT, min_similarity=0.5)
    assert index.add_batch(["a", "b"], fingerprints[[0, 0]]).unchanged == 2
    assert [match.id for match in index.find(TEXT).matches] == ["a", "b"]
    assert content(index.store) == whole


@PROFILES
def test_repair_removes_what_deleting_a_document_without_a_sketch_leaves(new_index, profile):
    for calls in range(100):
        index = new_index(profile)
        before = content(index.store)
        fingerprints = index.fingerprinter.fingerprint_many([TEXT]).fingerprints
        index.add_batch(["a"], fingerprints)
        lose_sketch(index, "a", None)
        try:
            Writer(Stopping(index.store, calls), profile.index_scheme).delete(["a"])
        except Crash:
            ended = False
        else:
            ended = True
        Checker(index.store, profile.index_scheme, repair=True).check()
        if index.fingerprints(["a"]) != [None]:
            assert Checker(index.store, profile.index_scheme).check().problems == {UNSKETCHED: 1}
            index.delete(["a"])
            Checker(index.store, profile.index_scheme, repair=True).check()
        assert content(index.store) == before
        if ended:
            return
    raise AssertionError("the delete never ends")
