"""Files, and what reading them gives."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Reject
from simhbase.corpus.sources import Sources


def read(*inputs: object, stdin: Any = None, **options: Any) -> list[Record | Reject]:
    chosen = InputOptions(**options)
    sources = Sources(list(map(str, inputs)), chosen, stdin)
    return list(chain.from_iterable(map(Parser(chosen).parse, sources.chunks())))


def texts(items: list[Record | Reject]) -> list[tuple[str, str | None]]:
    """Ids and texts, of records only: a reject fails the test that expects none."""
    assert [item for item in items if isinstance(item, Reject)] == []
    return [(item.id, item.text) for item in items if isinstance(item, Record)]


def rejects(items: list[Record | Reject]) -> list[tuple[int | None, str | None, str]]:
    return [(item.line, item.id, item.reason) for item in items if isinstance(item, Reject)]


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def json_lines(*rows: object) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)
