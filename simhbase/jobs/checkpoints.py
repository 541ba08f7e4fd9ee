"""How far a load has read its inputs, and what was decided about them: noted in its log after each write, so
that a load that was stopped can be resumed.

What has been read is known by a digest. Of files counts what was noted as written. What is decided about a
write is noted before it begins, as the store may answer otherwise once a part of it is done.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import NOTHING, KeptBeginning, OutputFile
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Chunk, Raw, Record, Reject
from simhbase.corpus.sources import Sources
from simhbase.errors import BadInput
from simhbase.index.claim_batch import Run
from simhbase.index.load_log import LoadLog
from simhbase.jobs.kept_out import TopDuplicated
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.seen_ids import SeenIds
from simhbase.jobs.source_report import SourceCounts, SourceTally
from simhbase.model import Match


class InputsChanged(BadInput):
    """What an interrupted run had read is not what is there now."""


@dataclass(frozen=True)
class BatchDecision:
    """What becomes of n documents, by their numbers: those that are passed over, those that are new to the
    store or have another text there, and of the documents that are not passed over the nearest that is stored
    (None: the store decides when they are written)."""

    skipped: frozenset[int] = frozenset()
    new: frozenset[int] = frozenset()
    duplicates: list[Match | None] | None = None

    def encode(self) -> dict[str, Any]:
        near = None if self.duplicates is None else [each and asdict(each) for each in self.duplicates]
        return {"skipped": sorted(self.skipped), "new": sorted(self.new), "duplicates": near}

    @staticmethod
    def decode(found: Mapping[str, Any]) -> BatchDecision:
        near = found["duplicates"]
        return BatchDecision(
            frozenset(found["skipped"]),
            frozenset(found["new"]),
            None if near is None else [each and Match(**each) for each in near],
        )


class Checkpoints:
    """Those of one run of a load.

    is_noted: whether the inputs can be read again, and the outputs be cut; else nothing is noted.
    """

    def __init__(self, inputs: Inputs, log: LoadLog, *, is_noted: bool) -> None:
        self._inputs = inputs
        self._log = log
        self._is_noted = is_noted
        self._digest = hashlib.blake2b(digest_size=16)
        self._digests: deque[str] = deque()  # after each chunk that was given out
        self._waiting: list[dict[str, Any]] = []  # parts that are not noted yet
        self.sources = SourceCounts(inputs.paths)
        self.kept_out = TopDuplicated()

    @property
    def run(self) -> Run:
        """Which run of the load claims, and which it resumes."""
        before = self._log.before
        return Run(bytes.fromhex(self._log.state.token), bytes.fromhex(before.token) if before else b"")

    def kept(self, option: str) -> KeptBeginning:
        return KeptBeginning(*(self._log.state.files or {}).get(option, NOTHING))

    def left(self, chunks: Iterator[Chunk], seen: SeenIds | None) -> Iterator[Chunk]:
        """The chunks behind those that were noted. Raises InputsChanged if these are others now.

        seen: takes the ids of those that are passed over; None where nothing is read behind them.
        """
        if not self._is_noted:
            yield from chunks
            return
        for part in self._log.parts():
            self._pass_over(part, islice(chunks, part["chunks"]), seen)
            self.sources.add(part["sources"])
            self.kept_out.add(part["kept_out"])
        for chunk in chunks:
            self._digests.append(self._noted(chunk))
            self._log.require_held()
            yield chunk

    def _pass_over(self, part: Mapping[str, Any], chunks: Iterator[Chunk], seen: SeenIds | None) -> None:
        options = self._inputs.options
        are_of_texts = options.id_from == "text"  # else pages are not looked into
        parser = Parser(options if are_of_texts else replace(options, html=False))
        items: list[Record | Reject] = []
        found = ""
        for chunk in chunks:
            found = self._noted(chunk)
            if seen is not None:
                items += parser.parse(chunk if are_of_texts else [_without_page(item) for item in chunk])
        if found != part["digest"]:
            raise InputsChanged("inputs changed since the interrupted run")
        if seen is not None:
            rejects = frozenset(part["rejects"])
            seen.reject_repeats(item for number, item in enumerate(items) if number not in rejects)

    def _noted(self, chunk: Chunk) -> str:
        """The digest of all chunks up to this one."""
        for item in chunk:
            data = item.data if isinstance(item, Raw) else item.reason.encode("utf-8", "backslashreplace")
            self._digest.update(f"{item.source!r} {item.line} {item.id!r} {len(data)} ".encode())
            self._digest.update(data)
            if isinstance(item, Raw) and item.tags:
                self._digest.update(repr(item.tags).encode())
        return self._digest.hexdigest()

    def decided(self, chunks: int) -> BatchDecision | None:
        """What an interrupted run decided about the next chunks, which it may have begun to write."""
        found = self._log.pending if self._is_noted else None
        if found is None or found["digest"] != self._digests[chunks - 1]:
            return None
        return BatchDecision.decode(found)

    def note_decided(self, chunks: int, decision: BatchDecision) -> None:
        """Notes what becomes of the next chunks, before anything of them is written."""
        if self._is_noted:
            self._log.note_pending({"digest": self._digests[chunks - 1], **decision.encode()})

    def put_off(self, read: Batch, sources: Mapping[str, SourceTally], kept_out: Mapping[str, int]) -> None:
        """Takes a batch that counts from the next `advance` on. read: it as it was read, with the repeats
        among its records; sources: what became of it, by source; kept_out: how many of it each document keeps
        out of the store."""
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
        """Notes that all batches until now are in the store and in the files. counts: of all of them, by
        name. Raises StoreBusy if another process has taken the load over."""
        if self._is_noted:
            kept = self._checkpoints(files)
            self._log.advance(self._waiting, counts=dict(counts), files=kept)
            self._waiting.clear()

    def note_all(self, report: Mapping[str, Any], files: Mapping[str, OutputFile | None]) -> None:
        """Notes that everything is stored: what is left is to give the files their names, and the report."""
        kept = self._checkpoints(files) if self._is_noted else {}
        self._log.change(progress="finishing", files=kept, report=dict(report))

    def _checkpoints(self, files: Mapping[str, OutputFile | None]) -> dict[str, tuple[int, int]]:
        kept = {name: file.checkpoint() for name, file in files.items() if file}
        return {name: (each.size, each.crc) for name, each in kept.items()}

    def require_same_inputs(self) -> None:
        """Raises InputsChanged if there is something else or more to read now than an earlier run read."""
        sources = Sources(self._inputs.paths, self._inputs.options)
        for _ in self.left(sources.chunks(), None):
            raise InputsChanged("inputs changed since the interrupted run")


def _without_page(item: Raw | Reject) -> Raw | Reject:
    if isinstance(item, Raw) and item.holds == "page":
        return item._replace(data=b"", holds="text")
    return item
