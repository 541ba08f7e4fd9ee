"""Texts to fingerprints and sketches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import NoFingerprint
from simhbase.fingerprint import minhash
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.simhash import simhash
from simhbase.text.features import Extractor, FeatureBatch, FeatureOptions
from simhbase.text.numbers import hashes_of_numbers

_TEXTS = 256

Hashing = Callable[[Sequence[str], FeatureBatch], FingerprintBatch]


def simhash_only(texts: Sequence[str], batch: FeatureBatch) -> FingerprintBatch:
    return FingerprintBatch.bare(simhash(batch))


@dataclass(frozen=True)
class SimHashVerified:
    """SimHash of the features, and a sketch of the texts' shingles."""

    sketching: SketchParameters
    shingles: Extractor

    def __call__(self, texts: Sequence[str], batch: FeatureBatch) -> FingerprintBatch:
        """Fingerprint a batch. Sketches are all zero for texts without shingles."""
        numbers = hashes_of_numbers(texts, self.shingles.options) if self.sketching.numbered else None
        return FingerprintBatch(
            simhash(batch), self.sketching.sketches(self.shingles.extract(texts), numbers)
        )


@dataclass(frozen=True)
class MinHash:
    """Sketch of the features; its hash is the fingerprint."""

    sketching: SketchParameters
    options: FeatureOptions

    def __call__(self, texts: Sequence[str], batch: FeatureBatch) -> FingerprintBatch:
        """Fingerprint a batch. Sketches are all zero for texts without features."""
        numbers = hashes_of_numbers(texts, self.options) if self.sketching.numbered else None
        sketches = self.sketching.sketches(batch, numbers)
        return FingerprintBatch(minhash.fingerprints(sketches), sketches)


@dataclass(frozen=True, slots=True)
class Fingerprinted:
    """Fingerprints of n texts. reasons: n entries, None, or why the text has no fingerprint (its values are
    zeros)."""

    fingerprints: FingerprintBatch
    reasons: list[str | None]

    @property
    def values(self) -> NDArray[np.uint64]:
        """The fingerprints: uint64 (n,) for 64 bits, (n, 2) for 128."""
        return self.fingerprints.values

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """True for texts that have a fingerprint: bool (n,)."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)


class Fingerprinter:
    """Computes fingerprints. Create one in each process: it caches digests."""

    def __init__(
        self,
        options: FeatureOptions,
        bits: int = 64,
        min_features: int = 2,
        hashing: Hashing = simhash_only,
    ) -> None:
        self.extractor = Extractor(options, bits)
        self.bits = bits
        self.min_features = min_features
        self._hashing = hashing

    def fingerprint(self, text: str) -> int:
        """Fingerprint one text. Raises NoFingerprint."""
        result = self.fingerprint_many([text])
        if result.reasons[0] is not None:
            raise NoFingerprint(result.reasons[0])
        return to_int(result.values[0])

    def fingerprint_many(self, texts: Sequence[str]) -> Fingerprinted:
        starts = range(0, len(texts), _TEXTS) or [0]  # no texts: one empty batch
        parts = [self._batch(texts[start : start + _TEXTS]) for start in starts]
        if len(parts) == 1:
            return parts[0]
        return Fingerprinted(
            FingerprintBatch.joined(part.fingerprints for part in parts),
            [reason for part in parts for reason in part.reasons],
        )

    def _batch(self, texts: Sequence[str]) -> Fingerprinted:
        batch = self.extractor.extract(texts)
        reasons = [
            None if found >= self.min_features else self._reason(text, found)
            for text, found in zip(texts, batch.distinct(self.min_features), strict=True)
        ]
        fingerprints = self._hashing(texts, batch)
        if fingerprints.sketches.shape[1]:
            for text in np.flatnonzero(~fingerprints.sketches.any(axis=1)).tolist():
                reasons[text] = (
                    reasons[text] or f"the text is too short for a sketch{self._without(texts[text])}"
                )
        without = [text for text, reason in enumerate(reasons) if reason is not None]
        if without:
            fingerprints.values[without] = 0
            fingerprints.sketches[without] = 0
        return Fingerprinted(fingerprints, reasons)

    def _reason(self, text: str, found: int) -> str:
        if not text.strip():
            return "the text is empty"
        without = self._without(text)
        if without and not found:
            return "the text is only boilerplate"
        features = self.extractor.options.kind
        noun = "feature" if found == 1 else "features"
        return (
            f"the text has {found} distinct {noun} ({features}){without}, at least {self.min_features} are "
            "needed"
        )

    def _without(self, text: str) -> str:
        boilerplate = self.extractor.options.boilerplate
        return " without its boilerplate" if boilerplate and boilerplate.strip([text]) != [text] else ""


def to_int(value: NDArray[np.uint64] | np.uint64) -> int:
    """Convert a fingerprint (a uint64, or two words) to a Python integer."""
    number = 0
    for word in np.atleast_1d(value).tolist():
        number = number << 64 | word
    return number
