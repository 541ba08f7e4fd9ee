"""Tags of documents: kept by every way of writing, and what lookups are limited by, in every store."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from secrets import token_hex

import pytest

from simhbase import Document, Index, Profile, SharedLookups, StoredDocument
from simhbase.admin.check import Checker
from simhbase.errors import Conflict, UsageError
from simhbase.index import open_index
from simhbase.index.rows import document_key
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.index.writer import Writer
from simhbase.model.values import Query
from simhbase.stores import create_store
from simhbase.stores.base import Store, now
from tests.command_line import texts
from tests.contract.conftest import kind_called, with_profiles
from tests.kept import vacuumed
from tests.selection import load_unique

PROFILES = {
    "verified": Profile(verify=True),
    "5x2": Profile(verify=False),
    "minhash": Profile(scheme="minhash"),
}
A, B = {"tenant": "a"}, {"tenant": "b"}
BOTH = {"tenant": "a", "source": "wire"}


@pytest.fixture(
    scope="module",
    params=with_profiles(*PROFILES),
)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for all tests, which have texts of their own: tables of HBase take seconds to make."""
    kind, profile = request.param
    place = tmp_path_factory.mktemp("tags")
    with closing(create_store(kind_called(kind, request).url(place, list(PROFILES).index(profile)))) as store:
        write_profile(store, PROFILES[profile])
        yield store


@pytest.fixture
def index(store: Store) -> Index:
    return Index(store, read_profile(store))


@pytest.fixture
def name() -> str:
    """What ids of a test begin with."""
    return token_hex(4)


@pytest.fixture
def text(name: str) -> str:
    return texts(1, seed=int(name, 16))[0]


@pytest.fixture
def other(name: str) -> str:
    return texts(1, seed=int(name, 16) + 1)[0]


def found(index: Index, text: str, tags: Mapping[str, str] | None = None) -> list[str]:
    return [match.id[8:] for match in index.find(text, tags=tags).matches]


def tags(index: Index, *ids: str) -> list[Mapping[str, str] | None]:
    return [each and each.tags for each in index.documents(ids)]


def is_clean(index: Index) -> bool:
    report = Checker(index.store, index.profile.index_scheme).check()
    return report.clean and (index.store.keeps_hints or not report.garbage)


def test_lookups_are_limited_to_documents_that_have_all_tags(index, name, text):
    given = {"a": A, "b": B, "both": BOTH, "none": {}}
    index.add([Document(name + each, text, tagged) for each, tagged in given.items()])
    assert found(index, text) == found(index, text, {}) == ["a", "b", "both", "none"]
    assert found(index, text, A) == ["a", "both"]
    assert found(index, text, BOTH) == ["both"]
    assert found(index, text, {"source": "wire"}) == ["both"]
    assert found(index, text, {"source": "a"}) == found(index, text, {"wire": "source"}) == []
    (lookup,) = index.find_ids([f"{name}none"], Query(tags=B))
    assert [match.id for match in lookup.matches] == [f"{name}b"]
    (lookup,) = index.find_fingerprints([lookup.fingerprint], Query(tags=B))
    assert [match.id for match in lookup.matches] == [f"{name}b"]
    assert is_clean(index)


def test_what_is_stored_has_its_tags(index, name, text):
    index.add([Document(name, text, BOTH), Document(f"{name}bare", text)])
    fingerprint = index.find(text).fingerprint
    assert index.documents([name, "unknown", f"{name}bare"]) == [
        StoredDocument(name, fingerprint, BOTH),
        None,
        StoredDocument(f"{name}bare", fingerprint),
    ]


def test_an_add_replaces_tags_even_where_the_text_is_the_same(index, name, text, other):
    index.add([Document(name, text, A)])
    report = index.add([Document(name, text, B)])
    assert (report.added, report.updated, report.unchanged) == (0, 0, 1)
    assert tags(index, name) == [B]
    assert (found(index, text, A), found(index, text, B)) == ([], [""])
    assert index.add([Document(name, other, B)]).updated == 1
    assert (found(index, text, B), found(index, other, B)) == ([], [""])
    index.add([Document(name, other)])
    assert tags(index, name) == [{}]
    assert is_clean(index)


def test_an_add_of_the_same_tags_writes_nothing(index, name, text):
    index.__dict__["writer"] = Writer(index.store, index.profile.index_scheme, lambda: now() - 3_600_000)
    index.add([Document(name, text, BOTH)])
    del index.__dict__["writer"]
    (before,) = index.store.records("documents").get([document_key(name)])
    index.add([Document(name, text, dict(reversed(BOTH.items())))])
    assert index.store.records("documents").get([document_key(name)]) == [before]


def test_a_deleted_document_leaves_no_tags_behind(index, name, text):
    index.add([Document(name, text, A)])
    index.delete([name])
    assert (tags(index, name), found(index, text, A)) == ([None], [])
    index.add([Document(name, text)])
    assert tags(index, name) == [{}]


def test_a_claim_that_is_accepted_stores_its_tags(index, name, text, other):
    ids = [f"{name}{letter}" for letter in "abc"]
    claims = index.claim_many(
        [Document(ids[0], text, A), Document(ids[1], text, B), Document(ids[2], other, BOTH)]
    )
    assert [claim.outcome for claim in claims] == ["accepted", "duplicate", "accepted"]
    assert tags(index, *ids) == [A, None, BOTH]
    assert found(index, text, A) == ["a"]
    assert is_clean(index)


def test_a_claim_is_decided_over_all_tags(index, name, text):
    index.add([Document(name, text, A)])
    claim = index.claim(f"{name}b", text, tags=B)
    assert (claim.outcome, claim.match.id) == ("duplicate", name)


def test_a_repeated_claim_gets_the_same_answer_and_changes_no_tags(index, name, text, other):
    assert index.claim(name, text, tags=A).accepted
    assert index.claim(name, text, tags=B).accepted
    assert index.claim(name, text).accepted
    assert tags(index, name) == [A]
    with pytest.raises(Conflict):
        index.claim(name, other, tags=B)
    assert tags(index, name) == [A]


def test_a_claim_after_a_delete_gets_its_own_tags(index, name, text):
    index.claim(name, text, tags=A)
    index.delete([name])
    assert index.claim(name, text, tags=B).accepted
    assert tags(index, name) == [B]


def test_a_replacing_claim_replaces_tags(index, name, text, other):
    index.add([Document(name, text, A)])
    prints = index.fingerprinter.fingerprint_many([text, other]).fingerprints
    for number, tagged in ((0, BOTH), (1, A)):
        claimed = index.claim_batch(
            [name], prints[number : number + 1], replacing=True, tags=[tuple(sorted(tagged.items()))]
        )
        assert claimed.claims[0].accepted
        assert tags(index, name) == [tagged]


def test_tags_that_cannot_be_stored_are_rejected_and_the_others_stored(index, name, text, other):
    documents = [
        Document(f"{name}long", text, {"tenant": "x" * 256}),
        Document(f"{name}good", other, A),
        Document(f"{name}long", text, A),
    ]
    report = index.add(documents)
    assert report.added == 1
    assert [(each.id, each.reason) for each in report.rejected] == [
        (f"{name}long", "the tag 'tenant' has 256 bytes in UTF-8, at most 255 are allowed"),
        (f"{name}long", "the same id came earlier in the same call"),
    ]
    claims = index.claim_many(documents)
    assert [claim.outcome for claim in claims] == ["rejected", "accepted", "rejected"]
    assert "256 bytes" in claims[0].reason


def test_a_document_without_valid_tags_is_rejected_and_a_query_refused(index, name, text):
    report = index.add([Document(f"{name}a", text), Document(f"{name}b", text, "tenant=a")])
    ((document, reason),) = ((each.id, each.reason) for each in report.rejected)
    assert (document, "must be a dict of strings" in reason) == (f"{name}b", True)
    with pytest.raises(UsageError, match="invalid tags"):
        index.find(text, tags={"": "a"})
    assert found(index, text) == ["a"]


def test_a_document_is_found_behind_a_crowd_of_others_with_its_text(index, name, text):
    limited = index.listing(2)
    crowd = [Document(f"{name}crowd{number:03}", text, B) for number in range(100)]
    index.add([*crowd, Document(f"{name}late", text, A)])
    lookup = limited.find(text, tags=A)
    assert [match.id[8:] for match in lookup.matches] == ["late"]
    assert len(limited.find(text, tags=B).matches) == 2
    assert limited.find(text, tags=B).truncated
    assert not index.find(text, tags=A).truncated


def test_a_lookup_that_stops_in_a_crowd_says_so(index, name, text):
    limited = index.listing(1)
    crowd = [Document(f"{name}crowd{number:03}", text, B) for number in range(100)]
    index.add([*crowd, Document(f"{name}late", text, A)])
    lookup = limited.find(text, tags=A)
    assert (lookup.matches, lookup.truncated) == ((), True)


def test_those_who_share_reads_are_answered_by_their_own_tags(index, name, text):
    index.add([Document(f"{name}a", text, A), Document(f"{name}b", text, B)])
    with SharedLookups(index) as shared:
        for asked, expected in ((A, "a"), (B, "b")):
            matches = shared.find(text, Query(tags=asked), timeout=60).matches
            assert [match.id[8:] for match in matches] == [expected]
        with pytest.raises(UsageError, match="invalid tags"):
            shared.find(text, Query(tags={"tenant": ""}))


def test_a_repair_and_a_vacuum_keep_tags(index, name, text, other):
    ids = [f"{name}a", f"{name}b"]
    index.add([Document(ids[0], text, A), Document(ids[1], other, BOTH)])
    index.add([Document(ids[0], other, B)])
    scheme = index.profile.index_scheme
    lost = index.store.records("fingerprints")
    for batch in list(lost.iterate()):
        if not scheme.listed_sketching:
            lost.delete([key for key, _ in batch], [cell.version for _, cell in batch])
    Checker(index.store, scheme, repair=True).check()
    if index.store.keeps_hints:
        vacuumed(index.store, scheme)
    assert tags(index, *ids) == [B, BOTH]
    assert found(index, other, B) == ["a"]


def test_unique_documents_keep_their_tags(index, name, text, other):
    index.add([Document(name, text, A)])
    prints = index.fingerprinter.fingerprint_many([text, text, other]).fingerprints
    ids = [name, f"{name}b", f"{name}c"]
    tagged = [tuple(each.items()) for each in (B, B, A)]
    done = load_unique(index, ids, prints, tags=tagged)
    assert [near is None for near in done.duplicate_of] == [True, False, True]
    assert tags(index, *ids) == [B, None, A]


def test_fingerprints_made_elsewhere_have_tags_too() -> None:
    with open_index("memory:", create=Profile(verify=False)) as index:
        index.add_fingerprints(["a", "b"], [7, 7], [A, {}])
        (lookup,) = index.find_fingerprints([7], Query(tags=A))
        assert [match.id for match in lookup.matches] == ["a"]
        with pytest.raises(UsageError, match="2 ids with tags for 1"):
            index.add_fingerprints(["a", "b"], [7, 7], [A])
