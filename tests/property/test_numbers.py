"""With same_numbers texts match as without it, if they have the same numbers."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import simhbase
from simhbase.corpus.record import InputOptions
from simhbase.index.stored_profile import read_profile, write_profile
from simhbase.profile.comparison import compare_by
from simhbase.profile.profile import Profile, make_profile, with_corpus_defaults
from simhbase.stores import create_store

PROFILES = [
    {},
    {"threshold": None, "reach": 3, "verify": True},
    {"scheme": "minhash", "threshold": 0.7},
    {"preset": "short"},
]
TITLE = "Stainless steel kettle with a glass lid and a filter, {} litres, model {}, white or black"
titles = st.builds(
    TITLE.format, st.sampled_from(["1.7", "1,7", "7 1", "１.７", "2"]), st.sampled_from(["K7", "k１", "K"])
)


def numbers(text: str) -> set[str]:
    return {str(int(found)) for found in re.findall(r"\d+", text)}


def matches(given: dict[str, object], left: str, right: str) -> bool:
    profile = make_profile(
        {key: each for key, each in given.items() if key != "preset"}, str(given.get("preset", "default"))
    )
    return compare_by(profile, profile.fingerprinter(), left, right).match


@pytest.mark.parametrize("given_", PROFILES)
@example(left=TITLE.format(1, 7), right=TITLE.format(7, 1))
@given(left=titles, right=titles)
def test_numbers_decide_beside_everything_else(given_, left, right):
    near = matches(given_, left, right)
    assert matches({**given_, "same_numbers": True}, left, right) == (
        near and numbers(left) == numbers(right)
    )


@pytest.mark.parametrize("given_", PROFILES)
def test_stores_find_and_claim_by_numbers(given_):
    one, other, same = TITLE.format(1.7, "K7"), TITLE.format(1.7, "K8"), TITLE.format(1.7, "k7").upper()
    with simhbase.open("memory:", create={**given_, "same_numbers": True}) as index:
        assert [index.claim(text, text).accepted for text in (one, other, same)] == [True, True, False]
        assert [match.id for match in index.find(same)] == [one]
        if index.profile.scheme == "simhash" or not isinstance(index.profile.threshold, str):
            assert [match.id for match in index.find(same, min_similarity=0)] == [one]


@pytest.mark.parametrize("given_", [{}, {"k": 3}, {"scheme": "minhash", "threshold": 0.7}])
def test_dedup_keeps_what_differs_in_a_number(given_, tmp_path):
    file = tmp_path / "titles.txt"
    file.write_text("\n".join(TITLE.format(1.7, model) for model in ("K7", "K8", "k７")), "utf-8")
    found = simhbase.dedup(
        simhbase.Inputs([file], InputOptions(format="lines")), {**given_, "same_numbers": True}
    )
    assert (found.unique, found.duplicates) == (2, 1)
    assert with_corpus_defaults({"same_numbers": True})["scheme"] == "minhash"


def test_a_store_keeps_it_and_other_digests_are_what_they_were():
    store = create_store("memory:")
    profile = make_profile({"same_numbers": True})
    assert profile.digest != make_profile({}).digest
    assert profile.sketching.bytes == make_profile({}).sketching.bytes + 4
    write_profile(store, profile)
    assert read_profile(store).profile == profile
    with pytest.raises(simhbase.ProfileMismatch, match="same_numbers is on, not off"):
        profile.require({"same_numbers": False})
    with pytest.raises(simhbase.UsageError, match="does not apply to scheme simhash without verification"):
        Profile(verify=False, same_numbers=True)
