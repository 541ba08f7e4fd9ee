"""How a service runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from simhbase.stores.base import Access

MIB = 1 << 20
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Limits:
    """What one request may cost, and how many may wait.

    body_bytes: of a request; bodies: so many of the largest, as bytes, may be under way at once, beyond which
    requests are refused; comparing_bytes: of one that compares or explains, which takes long; documents:
    texts, claims or documents of a request; seconds: for an answer; receive_seconds: for a request to come
    in, and for a client to read some of an answer; header_bytes: of its first line and headers; threads:
    calls of the store at once; waiting: calls that wait for a thread, beyond which requests are refused;
    comparing_threads, comparing_waiting: the same of those that compare or explain; connections: open at
    once, beyond which new ones are closed.
    """

    body_bytes: int = 16 * MIB
    bodies: int = 16
    documents: int = 1000
    seconds: float = 30.0
    receive_seconds: float = 30.0
    header_bytes: int = 1 << 16
    threads: int = 16
    waiting: int = 1024
    comparing_bytes: int = MIB
    comparing_threads: int = 2
    comparing_waiting: int = 32
    connections: int = 4096


@dataclass(frozen=True)
class Settings:
    """What a process of the service needs to know.

    store: its URL; access: "read" serves lookups alone; token_file: None lets everybody in who can connect;
    hosts: names of this service, one of which a request has to ask for, where there are no tokens: it keeps
    pages of other sites away that a browser on this machine has open.
    """

    store: str
    access: Access = "write"
    token_file: Path | None = None
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    limits: Limits = field(default_factory=Limits)
