"""Fingerprints are those of the definition (tests/reference.py): random settings, real and hostile texts."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random
from time import monotonic

import numpy as np
import pytest

from simhbase.errors import UsageError
from simhbase.fingerprint.batch import to_int
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index.stored_profile import probes
from simhbase.profile.profile import Profile
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import document_frequencies, tokens
from simhbase.text.idf import IdfTable
from simhbase.text.jaccard import shingle_sets
from simhbase.text.variants import CharacterTable
from tests import reference
from tests.reference import Answer

HOUR = 3600  # seconds
LONGEST = 4000  # characters of a real text, which take the definition up to half a second
TRIES = 400  # to make a text shorter that has another fingerprint

KINDS = ["words", *(f"words:{size}" for size in (1, 2, 3, 5)), *(f"chars:{size}" for size in range(1, 10))]
IDF = IdfTable("mine", "北京 1.5\n大学 0.25\nhello 2\n研究 0\n議會 1.0\n的 0.1\nthe 0.05\n".encode())
FOLDS = [
    *("hant", "arabic"),
    CharacterTable("hant", "學\t学\n龍\t龙\n㈱\t株\n薴\t苧\n苧\t苎\n".encode()),
    CharacterTable("hant", "學\t\n式\t\n龍\t龙\n".encode()),
]
STOP_WORDS = ["北京", "of", "The", "我们", "中", "12", "می\u200cروم"]
LINES = ["Read more", "完", "責任編輯：張三"]  # of boilerplate
# Words that jieba joins and parts, and characters that change with their neighbours.
PARTS = [
    *("北京", "大学", "北京大学", "研究生命起源", "结婚的和尚未结婚的", "南京市长江大桥", "乒乓球拍卖完了"),
    *("hello", "The", "ΑΣ", "ΑΣ.Α", "ß", "İ", "ẗ", "DŽ", "ﬁ", "㈱", "㍿", "Ⅷ", "…", "℃", "１２", "1,7", "٣"),
    *("が", "か\u3099", "ハ\uff9e", "カナー", "゛", "Python を", "日本\nの", "한글", "\u1112\u1161\u11ab"),
    *(
        "می\u200cروم",
        "ภาษา\u200bไทย",
        "ශ්\u200dරී",
        "ក្ត",
        "👩🏾\u200d⚕\ufe0f",
        "🏴\U000e0067\U000e007f",
        "葛\U000e0100",
    ),
    *("學龍", "薴苧苎", "臺灣", "أَحْمَد", "مســلم", "々〇", "㐀", "龦", "鿿", "𠀀", "\ud800", "\udfff\udc00"),
    *("\n", "\r\n", "\t", " ", "  ", "\u3000", "\x85", "\u2028", "\x1c", "，", "。", ",", ":", "'", ".", "·"),
    *("\xad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\ufe0f", "\u034f", "\u115f", "\u3164"),
    *("\u0301", "\u0323", "\u0345", "\u0308", "\u3099", "\u309a", "\u0f73", "\u0344", "\U0001d165"),
    *("责任编辑：张三\n", "Σ", "σ", "ς", "७", "\x00", "\uffff", "\U0010ffff"),
]
RANGES = [
    *((0, 0x110000), (0, 0x3000), (0x300, 0x370), (0x600, 0x700), (0x900, 0x1200)),
    *((0x4E00, 0xA000), (0xFF00, 0x10000)),
]


def random_profile(chance: Random, corpus: Sequence[str]) -> Profile:
    """A profile of any kind."""
    while True:
        try:
            return Profile(**random_parameters(chance, corpus))
        except UsageError:  # parameters that do not go together
            continue


def random_parameters(chance: Random, corpus: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {
        "features": chance.choice([*["words"] * 6, *KINDS, "chars:1-3", *["chars:growing"] * 3]),
        "min_length": chance.choice([1, 2, 2, 3]),
        "min_features": chance.choice([1, 2, 2, 5]),
        "stop_words": chance.choice([[], STOP_WORDS]),
        "fold": chance.choice([None, None, None, *FOLDS]),
        "boilerplate": chance.choice([None, None, random_boilerplate(chance, corpus)]),
    }
    scheme = chance.choice(["simhash", "verified", "minhash"])
    slots, bits = chance.choice([(128, 8), (256, 2), (64, 1), (24, 4), (12, 16), (6, 32), (200, 8)])
    if scheme != "simhash":
        found |= {"slots": slots, "sketch_bits": bits, "same_numbers": chance.random() < 0.4}
    if scheme == "minhash":
        threshold = "0.5-0.7" if found["features"] == "chars:1-3" else 0.5
        return found | {"scheme": "minhash", "bands": f"1x{chance.randint(1, slots)}", "threshold": threshold}
    found |= {"verify": scheme == "verified", "bits": chance.choice([64, 128]), "layout": "5x2"}
    if found["features"] == "words":
        found["weights"] = chance.choice(["count", "capped", "saturated", "tfidf", "levels"])
        found["top"] = chance.choice([None, None, 1, 3, 64])
        if found["weights"] in ("tfidf", "levels"):
            found["idf"] = chance.choice([None, IDF])  # None: jieba's
    return found


def random_boilerplate(chance: Random, corpus: Sequence[str]) -> Boilerplate:
    """Lines and phrases of some of the texts."""
    rows = [f"line\t9\t{line}\n" for line in LINES]
    for text in chance.sample(corpus, 8):
        line = chance.choice(text.split("\n"))[:80]
        units = len(reference.units(reference.fold(line)))
        if units:
            rows.append(f"{'phrase' if units >= reference.WINDOW else 'line'}\t9\t{line}\n")
    return Boilerplate("mine", "".join(rows).encode())


def entries(boilerplate: Boilerplate | None) -> list[str]:
    content = b"" if boilerplate is None else boilerplate.content
    return [row.split("\t", 2)[2] + "\n" for row in content.decode().split("\n") if row]


def random_texts(chance: Random, corpus: Sequence[str], parts: Sequence[str]) -> Iterator[str]:
    """Real texts, parts of them, such with other characters in them, and hostile ones made of `parts`."""

    def part() -> str:
        return (
            chance.choice(parts) if chance.random() < 0.6 else chr(chance.randrange(*chance.choice(RANGES)))
        )

    yield from chance.sample(corpus, 4)
    for _ in range(12):
        yield chance.choice(corpus)[: chance.randrange(1, 150)]
    for _ in range(12):
        text = [*chance.choice(corpus)[:300]]
        for _ in range(chance.randrange(1, 12)):
            text.insert(chance.randrange(len(text) + 1), part())
        yield "".join(text)
    for most in [60] * 30 + [4] * 8:
        yield "".join(part() for _ in range(chance.randrange(most)))
    yield part() * chance.randrange(1, 400)


def real_texts() -> list[str]:
    """Some texts of the corpora that are here, and the fixed texts."""
    found = [*probes()]
    for corpus in reference.CORPORA:
        if (reference.DATA / f"{corpus}.jsonl.gz").exists():
            found += [text[:LONGEST] for _, text in islice(reference.documents(corpus, 13), 300)]
    return found


def answers(fingerprinter: Fingerprinter, texts: Sequence[str]) -> list[Answer]:
    """What the product says of a batch."""
    found = fingerprinter.fingerprint_many(texts)
    return [*map(Answer, map(to_int, found.values), found.fingerprints.sketch_bytes(), found.reasons)]


def seeded(profile: Profile, seed: int) -> Fingerprinter:
    """The profile's fingerprinter, with sketches of another seed."""
    sketching = profile.sketching and replace(profile.sketching, seed=seed)
    options, bits = profile.feature_options, profile.bits
    return Fingerprinter(options, bits, profile.min_features, sketching, profile.scheme == "minhash")


def require_same(profile: Profile, seed: int, texts: Sequence[str]) -> None:
    """Fails with a report on the first text with another answer than the definition's."""
    product = seeded(profile, seed) if seed else profile.fingerprinter()

    def both(text: str) -> tuple[Answer, Answer]:
        return answers(product, [text])[0], reference.fingerprint(text, profile, seed)

    for text, answer in zip(texts, answers(product, texts), strict=True):
        if answer != reference.fingerprint(text, profile, seed):
            short = shortened(text, lambda part: len({*both(part)}) == 2)
            found, defined = both(short)
            pytest.fail(
                f"{profile.describe()}, {profile.stop_words}, {profile.fold}\nthe whole: {text!a}\n"
                f"a part: {short!a}\nin normal form: {reference.normalise(short, profile.variants)!a}\n"
                f"product: {found}\ndefinition: {defined}\nin its batch: {answer}"
            )


def shortened(text: str, is_wrong: Callable[[str], bool]) -> str:
    """A short part of a text that is still wrong; the text itself if it is wrong only in its batch."""
    start, size = 0, len(text)
    for _ in range(TRIES):
        part = text[:start] + text[start + size :]
        if is_wrong(part):
            text = part
        else:
            start += size
        if start >= len(text):
            start, size = 0, max(1, size // 2)
    return text


def compare(chance: Random, corpus: Sequence[str]) -> int:
    """Compare the answers to some texts by one profile, and their words; returns the number of texts."""
    profile, seed = random_profile(chance, corpus), chance.choice([0, 0, 7])
    parts = [*PARTS, *entries(profile.boilerplate)]
    texts = ["".join(filter(reference.is_settled, text)) for text in random_texts(chance, corpus, parts)]
    chance.shuffle(texts)
    require_same(profile, seed, texts)
    some = texts[:8]
    words = [reference.tokens(text) for text in some]
    assert [tokens(text) for text in some] == words
    assert document_frequencies(some) == Counter(word for each in words for word in set(each))
    size = chance.choice([2, 3, "growing"])
    left, right = np.arange(len(some) - 1), np.arange(1, len(some))
    assert shingle_sets(some, f"chars:{size}").similarity(left, right).tolist() == [
        reference.similarity(some[one], some[other], size) for one, other in zip(left, right, strict=True)
    ]
    options = profile.shingles
    assert FeatureExtractor(options).containment(some, left, right).tolist() == [
        reference.containment(some[one], some[other], options) for one, other in zip(left, right, strict=True)
    ]
    return len(texts)


def fuzz(config: pytest.Config, seconds: float) -> str:
    """Compare for some time; returns what was compared."""
    seed = config.getoption("--fuzz-seed") or Random().randrange(1, 1 << 32)
    corpus = real_texts()
    settings = texts = 0
    end = monotonic() + seconds
    while monotonic() < end:
        try:
            texts += compare(Random(f"{seed} {settings}"), corpus)
        except BaseException as error:
            error.add_note(f"setting {settings} of --fuzz-seed {seed}")
            raise
        settings += 1
    return f"{texts:,} texts in {settings:,} settings, none of them different (--fuzz-seed {seed})"


@pytest.mark.timeout(2 * HOUR)  # the usual time would end it before --fuzz does
def test_fingerprints_are_those_of_the_definition(pytestconfig, record_property):
    """For --fuzz SECONDS, random texts by random profiles have the fingerprints of the definition."""
    record_property("definition", fuzz(pytestconfig, pytestconfig.getoption("--fuzz")))


@pytest.mark.full
@pytest.mark.timeout(2 * HOUR)
def test_fingerprints_are_those_of_the_definition_for_an_hour(pytestconfig, record_property):
    """The same for an hour."""
    record_property("definition, an hour", fuzz(pytestconfig, HOUR))
