"""Settings of a service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

MIB = 1 << 20
REQUEST_CHARACTERS = 4
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Limits:
    """Limits on the cost of a request and on waiting requests.

    body_bytes: maximum size of a request; bodies: total size of running requests, as a multiple of
    body_bytes; comparing_bytes: maximum size of compare and explain requests, which take long; documents:
    maximum texts, claims or documents per request; characters: maximum of a text, and REQUEST_CHARACTERS
    times as many of all texts of a request; matches: maximum of an answer, beyond which lookups are
    truncated; answer_bytes: the same of their ids in JSON, and of listed documents; answers: total size of
    answers that are not read yet, as a multiple of answer_bytes; grouped: maximum documents of a store whose
    groups are asked for; seconds: time limit of an answer; receive_seconds: time limit for receiving a
    request, and for a client to read some of an answer; header_bytes: maximum size of request line and
    headers; threads: concurrent store calls; waiting: calls waiting for a thread, beyond which requests are
    refused; comparing_threads, comparing_waiting: the same for compare and explain; listing_threads:
    concurrent pages of documents; connections: open connections, beyond which new ones are closed.
    """

    body_bytes: int = 16 * MIB
    bodies: int = 16
    documents: int = 1000
    characters: int = 1_000_000
    matches: int = 100_000
    answer_bytes: int = 32 * MIB
    answers: int = 8
    grouped: int = 200_000
    seconds: float = 30.0
    receive_seconds: float = 30.0
    header_bytes: int = 1 << 16
    threads: int = 16
    waiting: int = 1024
    comparing_bytes: int = MIB
    comparing_threads: int = 2
    comparing_waiting: int = 32
    listing_threads: int = 2
    connections: int = 4096


@dataclass(frozen=True)
class Settings:
    """Settings of a process of the service.

    store: its URL; access: "read" serves only lookups; token_file: None allows everybody who can connect;
    hosts: without tokens, accepted names of this service, so that pages of other sites in a local browser
    cannot use it; proxies: networks whose X-Forwarded-For names the client; scope: of a store with scopes, to
    serve this one; None: each token has its own.
    """

    store: str
    access: Literal["write", "read"] = "write"
    token_file: Path | None = None
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    proxies: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    scope: str | None = None
