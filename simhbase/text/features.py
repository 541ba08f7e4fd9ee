"""Weighted features of texts, each a digest of 64 or 128 bits.

Words are segmented by jieba in runs of Han, and are runs of letters, marks and digits elsewhere; n-grams are
of characters or of words. Functions process batches, with a few calls into C per document and no Python loop
over tokens unless weights need one. Long texts are processed in pieces: the tokens of a text take twenty
times its memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any

import mmh3
import numpy as np
import regex
from numpy.typing import NDArray

from simhbase.acceleration import text_loops
from simhbase.errors import UsageError
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.hashing import GOLDEN, fmix64
from simhbase.text.idf import SCALE, IdfTable
from simhbase.text.normalise import SPACES, normalise, pieces
from simhbase.text.saturation import capped, saturated
from simhbase.text.variants import CharacterTable

WEIGHTS = ("saturated", "capped", "count", "tfidf", "levels")
BY_IDF = ("tfidf", "levels")
LEVELS = 5
CACHED_TOKENS = 1 << 18
LONGEST_COMPILED = 1 << 20  # characters of a text: loops take 100 bytes for each, and do not split texts

# jieba segments runs of U+4E00-9FD5, and treats each rarer Han character (extension A and the last rows of
# the basic block) as a word. rjieba would keep runs of those whole.
_HAN = re.compile("([\u4e00-\u9fd5]+|[\u3400-\u4dbf\u9fd6-\u9fff])")
# Joiners that normalisation keeps are within words (UAX #29, rule WB4).
_WORD = regex.compile(r"[\p{L}\p{M}\p{Nd}\u200c\u200d--[\u3400-\u4dbf\u4e00-\u9fff]]+", regex.V1)
_BREAK = "\n"  # not a token; jieba never joins across it


def _fading(up_to: int, none_from: int) -> NDArray[np.uint64]:
    """Share of features by the length of a text, out of 256. Falls with its logarithm, so one character more
    in a hundred always costs the same."""
    doublings = log2(none_from / up_to)
    lengths = range(none_from + 1)
    shares = [round(256 * min(1.0, log2(none_from / max(each, 1)) / doublings)) for each in lengths]
    return np.array(shares, dtype=np.uint64)


_CODE_POINT_BITS = 21
_WINDOWS = 1 << 16  # n-grams hashed at once: their arrays stay in the cache
# Sentences of 17 characters that differ in two have a similarity of 0.6 with single characters, and 0.5 with
# pairs and triples only. In long texts single characters say nothing. They are added to the other features,
# and fade out over two doublings of the length: if one text is 1.3 times as long, a sixteenth of the features
# differ because of this.
_SINGLES_UP_TO = 16  # characters
_NO_SINGLES_FROM = 64
_SHARES_OF_SINGLES = _fading(_SINGLES_UP_TO, _NO_SINGLES_FROM)


@dataclass(frozen=True, slots=True)
class FeatureBatch:
    """Features of n texts, text after text.

    digests: uint8 (m, bits / 8), big-endian; counts: int64 (n,), number of features of each text; weights:
    int64 (m,), or None if all are 1, and then repeated features are listed repeatedly.
    """

    digests: NDArray[np.uint8]
    counts: NDArray[np.int64]
    weights: NDArray[np.int64] | None = None

    def distinct(self, enough: int) -> list[int]:
        """Number of distinct features of each text (by their first 64 bits). Numbers of `enough` or more may
        be too low."""
        if self.weights is not None:
            return [*map(int, self.counts)]  # features with weights are listed once
        words = self.digests.view(np.uint64)[:, 0]
        ends = np.cumsum(self.counts)
        found = []
        for start, end in zip((ends - self.counts).tolist(), ends.tolist(), strict=True):
            # The first features suffice for nearly every text; the others are counted in full.
            distinct = len(set(words[start : min(end, start + 2 * enough + 8)].tolist()))
            found.append(distinct if distinct >= enough else len(set(words[start:end].tolist())))
        return found


@dataclass(frozen=True)
class FeatureOptions:
    """Which features a text has, and their weights.

    kind: "words"; "words:N", N-grams of words; "chars:N", N-grams of characters without white space;
    "chars:1-3", pairs and triples of characters, and single ones in short texts.
    weights: "count", occurrences; "capped" and "saturated", occurrences with less weight for words repeated
    in short or in long texts (see `saturation.py`); "tfidf", count x IDF; "levels", TF-IDF as integers 1 to
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
        if not re.fullmatch(r"words|(words|chars):[1-9]|chars:1-3", self.kind):
            raise UsageError(
                f"must be words, words:N or chars:N with N from 1 to 9, or chars:1-3, not {self.kind!r}",
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


def _cut(han: str) -> list[str]:
    import rjieba  # loading its dictionary takes 0.15 s; lookups of ids and fingerprints do not need it

    found: list[str] = rjieba.cut(han, True)
    return found


def tokens(text: str, variants: CharacterTable | None = None) -> list[str]:
    """Tokens of a text in order, including those that do not count as features."""
    found: list[str] = []
    for position, run in enumerate(_HAN.split(normalise(text, variants))):
        found += _cut(run) if position % 2 else _WORD.findall(run)
    return found


def token_spans(folded: str) -> Iterator[tuple[int, int]]:
    """Start and end of each token in a folded text. Yields the tokens that `tokens` finds in its normal form,
    although the folded text still has white space that normalisation removes."""
    gaps = [space.span() for space in SPACES.finditer(folded)]
    if not gaps:
        yield from _spans(folded)
        return
    starts, ends = zip(*gaps, strict=True)
    kept = [*map(range, [0, *ends], [*starts, len(folded)])]
    places = [place for part in kept for place in part]
    for start, end in _spans("".join([folded[part.start : part.stop] for part in kept])):
        yield places[start], places[end - 1] + 1


def _spans(folded: str) -> Iterator[tuple[int, int]]:
    at = 0
    for position, run in enumerate(_HAN.split(folded)):
        if position % 2:
            start = at
            for token in _cut(run):
                yield start, start + len(token)
                start += len(token)
        else:
            for word in _WORD.finditer(run):
                yield at + word.start(), at + word.end()
        at += len(run)


def _bag(text: str, variants: CharacterTable | None = None) -> list[str]:
    """Tokens of a text in any order, and breaks; calls jieba once."""
    runs = _HAN.split(normalise(text, variants))
    bag = _cut(_BREAK.join(runs[1::2]))
    bag += _WORD.findall(" ".join(runs[0::2]))
    return bag


class Extractor:
    """Computes features. Caches digests of up to CACHED_TOKENS tokens."""

    def __init__(self, options: FeatureOptions, bits: int) -> None:
        self.options = options
        self._bytes = bits // 8
        self._digests = _DigestCache(self._bytes, self.keeps)
        self._words: Any = None  # of `text/compiled.py`, where there are loops
        self._normaliser: Any = None

    def extract(self, texts: Sequence[str]) -> FeatureBatch:
        if self.options.boilerplate is not None:
            texts = self.options.boilerplate.strip(texts, self.options.variants)
        kind, _, size = self.options.kind.partition(":")
        if size == "1-3":
            return _up_to_triples(self._bare(texts), self._bytes // 8)
        if kind == "chars":
            return _ngrams_of_bare(self._bare(texts), int(size), self._bytes // 8)
        if size:
            return self._word_ngrams(texts, int(size))
        return self._weighed_words(texts)

    def _bare(self, texts: Sequence[str]) -> _Bare:
        variants = self.options.variants
        if compiled := _compiled_for(texts):
            if self._normaliser is None:
                self._normaliser = compiled.Normaliser(variants)
            points, ends = self._normaliser(texts, bare=True)
            return _Bare(points.view(np.uint32), np.diff(ends, prepend=0))
        bare = [
            "".join([normalise(piece, variants).replace(" ", "") for piece in pieces(text)]) for text in texts
        ]
        encoded = "".join(bare).encode("utf-32-le", "surrogatepass")
        lengths = np.array([len(text) for text in bare], dtype=np.int64)
        return _Bare(np.frombuffer(encoded, dtype="<u4"), lengths)

    def keeps(self, token: str) -> bool:
        """True if a token counts as a feature."""
        return (
            len(token) >= self.options.min_length and token != _BREAK and token not in self.options.stop_words
        )

    def weights(self, text: str) -> list[tuple[str, int]]:
        """Words of a text with integer weights, heaviest first, ties by token bytes."""
        counts: Counter[str] = Counter()
        for piece in pieces(text):
            counts.update(filter(self.keeps, _bag(piece, self.options.variants)))
        weighted = list(zip(counts, self._weights(counts), strict=True))
        # Code point order of str is the byte order of UTF-8.
        weighted = sorted((pair for pair in weighted if pair[1]), key=lambda pair: (-pair[1], pair[0]))
        weighted = weighted[: self.options.top]
        if self.options.weights == "levels" and weighted:
            heaviest = weighted[0][1]
            weighted = [(token, -(-LEVELS * weight // heaviest)) for token, weight in weighted]
        return weighted

    def _weights(self, counts: Mapping[str, int]) -> list[int]:
        if self.options.weights == "saturated":
            every = np.fromiter(counts.values(), dtype=np.int64)
            return [half * SCALE // 2 for half in saturated(every, every.sum()).tolist()]
        if self.options.weights == "capped":
            every = np.fromiter(counts.values(), dtype=np.int64)
            return [SCALE * weight for weight in capped(every, len(every)).tolist()]
        if self.options.idf is None:
            return [count * SCALE for count in counts.values()]
        known, median = self._idf, self.options.idf.median
        return [count * known.get(token, median) for token, count in counts.items()]

    @cached_property
    def _idf(self) -> Mapping[str, int]:
        """IDF weights by folded token. If several tokens fold to one, the least weight, which is that of the
        most frequent one."""
        assert self.options.idf is not None
        known, table = self.options.idf.weights, self.options.variants
        if table is None:
            return known
        folded: dict[str, int] = {}
        for token, weight in known.items():
            one = table.convert(token)
            folded[one] = min(weight, folded.get(one, weight))
        return folded

    def _weighed_words(self, texts: Sequence[str]) -> FeatureBatch:
        if compiled := _compiled_for(texts):
            return self._compiled_words(compiled, texts)
        if self.options.weights in BY_IDF or self.options.top is not None:
            return self._weighted_words(texts)
        if self.options.weights in ("capped", "saturated"):
            return self._counted_words(texts)
        return self._batch([self._digested(text, _bag) for text in texts])

    def _compiled_words(self, compiled: Any, texts: Sequence[str]) -> FeatureBatch:
        if self._words is None:
            options, idf = self.options, self.options.idf
            self._words = compiled.Words(
                variants=options.variants,
                min_length=options.min_length,
                left_out=options.stop_words,
                weights=options.weights,
                known=None if idf is None else self._idf,
                unknown=0 if idf is None else idf.median,
                top=options.top or 0,
                levels=LEVELS if options.weights == "levels" else 0,
                bits=8 * self._bytes,
            )
        return FeatureBatch(*self._words(texts))

    def _counted_words(self, texts: Sequence[str]) -> FeatureBatch:
        batch = self._batch([self._digested(text, _bag) for text in texts])
        features, owners, counts = _counted_features(batch)
        if self.options.weights == "capped":
            weights = capped(counts, np.bincount(owners)[owners])
        else:
            weights = saturated(counts, batch.counts[owners])
        # Repeated instead of weighted: sums of bits are faster than products.
        total = np.bincount(owners, weights, len(batch.counts)).astype(np.int64)
        return FeatureBatch(np.repeat(features, weights).view(np.uint8).reshape(-1, self._bytes), total)

    def _weighted_words(self, texts: Sequence[str]) -> FeatureBatch:
        digest = self._digests.trimmed().__getitem__
        blobs, weights = [], []
        for text in texts:
            weighted = self.weights(text)
            blobs.append(b"".join(digest(token) for token, _ in weighted))
            weights += [weight for _, weight in weighted]
        batch = self._batch(blobs)
        return FeatureBatch(batch.digests, batch.counts, np.array(weights, dtype=np.int64))

    def _word_ngrams(self, texts: Sequence[str], size: int) -> FeatureBatch:
        if compiled := _compiled_for(texts):
            batch = self._compiled_words(compiled, texts)
        else:
            batch = self._batch([self._digested(text, tokens) for text in texts])
        return _ngrams(list(batch.digests.view(">u8").T), batch.counts, size, width=64)

    def _digested(self, text: str, cut: Callable[[str, CharacterTable | None], list[str]]) -> bytes:
        """Concatenated digests of a text's tokens. (Tokens that do not count have an empty digest.)"""
        variants = self.options.variants
        return b"".join(
            [
                b"".join(map(self._digests.trimmed().__getitem__, cut(piece, variants)))
                for piece in pieces(text)
            ]
        )

    def _batch(self, blobs: Sequence[bytes]) -> FeatureBatch:
        counts = np.array([len(blob) for blob in blobs], dtype=np.int64) // self._bytes
        digests = np.frombuffer(b"".join(blobs), dtype=np.uint8).reshape(-1, self._bytes)
        return FeatureBatch(digests, counts)


class _DigestCache(dict[str, bytes]):
    """Token -> the first bytes of mmh3_x64_128_digest(UTF-8, seed 0); empty if the token does not count."""

    def __init__(self, size: int, keeps: Callable[[str], bool]) -> None:
        self._size = size
        self._keeps = keeps

    def __missing__(self, token: str) -> bytes:
        digest = mmh3.mmh3_x64_128_digest(token.encode())[: self._size] if self._keeps(token) else b""
        self[token] = digest
        return digest

    def trimmed(self) -> _DigestCache:
        """Empty the cache if it is too large, and return it. (Cheaper than least recently used order.)"""
        if len(self) > CACHED_TOKENS:
            self.clear()
        return self


def _counted_features(
    batch: FeatureBatch,
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct features of n texts, text after text, with the number of the text and the count of each: (m,)
    each."""
    size = batch.digests.shape[1]
    ordered = batch.digests.view(np.uint64 if size == 8 else f"S{size}")[:, 0].copy()
    ends = np.cumsum(batch.counts)
    for start, end in zip((ends - batch.counts).tolist(), ends.tolist(), strict=True):
        ordered[start:end].sort()
    texts = np.repeat(np.arange(len(batch.counts)), batch.counts)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    is_first[1:] = (ordered[1:] != ordered[:-1]) | (texts[1:] != texts[:-1])
    first = np.flatnonzero(is_first)
    return ordered[first], texts[first], np.diff(first, append=len(ordered))


@dataclass(frozen=True, slots=True)
class _Bare:
    """Normalised texts without white space. points: uint32, code points, text after text; lengths: int64
    (n,)."""

    points: NDArray[np.uint32]
    lengths: NDArray[np.int64]

    def __getitem__(self, chosen: NDArray[np.bool_]) -> _Bare:
        return _Bare(self.points[np.repeat(chosen, self.lengths)], self.lengths[chosen])


def _compiled_for(texts: Sequence[str]) -> Any:
    """The module `text/compiled.py` if these texts should use it, or None."""
    sizes = [*map(len, texts)]
    return text_loops(sum(sizes)) if max(sizes, default=0) <= LONGEST_COMPILED else None


def _up_to_triples(bare: _Bare, words: int) -> FeatureBatch:
    """Pairs and triples of characters, and a share of the single characters of short texts.

    Single characters are chosen by their digests (consistent sampling), so texts of similar length choose
    nearly the same of their common ones, and no threshold of length separates near texts.
    """
    singles, pairs, triples = (_ngrams_of_bare(bare, size, words) for size in (1, 2, 3))
    lengths = np.minimum(bare.lengths, _NO_SINGLES_FROM)
    owners = np.repeat(np.arange(len(lengths)), singles.counts)
    taken = _draws(singles.digests.view(np.uint64)[:, 0]) < _SHARES_OF_SINGLES[lengths][owners]
    counts = np.bincount(owners[taken], minlength=len(lengths)).astype(np.int64)
    # Each text gets its features of all three.
    batches = [FeatureBatch(singles.digests[taken], counts), pairs, triples]
    owners = np.concatenate([np.repeat(np.arange(len(batch.counts)), batch.counts) for batch in batches])
    digests = np.concatenate([batch.digests for batch in batches])
    counts = np.sum([batch.counts for batch in batches], axis=0)
    return FeatureBatch(digests[np.argsort(owners, kind="stable")], counts)


def _ngrams_of_bare(bare: _Bare, size: int, words: int) -> FeatureBatch:
    return _ngrams([bare.points] * words, bare.lengths, size, _CODE_POINT_BITS)


def _draws(digests: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A number from 0 to 255 for each of m digests (big-endian bytes viewed as uint64), independent of any
    single bit."""
    return (digests.view(">u8").astype(np.uint64) * np.uint64(GOLDEN)) >> np.uint64(56)


def _ngrams(
    columns: Sequence[NDArray[np.unsignedinteger]], lengths: NDArray[np.int64], size: int, width: int
) -> FeatureBatch:
    """Hash all windows of `size` adjacent values within a text.

    columns: for each word of the hash, the values of all texts, (total,), of at most `width` bits; lengths:
    int64 (n,), number of values of each text.
    """
    counts = np.maximum(lengths - (size - 1), 0)
    digests = np.empty((counts.sum(), len(columns)), dtype=">u8")
    inside = _inner_windows(lengths, size)
    filled = 0
    for start in range(0, len(inside), _WINDOWS):
        kept = inside[start : start + _WINDOWS]
        found = int(np.count_nonzero(kept))
        for seed, values in enumerate(columns):
            part = values[start : start + len(kept) + size - 1].astype(np.uint64)
            digests[filled : filled + found, seed] = _mix_windows(part, size, seed, width)[kept]
        filled += found
    return FeatureBatch(digests.view(np.uint8), counts)


def _inner_windows(lengths: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    """True for windows, over the concatenated texts, that lie within one text."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    inside = np.ones(total, dtype=np.bool_)
    for behind in range(1, size):
        inside[ends[ends >= behind] - behind] = False
    return inside[: max(0, total - size + 1)]


def _mix_windows(values: NDArray[np.uint64], size: int, seed: int, width: int) -> NDArray[np.uint64]:
    """64-bit hash ("mix64") of every window of `size` adjacent values of `width` bits each.

    Values are packed into words of 64 bits, each of which is mixed in by the finaliser of MurmurHash3
    (Appleby, fmix64). Returns uint64 (len - size + 1,), empty if that is negative.
    """
    windows = max(0, len(values) - size + 1)
    start = (GOLDEN * (2 * size + 16 * seed + 1)) & (2**64 - 1)
    state = np.full(windows, start, dtype=np.uint64)
    packable = 64 // width
    for first in range(0, size, packable):
        packed = values[first : first + windows]
        for offset in range(first + 1, min(first + packable, size)):
            packed = (packed << np.uint64(width)) | values[offset : offset + windows]
        state ^= packed
        fmix64(state)
    return state


def document_frequencies(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that contain each token."""
    frequencies: Counter[str] = Counter()
    for text in texts:
        frequencies.update(set().union(*map(_bag, pieces(text))) - {_BREAK})
    return frequencies
