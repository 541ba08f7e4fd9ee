"""Reads files of labelled pairs of duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import BadInput
from simhbase.quality.pairs import TextPairs
from simhbase.quality.sample import Sample
from simhbase.text.encoding import decode
from simhbase.text.jaccard import ShingleSets
from simhbase.text.userfile import read_utf8

_HEADER = ("id_a", "id_b", "jaccard")
_SHOWN = 5


@dataclass(frozen=True)
class Labels:
    """m pairs of ids. jaccard: their similarity, float64 (m,), None if the file has none."""

    source: str
    left: Sequence[str]
    right: Sequence[str]
    jaccard: NDArray[np.float64] | None

    @property
    def ids(self) -> list[str]:
        """All ids without repeats, in the order of the file."""
        return list(dict.fromkeys(name for pair in zip(self.left, self.right, strict=True) for name in pair))

    def places(self, sample: Sample) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions of the pairs in a sample: two int64 (m,), the lesser first. Raises BadInput for unknown
        ids."""
        unknown = [name for name in self.ids if name not in sample.places]
        if unknown:
            shown = ", ".join(map(repr, unknown[:_SHOWN])) + (", ..." if len(unknown) > _SHOWN else "")
            raise BadInput(
                f"{self.source} names {len(unknown):,} ids of {len(self.ids):,} that are not among the "
                f"documents: {shown}. Check that the file belongs to this corpus, and the id prefix"
            )
        left = np.array([sample.places[name] for name in self.left], dtype=np.int64)
        right = np.array([sample.places[name] for name in self.right], dtype=np.int64)
        return np.minimum(left, right), np.maximum(left, right)


def labelled_pairs(labels: Labels, sample: Sample, sets: ShingleSets) -> TextPairs:
    """Labelled pairs without repeats, with exact similarity. Leaves out pairs of equal texts, which are one
    text in a sample. Raises BadInput for unknown ids."""
    left, right = labels.places(sample)
    pairs = TextPairs.of(len(sample.texts), [(left, right, sets.similarity(left, right))])
    return pairs.where(pairs.left != pairs.right)


def read_labels(path: Path) -> Labels:
    """Read pairs of ids from a file of tab-separated columns in UTF-8, plain or compressed.

    A header may name the columns id_a, id_b and jaccard; other columns are ignored. Without a header there
    are two columns (ids), three (similarity, ids), or six or more (similarity, three others, ids). Raises
    BadInput with the file and the line.
    """
    lines = (line.removesuffix("\r") for line in decode(read_utf8(path, "file of pairs")).split("\n"))
    numbered = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line]
    if not numbered:
        raise BadInput(f"{path} has no pairs: expected two ids on each line, separated by a tab")
    _, first = numbered[0]
    if "id_a" in first and "id_b" in first:
        if twice := [name for name in _HEADER if first.count(name) > 1]:
            raise BadInput(f"{path}: its header names {twice[0]} twice: which column counts is not certain")
        columns = tuple(first.index(name) if name in first else None for name in _HEADER)
        numbered = numbered[1:]
    else:
        columns = _columns(path, len(first))
    pairs = list(_pairs(path, numbered, columns))
    similarity = None if columns[2] is None else np.array([pair[2] for pair in pairs])
    return Labels(str(path), [pair[0] for pair in pairs], [pair[1] for pair in pairs], similarity)


def _columns(path: Path, count: int) -> tuple[int | None, ...]:
    if count == 2:
        return 0, 1, None
    if count == 3:
        return 1, 2, 0
    if count >= 6:
        return 4, 5, 0
    raise BadInput(
        f"{path}, line 1: {count} columns. Expected two (ids), three (similarity, ids), or six or more, "
        "separated by tabs, or a header that names id_a, id_b and jaccard"
    )


def _pairs(
    path: Path, rows: Sequence[tuple[int, list[str]]], columns: Sequence[int | None]
) -> Iterator[tuple[str, str, float]]:
    one, other, similarity = columns
    assert one is not None
    assert other is not None
    known = dict[tuple[str, str], float]()
    for number, row in rows:
        try:
            share = 0.0 if similarity is None else float(row[similarity])
            if not 0 <= share <= 1:
                raise ValueError(share)
            left, right = row[one], row[other]
        except (IndexError, ValueError) as error:
            raise BadInput(
                f"{path}, line {number:,}: {chr(9).join(row)[:80]!r} does not have the columns of line 1"
            ) from error
        if known.setdefault((min(left, right), max(left, right)), share) != share:
            raise BadInput(
                f"{path}, line {number:,}: {left!r:.80} and {right!r:.80} have another similarity on a line "
                "before: which counts is not certain"
            )
        yield left, right, share
