"""Learns the boilerplate of a corpus: the lines and phrases that a share of its documents have.

Two passes over the corpus, as Park, Chen and Yu look for frequent sets (An effective hash-based algorithm
for mining association rules, SIGMOD 1995). The first counts documents by a hash of what they have, in a
table of fixed size: it counts too many where hashes meet, never too few. The second counts exactly what
may be frequent after the first. So memory is bounded by the share, nothing above it is missed, and the
result depends on no order, chunk or number of processes. A text that came before is not counted again:
a page that was copied a thousand times is no boilerplate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import AnyOutcome, Inputs
from simhbase.corpus.outputs import OutputFile
from simhbase.corpus.parser import Parser
from simhbase.corpus.paths import local_path
from simhbase.corpus.record import Chunk, Record, Reject
from simhbase.corpus.rejects import Counts, Rejects
from simhbase.corpus.sources import STDIN
from simhbase.errors import BadInput, UsageError
from simhbase.jobs.seen_ids import FirstSeen, SeenIds
from simhbase.text.boilerplate import (
    WINDOW,
    Boilerplate,
    BoilerplateItem,
    Units,
    cut,
    has_units,
    in_chunks,
    join,
    phrases,
    render,
    split,
)
from simhbase.text.normalise import normalise

SHOWN = 10  # of what is most frequent
LEAST_DOCUMENTS = 10  # fewer have something in common in any corpus
_SLOT_BITS = 24
_TO_SLOT = np.uint64(64 - _SLOT_BITS)
_ANYWHERE = FirstSeen("", 0)

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Items:
    """What may be boilerplate in the n texts of a chunk: windows, and lines of fewer units.

    digests: of each text; counts: int64 (n,), different items of each; items: uint64 (m,), their hashes
    or slots, text after text; shown: the text of each hash, where it is asked for.
    """

    digests: list[str]
    counts: Numbers
    items: Hashes
    shown: Mapping[int, str]
    rejects: list[Reject]

    @property
    def parsed(self) -> int:
        return len(self.digests)


@dataclass(frozen=True)
class ChunkSlots:
    """Chunk -> Items by their slots in the table of the first pass. Cheap to send to another process."""

    parser: Parser

    def __call__(self, chunk: Chunk) -> Items:
        """Parses a chunk and looks for items."""
        texts, rejects = _parsed(self.parser, chunk)
        chunks = [(numbers, hashes >> _TO_SLOT) for _, numbers, hashes, _, _ in _looked_for(texts)]
        return Items(_digests(texts), *_distinct(chunks, len(texts)), {}, rejects)


@dataclass(frozen=True)
class ChunkCandidates:
    """Chunk -> those Items whose slot is frequent: bool (2^24,)."""

    parser: Parser
    frequent: NDArray[np.bool_]

    def __call__(self, chunk: Chunk) -> Items:
        texts, rejects = _parsed(self.parser, chunk)
        chunks: list[tuple[Numbers, Hashes]] = []
        shown: dict[int, str] = {}
        for units, numbers, hashes, first, behind in _looked_for(texts):
            chosen = np.flatnonzero(self.frequent[hashes >> _TO_SLOT])
            chunks.append((numbers[chosen], hashes[chosen]))
            new, places = np.unique(hashes[chosen], return_index=True)
            ranges = zip(first[chosen[places]].tolist(), behind[chosen[places]].tolist(), strict=True)
            shown |= {
                name: units.shown(*of_units) for name, of_units in zip(new.tolist(), ranges, strict=True)
            }
        return Items(_digests(texts), *_distinct(chunks, len(texts)), shown, rejects)


def _parsed(parser: Parser, chunk: Chunk) -> tuple[list[str], list[Reject]]:
    items = parser.parse(chunk)
    texts = [item.text or "" for item in items if isinstance(item, Record)]
    return texts, [item for item in items if isinstance(item, Reject)]


def _digests(texts: Sequence[str]) -> list[str]:
    return [mmh3.mmh3_x64_128_digest(text.encode("utf-8", "surrogatepass")).hex() for text in texts]


def _looked_for(texts: Sequence[str]) -> Iterator[tuple[Units, Numbers, Hashes, Numbers, Numbers]]:
    """The items of n texts, chunk by chunk: the chunk's units; of each item the number of its text, its hash,
    its first unit and the one behind its last."""
    for numbers, parts in in_chunks(texts):
        units = cut(parts)
        start, hashes = units.windows()
        lines = units.lines()
        short = lines.behind - lines.first < WINDOW  # the windows of longer ones are as frequent as they
        first = np.concatenate([start, lines.first[short]])
        behind = np.concatenate([start + WINDOW, lines.behind[short]])
        of_text = np.array(numbers)[units.text[first]]
        yield units, of_text, np.concatenate([hashes, lines.hashes[short]]), first, behind


def _distinct(chunks: Sequence[tuple[Numbers, Hashes]], n: int) -> tuple[Numbers, Hashes]:
    """How many different items each of n texts has, and these."""
    texts = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in chunks)])
    items = np.concatenate([np.empty(0, np.uint64), *(of_chunk for _, of_chunk in chunks)])
    order = np.lexsort((items, texts))
    texts, items = texts[order], items[order]
    new = np.ones(len(items), dtype=np.bool_)
    new[1:] = (texts[1:] != texts[:-1]) | (items[1:] != items[:-1])
    return np.bincount(texts[new], minlength=n), items[new]


class Different:
    """Leaves out texts that came before in a pass."""

    def __init__(self) -> None:
        self._seen = SeenIds()
        self.texts = 0

    def items(self, found: Items) -> Hashes:
        """The items of those texts of a chunk that are new."""
        seen = self._seen.note(found.digests, [_ANYWHERE] * len(found.digests))
        new = np.array([place is None for place in seen], dtype=np.bool_)
        self.texts += int(np.count_nonzero(new))
        return found.items[np.repeat(new, found.counts)]


class SlotCounts:
    """The first pass: how many documents have something in each slot."""

    def __init__(self) -> None:
        self._different = Different()
        self._documents = np.zeros(1 << _SLOT_BITS, dtype=np.uint32)

    def add(self, found: Items) -> None:
        """Takes what `ChunkSlots` made of the next chunk."""
        np.add.at(self._documents, self._different.items(found), 1)

    @property
    def texts(self) -> int:
        return self._different.texts

    def frequent(self, least: int) -> NDArray[np.bool_]:
        """The slots that so many documents or more have something in: bool (2^24,)."""
        return self._documents >= least


class ItemCounts:
    """The second pass: how many documents have each item."""

    def __init__(self) -> None:
        self._different = Different()
        self._documents: Counter[int] = Counter()
        self._shown: dict[int, str] = {}

    def add(self, found: Items) -> None:
        """Takes what `ChunkCandidates` made of the next chunk."""
        names, documents = np.unique(self._different.items(found), return_counts=True)
        for name, number in zip(names.tolist(), documents.tolist(), strict=True):
            self._documents[name] += number
        self._shown |= found.shown

    def entries(self, least: int) -> list[BoilerplateItem]:
        """The lines and phrases that so many documents or more have."""
        frequent = [
            (split(self._shown[name]), number) for name, number in self._documents.items() if number >= least
        ]
        windows = {join(units): number for units, number in frequent if len(units) == WINDOW}
        lines = [
            BoilerplateItem("line", number, join(units)) for units, number in frequent if len(units) < WINDOW
        ]
        return [*lines, *phrases(windows)]


def least_documents(share: float, texts: int) -> int:
    """How many documents must have something for a share of so many different texts to have it."""
    return max(LEAST_DOCUMENTS, ceil(share * texts))


@dataclass(frozen=True)
class Learnt:
    """What at least `least` of so many different texts have."""

    entries: list[BoilerplateItem]
    texts: int
    least: int

    def boilerplate(self, name: str) -> Boilerplate:
        return Boilerplate(name, render(self.entries, self.texts, self.least))


def learn(
    each: Callable[[Callable[[Chunk], Items]], Iterable[Items]], parser: Parser, share: float
) -> Learnt:
    """What that share of the texts have; `each` makes something of every chunk, the same ones each time."""
    slots, candidates = SlotCounts(), ItemCounts()
    for items in each(ChunkSlots(parser)):
        slots.add(items)
    least = least_documents(share, slots.texts)
    for items in each(ChunkCandidates(parser, slots.frequent(least))):
        candidates.add(items)
    return Learnt(candidates.entries(least), slots.texts, least)


@dataclass(frozen=True)
class Coverage:
    """How much of a chunk's texts is boilerplate, in characters without white space; bare: documents that
    have nothing else."""

    parsed: int
    characters: int
    covered: int
    bare: int
    rejects: list[Reject]

    @classmethod
    def total(cls, parts: Iterable[Coverage]) -> Coverage:
        parts = list(parts)
        return cls(
            sum(part.parsed for part in parts),
            sum(part.characters for part in parts),
            sum(part.covered for part in parts),
            sum(part.bare for part in parts),
            [],
        )


@dataclass(frozen=True)
class ChunkCoverage:
    """Chunk -> Coverage. Cheap to send to another process."""

    parser: Parser
    boilerplate: Boilerplate

    def __call__(self, chunk: Chunk) -> Coverage:
        """Parses a chunk and strips its texts."""
        texts, rejects = _parsed(self.parser, chunk)
        stripped = self.boilerplate.strip(texts)
        before, after = sum(map(_characters, texts)), sum(map(_characters, stripped))
        bare = sum(not has_units(text) for text, was in zip(stripped, texts, strict=True) if text is not was)
        return Coverage(len(texts), before, before - after, bare, rejects)


def _characters(text: str) -> int:
    return len(normalise(text).replace(" ", ""))


@dataclass(frozen=True)
class BoilerplateReport:
    """What was learnt.

    documents: how many were read; texts: the different ones among them; least: in how many of these
    something comes up at least to be boilerplate; lines, phrases: how many do; percent_of_characters: of the
    corpus, that they cover; documents_of_nothing_else: that would be empty without them; file: where they
    were written; most_frequent: some of them. counts: what could not be read, by kind.
    """

    documents: int
    texts: int
    least: int
    lines: int
    phrases: int
    percent_of_characters: float
    documents_of_nothing_else: int
    file: str
    most_frequent: list[BoilerplateItem]
    rejected: int
    counts: Counts


def learn_boilerplate(
    inputs: Inputs | str | Path | Sequence[str | Path], file: str | Path, share: float = 0.01
) -> BoilerplateReport:
    """Writes the lines and phrases that so large a share of the different texts of a corpus have, and
    LEAST_DOCUMENTS of them at least. Texts need no ids (`InputOptions(id_from="line")`).

    Reads the corpus three times: to find what may be frequent, to count that exactly, and to measure what
    it covers. Raises UsageError for what can be read once only, BadInput where nothing is so frequent;
    TooManyRejects.
    """
    inputs, file = Inputs.of(inputs), Path(file)
    inputs.require_outputs(file)
    inputs.require_files()
    require_rereadable(inputs.paths)
    parser = Parser(inputs.options)
    with inputs.noting_rejects() as rejects:
        passes = _Passes(inputs, rejects)
        found = learn(passes.each, parser, share)
        if not found.entries:
            raise BadInput(
                f"no boilerplate file is written: no line and no run of {WINDOW} words or Chinese characters "
                f"comes up in {found.least:,} or more of {found.texts:,} different texts. A lower "
                f"share asks for fewer, down to {LEAST_DOCUMENTS}"
            )
        learnt = found.boilerplate(file.name)
        covered = Coverage.total(passes.each(ChunkCoverage(parser, learnt)))
    with OutputFile(file, keep_partial=False) as written:
        written.write(learnt.content.splitlines())
    return BoilerplateReport(
        documents=covered.parsed,
        texts=found.texts,
        least=found.least,
        lines=learnt.count("line"),
        phrases=learnt.count("phrase"),
        percent_of_characters=round(100 * covered.covered / max(1, covered.characters), 2),
        documents_of_nothing_else=covered.bare,
        file=str(file),
        most_frequent=list(learnt.entries[:SHOWN]),
        rejected=rejects.counts.rejected,
        counts=rejects.counts,
    )


class _Passes:
    """Reads the same documents any number of times; their rejects, and what was not read, are noted once."""

    def __init__(self, inputs: Inputs, rejects: Rejects) -> None:
        self._inputs = inputs
        self._rejects: Rejects | None = rejects

    def each(self, work: Callable[[Chunk], AnyOutcome]) -> Iterator[AnyOutcome]:
        with closing(self._inputs.each(work, again=self._rejects is None)) as outcomes:
            for outcome in outcomes:
                yield outcome
                if self._rejects:
                    self._rejects.note(outcome)
        self._rejects = None


def require_rereadable(paths: Sequence[str]) -> None:
    """Raises UsageError for what can be read once only."""
    for path in filter(None, map(local_path, paths)):
        if path == STDIN or Path(path).is_fifo() or Path(path).is_char_device():
            raise UsageError(
                f"boilerplate is learnt by reading its input three times, and {path!r} can be read once: "
                "write it to a file"
            )
