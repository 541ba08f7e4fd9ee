"""Lookups of the documents of a corpus, in input order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import Record, Reject, SourceReject
from simhbase.corpus.rejects import Rejects
from simhbase.corpus.trim import without_content
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index import Index
from simhbase.index.reader import IDS_LIMIT, LISTING_GROWTH
from simhbase.jobs.pipeline import Batch, FingerprintSource, fingerprinting
from simhbase.model import Lookup, Match, Query
from simhbase.profile import Profile


class Answer(NamedTuple):
    """Result of a query. id: of the query, None if it has none."""

    id: str | None
    lookup: Lookup

    def without_self(self) -> Answer:
        """Leave out the match with the query's id."""
        others = tuple(match for match in self.lookup.matches if match.id != self.id)
        return self._replace(lookup=replace(self.lookup, matches=others))


class QueryTarget(FingerprintSource, Protocol):
    """What documents are looked up in: a store, or the documents of files."""

    @property
    def trim(self) -> Callable[[Record], Record]:
        """Drops what is no longer needed of a record with a fingerprint."""

    def of_records(self, batch: Batch) -> list[Lookup]:
        """Look up the records of a batch."""


@dataclass(frozen=True)
class StoredDocuments:
    index: Index
    query: Query = Query()

    @property
    def profile(self) -> Profile:
        return self.index.profile

    @property
    def fingerprinter(self) -> Fingerprinter:
        """Raises ProfileMismatch if this machine's fingerprints differ from the store's."""
        return self.index.fingerprinter

    @property
    def trim(self) -> Callable[[Record], Record]:
        return without_content

    def of_records(self, batch: Batch) -> list[Lookup]:
        # Fingerprints given instead of texts have no sketches.
        if not batch.fingerprints.sketches.shape[1]:
            return self.index.find_fingerprints(batch.fingerprints.values, self.query)
        return self.index.find_batch(batch.fingerprints, self.query)

    def nearest_others(self, batch: Batch, ids_limit: int = IDS_LIMIT) -> list[Match | None]:
        """The nearest stored document of each record, except itself. Reads more documents of a fingerprint if
        the first ones have expired."""
        documents = replace(self, index=self.index.listing(ids_limit))
        lookups = documents.of_records(batch)
        nearest = [
            next((match for match in lookup.matches if match.id != document), None)
            for document, lookup in zip(batch.ids, lookups, strict=True)
        ]
        pairs = zip(nearest, lookups, strict=True)
        cut = np.array([match is None and lookup.truncated for match, lookup in pairs], dtype=bool)
        if cut.any():
            again = self.nearest_others(batch.only(cut), ids_limit * LISTING_GROWTH)
            for number, match in zip(np.flatnonzero(cut).tolist(), again, strict=True):
                nearest[number] = match
        return nearest


def answers_to(
    inputs: Inputs, target: QueryTarget, rejects: Rejects, *, exclude_self: bool = False
) -> Iterator[list[Answer]]:
    """Look up the records of a corpus, batch by batch. Rejected records have answers, too. exclude_self:
    leave out matches with the query's id."""
    with closing(inputs.each(fingerprinting(inputs.options, target, target.trim))) as batches:
        for batch in batches:
            answers = _answers(target, batch)
            yield [each.without_self() for each in answers] if exclude_self else answers
            rejects.note(batch)


def _answers(target: QueryTarget, batch: Batch) -> list[Answer]:
    found = iter(target.of_records(batch))
    return [
        Answer(item.id, next(found) if isinstance(item, Record) else Lookup(None, reason=item.reason))
        for item in batch.items
        if not isinstance(item, SourceReject)
    ]


@dataclass(frozen=True)
class AnsweredQueries:
    """Single queries with their answers. source: their origin, for messages."""

    source: str
    answers: Sequence[Answer]

    @classmethod
    def of(cls, source: str, names: Sequence[str | None], lookups: Sequence[Lookup]) -> Self:
        return cls(source, list(map(Answer, names, lookups)))

    def without_selves(self) -> Self:
        return replace(self, answers=[each.without_self() for each in self.answers])

    @property
    def rejects(self) -> list[Reject]:
        return [
            Reject(self.source, None, answer.id, answer.lookup.reason)
            for answer in self.answers
            if answer.lookup.reason is not None
        ]

    @property
    def parsed(self) -> int:
        return len(self.answers)
