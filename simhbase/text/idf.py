"""Inverse document frequencies: jieba's table, a user's file, or one learnt from a corpus.

Files have a token, a space and its IDF on each line, like jieba's idf.txt. Weights are integers (IDF x 65536,
rounded), so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log, nan

from simhbase.errors import BadInput
from simhbase.text.content import NamedContent
from simhbase.text.packages import package_folder, package_version

SCALE = 65536
SHOWN = 80  # characters of a malformed line
LARGEST = 1_000_000  # sums of larger weights could exceed 64 bits
JIEBA = "jieba"


@dataclass(frozen=True)
class IdfTable(NamedContent):
    """Integer IDF weights by token, the median for tokens that are not in the table. name: "jieba VERSION" or
    that of a user's file."""

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Token -> round(IDF x 65536). Raises BadInput for a malformed line."""
        weights = dict[str, int]()
        for number, line in enumerate(self.content.decode("utf-8").splitlines(), 1):
            if not line.strip():
                continue
            token, _, value = line.strip().rpartition(" ")
            try:
                idf = float(value)
            except ValueError:
                idf = nan
            if not token or not 0 <= idf <= LARGEST:
                raise BadInput(
                    f"{self.name}, line {number}: expected a token and its IDF (0 to {LARGEST:,}), "
                    f"found {line[:SHOWN]!r}"
                )
            weight = round(idf * SCALE)
            if weights.setdefault(token, weight) != weight:
                raise BadInput(
                    f"{self.name}, line {number}: {token[:SHOWN]!r} has another IDF on a line before: which "
                    "counts is not certain"
                )
        if not weights:
            raise BadInput(f"{self.name} is empty: it has no IDF")
        return weights

    @cached_property
    def median(self) -> int:
        """The upper median of the weights, as in jieba."""
        return sorted(self.weights.values())[len(self.weights) // 2]

    @property
    def source(self) -> str:
        """JIEBA, or "user"."""
        return JIEBA if self.digest == jieba_table().digest else "user"


@lru_cache(maxsize=1)
def jieba_table() -> IdfTable:
    """The table of the installed jieba (258,826 tokens in jieba 0.42.1). Raises BadInput."""
    missing = "jieba is not installed, but its IDF table is needed for TF-IDF: pip install jieba"
    from pathlib import Path

    path = Path(package_folder(JIEBA, missing), "analyse", "idf.txt")
    return IdfTable(f"{JIEBA} {package_version(JIEBA)}", path.read_bytes())


def render_table(document_frequencies: Mapping[str, int], documents: int, least: int = 1) -> bytes:
    """Content of an IDF file, given the number of documents that contain each token.

    IDF = ln((documents + 1) / (frequency + 1)) (smoothed, never negative). Leaves out tokens of fewer than
    `least` documents. Sorted by token, so that equal corpora give equal bytes.
    """
    return "".join(
        f"{token} {log((documents + 1) / (frequency + 1)):.6f}\n"
        for token, frequency in sorted(document_frequencies.items())
        if frequency >= least
    ).encode()
