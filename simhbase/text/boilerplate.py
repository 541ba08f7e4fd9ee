"""Boilerplate: what so many documents of a corpus have in common that it says nothing about any of them.

Texts are compared by their units: a character of a script that is written without spaces, or a run of
other letters, marks and digits. Punctuation, white space, case and width do not count. What is taken out
of texts is either a line, where a text has one of just these units, or every run of WINDOW units and more
that stands in a phrase.
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
from simhbase.text.normalise import CURRENT, NormalForm, fold, pieces
from simhbase.text.userfile import NamedContent, read_utf8

Kind = Literal["line", "phrase"]
Numbers = NDArray[np.int64]
Window = tuple[str, ...]

WINDOW = 8  # units; of fewer, all kinds of texts have many in common by the grammar alone

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
_OF_LINES = np.uint64(0xD1B54A32D192ED03)  # keeps the hash of a line from being that of a phrase
_FILTER_BITS = 20
_CHUNK_SHINGLES = 1 << 17  # characters looked at at once: their arrays stay in the cache


class BoilerplateItem(NamedTuple):
    """A line of a file: what it is, how many documents have it (each part of it), and its text."""

    kind: Kind
    documents: int
    text: str


@dataclass(frozen=True, slots=True)
class Units:
    """The units of n texts, one text behind the other with a line break after each.

    points: uint32 (c,), the folded texts' code points; ends: int64 (n,), where the line break behind
    each text is; start, end: int64 (m,), of each unit among the points; text: int64 (m,), its text's
    number; hashes: uint64 (m,).
    """

    points: NDArray[np.uint32]
    ends: Numbers
    start: Numbers
    end: Numbers
    text: Numbers
    hashes: NDArray[np.uint64]

    def windows(self) -> tuple[Numbers, NDArray[np.uint64]]:
        """All runs of WINDOW units within a text: the first unit of each, int64 (w,), and its hash."""
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
        """The text from a unit up to the one before `behind`."""
        return _decoded(self.points[self.start[first] : self.end[behind - 1]])


class LineSpans(NamedTuple):
    """Lines: where each begins and ends among the points, its first unit and the one behind its last, and
    its hash; each (l,)."""

    start: Numbers
    end: Numbers
    first: Numbers
    behind: Numbers
    hashes: NDArray[np.uint64]


def cut(texts: Sequence[str], form: NormalForm = CURRENT) -> Units:
    folded = [fold(text, form) for text in texts]
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
    """A hash of each run of values: polynomials modulo 2^64, differences of one running sum (Karp, Rabin,
    IBM J. Res. Dev. 31, 1987), each divided by the power it begins with. uint64, as many as runs."""
    sums = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values * _powers(_BASE, len(values)), out=sums[1:])
    hashes: NDArray[np.uint64] = (sums[behind] - sums[start]) * _powers(_INVERSE, len(values) + 1)[start]
    fmix64(hashes)
    return hashes


def _powers(base: int, n: int) -> NDArray[np.uint64]:
    """base^0, base^1 ... modulo 2^64: n of them."""
    factors = np.full(n, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def in_chunks(texts: Iterable[str]) -> Iterator[tuple[list[int], list[str]]]:
    """The pieces of texts in chunks of bounded size, each with the number of its text."""
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
    """A text that has these units: those that are no character alone have a space between them."""
    joined = ""
    spaced = False
    for unit in units:
        is_run = bool(_classes()[ord(unit[0])] == _IN_A_RUN)
        joined += " " * (spaced and is_run) + unit
        spaced = is_run
    return joined


@lru_cache(maxsize=1)
def _classes() -> NDArray[np.uint8]:
    """What each code point is: a unit alone, part of a run, or none (0). uint8 (0x110000,)."""
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
    """Lines and phrases to be left out of texts.

    `name` is that of the file; `content` its text, of which `digest` (SHA-256) and everything else follow.
    """

    @cached_property
    def entries(self) -> list[BoilerplateItem]:
        """The lines of the file but for empty ones and comments. Raises BadInput for any other."""
        lines = {
            number: line.rstrip("\r").split("\t", 2)
            for number, line in enumerate(self.content.decode("utf-8").split("\n"), 1)
            if line.strip() and not line.startswith("#")
        }
        if not lines:
            raise BadInput(f"{self.name} holds no boilerplate at all")
        units = cut([fields[-1] for fields in lines.values()])
        counts = np.bincount(units.text, minlength=len(lines)).tolist()
        return [
            self._entry(number, fields, count)
            for (number, fields), count in zip(lines.items(), counts, strict=True)
        ]

    def count(self, kind: Kind) -> int:
        """How many entries are of a kind."""
        return sum(entry.kind == kind for entry in self.entries)

    def _entry(self, number: int, fields: Sequence[str], units: int) -> BoilerplateItem:
        match fields:
            case ["line" | "phrase" as kind, documents, text] if documents.isdecimal() and units:
                if kind == "phrase" and units < WINDOW:
                    raise BadInput(
                        f"{self.name}, line {number}: a phrase needs at least {WINDOW} words (Chinese "
                        f"characters), and {text!r} has {units}: it can be a 'line'"
                    )
                return BoilerplateItem(kind, int(documents), text)
        line = "\t".join(fields)
        raise BadInput(
            f"{self.name}, line {number}: expected 'line' or 'phrase', a number of documents and a text, "
            f"with tabs between them, found {line[:80]!r}"
        )

    def strip(self, texts: Sequence[str], form: NormalForm = CURRENT) -> list[str]:
        """n texts without their boilerplate, a space in its place and the rest folded; a text that has
        none stays as it is.

        Of a very long text (see `pieces`) every piece is looked at by itself.
        """
        stripped: list[str] = [""] * len(texts)
        for numbers, parts in in_chunks(texts):
            for number, part in zip(numbers, self._strip_lot(parts, form), strict=True):
                stripped[number] += part
        return stripped

    def _strip_lot(self, texts: Sequence[str], form: NormalForm) -> Iterator[str]:
        units = cut(texts, form)
        dropped = self._dropped(units, *_known(self, form))
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
        """Which code points are boilerplate, the punctuation behind a unit with it: bool (c,)."""
        first, hashes = units.windows()
        first = first[phrases.among(hashes)]
        covered = _covered(len(units.start), first, first + WINDOW)
        behind = np.minimum(np.append(units.start[1:], len(units.points)), units.ends[units.text])
        dropped = _covered(len(units.points), units.start[covered], behind[covered])
        if lines.keys.size:
            found = units.lines()
            known = lines.among(found.hashes)
            dropped |= _covered(len(units.points), found.start[known], found.end[known])
        return dropped


@lru_cache(maxsize=8)
def _known(boilerplate: Boilerplate, form: NormalForm) -> tuple[_Hashes, _Hashes]:
    """The windows of its phrases, and its lines."""
    phrases = cut([entry.text for entry in boilerplate.entries if entry.kind == "phrase"], form)
    lines = cut([entry.text for entry in boilerplate.entries if entry.kind == "line"], form)
    return _Hashes(np.unique(phrases.windows()[1])), _Hashes(np.unique(lines.lines().hashes))


@dataclass(frozen=True)
class _Hashes:
    keys: NDArray[np.uint64]

    def among(self, hashes: NDArray[np.uint64]) -> Numbers:
        """The places of those that are in the set."""
        perhaps = np.flatnonzero(self._filter[hashes >> np.uint64(64 - _FILTER_BITS)])
        place = np.searchsorted(self.keys, hashes[perhaps])
        place[place == len(self.keys)] = 0
        return perhaps[self.keys[place] == hashes[perhaps]] if len(perhaps) else perhaps

    @cached_property
    def _filter(self) -> NDArray[np.bool_]:
        """Which upper bits any of them has: most hashes need no search."""
        held = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        held[self.keys >> np.uint64(64 - _FILTER_BITS)] = True
        return held


def _covered(n: int, start: Numbers, behind: Numbers) -> NDArray[np.bool_]:
    """Which of n places lie in one of some ranges; no two of them begin, or end, at the same place."""
    depth = np.zeros(n + 1, dtype=np.int64)
    depth[start] += 1
    depth[behind] -= 1
    return np.cumsum(depth)[:-1] > 0


def read_boilerplate(path: Path) -> Boilerplate:
    """A file of boilerplate. Raises BadInput where it is missing or malformed."""
    boilerplate = Boilerplate(path.name, read_utf8(path, "boilerplate file"))
    _ = boilerplate.entries
    return boilerplate


def render(entries: Sequence[BoilerplateItem], documents: int, least: int) -> bytes:
    """A file's content: what was learnt from so many documents, each of at least `least` of them."""
    head = f"# simhbase boilerplate: what at least {least} of {documents} documents have\n"
    ordered = sorted(entries, key=lambda entry: (-entry.documents, entry.kind, entry.text))
    return "".join([head, *(f"{kind}\t{documents}\t{text}\n" for kind, documents, text in ordered)]).encode()


def phrases(windows: Mapping[str, int]) -> list[BoilerplateItem]:
    """Phrases that have just these windows, each window in one of them: each goes on for as long as one
    window alone follows, and that follows nothing else (as the unitigs of assembled genomes). The number
    of documents is the least of its windows."""
    by_units = {tuple(split(text)): documents for text, documents in windows.items()}
    return [
        BoilerplateItem(
            "phrase", min(map(by_units.__getitem__, run)), join([*run[0], *(each[-1] for each in run[1:])])
        )
        for run in _runs(by_units)
    ]


def _runs(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Windows in the order in which they follow each other."""
    ordered = sorted(windows)
    by_head, by_tail = defaultdict(list), defaultdict(list)
    for window in ordered:
        by_head[window[:-1]].append(window)
        by_tail[window[1:]].append(window)

    def follows_one(window: Window) -> bool:
        before = by_tail[window[:-1]]
        return len(before) == 1 and len(by_head[window[:-1]]) == 1

    taken: set[Window] = set()
    # What goes round in a circle has no beginning: it is cut anywhere, after all the others.
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
