"""Boilerplate: lines and phrases that many documents of a corpus share, removed before fingerprinting.

Texts are compared by units: a character of a script that is written without spaces, or a run of other
letters, marks and digits. Punctuation, white space, case and width do not count. Removed are lines that
consist of the units of a boilerplate line, and runs of WINDOW or more units that occur in a phrase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from simhbase.errors import BadInput
from simhbase.text.hashing import GOLDEN, fmix64
from simhbase.text.normalise import fold, pieces
from simhbase.text.userfile import NamedContent, read_utf8
from simhbase.text.variants import CharacterTable

Kind = Literal["line", "phrase"]
Numbers = NDArray[np.int64]
Window = tuple[str, ...]

WINDOW = 8  # units: unrelated texts share many shorter runs by grammar alone

_ALONE, _IN_A_RUN = 2, 1
_SCRIPTS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = r"\p{L}\p{M}\p{N}"
_LETTER_ALONE = rf"[{_LETTER}]&&[{_SCRIPTS}]"
_UNIT = regex.compile(rf"[{_LETTER_ALONE}]|[{_LETTER}--[{_SCRIPTS}]]+", regex.V1)
_RUNS = regex.compile(rf"[{_LETTER}]+", regex.V1)
_RUNS_ALONE = regex.compile(rf"[{_LETTER_ALONE}]+", regex.V1)
_CODE_POINTS = 0x110000
_BREAK = ord("\n")
_BASE = GOLDEN  # odd, so that it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 1 << 64)
_OF_LINES = np.uint64(0xD1B54A32D192ED03)  # makes the hash of a line differ from that of a phrase
_FILTER_BITS = 20
_CHUNK_SHINGLES = 1 << 17  # characters looked at at once: their arrays stay in the cache


class BoilerplateItem(NamedTuple):
    """A line of a boilerplate file. documents: number of documents that have all of it."""

    kind: Kind
    documents: int
    text: str


@dataclass(frozen=True, slots=True)
class Units:
    """Units of n texts, which are concatenated with a line break after each.

    points: uint32 (c,), code points of the folded texts; ends: int64 (n,), position of the line break after
    each text; start, end: int64 (m,), positions of each unit; text: int64 (m,), number of its text; hashes:
    uint64 (m,).
    """

    points: NDArray[np.uint32]
    ends: Numbers
    start: Numbers
    end: Numbers
    text: Numbers
    hashes: NDArray[np.uint64]

    def windows(self) -> tuple[Numbers, NDArray[np.uint64]]:
        """All runs of WINDOW units within a text: the first unit of each, int64 (w,), and hashes."""
        first = np.flatnonzero(self.text[: 1 - WINDOW] == self.text[WINDOW - 1 :])
        return first, _span_hashes(self.hashes, first, first + WINDOW)

    def lines(self) -> LineSpans:
        stop = np.flatnonzero(self.points == _BREAK)
        start = np.append(0, stop[:-1] + 1) if len(stop) else stop
        first, behind = np.searchsorted(self.start, start), np.searchsorted(self.start, stop)
        there = np.flatnonzero(behind > first)
        first, behind = first[there], behind[there]
        hashes = _span_hashes(self.hashes, first, behind) ^ _OF_LINES
        return LineSpans(start[there], stop[there], first, behind, hashes)

    def shown(self, first: int, behind: int) -> str:
        """Text of the units from `first` to the one before `behind`."""
        return _decoded(self.points[self.start[first] : self.end[behind - 1]])


class LineSpans(NamedTuple):
    """Lines that have units. start, end: positions among the points; first, behind: their first unit and the
    one after their last; hashes: each (l,)."""

    start: Numbers
    end: Numbers
    first: Numbers
    behind: Numbers
    hashes: NDArray[np.uint64]


def cut(texts: Sequence[str], variants: CharacterTable | None = None) -> Units:
    """Fold texts and cut them into units."""
    folded = [fold(text, variants) for text in texts]
    encoded = "".join([f"{text}\n" for text in folded]).encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(encoded, dtype="<u4")
    ends = np.cumsum(np.array([len(text) + 1 for text in folded], dtype=np.int64)) - 1
    of_point = _classes()[points]
    in_run = of_point == _IN_A_RUN
    begins = of_point == _ALONE
    begins[:1] |= in_run[:1]
    begins[1:] |= in_run[1:] & ~in_run[:-1]
    goes_on = np.append(in_run[1:], False) & in_run
    start = np.flatnonzero(begins)
    end = np.flatnonzero((of_point != 0) & ~goes_on) + 1
    in_texts = np.diff(np.searchsorted(start, ends), prepend=0)
    values = points.astype(np.uint64) + np.uint64(1)
    values *= np.uint64(GOLDEN)
    fmix64(values)
    hashes = _span_hashes(values, start, end)
    return Units(points, ends, start, end, np.repeat(np.arange(len(texts)), in_texts), hashes)


def _span_hashes(values: NDArray[np.uint64], start: Numbers, behind: Numbers) -> NDArray[np.uint64]:
    """Hash runs of values: uint64 (runs,). Polynomials modulo 2^64, computed as differences of a running sum,
    divided by the power at their start (Karp, Rabin, IBM J. Res. Dev. 31, 1987)."""
    sums = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values * _powers(_BASE, len(values)), out=sums[1:])
    hashes: NDArray[np.uint64] = (sums[behind] - sums[start]) * _powers(_INVERSE, len(values) + 1)[start]
    fmix64(hashes)
    return hashes


def _powers(base: int, n: int) -> NDArray[np.uint64]:
    """base^0 ... base^(n - 1) modulo 2^64."""
    factors = np.full(n, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def in_chunks(texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Split texts into pieces, in chunks of bounded size: numbers of texts, and pieces."""
    numbers: list[int] = []
    parts: list[str] = []
    size = 0
    for number, text in enumerate(texts):
        for piece in pieces(text):
            numbers.append(number)
            parts.append(piece)
            size += len(piece)
            if size >= _CHUNK_SHINGLES:
                yield numbers, parts
                numbers, parts, size = [], [], 0
    if parts:
        yield numbers, parts


def split(text: str) -> list[str]:
    return [found[0] for found in _UNIT.finditer(fold(text))]


def has_units(text: str) -> bool:
    return _UNIT.search(fold(text)) is not None


def join(units: Iterable[str]) -> str:
    """Join units to a text, with spaces between units that are runs."""
    joined = ""
    spaced = False
    for unit in units:
        is_run = bool(_classes()[ord(unit[0])] == _IN_A_RUN)
        joined += " " * (spaced and is_run) + unit
        spaced = is_run
    return joined


@lru_cache(maxsize=1)
def _classes() -> NDArray[np.uint8]:
    """Class of each code point: a unit, part of a run, or neither (0). uint8 (0x110000,)."""
    points = np.arange(_CODE_POINTS, dtype="<u4")
    every = _decoded(points)
    classes = np.zeros(_CODE_POINTS, dtype=np.uint8)
    for runs, kind in ((_RUNS, _IN_A_RUN), (_RUNS_ALONE, _ALONE)):
        for found in runs.finditer(every):
            classes[found.start() : found.end()] = kind
    return classes


def _decoded(points: NDArray[np.uint32]) -> str:
    return points.tobytes().decode("utf-32-le", "surrogatepass")


@dataclass(frozen=True)
class Boilerplate(NamedContent):
    """Lines and phrases to remove from texts, as read from a file."""

    @cached_property
    def entries(self) -> list[BoilerplateItem]:
        """Entries of the file, without empty lines and comments. Raises BadInput for a malformed line."""
        lines = {
            number: line.rstrip("\r").split("\t", 2)
            for number, line in enumerate(self.content.decode("utf-8").split("\n"), 1)
            if line.strip() and not line.startswith("#")
        }
        if not lines:
            raise BadInput(f"{self.name} is empty: it has no boilerplate")
        units = cut([fields[-1] for fields in lines.values()])
        counts = np.bincount(units.text, minlength=len(lines)).tolist()
        return [
            self._entry(number, fields, count)
            for (number, fields), count in zip(lines.items(), counts, strict=True)
        ]

    def count(self, kind: Kind) -> int:
        """Number of entries of a kind."""
        return sum(entry.kind == kind for entry in self.entries)

    def _entry(self, number: int, fields: Sequence[str], units: int) -> BoilerplateItem:
        match fields:
            case ["line" | "phrase" as kind, documents, text] if documents.isdecimal() and units:
                if kind == "phrase" and units < WINDOW:
                    raise BadInput(
                        f"{self.name}, line {number}: a phrase needs at least {WINDOW} words (Chinese "
                        f"characters), and {text!r} has {units}: make it a 'line'"
                    )
                return BoilerplateItem(kind, int(documents), text)
        line = "\t".join(fields)
        raise BadInput(
            f"{self.name}, line {number}: expected 'line' or 'phrase', a number of documents and a text, "
            f"separated by tabs, found {line[:80]!r}"
        )

    def strip(self, texts: Sequence[str], variants: CharacterTable | None = None) -> list[str]:
        """Replace the boilerplate of n texts by spaces, and fold the rest; texts without boilerplate are
        returned unchanged.

        Each piece of a very long text (see `pieces`) is processed separately.
        """
        stripped: list[str] = [""] * len(texts)
        for numbers, parts in in_chunks(texts):
            for number, part in zip(numbers, self._strip_chunk(parts, variants), strict=True):
                stripped[number] += part
        return stripped

    def _strip_chunk(self, texts: Sequence[str], variants: CharacterTable | None) -> Iterator[str]:
        units = cut(texts, variants)
        dropped = self._dropped(units, *_known(self, variants))
        if not dropped.any():
            yield from texts
            return
        gap = dropped.copy()
        gap[1:] &= ~dropped[:-1]
        kept = ~dropped | gap
        left = _decoded(np.where(gap, ord(" "), units.points).astype("<u4")[kept])
        before = np.append(0, np.cumsum(kept))
        start = np.append(0, units.ends[:-1] + 1)
        changed = np.add.reduceat(dropped, start, dtype=np.int64) > 0
        bounds = zip(
            texts, changed.tolist(), before[start].tolist(), before[units.ends].tolist(), strict=True
        )
        for text, is_changed, first, behind in bounds:
            yield left[first:behind] if is_changed else text

    def _dropped(self, units: Units, phrases: _Hashes, lines: _Hashes) -> NDArray[np.bool_]:
        """True for code points of boilerplate, including the punctuation after a unit: bool (c,)."""
        first, hashes = units.windows()
        first = first[phrases.find(hashes)]
        covered = _covered(len(units.start), first, first + WINDOW)
        behind = np.minimum(np.append(units.start[1:], len(units.points)), units.ends[units.text])
        dropped = _covered(len(units.points), units.start[covered], behind[covered])
        if lines.keys.size:
            found = units.lines()
            known = lines.find(found.hashes)
            dropped |= _covered(len(units.points), found.start[known], found.end[known])
        return dropped


@lru_cache(maxsize=8)
def _known(boilerplate: Boilerplate, variants: CharacterTable | None) -> tuple[_Hashes, _Hashes]:
    """Hashes of the windows of all phrases, and of all lines."""
    phrases = cut([entry.text for entry in boilerplate.entries if entry.kind == "phrase"], variants)
    lines = cut([entry.text for entry in boilerplate.entries if entry.kind == "line"], variants)
    return _Hashes(np.unique(phrases.windows()[1])), _Hashes(np.unique(lines.lines().hashes))


@dataclass(frozen=True)
class _Hashes:
    keys: NDArray[np.uint64]

    def find(self, hashes: NDArray[np.uint64]) -> Numbers:
        """Positions of the hashes that are in the set."""
        perhaps = np.flatnonzero(self._filter[hashes >> np.uint64(64 - _FILTER_BITS)])
        place = np.searchsorted(self.keys, hashes[perhaps])
        place[place == len(self.keys)] = 0
        return perhaps[self.keys[place] == hashes[perhaps]] if len(perhaps) else perhaps

    @cached_property
    def _filter(self) -> NDArray[np.bool_]:
        # By upper bits, true if a key has them: most hashes need no search.
        held = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        held[self.keys >> np.uint64(64 - _FILTER_BITS)] = True
        return held


def _covered(n: int, start: Numbers, behind: Numbers) -> NDArray[np.bool_]:
    """True for those of n positions that lie in a range. Ranges have distinct starts, and distinct ends."""
    depth = np.zeros(n + 1, dtype=np.int64)
    depth[start] += 1
    depth[behind] -= 1
    return np.cumsum(depth)[:-1] > 0


def read_boilerplate(path: Path) -> Boilerplate:
    """Read a boilerplate file. Raises BadInput if it is missing or malformed."""
    boilerplate = Boilerplate(path.name, read_utf8(path, "boilerplate file"))
    _ = boilerplate.entries
    return boilerplate


def render(entries: Sequence[BoilerplateItem], documents: int, least: int) -> bytes:
    """Content of a boilerplate file with entries that at least `least` of `documents` documents have."""
    head = f"# simhbase boilerplate: what at least {least} of {documents} documents have\n"
    ordered = sorted(entries, key=lambda entry: (-entry.documents, entry.kind, entry.text))
    return "".join([head, *(f"{kind}\t{documents}\t{text}\n" for kind, documents, text in ordered)]).encode()


def phrases(windows: Mapping[str, int]) -> list[BoilerplateItem]:
    """Join overlapping windows to phrases, each window in one phrase. A phrase grows while exactly one window
    follows, and that window follows only this one (like unitigs in genome assembly). Its number of documents
    is the least of its windows."""
    by_units = {tuple(split(text)): documents for text, documents in windows.items()}
    return [
        BoilerplateItem(
            "phrase", min(map(by_units.__getitem__, run)), join([*run[0], *(each[-1] for each in run[1:])])
        )
        for run in _runs(by_units)
    ]


def _runs(windows: Iterable[Window]) -> Iterator[list[Window]]:
    ordered = sorted(windows)
    by_head, by_tail = defaultdict(list), defaultdict(list)
    for window in ordered:
        by_head[window[:-1]].append(window)
        by_tail[window[1:]].append(window)

    def follows_one(window: Window) -> bool:
        before = by_tail[window[:-1]]
        return len(before) == 1 and len(by_head[window[:-1]]) == 1

    taken: set[Window] = set()
    # Circles of windows have no start: they come last, and are cut anywhere.
    for start in sorted(ordered, key=follows_one):
        run: list[Window] = []
        following = [start]
        while len(following) == 1 and following[0] not in taken and (not run or follows_one(following[0])):
            (window,) = following
            taken.add(window)
            run.append(window)
            following = by_head[window[1:]]
        if run:
            yield run
