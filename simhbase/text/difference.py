"""Two texts side by side: which stretches of them have the same words, and which words differ.

A word is a token as features take it (text/features.py), in its normal form; it is looked for where it stands
in the text that was given, so that a reader can mark it there. Punctuation, white space and upper case differ
in no word.

The words that both texts have in one order are a longest common subsequence, found 64 cells at a time in the
bits of long integers (Hyyrö: Bit-parallel LCS-length computation revisited, 2004), whose rows are kept to go
back through them. That takes words x words bits, so that texts too long for CELLS are first cut at words that
both have once (the anchors of patience diff); a stretch that is too long without any differs as a whole.
Time is thus bounded: two texts of 100,000 characters that have nothing but common words take about a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from simhbase.model import WordCount
from simhbase.text.features import token_spans
from simhbase.text.normalise import CLUSTER, CURRENT, NormalForm, fold, normalise

MOST_WORDS = 100
CELLS = 1 << 29  # words x words compared at once: 64 MiB of bits
_CUTS = 16  # how often a stretch between anchors is cut again


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of both texts, `left` and `right` as characters from-to in the texts that were given; `same`:
    whether it has the same words in both. One of the two may be empty."""

    left: tuple[int, int]
    right: tuple[int, int]
    same: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts differ.

    segments: in order, both texts from their first character to their last, same and different ones in turn;
    words: those that one text has more often than the other, the largest difference first; more_words: how
    many were left out of that list; whole: whether a stretch was too long to be compared word by word, and
    is given as different as a whole.
    """

    segments: tuple[Segment, ...]
    words: tuple[WordCount, ...]
    more_words: int = 0
    whole: bool = False

    @property
    def same(self) -> bool:
        """Whether the texts have the same words in the same order."""
        return all(segment.same for segment in self.segments)


def difference(left: str, right: str, most_words: int = MOST_WORDS, form: NormalForm = CURRENT) -> Difference:
    """Where two texts differ; most_words: how many differing words are listed; form: what of them counts."""
    if normalise(left, form) == normalise(right, form):
        return Difference((Segment((0, len(left)), (0, len(right)), same=True),) if left or right else (), ())
    texts = _words(left, form), _words(right, form)
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
        tuple(_segments(texts, (len(left), len(right)), common)),
        tuple(differing[:most_words]),
        max(0, len(differing) - most_words),
        alignment.whole,
    )


class _Word(NamedTuple):
    text: str
    start: int
    end: int


def _words(text: str, form: NormalForm = CURRENT) -> list[_Word]:
    """The tokens of a text, and the characters that each was made of."""
    # Nothing composes across the borders of clusters, and of what a letter depends on beyond them there is
    # the sigma alone, which has another form at the end of a word.
    clusters: list[str] = CLUSTER.findall(text)
    forms = {cluster: fold(cluster, form).replace("ς", "σ") for cluster in set(clusters)}
    folded = [forms[cluster] for cluster in clusters]
    origins = [0, *accumulate(map(len, clusters))]
    ends = list(accumulate(map(len, folded)))
    whole = "".join(folded)
    words = []
    cluster = 0
    for start, end in token_spans(whole, form):
        while ends[cluster] <= start:
            cluster += 1
        first = cluster
        while ends[cluster] < end:
            cluster += 1
        words.append(_Word("".join(whole[start:end].split()), origins[first], origins[cluster + 1]))
    return words


def _segments(
    texts: tuple[list[_Word], list[_Word]], lengths: tuple[int, int], common: Sequence[tuple[int, int]]
) -> Iterator[Segment]:
    """The stretches of two texts, given the places of words that they have in common, ascending. What is
    between the words belongs to those that are the same."""
    left, right = texts
    at = (0, 0)  # characters that have been seen
    different: Segment | None = None
    for before, behind in pairwise([(-1, -1), *common, (len(left), len(right))]):
        if behind == (before[0] + 1, before[1] + 1):
            continue
        spans = (
            _span(left, before[0] + 1, behind[0], at[0]),
            _span(right, before[1] + 1, behind[1], at[1]),
        )
        starts = spans[0][0], spans[1][0]
        if different and starts == at:  # a character between them, as ½, is of several words
            spans = (different.left[0], spans[0][1]), (different.right[0], spans[1][1])
        elif different:
            yield different
        if starts != at:
            yield Segment((at[0], starts[0]), (at[1], starts[1]), same=True)
        different = Segment(*spans, same=False)
        at = spans[0][1], spans[1][1]
    if different:
        yield different
    if at != lengths:
        yield Segment((at[0], lengths[0]), (at[1], lengths[1]), same=True)


def _span(words: Sequence[_Word], first: int, behind: int, at: int) -> tuple[int, int]:
    """The characters of some words, none of those before `at`; of no words the place where they would be."""
    if first == behind:
        place = max(at, words[first - 1].end if first else 0)
        return place, place
    start = max(at, words[first].start)
    return start, max(start, words[behind - 1].end)


class _Alignment:
    """The places of words that two texts have in common, in one order. whole: whether a stretch was left out
    as it is too long."""

    def __init__(self, left: Sequence[int], right: Sequence[int]) -> None:
        self._left, self._right = left, right
        self.whole = False

    def common(self, left: range, right: range, cuts: int = _CUTS) -> Iterator[tuple[int, int]]:
        """Those of a stretch of both, ascending; cuts: how often it may still be cut at anchors."""
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
        """With how many of the same words two stretches begin."""
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
        else:  # rows as short as can be
            pairs = [(i, j) for j, i in _longest_common_subsequence(b, a)]
        return ((left[i], right[j]) for i, j in pairs)

    def _anchors(self, left: range, right: range) -> list[tuple[int, int]]:
        """The places of words that are once in each of two stretches: the most that are in one order."""
        of_right = _once(self._right, right)
        pairs = [(i, of_right[word]) for word, i in _once(self._left, left).items() if word in of_right]
        last: list[int] = []  # of the ascending runs of each length, the least last place
        numbers: list[int] = []  # of the pairs that these end with
        before: list[int] = []  # of each pair, the one before it
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
    """The places of a longest common subsequence, ascending. Row i has a bit for each word of the right: 0
    where the words up to it have one more in common with the first i of the left than those before it."""
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
    """The words that are in a stretch once, in order, and where."""
    counts = Counter(words[place] for place in stretch)
    return {words[place]: place for place in stretch if counts[words[place]] == 1}
