"""Texts that are near each other to every degree."""

import random
from collections.abc import Iterator

SYLLABLES = [first + second for first in "bcdfghklmnprst" for second in ("a", "e", "i", "o", "u", "ai", "on")]


def versions(originals: int, seed: int = 0, words: int = 120) -> Iterator[str]:
    """Original texts, each followed by three versions of it in which ever more words are others."""
    chance = random.Random(seed)
    vocabulary = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(5000)]

    def word() -> str:
        # As in a language: some words are common, most are rare.
        return vocabulary[int(len(vocabulary) * chance.random() ** 3)]

    for _ in range(originals):
        text = [word() for _ in range(words)]
        yield " ".join(text)
        for changed in (1, 5, chance.randint(8, 24)):
            version = list(text)
            for place in chance.sample(range(words), changed):
                version[place] = word()
            yield " ".join(version)
