from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.drawers import memory_index
from simhbase.drawers.bands import bands
from simhbase.drawers.join import default_layout
from simhbase.drawers.memory_index import Limits, MemoryIndex
from simhbase.drawers.scheme import Bounds, MinHashScheme, SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters

WORDS = st.integers(0, 2**64 - 1)


def near_values():
    """Values within a few bits of a few others."""
    masks = st.sets(st.integers(0, 63), max_size=5).map(lambda bits: sum(1 << bit for bit in bits))
    return st.lists(WORDS, min_size=1, max_size=3).flatmap(
        lambda centres: st.lists(
            st.builds(lambda centre, mask: centre ^ mask, st.sampled_from(centres), masks), max_size=30
        )
    )


@pytest.fixture(params=[1 << 20, 3], ids=["one lot", "many lots"])
def lot_rows(request, monkeypatch):
    monkeypatch.setattr(memory_index, "CHUNK_ROWS", request.param)
    monkeypatch.setattr(memory_index, "INDEXED_AT_ONCE", request.param)


@pytest.mark.usefixtures("lot_rows")
@given(
    values=near_values(),
    k=st.integers(0, 5),
    listed=st.integers(1, 4),
    matches=st.integers(1, 40),
    data=st.data(),
)
def test_every_query_has_the_nearest_documents_within_k_bits(values, k, listed, matches, data):
    n = data.draw(st.integers(0, len(values)))
    stored, queries = values[:n], values[n:] + values[:2]
    expected = {}
    truncated = set()
    for query, value in enumerate(queries):
        near: list[tuple[int, int]] = []
        for document, other in enumerate(stored):
            if (value ^ other).bit_count() <= k:
                if stored[:document].count(other) < listed:
                    near.append(((value ^ other).bit_count(), document))
                else:
                    truncated.add(query)
        if len(near) > matches:
            truncated.add(query)
        expected |= {(query, document): bits for bits, document in sorted(near)[:matches]}
    documents = MemoryIndex(
        FingerprintBatch.bare(np.array(stored, dtype=np.uint64)), SimHashScheme(default_layout(k, 0), k)
    )
    found, cut = {}, set()
    asked = FingerprintBatch.bare(np.array(queries, dtype=np.uint64))
    for hits in documents.near(asked, Bounds(k), Limits(None, listed, matches)):
        pairs = list(zip(hits.query.tolist(), hits.document.tolist(), strict=True))
        assert not found.keys() & set(pairs)
        found |= dict(zip(pairs, hits.distance.tolist(), strict=True))
        cut |= set(hits.truncated.tolist())
        assert hits.fingerprint.tolist() == [stored[document] for document in hits.document.tolist()]
    assert found == expected
    assert cut == truncated


@pytest.mark.parametrize("mismatches", [None, 2])
@given(data=st.data())
def test_sketches_that_share_a_band_are_judged(mismatches, data):
    slots = st.lists(st.integers(0, 2), min_size=8, max_size=8)
    sketches = np.array(data.draw(st.lists(slots, min_size=1, max_size=20)), dtype=np.uint8)
    values = np.array([int.from_bytes(row.tobytes()) for row in sketches], dtype=np.uint64)
    fingerprints = FingerprintBatch(values, sketches)
    scheme = MinHashScheme(bands("4x2"), SketchParameters(8, 8), 0.5)
    expected = {
        (query, document): int(np.count_nonzero(a != b))
        for query, a in enumerate(sketches)
        for document, b in enumerate(sketches)
        if (a == b).reshape(4, 2).all(axis=1).any()
        and (mismatches is None or np.count_nonzero(a != b) <= mismatches)
    }
    (hits,) = MemoryIndex(fingerprints, scheme).near(
        fingerprints, Bounds(0, mismatches), Limits(None, len(values), len(values))
    )
    pairs = zip(hits.query.tolist(), hits.document.tolist(), strict=True)
    assert dict(zip(pairs, hits.distance.tolist(), strict=True)) == expected


@given(values=near_values(), limit=st.integers(1, 3))
def test_of_a_full_drawer_the_first_fingerprints_are_read_and_an_equal_one(values, limit):
    scheme = SimHashScheme(default_layout(3, 0), 3)
    fingerprints = FingerprintBatch.bare(np.array(values, dtype=np.uint64))
    documents = MemoryIndex(fingerprints, scheme)
    several = len(values) or 1

    def near(drawer):
        pairs, cut = set(), set()
        for hits in documents.near(fingerprints, Bounds(3), Limits(drawer, several, several)):
            pairs |= set(zip(hits.query.tolist(), hits.document.tolist(), strict=True))
            cut |= set(hits.truncated.tolist())
        return pairs, cut

    (every, never), (some, cut) = near(None), near(limit)
    assert not never
    assert some <= every
    assert {query for query, _ in every - some} <= cut
    assert {(n, m) for n, one in enumerate(values) for m, other in enumerate(values) if one == other} <= some
