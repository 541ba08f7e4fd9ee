"""Stores seen without versions, reads of drawers in one piece, and versions that no delete hides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.model.values import Size
from simhbase.stores.base import HintingRecords, Records, Store


@dataclass(frozen=True)
class Values:
    """A table of records, as if its cells were their values."""

    cells: Records

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [cell and cell.value for cell in self.cells.get(keys)]

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        self.cells.put(rows)

    def delete(self, keys: Sequence[bytes]) -> None:
        self.cells.delete(keys)

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[tuple[bytes, bytes]]]:
        return [[(key, cell.value) for key, cell in rows] for rows in self.cells.scan(prefixes, limit)]

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        return ([(key, cell.value) for key, cell in rows] for rows in self.cells.iterate(start, stop))

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        return self.cells.compare_and_set(key, expected, value)

    def increment(self, key: bytes) -> int:
        """Of stores with hints."""
        return cast(HintingRecords, self.cells).increment(key)

    def approximate_size(self) -> Size:
        return self.cells.approximate_size()


@dataclass(frozen=True)
class Read:
    """All that was read of m drawers: drawer i is fingerprints[offsets[i]:offsets[i + 1]]."""

    fingerprints: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    truncated: NDArray[np.bool_]


def read(store: Store, prefixes: NDArray[np.uint8], limit: int | None) -> Read:
    """Reads drawers, and checks that the parts of the answer are as promised."""
    drawers: list[list[int]] = [[] for _ in range(len(prefixes))]
    truncated = np.zeros(len(prefixes), np.bool_)
    for part in store.drawers.read(prefixes, limit):
        assert (part.drawers.dtype, part.offsets.dtype) == (np.int64, np.int64)
        assert (part.fingerprints.dtype, part.truncated.dtype) == (np.uint64, np.int64)
        assert part.offsets.shape == (len(part.drawers) + 1,)
        assert part.offsets[0] == 0
        assert part.offsets[-1] == len(part.fingerprints)
        assert not truncated[part.truncated].any(), "said twice"
        truncated[part.truncated] = True
        for drawer, start, end in zip(part.drawers, part.offsets[:-1], part.offsets[1:], strict=True):
            drawers[drawer] += part.fingerprints[start:end].tolist()
    offsets = np.cumsum([0, *map(len, drawers)])
    return Read(np.array([row for drawer in drawers for row in drawer], dtype=np.uint64), offsets, truncated)


def remove(store: Store, keys: NDArray[np.uint8]) -> None:
    """Removes rows (n, tables, 13) as they are now."""
    store.drawers.remove(keys.reshape(-1, KEY_BYTES), store.drawers.times(keys).ravel())


def contains(store: Store, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which rows exist."""
    return store.drawers.times(keys) >= 0


def all_rows(store: Store) -> list[bytes]:
    """The row keys of the index."""
    return sorted(row.tobytes() for rows in store.drawers.iterate() for row in rows.keys)


def milliseconds() -> int:
    """Now: a store's rows are deleted between two tests, and HBase hides what is put with a lower version
    than a delete's."""
    return time_ns() // 1_000_000
