"""What a lookup says of itself, on every store and with every scheme."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import simhbase
from simhbase.errors import StoreFailed
from simhbase.index import Index
from simhbase.index.rows import Entry, PendingCell, document_key, listing_key
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import DocumentBatch
from simhbase.model.explanations import Candidate, Explanation
from simhbase.model.values import Document, Query
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.base import HintingStore
from tests.command_line import texts
from tests.contract.conftest import kind_called, with_profiles

TEXT, OTHER, THIRD = texts(3)
NEAR = TEXT + "。了"
PROFILES = {
    "verified": Profile(layout="2x1p1", verify=True, threshold=0.8, reach=7),
    "5x2": Profile(verify=False),
    "minhash": Profile(scheme="minhash"),
}


@pytest.fixture(params=with_profiles(*PROFILES))
def index(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Index]:
    kind, profile = request.param
    store = create_store(kind_called(kind, request).url(tmp_path, 0))
    write_profile(store, PROFILES[profile])
    with Index(store, read_profile(store)) as index:
        index.add([Document("a", TEXT), Document("near", NEAR), Document("b", OTHER)])
        yield index


def candidate(explanation: Explanation, document: str) -> Candidate:
    (found,) = (each for each in explanation.candidates if each.id == document)
    return found


def test_its_matches_are_those_of_find(index):
    explanation, lookup = index.explain(TEXT), index.find(TEXT)
    matches = [each for each in explanation.candidates if each.verdict == "match"]
    assert [(each.distance, each.id, each.fingerprint, each.similarity) for each in matches] == [
        (match.distance, match.id, match.fingerprint, match.similarity) for match in lookup.matches
    ]
    assert explanation.fingerprint == lookup.fingerprint
    assert not explanation.truncated


@pytest.mark.parametrize("layout", ["5x2", "6x3"])
def test_a_candidate_was_found_in_the_drawers_that_it_shares(layout):
    value, other = 0xF0E1D2C3B4A59687, 0xF0E1D2C3B4A59687 ^ 1 << 63 ^ 1 << 20
    with simhbase.open("memory:", create=Profile(verify=False, layout=layout, k=2)) as index:
        index.add_fingerprints(["one", "other"], [value, other])
        (explanation,), (lookup,) = index.explain_ids(["one"]), index.find_ids(["one"])
    matches = {match.id: match.drawers for match in lookup}
    assert len(matches["other"]) < len(matches["one"])
    assert {each.id: each.drawers for each in explanation.candidates} == matches


def test_each_drawer_says_what_it_holds(index):
    explanation = index.explain(TEXT)
    scheme = index.profile.index_scheme
    assert [drawer.flag for drawer in explanation.drawers] == list(range(1, scheme.tables + 1))
    (prefixes,) = scheme.prefixes(index.fingerprinter.fingerprint_many([TEXT]).fingerprints)
    assert [drawer.prefix for drawer in explanation.drawers] == [each.tobytes().hex() for each in prefixes]
    assert all(drawer.rows >= drawer.candidates >= 1 for drawer in explanation.drawers)
    assert candidate(explanation, "a").drawers == tuple(range(1, scheme.tables + 1))


def test_a_document_found_or_not_is_explained_where_it_is_asked_for(index):
    far = candidate(index.explain(TEXT, id="b"), "b")
    assert (far.verdict, far.drawers) == ("too far", ())
    assert candidate(index.explain(TEXT, id="never there"), "never there").verdict == "not stored"
    assert candidate(index.explain(TEXT, id="a"), "a").verdict == "match"


def test_a_document_that_moved_or_went_is_no_match(index):
    index.add([Document("near", THIRD)])
    index.delete(["b"])
    assert "match" not in [each.verdict for each in index.explain(NEAR).candidates if each.id == "near"]
    assert "match" not in [each.verdict for each in index.explain(OTHER).candidates]
    if index.store.keeps_hints:
        assert candidate(index.explain(OTHER), "b").verdict == "stale hint"


def test_stored_documents_are_explained_by_their_ids(index):
    explanation, unknown = index.explain_ids(["a", "never there"])
    assert candidate(explanation, "a").verdict == "match"
    assert unknown.reason == "no document is stored under this id"


def test_a_text_without_a_fingerprint_has_a_reason_and_no_drawers(index):
    explanation = index.explain("")
    assert (explanation.fingerprint, explanation.reason) == (None, "the text is empty")
    assert explanation.drawers == ()


def test_a_document_that_the_query_leaves_out_is_filtered(index):
    index.add([Document("tagged", TEXT, {"tenant": "a"})])
    (explanation,) = index.explain_ids(["a"], Query(tags={"tenant": "a"}))
    assert candidate(explanation, "tagged").verdict == "match"
    assert candidate(explanation, "a").verdict == "filtered"


def test_a_document_beyond_a_limit_is_no_match_as_in_find(index):
    index.add([Document("twin", TEXT)])
    cut = index.listing(1)
    found = {match.id for match in cut.find(TEXT).matches}
    judged = {each.id for each in cut.explain(TEXT).candidates if each.verdict == "match"}
    assert judged == found < {"a", "twin", "near"}


def test_a_drawer_that_is_cut_says_so(index):
    reader = Index(index.store, read_profile(index.store), drawer_limit=1)
    scheme, found = index.profile.index_scheme, index.fingerprinter.fingerprint_many([TEXT]).fingerprints
    more = scheme.keys(found)
    more[..., -1] ^= 0xFF
    beside = DocumentBatch(["beside"], replace(found, values=found.values ^ np.uint64(0xFF)))
    index.store.records("fingerprints").put(beside.listings(scheme), index.clock())
    index.store.drawers.add(more)
    explanation = reader.explain(TEXT)
    assert explanation.truncated
    assert all(drawer.rows == 1 for drawer in explanation.drawers)


def test_what_fingerprints_share_is_what_both_are_filed_in(index):
    scheme = index.profile.index_scheme
    batch = index.fingerprinter.fingerprint_many([TEXT, NEAR]).fingerprints
    same = (scheme.prefixes(batch[:1]) == scheme.prefixes(batch[1:])).all(axis=2)[0]
    (shared,) = scheme.meetings(batch[:1], batch[1:])
    assert list(shared) == (np.flatnonzero(same) + 1).tolist()
    assert candidate(index.explain(TEXT), "near").drawers == shared
    told = {match.id: match.drawers for match in index.find(TEXT).matches}
    assert told["near"] == (None if index.profile.scheme == "minhash" else shared)


@pytest.mark.parametrize("index", with_profiles("minhash"), indirect=True)
def test_a_document_that_no_drawer_led_to_was_not_met(index):
    found = candidate(index.explain(TEXT, id="b", min_similarity=0.0), "b")  # all are near enough
    assert (found.verdict, found.drawers) == ("not met", ())


@pytest.mark.parametrize("index", with_profiles("verified", "minhash"), indirect=True)
def test_a_damaged_sketch_is_an_error(index):
    (value,) = index.fingerprints(["b"])
    if index.profile.scheme == "minhash":
        table, key, empty = "fingerprints", listing_key(value, "b"), b""
    else:
        table, key, empty = "documents", document_key("b"), Entry(value).encode(document_key("b"))
    (cell,) = index.store.records(table).get([key])
    index.store.records(table).put([(key, empty)], cell.version)
    with pytest.raises(StoreFailed, match=r"sketch of.*is damaged"):
        index.explain(OTHER, min_similarity=0.5)


@pytest.mark.parametrize("index", with_profiles("verified", stores=["hbase"]), indirect=True)
def test_a_claim_that_is_not_decided_is_no_match(index):
    (stored,) = index.documents(["b"])
    cell = PendingCell(0, stored.fingerprint, lease=1000).encode(document_key("b"))
    cells, row = cast(HintingStore, index.store).document_cells, document_key("b")
    index.delete(["b"])
    cells.put(b"0123456789abcdef", [(row, cell)], [index.clock() + 1000])
    assert candidate(index.explain(OTHER, id="b"), "b").verdict == "pending claim"


def test_what_a_claim_left_behind_before_a_deletion_is_no_pending_claim(index):
    (stored,) = index.documents(["b"])
    if not index.store.keeps_hints:  # claims leave nothing there, and a deletion removes the hints
        index.delete(["b"])
        assert not [each for each in index.explain(OTHER).candidates if each.id == "b"]
        return
    cell = PendingCell(0, stored.fingerprint, lease=200).encode(document_key("b"))
    cells, row = cast(HintingStore, index.store).document_cells, document_key("b")
    cells.put(b"0123456789abcdef", [(row, cell)], [index.clock()])
    index.delete(["b"])
    assert candidate(index.explain(OTHER), "b").verdict == "stale hint"
    cells.put(b"0123456789abcdef", [(row, cell)], [index.clock() + 1000])
    assert candidate(index.explain(OTHER), "b").verdict == "pending claim"
