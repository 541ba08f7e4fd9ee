#!/usr/bin/env python3
"""A fleet of workers that ask of each document "is this new?", of which never two get yes for one text.

    worker.py --store URL [--workers N] [--token-file FILE] < documents.jsonl > outcomes.jsonl

Reads {"id", "text"}, a document a line; writes {"id", "outcome"}, and of a duplicate "duplicate_of", in the
order in which the answers come, as documents come: a queue may be behind it that never ends. With a store in
HBase each worker opens it itself and claims, beside any number of other fleets on other machines; with the
address of a service (http://...) each asks that, with the token that SIMHBASE_TOKEN or the file holds. An
embedded store has one process that writes: there workers fingerprint, which is most of the work, and this
process claims.

A worker that is killed is replaced, and what it had is asked again: a claim that is repeated gets the answer
that it would have got.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import simhbase
from simhbase import Claim, Client, Document, Index

BATCH = 32  # documents that a worker takes at once, at most: more are faster, fewer are answered sooner
READ = 1 << 16  # bytes

Batch = list[Document]
Work = Callable[[Any, Batch], Any]


def claimed(store: Index | Client, documents: Batch) -> list[Claim]:
    """What a worker does with a store that many processes write to, or with a service."""
    return store.claim_many(documents)


def fingerprinted(index: Index, documents: Batch) -> tuple[Batch, Any]:
    """What a worker does with one that this process alone writes to."""
    return documents, index.fingerprinter.fingerprint_many([document.text for document in documents])


def claimed_here(index: Index, documents: Batch, found: Any) -> Iterator[Claim]:
    """The rest of it."""
    ids = [document.id for document, reason in zip(documents, found.reasons, strict=True) if reason is None]
    claims = iter(index.claim_batch(ids, found.fingerprints[found.accepted]).claims)
    for document, reason in zip(documents, found.reasons, strict=True):
        yield next(claims) if reason is None else Claim(document.id, "rejected", reason=reason)


def opened(url: str, access: Literal["read", "write"], token: str | None) -> Index | Client:
    return Client(url, token=token) if url.startswith("http") else simhbase.open(url, access=access)


def serve(
    pipe: Connection, url: str, access: Literal["read", "write"], token: str | None, work: Work
) -> None:
    """The worker's process: opens the store, which no process should inherit, and answers until it is told
    to end."""
    try:
        with opened(url, access, token) as store:
            for documents in iter(pipe.recv, None):
                pipe.send(work(store, documents))
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass  # nobody asks any more
    except simhbase.SimhbaseError as error:
        pipe.send(error)


class Worker:
    """A process, and what it was given."""

    def __init__(self, *arguments: object) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()  # so that its death ends the pipe
        self.batch: Batch = []

    def give(self, batch: Batch) -> None:
        self.batch = batch
        with suppress(BrokenPipeError):  # killed: `answer` says so
            self.pipe.send(batch)

    def answer(self) -> Any:
        """Raises EOFError where it was killed, and what ended it otherwise."""
        try:
            answer = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            if self.process.exitcode is not None and self.process.exitcode >= 0:
                raise SystemExit(f"a worker ended with {self.process.exitcode}") from None
            raise EOFError from None
        if isinstance(answer, simhbase.SimhbaseError):
            raise answer
        return answer

    def end(self) -> None:
        with suppress(BrokenPipeError):
            self.pipe.send(None)
        self.process.join()


class Incoming:
    """Documents of a file, as they come."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._rest = b""
        self._documents: deque[Document] = deque()
        self.ended = False

    def __len__(self) -> int:
        return len(self._documents)

    def fileno(self) -> int:
        return self._file

    def read(self) -> None:
        """Takes what has come."""
        part = os.read(self._file, READ)
        self.ended = not part
        *lines, self._rest = (self._rest + (part or b"\n")).split(b"\n")
        for record in map(json.loads, filter(bytes.strip, lines)):
            self._documents.append(Document(record["id"], record["text"]))

    def batch(self) -> Batch:
        return [self._documents.popleft() for _ in range(min(BATCH, len(self)))]


def fleet(workers: int, incoming: Incoming, *arguments: object) -> Iterator[Any]:
    """What workers make of documents, as it comes."""
    idle = [Worker(*arguments) for _ in range(workers)]
    busy: dict[Any, Worker] = {}
    while True:
        while idle and incoming:
            worker = idle.pop()
            worker.give(incoming.batch())
            busy[worker.pipe] = worker
        reads = len(incoming) < BATCH and not incoming.ended
        if not busy and not reads:
            break
        for pipe in wait([*busy, incoming] if reads else list(busy)):
            if pipe is incoming:
                incoming.read()
                continue
            worker = busy.pop(pipe)
            try:
                yield worker.answer()
                idle.append(worker)
            except EOFError:
                again = Worker(*arguments)
                again.give(worker.batch)
                busy[again.pipe] = again
    for worker in idle:
        worker.end()


def write(claims: Iterable[Claim]) -> None:
    for claim in claims:
        line: dict[str, object] = {"id": claim.id, "outcome": claim.outcome}
        if claim.match is not None:
            line["duplicate_of"] = claim.match.id
        print(json.dumps(line, ensure_ascii=False), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", required=True, help="URL of a store that exists, or of a service")
    parser.add_argument("--workers", type=int, default=4, help="processes")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="holds the service's token")
    options = parser.parse_args(arguments)
    token = os.environ.get("SIMHBASE_TOKEN")
    if options.token_file:
        token = options.token_file.read_text("utf-8").strip()
    incoming = Incoming(sys.stdin.fileno())
    if options.store.startswith(("hbase:", "http:", "https:")):
        for claims in fleet(options.workers, incoming, options.store, "write", token, claimed):
            write(claims)
        return
    with simhbase.open(options.store) as index:
        for documents, found in fleet(options.workers, incoming, options.store, "read", token, fingerprinted):
            write(claimed_here(index, documents, found))


if __name__ == "__main__":
    main()
