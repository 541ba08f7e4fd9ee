"""Answers to queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from simhbase.corpus.record import Reject
from simhbase.model.values import Lookup

if TYPE_CHECKING:
    from simhbase.model.explanations import Explanation


class Answer(NamedTuple):
    """Result of a query. id: of the query, None if it has none."""

    id: str | None
    lookup: Lookup

    def without_self(self, most: int | None = None) -> Answer:
        """Leave out the match with the query's id. most: maximum number of the others."""
        others = tuple(match for match in self.lookup.matches if match.id != self.id)[:most]
        return self._replace(lookup=replace(self.lookup, matches=others))

    @property
    def values(self) -> dict[str, Any]:
        """As JSON shows it."""
        return with_id(self.id, self.lookup)


def with_id(query: str | None, found: Lookup | Explanation) -> dict[str, Any]:
    """The fields of what was found, after the id of the query."""
    return {"id": query} | {name: getattr(found, name) for name in type(found).__dataclass_fields__}


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
