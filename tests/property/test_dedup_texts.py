"""What holds for all texts that dedup removes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simhbase
from simhbase.model.thresholds import SIMILAR
from simhbase.text.features import SHINGLES, FeatureOptions
from tests import reference
from tests.command_line import documents, read_lines, texts

WORDS = [word[:2] for word in texts(1, words=60)[0].split()]


@st.composite
def near_texts(draw):
    """The same words in orders that differ more or less, some with others at their end: few bits apart, and
    of every similarity."""
    kept = draw(st.integers(0, len(WORDS)))
    more = draw(st.lists(st.sampled_from(["more", "words", "here"]), max_size=3))
    return " ".join([*WORDS[:kept], *reversed(WORDS[kept:]), *more])


@pytest.mark.parametrize("chains", [False, True])
@given(contents=st.lists(near_texts(), min_size=1, max_size=12), keep=st.sampled_from(["first", "longest"]))
@settings(max_examples=25, deadline=None)
def test_what_is_removed_is_near_and_similar_and_equal_texts_are_one(chains, contents, keep):
    with TemporaryDirectory() as folder:
        file = documents(Path(folder, "a.jsonl"), contents)
        report = simhbase.dedup(file, {"k": 3}, keep=keep, chains=chains, duplicates=Path(folder, "d.jsonl"))
        lines = read_lines(Path(folder, "d.jsonl"))
    text_of = {f"d{number}": text for number, text in enumerate(contents)}
    kept_for = {name: name for name in text_of} | {line["id"]: line["duplicate_of"] for line in lines}
    assert len(lines) == report.duplicates
    for line in lines:
        exact = reference.similarity(text_of[line["id"]], text_of[line["duplicate_of"]])
        assert line["similarity"] == pytest.approx(exact, abs=1e-4)
        assert chains or (exact >= SIMILAR and line["distance"] <= 3)
    for text in contents:
        assert len({kept_for[name] for name, other in text_of.items() if other == text}) == 1
    assert all(kept_for[kept] == kept for kept in kept_for.values())
    sizes = sorted((list(kept_for.values()).count(kept) for kept in set(kept_for.values())), reverse=True)
    assert [each.documents for each in report.largest] == [size for size in sizes if size > 1][:5]


@given(
    contents=st.lists(near_texts(), min_size=1, max_size=12),
    keep=st.sampled_from(["first", "longest"]),
    least=st.sampled_from([0.5, 0.8, 1.0]),
)
@settings(max_examples=25, deadline=None)
def test_what_is_removed_is_contained_in_what_is_kept_and_the_rest_is_counted(contents, keep, least):
    rows = simhbase.dedup(texts=contents, profile={"k": 9}, keep=keep, min_containment=least)
    options = FeatureOptions(kind=SHINGLES)
    for each in rows.removed:
        kept = int(each.duplicate_of.removeprefix("row "))
        exact = reference.containment(contents[each.row], contents[kept], options)
        assert each.containment == exact
        assert exact >= least
    assert rows.kept.sum() == rows.unique
    assert rows.not_contained < rows.unique, "the first is kept anyway"
