"""Where ranges of keys end."""

from __future__ import annotations


def after_key(key: bytes) -> bytes:
    """The smallest key after this one."""
    return key + b"\x00"


def common_prefix(start: bytes, stop: bytes) -> bytes:
    """What all keys from `start` until before `stop` begin with."""
    least = min(len(start), len(stop))
    return start[: next((place for place in range(least) if start[place] != stop[place]), least)]


def after_prefix(prefix: bytes) -> bytes:
    """The first key after those with a prefix; b"" (the end) if there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b""
