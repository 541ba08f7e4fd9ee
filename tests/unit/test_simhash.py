"""Fingerprints against a plain reference, and their rejection."""

import mmh3
import pytest
from hypothesis import given, strategies

from simhbase.errors import NoFingerprint
from simhbase.fingerprint.batch import to_int
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.profile.profile import PRESETS, make_profile
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import FeatureOptions
from simhbase.text.idf import jieba_table
from tests import reference


def test_a_tokens_digest_is_big_endian():
    assert mmh3.mmh3_x64_128_digest("美国".encode())[:8].hex() == "74687e025a2691da"
    assert Fingerprinter(FeatureOptions(), min_features=1).fingerprint("美国") == 0x74687E025A2691DA


@pytest.mark.slow
@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize(
    "options",
    [
        FeatureOptions(),
        FeatureOptions(min_length=1),
        FeatureOptions(top=3),
        FeatureOptions(weights="tfidf", idf=jieba_table()),
        FeatureOptions(weights="tfidf", idf=jieba_table(), top=64),
        FeatureOptions(weights="levels", idf=jieba_table()),
    ],
    ids=["count", "short-words", "top", "tfidf", "tfidf-top", "levels"],
)
def test_fingerprints_equal_the_reference(options, bits):
    fingerprinter = Fingerprinter(options, bits)
    texts = [
        "国务院总理主持召开常务会议，研究部署进一步促进就业和稳定物价的政策措施。",
        "The committee approved the budget on Tuesday after a long debate, the committee said.",
        "国际 米兰 " * 400 + "足球 俱乐部 " * 300,
    ]
    found = fingerprinter.fingerprint_many(texts)
    for text, value in zip(texts, found.values, strict=True):
        assert to_int(value) == reference.simhash(FeatureExtractor(fingerprinter.options).words(text), bits)


@pytest.mark.parametrize("count", [255, 256, 511, 70_000])
def test_sums_of_many_features_are_exact(count):
    text = " ".join(f"w{number}" for number in range(count))
    weighted = [(f"w{number}", 1) for number in range(count)]
    assert Fingerprinter(FeatureOptions()).fingerprint(text) == reference.simhash(weighted)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the text is empty"),
        (" \n\t　", "the text is empty"),
        ("word", "the text has 1 distinct feature (words), at least 2 are needed"),
        ("word word word word word word word word word", "1 distinct"),
        ("?!…", "0 distinct"),
        ("我 你", "0 distinct"),
    ],
)
def test_texts_without_enough_features_are_rejected_and_never_equal(text, reason):
    fingerprinter = Fingerprinter(FeatureOptions())
    with pytest.raises(NoFingerprint) as error:
        fingerprinter.fingerprint(text)
    assert reason in error.value.reason
    found = fingerprinter.fingerprint_many(["两个 词语", text])
    assert found.accepted.tolist() == [True, False]


@given(strategies.text(max_size=6))
def test_a_reason_names_the_profile_short_where_that_takes_the_text(text):
    takes = make_profile(PRESETS["short"]).fingerprinter()
    (without,) = takes.fingerprint_many([text]).reasons
    for profile in ("default", "complete"):
        (reason,) = make_profile(PRESETS[profile]).fingerprinter().fingerprint_many([text]).reasons
        if reason is not None:
            assert reason.endswith("; the profile short takes it") == (without is None)


def test_no_texts_have_no_fingerprints():
    for bits in (64, 128):
        found = Fingerprinter(FeatureOptions(), bits).fingerprint_many([])
        assert len(found.values) == len(found.reasons) == 0
