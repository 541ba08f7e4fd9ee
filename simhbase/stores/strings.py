"""Arrays of byte strings, so that NumPy can join, sort and slice them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

WORD = 8


@dataclass(frozen=True)
class Strings:
    """n byte strings. content: uint8, concatenated; lengths: int64 (n,), in bytes."""

    content: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    @staticmethod
    def of(strings: Sequence[bytes]) -> Strings:
        lengths = np.fromiter(map(len, strings), np.int64, len(strings))
        return Strings(np.frombuffer(b"".join(strings), np.uint8), lengths)

    @staticmethod
    def rows_of(array: NDArray[np.uint8]) -> Strings:
        """The rows of an array of shape (n, size)."""
        return Strings(array.reshape(-1), np.full(len(array), array.shape[1], dtype=np.int64))

    @staticmethod
    def empty(n: int) -> Strings:
        """n empty strings."""
        return Strings(np.empty(0, dtype=np.uint8), np.zeros(n, dtype=np.int64))

    @staticmethod
    def concatenated(parts: Sequence[Strings]) -> Strings:
        """The strings of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        contents, lengths = [part.content for part in parts], [part.lengths for part in parts]
        return Strings(np.concatenate(contents), np.concatenate(lengths))

    @staticmethod
    def joined(*columns: Strings) -> Strings:
        """For each row, its strings of all columns concatenated."""
        if all(column.size is not None for column in columns):
            return Strings.rows_of(np.concatenate([column.matrix for column in columns], axis=1))
        lengths = np.sum([column.lengths for column in columns], axis=0)
        place = np.cumsum(lengths) - lengths
        content = np.empty(int(lengths.sum()), dtype=np.uint8)
        for column in columns:
            content[column._spread(place)] = column.content
            place += column.lengths
        return Strings(content, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> bytes:
        start = int(self.starts[number])
        return self.content[start : start + int(self.lengths[number])].tobytes()

    def to_list(self) -> list[bytes]:
        if self.size:
            return np.frombuffer(self.content, np.dtype((np.void, self.size))).tolist()  # type: ignore[no-any-return]  # void is bytes
        content = self.content.tobytes()
        return [content[start:end] for start, end in pairwise([0, *np.cumsum(self.lengths).tolist()])]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each begins in the content."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @cached_property
    def size(self) -> int | None:
        """The common length (0 if there are no strings), None if lengths differ."""
        if not len(self.lengths):
            return 0
        first = int(self.lengths[0])
        return first if (self.lengths == first).all() else None

    @property
    def matrix(self) -> NDArray[np.uint8]:
        """Strings of equal length as an array (n, length)."""
        return self.content.reshape(len(self.lengths), self.size or 0)

    def padded(self) -> NDArray[np.uint8]:
        """All strings zero-padded: an array (n, longest)."""
        if self.size is not None:
            return self.matrix
        found = np.zeros((len(self), self.longest), dtype=np.uint8)
        found.reshape(-1)[self._spread(np.arange(len(self)) * self.longest)] = self.content
        return found

    def between(self, start: int, end: int) -> Strings:
        """The strings at start <= position < end."""
        lengths = self.lengths[start:end]
        if not len(lengths):
            return Strings(self.content[:0], lengths)
        first, last = int(self.starts[start]), int(self.starts[end - 1] + self.lengths[end - 1])
        return Strings(self.content[first:last], lengths)

    def take(self, numbers: NDArray[np.intp]) -> Strings:
        """The strings at these positions, in this order."""
        if self.size is not None:
            return Strings.rows_of(self.matrix[numbers])
        lengths = self.lengths[numbers]
        found = Strings(np.empty(0, dtype=np.uint8), lengths)
        return Strings(self.content[found._spread(self.starts[numbers])], lengths)

    def words(self, column: int) -> NDArray[np.uint64]:
        """Eight bytes of each string from 8 * column on, as a big-endian number; zero-padded."""
        first = column * WORD
        if self.size is not None:
            part = self.matrix[:, first : first + WORD]
            found = np.zeros((len(self), WORD), dtype=np.uint8)
            found[:, : part.shape[1]] = part
        else:
            places = np.arange(first, first + WORD)
            inside = places < self.lengths[:, None]
            found = np.where(inside, self.content[np.where(inside, self.starts[:, None] + places, 0)], 0)
            found = found.astype(np.uint8, copy=False)
        return found.view(">u8").reshape(-1).astype(np.uint64)

    def order(self) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The order that sorts the strings, and which of them, in that order, equal the one before."""
        word = self.words(0)
        order = np.argsort(word)
        word = word[order]
        tied = np.zeros(len(self), dtype=np.bool_)
        np.equal(word[1:], word[:-1], out=tied[1:])
        column = 1
        while tied.any():
            among = np.flatnonzero(tied | np.append(tied[1:], False))
            groups = np.cumsum(~tied[among])
            is_last = column * WORD >= self.longest
            # Trailing zeros matter: if the padded bytes are equal, the shorter string comes first.
            more = self.lengths[order[among]] if is_last else self.take(order[among]).words(column)
            again = np.lexsort((more, groups))
            order[among], more = order[among[again]], more[again]
            tied[among[1:]] &= more[1:] == more[:-1]
            if is_last:
                break
            column += 1
        return order, tied

    def _spread(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position of each byte, given where each string begins."""
        ends = np.cumsum(self.lengths)
        total = int(ends[-1]) if len(ends) else 0
        return np.repeat(starts - (ends - self.lengths), self.lengths) + np.arange(total)


def pairs(keys: Strings, values: Strings) -> list[tuple[bytes, bytes]]:
    return list(zip(keys.to_list(), values.to_list(), strict=True))
