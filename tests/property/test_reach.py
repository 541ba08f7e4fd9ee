"""What is found with a reach: all that is within k bits or shares a drawer within the reach, and whose sketch
is similar enough; on every way on which something is found."""

import operator
from collections.abc import Iterable
from itertools import combinations, count
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simhbase.drawers import crowds
from simhbase.drawers.groups import Matcher, stars
from simhbase.drawers.layout import SEGMENT_BITS
from simhbase.drawers.memory_index import Limits, MemoryIndex
from simhbase.drawers.scheme import Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.index.claims import claim, selection
from simhbase.index.claims.batch import ClaimContext, ClaimKind
from simhbase.index.claims.claim import QueuedClaims
from simhbase.index.claims.selection import duplicates_of
from simhbase.index.reader import Reader
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Query
from simhbase.profile.profile import Profile
from tests.claiming import claims_of
from tests.simulated import Server, SimulatedStore

SLOTS = 8
MOST = 3  # of 8 slots may differ
CENTRES = 0, 0x0123456789ABCDEF
PROFILES = {
    name: Profile(layout=name, k=k, verify=True, slots=SLOTS, sketch_bits=8, threshold=0.65, reach=reach)
    for name, k, reach in [
        ("5x2", 3, 7),
        ("5x2", 2, 5),
        ("4x1", 3, 9),
        ("7x4", 3, 6),
        ("4x4", 3, 7),
        ("2x1p1", 3, 7),
        ("3x2p1", 2, 8),
    ]
}
Kept = tuple[int, tuple[int, ...]]  # a fingerprint and its sketch

differing = st.sets(st.integers(0, 63), max_size=11).map(lambda bits: sum(1 << bit for bit in bits))
sketch = st.lists(st.sampled_from([0, 0, 1]), min_size=SLOTS, max_size=SLOTS).map(tuple)
kept = st.tuples(st.builds(lambda centre, bits: centre ^ bits, st.sampled_from(CENTRES), differing), sketch)
few_bits = st.sets(st.integers(0, 63), max_size=3).map(lambda bits: sum(1 << bit for bit in bits))
crowded = st.tuples(few_bits, sketch)
A_THIRD = settings(max_examples=settings().max_examples // 3)  # for each of the profiles
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


def drawers(profile: Profile, fingerprint: int) -> list[str]:
    bits = f"{fingerprint:064b}"
    return [
        "".join(bits[run.start : run.start + run.width] for run in table)[:SEGMENT_BITS]
        for table in profile.index_scheme.layout.tables
    ]


def near(profile: Profile, one: Kept, other: Kept) -> bool:
    apart = (one[0] ^ other[0]).bit_count()
    pairs = zip(drawers(profile, one[0]), drawers(profile, other[0]), strict=True)
    flips = 1 if profile.layout.endswith("p1") else 0
    shared = any(sum(map(operator.ne, a, b)) <= flips for a, b in pairs)
    differ = sum(a != b for a, b in zip(one[1], other[1], strict=True))
    return (apart <= profile.k or (apart <= profile.reach and shared)) and differ <= MOST


def batch(contents: Iterable[Kept]) -> FingerprintBatch:
    contents = list(contents)
    values = np.array([value for value, _ in contents], dtype=np.uint64)
    return FingerprintBatch(values, np.array([row for _, row in contents], dtype=np.uint8).reshape(-1, SLOTS))


def ids(contents: Iterable[Kept]) -> list[str]:
    return [f"d{number}" for number, _ in enumerate(contents)]


def accepted(profile: Profile, contents: list[Kept]) -> list[int]:
    """One after the other, what nothing accepted before is near."""
    found: list[int] = []
    for number, each in enumerate(contents):
        if not any(near(profile, contents[other], each) for other in found):
            found.append(number)
    return found


def test_the_similarity_allows_as_many_slots_as_the_tests_do():
    assert {profile.index_scheme.bounds(None, None).mismatches for profile in PROFILES.values()} == {MOST}


@every_profile
@given(contents=st.lists(kept, min_size=1, max_size=14))
@A_THIRD
def test_find_of_one_and_of_many(profile, contents):
    with open_index("memory:", create=profile) as index:
        index.add_batch(ids(contents), batch(contents))
        expected = [
            {f"d{number}" for number, other in enumerate(contents) if near(profile, each, other)}
            for each in contents
        ]
        together = index.find_batch(batch(contents))
        single = [index.find_batch(batch([each]))[0] for each in contents]
        for lookups in (together, single):
            assert [{match.id for match in lookup.matches} for lookup in lookups] == expected
        within = index.find_batch(batch(contents), Query(k=profile.k))
        for each, lookup in zip(contents, within, strict=True):
            assert all(match.distance <= profile.k for match in lookup.matches)
            assert {match.id for match in lookup.matches} == {
                f"d{number}"
                for number, other in enumerate(contents)
                if near(profile, each, other) and (each[0] ^ other[0]).bit_count() <= profile.k
            }


@every_profile
@given(contents=st.lists(kept, max_size=14))
@A_THIRD
def test_pairs_and_what_a_corpus_in_memory_finds(profile, contents):
    scheme, values = profile.index_scheme, batch(contents)
    bounds = scheme.bounds(None, None)
    expected = {
        (left, right)
        for left, right in combinations(range(len(contents)), 2)
        if near(profile, contents[left], contents[right])
    }
    found = [
        pair
        for pairs in scheme.pairs(values, bounds)
        for pair in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    ]
    assert sorted(found) == sorted(expected)
    different = {value: each for each in contents for value in [each[0]]}
    first = list(different.values())
    hits = MemoryIndex(batch(first), scheme).near(
        values, bounds, Limits(None, len(contents) or 1, len(contents) or 1)
    )
    assert {
        pair for part in hits for pair in zip(part.query.tolist(), part.document.tolist(), strict=True)
    } == {
        (query, document)
        for query, one in enumerate(contents)
        for document, other in enumerate(first)
        if near(profile, one, other)
    }
    groups = stars(Matcher(values, scheme, bounds))
    assert np.flatnonzero(groups.unique).tolist() == accepted(profile, contents)
    with patch.multiple(crowds, LARGE=1, NEAR=0):  # every drawer is a crowd
        again = stars(Matcher(values, scheme, bounds))
    assert again.representative.tolist() == groups.representative.tolist()


@every_profile
@given(
    contents=st.lists(kept, max_size=14),
    size=st.integers(1, 14),
    pairs=st.sampled_from([16, -1]),
    nearest=st.sampled_from([64, 1]),
)
@A_THIRD
def test_claims_and_unique_loads_keep_what_nothing_kept_is_near(profile, contents, size, pairs, nearest):
    expected = {f"d{number}" for number in accepted(profile, contents)}
    names, scheme = ids(contents), profile.index_scheme
    bounds = scheme.bounds(None, None)
    starts = range(0, len(contents), size)
    server = Server()
    shared = ClaimContext(SimulatedStore(server.ask), scheme)
    with (
        open_index("memory:", create=profile) as claiming,
        open_index("memory:", create=profile) as loading,
        patch.multiple(selection, PAIRS_OF_DOCUMENT=pairs, NEAREST=nearest),
        patch.object(claim, "PART", 2),
    ):
        outcomes: list[set[str]] = [set(), set(), set()]
        for start in starts:
            part, of_part = names[start : start + size], batch(contents[start : start + size])
            request = QueuedClaims.of(DocumentBatch(part, of_part), ClaimKind(bounds), source="a")
            claiming.claimer.begin(request)
            outcomes[0] |= {each.id for each in request.result().claims if each.outcome == "accepted"}
            claims = claims_of(shared, part, of_part, ClaimKind(bounds), 1.0).claims
            outcomes[1] |= {each.id for each in claims if each.outcome == "accepted"}
            found = duplicates_of(Reader(loading.store, scheme, clock=lambda: 1), part, of_part, bounds)
            new = [number for number, each in enumerate(found) if each is None]
            loading.add_batch([part[number] for number in new], of_part[new])
            outcomes[2] |= {part[number] for number in new}
    assert outcomes == [expected] * 3


@every_profile
@given(
    stored=st.lists(crowded, min_size=8, max_size=60, unique_by=lambda each: each[0]),
    claimed=st.lists(crowded, min_size=2, max_size=6),
    nearest=st.sampled_from([1, 2, 8]),
    at_once=st.sampled_from([16, 128]),
)
@A_THIRD
def test_a_duplicate_is_one_of_the_nearest_and_of_these_of_the_first_id(
    profile, stored, claimed, nearest, at_once
):
    there = {f"s{number * 7 % 61:02}": each for number, each in enumerate(stored)}
    expected = list[tuple[int, str] | None]()
    with open_index("memory:", create=profile) as index:
        index.add_batch(list(there), batch(stored))
        for document, each in zip(ids(claimed), claimed, strict=True):
            distances = (
                ((each[0] ^ other[0]).bit_count(), name)
                for name, other in there.items()
                if near(profile, each, other)
            )
            expected.append(min(distances, default=None))
            if expected[-1] is None:
                there[document] = each
        with patch.multiple(selection, NEAREST=nearest, FOLLOWED_AT_ONCE=at_once):
            bounds = profile.index_scheme.bounds(None, None)
            found = duplicates_of(index.reader, ids(claimed), batch(claimed), bounds)
    assert [each and (each.distance, each.id) for each in found] == expected


@every_profile
@given(
    writes=st.lists(st.tuples(st.sampled_from("abc"), kept), min_size=1, max_size=8),
    queries=st.lists(kept, min_size=1, max_size=4),
)
@A_THIRD
def test_a_document_is_found_by_what_it_is_now_where_old_hints_stay(profile, writes, queries):
    scheme: Scheme = profile.index_scheme
    store, clock = SimulatedStore(Server().ask), count(1)
    writer = Writer(store, scheme, lambda: next(clock))
    for document, content in writes:
        writer.add(DocumentBatch([document], batch([content])))
    now = dict(writes)
    lookups = Reader(store, scheme).find(batch(queries))
    assert [{match.id for match in lookup.matches} for lookup in lookups] == [
        {document for document, content in now.items() if near(profile, query, content)} for query in queries
    ]
