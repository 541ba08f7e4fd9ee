"""Which changes of a text still match: texts are changed in known ways, and looked for."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from simhbase.deduplication.matching import MatchCriteria
from simhbase.profile.profile import Profile
from simhbase.quality.intervals import Estimate, estimate
from simhbase.quality.pairs import TextPairs
from simhbase.quality.schemes import fingerprint_texts, pairs_found_by
from simhbase.quality.truth import share
from simhbase.text.dictionary import dictionary
from simhbase.text.jaccard import shingle_sets
from simhbase.text.normalise import form, normalise

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
PARAGRAPH = 50  # words
TEXTS = 300  # of a corpus, which are changed
MOST_CHARACTERS = 50_000  # of a text

Finder = Callable[[Sequence[str]], TextPairs]  # finds the near-duplicates among n texts
Pair = tuple[str, str]  # a text before and after


@dataclass(frozen=True, kw_only=True)
class MatchedChange:
    """How often texts match their copies with one change.

    change: its name; similarity: median of the exact similarity (of growing shingles) to the copy, with its
    lowest and highest tenth in `low` and `high`; matched: by way of finding, the share of copies found.
    """

    change: str
    similarity: float
    low: float
    high: float
    matched: Mapping[str, Estimate]

    def as_dict(self) -> dict[str, Any]:
        found = {name: share(each) for name, each in self.matched.items()}
        return {"change": self.change, "similarity": round(self.similarity, 3), **found}


class WordsInText:
    """A text in normal form with its words, each with where it starts and ends."""

    def __init__(self, text: str) -> None:
        self.text = normalise(text)
        self.words = form().words(text, dictionary())

    def with_others(self, others: Mapping[int, str]) -> str:
        """The text with other words at these places."""
        parts, end = [], 0
        for place in sorted(others):
            _, start, stop = self.words[place]
            parts += [self.text[end:start], others[place]]
            end = stop
        return "".join([*parts, self.text[end:]])

    def cut(self, words: int) -> str:
        """The text up to its n-th word. Must have so many."""
        return self.text[: self.words[words - 1][2]]


def by_store(profile: Profile, threads: int) -> Finder:
    """Finds what a store with this profile finds."""

    def find(texts: Sequence[str]) -> TextPairs:
        (fingerprinted,) = fingerprint_texts(texts, [profile], threads)
        return pairs_found_by(profile, fingerprinted, None)

    return find


def by_dedup(min_similarity: float | None, threads: int) -> Finder:
    """Finds what `dedup` and `match` find: candidates by their bands, compared exactly."""
    criteria, least = MatchCriteria.exact(None, min_similarity)

    def find(texts: Sequence[str]) -> TextPairs:
        (fingerprinted,) = fingerprint_texts(texts, [criteria.profile], threads)
        found = fingerprinted.found(criteria.chosen.pairs(fingerprinted.fingerprints, criteria.bounds))
        return found.where(shingle_sets(texts).similarity(found.left, found.right) >= least)

    return find


def matched_changes(
    texts: Sequence[str], finders: Mapping[str, Finder], seed: int = 0
) -> list[MatchedChange]:
    """Changes texts and looks for the copies. Of many texts, TEXTS are taken, at equal distances, and of long
    ones the first MOST_CHARACTERS; texts without words are left out. Another seed changes other words."""
    known = [WordsInText(text[:MOST_CHARACTERS]) for text in texts[:: max(1, len(texts) // TEXTS)][:TEXTS]]
    known = [each for each in known if each.words]
    if len(known) < 2:
        return []
    changes = Changes(known, random.Random(seed))
    return [_matched(name, pairs, finders) for name, pairs in changes.all()]


def _matched(name: str, pairs: Sequence[Pair], finders: Mapping[str, Finder]) -> MatchedChange:
    before, after = zip(*pairs, strict=True)
    texts, n = [*before, *after], len(pairs)
    left = np.arange(n)
    low, median, high = np.quantile(shingle_sets(texts).similarity(left, left + n), (0.1, 0.5, 0.9)).tolist()
    matched = {}
    for way, find in finders.items():
        found = estimate(find(texts).has(left, left + n), left, np.ones(n))
        assert found is not None
        matched[way] = found
    return MatchedChange(change=name, similarity=median, low=low, high=high, matched=matched)


class Changes:
    """Changed copies of texts; new words are drawn from all of them, by their frequency."""

    def __init__(self, texts: Sequence[WordsInText], chance: random.Random) -> None:
        self._texts = texts
        self._chance = chance
        self._words = [word for each in texts for word, _, _ in each.words]
        self._spread = Counter(word for each in texts for word in {word for word, _, _ in each.words})

    def all(self) -> Iterator[tuple[str, list[Pair]]]:
        """Names of the changes, and the texts before and after each."""
        for portion in SHARES:
            change = partial(self._other_words, portion)
            yield f"{100 * portion:.0f} % of the words changed", list(map(change, self._texts))
        yield "a date and a name changed", list(map(self._date_and_name, self._texts))
        yield f"a paragraph of {PARAGRAPH} words added", list(self._paragraph_added())

    def _other_words(self, portion: float, text: WordsInText) -> Pair:
        """At least one word, at random places."""
        count = max(1, round(portion * len(text.words)))
        places = self._chance.sample(range(len(text.words)), count)
        return text.text, text.with_others({place: self._other(text.words[place][0]) for place in places})

    def _date_and_name(self, text: WordsInText) -> Pair:
        """Both begin with a date. The name is the rarest of the words that occur several times, if there are
        some; it is another one everywhere."""
        counts = Counter(word for word, _, _ in text.words)
        repeated = [word for word in counts if counts[word] > 1 and not word.isdigit()]
        name = min(repeated or counts, key=lambda word: self._spread[word])
        other = self._other(name)
        renamed = {place: other for place, (word, _, _) in enumerate(text.words) if word == name}
        first, second = self._chance.sample(range(2000, 2030), 2)
        return (
            f"{first}-{self._month_and_day()} {text.text}",
            f"{second}-{self._month_and_day()} {text.with_others(renamed)}",
        )

    def _paragraph_added(self) -> Iterator[Pair]:
        """At the end, of the words of the texts that follow."""
        for place, text in enumerate(self._texts):
            left, parts = PARAGRAPH, []
            for following in islice([*self._texts[place + 1 :], *self._texts[:place]], PARAGRAPH):
                taken = min(left, len(following.words))
                parts.append(following.cut(taken))
                left -= taken
                if not left:
                    break
            yield text.text, " ".join([text.text, *parts])

    def _month_and_day(self) -> str:
        return f"{self._chance.randint(1, 12):02}-{self._chance.randint(1, 28):02}"

    def _other(self, word: str) -> str:
        """Another word, or the same one with a letter more if there is no other."""
        for _ in range(100):
            if (drawn := self._chance.choice(self._words)) != word:
                return drawn
        return word + word[0]
