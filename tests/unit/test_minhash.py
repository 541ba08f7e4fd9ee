"""MinHash signatures: what they estimate, and that nothing but the set of shingles matters."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from simhbase.drawers import banding
from simhbase.drawers.bands import Bands, bands, bands_for
from simhbase.drawers.scheme import MinHashScheme
from simhbase.errors import UsageError
from simhbase.fingerprint.minhash import BITS, SLOTS, SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.fingerprint.sketches import fingerprints, mismatches_of
from simhbase.profile.profile import make_profile
from simhbase.text.features import FeatureOptions
from simhbase.text.jaccard import shingle_sets
from tests import reference


def sketcher(slots: int = SLOTS, bits: int = 32, seed: int = 0, kind: str = "words:1") -> Fingerprinter:
    options = FeatureOptions(kind=kind, min_length=1)
    return Fingerprinter(options, 64, 1, SketchParameters(slots, bits, seed), is_minhash=True)


def sketches(texts: list[str], **parameters: object) -> np.ndarray:
    return sketcher(**parameters).fingerprint_many(texts).fingerprints.sketches


def signatures(texts: list[str], slots: int = SLOTS, seed: int = 0, kind: str = "chars:3") -> np.ndarray:
    return sketches(texts, slots=slots, seed=seed, kind=kind).view(">u4").astype(np.uint32)


@cache
def pairs(count: int, union: int, jaccard: float) -> tuple[list[str], list[str]]:
    """Pairs of texts of random words that share `jaccard * union` of them."""
    rng = np.random.default_rng([count, union, round(100 * jaccard)])
    words = [[f"w{word:x}" for word in each] for each in rng.integers(0, 2**63, (count, union)).tolist()]
    shared = round(jaccard * union)
    left = [" ".join(each[: (union + shared) // 2]) for each in words]
    right = [" ".join([*each[:shared], *each[(union + shared) // 2 :]]) for each in words]
    return left, right


@pytest.mark.parametrize("seed", [0, 7])
def test_signatures_are_those_of_the_definition(seed):
    digests = reference.character_ngrams("onetwothree", 3, 64)
    found = signatures(["one two three"], 16, seed)
    assert found.tolist() == [reference.signature(digests, 16, seed)]


@pytest.mark.slow
@pytest.mark.parametrize(("union", "jaccard"), [(10, 0.5), (10, 0.8), (60, 0.8), (500, 0.2), (500, 0.8)])
def test_estimates_agree_with_the_similarity_within_three_standard_errors(union, jaccard):
    count = 1_000
    both = pairs(count, union, jaccard)
    for sketching in (SketchParameters(bits=bits) for bits in BITS):
        mismatches = mismatches_of(sketching, *(sketches(texts, bits=sketching.bits) for texts in both))
        share = 1 - mismatches / sketching.slots
        expected = jaccard + (1 - jaccard) * 2.0**-sketching.bits
        variance = expected * (1 - expected) / sketching.slots
        assert abs(share.mean() - expected) < 3 * np.sqrt(variance / count)
        # Slots are as good as independent: estimates spread no more than with random permutations.
        assert share.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / count))
        errors = abs(sketching.similarity(mismatches) - jaccard)
        assert np.mean(errors < 3 * np.sqrt(variance) / (1 - 2.0**-sketching.bits)) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("bits", BITS)
def test_loose_bounds_lose_hardly_any_pair_of_the_similarity(bits):
    sketching = SketchParameters(bits=bits)
    scheme = MinHashScheme(Bands(20, 6), sketching, 0.8)
    for jaccard in (0.2, 0.5, 0.8):
        left, right = (sketches(texts, bits=bits) for texts in pairs(2_000, 60, jaccard))
        assert (
            np.mean(mismatches_of(sketching, left, right) <= scheme.loose_bounds(jaccard).mismatches) > 0.999
        )


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["xwlb_chinadata", "versioned_docs_en"])
def test_estimates_agree_with_the_similarity_of_real_documents(corpus):
    texts = [text for _, text in reference.documents(corpus, 40)][:150]
    both = [text for each in texts for text in (each, each[: len(each) * 3 // 4])]
    sketching = SketchParameters()
    found = sketches(both, bits=8, kind="chars:3")
    pairs = np.arange(len(both)).reshape(-1, 2).T
    exact = shingle_sets(both, "chars:3").similarity(*pairs)
    errors = sketching.similarity(mismatches_of(sketching, found[::2], found[1::2])) - exact
    spread = np.sqrt(exact * (1 - exact) / sketching.slots)
    assert abs(errors.mean()) < 3 * spread.mean() / np.sqrt(len(exact))
    assert np.mean(abs(errors) < 3 * spread + 1e-9) > 0.98


def test_signatures_depend_on_no_batch_order_or_repeats():
    texts = [text for _, text in reference.documents("xwlb_chinadata", 400)]
    together = signatures(texts)
    assert np.array_equal(together, np.concatenate([signatures([text]) for text in texts]))
    assert np.array_equal(together, signatures(texts[::-1])[::-1])
    words = [f"w{number}" for number in range(50)]
    orders = [" ".join(words), " ".join([*words, *words[::-1]])]
    assert len(set(map(tuple, signatures(orders, kind="words:1").tolist()))) == 1


def test_more_slots_begin_like_fewer_and_another_seed_is_another_signature():
    texts = ["一篇关于天气的短文", "a short text about the weather"]
    assert np.array_equal(signatures(texts, 256)[:, :128], signatures(texts, 128))
    assert not np.any(signatures(texts, seed=1) == signatures(texts))


def test_a_text_without_shingles_leaves_the_others_as_they_are():
    found = signatures(["", "some text", "ab", "other text", ""])
    assert np.array_equal(found[[1, 3]], signatures(["some text", "other text"]))
    assert not found[[0, 2, 4]].any()
    assert signatures([]).shape == (0, SLOTS)


@pytest.mark.parametrize("preset", ["complete", "default"])
def test_few_texts_below_the_threshold_match_by_their_estimate(preset):
    scheme = make_profile({}, preset).index_scheme
    slots, bits = scheme.sketching.slots, scheme.sketching.bits
    most = scheme.bounds(None, None).mismatches

    def matching(similarity: float) -> float:
        differing = (1 - similarity) * (1 - 2.0**-bits)
        return np.mean(np.random.default_rng(0).binomial(slots, differing, 100_000) <= most)

    assert matching(0.58) < 0.1
    assert matching(0.7) > 0.93


def unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    """Slots, bit by bit: uint8 (n, bytes) -> (n, slots)."""
    slots = np.unpackbits(packed, axis=1).reshape(len(packed), -1, bits)
    return slots @ (1 << np.arange(bits - 1, -1, -1))


@pytest.mark.parametrize("bits", BITS)
def test_packed_slots_come_back(bits):
    texts = [f"the text number {number}" for number in range(5)]
    slots = signatures(texts, 24 if bits > 2 else 64)
    packed = sketches(texts, slots=slots.shape[1], bits=bits, kind="chars:3")
    assert packed.shape == (5, slots.shape[1] * bits // 8)
    assert np.array_equal(unpack(packed, bits), slots & np.uint32(2**bits - 1))
    last = slots.shape[1] - 1
    as_integer = sum(int(slot) % 2**bits << bits * (last - i) for i, slot in enumerate(slots[0]))
    assert packed[0].tobytes() == as_integer.to_bytes(packed.shape[1])


@pytest.mark.parametrize(("bits", "name"), list(product([4, 8, 16, 32], ["20x6", "16x8", "12x10", "1x128"])))
def test_texts_share_a_segment_where_all_slots_of_the_band_agree(bits, name):
    chosen = bands(name)
    rng = np.random.default_rng(3)
    packed = rng.integers(0, 256, (2, 16 * bits), dtype=np.uint8)
    packed[1] = np.where(rng.random(16 * bits) < 0.1, packed[1], packed[0])
    a, b = banding.segments(chosen, packed, bits)
    kept = unpack(packed, bits)[:, : chosen.slots].reshape(2, chosen.number, chosen.rows)
    assert (a == b).tolist() == (kept[0] == kept[1]).all(axis=1).tolist()
    assert len(set(a.tolist())) == chosen.number


def test_no_sketches_have_no_segments_and_short_ones_are_refused():
    assert banding.segments(Bands(4, 4), np.empty((0, 0), np.uint8), 8).shape == (0, 4)
    with pytest.raises(ValueError, match="hold the slots of all bands"):
        banding.segments(Bands(4, 4), np.zeros((2, 15), np.uint8), 8)


def test_different_sketches_have_different_fingerprints():
    sketch = np.random.default_rng(3).integers(0, 256, 128, dtype=np.uint8)
    one_bit_off = np.concatenate([sketch[np.newaxis], sketch ^ np.diag(np.full(128, 128, np.uint8))])
    assert len(set(fingerprints(one_bit_off).tolist())) == 129


def test_most_unequal_slots_are_those_at_the_threshold():
    sketching = SketchParameters(slots=10, bits=32)
    assert [sketching.most_mismatches(similarity) for similarity in (1.0, 0.79, 0.75, 0.0)] == [
        0,
        2,
        2,
        10,
    ]
    for sketching, threshold in product([SketchParameters(), SketchParameters(bits=1)], [0.0, 0.5, 0.8, 1.0]):
        most = sketching.most_mismatches(threshold)
        assert sketching.similarity(np.array([most]))[0] >= threshold
        assert most == sketching.slots or sketching.similarity(np.array([most + 1]))[0] < threshold


def test_bands_follow_the_s_curve():
    assert Bands(20, 6).meeting(0.8) == pytest.approx(0.99771, abs=1e-5)
    assert Bands(16, 8).meeting(0.5) == pytest.approx(0.06070, abs=1e-5)
    count = 3_000
    left, right = (
        banding.segments(Bands(16, 8), sketches(texts, bits=8), 8) for texts in pairs(count, 100, 0.7)
    )
    met = (left == right).any(axis=1).mean()
    expected = Bands(16, 8).meeting(0.7)
    assert abs(met - expected) < 3 * np.sqrt(expected * (1 - expected) / count) + 0.005


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.8, 0.95, 1.0])
def test_chosen_bands_reach_the_recall_and_no_longer_or_fewer_ones_do(threshold):
    chosen = bands_for(threshold, 128, recall=0.97)
    assert chosen.meeting(threshold) >= 0.97
    assert Bands(chosen.number - 1, chosen.rows).meeting(threshold) < 0.97
    longer = chosen.rows + 1
    assert Bands(128 // longer, longer).meeting(threshold) < 0.97


@pytest.mark.parametrize("name", ["", "20", "0x6", "20x0", "-1x6", "20x6x2", "256x1"])
def test_unknown_bands_are_refused(name):
    with pytest.raises(UsageError):
        bands(name)


@pytest.mark.parametrize(
    "sketching",
    [
        {"bits": 3},
        {"bits": 64},
        {"slots": 0},
        {"slots": 5000},
        {"slots": 9, "bits": 4},
        {"slots": 56, "bits": 1},
    ],
)
def test_impossible_sketches_are_refused(sketching):
    with pytest.raises(UsageError):
        SketchParameters(**sketching)


def test_a_threshold_that_no_bands_reach_is_refused():
    with pytest.raises(UsageError, match="use more slots"):
        bands_for(0.01, 16)
    for threshold in (0.0, 1.5):
        with pytest.raises(UsageError, match="above 0, up to 1"):
            bands_for(threshold)
