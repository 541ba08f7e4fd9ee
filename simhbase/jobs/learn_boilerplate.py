"""Learns the boilerplate of a corpus: lines and phrases that occur in a share of its documents.

Takes two passes over the corpus, like Park, Chen and Yu for frequent sets (An effective hash-based algorithm
for mining association rules, SIGMOD 1995). The first counts documents by hashes of items, in a table of fixed
size; collisions make counts too high, never too low. The second counts exactly the items that may be
frequent. So memory is bounded by the share, no frequent item is missed, and the result does not depend on the
order, chunks or number of threads. Repeated texts count once: a page copied a thousand times is not
boilerplate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase._core import Units
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.names import STDIN
from simhbase.corpus.outputs.files import OutputFile
from simhbase.corpus.parser import Parser
from simhbase.corpus.paths import local_path
from simhbase.corpus.reading import AnyOutcome, read_each
from simhbase.corpus.record import ReadItems, Reject
from simhbase.corpus.rejects import Counts
from simhbase.errors import BadInput, UsageError
from simhbase.jobs.seen_ids import FirstSeen, SeenIds
from simhbase.process.slices import bounded_slices
from simhbase.text.boilerplate import (
    WINDOW,
    Boilerplate,
    BoilerplateItem,
    join,
    phrases,
    render,
    split,
)
from simhbase.text.normalise import normalise

SHOWN = 10  # most frequent items in the report
LEAST_DOCUMENTS = 10  # in any corpus, a few documents share phrases by chance
_AT_ONCE = 1 << 20  # characters
MOST_ITEMS = 1 << 20  # of 2.5 kB each; of those that only may be frequent, of a tenth, four times as many
_SLOT_BITS = 24
_TO_SLOT = np.uint64(64 - _SLOT_BITS)
_NO_PLACE = FirstSeen("", 0)

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Items:
    """Items in the n texts of a chunk that may be boilerplate: windows, and shorter lines.

    digests: of each text; counts: int64 (n,), number of distinct items of each text; items: uint64 (m,),
    their hashes or slots, text after text; shown: text by hash (second pass).
    """

    digests: list[str]
    counts: Numbers
    items: Hashes
    shown: Mapping[int, str]
    rejects: list[Reject]
    used: Mapping[str, int]

    @property
    def parsed(self) -> int:
        return len(self.digests)


def items_of(parser: Parser, frequent: NDArray[np.bool_] | None, chunk: ReadItems) -> Items:
    """The items of a chunk: those whose slot is frequent, by hash; without `frequent`, bool (2^24,), all by
    slot."""
    texts, rejects, used = parser.texts(chunk)
    chunks: list[tuple[Numbers, Hashes]] = []
    shown: dict[int, str] = {}
    for units, numbers, hashes, *spans in _find_items(texts):
        slots = hashes >> _TO_SLOT
        if frequent is None:
            chunks.append((numbers, slots))
            continue
        chosen = np.flatnonzero(frequent[slots])
        chunks.append((numbers[chosen], hashes[chosen]))
        new, places = np.unique(hashes[chosen], return_index=True)
        ranges = zip(*(column[chosen[places]].tolist() for column in spans), strict=True)
        shown |= {name: units.shown(*of_units) for name, of_units in zip(new.tolist(), ranges, strict=True)}
    digests = [mmh3.mmh3_x64_128_digest(text.encode("utf-8", "surrogatepass")).hex() for text in texts]
    return Items(digests, *_distinct(chunks, len(texts)), shown, rejects, used)


def _find_items(texts: Sequence[str]) -> Iterator[tuple[Units, Numbers, Hashes, Numbers, Numbers, Numbers]]:
    """Items of n texts, chunk by chunk: the chunk's units, and for each item the number of its text, its
    hash, its piece, its first unit and the one after its last."""
    start = 0
    for chunk in bounded_slices(np.array([len(text) for text in texts], dtype=np.int64), _AT_ONCE):
        units = Units(list(texts[chunk]))
        numbers, hashes, pieces, first, behind = (np.frombuffer(each, np.int64) for each in units.items())
        yield units, numbers + start, hashes.view(np.uint64), pieces, first, behind
        start += chunk.stop - chunk.start


def _distinct(chunks: Sequence[tuple[Numbers, Hashes]], n: int) -> tuple[Numbers, Hashes]:
    """Number of distinct items of each of n texts, and the items."""
    texts = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in chunks)])
    items = np.concatenate([np.empty(0, np.uint64), *(of_chunk for _, of_chunk in chunks)])
    order = np.lexsort((items, texts))
    texts, items = texts[order], items[order]
    new = np.ones(len(items), dtype=np.bool_)
    new[1:] = (texts[1:] != texts[:-1]) | (items[1:] != items[:-1])
    return np.bincount(texts[new], minlength=n), items[new]


def _of_new_texts(chunks: Iterable[Items]) -> Iterator[tuple[int, Hashes, Mapping[int, str]]]:
    """Number of texts of each chunk that did not come before in this pass, their items, and texts of
    items."""
    seen = SeenIds()
    for found in chunks:
        before = seen.note(found.digests, [_NO_PLACE] * len(found.digests))
        new = np.array([place is None for place in before], dtype=np.bool_)
        yield int(np.count_nonzero(new)), found.items[np.repeat(new, found.counts)], found.shown


def _entries(shown: Mapping[int, str], documents: Mapping[int, int], least: int) -> list[BoilerplateItem]:
    """Lines and phrases of at least `least` documents. shown, documents: text and number of documents of
    items, by hash."""
    frequent = [(split(shown[name]), number) for name, number in documents.items() if number >= least]
    windows = {join(units): number for units, number in frequent if len(units) == WINDOW}
    lines = [
        BoilerplateItem("line", number, join(units)) for units, number in frequent if len(units) < WINDOW
    ]
    return [*lines, *phrases(windows)]


@dataclass(frozen=True)
class Learnt:
    """Lines and phrases that at least `least` of `texts` distinct texts have."""

    entries: list[BoilerplateItem]
    texts: int
    least: int

    def boilerplate(self, name: str) -> Boilerplate:
        return Boilerplate(name, render(self.entries, self.texts, self.least))


def learn(
    each: Callable[[Callable[[ReadItems], Items]], Iterable[Items]], parser: Parser, share: float
) -> Learnt:
    """Learn the boilerplate of a share of the texts. each: applies a function to all chunks; called twice.
    Raises BadInput if there is more than a list of boilerplate can have."""
    texts = 0
    by_slot = np.zeros(1 << _SLOT_BITS, dtype=np.uint32)
    for new, items, _ in _of_new_texts(each(partial(items_of, parser, None))):
        texts += new
        np.add.at(by_slot, items, 1)
    least = max(LEAST_DOCUMENTS, ceil(share * texts))
    documents: Counter[int] = Counter()
    shown: dict[int, str] = {}

    for _, items, some in _of_new_texts(each(partial(items_of, parser, by_slot >= least))):
        shown |= some
        names, numbers = np.unique(items, return_counts=True)
        documents.update(dict(zip(names.tolist(), numbers.tolist(), strict=True)))
        if len(documents) > 4 * MOST_ITEMS:
            raise _too_many(least, texts)
    if sum(number >= least for number in documents.values()) > MOST_ITEMS:
        raise _too_many(least, texts)
    return Learnt(_entries(shown, documents, least), texts, least)


def _too_many(least: int, texts: int) -> BadInput:
    return BadInput(
        f"no boilerplate file was written: more than {MOST_ITEMS:,} lines and runs of {WINDOW} words or "
        f"Chinese characters may occur in {least:,} of {texts:,} different texts: whole texts are repeated. "
        "Raise the share, or remove near-duplicates first (dedup)"
    )


@dataclass(frozen=True)
class Coverage:
    """Boilerplate in the texts of a chunk, in characters without white space. bare: number of documents that
    are only boilerplate."""

    parsed: int
    characters: int
    covered: int
    bare: int
    rejects: list[Reject]
    used: Mapping[str, int]


def coverage_of(parser: Parser, boilerplate: Boilerplate, chunk: ReadItems) -> Coverage:
    texts, rejects, used = parser.texts(chunk)
    stripped = boilerplate.strip(texts)
    before, after = sum(map(_characters, texts)), sum(map(_characters, stripped))
    bare = sum(not split(text) for text, was in zip(stripped, texts, strict=True) if text is not was)
    return Coverage(len(texts), before, before - after, bare, rejects, used)


def total_coverage(parts: Iterable[Coverage]) -> tuple[int, ...]:
    """The documents, characters, covered ones and bare documents of all chunks."""
    found = [(part.parsed, part.characters, part.covered, part.bare) for part in parts]
    return tuple(map(sum, zip(*found, strict=True)))


def _characters(text: str) -> int:
    return len(normalise(text).replace(" ", ""))


@dataclass(frozen=True)
class BoilerplateReport:
    """Result of `learn_boilerplate`.

    documents: number read; texts: distinct texts among them; least: minimum number of texts for boilerplate;
    lines, phrases: number of entries; percent_of_characters: share of the corpus that they cover;
    documents_of_nothing_else: documents that are only boilerplate; file: the file written; most_frequent: the
    most frequent entries; counts: rejected records and unreadable sources, by kind.
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
    """Write a boilerplate file with the lines and phrases that occur in a share of the distinct texts of a
    corpus (and in at least LEAST_DOCUMENTS). Texts need no ids (`InputOptions(id_from="line")`).

    Reads the corpus three times: to find candidates, to count them exactly, and to measure their coverage.
    Raises UsageError for inputs that can only be read once, BadInput if nothing is that frequent;
    TooManyRejects.
    """
    inputs, file = Inputs.of(inputs), Path(file)
    inputs.require_outputs(file)
    inputs.require_files()
    require_rereadable(inputs.paths)
    parser = Parser(inputs.options)
    with inputs.noting_rejects() as rejects:
        is_read = False

        def each(work: Callable[[ReadItems], AnyOutcome]) -> Iterator[AnyOutcome]:
            """Apply a function to all chunks. Rejects are noted in the first pass only. Raises BadInput if
            another pass reads fewer documents, or more."""
            nonlocal is_read
            parsed = 0
            with closing(read_each(inputs, work, again=is_read)) as outcomes:
                for outcome in outcomes:
                    yield outcome
                    parsed += outcome.parsed
                    if not is_read:
                        rejects.note(outcome)
            if parsed != rejects.counts.parsed:
                raise BadInput(
                    f"the inputs changed: they had {rejects.counts.parsed:,} documents, and {parsed:,} when "
                    "they were read again. Run it while nothing writes to them"
                )
            is_read = True

        found = learn(each, parser, share)
        if not found.entries:
            raise BadInput(
                f"no boilerplate file was written: no line and no run of {WINDOW} words or Chinese "
                f"characters occurs in {found.least:,} or more of {found.texts:,} different texts. A lower "
                f"share requires fewer, down to {LEAST_DOCUMENTS}"
            )
        learnt = found.boilerplate(file.name)
        documents, characters, covered, bare = total_coverage(each(partial(coverage_of, parser, learnt)))
    with OutputFile(file, keep_partial=False) as written:
        written.write(learnt.content.splitlines())
    return BoilerplateReport(
        documents=documents,
        texts=found.texts,
        least=found.least,
        lines=learnt.count("line"),
        phrases=learnt.count("phrase"),
        percent_of_characters=round(100 * covered / max(1, characters), 2),
        documents_of_nothing_else=bare,
        file=str(file),
        most_frequent=list(learnt.entries[:SHOWN]),
        rejected=rejects.counts.rejected,
        counts=rejects.counts,
    )


def require_rereadable(paths: Sequence[str]) -> None:
    """Raise UsageError for inputs that can only be read once."""
    for path in filter(None, map(local_path, paths)):
        if path == STDIN or Path(path).is_fifo() or Path(path).is_char_device():
            raise UsageError(
                f"learning boilerplate reads its input three times, but {path!r} can only be read once: "
                "write it to a file"
            )
