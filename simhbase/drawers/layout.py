"""Layouts: which bits of a fingerprint name its drawers.

Two fingerprints that differ in at most `guarantee` bits agree on all blocks of at least one combination
(pigeonhole principle), so they share at least one drawer (Manku, Jain, Das Sarma: Detecting Near-Duplicates
for Web Crawling, WWW 2007, section 3).

A layout with flips stores fewer rows and reads more drawers: a lookup also asks for the drawers whose name
differs from the query's in one bit. Two fingerprints meet if the lookup of one reads a drawer of the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

from simhbase.errors import UsageError

SEGMENT_BITS = 32
MAX_TABLES = 255  # the flag is one byte and starts at 1


@dataclass(frozen=True, slots=True)
class Run:
    """`width` adjacent bits; the first is `start` bits below the most significant."""

    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of a layout for fingerprints of `bits` bits; table i (flag i + 1) concatenates runs.

    guarantee: fingerprints within this many bits meet; flips: a lookup also reads the drawers whose names
    differ in up to this many bits, 0 or 1.
    """

    name: str
    bits: int
    tables: tuple[tuple[Run, ...], ...]
    guarantee: int
    flips: int = 0

    @property
    def meeting_tables(self) -> tuple[tuple[Run, ...], ...]:
        """Tables of which two fingerprints that meet agree on at least one: with flips, each table without
        each one of its bits."""
        return _meeting_tables(self.name, self.bits)

    def named_bits(self) -> list[list[int]]:
        """Per table, the positions of the bits that fit into the segment, most significant first."""
        return [
            [bit for run in table for bit in range(run.start, run.start + run.width)][:SEGMENT_BITS]
            for table in self.tables
        ]


@lru_cache
def layout(name: str, bits: int = 64) -> Layout:
    """The layout with a name: 5x2, 4x1, 6x3 or any NxM (N blocks, every M of them); 4x4, whose blocks are
    nested; or NxMp1, whose lookups flip one bit, as 2x1p1.

    Raises UsageError for an invalid name.
    """
    found = re.fullmatch(r"([1-9]\d?)x([1-9]\d?)(p1)?", name)
    if not found:
        raise UsageError(
            "must be NxM, for drawers named by every M of N blocks (5x2, 4x1, 6x3), 4x4, whose blocks are "
            f"nested, or NxMp1, whose lookups flip one bit (2x1p1), not {name!r}",
            parameter="layout",
        )
    blocks, chosen, flips = int(found[1]), int(found[2]), 1 if found[3] else 0
    if (blocks, chosen, flips) == (4, 4, 0):
        return Layout(name, bits, _nested_quarters(bits), guarantee=3)
    if blocks > bits:
        raise UsageError(f"{name} cuts {bits} bits into {blocks} blocks", parameter="layout")
    if chosen >= blocks:
        raise UsageError(f"{name} guarantees nothing: in NxM, M has to be smaller than N", parameter="layout")
    if comb(blocks, chosen) > MAX_TABLES:
        raise UsageError(
            f"{name} would put a document into {comb(blocks, chosen)} drawers, at most {MAX_TABLES} fit",
            parameter="layout",
        )
    runs = _split(bits, blocks)
    tables = tuple(_join(combination) for combination in combinations(runs, chosen))
    return Layout(name, bits, tables, _guarantee(blocks, chosen, flips), flips)


def _guarantee(blocks: int, chosen: int, flips: int) -> int:
    """The most bits of which, wherever they are, some combination of blocks has at most `flips`."""
    if not flips:
        return blocks - chosen
    # Every combination has two of them first if each block has two, or each but chosen - 2 has one.
    return 2 * blocks - 1 if chosen == 1 else blocks - chosen + 1


@lru_cache
def _meeting_tables(name: str, bits: int) -> tuple[tuple[Run, ...], ...]:
    found = layout(name, bits)
    if not found.flips:
        return found.tables
    return tuple(
        _join(Run(bit, 1) for bit in named if bit != flipped)
        for named in found.named_bits()
        for flipped in named
    )


def require_within_guarantee(k: int, layout: Layout) -> None:
    """Raises UsageError, suggesting a layout that reaches far enough, if fingerprints within k bits may share
    no drawer."""
    if not isinstance(k, int):
        raise UsageError(f"must be a whole number of bits, not {k!r}", parameter="k")
    if 0 <= k <= layout.guarantee:
        return
    farther = ""
    if k > 0:
        fitting = f", such as {k + 2}x2 for k = {k}" if comb(k + 2, 2) <= MAX_TABLES else ""
        farther = (
            f"; or choose a layout that reaches farther{fitting} (NxM finds every pair within N - M bits)"
        )
    raise UsageError(
        f"must be 0 to {layout.guarantee} with layout {layout.name}, not {k}{farther}. The layout of "
        "an existing store cannot be changed: simhbase migrate copies it to one with another layout",
        parameter="k",
    )


def _split(bits: int, blocks: int) -> list[Run]:
    """Nearly equal blocks, larger ones first."""
    width, larger = divmod(bits, blocks)
    widths = [width + 1] * larger + [width] * (blocks - larger)
    return [Run(sum(widths[:i]), widths[i]) for i in range(blocks)]


def _nested_quarters(bits: int) -> tuple[tuple[Run, ...], ...]:
    """A quarter, then a quarter of the remaining bits in order: 16 tables, within 3 bits."""
    quarter, inner = bits // 4, bits * 3 // 16
    tables = []
    for i in range(4):
        first = Run(i * quarter, quarter)
        for j in range(4):
            # Positions among the other bits; those after the chosen quarter are shifted.
            start, stop = j * inner, (j + 1) * inner
            before = Run(start, min(stop, first.start) - start)
            behind_start = max(start, first.start) + quarter
            behind = Run(behind_start, stop + quarter - behind_start)
            tables.append(_join(run for run in (first, before, behind) if run.width > 0))
    return tuple(tables)


def _join(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Joins adjacent runs."""
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].start + joined[-1].width == run.start:
            joined[-1] = Run(joined[-1].start, joined[-1].width + run.width)
        else:
            joined.append(run)
    return tuple(joined)
