"""Parts of an index: equal ranges of the keys of each table, for what would take too long as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from simhbase.errors import UsageError


@dataclass(frozen=True)
class Part:
    """One of `of` equal ranges of keys, from 1 on; every table's keys begin with bits of a hash."""

    number: int = 1
    of: int = 1

    def keys(self, whole: int = 8) -> tuple[bytes, bytes]:
        """The first key, and the key behind the last; empty for the end. whole: how many bytes of a key, at
        most 8, its neighbours in the same part have in common."""
        return _position(self.number - 1, self.of)[:whole], _position(self.number, self.of)[:whole]


WHOLE = Part()


def part_of(given: Part | tuple[int, int]) -> Part:
    """The part that was given. Raises UsageError."""
    try:
        part = given if isinstance(given, Part) else Part(*given)
        if 1 <= part.number <= part.of:
            return part
    except TypeError:
        pass
    raise UsageError(f"must be as (1, 100), the first of a hundred parts, not {given!r}", parameter="part")


def _position(number: int, of: int) -> bytes:
    return b"" if number in (0, of) else ((number << 64) // of).to_bytes(8)
