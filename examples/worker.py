#!/usr/bin/env python3
"""A fleet of workers that ask of each document "is this new?", of which never two get yes for one text.

    worker.py --store URL [--workers N] [--token-file FILE] < documents.jsonl > outcomes.jsonl

Reads {"id", "text"}, with "tags" where there are some, a document a line; writes {"id", "outcome"}, of a
duplicate "duplicate_of", and a "reason" where there is one, in the order in which the answers come, as
documents come: a queue may be behind it that never ends. Of a line that is no document it writes {"line",
"outcome", "reason"}, and goes on.

With a store in HBase each worker opens it itself and claims, beside any number of other fleets on other
machines; with the address of a service (http://...) each asks that, with the token that SIMHBASE_TOKEN or the
file holds. An embedded store has one process that writes: there workers fingerprint, which is most of the
work, and this process claims.

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
    try:
        return store.claim_many(documents)
    except simhbase.BadInput as error:  # a service refuses all of them for one
        if len(documents) > 1:
            return [claim for document in documents for claim in claimed(store, [document])]
        return [Claim(documents[0].id, "rejected", reason=str(error))]


def fingerprinted(index: Index, documents: Batch) -> tuple[Batch, Any]:
    """What a worker does with one that this process alone writes to."""
    return documents, index.fingerprinter.fingerprint_many([document.text for document in documents])


def claimed_here(index: Index, documents: Batch, found: Any) -> Iterator[Claim]:
    """The rest of it."""
    kept = [document for document, reason in zip(documents, found.reasons, strict=True) if reason is None]
    ids, tags = [each.id for each in kept], [tuple(sorted(each.tags.items())) for each in kept]
    claims = iter(index.claim_batch(ids, found.fingerprints[found.accepted], tags=tags).claims)
    for document, reason in zip(documents, found.reasons, strict=True):
        yield next(claims) if reason is None else Claim(document.id, "rejected", reason=reason)


def opened(url: str, access: Literal["read", "write"], token: str | None) -> Index | Client:
    return Client(url, token=token) if url.startswith("http") else simhbase.open(url, access=access)


def serve(
    pipe: Connection, url: str, access: Literal["read", "write"], token: str | None, work: Work
) -> None:
    """The worker's process: opens the store, which no process should inherit, and answers until it is told
    to end."""
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):  # nobody asks any more
        try:
            with opened(url, access, token) as store:
                for documents in iter(pipe.recv, None):
                    pipe.send(work(store, documents))
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
        with suppress(ConnectionError):  # it has ended: `answer` says why
            self.pipe.send(batch)

    def answer(self) -> Any:
        """Raises EOFError where it was killed, and what ended it otherwise."""
        try:
            answer = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            if self.process.exitcode is not None and self.process.exitcode >= 0:
                raise SystemExit(f"worker.py: a worker ended with {self.process.exitcode}") from None
            raise EOFError from None
        if isinstance(answer, simhbase.SimhbaseError):
            raise answer
        return answer

    def end(self) -> None:
        with suppress(ConnectionError):
            self.pipe.send(None)
        self.process.join()


def parsed(line: bytes) -> Document:
    """Raises ValueError for a line that is no document."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {getattr(error, 'msg', error)}") from error
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    for name in ("id", "text"):
        if not isinstance(record.get(name), str):
            raise ValueError(f"no field {name!r} that is a string")
    tags = {} if record.get("tags") is None else record["tags"]
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise ValueError("the field 'tags' is no object of strings")
    return Document(record["id"], record["text"], tags)


def write(**outcome: object) -> None:
    line = json.dumps(outcome, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace"))  # half of a surrogate pair, as in JSON
    sys.stdout.buffer.flush()


def write_claims(claims: Iterable[Claim]) -> None:
    for claim in claims:
        match = {} if claim.match is None else {"duplicate_of": claim.match.id}
        reason = {} if claim.reason is None else {"reason": claim.reason}
        write(id=claim.id, outcome=claim.outcome, **match, **reason)


class Incoming:
    """Documents of a file, as they come."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._rest = b""
        self._line = 0
        self._documents: deque[Document] = deque()
        self.ended = False

    def __len__(self) -> int:
        return len(self._documents)

    def read(self) -> None:
        """Takes what has come; what is no document has its outcome."""
        part = os.read(self.file, READ)
        self.ended = not part
        *lines, self._rest = (self._rest + (part or b"\n")).split(b"\n")
        for line in lines:
            self._line += 1
            try:
                if line.strip():
                    self._documents.append(parsed(line))
            except ValueError as error:
                write(line=self._line, outcome="rejected", reason=str(error))

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
        for pipe in wait([*busy, incoming.file] if reads else list(busy)):
            if pipe == incoming.file:
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


def answer_all(store: str, workers: int, token: str | None) -> None:
    """Reads the documents of standard input, and writes what becomes of them."""
    incoming = Incoming(sys.stdin.fileno())
    if store.startswith(("hbase:", "http:", "https:")):
        for claims in fleet(workers, incoming, store, "write", token, claimed):
            write_claims(claims)
        return
    with simhbase.open(store) as index:
        for documents, found in fleet(workers, incoming, store, "read", token, fingerprinted):
            write_claims(claimed_here(index, documents, found))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", required=True, help="URL of a store that exists, or of a service")
    parser.add_argument("--workers", type=int, default=4, help="processes")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="holds the token alone (not the service's file of roles and tokens)",
    )
    options = parser.parse_args(arguments)
    # Its workers import nothing from the current folder, which may be a stranger's.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        token = os.environ.get("SIMHBASE_TOKEN")
        if options.token_file:
            token = options.token_file.read_text("utf-8").strip()
        answer_all(options.store, options.workers, token)
    except (simhbase.SimhbaseError, OSError) as error:
        raise SystemExit(f"worker.py: {error}") from None


if __name__ == "__main__":
    main()
