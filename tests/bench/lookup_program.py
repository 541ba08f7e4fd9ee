"""Fills a store and looks up in it, by the public interface only, so that older states can run it, too:
lookup_program.py URL PROFILE DOCUMENTS"""

import json
import random
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import simhbase

CHARACTERS = 490
LOOKUPS = 1_000
PROFILES: dict[str, dict[str, object]] = {"default": {}, "verify=false": {"verify": False}}


def texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    syllables = [first + second for first in "bcdfglmnprst" for second in "aeiou"]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(8_000)]
    made = []
    for _ in range(count):
        # As in a language: some words are common, most are rare.
        chosen = (words[int(len(words) * chance.random() ** 3)] for _ in range(CHARACTERS // 2))
        made.append(" ".join(chosen)[:CHARACTERS])
    return made


def median(look_up: Callable[[Any], object], asked: Sequence[Any]) -> float:
    """Microseconds of the middle one, after a round that warms up."""
    took = []
    for each in (*asked, *asked):
        start = perf_counter()
        look_up(each)
        took.append(perf_counter() - start)
    return sorted(took[len(asked) :])[len(asked) // 2] * 1e6


def show(what: str, us: float) -> None:
    print(json.dumps((what, us)), flush=True)


def main(url: str, name: str, count: int) -> None:
    stored, strangers = texts(count, 1), texts(LOOKUPS, 2)
    asked = stored[:: max(count // LOOKUPS, 1)][:LOOKUPS]
    with simhbase.open(url, create=PROFILES[name]) as index:
        index.add([simhbase.Document(str(number), text) for number, text in enumerate(stored)])
        index.store.compact()
        show("find(text), stored", median(index.find, asked))
        show("find(text), not stored", median(index.find, strangers))
        if name != "default":
            prints = [int(index.fingerprinter.fingerprint(text)) for text in asked]
            show("a fingerprint", median(lambda each: index.find_fingerprints([each]), prints))
    if url.startswith("rocksdb:"):
        with simhbase.open(url, access="read") as index:
            show("find(text), stored, opened for reading", median(index.find, asked))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
