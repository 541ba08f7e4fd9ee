"""Compares two texts word by word: same and different stretches, and the words that differ.

Words are the tokens of core/src/words.rs, in normal form, with their positions in the given texts.
Punctuation, white space and case do not count.

Common words are a longest common subsequence, computed 64 cells at a time in the bits of long integers
(Hyyrö: Bit-parallel LCS-length computation revisited, 2004), whose rows are kept for tracing back. This takes
words x words bits, so texts beyond CELLS are first cut at words that occur once in both (the anchors of
patience diff). A long stretch without anchors is reported as different as a whole. So the time is bounded:
two texts of 100,000 characters made only of common words take about a second.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from simhbase.model.explanations import WordCount
from simhbase.text.dictionary import dictionary
from simhbase.text.features import novelty
from simhbase.text.normalise import form, normalise
from simhbase.text.variants import CharacterTable

MOST_WORDS = 100
CELLS = 1 << 29  # words x words compared at once: 64 MiB of bits
_CUTS = 16  # maximum depth of cutting between anchors
REORDERED = 0.7  # share of the characters in lines that both texts have, from which they are the same lines
EXPLAINED = 0.5  # share of the differing words that one replaced word explains
REPEATS = 0.2  # shingles a place: below, unrelated texts may be similar (docs/choosing.md)
REPEATS_ITSELF = "the text repeats a few patterns: its similarity says little"
_REPEATS_FROM = 200  # characters: shorter texts are hardly made at random
_FEWEST_LINES = 3
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of both texts. left, right: start and end in the given texts, in characters; one may be
    empty. same: True if both have the same words."""

    left: tuple[int, int]
    right: tuple[int, int]
    same: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts differ.

    stretches: both texts in full, as alternating same and different stretches; words: words that one text has
    more often, largest difference first; more_words: number left out of that list; whole: a stretch was too
    long to compare word by word, and is reported as different; replaced: a word of the left text and the word
    of the right that stands in its place throughout, if that explains half of the difference.
    """

    stretches: tuple[Span, ...]
    words: tuple[WordCount, ...]
    more_words: int = 0
    whole: bool = False
    replaced: tuple[str, str] | None = None

    @property
    def same(self) -> bool:
        """True if the texts have the same words in the same order."""
        return all(stretch.same for stretch in self.stretches)


def difference(
    left: str, right: str, most_words: int = MOST_WORDS, variants: CharacterTable | None = None
) -> Difference:
    """Compare two texts in normal form. most_words: maximum number of differing words listed. variants: count
    as equal."""
    if normalise(left, variants) == normalise(right, variants):
        return Difference((Span((0, len(left)), (0, len(right)), same=True),) if left or right else (), ())
    texts = _words(left, variants), _words(right, variants)
    numbers: dict[str, int] = {}
    a, b = ([numbers.setdefault(word.text, len(numbers)) for word in words] for words in texts)
    alignment = _Alignment(a, b)
    common = list(alignment.common(range(len(a)), range(len(b))))
    counts = [Counter(word.text for word in words) for words in texts]
    differing = sorted(
        (
            WordCount(word, counts[0][word], counts[1][word])
            for word in numbers
            if counts[0][word] != counts[1][word]
        ),
        key=lambda each: -abs(each.left - each.right),
    )
    return Difference(
        tuple(_stretches(texts, (len(left), len(right)), common)),
        tuple(differing[:most_words]),
        max(0, len(differing) - most_words),
        alignment.whole,
        _replaced(differing),
    )


def _replaced(differing: Sequence[WordCount]) -> tuple[str, str] | None:
    """The pair of words of which each occurs in one text only, equally often, and at least twice, if it
    explains at least EXPLAINED of the difference."""
    total = sum(abs(each.left - each.right) for each in differing)
    removed = next((each for each in differing if not each.right), None)
    added = next((each for each in differing if not each.left), None)
    if removed is None or added is None or removed.left != added.right or removed.left < 2:
        return None
    return (removed.word, added.word) if 2 * removed.left >= EXPLAINED * total else None


def notes(
    left: str, right: str, found: Difference, variants: CharacterTable | None = None
) -> tuple[str, ...]:
    """What explains the similarity of two texts, as sentences. found: their difference."""
    said = []
    if not found.same and _has_same_lines(left, right, variants):
        said.append("same lines, other order")
    if found.replaced:
        said.append(f"differs by {found.replaced[0]} -> {found.replaced[1]}")
    if repeats_itself(left, variants) or repeats_itself(right, variants):
        said.append(REPEATS_ITSELF)
    return tuple(said)


def repeats_itself(text: str, variants: CharacterTable | None = None) -> bool:
    """True if a text repeats so few patterns that unrelated texts of the kind may be similar to it."""
    return len(text) >= _REPEATS_FROM and novelty(text, variants) < REPEATS


def _has_same_lines(left: str, right: str, variants: CharacterTable | None) -> bool:
    """True if at least REORDERED of the characters are in lines that both texts have, but in another order.
    Sentences stand for lines in texts with few lines."""
    a, b = _lines(left, variants), _lines(right, variants)
    counts = Counter(a) & Counter(b)
    common = sum(len(line) * count for line, count in counts.items())
    if common < REORDERED * max(sum(map(len, a)), sum(map(len, b)), 1):
        return False
    return _kept(a, counts) != _kept(b, counts)


def _lines(text: str, variants: CharacterTable | None) -> list[str]:
    lines = text.splitlines()
    if len(lines) < _FEWEST_LINES:
        lines = _SENTENCE.split(text)
    return [line for line in (normalise(line, variants) for line in lines) if line]


def _kept(lines: Sequence[str], counts: Counter[str]) -> list[str]:
    """Lines in order, each as often as it counts."""
    left = Counter(counts)
    kept = []
    for line in lines:
        if left[line] > 0:
            left[line] -= 1
            kept.append(line)
    return kept


class _Word(NamedTuple):
    text: str
    start: int
    end: int


def _words(text: str, variants: CharacterTable | None) -> list[_Word]:
    """Tokens of a text, with the positions of the characters each was made from."""
    words = form(variants).words(text, dictionary())
    # A final sigma is the same letter.
    return [_Word(word.replace("ς", "σ"), start, end) for word, start, end in words]


def _stretches(
    texts: tuple[list[_Word], list[_Word]], lengths: tuple[int, int], common: Sequence[tuple[int, int]]
) -> Iterator[Span]:
    """Stretches of two texts, given the positions of common words in ascending order. Characters between
    words belong to the same stretches."""
    left, right = texts
    at = (0, 0)  # characters that have been seen
    different: Span | None = None
    for before, behind in pairwise([(-1, -1), *common, (len(left), len(right))]):
        if behind == (before[0] + 1, before[1] + 1):
            continue
        spans = (
            _span(left, before[0] + 1, behind[0], at[0]),
            _span(right, before[1] + 1, behind[1], at[1]),
        )
        starts = spans[0][0], spans[1][0]
        if different and starts == at:  # adjacent: a character such as ½ belongs to several words
            spans = (different.left[0], spans[0][1]), (different.right[0], spans[1][1])
        elif different:
            yield different
        if starts != at:
            yield Span((at[0], starts[0]), (at[1], starts[1]), same=True)
        different = Span(*spans, same=False)
        at = spans[0][1], spans[1][1]
    if different:
        yield different
    if at != lengths:
        yield Span((at[0], lengths[0]), (at[1], lengths[1]), same=True)


def _span(words: Sequence[_Word], first: int, behind: int, at: int) -> tuple[int, int]:
    """Characters of the words from `first` to `behind` that are not before `at`; an empty span if there are
    no words."""
    if first == behind:
        place = max(at, words[first - 1].end if first else 0)
        return place, place
    start = max(at, words[first].start)
    return start, max(start, words[behind - 1].end)


class _Alignment:
    """Finds the common words of two texts in order. whole: True if a stretch was too long to compare."""

    def __init__(self, left: Sequence[int], right: Sequence[int]) -> None:
        self._left, self._right = left, right
        self.whole = False

    def common(self, left: range, right: range, cuts: int = _CUTS) -> Iterator[tuple[int, int]]:
        """Positions of common words in a stretch of both texts, ascending. cuts: remaining depth of cutting
        at anchors."""
        same = self._same_ends(left, right)
        yield from zip(left[:same], right[:same], strict=True)
        left, right = left[same:], right[same:]
        same = self._same_ends(left[::-1], right[::-1])
        ends = list(zip(left[len(left) - same :], right[len(right) - same :], strict=True))
        left, right = left[: len(left) - same], right[: len(right) - same]
        if len(left) * len(right) <= CELLS:
            yield from self._subsequence(left, right)
        elif anchors := self._anchors(left, right) if cuts else []:
            behind = (left.start - 1, right.start - 1)
            for anchor in [*anchors, (left.stop, right.stop)]:
                between = range(behind[0] + 1, anchor[0]), range(behind[1] + 1, anchor[1])
                yield from self.common(*between, cuts - 1)
                if anchor[0] < left.stop:
                    yield anchor
                behind = anchor
        else:
            self.whole = True
        yield from ends

    def _same_ends(self, left: range, right: range) -> int:
        """Number of equal words at the start of two stretches."""
        pairs = zip(left, right, strict=False)
        return next(
            (number for number, (i, j) in enumerate(pairs) if self._left[i] != self._right[j]),
            min(len(left), len(right)),
        )

    def _subsequence(self, left: range, right: range) -> Iterator[tuple[int, int]]:
        a, b = (
            [words[place] for place in stretch]
            for words, stretch in ((self._left, left), (self._right, right))
        )
        if len(a) >= len(b):
            pairs = _longest_common_subsequence(a, b)
        else:  # keeps rows short
            pairs = [(i, j) for j, i in _longest_common_subsequence(b, a)]
        return ((left[i], right[j]) for i, j in pairs)

    def _anchors(self, left: range, right: range) -> list[tuple[int, int]]:
        """Positions of words that occur once in each stretch: the longest sequence in the same order."""
        of_right = _once(self._right, right)
        pairs = [(i, of_right[word]) for word, i in _once(self._left, left).items() if word in of_right]
        last: list[int] = []  # by length, the least last position of an ascending sequence
        numbers: list[int] = []  # the pair it ends with
        before: list[int] = []  # by pair, its predecessor
        for number, (_, j) in enumerate(pairs):
            length = bisect_left(last, j)
            before.append(numbers[length - 1] if length else -1)
            last[length : length + 1] = [j]
            numbers[length : length + 1] = [number]
        chosen = []
        number = numbers[-1] if numbers else -1
        while number >= 0:
            chosen.append(pairs[number])
            number = before[number]
        return chosen[::-1]


def _longest_common_subsequence(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence, ascending."""
    # Row i has a bit for each word on the right: 0 if the common subsequence with the first i words on the
    # left gets longer by including this word.
    places: dict[int, int] = {}
    for column, word in enumerate(right):
        places[word] = places.get(word, 0) | 1 << column
    everything = (1 << len(right)) - 1
    row = everything
    rows = []
    for word in left:
        found = row & places.get(word, 0)
        row = ((row + found) | (row - found)) & everything
        rows.append(row)
    pairs = []
    i, j = len(left), len(right)
    while i and j:
        if rows[i - 1] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if not i or rows[i - 1] >> (j - 1) & 1:
            j -= 1
            pairs.append((i, j))
    return pairs[::-1]


def _once(words: Sequence[int], stretch: range) -> dict[int, int]:
    """Words that occur once in a stretch, in order, with their positions."""
    counts = Counter(words[place] for place in stretch)
    return {words[place]: place for place in stretch if counts[words[place]] == 1}
