"""Parts of an index: equal key ranges of each table, to check a large index piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from simhbase.errors import UsageError


@dataclass(frozen=True)
class Part:
    """One of `of` equal key ranges, numbered from 1. All row keys begin with bits of a hash."""

    number: int = 1
    of: int = 1

    def keys(self, whole: int = 8) -> tuple[bytes, bytes]:
        """First key of the range, and the key after its last (empty at the end). whole: length of a key
        prefix that must not be split, at most 8 bytes."""
        first, behind = (
            b"" if number in (0, self.of) else ((number << 64) // self.of).to_bytes(8)[:whole]
            for number in (self.number - 1, self.number)
        )
        return first, behind


WHOLE = Part()


def part_of(given: Part | tuple[int, int]) -> Part:
    """Convert (number, of) to a Part. Raises UsageError."""
    try:
        part = given if isinstance(given, Part) else Part(*given)
        if 1 <= part.number <= part.of:
            return part
    except TypeError:
        pass
    raise UsageError(f"must be a pair like (1, 100), the first of 100 parts, not {given!r}", parameter="part")
