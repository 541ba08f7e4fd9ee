import numpy as np
import pytest

from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS
from simhbase.errors import BadInput
from simhbase.quality import pairs as found
from simhbase.quality.calibration import candidates_at
from simhbase.quality.pairs import TextPairs
from simhbase.quality.sample import KEYS, Sample
from simhbase.quality.schemes import Cost, layouts_reaching
from simhbase.quality.truth import Truth, drawers


def pairs(n: int, *given: tuple[int, int, float]) -> TextPairs:
    left, right, similarity = zip(*given, strict=True)
    return TextPairs(n, np.array(left), np.array(right), np.array(similarity))


def found_pairs(n: int, *given: tuple[int, int]) -> TextPairs:
    left, right = np.array(given, dtype=np.int64).reshape(-1, 2).T
    return TextPairs.of(n, [(left, right, np.zeros(len(left)))])


@pytest.mark.parametrize("k", range(8))
def test_layouts_of_a_k_find_all_pairs_within_it_with_ever_more_rows(k):
    layouts = layouts_reaching(k)
    rows = [len(each.tables) for each in layouts]
    assert all(each.guarantee == max(k, 1) for each in layouts)
    assert rows == sorted(rows)
    assert rows[-1] <= MAX_TABLES
    narrowest = [min(sum(run.width for run in table) for table in each.tables) for each in layouts]
    assert all(width < SEGMENT_BITS for width in narrowest[:-1])


def test_drawers_count_unrelated_members_apart_from_near_duplicates():
    keys = [np.array([1, 1, 1, 2], dtype=np.uint64), np.array([5, 5, 6, 7], dtype=np.uint64)]
    full = drawers(keys, np.array([0]), np.array([1]))
    # Texts 0, 1 and 2 meet in the first table, 0 and 1 in the second; 0 and 1 are near-duplicates.
    assert (full.unrelated, full.related, full.largest) == (4 / 4, 4 / 4, 3)


def test_unrelated_candidates_grow_with_the_documents_and_near_duplicates_do_not():
    full = drawers([np.array([1, 1, 1, 2], dtype=np.uint64)], np.array([0]), np.array([1]))
    assert candidates_at(Cost("", 1, full), 4, 4) == pytest.approx(6 / 4)
    assert candidates_at(Cost("", 1, full), 4, 400) == pytest.approx(100 * 4 / 4 + 2 / 4)


def test_recall_is_by_similarity_and_precision_by_what_is_right():
    truth = Truth(
        pairs(8, (0, 1, 0.9), (2, 3, 0.85), (4, 5, 0.7)),
        pairs(8, (0, 1, 0.9), (4, 5, 0.7)),
        Sample.of_all("abcdefgh"),
    )
    some = found_pairs(8, (0, 1), (6, 7))
    assert truth.recall(some, 0.8, 1.0).value == 0.5
    assert truth.recall(some, 0.7, 0.8).value == 0.0
    assert truth.recall(some, 0.5, 0.6) is None
    assert truth.precision(some).value == 0.5


def test_of_a_sample_pairs_count_for_those_they_stand_for():
    keys = np.arange(4 * KEYS, dtype=np.uint64).reshape(4, KEYS)
    keys[1] = keys[0]
    sample = Sample(["a", "b", "c", "d"], {}, keys, share=0.01, read=1000)
    alike = pairs(4, (0, 1, 0.9), (2, 3, 0.9))
    truth = Truth(alike, pairs(4, (0, 1, 0.9)), sample)
    assert truth.recall(found_pairs(4), 0.8, 1.0).pairs == 1  # the other pair shares no key
    # A pair without a common key is drawn as rarely as both of its documents, by accident.
    document = 1 - 0.99**KEYS
    expected = (1 / document) / (1 / document + 1 / document**2)
    assert truth.precision(found_pairs(4, (0, 1), (2, 3))).value == pytest.approx(expected)


def test_more_pairs_than_fit_are_refused_with_advice(monkeypatch):
    monkeypatch.setattr(found, "MOST_PAIRS", 1)
    with pytest.raises(BadInput, match="use a smaller sample"):
        found_pairs(4, (0, 1), (0, 2))
