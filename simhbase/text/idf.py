"""Inverse document frequencies: jieba's own table, a user's file, or one learnt from a corpus.

A file has a token and its IDF on each line, apart by a space, as jieba's idf.txt. Weights are kept
as integers (IDF x 65536, rounded), so that every sum made of them is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from math import log, nan
from pathlib import Path

from simhbase.errors import BadInput
from simhbase.text.userfile import NamedContent, read_utf8

SCALE = 65536
LARGEST = 1_000_000  # sums of larger ones would leave 64 bits
JIEBA = "jieba"


@dataclass(frozen=True)
class IdfTable(NamedContent):
    """Integer IDF weights by token; tokens that are not in the table weigh the median.

    `name` is "jieba" or the name of a user's file; `content` its text, of which `digest` (SHA-256)
    and all weights follow.
    """

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Token -> round(IDF x 65536). Raises BadInput for a line that is no token and number."""
        weights = {}
        for number, line in enumerate(self.content.decode("utf-8").splitlines(), 1):
            if not line.strip():
                continue
            token, _, value = line.strip().rpartition(" ")
            idf = _number(value)
            if not token or not 0 <= idf <= LARGEST:
                raise BadInput(
                    f"{self.name}, line {number}: expected a token and its IDF (0 to {LARGEST:,}), "
                    f"found {line!r}"
                )
            weights[token] = round(idf * SCALE)
        if not weights:
            raise BadInput(f"{self.name} holds no IDF at all")
        return weights

    @cached_property
    def median(self) -> int:
        """The upper median of the weights, as jieba takes it."""
        return sorted(self.weights.values())[len(self.weights) // 2]

    @property
    def source(self) -> str:
        """Where it comes from: jieba, or a user."""
        return JIEBA if self.digest == jieba_table().digest else "user"


def _number(digits: str) -> float:
    """The number, NaN where it is none."""
    try:
        return float(digits)
    except ValueError:
        return nan


@lru_cache(maxsize=1)
def jieba_table() -> IdfTable:
    """The table that the installed jieba brings along (258,826 tokens in jieba 0.42.1)."""
    # jieba itself is never imported: finding its folder is enough, and 100 ms quicker.
    spec = find_spec(JIEBA)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput("jieba is not installed, and TF-IDF takes its IDF table from there")
    path = Path(spec.submodule_search_locations[0]) / "analyse" / "idf.txt"
    return IdfTable(f"{JIEBA} {version(JIEBA)}", path.read_bytes())


def read_table(path: Path) -> IdfTable:
    """A user's file. Raises BadInput where it is missing or malformed."""
    table = IdfTable(path.name, read_utf8(path, "IDF file"))
    _ = table.weights
    return table


def render_table(document_frequencies: Mapping[str, int], documents: int, least: int = 1) -> bytes:
    """A table's content from the number of documents that hold each token.

    IDF = ln((documents + 1) / (frequency + 1)) (smoothed, never negative). Tokens of fewer than
    `least` documents are left out. Sorted by token, so that equal corpora give equal bytes.
    """
    return b"".join(_lines(document_frequencies, documents, least))


def _lines(document_frequencies: Mapping[str, int], documents: int, least: int) -> Iterable[bytes]:
    for token in sorted(document_frequencies):
        frequency = document_frequencies[token]
        if frequency >= least:
            yield f"{token} {log((documents + 1) / (frequency + 1)):.6f}\n".encode()
