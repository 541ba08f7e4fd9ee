"""Texts to fingerprints and sketches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from simhbase.errors import NoFingerprint
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.text.features import UP_TO_TRIPLES, FeatureOptions

if TYPE_CHECKING:
    from simhbase.fingerprint.batch import Fingerprinted

_TEXTS = 256  # a call: some milliseconds, after which Ctrl-C is noticed


class TextFingerprint(NamedTuple):
    """Fingerprint and sketch of one text, as a plain integer and bytes: for a single lookup arrays would take
    most of the time. sketch: b"" if the profile has none."""

    value: int
    sketch: bytes = b""


NOTHING = TextFingerprint(0)


class Fingerprinter:
    """Computes fingerprints.

    sketching: format of sketches, None for none. is_minhash: sketches are those of the features, and their
    hash is the fingerprint, instead of sketches of growing shingles beside the SimHash of the features.
    """

    def __init__(
        self,
        options: FeatureOptions,
        bits: int = 64,
        min_features: int = 2,
        sketching: SketchParameters | None = None,
        is_minhash: bool = False,
    ) -> None:
        self.options = options
        self.bits = bits
        self.min_features = min_features
        self._sketch_bytes = sketching.bytes if sketching else 0
        self._pipeline = options.pipeline(
            bits, min_features, None if sketching is None else (*astuple(sketching), is_minhash)
        )

    def fingerprint(self, text: str) -> int:
        """Fingerprint one text. Raises NoFingerprint."""
        found, reason = self.fingerprint_one(text)
        if reason is not None:
            raise NoFingerprint(reason)
        return found.value

    def fingerprint_one(self, text: str) -> tuple[TextFingerprint, str | None]:
        """Fingerprint and sketch of one text, and None or why it has none (they are nothing then)."""
        words, sketch, distinct = self._pipeline.fingerprint_one(text)
        if distinct < self.min_features or (sketch and not any(sketch)):
            return NOTHING, self._reason(text, distinct)
        value = words[0] if len(words) == 1 else words[0] << 64 | words[1]
        return TextFingerprint(value, sketch), None

    def fingerprint_many(self, texts: Sequence[str]) -> Fingerprinted:
        """Fingerprint n texts."""
        from simhbase.fingerprint.batch import Fingerprinted  # imports NumPy, which one text needs not

        batches = []
        for start in range(0, len(texts), _TEXTS) or [0]:  # no texts: one empty batch
            chunk = list(texts[start : start + _TEXTS])
            found = self._pipeline.fingerprint(chunk)
            batch, lost = Fingerprinted.of(*found, self.bits, self._sketch_bytes, self.min_features)
            for text, features in lost.items():
                batch.reasons[text] = self._reason(chunk[text], features)
            batches.append(batch)
        return batches[0] if len(batches) == 1 else Fingerprinted.joined(batches)

    def _reason(self, text: str, found: int) -> str:
        if not text.strip():
            return "the text is empty"
        without = self._without(text)
        if found >= self.min_features:
            return f"the text is too short for a sketch{without}"
        if without and not found:
            return "the text is only boilerplate"
        features = self.options.kind
        noun = "feature" if found == 1 else "features"
        return (
            f"the text has {found} distinct {noun} ({features}){without}, at least {self.min_features} are "
            f"needed{self._taker(text)}"
        )

    def _taker(self, text: str) -> str:
        """The profile that would take the text, if there is one."""
        _, _, distinct = self._short.fingerprint_one(text)
        return "; the profile short takes it" if distinct >= self.min_features else ""

    @cached_property
    def _short(self) -> Any:
        """The features of the profile short: pairs and triples of characters, single ones in short texts."""
        boilerplate, variants = self.options.boilerplate, self.options.variants
        options = FeatureOptions(UP_TO_TRIPLES, boilerplate=boilerplate, variants=variants)
        return options.pipeline(self.bits, self.min_features, None)

    def _without(self, text: str) -> str:
        options = self.options
        if options.boilerplate is None or options.boilerplate.strip([text], options.variants) == [text]:
            return ""
        return " without its boilerplate"
