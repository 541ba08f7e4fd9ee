"""Normal forms and words by the compiled loops, for `text/features.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.text import loops
from simhbase.text.dictionary import LONGEST_EXPANSION, Characters, load
from simhbase.text.normalise import normalise
from simhbase.text.variants import GONE, CharacterTable

_AT_ONCE = 1 << 16  # characters processed together: their arrays stay in the cache
_UTF32 = "utf-32-le"

_PROBE = "中文和 English，1-2"

Points = tuple[NDArray[np.int32], NDArray[np.int64]]  # code points of all texts, and the end of each text


def prepare() -> None:
    Words(None, 2, frozenset(), "saturated", None, 0, 0, 0, 64)([_PROBE])


class Normaliser:
    """Computes the code points of texts in normal form."""

    def __init__(self, variants: CharacterTable | None) -> None:
        self._variants = variants
        self._characters = _characters_of(variants)

    def __call__(self, texts: Sequence[str], *, bare: bool = False) -> Points:
        """Normalise texts. bare: leave out white space."""
        points, ends = _points(texts)
        found, found_ends, awkward = loops.normal_forms(points, ends, *self._characters, bare)
        if not awkward.any():
            return found, found_ends
        parts = np.split(found, found_ends[:-1])
        for text in np.flatnonzero(awkward).tolist():
            normal = normalise(texts[text], self._variants)
            parts[text] = _points([normal.replace(" ", "") if bare else normal])[0]
        return np.concatenate(parts), np.cumsum([len(part) for part in parts])


def _points(texts: Sequence[str]) -> Points:
    joined = "".join(texts).encode(_UTF32, "surrogatepass")
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    return np.frombuffer(joined, dtype="<i4"), ends


@lru_cache(maxsize=4)
def _characters_of(variants: CharacterTable | None) -> Characters:
    _, characters = load()
    return characters if variants is None else _folded(characters, variants)


def _folded(characters: Characters, table: CharacterTable) -> Characters:
    becomes, several = characters.becomes.copy(), characters.several.copy()
    to = np.where(table.points == GONE, loops.GONE, table.points.astype(np.int64))
    single = np.flatnonzero((becomes >= 0) & (becomes < len(to)))
    becomes[single] = to[becomes[single]]
    expanded = np.flatnonzero((several > LONGEST_EXPANSION) & (several < len(to)))  # code points, not lengths
    several[expanded] = to[several[expanded]]
    for point in np.flatnonzero(becomes <= loops.SEVERAL) if (several < 0).any() else ():
        place = loops.SEVERAL - becomes[point]
        if (several[place + 1 : place + 1 + several[place]] < 0).any():
            becomes[point] = loops.AWKWARD
    return Characters(becomes, several)


class Words:
    """Computes the words of texts as digests with weights.

    left_out: stop words; known: IDF by token, or None; unknown: IDF of other tokens; top: 0 keeps all words;
    levels: 0 keeps weights. See `features.FeatureOptions`.
    """

    def __init__(
        self,
        variants: CharacterTable | None,
        min_length: int,
        left_out: frozenset[str],
        weights: str,
        known: Mapping[str, int] | None,
        unknown: int,
        top: int,
        levels: int,
        bits: int,
    ) -> None:
        self._normalised = Normaliser(variants)
        weighting = {
            "count": loops.COUNTS if top else loops.IN_ORDER,
            "capped": loops.CAPPED,
            "saturated": loops.SATURATED,
        }
        idf = known or {}
        self._options: tuple[Any, ...] = (
            load()[0],
            min_length,
            _digests(left_out),
            weighting.get(weights, loops.BY_TABLE),
            loops.hash_table(_digests(idf), np.fromiter(idf.values(), np.int64, len(idf))),
            unknown,
            top,
            levels,
            bits // 64,
        )

    def __call__(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64] | None]:
        """Digests, counts and weights, as in FeatureBatch."""
        parts = [loops.words(*self._normalised(some), *self._options) for some in _batches(texts)]
        digests, counts, weights = (
            parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        )
        return digests.view(np.uint8), counts, None if len(weights) < len(digests) else weights


def _digests(tokens: Mapping[str, int] | frozenset[str]) -> NDArray[np.uint64]:
    """First 64 bits of each token's digest."""
    joined = b"".join([mmh3.mmh3_x64_128_digest(token.encode())[:8] for token in tokens])
    return np.frombuffer(joined, dtype=np.uint64)


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Batches of about _AT_ONCE characters; one empty batch for no texts."""
    start = size = 0
    for position, text in enumerate(texts):
        size += len(text)
        if size >= _AT_ONCE:
            yield texts[start : position + 1]
            start, size = position + 1, 0
    if start < len(texts) or not texts:
        yield texts[start:]
