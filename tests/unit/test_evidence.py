"""The rules by which documents match, and the warnings about sources that are mostly duplicates."""

import pytest

from simhbase.deduplication.matching import MatchCriteria
from simhbase.jobs.source_report import SourceReport, warnings_of


@pytest.mark.parametrize(
    ("profile", "min_similarity", "same", "near"),
    [
        ({"k": 3}, 0, "same fingerprint", "within 3 bits"),
        ({"k": 5}, 0, "same fingerprint", "within 5 bits"),
        ({"k": 3}, 0.25, "within 3 bits, Jaccard >= 0.25", "within 3 bits, Jaccard >= 0.25"),
        ({}, None, "Jaccard >= 0.65", "Jaccard >= 0.65"),
        (
            {"verify": True, "threshold": 0.5},
            0,
            "within 7 bits in a shared drawer, estimated similarity >= 0.5",
            "within 7 bits in a shared drawer, estimated similarity >= 0.5",
        ),
        ({"scheme": "minhash"}, None, "Jaccard >= 0.65", "Jaccard >= 0.65"),
        ({"scheme": "minhash"}, 0, "estimated similarity >= 0.65", "estimated similarity >= 0.65"),
        (
            "short",
            None,
            "estimated similarity >= 0.54 to 0.7 by the number of features, Jaccard >= 0.54",
            "estimated similarity >= 0.54 to 0.7 by the number of features, Jaccard >= 0.54",
        ),
    ],
)
@pytest.mark.parametrize("chains", [False, True])
def test_a_rule_names_the_bounds_of_the_profile(profile, min_similarity, same, near, chains):
    criteria, least = MatchCriteria.exact(profile, min_similarity)
    rule = criteria.rule(least, chains=chains)
    chain = "a chain of matches " if chains else ""
    similarity = None if same == "same fingerprint" else 0.9
    assert rule.of(0, 1, same_text=True) == "same text"
    assert rule.of(0, similarity, same_text=False) == (same if same == "same fingerprint" else chain + same)
    assert rule.of(1, similarity, same_text=False) == chain + near


@pytest.mark.parametrize(
    ("documents", "duplicates", "is_warned_of"), [(100, 91, True), (100, 90, False), (99, 99, False)]
)
def test_sources_of_many_documents_that_are_nearly_all_duplicates_are_warned_of(
    documents, duplicates, is_warned_of
):
    assert bool(warnings_of([SourceReport.of("a", documents, duplicates, 0, 0)])) == is_warned_of
