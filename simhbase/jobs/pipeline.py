"""Parses and fingerprints chunks of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import CHUNK_RECORDS, InputOptions, ReadItems, Record, Reject, WithoutFingerprint
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index.writer import DocumentBatch
from simhbase.jobs.kinds import NOTHING, Kinds

JOINED_BYTES = 8 << 20


@dataclass(frozen=True)
class Batch:
    """The records of some chunks with fingerprints.

    items: records that have a fingerprint, and rejects, in input order; fingerprints: of the n records;
    parsed: number of items that could be parsed; chunks: number of chunks; kinds: of their texts.
    """

    items: list[Record | Reject]
    fingerprints: FingerprintBatch
    parsed: int
    chunks: int = 1
    kinds: Kinds = NOTHING

    @cached_property
    def records(self) -> list[Record]:
        return [item for item in self.items if isinstance(item, Record)]

    @cached_property
    def rejects(self) -> list[Reject]:
        return [item for item in self.items if isinstance(item, Reject)]

    @cached_property
    def used(self) -> Counter[str]:
        """Number of records by source, in input order."""
        return Counter(record.source for record in self.records)

    @property
    def bits(self) -> int:
        return 64 * prod(self.fingerprints.values.shape[1:])

    @cached_property
    def ids(self) -> list[str]:
        return [record.id for record in self.records]

    @cached_property
    def documents(self) -> DocumentBatch:
        """The records, to be written to an index."""
        tags = [record.tags for record in self.records]
        return DocumentBatch(self.ids, self.fingerprints, tags if any(tags) else None)

    def only(self, chosen: NDArray[np.bool_]) -> Batch:
        """Keep only the chosen records: bool (n,)."""
        wanted = iter(chosen.tolist())
        items = [item for item in self.items if isinstance(item, Reject) or next(wanted)]
        return replace(self, items=items, fingerprints=self.fingerprints[chosen])


@dataclass(frozen=True)
class ChunkFingerprinter:
    """Chunk -> Batch.

    fingerprinter: None if records have fingerprints already. trim: drops what is no longer needed of a
    record; keeps_rejected: keep trimmed records without a fingerprint, too; counts_kinds: of texts, for the
    hints of a load.
    """

    parser: Parser
    fingerprinter: Fingerprinter | None
    trim: Callable[[Record], Record]
    keeps_rejected: bool = False
    counts_kinds: bool = False

    def __call__(self, chunk: ReadItems) -> Batch:
        items = self.parser.parse(chunk)
        records = [item for item in items if isinstance(item, Record)]
        if self.fingerprinter is None:
            fingerprints = _prepared(records, self.parser.options.fingerprint_bits)
            trimmed = [self.trim(item) if isinstance(item, Record) else item for item in items]
            return Batch(trimmed, fingerprints, parsed=len(records))
        texts = [record.text or "" for record in records]
        found = self.fingerprinter.fingerprint_many(texts)
        kinds = Kinds.of(texts) if self.counts_kinds else NOTHING
        if len(records) == len(items) and not any(found.reasons):
            usable: list[Record | Reject] = list(map(self.trim, records))
            return Batch(usable, found.fingerprints, parsed=len(records), kinds=kinds)
        reasons = iter(found.reasons)
        usable = [self._usable(item, next(reasons)) if isinstance(item, Record) else item for item in items]
        fingerprints = found.fingerprints[found.accepted]
        return Batch(usable, fingerprints, parsed=len(records), kinds=kinds)

    def _usable(self, record: Record, reason: str | None) -> Record | Reject:
        """The trimmed record, or a reject if there is a reason why it has no fingerprint."""
        if reason is None:
            return self.trim(record)
        place = record.source, record.line, record.id
        if self.keeps_rejected:
            return WithoutFingerprint(*place, reason, self.trim(record))
        return Reject(*place, reason)


def joined(batches: Iterable[Batch], least: int, most: int) -> Iterator[Batch]:
    """Join `least` batches at a time; up to `most` if they are of full chunks, which have short texts. Fewer
    once their lines, or texts, have JOINED_BYTES."""
    some: list[Batch] = []
    held = 0
    for batch in batches:
        some.append(batch)
        held += sum(len(record.json or record.text or "") for record in batch.records)
        size = most if batch.parsed >= CHUNK_RECORDS else least
        if len(some) >= size or held >= JOINED_BYTES:
            yield _join(some)
            some, held = [], 0
    if some:
        yield _join(some)


def _join(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    return Batch(
        [item for batch in batches for item in batch.items],
        FingerprintBatch.joined(batch.fingerprints for batch in batches),
        sum(batch.parsed for batch in batches),
        sum(batch.chunks for batch in batches),
        Kinds(*map(sum, zip(*(batch.kinds for batch in batches), strict=True))),
    )


def _prepared(records: list[Record], bits: int) -> FingerprintBatch:
    digits = b"".join((record.fingerprint or 0).to_bytes(bits // 8) for record in records)
    words = np.frombuffer(digits, dtype=">u8").astype(np.uint64)
    return FingerprintBatch.bare(words if bits == 64 else words.reshape(-1, 2))


class FingerprintSource(Protocol):
    @property
    def fingerprinter(self) -> Fingerprinter:
        """Raises ProfileMismatch if this machine's fingerprints differ from a store's."""


def fingerprinting(
    options: InputOptions, source: FingerprintSource, trim: Callable[[Record], Record]
) -> ChunkFingerprinter:
    """The work of threads. Raises ProfileMismatch if this machine's fingerprints differ from a store's."""
    fingerprinter = source.fingerprinter if options.fingerprint_field is None else None
    return ChunkFingerprinter(Parser(options), fingerprinter, trim)
