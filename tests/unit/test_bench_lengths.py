"""The edit distance by which short texts are measured (tests/bench/lengths.py)."""

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.lengths import levenshtein


def by_definition(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for done, character in enumerate(one, 1):
        before, row[0] = row[0], done
        for place, another in enumerate(other, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (character != another)),
            )
    return row[-1]


@given(one=st.text("ab美c", max_size=80), other=st.text("ab美c", max_size=80))
def test_the_edit_distance_is_that_of_the_definition(one, other):
    assert levenshtein(one, other) == by_definition(one, other)
