"""What `find --against` looks queries up in: the documents of files, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Self

import numpy as np

from simhbase.bulk.filed import Filed, Hits
from simhbase.bulk.pipeline import Batch, text_alone, without_content
from simhbase.bulk.record import Record
from simhbase.bulk.seen import SeenIds
from simhbase.bulk.spool import Spool
from simhbase.cli.comparing import ComparedTexts, Comparison
from simhbase.cli.inputs import FAILED, Inputs, Rejects, fingerprinting
from simhbase.cli.options import ProfileOptions
from simhbase.filing import AUTO
from simhbase.fingerprinter import Fingerprinter
from simhbase.model import Lookup, Match
from simhbase.prints import Prints
from simhbase.profile import Profile

# Drawers of so many are few: each takes 8 bytes a document, where dedup holds one table at a time, and to
# compare with some dozens of fingerprints more costs a lookup next to nothing.
MEMBERS = 64


class Corpus(AbstractContextManager["Corpus"]):
    """The documents of files: their fingerprints in memory, their ids and, where similarities are told,
    their texts on disk in the folder for temporary files.

    Similarities are told where a least one is asked for, or sketches are (the scheme minhash, --verify).
    They are counted exactly.
    """

    def __init__(self, comparison: Comparison, least: float | None, ids_limit: int) -> None:
        self._comparison = comparison
        self._ids_limit = ids_limit
        self._ids = Spool(Path(gettempdir()))
        self._texts = None if least is None else ComparedTexts(comparison.profile, least)
        self._filed = Filed(comparison.nothing, comparison.filing(0))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._ids, self._texts):
            if file is not None:
                file.__exit__(kind, error, trace)

    @classmethod
    def of(cls, chosen: ProfileOptions, min_similarity: float | None, ids_limit: int) -> Self:
        """An empty one. Raises UsageError for what does not go together."""
        comparison = Comparison.of(chosen, min_similarity)
        if min_similarity is None and comparison.profile.form is not None:
            threshold = comparison.profile.threshold or 0.0
            if threshold == AUTO:  # the sketches decide, as only they tell how many features texts have
                return cls(comparison, 0.0, ids_limit)
            min_similarity = float(threshold)
            comparison = Comparison.of(chosen, min_similarity)
        return cls(comparison, min_similarity, ids_limit)

    @property
    def tells_similarity(self) -> bool:
        """Whether matches are judged by their texts."""
        return self._texts is not None

    @cached_property
    def fingerprinter(self) -> Fingerprinter:
        """What texts become fingerprints by."""
        return self.profile.fingerprinter()

    @property
    def profile(self) -> Profile:
        """The parameters."""
        return self._comparison.profile

    def read(self, inputs: Inputs, rejects: Rejects) -> None:
        """Takes the documents. Raises as `Inputs.check_outputs`; ends the command where nothing at all
        could be read."""
        inputs.check_outputs()
        seen = SeenIds()
        found = [self._comparison.nothing]
        with closing(inputs.each(fingerprinting(inputs, self, self.trim), inputs.paths)) as batches:
            for batch in (batch.without_repeats(seen) for batch in batches):
                rejects.note(batch)
                found.append(batch.prints)
                self._ids.put_aside(each.encode() for each in batch.ids)
                if self._texts is not None:
                    self._texts.put_aside(batch)
        if rejects.exit_code == FAILED:
            rejects.end()
        prints = Prints.joined(found)
        self._filed = Filed(prints, self._comparison.filing(len(prints) // MEMBERS))

    @property
    def trim(self) -> Callable[[Record], Record]:
        """What is left of a record that has its fingerprint."""
        return without_content if self._texts is None else text_alone

    def of_texts(self, texts: Sequence[str]) -> list[Lookup]:
        """What is near texts."""
        found = self.fingerprinter.fingerprint_many(texts)
        usable = [text for text, reason in zip(texts, found.reasons, strict=True) if reason is None]
        lookups = iter(self._lookups(found.prints[found.accepted], usable))
        return [next(lookups) if reason is None else Lookup(None, reason=reason) for reason in found.reasons]

    def of_fingerprints(self, values: Sequence[int]) -> list[Lookup]:
        """What is near fingerprints."""
        return self._lookups(Prints.bare(np.array(values, dtype=np.uint64)), ())

    def of_records(self, batch: Batch) -> list[Lookup]:
        """What is near the records of a batch."""
        return self._lookups(batch.prints, [record.text or "" for record in batch.records])

    def _lookups(self, prints: Prints, texts: Sequence[str]) -> list[Lookup]:
        matches: list[list[Match]] = [[] for _ in range(len(prints))]
        truncated = np.zeros(len(prints), dtype=np.bool_)
        for hits in self._filed.near(prints, self._comparison.bounds, self._ids_limit):
            truncated[hits.truncated] = True
            for query, match in self._matches(hits, texts):
                matches[query].append(match)
        return [
            Lookup(value, tuple(sorted(near)), cut)
            for value, near, cut in zip(prints.values.tolist(), matches, truncated.tolist(), strict=True)
        ]

    def _matches(self, hits: Hits, texts: Sequence[str]) -> Iterator[tuple[int, Match]]:
        """Of each hit that is similar enough the query's number and the match."""
        similarity: list[float | None] = [None] * len(hits.query)
        if self._texts is not None:
            exact = self._texts.similarity(hits.query + self._texts.count, hits.document, texts)
            similar = exact >= self._texts.least
            hits, similarity = hits.where(similar), exact[similar].tolist()
        ids = (each.decode() for each in self._ids.read(hits.document.tolist()))
        matches = map(Match, hits.distance.tolist(), ids, hits.fingerprint.tolist(), similarity)
        return zip(hits.query.tolist(), matches, strict=True)
