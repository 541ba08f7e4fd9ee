"""A sample of documents that keeps their near-duplicates together.

A share f of documents drawn at random keeps only f^2 of the pairs. So documents are drawn by keys. Each
has KEYS of them, and each key is made of the shingles that come first under three seeded orders of all
shingles: two texts of Jaccard similarity J have a key in common with probability J^3 (Broder, On the
resemblance and containment of documents, 1997), unrelated ones hardly ever. A document is drawn where
any of its keys is below a bound, so that those it shares keys with are drawn with it. How probably any
pair was drawn follows from the number of keys the two share, and its inverse is what the pair counts
for (Horvitz, Thompson, JASA 47, 1952).

The bias that remains: pairs without a common key are not counted for recall. Of those of similarity 0.7
it is 4 in 100, of 0.8 it is 1 in 250; which ones depends on the seed, not on how texts differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Chunk, Record
from simhbase.corpus.rejects import Rejects
from simhbase.errors import BadInput
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters, fingerprints
from simhbase.jobs.pipeline import Batch, without_repeats
from simhbase.text.features import Extractor, FeatureBatch
from simhbase.text.jaccard import PAIRS, SHINGLES, shingle_extractor

KEYS = 8
SHORT = 140
_ORDERS = 3  # of a key
_SEEDS_OF_SCHEMES = 1  # MinHash has seed 0: the same orders would draw just what it finds
_ALL = 1 << 64


@dataclass(frozen=True)
class Sample:
    """Different texts of a corpus.

    texts: the n that were drawn; places: each document's text, by the document's id, those of equal texts
    included; keys: uint64 (n, KEYS); share: of the keys that are drawn, 1.0 where it is the whole corpus;
    read: documents of the corpus.
    """

    texts: list[str]
    places: Mapping[str, int]
    keys: NDArray[np.uint64]
    share: float
    read: int

    @property
    def copies(self) -> int:
        """Documents whose text is that of another one in the sample."""
        return len(self.places) - len(self.texts)

    @property
    def is_short(self) -> bool:
        """Whether half of the texts have SHORT characters and fewer."""
        return bool(self.texts) and median(map(len, self.texts)) <= SHORT

    @property
    def shingles(self) -> str:
        """The features whose Jaccard similarity is the truth about the texts, whatever schemes compare:
        triples of characters, of short texts pairs, as two characters of 17 are in half of the triples."""
        return PAIRS if self.is_short else SHINGLES

    @property
    def is_whole(self) -> bool:
        """Whether every different text of the corpus is in it."""
        return self.share == 1.0

    @classmethod
    def of_all(cls, ids: Sequence[str]) -> Sample:
        """Of documents that are all there is, each with a text of its own that is not known."""
        places = {name: place for place, name in enumerate(ids)}
        return cls([""] * len(places), places, np.zeros((len(places), 0), np.uint64), 1.0, len(places))

    def common_keys(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many keys the texts of m pairs share: int64 (m,)."""
        common: NDArray[np.int64] = (self.keys[left] == self.keys[right]).sum(axis=1)
        return common

    def probability(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """How probably each of m pairs was drawn: float64 (m,)."""
        passed_over = 1 - self.share
        different = 2 * KEYS - self.common_keys(left, right)
        drawn: NDArray[np.float64] = (
            1 - 2 * passed_over**KEYS + np.power(passed_over, different, dtype=np.float64)
        )
        return drawn


class Sampler:
    """Draws a sample of at most `limit` texts in one pass, in memory for about twice as many."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._below = _ALL
        self._held: dict[str, _Held] = {}
        self._read = 0

    def add(self, ids: Sequence[str], texts: Sequence[str], keys: NDArray[np.uint64]) -> None:
        """Takes the next documents, with their `document_keys`."""
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
        """What was drawn, in the order of the corpus."""
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
        """Lowers the bound until what is below it fits."""
        self._below = sorted(document.least for document in self._held.values())[self._limit]
        self._held = {text: document for text, document in self._held.items() if document.least < self._below}


@dataclass(slots=True)
class _Held:
    ids: list[str]
    keys: NDArray[np.uint64]
    least: int


def document_keys(shingles: FeatureBatch, seed: int) -> NDArray[np.uint64]:
    """The keys of n texts, evenly spread: uint64 (n, KEYS). Texts without shingles have them in common."""
    sketching = SketchParameters(KEYS * _ORDERS, 32, _SEEDS_OF_SCHEMES + seed)
    of_key = sketching.bytes // KEYS
    parts = sketching.sketches(shingles).reshape(-1, of_key)
    # Else a text whose shingles come first under two keys' orders would have one key twice.
    places = np.tile(np.arange(KEYS, dtype=np.uint8), len(shingles.counts))
    return fingerprints(np.column_stack([parts, places])).reshape(-1, KEYS)


@dataclass(frozen=True)
class _ChunkKeys:
    """Chunk -> Batch, in which keys to sample by, uint64 (n, KEYS), take the place of fingerprints.
    Cheap to send to another process."""

    parser: Parser
    seed: int

    def __call__(self, chunk: Chunk) -> Batch:
        """Parses a chunk and makes keys of its texts."""
        items = self.parser.parse(chunk)
        texts = [item.text or "" for item in items if isinstance(item, Record)]
        keys = document_keys(self._extractor.extract(texts), self.seed)
        return Batch(items, FingerprintBatch.bare(keys), len(texts))

    @cached_property
    def _extractor(self) -> Extractor:
        return shingle_extractor()


def read_sample(inputs: Inputs, limit: int, seed: int, rejects: Rejects) -> Sample:
    """A sample of at most so many different texts. Raises BadInput where nothing could be read."""
    sampler = Sampler(limit)
    work = _ChunkKeys(Parser(inputs.options), seed)
    with closing(inputs.each(work)) as batches:
        for batch in without_repeats(batches):
            texts = [record.text or "" for record in batch.records]
            sampler.add(batch.ids, texts, batch.fingerprints.values)
            rejects.note(batch)
    sample = sampler.sample()
    if not sample.read:
        raise BadInput("no document could be read, so there is nothing to measure")
    return sample
