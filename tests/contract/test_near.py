"""`near` for one text answers what `read` answers for many, in every store: the whole answer, whatever is
stored, asked for and hidden, and where limits cut it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.sketches import fingerprints
from simhbase.index import Index
from simhbase.index.mute import Hidden
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.metrics import Metrics
from simhbase.model.values import Lookup, Match, Query
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.base import now
from tests.contract.conftest import kind_called, with_profiles

PROFILES = {
    "verified": Profile(),
    "5x2": Profile(verify=False),
    "2x1p1": Profile(verify=False, layout="2x1p1"),
    "minhash": Profile(scheme="minhash"),
    "short": Profile(scheme="minhash", slots=16, sketch_bits=16, bands="8x2", same_numbers=True),
}
ONES = (1 << 64) - 1
CENTRES = [0, ONES, 0x0123456789ABCDEF, 0xFFFFFFFFFFFC0000, 0x80000000000000FF, 0xFF]
TTL = 1000  # seconds
DOCUMENTS = 120
IDS = [*(f"id{number}" for number in range(DOCUMENTS)), "ü", "a\x00b", "\xff" * 3]


class Clock:
    """This machine's, and so many seconds more."""

    ahead = 0

    def __call__(self) -> int:
        return now() + self.ahead * 1000


@dataclass(frozen=True)
class Filled:
    index: Index
    texts: FingerprintBatch


class Measured(Metrics):
    """Sums what is counted and observed."""

    def __init__(self) -> None:
        self.sums = dict[str, float]()

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        self.sums[name] = self.sums.get(name, 0) + by

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.count(name, int(value))


def random_texts(profile: Profile, number: int, chance: np.random.Generator) -> FingerprintBatch:
    """Texts many of which are near each other by their bits, their sketches or both, or equal."""
    centres = np.array(CENTRES, dtype=np.uint64)[chance.integers(0, len(CENTRES), number)]
    values = np.array([changed(int(value), chance) for value in centres], dtype=np.uint64)
    sketching = profile.sketching
    if sketching is None:
        return FingerprintBatch.bare(values)
    kinds = chance.integers(1, 256, (3, sketching.bytes), dtype=np.uint8)
    sketches = kinds[chance.integers(0, len(kinds), number)]
    for sketch in sketches:
        places = chance.integers(0, sketching.bytes, chance.choice([0, 0, 1, 3, sketching.bytes // 2]))
        sketch[places] = chance.integers(0, 256, len(places))
    return FingerprintBatch(values if profile.scheme == "simhash" else fingerprints(sketches), sketches)


def changed(value: int, chance: np.random.Generator) -> int:
    for bit in chance.integers(0, 64, chance.choice([0, 0, 1, 2, 3, 4, 6, 9])):
        value ^= 1 << int(bit)
    return value


def fill(index: Index, clock: Clock, profile: Profile) -> FingerprintBatch:
    """Stores documents at several times, with tags; replaces some and deletes some. Returns their texts."""
    chance = np.random.default_rng(1)
    parts = []
    for clock.ahead in (-2 * TTL, -500, -100, 0):
        ids = list(chance.choice(IDS, DOCUMENTS // 2, replace=False))
        texts = random_texts(profile, len(ids), chance)
        tags = [(("kind", str(number % 3)),) if number % 2 else () for number in range(len(ids))]
        index.add_batch(ids, texts, tags)
        index.delete(list(chance.choice(IDS, 5, replace=False)))
        parts.append(texts)
    return FingerprintBatch.joined(parts)


@pytest.fixture(params=with_profiles(*PROFILES))
def filled(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Filled]:
    kind, name = request.param
    store = create_store(kind_called(kind, request).url(tmp_path, 0))
    write_profile(store, PROFILES[name], ttl=None if kind == "hbase" else TTL)  # HBase removes rows itself
    clock = Clock()
    with Index(store, read_profile(store), clock=clock) as index:
        yield Filled(index, fill(index, clock, PROFILES[name]))


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_text_gets_the_answer_that_it_gets_among_many(filled: Filled, data: st.DataObject) -> None:
    profile, texts = filled.index.profile, filled.texts
    chance = np.random.default_rng(data.draw(st.integers(0, 1000)))
    is_stored = data.draw(st.booleans())
    number = data.draw(st.integers(0, len(texts) - 1))
    text = texts[[number]] if is_stored else random_texts(profile, 1, chance)
    muted = data.draw(st.lists(st.sampled_from(texts.values.tolist()), max_size=2))
    reader = replace(
        filled.index.reader,
        drawer_limit=data.draw(st.sampled_from([None, DRAWER_LIMIT, 1, 2, 5, 20])),
        ids_limit=data.draw(st.sampled_from([IDS_LIMIT, 1, 2, 4])),
        hidden=Hidden(frozenset(data.draw(st.lists(st.sampled_from(IDS), max_size=3))), frozenset(muted)),
    )
    query = Query(
        data.draw(st.sampled_from([None, 0, 3])) if profile.scheme == "simhash" else None,
        data.draw(st.sampled_from([None, 0.0, 0.5, 1.0])) if profile.sketching else None,
        data.draw(st.sampled_from([None, timedelta(seconds=300), timedelta(seconds=50)])),
        data.draw(st.sampled_from([{}, {"kind": "1"}, {"kind": "9"}])),
    )
    measured = [Measured(), Measured()]
    (one,) = replace(reader, metrics=measured[0]).find(text, query)
    many = replace(reader, metrics=measured[1]).find(FingerprintBatch.joined([text, text]), query)
    assert many == [one, one]
    names = ("candidates", "largest_drawer", "lookups")
    assert [measured[1].sums[name] for name in names] == [2 * measured[0].sums[name] for name in names]


@pytest.mark.parametrize("near_limit", [1, 3, 12, 200])
def test_one_text_near_many_gets_the_nearest_as_it_does_among_others(filled: Filled, near_limit: int) -> None:
    reader = replace(filled.index.reader, near_limit=near_limit)
    deferring = replace(reader, deferred="all")
    texts = filled.texts[list(range(0, len(filled.texts), 5))]
    for text in (texts[[number]] for number in range(len(texts))):
        both = FingerprintBatch.joined([text, text])
        for each in (reader, replace(reader, deferred="nothing")):
            (one,) = each.find(text, Query())
            assert each.find(both, Query()) == [one, one]
            assert len(one) <= near_limit
        (one,) = deferring.find(text, Query())
        assert [type(lookup) for lookup in deferring.find(both, Query())] == [type(one)] * 2


@pytest.mark.parametrize("near_limit", [1, 3, 6, 12])
def test_an_answer_that_left_something_out_says_so(filled: Filled, near_limit: int) -> None:
    """Also where more of each fingerprint is listed, as nothing matched, and then less of it is followed."""
    whole = replace(filled.index.reader, drawer_limit=None, ids_limit=DOCUMENTS)
    some = replace(whole, ids_limit=1, near_limit=near_limit, deferred="nothing")
    texts, query = filled.texts, Query(tags={"kind": "1"})
    answers, wanted = some.find(texts, query), whole.find(texts, query)
    for answer, complete in zip(answers, wanted, strict=True):
        assert answer.truncated or answer.matches == complete.matches
    assert any(not answer.truncated for answer in answers) or near_limit == 1


def test_full_drawers_hide_no_document_of_the_same_fingerprint(filled: Filled) -> None:
    """Whoever fills the drawers of a text cannot hide a copy of it."""
    texts = filled.texts[list(range(0, len(filled.texts), 3))]
    cut = replace(filled.index.reader, drawer_limit=1, ids_limit=DOCUMENTS)
    whole = replace(cut, drawer_limit=None)
    wanted = [equal(lookup) for lookup in whole.find(texts, Query())]
    assert sum(map(bool, wanted)) > 10
    lookups = cut.find(texts, Query())
    assert [equal(lookup) for lookup in lookups] == wanted
    assert sum(lookup.truncated for lookup in lookups) > 10
    for number, matches in enumerate(wanted):
        (lookup,) = cut.find(texts[[number]], Query())
        assert equal(lookup) == matches


def equal(lookup: Lookup) -> list[Match]:
    return [match for match in lookup.matches if match.fingerprint == lookup.fingerprint]
