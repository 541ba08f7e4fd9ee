"""Boilerplate: what is taken out of texts, what stays, and the files it is kept in."""

import pytest

from simhbase.errors import BadInput, NoFingerprint
from simhbase.profile.profile import Profile
from simhbase.text.boilerplate import Boilerplate, BoilerplateItem, join, phrases, render, split
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import FeatureOptions
from simhbase.text.jaccard import ShingleSets
from simhbase.text.userfile import read_boilerplate

PREFIX = "央视网消息（新闻联播）："
FOOT = "Copyright 2020 Example Inc. All rights reserved, worldwide."


def made(*lines: str) -> Boilerplate:
    return Boilerplate("mine", "".join(line + "\n" for line in lines).encode())


MINE = made("phrase\t9\t央视网消息新闻联播", "line\t3\tRead more", "phrase\t2\t" + FOOT, "line\t2\t完")


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("央视网（新闻）", "央 视 网 新 闻"),
        ("Ａ big-time ５G时代!", "a big time 5g 时 代"),
        ("ひらカタ漢", "ひ ら カ タ 漢"),
        ("สวัสดี", "ส ว ั ส ด ี"),
        ("naïve café Straße №7", "naïve café straße no7"),
        (" \n—“”。", ""),
        ("", ""),
    ],
)
def test_units_are_characters_of_scripts_without_spaces_and_other_words(text, units):
    assert split(text) == units.split()
    assert split(join(units.split())) == units.split()


def test_a_phrase_goes_wherever_it_stands_with_its_punctuation():
    assert MINE.strip([PREFIX + "今天下雨。"]) == [" 今天下雨。"]
    assert MINE.strip(["今天下雨。央视网消息 新闻联播!明天"]) == ["今天下雨。 明天"]
    assert MINE.strip(["Today it rains. COPYRIGHT 2020 example inc all rights reserved worldwide"]) == [
        "today it rains.  "
    ]


def test_of_a_phrase_eight_units_are_enough_and_seven_are_not():
    assert MINE.strip(["视网消息新闻联播在今天"]) == [" 在今天"]
    assert MINE.strip(["网消息新闻联播在今天"]) == ["网消息新闻联播在今天"]


def test_a_line_goes_where_it_stands_alone():
    assert MINE.strip(["one two\n» READ  more «\nthree\n（完）"]) == ["one two\n \nthree\n "]
    assert MINE.strip(["please read more of it\n完了"]) == ["please read more of it\n完了"]


def test_a_phrase_does_not_reach_from_one_text_into_the_next():
    texts = ["今天央视网消息", "新闻联播今天", "read", "more"]
    assert MINE.strip(texts) == texts


def test_a_text_without_boilerplate_stays_to_the_letter():
    texts = ["Ｎothing　to take\tout", "", "\ud800 half a pair", "ﬁ\r\n"]
    assert [after is before for after, before in zip(MINE.strip(texts), texts, strict=True)] == [True] * 4
    assert MINE.strip([]) == []


def test_words_on_either_side_are_as_with_a_space_between_them():
    features = FeatureExtractor(FeatureOptions(weights="count", boilerplate=MINE))
    texts = ["big央视网消息新闻联播house", "北京央视网消息新闻联播大学"]
    assert ShingleSets(features, texts).sizes.tolist() == [2, 1], "big house, 北京大学"


def test_both_schemes_and_their_sketches_leave_boilerplate_out():
    body = "一位大学生问爱因斯坦的经历表明什么，只有勤奋好学并富有想象力，才有可能创造伟大的成就。"
    for options in ({}, {"scheme": "minhash"}, {"verify": True}, {"weights": "tfidf", "top": 8}):
        of_whole = Profile(boilerplate=MINE, **options).fingerprinter().fingerprint_many([PREFIX + body])
        of_body = Profile(**options).fingerprinter().fingerprint_many([body])
        assert of_whole.values.tolist() == of_body.values.tolist()
        assert of_whole.fingerprints.sketches.tolist() == of_body.fingerprints.sketches.tolist()
        plain = Profile(**options).fingerprinter().fingerprint_many([PREFIX + body])
        assert plain.fingerprints.values.tolist() != of_body.fingerprints.values.tolist()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PREFIX, "the text is only boilerplate"),
        (PREFIX + "天气", "the text has 1 distinct feature (words) without its boilerplate, at least 2"),
        ("天气", "the text has 1 distinct feature (words), at least 2"),
        ("", "the text is empty"),
    ],
)
def test_a_text_of_too_little_else_is_rejected_with_a_reason(text, reason):
    with pytest.raises(NoFingerprint) as raised:
        Profile(verify=False, boilerplate=MINE).fingerprinter().fingerprint(text)
    assert str(raised.value).startswith(reason)


def test_a_text_that_is_boilerplate_only_with_its_variants_replaced_is_rejected_as_boilerplate():
    """The reason follows the profile's fold, as the fingerprint does."""
    boilerplate = Boilerplate("mine", "line\t9\t責任編輯張三\n".encode())
    profile = Profile(verify=False, fold="hant", boilerplate=boilerplate)
    with pytest.raises(NoFingerprint, match="only boilerplate"):
        profile.fingerprinter().fingerprint("责任编辑张三")


def test_a_file_is_what_was_learnt_and_can_be_edited(tmp_path):
    entries = [BoilerplateItem("line", 3, "完"), BoilerplateItem("phrase", 20, "央视网消息新闻联播")]
    file = tmp_path / "own"
    file.write_bytes(render(entries, 100, 3))
    assert file.read_text("utf-8") == (
        "# simhbase boilerplate: what at least 3 of 100 documents have\n"
        "phrase\t20\t央视网消息新闻联播\n"
        "line\t3\t完\n"
    )
    assert read_boilerplate(file).entries == entries[::-1]
    file.write_text(file.read_text("utf-8") + "\n# mine\r\nline\t0\tRead (more)\r\n", "utf-8")
    assert read_boilerplate(file).strip(["read more"]) == [" "]
    assert (read_boilerplate(file).count("line"), read_boilerplate(file).count("phrase")) == (2, 1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"line\t3\tx\nline 3 x\n", "own, line 2: expected 'line' or 'phrase'.*found 'line 3 x'"),
        (b"\n\nlines\t3\tx\n", "own, line 3: expected"),
        (b"line\tmany\tx\n", "own, line 1: expected"),
        (b"line\t3\t...\n", "own, line 1: expected"),
        (b"line\t" + b"3" * 10_000 + b"\tx\n", "own, line 1: expected"),
        (b"phrase\t3\t" + "央".encode() * 7 + b" " * 1_000_000 + b"\n", "a phrase needs at least 8 words"),
        ("phrase\t3\t央视网\n".encode(), "own, line 1: a phrase needs at least 8 words .* has 3"),
        (b"# nothing\n", "own is empty: it has no boilerplate"),
        (b"", "own is empty: it has no boilerplate"),
        (b"line\t3\tx\xff\n", "own is not UTF-8 at byte 8"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path, content, told):
    (tmp_path / "own").write_bytes(content)
    with pytest.raises(BadInput, match=told) as raised:
        read_boilerplate(tmp_path / "own")
    assert len(str(raised.value)) < 1_000


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="own: No such file"):
        read_boilerplate(tmp_path / "own")


def test_windows_that_follow_each_other_become_one_phrase():
    assert phrases({"a b c d e f g h": 9, "b c d e f g h i": 4, "c d e f g h i j": 7}) == [
        BoilerplateItem("phrase", 4, "a b c d e f g h i j")
    ]
    forked = {"a b c d e f g h": 9, "b c d e f g h i": 4, "b c d e f g h j": 5}
    assert sorted(phrases(forked)) == sorted(BoilerplateItem("phrase", n, text) for text, n in forked.items())
    assert phrases({"哈哈哈哈哈哈哈哈": 3}) == [BoilerplateItem("phrase", 3, "哈哈哈哈哈哈哈哈")]
    assert phrases({}) == []
