"""Where ranges of keys end, and where reading goes on."""

from __future__ import annotations

from simhbase.errors import StoreFailed

_SHOWN_BYTES = 40


def after_key(key: bytes) -> bytes:
    """The smallest key after this one."""
    return key + b"\x00"


def after_read(start: bytes, last: bytes, table: str) -> bytes:
    """The key from which to read on behind rows that were read from `start` on, given the last one. Raises
    StoreFailed if that is before `start`, where reading would come to no end. table: its name in the
    error."""
    if last < start:
        raise StoreFailed(
            f"reading {table} from {start[:_SHOWN_BYTES]!r} on came to {last[:_SHOWN_BYTES]!r}: the "
            "rows or an index of the server are out of order. Restore them (PostgreSQL: REINDEX)"
        )
    return after_key(last)


def common_prefix(start: bytes, stop: bytes) -> bytes:
    """What all keys from `start` until before `stop` begin with."""
    least = min(len(start), len(stop))
    return start[: next((place for place in range(least) if start[place] != stop[place]), least)]


def after_prefix(prefix: bytes) -> bytes:
    """The first key after those with a prefix; b"" (the end) if there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b""
