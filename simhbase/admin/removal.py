"""Counts what a command will remove. If that is more than half, the command asks first (cli/consent.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FEW = 10  # of fewer, only all are much


@dataclass(frozen=True)
class Removal:
    """How many of something would be removed. what: the things counted, in the plural; where: their store."""

    removed: int
    of: int
    what: str
    where: str

    @property
    def is_much(self) -> bool:
        """True for more than half, or for all of fewer than ten."""
        if self.of < FEW:
            return 0 < self.of <= self.removed
        return 2 * self.removed > self.of

    def __str__(self) -> str:
        share = f" ({100 * self.removed / self.of:.0f} %)" if self.of else ""
        return f"{self.removed:,} of {self.of:,} {self.what}{share} of {self.where}"


Agree = Callable[[Removal], None]  # raises to stop before anything is removed
