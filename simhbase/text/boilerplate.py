"""Boilerplate: lines and phrases that many documents of a corpus share. The core removes them before
fingerprinting (core/src/boilerplate.rs); here are their files, and the joining of learnt phrases.

Texts are compared by units: a character of a script that is written without spaces, or a run of other
letters, marks and digits. Punctuation, white space, case and width do not count. Removed are lines that
consist of the units of a boilerplate line, and runs of WINDOW or more units that occur in a phrase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from simhbase import _core
from simhbase._core import Units
from simhbase.errors import BadInput
from simhbase.text.content import NamedContent
from simhbase.text.normalise import form
from simhbase.text.variants import CharacterTable

Kind = Literal["line", "phrase"]
Window = tuple[str, ...]

WINDOW = 8  # units: unrelated texts share many shorter runs by grammar alone


SHOWN, COUNT_DIGITS = 80, 18  # characters of a malformed line; digits of a number of documents


class BoilerplateItem(NamedTuple):
    """A line of a boilerplate file. documents: number of documents that have all of it."""

    kind: Kind
    documents: int
    text: str


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
        return [self._entry(number, fields) for number, fields in lines.items()]

    def count(self, kind: Kind) -> int:
        """Number of entries of a kind."""
        return sum(entry.kind == kind for entry in self.entries)

    def _entry(self, number: int, fields: Sequence[str]) -> BoilerplateItem:
        units = len(split(fields[-1]))
        match fields:
            case ["line" | "phrase" as kind, documents, text] if _is_count(documents) and units:
                if kind == "phrase" and units < WINDOW:
                    raise BadInput(
                        f"{self.name}, line {number}: a phrase needs at least {WINDOW} words (Chinese "
                        f"characters), and {text[:SHOWN]!r} has {units}: make it a 'line'"
                    )
                return BoilerplateItem(kind, int(documents), text)
        line = "\t".join(fields)
        raise BadInput(
            f"{self.name}, line {number}: expected 'line' or 'phrase', a number of documents and a text, "
            f"separated by tabs, found {line[:SHOWN]!r}"
        )

    def known(self, variants: CharacterTable | None = None) -> _core.Boilerplate:
        """The entries as the core compares them with texts, in the normal form with these variants."""
        return _known(self, variants)

    def strip(self, texts: Sequence[str], variants: CharacterTable | None = None) -> list[str]:
        """Replace the boilerplate of n texts by spaces, and fold the rest; texts without boilerplate are
        returned unchanged. Each piece of about 65,536 characters of a long text is processed by itself. Not
        for fingerprints, whose core has `known`."""
        return self.known(variants).strip(list(texts))


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) <= COUNT_DIGITS


@lru_cache(maxsize=8)
def _known(boilerplate: Boilerplate, variants: CharacterTable | None) -> _core.Boilerplate:
    lines, phrases = (
        [entry.text for entry in boilerplate.entries if entry.kind == kind] for kind in ("line", "phrase")
    )
    return _core.Boilerplate(lines, phrases, form(variants))


def render(entries: Sequence[BoilerplateItem], documents: int, least: int) -> bytes:
    """Content of a boilerplate file with entries that at least `least` of `documents` documents have."""
    head = f"# simhbase boilerplate: what at least {least} of {documents} documents have\n"
    ordered = sorted(entries, key=lambda entry: (-entry.documents, entry.kind, entry.text))
    return "".join([head, *(f"{kind}\t{documents}\t{text}\n" for kind, documents, text in ordered)]).encode()


def split(text: str) -> list[str]:
    """The units of a text."""
    return Units([text]).every()


def join(units: Iterable[str]) -> str:
    """Join units to a text, with spaces between units that are runs."""
    joined = ""
    for unit in units:
        # Runs that follow each other would be one unit without the space.
        is_run = bool(joined) and len(split(joined[-1] + unit)) == 1
        joined += f" {unit}" if is_run else unit
    return joined


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
