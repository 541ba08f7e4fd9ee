"""A lookup that is limited by tags finds what is left of one that is not, whatever was written before."""

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simhbase.admin.check import Checker
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.tags import Tags, tags_of
from simhbase.model.values import Query
from simhbase.profile.profile import Profile

IDS = [f"document {number}" for number in range(8)]
FINGERPRINTS = [0x0123456789ABCDEF ^ bits for bits in (0, 1, 1 << 63, 0xFF, 0xFF << 40)]
TAGS = st.dictionaries(st.sampled_from(["source", "tenant"]), st.sampled_from("ab"), max_size=2).map(tags_of)
WRITES = st.tuples(
    st.sampled_from(["add", "claim", "replacing claim", "delete"]),
    st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(FINGERPRINTS), TAGS), min_size=1, max_size=4),
)


@pytest.fixture(scope="module", params=["memory", "rocksdb"])
def emptied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Index]]:
    """An index without documents, as often as it is asked for."""
    folder = tmp_path_factory.mktemp("tags")
    url = "memory:" if request.param == "memory" else f"rocksdb:{folder}/store"

    def empty() -> Index:
        index.delete(IDS)
        return index

    with closing(open_index(url, create=Profile(verify=False))) as index:
        yield empty


@settings(max_examples=40)
@given(writes=st.lists(WRITES, min_size=1, max_size=6), wanted=TAGS, ids_limit=st.sampled_from([1, 2, 1000]))
def test_a_limited_lookup_finds_what_is_left_of_an_unlimited_one(
    emptied: Callable[[], Index],
    writes: list[tuple[str, list[tuple[str, int, Tags]]]],
    wanted: Tags,
    ids_limit: int,
) -> None:
    index = emptied()
    stored: dict[str, tuple[int, Tags]] = {}
    for kind, documents in writes:
        write(index, stored, kind, documents)
    assert {each.id: tags_of(each.tags) for each in index.documents(IDS) if each} == {
        document: tags for document, (_, tags) in stored.items()
    }
    whole = index.find_fingerprints(FINGERPRINTS)
    limited = index.find_fingerprints(FINGERPRINTS, Query(tags=dict(wanted)))
    cut = index.listing(ids_limit).find_fingerprints(FINGERPRINTS, Query(tags=dict(wanted)))
    for all_, some, few in zip(whole, limited, cut, strict=True):
        assert not all_.truncated
        left = [match for match in all_.matches if set(wanted) <= set(stored[match.id][1])]
        assert list(some.matches) == left
        assert set(few.matches) <= set(left)
        assert few.truncated or list(few.matches) == left
        assert few.matches or not left  # so few are read on behind
    assert Checker(index.store, index.profile.index_scheme).check().clean


def write(
    index: Index, stored: dict[str, tuple[int, Tags]], kind: str, documents: list[tuple[str, int, Tags]]
) -> None:
    """Writes to an index, and to what should be stored afterwards."""
    ids, values, tags = map(list, zip(*documents, strict=True))
    if kind == "delete":
        index.delete(ids)
        for document in ids:
            stored.pop(document, None)
        return
    batch = FingerprintBatch.bare(np.array(values, dtype=np.uint64))
    if kind == "add":
        named = index.add_batch(ids, batch, tags).rejected
        written = [True] * len(ids)
        assert len(named) == len(ids) - len(set(ids))
    else:
        claims = index.claim_batch(ids, batch, replacing=kind != "claim", tags=tags).claims
        written = [claim.accepted for claim in claims]
    first = {document: number for number, document in reversed(list(enumerate(ids)))}
    for document, number in first.items():
        if written[number] and (kind != "claim" or document not in stored):
            stored[document] = (values[number], tags[number])
