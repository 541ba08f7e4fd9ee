"""Queries among the documents of files, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Self

import numpy as np

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Rejects
from simhbase.corpus.spool import Spool
from simhbase.corpus.trim import text_alone, without_content
from simhbase.drawers.memory_index import Hits, MemoryIndex
from simhbase.drawers.scheme import RisingThreshold
from simhbase.errors import BadInput, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index.reader import IDS_LIMIT
from simhbase.jobs.comparison import ComparedTexts, Comparison
from simhbase.jobs.lookups import Answer, answers_to
from simhbase.jobs.pipeline import Batch, fingerprinting, without_repeats
from simhbase.model import Fingerprint, Lookup, Match
from simhbase.profile import Profile, for_corpora, given_parameters, unverified

# Drawers of so many are few: each takes 8 bytes a document, where dedup holds one table at a time, and to
# compare with some dozens of fingerprints more costs a lookup next to nothing.
MEMBERS = 64


class Corpus(AbstractContextManager["Corpus"]):
    """The documents of files: their fingerprints in memory, their ids and, where similarities are told,
    their texts on disk in the folder for temporary files.

    Similarities are told where a least one is asked for, or sketches are (the scheme minhash, `verify`).
    They are counted exactly.
    """

    def __init__(self, comparison: Comparison, least: float | None, ids_limit: int) -> None:
        self._comparison = comparison
        self._ids_limit = ids_limit
        self._ids = Spool(Path(gettempdir()))
        self._texts = None if least is None else ComparedTexts(comparison.profile, least, Path(gettempdir()))
        self._memory_index = MemoryIndex(comparison.nothing, comparison.scheme(0))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._ids, self._texts):
            if file is not None:
                file.__exit__(kind, error, trace)

    @classmethod
    def of(
        cls,
        profile: Profile | Mapping[str, object] | None,
        min_similarity: float | None,
        ids_limit: int,
        *,
        of_texts: bool = True,
    ) -> Self:
        """An empty one. of_texts: whether queries and documents are texts, or fingerprints. Raises UsageError
        for what does not go together."""
        profile = (for_corpora if of_texts else unverified)(given_parameters(profile))
        comparison = Comparison.of(profile, min_similarity)
        if min_similarity is None and comparison.profile.sketching is not None:
            threshold = comparison.chosen.threshold or 0.0
            if isinstance(threshold, RisingThreshold):  # the sketches decide, as they tell the features
                return cls(comparison, 0.0, ids_limit)
            min_similarity = threshold
            comparison = Comparison.of(profile, min_similarity)
        return cls(comparison, min_similarity, ids_limit)

    @property
    def tells_similarity(self) -> bool:
        """Whether matches are verified by their texts."""
        return self._texts is not None

    @cached_property
    def fingerprinter(self) -> Fingerprinter:
        return self.profile.fingerprinter()

    @property
    def profile(self) -> Profile:
        return self._comparison.profile

    def read(self, inputs: Inputs, rejects: Rejects) -> None:
        """Takes the documents. Raises BadInput where nothing could be read."""
        found = [self._comparison.nothing]
        with closing(inputs.each(fingerprinting(inputs.options, self, self.trim))) as batches:
            for batch in without_repeats(batches):
                rejects.note(batch)
                found.append(batch.fingerprints)
                self._ids.put_aside(each.encode() for each in batch.ids)
                if self._texts is not None:
                    self._texts.put_aside(batch)
        if rejects.counts.nothing_read:
            raise BadInput("nothing could be read")
        fingerprints = FingerprintBatch.joined(found)
        self._memory_index = MemoryIndex(fingerprints, self._comparison.scheme(len(fingerprints) // MEMBERS))

    @property
    def trim(self) -> Callable[[Record], Record]:
        """What is left of a record that has its fingerprint."""
        return without_content if self._texts is None else text_alone

    def of_ids(self, ids: Sequence[str]) -> list[Lookup]:
        raise UsageError("documents of files are not looked up by their ids: give their texts")

    def of_texts(self, texts: Sequence[str]) -> list[Lookup]:
        found = self.fingerprinter.fingerprint_many(texts)
        usable = [text for text, reason in zip(texts, found.reasons, strict=True) if reason is None]
        lookups = iter(self._lookups(found.fingerprints[found.accepted], usable))
        return [next(lookups) if reason is None else Lookup(None, reason=reason) for reason in found.reasons]

    def of_fingerprints(self, values: Sequence[int]) -> list[Lookup]:
        return self._lookups(FingerprintBatch.bare(np.array(values, dtype=np.uint64)), ())

    def of_records(self, batch: Batch) -> list[Lookup]:
        return self._lookups(batch.fingerprints, [record.text or "" for record in batch.records])

    def _lookups(self, fingerprints: FingerprintBatch, texts: Sequence[str]) -> list[Lookup]:
        matches: list[list[Match]] = [[] for _ in range(len(fingerprints))]
        truncated = np.zeros(len(fingerprints), dtype=np.bool_)
        for hits in self._memory_index.near(fingerprints, self._comparison.bounds, self._ids_limit):
            truncated[hits.truncated] = True
            for query, match in self._matches(hits, texts):
                matches[query].append(match)
        return [
            Lookup(Fingerprint(value), tuple(sorted(near)), cut)
            for value, near, cut in zip(
                fingerprints.values.tolist(), matches, truncated.tolist(), strict=True
            )
        ]

    def _matches(self, hits: Hits, texts: Sequence[str]) -> Iterator[tuple[int, Match]]:
        """Of each hit that is similar enough the query's number and the match."""
        similarity: list[float | None] = [None] * len(hits.query)
        if self._texts is not None:
            exact = self._texts.similarity(hits.query + self._texts.count, hits.document, texts)
            similar = exact >= self._texts.least
            hits, similarity = hits.where(similar), exact[similar].tolist()
        ids = (each.decode() for each in self._ids.read(hits.document.tolist()))
        fingerprints = map(Fingerprint, hits.fingerprint.tolist())
        matches = map(Match, hits.distance.tolist(), ids, fingerprints, similarity)
        return zip(hits.query.tolist(), matches, strict=True)


def match(
    queries: Inputs | str | Path | Sequence[str | Path],
    against: Inputs | str | Path | Sequence[str | Path],
    profile: Profile | Mapping[str, object] | None = None,
    *,
    min_similarity: float | None = None,
    ids_limit: int = IDS_LIMIT,
) -> Iterator[Answer]:
    """Looks each document of one corpus up among those of another, in input order, without a store.

    profile: how texts become fingerprints and which of these match, or some of its parameters by name; by
    default MinHash, which finds nearly all pairs of 0.8 and more, and SimHash where documents or queries are
    fingerprints. Of SimHash a layout is chosen for its k where none is given. min_similarity: matches share
    so much of their shingles, counted exactly (by default the profile's threshold, where it has one).
    ids_limit: documents listed of one fingerprint at most.

    Fingerprints of `against` are kept in memory; ids, and the texts where similarities are told, on disk
    until the iterator is closed or at its end. Raises UsageError for what does not go together,
    BadInput where nothing of `against` can be read, TooManyRejects.
    """
    queries, against = Inputs.of(queries), Inputs.of(against)
    queries.require_outputs()
    replace(against, rejects=queries.rejects).require_outputs()
    with (
        queries.noting_rejects() as rejects,
        Corpus.of(
            profile,
            min_similarity,
            ids_limit,
            of_texts=queries.options.fingerprint_field is None and against.options.fingerprint_field is None,
        ) as corpus,
    ):
        corpus.read(against, rejects)
        for answers in answers_to(queries, corpus, rejects):
            yield from answers
