"""Finds all pairs of fingerprints within k bits in memory, for dedup and batch loads.

Each table of a layout is sorted by its segment, so a drawer is a run of neighbours (the batch form of Manku,
Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, section 4). `near_values` does it with
fingerprints of 64 bits. With others, segment and position share one uint64: NumPy sorts those with SIMD
instructions, several times faster than positions by segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Mates
from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS, Layout, Run, layout, require_within_guarantee
from simhbase.drawers.near_values import near_values, tables_within_three
from simhbase.errors import UsageError
from simhbase.process.progress import Progress, no_progress
from simhbase.process.slices import Numbers, bounded_slices, numbers_below, ranges

WORD_BITS = 64
BATCH_PAIRS = 1 << 20
_SHARING = 1 << 14
_READ = 1 << 16
CROWD = 32  # members of a drawer that may be paired with each other
BATCH_CHUNKS = 1 << 13  # a chunk may be a single pair, with the overhead of three arrays

Words = list[NDArray[np.uint64]]  # words of fingerprints as columns, most significant first


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of positions: left and right int64 (m,) with left < right, distance (m,)."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    distance: NDArray[np.uint8] | NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> Pairs:
        return Pairs(self.left[chosen], self.right[chosen], self.distance[chosen])


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values of an array, in order of first appearance.

    first: (m,), where each value appears first, ascending; inverse: (n,), so that array[first][inverse] is
    the array again.
    """

    first: Numbers
    inverse: Numbers


def pairs_within(fingerprints: NDArray[np.uint64], k: int, layout: Layout | None = None) -> Pairs:
    """All pairs at most k bits apart, sorted by left, then right.

    fingerprints: uint64 (n,), or (n, 2) for 128 bits, most significant word first. A value that occurs c
    times has c * (c - 1) / 2 pairs with itself: if copies are common, join the `distinct` ones.

    Raises UsageError for a layout that guarantees less than k or has another number of bits.
    """
    pairs = concatenated(pair_batches(fingerprints, k, layout))
    order = np.lexsort((pairs.right, pairs.left))
    return Pairs(pairs.left[order], pairs.right[order], pairs.distance[order])


def pair_batches(
    fingerprints: NDArray[np.uint64],
    k: int,
    layout: Layout | None = None,
    reach: int = 0,
    progress: Progress = no_progress,
) -> Iterator[Pairs]:
    """The pairs of `pairs_within`, each once, unordered, in batches of up to about a million.

    reach: also pairs within this many bits that share a drawer, named as in stores. Working memory is
    proportional to n, however many pairs there are: for 64 bits three to five arrays like the fingerprints.
    progress (64 bits): fingerprints, once for each table. Raises as `pairs_within` does, when called rather
    than at the first batch.
    """
    words = _words(fingerprints)
    bits = WORD_BITS * len(words)
    layout = layout or default_layout(k, len(fingerprints), bits)
    if layout.bits != bits:
        raise UsageError(
            f"layout {layout.name!r} is for {layout.bits}-bit fingerprints, these have {bits} bits"
        )
    require_within_guarantee(k, layout)
    by_drawers = reach > layout.guarantee
    name_bits = SEGMENT_BITS if by_drawers else WORD_BITS
    most = reach if by_drawers else max(k, reach)
    if bits > WORD_BITS:
        return gathered(_found_pairs(words, most, layout, name_bits))
    if 2 <= most <= 3 and not by_drawers:
        tables = tables_within_three(len(fingerprints))
    else:
        tables = [list(_cut(table, name_bits)) for table in layout.meeting_tables]
    return gathered(_value_pairs(fingerprints, most, tables, progress))


def _value_pairs(
    fingerprints: NDArray[np.uint64], k: int, tables: Sequence[Sequence[Run]], progress: Progress
) -> Iterator[Pairs]:
    """Pairs within k that agree on at least one table."""
    positions, values = _in_order(fingerprints)
    is_first = np.ones(len(values), dtype=np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    if is_first.all():
        for pairs in near_values(values, k, tables, progress):
            left, right = (positions[np.searchsorted(values, each)] for each in (pairs.one, pairs.other))
            yield Pairs(np.minimum(left, right), np.maximum(left, right), pairs.distance)
        return
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(values))
    yield from _copies(positions, counts)
    values = values[starts]
    for pairs in near_values(values, k, tables, progress):
        one, other = np.searchsorted(values, pairs.one), np.searchsorted(values, pairs.other)
        # All copies of one with all copies of the other: by rows, as there may be very many.
        for rows in bounded_slices(counts[one], BATCH_PAIRS):
            row = np.repeat(np.arange(rows.start, rows.stop), counts[one[rows]])
            left = positions[ranges(starts[one[rows]], counts[one[rows]])]
            for some in bounded_slices(counts[other[row]], BATCH_PAIRS):
                members = other[row[some]]
                lefts = np.repeat(left[some], counts[members])
                rights = positions[ranges(starts[members], counts[members])]
                distance = np.repeat(pairs.distance[row[some]], counts[members])
                yield Pairs(np.minimum(lefts, rights), np.maximum(lefts, rights), distance)


def _copies(positions: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[Pairs]:
    """All pairs within groups of equal values, of which counts says the sizes."""
    copied = np.repeat(counts > 1, counts)
    group = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)[copied]
    positions = positions[copied]
    for left, right in sharing_batches(group):
        yield Pairs(positions[left], positions[right], np.zeros(len(left), dtype=np.uint8))


def _in_order(fingerprints: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Positions by value, those of equal values ascending, and the sorted values."""
    n = len(fingerprints)
    position_bits = max(n - 1, 0).bit_length()
    keys = fingerprints >> np.uint64(position_bits) << np.uint64(position_bits)
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << position_bits) - 1)
    positions = keys.view(np.int64)
    values = fingerprints[positions]
    # Sorted but for those that agree on all bits that had room beside their positions.
    upper = values >> np.uint64(position_bits)
    alike = np.zeros(n, dtype=np.bool_)
    alike[1:] = upper[1:] == upper[:-1]
    alike[:-1] |= alike[1:]
    few = np.flatnonzero(alike)
    order = few[np.argsort(values[few], kind="stable")]
    positions[few], values[few] = positions[order], values[order]
    return positions, values


def sharing_batches(
    segments: NDArray[np.uint32], crowds: list[NDArray[np.int64]] | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Positions left < right that share a segment, uint32 (n,): each pair once, some thousands at a time.

    crowds: where to put positions, ascending, of which more than CROWD share a segment, in place of their
    pairs.
    """
    shared = _shared_drawers(
        segments.__getitem__, len(segments), WORD_BITS // 2, None if crowds is None else CROWD
    )
    if crowds is not None:
        crowds += (np.frombuffer(each, np.int64) for each in shared.crowds())
    while pairs := shared.step(_SHARING):
        left, right = (np.frombuffer(each, np.int64) for each in pairs)
        yield left, right


def mates(fingerprints: NDArray[np.uint64], drawers: NDArray[np.uint32], k: int) -> Iterator[Pairs]:
    """Pairs at most k bits apart that share a drawer, each once, some thousands at a time.

    fingerprints: uint64 (n,) or (n, 2); drawers: uint32 (n,), the drawer to look at each in.
    """
    for left, right in sharing_batches(drawers):
        apart = distances(fingerprints[left], fingerprints[right])
        yield Pairs(left, right, apart).where(apart <= k)


def segments(
    fingerprints: NDArray[np.uint64], layout: Layout, name_bits: int = WORD_BITS
) -> NDArray[np.uint64]:
    """The drawer of each fingerprint in each table, named by at most 64 of its bits: uint64 (n, tables)."""
    return np.column_stack([*segments_by_table(fingerprints, layout, name_bits)])


def segments_by_table(
    fingerprints: NDArray[np.uint64], layout: Layout, name_bits: int
) -> Iterator[NDArray[np.uint64]]:
    """The columns of `segments`."""
    words = _words(fingerprints)
    return (_segments(words, list(_pieces(table, name_bits))) for table in layout.meeting_tables)


def default_layout(k: int, n: int, bits: int = WORD_BITS) -> Layout:
    """A layout to join n fingerprints within k bits: every two of k + 2 blocks (5x2 at k = 3).

    Above k = 3, drawers named by two blocks may be too coarse for n fingerprints; then three of k + 3 and so
    on, up to a number of tables, until a drawer of evenly distributed fingerprints holds about one. Raises
    UsageError for a k outside 0 to bits / 2 - 1, as unrelated texts differ in half of the bits.
    """
    if not 0 <= k < bits // 2:
        raise UsageError(f"must be 0 to {bits // 2 - 1} for {bits}-bit fingerprints, not {k}", parameter="k")
    if k <= 3:
        return layout(f"{max(k, 1) + 2}x2", bits)
    chosen = 1
    while comb(k + chosen + 1, chosen + 1) <= MAX_TABLES:
        chosen += 1
        if bits * chosen // (k + chosen) >= n.bit_length():
            break
    return layout(f"{k + chosen}x{chosen}", bits)


def distinct(fingerprints: NDArray[np.uint64]) -> Distinct:
    """The distinct values of uint64 (n,) or (n, 2) fingerprints, an array or what can be read like one by
    positions."""
    n = len(fingerprints)
    position_bits = max(n - 1, 0).bit_length()

    def upper_bits(part: slice) -> NDArray[np.uint64]:
        return _words(fingerprints[np.arange(part.start, part.stop)])[0] >> np.uint64(position_bits)

    # Those that share the upper bits with another one: few, where there are few repeats.
    alike = np.sort(np.frombuffer(_shared_drawers(upper_bits, n, position_bits).members(), np.int64))
    words = _words(fingerprints[alike])
    order = np.lexsort(words[::-1])  # stable: the first of equal ones stays first
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = np.logical_or.reduce([np.diff(word[order]) != 0 for word in words])
    alike = alike[order]
    is_first = np.ones(n, dtype=np.bool_)
    is_first[alike] = starts
    kind = numbers_below(n)
    rank: Numbers = np.cumsum(is_first, dtype=kind)
    rank -= kind(1)
    rank[alike] = rank[alike[starts]][np.cumsum(starts) - 1]
    return Distinct(np.flatnonzero(is_first).astype(kind), rank)


def distances(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Differing bits between fingerprints, pair by pair: uint64 (m,) or (m, 2) twice -> uint8 (m,)."""
    differing: NDArray[np.uint8] = np.bitwise_count(a ^ b)
    return differing if differing.ndim == 1 else differing[:, 0] + differing[:, 1]


def _words(fingerprints: NDArray[np.uint64]) -> Words:
    if fingerprints.dtype == np.uint64 and fingerprints.ndim == 1:
        return [fingerprints]
    if fingerprints.dtype == np.uint64 and fingerprints.ndim == 2 and fingerprints.shape[1] == 2:
        return list(np.ascontiguousarray(fingerprints.T))
    raise UsageError(
        "fingerprints must be a uint64 array of shape (n,) or (n, 2), "
        f"not {fingerprints.dtype} of shape {fingerprints.shape}"
    )


def _popcount(words: Sequence[NDArray[np.unsignedinteger]]) -> NDArray[np.uint8]:
    """Number of set bits in values of one or more words: uint8 (n,)."""
    total: NDArray[np.uint8] = np.bitwise_count(words[0])
    for word in words[1:]:
        total = total + np.bitwise_count(word)
    return total


def _differences(words: Words, left: Numbers, right: Numbers) -> Words:
    return [word[left] ^ word[right] for word in words]


@dataclass(frozen=True, slots=True)
class _Piece:
    """`width` adjacent bits within one word, the last of them `shift` above the least significant."""

    word: int
    shift: np.uint64
    width: np.uint64

    @property
    def mask(self) -> np.uint64:
        return np.uint64((1 << int(self.width)) - 1)


def _cut(table: Sequence[Run], room: int) -> Iterator[Run]:
    """The first `room` bits of a table's runs."""
    for run in table:
        width = min(run.width, room)
        room -= width
        if width:
            yield Run(run.start, width)


def _pieces(table: Sequence[Run], room: int) -> Iterator[_Piece]:
    """The first `room` bits of a table's runs, split at word boundaries."""
    for run in _cut(table, room):
        start, end = run.start, run.start + run.width
        while start < end:
            word = start // WORD_BITS
            stop = min(end, (word + 1) * WORD_BITS)
            yield _Piece(word, np.uint64((word + 1) * WORD_BITS - stop), np.uint64(stop - start))
            start = stop


def _found_pairs(words: Words, k: int, layout: Layout, name_bits: int) -> Iterator[Pairs]:
    """Pairs within k, reported by the first table in which they share a drawer. name_bits: maximum bits that
    name a drawer; fewer are used for very many fingerprints."""
    n = len(words[0])
    if n < 2:
        return
    position_bits = (n - 1).bit_length()
    room = min(name_bits, WORD_BITS - position_bits)
    tables = [list(_pieces(table, room)) for table in layout.meeting_tables]
    for number, table in enumerate(tables):

        def segments_of(part: slice, table: list[_Piece] = table) -> NDArray[np.uint64]:
            return _segments([word[part] for word in words], table)

        shared = _shared_drawers(segments_of, n, position_bits)
        while pairs := shared.step(_READ):
            left, right = (np.frombuffer(each, np.int64) for each in pairs)
            differences = _differences(words, left, right)
            near = np.flatnonzero(_popcount(differences) <= k)
            left, right, differences = left[near], right[near], [word[near] for word in differences]
            for earlier in tables[:number]:
                apart = np.flatnonzero(_segments(differences, earlier))
                differences = [word[apart] for word in differences]
                left, right = left[apart], right[apart]
            yield Pairs(left, right, _popcount(differences))


def _segments(words: Words, table: list[_Piece]) -> NDArray[np.uint64]:
    """Bits of a table's pieces, concatenated and right-aligned. Zero for the difference of two fingerprints
    that share the drawer."""
    segments = np.zeros_like(words[0])
    for piece in table:
        segments <<= piece.width
        segments |= (words[piece.word] >> piece.shift) & piece.mask
    return segments


def _shared_drawers(
    segments_of: Callable[[slice], NDArray[np.unsignedinteger]],
    n: int,
    position_bits: int,
    most: int | None = None,
) -> Mates:
    """segments_of: the drawers of a part of the n members. Made in parts, as there may be millions. most:
    members of a drawer that are paired with each other."""
    keys = np.arange(n, dtype=np.uint64)
    for start in range(0, n, _READ):
        part = slice(start, min(start + _READ, n))
        keys[part] |= segments_of(part) << np.uint64(position_bits)
    keys.sort()
    return Mates(keys, position_bits, most)


def gathered(found: Iterable[Pairs]) -> Iterator[Pairs]:
    """Joins small chunks of pairs into batches; yields at least one, possibly empty."""
    held: list[Pairs] = []
    total = 0
    for pairs in found:
        held.append(pairs)
        total += len(pairs.left)
        if total >= BATCH_PAIRS or len(held) >= BATCH_CHUNKS:
            yield concatenated(held)
            held, total = [], 0
    yield concatenated(held)


def concatenated(chunks: Iterable[Pairs]) -> Pairs:
    """All pairs of any number of chunks."""
    none = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8))
    chunks = [none, *chunks]
    return Pairs(
        np.concatenate([chunk.left for chunk in chunks]),
        np.concatenate([chunk.right for chunk in chunks]),
        np.concatenate([chunk.distance for chunk in chunks]),
    )
