"""Known answers: what of a text counts, character by character, in its normal form and as tokens.

A change of one of them is a new normalisation, with another name in profiles. To add texts:
python -m tests.unit.test_normal_form > tests/golden/normal_forms.json
"""

import random
import sys
import time
import unicodedata
from pathlib import Path

import numpy as np
import orjson
import pytest
import regex

from simhbase.errors import UsageError
from simhbase.profile.profile import Profile
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.difference import difference
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import FeatureOptions, tokens
from simhbase.text.idf import IdfTable
from simhbase.text.jaccard import ShingleSets
from simhbase.text.normalise import normalise
from simhbase.text.variants import character_table
from tests import reference

GOLDEN = Path(__file__).parents[1] / "golden" / "normal_forms.json"
TEXTS = {
    "zero-width characters": "今天\u200b天气\u2060很好\ufeff\u200b\u200b\u200b",
    "a zero-width space in a word": "near\u200bdup\u200blicate",
    "soft hyphens": "inter\xadnatio\xadnal",
    "marks of direction": "\u200fشركة\u200e ABC \u202bשלום\u202c \u2067x\u2069",
    "an accent behind what is not seen": "e\u200d\u0301 E\ufe0f\u0301",
    "joiners that Persian needs": "می\u200cروم کتاب\u200cها",
    "a joiner that hides behind a Persian word": "سلام\u200c دنیا\u200d",
    "joiners that Sinhala needs": "ශ්\u200dරී ලංකා",
    "joiners that Malayalam needs": "അവന്\u200dറെ",
    "joiners that Bengali needs": "র\u200d্যাব ক্\u200cষ",
    "joiners between Latin and Han": "ab\u200dcd 中\u200c国",
    "joiners in a row": "می\u200c\u200d\u200cروم",
    "zero-width spaces where Khmer words end": "ភាសា\u200bខ្មែរ",
    "zero-width spaces where Thai words end": "ภาษา\u200bไทย",
    "spaces between Han": "中 国\u3000人\n民 银行",
    "spaces between Han and others": "使用 Python 编程， 很 好",
    "spaces between rare Han": "𠮷 野 々 村 㐀 㐁 〇",
    "spaces between kana and Hangul": "カタ カナ ひら がな 한국 사람",
    "what is not seen between Han and spaces": "中\u200b \u200b国 \ufe0f人",
    "variation selectors of Han": "葛\U000e0100飾 神\ufe00",
    "variation selectors of Mongolian": "ᠮᠣᠩᠭᠣᠯ\u180b ᠠ\u180e᠎ᠠ",
    "an emoji in colour and in text": "❤\ufe0f ❤\ufe0e ❤",
    "a family": "👨\u200d👩\u200d👧 👨👩👧",
    "skin tones": "👍🏽👍👍🏿",
    "a profession": "👩🏾\u200d⚕\ufe0f",
    "flags": "🇨🇳 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "keys": "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "codes of emoji": "太好了[微笑][doge] :smile:",
    "fillers of Hangul": "한\u3164글 \uffa0",
    "annotations": "\ufff9漢字\ufffaかんじ\ufffb",
    "signs that are seen": "\u0600١٢ \u06dd٣",
    "Traditional and Simplified": "臺灣的國家圖書館 台湾的国家图书馆",
    "digits of many scripts": "١٢٣ ۴۵۶ ७८९ ৪২ ๒๕๖๗ ᠑᠒ 𞥐𞥑 第１２章",
    "line breaks in Japanese": "日本語の文章は\nどこでも改行\nできる。 カタ\u3000カナ",
    "kana beside other scripts": "Python を使う Pythonを使う メモリ 16 GB 한국 の",
    "voiced marks behind a space": "か \u3099 か\u309b ハ\uff9e",
    "long vowels and iteration": "らーめん ラーメン ちゝ バナヽ",
    "control characters in words": "near\x00dup\x07li\x9fcate a\x1fb\x85c \x7f",
    "icons for private use": "\ue001shop\uf8ff 中\ue000国 a\U000f0001b\U0010fffdc",
    "an accent behind a control character": "e\x01\u0301 E\ue000\u0301",
    "vowel signs and spellings of Arabic": "مُحَمَّدٌ أَحْمَد إسلام آية مســلم ؤ ئ على مدرسة",
}


def answers() -> dict[str, object]:
    return {
        name: {"text": text, "normal form": normalise(text), "tokens": tokens(text)}
        for name, text in TEXTS.items()
    }


def test_normal_forms_and_tokens_are_the_known_ones():
    assert answers() == orjson.loads(GOLDEN.read_bytes())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_normal_form_is_its_own(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_differences_have_the_words_of_the_features(text):
    assert {each.word for each in difference(text, "").words} == set(tokens(text))


@pytest.mark.slow
def test_what_unicode_wants_ignored_is_not_seen():
    """What Unicode ignores by default, as the regex package knows it, and control and private characters."""
    wanted = regex.compile(
        r"\p{Default_Ignorable_Code_Point}|\p{Emoji_Modifier}|[\u20e3\ufff9-\ufffb]|\p{Cc}|\p{Co}|[\U000f0000-\U0010ffff]"
    )
    for code in range(sys.maxunicode + 1):
        if not chr(code).isspace():
            assert (normalise(f"!{chr(code)}!") == "!!") == bool(wanted.fullmatch(chr(code))), hex(code)


def test_traditional_and_simplified_are_the_same_where_asked():
    traditional, simplified = "臺灣的國家圖書館，萬里長城", "台湾的国家图书馆，万里长城"
    plain, folded = Profile(verify=False).fingerprinter(), Profile(verify=False, fold="hant").fingerprinter()
    assert folded.fingerprint(traditional) == folded.fingerprint(simplified) == plain.fingerprint(simplified)
    assert plain.fingerprint(traditional) != plain.fingerprint(simplified)
    short = [Profile(scheme="minhash", fold=fold).fingerprinter() for fold in (None, "hant")]
    assert short[1].fingerprint(traditional) == short[0].fingerprint(simplified)


def test_folding_changes_no_other_text_and_folding_twice_nothing_more():
    table = character_table("hant")
    every = "".join(chr(code) for code in range(sys.maxunicode + 1))
    once = table.convert(every)
    assert table.convert(once) == once
    assert len(once) == len(every)
    changed = [(a, b) for a, b in zip(every, once, strict=True) if a != b]
    assert ("國", "国") in changed
    assert all(unicodedata.name(b).startswith("CJK") for _, b in changed)
    variants = "著着 衞衛卫 甚什 瞭了 妳你 牠祂它他"
    assert [len(set(table.convert(each))) for each in variants.split()] == [1] * 6
    assert normalise(normalise(every, table), table) == normalise(every, table)
    assert table.convert("Ωmega ascii") == "Ωmega ascii"


def test_spellings_of_arabic_are_the_same_where_asked():
    spellings = "مُحَمَّدٌ أَحْمَد إسلام آية مســلم سؤال قائمة على مدرسة e\u0640\u0301"
    plain = "محمد احمد اسلام ايه مسلم سوال قايمه علي مدرسه é"
    table = character_table("arabic")
    assert normalise(spellings, table) == plain == normalise(plain, table)
    assert tokens(normalise(spellings, table)) == plain.split()
    assert normalise(spellings) != normalise(plain)
    every = " ".join(chr(code) for code in range(sys.maxunicode + 1))
    assert normalise(normalise(every, table), table) == normalise(every, table)


def test_digits_of_all_scripts_are_the_same():
    """Those that regex takes for digits, and so for parts of words."""
    for zero in range(0x80, sys.maxunicode - 9):
        if unicodedata.decimal(chr(zero), None) == 0:
            digits = "".join(chr(zero + value) for value in range(10))
            if regex.fullmatch(r"\p{Nd}+", digits):
                assert normalise(digits) == "0123456789", hex(zero)
    outlined = "".join(map(chr, range(0x1CCF0, 0x1CCFA)))  # NFKC changes them from Unicode 16 on
    assert normalise(outlined) == "0123456789"
    for digit in regex.findall(r"\p{Nd}", "".join(map(chr, range(0x80, sys.maxunicode + 1)))):
        assert normalise(digit).isascii(), hex(ord(digit))


def test_folds_hold_for_stop_words_and_boilerplate():
    boilerplate = Boilerplate("mine", "line\t9\t責任編輯\n".encode())
    profile = Profile(verify=False, fold="hant", stop_words=frozenset(["國家"]), boilerplate=boilerplate)
    assert profile.stop_words == {"国家"}
    sets = ShingleSets(FeatureExtractor(profile.feature_options), ["国家，圖書館\n责任编辑", "图书馆"])
    assert sets.similarity(np.array([0]), np.array([1])) == 1


def test_an_idf_table_is_folded_as_texts_are():
    table = IdfTable("mine", "議會 1.0\n甲 5.0\n乙 9.0\n".encode())
    profile = Profile(verify=False, fold="hant", weights="tfidf", idf=table, min_features=1)
    assert FeatureExtractor(profile.feature_options).words("議會") == [("议会", 1)]


@pytest.mark.parametrize(
    "run",
    [
        " ",
        "\u3000",
        "か  ",
        "\U0001f1e6",
        "\u0301\u0316",
        "\u0301\uff9e",
        "\u200b",
        "\u0e01\u200b",
        "\xad\u0301",
    ],
)
def test_long_runs_take_linear_time(run):
    """A run that is eight times as long takes about eight times as long, and not 64 times."""

    def seconds(count):
        text = f"a{run * count}b"
        times = []
        for _ in range(3):
            start = time.process_time()
            difference(text, "one two three")
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(16_000) < 24 * seconds(2_000)


def test_marks_are_ordered_as_unicode_orders_them():
    """Many marks on a letter, which are sorted before Unicode's normalisation, get the same form."""
    chance = random.Random(1)
    for letter in "a中か" * 100:
        marks = chance.choices("\u0301\u0316\u0344\u0f73\u3099\uff9e\uff9f\u0e34\u093f\u0345\u0327", k=80)
        text = f"{letter}{''.join(marks)}b"
        assert normalise(text) == unicodedata.normalize("NFKC", text)


def test_a_fold_that_is_none_is_refused():
    with pytest.raises(UsageError, match="fold: must be one of hant, arabic, not 'kyujitai'"):
        Profile(verify=False, fold="kyujitai")


def test_boilerplate_is_found_whatever_hides_in_it():
    boilerplate = Boilerplate("mine", b"line\t9\tread more\n")
    texts = ["Re\xadad\u200b more\u200b\nhello world"]
    assert ShingleSets(FeatureExtractor(FeatureOptions(boilerplate=boilerplate)), texts).sizes.tolist() == [2]


if __name__ == "__main__":
    print(orjson.dumps(answers(), option=orjson.OPT_INDENT_2).decode())


def test_a_letter_without_case_ends_no_word_before_a_sigma():
    """U+0295 has none in the version of Unicode that the core knows, and had one before."""
    for text, normal in [("\u0295Σ", "\u0295σ"), ("a\u02e4Σ。", "a\u0295σ。"), ("aʰΣ", "ahς")]:
        assert normalise(text) == reference.normalise(text) == normal
