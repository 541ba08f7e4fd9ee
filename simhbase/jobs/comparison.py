"""What jobs share that compare documents without a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.spool import Spool, SpooledRows
from simhbase.drawers.join import default_layout
from simhbase.drawers.scheme import Bounds, RisingThreshold, Scheme, SimHashScheme, same_numbers
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.evidence import Rule
from simhbase.jobs.groups import Exact
from simhbase.jobs.pipeline import Batch
from simhbase.profile import TABLE_BITS, Profile, for_corpora, given_parameters, make_profile
from simhbase.slices import bounded_slices
from simhbase.text.features import Extractor
from simhbase.text.jaccard import jaccard, sets_of

BYTES_AT_ONCE = 1 << 19  # of texts that are compared exactly; their shingles take some dozens of times that
DEFAULT_SIMILARITY = 0.65  # below it are texts of one template, at and above it versions of one text


@dataclass(frozen=True)
class Comparison:
    """What is near: how texts become fingerprints, and which of these are pairs.

    any_layout: whether one is to be chosen that suits the number of documents.
    """

    profile: Profile
    chosen: Scheme
    bounds: Bounds
    any_layout: bool

    @classmethod
    def of(cls, profile: Profile | Mapping[str, object] | None, min_similarity: float | None) -> Self:
        """Of a profile, or of those of its parameters that are given by name. Raises UsageError for bounds
        that cannot be kept, before anything is read."""
        given = dict(given_parameters(profile))
        any_layout = given.get("scheme", "simhash") == "simhash" and "layout" not in given
        if any_layout and "k" in given:
            k, bits = cast(int, given["k"]), cast(int, given.get("bits", TABLE_BITS))
            given["layout"] = default_layout(k, 0, bits).name
        chosen = make_profile(given)
        scheme = chosen.index_scheme
        # With a reach the layout decides what shares a drawer.
        any_layout &= isinstance(scheme, SimHashScheme) and scheme.reach <= scheme.k
        bounds = scheme.bounds(None, None) if min_similarity is None else scheme.loose_bounds(min_similarity)
        return cls(chosen, scheme, bounds, any_layout)

    @classmethod
    def exact(
        cls, profile: Profile | Mapping[str, object] | None, min_similarity: float | None
    ) -> tuple[Self, float]:
        """What is near by a profile `for_corpora`, and the least similarity of that as counted exactly, for
        None the profile's threshold or DEFAULT_SIMILARITY; 0 where the fingerprints decide. Raises
        UsageError."""
        profile = for_corpora(given_parameters(profile))
        by_fingerprints = cls.of(profile, None)
        least = min_similarity
        if least is None:
            threshold = by_fingerprints.chosen.threshold
            if isinstance(threshold, RisingThreshold):  # sketches decide, as they tell the features
                return by_fingerprints, threshold.least
            least = threshold or DEFAULT_SIMILARITY
        return cls.of(profile, least) if least else by_fingerprints, least

    def scheme(self, n: int) -> Scheme:
        if not self.any_layout:
            return self.chosen
        assert isinstance(self.chosen, SimHashScheme)
        k, bits = self.chosen.k, self.chosen.layout.bits
        return replace(self.chosen, layout=default_layout(k, n, bits))

    def rule(self, least: float, *, chains: bool) -> Rule:
        """The same in words. least: similarity as it is counted exactly, 0 where nobody counts; chains:
        whether groups are joined by matches."""
        if not least:
            return Rule(self.chosen.rule(None), chains=chains)
        by_features = isinstance(
            self.bounds.mismatches, np.ndarray
        )  # other sketches only find what is compared
        found = [self.chosen.rule(None)] if by_features else []
        if isinstance(self.chosen, SimHashScheme):
            found = [self.chosen.within]
        exact = f"Jaccard >= {least:g}{'' if by_features else same_numbers(self.chosen.sketching)}"
        return Rule(", ".join([*found, exact]), chains=chains, compares_texts=True)

    @property
    def nothing(self) -> FingerprintBatch:
        values = np.zeros((0, 2) if self.profile.fingerprint_bits == 128 else 0, dtype=np.uint64)
        sketching = self.profile.sketching
        return FingerprintBatch(values, np.zeros((0, sketching.bytes if sketching else 0), dtype=np.uint8))


class ComparedTexts(AbstractContextManager["ComparedTexts"]):
    """Counts the shingles that texts share. Keeps every text, on disk, until it is known which ones are near.

    least: the similarity from which they are, 0 where that is not asked; folder: where on disk.
    """

    def __init__(self, profile: Profile, least: float, folder: Path) -> None:
        self.least = least
        self._texts = Spool(folder)
        self._digests = SpooledRows(folder, np.empty((0, 2), dtype=np.uint64))
        self.form = profile.normal_form
        self._extractor = Extractor(profile.shingles, TABLE_BITS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._texts.__exit__(kind, error, trace)
        self._digests.__exit__(kind, error, trace)

    @property
    def count(self) -> int:
        return len(self._texts)

    def put_aside(self, batch: Batch) -> None:
        self.put_texts_aside([record.text or "" for record in batch.records])

    def put_texts_aside(self, texts: Iterable[str]) -> None:
        encoded = [_encoded(text) for text in texts]
        self._texts.put_aside(encoded)
        digests = b"".join(map(mmh3.mmh3_x64_128_digest, encoded))
        self._digests.append(np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2))

    def exact(self) -> Exact:
        """What is required of those that were put aside."""
        return Exact(self.least, self.digests, self.similarity)

    @property
    def digests(self) -> NDArray[np.uint64]:
        """Hashes of the texts that were put aside: uint64 (n, 2), read from disk when they are indexed."""
        return cast(NDArray[np.uint64], self._digests)

    def read(self, numbers: Sequence[int]) -> list[str]:
        return [text.decode(errors="surrogatepass") for text in self._texts.read(numbers)]

    def similarity(
        self, left: NDArray[np.int64], right: NDArray[np.int64], more: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """The Jaccard similarity of m pairs of texts: positions int64 (m,) -> float64 (m,).

        more: texts that were not put aside, whose positions are behind those of the others.
        """
        found = np.empty(len(left))
        sizes = self._sizes(left, more) + self._sizes(right, more)
        for chunk in bounded_slices(sizes, BYTES_AT_ONCE):
            wanted, places = np.unique([left[chunk], right[chunk]], return_inverse=True)
            found[chunk] = self._similarity(self._read(wanted, more), *places.reshape(2, -1))
        return found

    def _similarity(
        self, texts: Sequence[str], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        sets = sets_of(self._extractor.extract(texts))
        found = jaccard(sets, left, right)
        for pair in np.flatnonzero((sets.sizes[left] == 0) & (sets.sizes[right] == 0)).tolist():
            found[pair] = texts[left[pair]] == texts[right[pair]]  # shorter than a shingle
        return found

    def _sizes(self, numbers: NDArray[np.int64], more: Sequence[str]) -> NDArray[np.int64]:
        """Bytes of texts; of those not put aside, characters."""
        here = numbers < self.count
        sizes = np.empty(len(numbers), dtype=np.int64)
        sizes[here] = self._texts.sizes(numbers[here])
        sizes[~here] = [len(more[number]) for number in (numbers[~here] - self.count).tolist()]
        return sizes

    def _read(self, numbers: NDArray[np.int64], more: Sequence[str]) -> list[str]:
        here, others = np.split(numbers, [np.searchsorted(numbers, self.count)])
        return self.read(here.tolist()) + [more[number] for number in (others - self.count).tolist()]


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
