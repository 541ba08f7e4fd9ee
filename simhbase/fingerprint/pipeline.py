"""Texts to fingerprints and sketches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import NoFingerprint
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.text.features import Extractor, FeatureOptions

_TEXTS = 256  # a call: some milliseconds, after which Ctrl-C is noticed


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
    """Computes fingerprints.

    sketching: format of sketches, None for none. is_minhash: sketches are those of the features, and their
    hash is the fingerprint, instead of sketches of triples of characters beside the SimHash of the features.
    """

    def __init__(
        self,
        options: FeatureOptions,
        bits: int = 64,
        min_features: int = 2,
        sketching: SketchParameters | None = None,
        is_minhash: bool = False,
    ) -> None:
        self.extractor = Extractor(options)
        self.bits = bits
        self.min_features = min_features
        self._sketch_bytes = sketching.bytes if sketching else 0
        self._pipeline = options.pipeline(
            bits, min_features, None if sketching is None else (*sketching.parameters, is_minhash)
        )

    def fingerprint(self, text: str) -> int:
        """Fingerprint one text. Raises NoFingerprint."""
        result = self.fingerprint_many([text])
        if result.reasons[0] is not None:
            raise NoFingerprint(result.reasons[0])
        return to_int(result.values[0])

    def fingerprint_many(self, texts: Sequence[str]) -> Fingerprinted:
        starts = range(0, len(texts), _TEXTS) or [0]  # no texts: one empty batch
        parts = [self._batch(list(texts[start : start + _TEXTS])) for start in starts]
        if len(parts) == 1:
            return parts[0]
        return Fingerprinted(
            FingerprintBatch.joined(part.fingerprints for part in parts),
            [reason for part in parts for reason in part.reasons],
        )

    def _batch(self, texts: list[str]) -> Fingerprinted:
        found, sketched, distinct = self._pipeline.fingerprint(texts)
        shape = (len(texts), 2) if self.bits == 128 else len(texts)
        values = np.frombuffer(found, np.uint64).reshape(shape)
        sketches = np.frombuffer(sketched, np.uint8).reshape(len(texts), self._sketch_bytes)
        counts = np.frombuffer(distinct, np.uint32)
        lost = counts < self.min_features
        if self._sketch_bytes:
            lost |= ~sketches.any(axis=1)
        reasons: list[str | None] = [None] * len(texts)
        if without := np.flatnonzero(lost).tolist():
            values[without] = sketches[without] = 0
        for text in without:
            reasons[text] = self._reason(texts[text], int(counts[text]))
        return Fingerprinted(FingerprintBatch(values, sketches), reasons)

    def _reason(self, text: str, found: int) -> str:
        if not text.strip():
            return "the text is empty"
        without = self._without(text)
        if found >= self.min_features:
            return f"the text is too short for a sketch{without}"
        if without and not found:
            return "the text is only boilerplate"
        features = self.extractor.options.kind
        noun = "feature" if found == 1 else "features"
        return (
            f"the text has {found} distinct {noun} ({features}){without}, at least {self.min_features} are "
            "needed"
        )

    def _without(self, text: str) -> str:
        options = self.extractor.options
        if options.boilerplate is None or options.boilerplate.strip([text], options.variants) == [text]:
            return ""
        return " without its boilerplate"


def to_int(value: NDArray[np.uint64] | np.uint64) -> int:
    """Convert a fingerprint (a uint64, or two words) to a Python integer."""
    number = 0
    for word in np.atleast_1d(value).tolist():
        number = number << 64 | word
    return number
