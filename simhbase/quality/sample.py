"""Samples documents so that near-duplicates stay together.

Drawing a share f of the documents at random keeps only f^2 of the pairs. So documents are drawn by keys. Each
document has KEYS keys, made of the first shingles under three seeded orders of all shingles: two texts of
Jaccard similarity J share a key with probability J^3 (Broder, On the resemblance and containment of
documents, 1997), unrelated ones hardly ever. A document is drawn if one of its keys is below a bound; then
documents that share this key are drawn, too. The probability that a pair was drawn follows from the number of
shared keys, and the pair is weighted by its inverse (Horvitz, Thompson, JASA 47, 1952).

Remaining bias: pairs without a common key do not count for recall. These are 4 in 100 pairs of similarity
0.7, and 1 in 250 of similarity 0.8; which ones depends on the seed, not on how the texts differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.parser import Parser
from simhbase.corpus.reading import read_each
from simhbase.corpus.record import ReadItems, Record
from simhbase.corpus.rejects import Rejects
from simhbase.errors import BadInput
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.fingerprint.sketches import fingerprints
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.seen_ids import SeenIds
from simhbase.profile.profile import SHORT
from simhbase.text.features import SHINGLES, FeatureOptions
from simhbase.text.jaccard import PAIRS

KEYS = 8
_ORDERS = 3  # orders of shingles per key
_FIRST_SEED = 1  # not 0, as in MinHash: with the same orders the sample would favour what MinHash finds
_ALL = 1 << 64


@dataclass(frozen=True)
class Sample:
    """Distinct texts of a corpus.

    texts: the n texts drawn; places: document id -> position of its text (documents with equal texts share
    one); keys: uint64 (n, KEYS); share: share of keys drawn, 1.0 for the whole corpus; read: number of
    documents in the corpus.
    """

    texts: list[str]
    places: Mapping[str, int]
    keys: NDArray[np.uint64]
    share: float
    read: int

    @property
    def copies(self) -> int:
        """Number of documents with the same text as another one in the sample."""
        return len(self.places) - len(self.texts)

    @property
    def is_short(self) -> bool:
        """True if half of the texts have at most SHORT characters."""
        return bool(self.texts) and median(map(len, self.texts)) <= SHORT

    @property
    def shingles(self) -> str:
        """Kind of the features whose Jaccard similarity is the ground truth: growing shingles, and pairs of
        characters for short texts."""
        # Two characters of 17 are in half of the shingles.
        return PAIRS if self.is_short else SHINGLES

    @property
    def is_whole(self) -> bool:
        """True if the sample has all distinct texts of the corpus."""
        return self.share == 1.0

    @classmethod
    def of_all(cls, ids: Sequence[str]) -> Sample:
        """A sample of documents with unknown, distinct texts, which are the whole corpus."""
        places = {name: place for place, name in enumerate(ids)}
        return cls([""] * len(places), places, np.zeros((len(places), 0), np.uint64), 1.0, len(places))

    def common_keys(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of keys that the texts of m pairs share: int64 (m,)."""
        common: NDArray[np.int64] = (self.keys[left] == self.keys[right]).sum(axis=1)
        return common

    def probability(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probability that each of m pairs was drawn: float64 (m,)."""
        missed = 1 - self.share
        distinct = 2 * KEYS - self.common_keys(left, right)
        drawn: NDArray[np.float64] = 1 - 2 * missed**KEYS + np.power(missed, distinct, dtype=np.float64)
        return drawn


class Sampler:
    """Draws a sample of at most `limit` texts in one pass. Keeps up to twice as many in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._below = _ALL
        self._held: dict[str, _Held] = {}
        self._read = 0

    def add(self, ids: Sequence[str], texts: Sequence[str], keys: NDArray[np.uint64]) -> None:
        """Add the next documents with their `document_keys`."""
        self._read += len(ids)
        for name, text, of_text, least in zip(ids, texts, keys, keys.min(axis=1).tolist(), strict=True):
            if least >= self._below:
                continue
            if text in self._held:
                self._held[text].ids.append(name)
            else:
                self._held[text] = _Held([name], of_text, least)
        if len(self._held) > 2 * self._limit:
            self._reduce()

    def sample(self) -> Sample:
        """The sample, in the order of the corpus."""
        if len(self._held) > self._limit:
            self._reduce()
        held = self._held.values()
        return Sample(
            list(self._held),
            {name: place for place, document in enumerate(held) for name in document.ids},
            np.array([document.keys for document in held], dtype=np.uint64).reshape(-1, KEYS),
            self._below / _ALL,
            self._read,
        )

    def _reduce(self) -> None:
        # Lower the bound so that `limit` texts are below it.
        self._below = sorted(document.least for document in self._held.values())[self._limit]
        self._held = {text: document for text, document in self._held.items() if document.least < self._below}


@dataclass(slots=True)
class _Held:
    ids: list[str]
    keys: NDArray[np.uint64]
    least: int


@cache
def _sketcher(seed: int) -> Fingerprinter:
    sketching = SketchParameters(KEYS * _ORDERS, 32, _FIRST_SEED + seed)
    return Fingerprinter(FeatureOptions(kind=SHINGLES), min_features=1, sketching=sketching, is_minhash=True)


def document_keys(texts: Sequence[str], seed: int) -> NDArray[np.uint64]:
    """Keys of n texts, uniformly distributed: uint64 (n, KEYS). Texts without shingles share all keys."""
    sketches = _sketcher(seed).fingerprint_many(texts).fingerprints.sketches
    parts = sketches.reshape(len(texts) * KEYS, sketches.shape[1] // KEYS)
    # Without the number of the key, a text with the same first shingles under two keys' orders would have one
    # key twice.
    places = np.tile(np.arange(KEYS, dtype=np.uint8), len(texts))
    return fingerprints(np.column_stack([parts, places])).reshape(-1, KEYS)


@dataclass(frozen=True)
class _ChunkKeys:
    """Chunk -> Batch with sampling keys, uint64 (n, KEYS), in place of fingerprints."""

    parser: Parser
    seed: int

    def __call__(self, chunk: ReadItems) -> Batch:
        items = self.parser.parse(chunk)
        texts = [item.text or "" for item in items if isinstance(item, Record)]
        keys = document_keys(texts, self.seed)
        return Batch(items, FingerprintBatch.bare(keys), len(texts))


def read_sample(inputs: Inputs, limit: int, seed: int, rejects: Rejects) -> Sample:
    """Sample at most `limit` distinct texts. Raises BadInput if nothing could be read."""
    sampler = Sampler(limit)
    work = _ChunkKeys(Parser(inputs.options), seed)
    with closing(read_each(inputs, work)) as batches:
        for batch in map(SeenIds().without_repeats, batches):
            texts = [record.text or "" for record in batch.records]
            sampler.add(batch.ids, texts, batch.fingerprints.values)
            rejects.note(batch)
    sample = sampler.sample()
    if not sample.read:
        raise BadInput("no document could be read, so there is nothing to measure")
    return sample
