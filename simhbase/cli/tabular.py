"""Mappings with the same names as a table to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_ESTIMATE = {"value", "low", "high", "pairs"}


def table_lines(rows: Sequence[Mapping[str, Any]], shown: Callable[[Any], str]) -> Iterator[str]:
    """A line of names, then a line a row; a mapping within a row becomes a column a value. `shown`
    makes a cell of a value; an estimated share is one cell, in per cent with its interval."""
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    cells = [[name.replace("_", " ") for name in names]]
    cells += [[_cell(row.get(name), shown) for name in names] for row in flat]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def is_estimate(value: Any) -> bool:
    """Whether a value is a share with its interval and the number of pairs it was measured on."""
    return isinstance(value, Mapping) and value.keys() == _ESTIMATE


def shown_estimate(value: Mapping[str, Any]) -> str:
    """93.1 (90-95): per cent, and the interval."""
    return f"{100 * value['value']:.1f} ({100 * value['low']:.0f}-{100 * value['high']:.0f})"


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and not is_estimate(value):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value


def _cell(value: Any, shown: Callable[[Any], str]) -> str:
    if is_estimate(value):
        return shown_estimate(value)
    return "-" if value is None else shown(value)
