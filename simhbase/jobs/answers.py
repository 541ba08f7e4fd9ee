"""Answers to queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from simhbase.corpus.record import Reject
from simhbase.model.values import Lookup


class Answer(NamedTuple):
    """Result of a query. id: of the query, None if it has none."""

    id: str | None
    lookup: Lookup

    def without_self(self) -> Answer:
        """Leave out the match with the query's id."""
        others = tuple(match for match in self.lookup.matches if match.id != self.id)
        return self._replace(lookup=replace(self.lookup, matches=others))

    @property
    def values(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {"id": self.id} | {name: getattr(self.lookup, name) for name in Lookup.__dataclass_fields__}


@dataclass(frozen=True)
class AnsweredQueries:
    """Single queries with their answers. source: their origin, for messages."""

    source: str
    answers: Sequence[Answer]

    @classmethod
    def of(cls, source: str, names: Sequence[str | None], lookups: Sequence[Lookup]) -> Self:
        return cls(source, list(map(Answer, names, lookups)))

    @property
    def rejects(self) -> list[Reject]:
        return [
            Reject(self.source, None, answer.id, answer.lookup.reason)
            for answer in self.answers
            if answer.lookup.reason is not None
        ]

    @property
    def used(self) -> dict[str, int]:
        return {self.source: sum(answer.lookup.reason is None for answer in self.answers)}

    @property
    def parsed(self) -> int:
        return len(self.answers)
