"""Short texts: sentences written for the tests, and made ones with so many characters changed."""

import random
from pathlib import Path

PAIRS = Path(__file__).parent / "data" / "short_pairs.tsv"
HAN = range(0x4E00, 0x9FA5)


def sentence_pairs() -> list[tuple[str, str]]:
    """Sentences of about 17 characters, each with one that differs in two of them."""
    lines = PAIRS.read_text("utf-8").splitlines()
    return [(left, right) for left, right in (line.split("\t") for line in lines)]


def near_pairs(count: int, length: int, longer: int = 0, changed: int = 2) -> list[tuple[str, str]]:
    """Texts of one length, each with one that is longer and has so many characters changed."""
    chance = random.Random(length)
    pairs = []
    for _ in range(count):
        letters = chance.sample(HAN, length + longer)
        others = list(letters)
        for place in chance.sample(range(1, length - 1), changed):
            others[place] = chance.choice(HAN)
        pairs.append(("".join(map(chr, letters[:length])), "".join(map(chr, others))))
    return pairs
