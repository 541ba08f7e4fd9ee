"""Weighted features of texts: words, segmented by jieba in runs of Han, or n-grams of characters or of words.
core/src/features.rs has their rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simhbase import _core
from simhbase._core import Pipeline
from simhbase.errors import UsageError
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.dictionary import dictionary
from simhbase.text.idf import IdfTable
from simhbase.text.normalise import form, normalise
from simhbase.text.variants import CharacterTable

SHINGLES = "chars:growing"  # whose sets are compared
UP_TO_TRIPLES = "chars:1-3"  # for texts of any length
WEIGHTS = ("saturated", "capped", "count", "tfidf", "levels")
BY_IDF = ("tfidf", "levels")

# slots, bits, seed, whether sized and numbered, and whether of the features: see core/src/pipeline.rs
Sketching = tuple[int, int, int, bool, bool, bool]


@dataclass(frozen=True)
class FeatureOptions:
    """Which features a text has, and their weights.

    kind: "words"; "words:N", N-grams of words; "chars:N", N-grams of characters without white space;
    "chars:1-3", pairs and triples of characters, and single ones in short texts; "chars:growing", runs of 3
    to 34 characters that grow where the text repeats itself (see `growing_shingles`).
    weights: "count", occurrences; "capped" and "saturated", occurrences with less weight for words repeated
    in short or in long texts; "tfidf", count x IDF; "levels", TF-IDF as integers 1 to
    5, 5 for the heaviest fifth of the scale. top: keep only the N heaviest, ties by the token's bytes.
    min_length: ignore shorter words (characters). stop_words: ignore these. idf: for "tfidf" and "levels".
    boilerplate: removed first. variants: count as equal.
    """

    kind: str = "words"
    weights: str = "count"
    top: int | None = None
    min_length: int = 2
    stop_words: frozenset[str] = frozenset()
    idf: IdfTable | None = None
    boilerplate: Boilerplate | None = None
    variants: CharacterTable | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for options that do not go together."""
        if not re.fullmatch(r"words|(words|chars):[1-9]|chars:(1-3|growing)", self.kind):
            raise UsageError(
                "must be words, words:N or chars:N with N from 1 to 9, chars:growing or chars:1-3, not "
                f"{self.kind!r}",
                parameter="features",
            )
        if self.weights not in WEIGHTS:
            raise UsageError(
                f"must be one of {', '.join(WEIGHTS)}, not {self.weights!r}", parameter="weights"
            )
        if self.kind != "words" and (self.weights != "count" or self.top is not None):
            raise UsageError(
                f"{self.kind} are n-grams, which need weights=count and no top", parameter="features"
            )
        if (self.idf is not None) != (self.weights in BY_IDF):
            raise UsageError(f"weights={self.weights} use no IDF table", parameter="idf")
        if self.top is not None and self.top < 1:
            raise UsageError(f"must be at least 1, not {self.top}", parameter="top")
        if self.min_length < 1:
            raise UsageError(f"must be at least 1, not {self.min_length}", parameter="min_length")

    @property
    def hash(self) -> str:
        """Name of the hash of features, as in profiles."""
        if self.kind == "words":
            return "mmh3_x64_128"
        return "mmh3_x64_128+mix64" if self.kind.startswith("words") else "mix64"

    def pipeline(self, bits: int = 64, min_features: int = 1, sketching: Sketching | None = None) -> Pipeline:
        """The core's pipeline with these options."""
        idf = self.idf
        return Pipeline(
            form(self.variants),
            dictionary() if self.kind.startswith("words") else None,
            self.kind,
            self.weights,
            self.top or 0,
            self.min_length,
            list(self.stop_words),
            {} if idf is None else self._idf_weights(idf),
            0 if idf is None else idf.median,
            bits,
            min_features,
            None if self.boilerplate is None else self.boilerplate.known(self.variants),
            sketching,
        )

    def _idf_weights(self, idf: IdfTable) -> Mapping[str, int]:
        """IDF weights by folded token. If several tokens fold to one, the least weight, which is that of the
        most frequent one."""
        if self.variants is None:
            return idf.weights
        folded: dict[str, int] = {}
        for token, weight in idf.weights.items():
            one = self.variants.convert(token)
            folded[one] = min(weight, folded.get(one, weight))
        return folded


def growing_shingles(text: str) -> list[tuple[int, str]]:
    """Growing shingles of a text in normal form without white space, and where they start: at each place
    whose next 34 characters have not occurred before, the shortest run of 3, 5, 8, 13, 21 or 34 characters
    that is not in the list yet."""
    bare = normalise(text).replace(" ", "")
    starts, lengths = form().growing_shingles(text)
    found = zip(memoryview(starts).cast("I"), lengths, strict=True)
    return [(start, bare[start : start + length]) for start, length in sorted(found)]


def novelty(text: str, variants: CharacterTable | None = None) -> float:
    """Number of growing shingles a place of the text where one could start, 0 to 1: how little the text
    repeats itself. 1 for a text that is too short. variants: count as equal."""
    return form(variants).novelty(text)


def tokens(text: str) -> list[str]:
    """Tokens of a text in order, including those that do not count as features."""
    return [word for word, _, _ in form().words(text, dictionary())]


def document_frequencies(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that contain each token."""
    return Counter(_core.document_frequencies(list(texts), dictionary()))
