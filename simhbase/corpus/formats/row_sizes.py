"""Measures the rows of Arrow arrays before they become Python objects.

Rows of an array may share a value any number of times: by dictionaries, runs and views, and by lists of them.
In Python each row has a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 1024
PART_BYTES = 16 << 20
_VALUE_BYTES = 8  # of any value at least, also of a null
_MOST = 1 << 31  # larger sizes are not told apart, so that sums of them fit into 64 bits
_MOST_IN_RUNS = 1 << 24  # values in runs, of which each has its size here

_Sizes = int | NDArray[np.int64]  # the same of each value, or those of all


def row_sizes(columns: list[Any], rows: int) -> NDArray[np.int64]:
    """Bytes of each row. Raises ArrowInvalid for too many values in runs."""
    return np.zeros(rows, np.int64) + sum(map(_sizes, columns))


def parts(batch: Any) -> Iterator[Any]:
    """The rows of a batch in parts of at most MOST_ROWS and PART_BYTES, or of one row that has more."""
    for start in range(0, batch.num_rows, MOST_ROWS):
        piece = batch.slice(start, MOST_ROWS)
        ends = np.cumsum(row_sizes(piece.columns, piece.num_rows))
        first = 0
        while first < piece.num_rows:
            before = ends[first - 1] if first else 0
            end = max(first + 1, int(np.searchsorted(ends, before + PART_BYTES, "right")))
            yield piece.slice(first, end - first)
            first = end


def dictionary_bytes(columns: Iterable[Any]) -> int:
    """Bytes of the dictionaries of some columns, also of those within others."""
    return sum(map(_dictionary_bytes, columns))


def _dictionary_bytes(array: Any) -> int:
    from pyarrow import ExtensionArray, types

    kind = array.type
    if isinstance(array, ExtensionArray):
        return _dictionary_bytes(array.storage)
    if types.is_dictionary(kind):
        return int(array.dictionary.get_total_buffer_size()) + _dictionary_bytes(array.dictionary)
    if types.is_struct(kind) or types.is_union(kind):
        return dictionary_bytes(array.field(number) for number in range(kind.num_fields))
    return _dictionary_bytes(array.values) if hasattr(array, "values") else 0


def _sizes(array: Any) -> _Sizes:
    found = _VALUE_BYTES + _contents(array)
    return min(found, _MOST) if isinstance(found, int) else np.minimum(found, _MOST)


def _contents(array: Any) -> _Sizes:
    """Bytes of the values within each value, of those of a text or of a list."""
    from pyarrow import ExtensionArray, compute, types

    kind = array.type
    if isinstance(array, ExtensionArray):
        return _contents(array.storage)
    if types.is_dictionary(kind):
        return _in_dictionary(array)
    if types.is_run_end_encoded(kind):
        return _in_runs(array)
    if types.is_struct(kind):
        return sum(_sizes(array.field(number)) for number in range(kind.num_fields))
    if types.is_union(kind):
        return sum(int(np.max(_sizes(array.field(number)), initial=0)) for number in range(kind.num_fields))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _of_views(array)
    if types.is_fixed_size_binary(kind):
        return int(kind.byte_width)
    if kind in _texts():
        return np.asarray(compute.binary_length(array).fill_null(0), np.int64)
    return _of_lists(array)


def _texts() -> tuple[Any, ...]:
    import pyarrow as arrow

    return arrow.string(), arrow.binary(), arrow.large_string(), arrow.large_binary()


def _in_dictionary(array: Any) -> _Sizes:
    """Of the values that are there: a dictionary may have millions of others."""
    if not len(array.dictionary):  # all are null
        return 0
    used = array.indices.fill_null(0).dictionary_encode()
    return _taken(_sizes(array.dictionary.take(used.dictionary)), np.asarray(used.indices))


def _taken(values: _Sizes, places: NDArray[Any]) -> _Sizes:
    return values if isinstance(values, int) else values[places]


def _in_runs(array: Any) -> _Sizes:
    from pyarrow import ArrowInvalid

    if len(array) > _MOST_IN_RUNS:
        raise ArrowInvalid(f"{len(array):,} values in runs within one row")
    values = np.arange(array.offset, array.offset + len(array))
    return _taken(_sizes(array.values), np.searchsorted(np.asarray(array.run_ends), values, "right"))


def _of_views(array: Any) -> _Sizes:
    views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0].astype(np.int64)
    return np.where(np.asarray(array.is_valid()), lengths, 0)


def _of_lists(array: Any) -> _Sizes:
    """Bytes of the values of each list; 0 for what is no list."""
    from pyarrow import types

    kind = array.type
    if types.is_fixed_size_list(kind):
        length = kind.list_size
        within = _sizes(array.values.slice(array.offset * length, len(array) * length))
        if isinstance(within, int) or not length:
            return length * within if isinstance(within, int) else 0
        sums: NDArray[np.int64] = within.reshape(-1, length).sum(axis=1)
        return sums
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        is_valid = np.asarray(array.is_valid())
        begins = np.where(is_valid, np.asarray(array.offsets, np.int64)[: len(array)], 0)
        return _between(array.values, begins, begins + np.where(is_valid, np.asarray(array.sizes), 0))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        offsets = np.asarray(array.offsets, np.int64)
        return _between(array.values, offsets[:-1], offsets[1:])
    return 0


def _between(values: Any, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> _Sizes:
    """Bytes of the values from each beginning to its end."""
    first = int(begins.min(initial=len(values)))
    within = _sizes(values.slice(first, max(int(ends.max(initial=0)) - first, 0)))
    if isinstance(within, int):
        return within * (ends - begins)
    ends_of = np.concatenate([[0], np.cumsum(within)])
    found: NDArray[np.int64] = ends_of[ends - first] - ends_of[begins - first]
    return found
