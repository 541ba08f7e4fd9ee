"""Checkpoints of a load: how far it has read its inputs, and what it has decided, noted in its log after each
write, so that an interrupted load can be resumed.

Inputs that were read are verified by a digest; output files are cut to their noted size. Decisions about a
write are noted before it begins, because the store may answer differently after a part of it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs.files import NOTHING, KeptBeginning, OutputFile
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Chunk, Raw, Record, Reject
from simhbase.corpus.sources import Sources
from simhbase.errors import BadInput
from simhbase.index.claims.batch import LoadRun
from simhbase.index.load_log import Count, LoadLog
from simhbase.index.writer import DocumentBatch
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.seen_ids import SeenIds
from simhbase.jobs.source_report import SourceCounts, SourceNames, SourceTally
from simhbase.loads.top_duplicated import TopDuplicated
from simhbase.model.values import Fingerprint, Match


class PartNote(Struct, frozen=True):
    """What was read for one acknowledged write, as it is noted."""

    chunks: Count
    digest: str
    rejects: frozenset[int]
    sources: dict[str, tuple[Count, Count, Count, Count]]
    kept_out: dict[str, Count]


class MatchNote(Struct, frozen=True):
    """A match, as it is noted."""

    distance: Count
    id: str
    fingerprint: Annotated[int, Meta(ge=0)]
    similarity: float | None
    drawers: tuple[int, ...] | None

    @property
    def match(self) -> Match:
        fingerprint = Fingerprint(self.fingerprint)
        return Match(self.distance, self.id, fingerprint, self.similarity, self.drawers)


class DecisionNote(Struct, frozen=True):
    """A decision about the next write, as it is noted."""

    digest: str
    skipped: frozenset[int]
    new: frozenset[int]
    duplicates: list[MatchNote | None] | None


class InputsChanged(BadInput):
    """The inputs differ from what the interrupted run read."""


@dataclass(frozen=True)
class BatchDecision:
    """What to do with n documents.

    skipped: numbers of documents not to write; new: numbers of documents that are not stored, or with another
    text; duplicates: for each document that is not skipped, its nearest match or None (None in place of the
    list: the store decides when they are written).
    """

    skipped: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()
    duplicates: list[Match | None] | None = None

    def left_of(self, batch: Batch) -> DocumentBatch:
        """The documents that are not skipped."""
        if not self.skipped:
            return batch.documents
        return batch.documents[[number for number in range(len(batch.ids)) if number not in self.skipped]]

    def encode(self) -> dict[str, Any]:
        near = None if self.duplicates is None else [each and asdict(each) for each in self.duplicates]
        return {"skipped": sorted(self.skipped), "new": sorted(self.new), "duplicates": near}

    @staticmethod
    def decode(found: DecisionNote) -> BatchDecision:
        near = found.duplicates
        matches = None if near is None else [None if each is None else each.match for each in near]
        return BatchDecision(found.skipped, found.new, matches)


class Checkpoints:
    """Checkpoints of one run of a load. is_noted: False if the inputs cannot be read again or the outputs
    cannot be cut; then nothing is noted."""

    def __init__(self, inputs: Inputs, log: LoadLog, *, is_noted: bool) -> None:
        self._inputs = inputs
        self._log = log
        self._is_noted = is_noted
        self._digest = hashlib.blake2b(digest_size=16)
        self._digests: deque[str] = deque()  # after each chunk read
        self._waiting: list[dict[str, Any]] = []  # parts not noted yet
        self.sources = SourceCounts(SourceNames(inputs))
        self.kept_out = TopDuplicated()

    @property
    def run(self) -> LoadRun:
        """Identifies this run, and the one it resumes, in claims."""
        before = self._log.before
        return LoadRun(bytes.fromhex(self._log.state.token), bytes.fromhex(before.token) if before else b"")

    def kept(self, option: str) -> KeptBeginning:
        return KeptBeginning(*(self._log.state.files or {}).get(option, NOTHING))

    def remaining(self, chunks: Iterator[Chunk], seen: SeenIds | None) -> Iterator[Chunk]:
        """Skip the chunks that were noted. seen: gets their ids, if given. Raises InputsChanged if they have
        changed."""
        if not self._is_noted:
            yield from chunks
            return
        for part in self._log.parts(PartNote):
            self._skip(part, islice(chunks, part.chunks), seen)
            self.sources.add(part.sources)
            self.kept_out.add(part.kept_out)
        for chunk in chunks:
            self._digests.append(self._add_to_digest(chunk))
            self._log.require_held()
            yield chunk

    def _skip(self, part: PartNote, chunks: Iterator[Chunk], seen: SeenIds | None) -> None:
        options = self._inputs.options
        of_pages, of_others = Parser(options), Parser(replace(options, html=False))
        are_of_texts = options.id_from == "text"  # else HTML need not be parsed
        items: list[Record | Reject] = []
        found = ""
        for chunk in chunks:
            found = self._add_to_digest(chunk)
            for item in chunk if seen is not None else ():
                # A page that was rejected may take any time and memory, and is parsed in this process here.
                is_parsed = are_of_texts and len(items) not in part.rejects
                items += of_pages.parse([item]) if is_parsed else of_others.parse([_without_page(item)])
        if found != part.digest:
            raise InputsChanged("inputs changed since the interrupted run")
        if seen is not None:
            seen.reject_repeats([item for number, item in enumerate(items) if number not in part.rejects])

    def _add_to_digest(self, chunk: Chunk) -> str:
        """Add a chunk, and return the digest of all chunks so far."""
        parts: list[bytes] = []
        for item in chunk:
            data = item.data if isinstance(item, Raw) else item.reason.encode("utf-8", "backslashreplace")
            parts += (f"{item.source!r} {item.line} {item.id!r} {len(data)} ".encode(), data)
            if isinstance(item, Raw) and item.tags:
                parts.append(repr(item.tags).encode())
        self._digest.update(b"".join(parts))  # at once: other threads go on meanwhile
        return self._digest.hexdigest()

    def decided(self, chunks: int) -> BatchDecision | None:
        """The decision of an interrupted run about the next chunks, which it may have begun to write."""
        found = self._log.pending(DecisionNote) if self._is_noted else None
        if found is None or found.digest != self._digests[chunks - 1]:
            return None
        return BatchDecision.decode(found)

    def note_decided(self, chunks: int, decision: BatchDecision) -> None:
        """Note the decision about the next chunks, before writing them."""
        if self._is_noted:
            self._log.note_pending({"digest": self._digests[chunks - 1], **decision.encode()})

    def stage(self, read: Batch, sources: Mapping[str, SourceTally], kept_out: Mapping[str, int]) -> None:
        """Add a batch to the next `advance`. read: the batch as read, including repeated ids; sources: counts
        by source; kept_out: number of its documents that each document is a match of."""
        self.sources.add(sources)
        self.kept_out.add(kept_out)
        if self._is_noted:
            digests = [self._digests.popleft() for _ in range(read.chunks)]
            self._waiting.append(
                {
                    "chunks": read.chunks,
                    "digest": digests[-1],
                    "rejects": [n for n, item in enumerate(read.items) if isinstance(item, Reject)],
                    "sources": dict(sources),
                    "kept_out": dict(kept_out),
                }
            )

    def advance(self, counts: Mapping[str, int], files: Mapping[str, OutputFile | None]) -> None:
        """Note that all batches so far are in the store and in the files. counts: totals by name. Raises
        StoreBusy if another process has taken over the load."""
        if self._is_noted:
            kept = self._checkpoints(files)
            self._log.advance(self._waiting, counts=dict(counts), files=kept)
            self._waiting.clear()

    def note_all(self, report: Mapping[str, Any], files: Mapping[str, OutputFile | None]) -> None:
        """Note that everything is stored. Only renaming the files and reporting remain."""
        kept = self._checkpoints(files) if self._is_noted else {}
        self._log.change(progress="finishing", files=kept, report=dict(report))

    def _checkpoints(self, files: Mapping[str, OutputFile | None]) -> dict[str, tuple[int, int]]:
        kept = {name: file.checkpoint() for name, file in files.items() if file}
        return {name: (each.size, each.crc) for name, each in kept.items()}

    def require_same_inputs(self) -> None:
        """Raise InputsChanged if the inputs differ from those that an earlier run read in full."""
        sources = Sources(self._inputs.paths, self._inputs.options)
        for _ in self.remaining(sources.chunks(), None):
            raise InputsChanged("inputs changed since the interrupted run")


def _without_page(item: Raw | Reject) -> Raw | Reject:
    if isinstance(item, Raw) and item.holds == "page":
        return item._replace(data=b"", holds="text")
    return item
