"""jieba's dictionary and model as arrays for the compiled loops (`text/loops.py`), with a copy on disk.

Building the arrays takes seconds, reading the copy 20 ms. The copy's name contains a hash of everything it
depends on: jieba's files, and the versions of `regex` and of Python's Unicode. Processes may write it at the
same time: each writes its own file and renames it. A damaged or unwritable copy only costs time.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from math import log
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unicodedata import combining, decomposition, normalize, unidata_version
from zipfile import BadZipFile

import numpy as np
import regex
from numpy.typing import NDArray

from simhbase.text import loops, normalise
from simhbase.text.normalise import plain_points, unseen_points
from simhbase.text.userfile import package_folder
from simhbase.text.variants import GONE

_FIRST_HAN, _END_HAN = 0x4E00, 0x9FD6  # jieba's own range
_RARE_HAN = ((0x3400, 0x4DC0), (0x9FD6, 0xA000))
_JOINERS = (0x200C, 0x200D)
_STATES = "BEMS"  # in the order in which jieba breaks ties
_IMPOSSIBLE = -3.14e100  # jieba's
LONGEST_EXPANSION = 4
_LAST_JAMO = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))  # compose, but occur in no decomposition


Part = TypeVar("Part")


class Dictionary(NamedTuple):
    """Tables of jieba and Unicode for `loops.words`.

    kinds: uint16 by code point: loops.BREAK, WORD, ALONE, or HAN + the character's code. nodes: uint64: a
    trie of the words as a double array; ranks are positions of words in `costs`, 0 for none. longest: length
    of the longest word. costs: float64: log probabilities of words, -inf for none; unknown: that of an
    unknown character. emissions, starts, transitions: float64 (Han, 4), (4,), (4, 4): the hidden Markov
    model.
    """

    kinds: NDArray[np.uint16]
    nodes: NDArray[np.uint64]
    longest: int | np.int64
    costs: NDArray[np.float64]
    unknown: float | np.float64
    emissions: NDArray[np.float64]
    starts: NDArray[np.float64]
    transitions: NDArray[np.float64]


class Characters(NamedTuple):
    """Normal forms of characters that do not interact with their neighbours.

    becomes: int32 by code point: its normal form, loops.SPACE, loops.GONE, loops.AWKWARD, or
        loops.SEVERAL - a position in `several`.
    several: int32: for a character that becomes several, their number, followed by them.
    """

    becomes: NDArray[np.int32]
    several: NDArray[np.int32]


@lru_cache(maxsize=1)
def load() -> tuple[Dictionary, Characters]:
    """Read the copy on disk, or build it. Raises BadInput if jieba's files are missing."""
    folder = package_folder(
        "jieba", "jieba is not installed, but its dictionary is needed: pip install jieba"
    )
    path = _cache_folder() / f"words-{_key(folder)}.npz"
    arrays = _read(path)
    if arrays is None:
        arrays = _words(folder)._asdict() | _characters()._asdict()
        with suppress(OSError):
            _write(path, arrays)
    return _part(Dictionary, arrays), _part(Characters, arrays)


def _part(kind: Callable[..., Part], arrays: Mapping[str, Any]) -> Part:
    values = {name: arrays[name] for name in kind._fields}  # type: ignore[attr-defined]  # of a NamedTuple
    return kind(**{name: value if np.ndim(value) else value.item() for name, value in values.items()})


def _cache_folder() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "simhbase"
    return Path(os.path.expanduser("~")) / ".cache" / "simhbase"  # noqa: PTH111  # Path.home raises without a home


def _key(folder: Path) -> str:
    code = (__file__, loops.__file__, normalise.__file__)  # the arrays follow from these
    sources = (folder / "dict.txt", *_model(folder), *map(Path, code))
    files = [(file.stat().st_size, file.stat().st_mtime_ns) for file in sources]
    parts = (version("jieba"), files, regex.__version__, unidata_version, sys.byteorder, __file__)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _model(folder: Path) -> list[Path]:
    return [folder / "finalseg" / f"prob_{name}.py" for name in ("start", "trans", "emit")]


def _read(path: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays of the copy, None if it is missing or damaged (zip files hold a CRC-32 of each array)."""
    try:
        with path.open("rb") as file, np.load(file) as stored:
            return {name: stored[name] for name in (*Dictionary._fields, *Characters._fields)}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # NumPy's stub has a flag among the names
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _words(folder: Path) -> Dictionary:
    frequencies: dict[str, int] = {}
    total = 0
    for line in (folder / "dict.txt").read_text("utf-8").splitlines():
        word, count = line.split(" ")[:2]
        frequencies[word] = int(count)
        total += int(count)
    # Only runs of Han are looked up, so words with other characters are never needed.
    words = sorted(word for word in frequencies if _is_han(word))
    values = np.array([frequencies[word] for word in words], dtype=np.int64)
    distinct, of_word = np.unique(values, return_inverse=True)
    total_log = log(total)
    # jieba uses a frequency of 1 for words without one.
    costs = np.array([-np.inf, *(log(count or 1) - total_log for count in distinct.tolist())])
    codes, by_word = _coded(words)
    nodes = loops.double_array(*_trie(by_word), np.where(values > 0, of_word + 1, 0).astype(np.uint16))
    starts, transitions, emissions = (runpy.run_path(str(file))["P"] for file in _model(folder))
    table = np.full((_END_HAN - _FIRST_HAN, len(_STATES)), _IMPOSSIBLE)
    for state, name in enumerate(_STATES):
        for character, value in emissions[name].items():
            if _is_han(character):
                table[ord(character) - _FIRST_HAN, state] = value
    return Dictionary(
        _kinds(codes),
        nodes,
        np.int64(by_word.shape[1]),
        costs,
        np.float64(log(1) - total_log),
        table,
        np.array([starts[name] for name in _STATES]),
        np.array([[transitions[one].get(other, _IMPOSSIBLE) for other in _STATES] for one in _STATES]),
    )


def _is_han(text: str) -> bool:
    return all(_FIRST_HAN <= ord(character) < _END_HAN for character in text)


def _coded(words: list[str]) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Codes of characters, uint16 (Han,): from 1 for the most frequent, 0 for those in no word; and words as
    codes, uint16 (words, longest), padded with 0."""
    points = np.array(words).view(np.uint32).reshape(len(words), -1)
    known, counts = np.unique(points[points > 0], return_counts=True)
    codes = np.zeros(0x10000, dtype=np.uint16)
    codes[known[np.argsort(-counts, kind="stable")]] = np.arange(1, len(known) + 1)
    return codes[_FIRST_HAN:_END_HAN], codes[points]


def _trie(
    words: NDArray[np.uint16],
) -> tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.int32]]:
    """Build the trie of sorted words: parent and code of each node (the root is 0), and each word's node."""
    nodes = np.zeros(len(words), dtype=np.int32)  # node of each word's prefix so far
    parents, codes, ends = [np.zeros(1, np.int32)], [np.zeros(1, np.uint16)], np.zeros(len(words), np.int32)
    made = 1
    for column in words.T:
        there = column > 0
        rows = np.flatnonzero(there)
        pairs = nodes[rows].astype(np.int64) << 16 | column[rows]
        is_new = np.diff(pairs, prepend=-1) != 0
        parents.append(nodes[rows][is_new])
        codes.append(column[rows][is_new])
        nodes[rows] = made - 1 + np.cumsum(is_new)
        made += int(np.count_nonzero(is_new))
        ends[rows] = nodes[rows]
    return np.concatenate(parents), np.concatenate(codes), ends


def _kinds(codes: NDArray[np.uint16]) -> NDArray[np.uint16]:
    kinds = np.full(sys.maxunicode + 1, loops.BREAK, dtype=np.uint16)
    letters = regex.compile(r"[\p{L}\p{M}\p{Nd}]")
    for start in range(0, len(kinds), 1 << 12):
        for found in letters.finditer("".join(map(chr, range(start, start + (1 << 12))))):
            kinds[start + found.start()] = loops.WORD
    kinds[list(_JOINERS)] = loops.WORD  # those that normalisation keeps
    for first, end in _RARE_HAN:
        kinds[first:end] = loops.ALONE
    kinds[_FIRST_HAN:_END_HAN] = loops.HAN + codes
    return kinds


def _characters() -> Characters:
    becomes = np.arange(sys.maxunicode + 1, dtype=np.int32)
    several: list[int] = []
    composing, unseen = _composing(), unseen_points()

    def is_awkward(text: str) -> bool:
        return any(part in composing or combining(part) or unseen[ord(part)] for part in text)

    for point in range(len(becomes)):
        character = chr(point)
        composed = normalize("NFKC", character)
        normal = normalize("NFKC", composed.lower())
        if normal.isspace():
            becomes[point] = loops.SPACE
        elif is_awkward(composed) or is_awkward(normal) or any(map(str.isspace, normal)):
            becomes[point] = loops.AWKWARD
        elif "Σ" in composed or len(normal) > LONGEST_EXPANSION:
            becomes[point] = loops.AWKWARD  # the lower case of Σ depends on its place in a word
        elif len(normal) > 1:
            becomes[point] = loops.SEVERAL - len(several)
            several += [len(normal), *map(ord, normal)]
        elif normal != character:
            becomes[point] = ord(normal)
    becomes[unseen] = loops.AWKWARD
    plain = plain_points()
    changed = np.flatnonzero(plain != np.arange(len(plain)))
    becomes[changed] = np.where(plain[changed] == GONE, loops.GONE, plain[changed].astype(np.int64))
    return Characters(becomes, np.array(several, dtype=np.int32))


def _composing() -> set[str]:
    """Characters that may compose with the character before them."""
    found = {chr(point) for points in _LAST_JAMO for point in points}
    for point in range(sys.maxunicode + 1):
        parts = decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return found
