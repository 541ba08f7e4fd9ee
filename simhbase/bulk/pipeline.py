"""Chunks of sources -> parsed and fingerprinted batches, in worker processes and in input order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np

from simhbase.bulk.parser import Parser
from simhbase.bulk.record import Chunk, Record, Reject, chunk_bytes
from simhbase.bulk.seen import SeenIds
from simhbase.fingerprinter import Fingerprinter
from simhbase.parallel import map_in_order
from simhbase.prints import Prints
from simhbase.profile import Profile

Result = TypeVar("Result")

_NOT_WORTH_WORKERS = 2  # chunks; these are done before a worker process has started
_WORTH_WORKERS = 4 << 20  # bytes of a chunk; reading on would only hold more such chunks
JOINED_BYTES = 8 << 20


@dataclass(frozen=True)
class Batch:
    """What became of the records of some chunks.

    items: records that have a fingerprint, and rejects, in input order; prints: those of the n
    records; parsed: how many of the items could be read at all.
    """

    items: list[Record | Reject]
    prints: Prints
    parsed: int

    @cached_property
    def records(self) -> list[Record]:
        """The records."""
        return [item for item in self.items if isinstance(item, Record)]

    @cached_property
    def rejects(self) -> list[Reject]:
        """The rejects."""
        return [item for item in self.items if isinstance(item, Reject)]

    @property
    def bits(self) -> int:
        """Length of a fingerprint."""
        return 64 * prod(self.prints.values.shape[1:])

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the records."""
        return [record.id for record in self.records]

    @cached_property
    def held_bytes(self) -> int:
        """What is left of the records' lines and texts, in bytes and characters."""
        return sum(len(record.json or record.text or "") for record in self.records)

    def without_repeats(self, seen: SeenIds) -> Batch:
        """The same with a reject in place of a record whose id came before."""
        items = seen.reject_repeats(self.items)
        first = [
            isinstance(after, Record)
            for before, after in zip(self.items, items, strict=True)
            if isinstance(before, Record)
        ]
        return Batch(items, self.prints[first], self.parsed)


@dataclass(frozen=True)
class ChunkFingerprinter:
    """Chunk -> Batch. Cheap to send to another process, where it keeps its caches.

    profile: how texts become fingerprints; None where the records bring theirs. trim: what is left
    of a record that has its fingerprint, so that no text travels back for nothing.
    """

    parser: Parser
    profile: Profile | None
    trim: Callable[[Record], Record]

    def __call__(self, chunk: Chunk) -> Batch:
        """Parses a chunk and fingerprints its texts."""
        parsed = self.parser.parse(chunk)
        records = [item for item in parsed if isinstance(item, Record)]
        if self._fingerprinter is None:
            return self._batch(parsed, records, _prepared(records, self.parser.options.fingerprint_bits), {})
        found = self._fingerprinter.fingerprint_many([record.text or "" for record in records])
        rejects = {
            id(record): Reject(record.source, record.line, record.id, reason)
            for record, reason in zip(records, found.reasons, strict=True)
            if reason is not None
        }
        return self._batch(parsed, records, found.prints[found.accepted], rejects)

    def _batch(
        self,
        parsed: list[Record | Reject],
        records: list[Record],
        prints: Prints,
        rejects: dict[int, Reject],
    ) -> Batch:
        items = [
            rejects.get(id(item)) or self.trim(item) if isinstance(item, Record) else item for item in parsed
        ]
        return Batch(items, prints, parsed=len(records))

    @cached_property
    def _fingerprinter(self) -> Fingerprinter | None:
        return self.profile.fingerprinter() if self.profile else None


def whole(record: Record) -> Record:
    """The record as it is."""
    return record


@dataclass(frozen=True)
class WithPrefixedId:
    """The record as it is, but for its JSON line: that has the record's id in its id field, so that
    it can be joined with what else names the record. (Without a line where Python cannot read it.)
    Cheap to send to another process.
    """

    id_field: str

    def __call__(self, record: Record) -> Record:
        """The same record with another line."""
        if record.json is None:
            return record
        try:
            fields = json.loads(record.json) | {self.id_field: record.id}  # keeps integers beyond 64 bits
            line = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        except RecursionError:  # a thousand levels, which the parser lets pass
            return replace(record, json=None)
        return replace(record, json=line)


def text_alone(record: Record) -> Record:
    """The record without the line it came from."""
    return replace(record, json=None)


@dataclass(frozen=True)
class Measured:
    """What another trim leaves of a record, with the length of its text as its value. Cheap to send to
    another process.
    """

    trim: Callable[[Record], Record]

    def __call__(self, record: Record) -> Record:
        """The same record with less of it."""
        return replace(self.trim(record), value=len(record.text or ""))


def without_content(record: Record) -> Record:
    """The record without its text, and without the line it came from."""
    return Record(record.source, record.line, record.id, fingerprint=record.fingerprint, value=record.value)


def in_workers(
    work: Callable[[Chunk], Result], chunks: Iterable[Chunk], processes: int
) -> Generator[Result, None, None]:
    """work(chunk) for each chunk, in order; no process is started for a few chunks.

    Close it, or hold it in `contextlib.closing`: that ends the processes. Raises as `map_in_order`.
    """
    rest = iter(chunks)
    first = _first(rest)
    if len(first) <= _NOT_WORTH_WORKERS and not any(chunk_bytes(chunk) > _WORTH_WORKERS for chunk in first):
        processes = 1
    with closing(map_in_order(work, _given_away(first, rest), processes, size=chunk_bytes)) as results:
        yield from results


def _first(chunks: Iterator[Chunk]) -> deque[Chunk]:
    """As many chunks as it takes to see whether workers are worth it."""
    first: deque[Chunk] = deque()
    for chunk in chunks:
        first.append(chunk)
        if len(first) > _NOT_WORTH_WORKERS or chunk_bytes(chunk) > _WORTH_WORKERS:
            break
    return first


def _given_away(first: deque[Chunk], rest: Iterator[Chunk]) -> Iterator[Chunk]:
    """All chunks, none of them held once it is given."""
    while first:
        yield first.popleft()
    yield from rest


def joined(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """Every so many batches as one, or fewer of them that hold JOINED_BYTES."""
    some: list[Batch] = []
    for batch in batches:
        some.append(batch)
        if len(some) == size or sum(each.held_bytes for each in some) >= JOINED_BYTES:
            yield _join(some)
            some = []
    if some:
        yield _join(some)


def _join(batches: list[Batch]) -> Batch:
    return Batch(
        [item for batch in batches for item in batch.items],
        Prints.joined(batch.prints for batch in batches),
        sum(batch.parsed for batch in batches),
    )


def _prepared(records: list[Record], bits: int) -> Prints:
    """The fingerprints that records bring along."""
    digits = b"".join((record.fingerprint or 0).to_bytes(bits // 8) for record in records)
    words = np.frombuffer(digits, dtype=">u8").astype(np.uint64)
    return Prints.bare(words if bits == 64 else words.reshape(-1, 2))
