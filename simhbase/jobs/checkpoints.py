"""How far a load is: noted in its store after each write, so that one that was stopped goes on there.

What has been read is known by a digest. Of files counts what was noted as written. The outcome
of a write is noted before it begins, as the store may answer otherwise once a part of it is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import NOTHING, Kept, OutputFile, plain_target
from simhbase.corpus.parser import Parser
from simhbase.corpus.paths import local_path
from simhbase.corpus.record import Chunk, Raw, Record, Reject
from simhbase.corpus.remote import public_name
from simhbase.corpus.seen_ids import SeenIds
from simhbase.corpus.sources import STDIN, Sources
from simhbase.errors import BadInput
from simhbase.index import Index
from simhbase.index.manifests import Manifest, Manifests
from simhbase.jobs.kept_out import KeptOut
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.source_report import SourceCounts, Three
from simhbase.model import Match


class InputsChanged(BadInput):
    """What a stopped run had read is not what is there now."""


@dataclass(frozen=True)
class Task:
    """What a load was told to do, by what decides its outcome. files: those it writes, by option."""

    inputs: Inputs
    files: Mapping[str, Path | None]
    unique_only: bool
    min_similarity: float | None
    ids_are_unique: bool

    @cached_property
    def can_be_resumed(self) -> bool:
        """Whether all that it reads can be read again, and all that it writes be cut."""
        return all(map(_can_be_read_again, self.inputs.paths)) and all(
            path is None or plain_target(path) is not None for path in self.files.values()
        )

    @property
    def digest(self) -> str:
        """Tells it from others, wherever it runs."""
        told = {
            "paths": list(map(public_name, self.inputs.paths)),  # signatures are others each day
            "read": asdict(self.inputs.options),
            "files": {name: path and str(path) for name, path in self.files.items()},
            "options": [self.unique_only, self.min_similarity, self.ids_are_unique],
        }
        # In ASCII, as names of files may be no UTF-8.
        return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def usual_name(self) -> str:
        """A name for it on this host and in this folder."""
        first, *others = self.inputs.paths
        place = json.dumps([socket.gethostname(), _here(), self.digest])
        more = f"+{len(others)}" if others else ""
        readable = "".join(filter(str.isprintable, Path(public_name(first)).name))[:80]
        return f"{readable}{more}-{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}"


def _can_be_read_again(given: str) -> bool:
    path = local_path(given)
    if path is None:
        return True
    return path != STDIN and (not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path))  # noqa: PTH110, PTH112, PTH113  # never raise


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # somebody has removed it
        return ""


class Checkpoints:
    """Those of one load; none where what it reads cannot be read again."""

    def __init__(self, task: Task, name: str | None) -> None:
        self._task = task
        self._name = name or task.usual_name
        self._manifest: Manifest | None = None
        self._digest = hashlib.blake2b(digest_size=16)
        self._digests: deque[str] = deque()  # after each chunk that was given out
        self._waiting: list[dict[str, Any]] = []  # parts that are not noted yet
        self.sources = SourceCounts(task.inputs.paths)
        self.kept_out = KeptOut()

    def begin(self, index: Index) -> None:
        """Takes the load in a store. Raises as `Manifests.claim`."""
        if self._manifest is None and self._task.can_be_resumed:
            self._manifest = Manifests(index.store).claim(self._name, self._task.digest)

    def begin_late(self, index: Index) -> None:
        """The same in a store that has been made meanwhile, by this process or, with what it noted, another
        one."""
        if self._manifest is None:
            self.begin(index)
            if self._manifest is not None and self._manifest.before is not None:
                self._manifest.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what an earlier run has noted."""
        self._digest = hashlib.blake2b(digest_size=16)
        self._digests.clear()
        self._waiting.clear()
        self.sources = SourceCounts(self._task.inputs.paths)
        self.kept_out = KeptOut()
        if self._manifest is not None:
            self._manifest.begin_anew()

    @property
    def going_on(self) -> str | None:
        """What people are told where it goes on with what an earlier run has begun."""
        if self._manifest is None or self._manifest.before is None or not self._manifest.state.parts:
            return None
        stopped = datetime.fromtimestamp(self._manifest.before.changed / 1000).astimezone()
        names = ("added", "moved", "unchanged", "duplicates", "rejected")
        read = sum(self.counts.get(name, 0) for name in names)
        return f"going on after {read:,} documents, where the run of {stopped:%Y-%m-%d %H:%M} was stopped"

    @property
    def has_all(self) -> bool:
        """Whether an earlier run has done all but give its files their names."""
        return self._manifest is not None and self._manifest.state.progress == "finishing"

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of documents until now, by name."""
        return (self._manifest.state.counts if self._manifest else None) or {}

    def kept(self, option: str) -> Kept:
        """What counts of an output file."""
        files = (self._manifest.state.files if self._manifest else None) or {}
        return Kept(*files.get(option, NOTHING))

    def left(self, chunks: Iterator[Chunk], seen: SeenIds | None) -> Iterator[Chunk]:
        """The chunks behind those that count. Raises InputsChanged where these are others now.

        seen: takes the ids of those that are passed over; None where nobody asks for them.
        """
        if not self._task.can_be_resumed:
            yield from chunks
            return
        for part in self._manifest.parts() if self._manifest else ():
            self._pass_over(part, islice(chunks, part["chunks"]), seen)
            self.sources.add(part.get("sources", {}))  # older versions noted none
            self.kept_out.add(part.get("kept_out", {}))
            self.live()
        for chunk in chunks:
            self._digests.append(self._noted(chunk))
            self.live()
            yield chunk

    def live(self) -> None:
        """Gives a sign of life, where it is time for one. Raises StoreBusy where another process goes on with
        the load."""
        if self._manifest is not None:
            self._manifest.live()

    @property
    def place(self) -> str:
        """A name for what this run writes elsewhere: that of the load, of which there is one run at a time;
        else one that nobody else has."""
        return self._name if self._manifest is not None else f"{self._name} {token_hex(8)}"

    def _pass_over(self, part: Mapping[str, Any], chunks: Iterator[Chunk], seen: SeenIds | None) -> None:
        options = self._task.inputs.options
        are_of_texts = options.id_from == "text"  # else pages are not looked into
        parser = Parser(options if are_of_texts else replace(options, html=False))
        items: list[Record | Reject] = []
        found = ""
        for chunk in chunks:
            found = self._noted(chunk)
            if seen is not None:
                items += parser.parse(chunk if are_of_texts else [_without_page(item) for item in chunk])
        if found != part["digest"]:
            raise InputsChanged("the inputs are not what the stopped run has read")
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

    def decided(self, chunks: int, n: int) -> list[Match | None] | None:
        """What a stopped run decided about the n documents of the next chunks, which it may have begun to
        write."""
        found = self._manifest.pending if self._manifest else None
        if found is None or found["digest"] != self._digests[chunks - 1]:
            return None
        duplicates: list[Match | None] = [None] * n
        for number, *values in found["duplicates"]:
            duplicates[number] = Match(*values)
        return duplicates

    def note_decided(self, chunks: int, duplicates: Sequence[Match | None]) -> None:
        """Notes what becomes of the documents of the next chunks, before anything of it is written."""
        if self._manifest is not None:
            noted = [
                (number, each.distance, each.id, each.fingerprint, each.similarity)
                for number, each in enumerate(duplicates)
                if each is not None
            ]
            self._manifest.note_pending({"digest": self._digests[chunks - 1], "duplicates": noted})

    def put_off(self, read: Batch, sources: Mapping[str, Three], kept_out: Mapping[str, int]) -> None:
        """Takes a batch that counts from the next `advance` on. read: it as it was read, with the repeats
        among its records; sources: what became of it, by source; kept_out: how many of it each document keeps
        out of the store."""
        self.sources.add(sources)
        self.kept_out.add(kept_out)
        if self._task.can_be_resumed:
            digests = [self._digests.popleft() for _ in range(read.chunks)]
            rejects = [number for number, item in enumerate(read.items) if isinstance(item, Reject)]
            self._waiting.append(
                {
                    "chunks": read.chunks,
                    "digest": digests[-1],
                    "rejects": rejects,
                    "sources": dict(sources),
                    "kept_out": dict(kept_out),
                }
            )

    def advance(self, counts: Mapping[str, int], files: Mapping[str, OutputFile | None]) -> None:
        """Notes that all batches until now are in the store and in the files. counts: of all of them, by
        name. Raises StoreBusy where another process goes on with the load."""
        if not self._task.can_be_resumed:
            return
        kept = _kept(files)  # always: where a compressed file was flushed can be told from its bytes
        if self._manifest is None:  # there is no store: all was rejected
            return
        for number, part in enumerate(self._waiting, self._manifest.state.parts):
            self._manifest.note_part(number, part)
            self.live()
        count = self._manifest.state.parts + len(self._waiting)
        self._waiting.clear()
        self._manifest.change(parts=count, counts=dict(counts), files=kept)

    def note_all(self, index: Index, files: Mapping[str, OutputFile | None]) -> None:
        """Notes, durably, that nothing is left but to give the files their names."""
        if self._manifest is not None:
            self._manifest.change(progress="finishing", files=_kept(files))
            index.store.sync()

    def require_same_inputs(self) -> None:
        """Raises InputsChanged where there is something else or more to read now than an earlier run has."""
        sources = Sources(self._task.inputs.paths, self._task.inputs.options)
        for _ in self.left(sources.chunks(), None):
            raise InputsChanged("the inputs are not what the stopped run has read")

    def forget(self) -> None:
        """Leaves nothing to go on with."""
        if self._manifest is not None:
            self._manifest.remove()
            self._manifest.release()
            self._manifest = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._manifest is not None:
            self._manifest.__exit__(kind, error, trace)


def _kept(files: Mapping[str, OutputFile | None]) -> dict[str, tuple[int, int]]:
    kept = {name: file.checkpoint() for name, file in files.items() if file}
    return {name: (each.size, each.crc) for name, each in kept.items()}


def _without_page(item: Raw | Reject) -> Raw | Reject:
    if isinstance(item, Raw) and item.holds == "page":
        return item._replace(data=b"", holds="text")
    return item
