"""What commands share that compare documents without a store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Self

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.bulk.dedup import Exact
from simhbase.bulk.pipeline import Batch
from simhbase.bulk.spool import Spool
from simhbase.cli.options import ProfileOptions
from simhbase.features import Extractor
from simhbase.filing import Bounds, Filing, SimHashFiling
from simhbase.pairs import default_layout
from simhbase.prints import Prints
from simhbase.profile import TABLE_BITS, Profile
from simhbase.quality.jaccard import jaccard, sets_of

PAIRS_AT_ONCE = 4096  # compared exactly: the shingles of twice as many texts are in memory


@dataclass(frozen=True)
class Comparison:
    """What is near: how texts become fingerprints, and which of these are pairs.

    any_layout: whether one is to be chosen that suits the number of documents.
    """

    profile: Profile
    chosen: Filing
    bounds: Bounds
    any_layout: bool

    @classmethod
    def of(cls, options: ProfileOptions, min_similarity: float | None) -> Self:
        """Raises UsageError for bounds that cannot be kept, before anything is read."""
        given = dict(options.given)
        any_layout = given.get("scheme", Profile.scheme) == "simhash" and "layout" not in given
        if any_layout and "k" in given:
            given["layout"] = default_layout(given["k"], 0, given.get("bits", TABLE_BITS)).name
        profile = ProfileOptions(given).profile()
        filing = profile.filing
        bounds = filing.bounds(None, None) if min_similarity is None else filing.loose_bounds(min_similarity)
        return cls(profile, filing, bounds, any_layout)

    def filing(self, n: int) -> Filing:
        """How n fingerprints are filed."""
        if not self.any_layout:
            return self.chosen
        k, bits = self.profile.k, self.profile.bits
        return SimHashFiling(default_layout(k, n, bits), k, self.profile.form)

    @property
    def nothing(self) -> Prints:
        """Those of no documents."""
        values = np.zeros((0, 2) if self.profile.fingerprint_bits == 128 else 0, dtype=np.uint64)
        form = self.profile.form
        return Prints(values, np.zeros((0, form.bytes if form else 0), dtype=np.uint8))


class ComparedTexts(AbstractContextManager["ComparedTexts"]):
    """Counts the shingles that texts share. Keeps every text, on disk in the folder for temporary files,
    until it is known which ones are near.

    least: the similarity from which they are.
    """

    def __init__(self, profile: Profile, least: float) -> None:
        self.least = least
        self._texts = Spool(Path(gettempdir()))
        self._digests: list[bytes] = []
        self._extractor = Extractor(profile.shingles, TABLE_BITS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._texts.__exit__(kind, error, trace)

    @property
    def count(self) -> int:
        """How many were put aside."""
        return len(self._texts)

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        texts = [_encoded(record.text or "") for record in batch.records]
        self._texts.put_aside(texts)
        self._digests.append(b"".join(map(mmh3.mmh3_x64_128_digest, texts)))

    def exact(self) -> Exact:
        """What is required of those that were put aside."""
        digests = np.frombuffer(b"".join(self._digests), dtype=np.uint64).reshape(-1, 2)
        return Exact(self.least, digests, self.similarity)

    def similarity(
        self, left: NDArray[np.int64], right: NDArray[np.int64], more: Sequence[str] = ()
    ) -> NDArray[np.float64]:
        """The Jaccard similarity of m pairs of texts: positions int64 (m,) -> float64 (m,).

        more: texts that were not put aside, whose positions are behind those of the others.
        """
        found = np.empty(len(left))
        for start in range(0, len(left), PAIRS_AT_ONCE):
            lot = slice(start, start + PAIRS_AT_ONCE)
            wanted, places = np.unique([left[lot], right[lot]], return_inverse=True)
            found[lot] = self._similarity(self._read(wanted, more), *places.reshape(2, -1))
        return found

    def _similarity(
        self, texts: Sequence[str], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        sets = sets_of(self._extractor.extract(texts))
        found = jaccard(sets, left, right)
        for pair in np.flatnonzero((sets.sizes[left] == 0) & (sets.sizes[right] == 0)).tolist():
            found[pair] = texts[left[pair]] == texts[right[pair]]  # shorter than a shingle
        return found

    def _read(self, numbers: NDArray[np.int64], more: Sequence[str]) -> list[str]:
        here, others = np.split(numbers, [np.searchsorted(numbers, self.count)])
        texts = [text.decode(errors="surrogatepass") for text in self._texts.read(here.tolist())]
        return texts + [more[number] for number in (others - self.count).tolist()]


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
