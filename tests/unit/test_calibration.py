import pytest

from simhbase.quality.calibration import Goal, least_similarities


@pytest.mark.parametrize(
    ("jaccard", "right", "both"),
    [
        (None, None, (0.8, 0.65)),
        (0.9, None, (0.9, 0.65)),
        (0.6, None, (0.6, 0.5)),
        (0.3, None, (0.3, 0.25)),
        (None, 0.85, (0.85, 0.85)),
        (None, 0.5, (0.8, 0.5)),
        (0.7, 0.7, (0.7, 0.7)),
    ],
)
def test_what_is_right_is_by_default_less_alike_than_what_is_to_be_found(jaccard, right, both):
    assert least_similarities(jaccard, right) == both
    assert Goal(1, jaccard=both[0], right=both[1])
