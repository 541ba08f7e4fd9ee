"""Two texts by one profile."""

import pytest

import simhbase
from simhbase import Document, Profile
from simhbase.profile.profile import make_profile
from tests.command_line import texts

TEXT, OTHER = texts(2)
REACHING = Profile(verify=True, threshold=0.7, reach=7)
NEAR = TEXT.replace("，", "；", 1) + "。了"


@pytest.mark.parametrize(
    "profile",
    [
        Profile(verify=False),
        Profile(verify=False, bits=128),
        Profile(verify=True),
        Profile(scheme="minhash"),
        Profile(verify=False, layout="6x3"),
        REACHING,
    ],
    ids=["5x2", "128 bits", "verified", "minhash", "6x3", "reach"],
)
def test_near_texts_match_and_others_do_not(profile):
    near, far = simhbase.compare(TEXT, NEAR, profile), simhbase.compare(TEXT, OTHER, profile)
    assert near.match
    assert near.drawers
    assert near.drawer_count == profile.index_scheme.tables
    assert 0.8 < near.jaccard < 1
    assert not far.match
    assert far.jaccard < 0.5
    assert far.distance > near.distance
    assert (near.similarity is None) == (profile.sketching is None)


def test_it_says_where_they_differ():
    (added,) = (each for each in simhbase.compare(TEXT, NEAR).stretches if not each.same)
    assert (added.left, added.right) == ("", "了")


def test_one_text_is_itself():
    found = simhbase.compare(TEXT, TEXT)
    assert (found.distance, found.jaccard, found.match) == (0, 1.0, True)
    assert found.drawers == tuple(range(1, 11))


def test_a_text_without_a_fingerprint_says_why_and_still_differs():
    found = simhbase.compare("", TEXT)
    assert found.fingerprints[0] is None
    assert found.reasons == ("the text is empty", None)
    assert (found.distance, found.match, found.drawers) == (None, False, ())
    assert not all(each.same for each in found.stretches)


def test_texts_too_short_for_a_shingle_are_the_same_where_they_are_equal():
    assert simhbase.compare("好", "好").jaccard == 1
    assert simhbase.compare("好", "坏").jaccard == 0


def test_an_index_compares_by_its_own_profile_what_it_would_find():
    with simhbase.open("memory:", create=Profile(scheme="minhash")) as index:
        index.add([Document("a", TEXT)])
        found = index.compare(NEAR, TEXT)
        (match,) = index.find(NEAR).matches
        assert (found.distance, found.similarity) == (match.distance, match.similarity)
        assert found.fingerprints[1] == match.fingerprint


def test_containment_is_told_both_ways():
    part = TEXT[: len(TEXT) // 2]
    assert simhbase.compare(part, TEXT).containment[0] == 1
    assert 0.4 < simhbase.compare(part, TEXT).containment[1] < 0.6
    assert simhbase.compare(TEXT, part).containment == simhbase.compare(part, TEXT).containment[::-1]
    assert max(simhbase.compare(TEXT, OTHER).containment) < 0.3
    assert simhbase.compare("", TEXT).containment == (1, 0)


def test_a_changed_number_costs_its_own_characters():
    text = TEXT[:60] + "12.5" + TEXT[60:120]
    of_left, _ = simhbase.compare(text, text.replace("12.5", "17.5")).containment
    assert 0.8 < of_left < 1


def test_the_profile_short_has_no_containment():
    assert simhbase.compare(TEXT, NEAR, make_profile({}, "short")).containment is None


def test_parameters_may_be_given_by_name():
    assert simhbase.compare(TEXT, NEAR, {"scheme": "minhash"}).drawer_count == 20


def test_what_is_no_text_is_refused():
    with pytest.raises(simhbase.UsageError, match="compare takes two strings, not bytes"):
        simhbase.compare(TEXT, b"bytes")  # type: ignore[arg-type]


def same(*compared):
    return all(each.same for each in simhbase.compare(*compared).stretches)


def test_the_difference_is_told_in_the_form_of_the_profile():
    left, right = "這個國家的經濟發展與環境保護問題", "这个国家的经济发展与环境保护问题"
    assert same(left, right, {"fold": "hant"})
    assert not same(left, right)
    assert same("中 国\u200bab", "中国ab")
