"""In how many documents each token occurs: the part of building an IDF table that workers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simhbase.bulk.parser import Parser
from simhbase.bulk.record import Chunk, Record, Reject
from simhbase.features import document_frequencies


@dataclass(frozen=True)
class Frequencies:
    """A chunk's tokens with the number of documents that hold each; parsed: how many documents."""

    frequencies: Mapping[str, int]
    parsed: int
    rejects: list[Reject]


@dataclass(frozen=True)
class ChunkFrequencies:
    """Chunk -> Frequencies. Cheap to send to another process."""

    parser: Parser

    def __call__(self, chunk: Chunk) -> Frequencies:
        """Parses a chunk and counts."""
        items = self.parser.parse(chunk)
        frequencies, documents = document_frequencies(
            item.text or "" for item in items if isinstance(item, Record)
        )
        return Frequencies(frequencies, documents, [item for item in items if isinstance(item, Reject)])
