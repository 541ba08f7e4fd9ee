"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

MOST_ROWS = 10
_MOST_CHARACTERS = 60  # of a cell


def html_table(columns: Mapping[str, Sequence[object]]) -> str:
    """Columns of equal length as an HTML table: its first rows, and how many there are."""
    from html import escape  # reads the names of all entities, and few processes show tables

    rows = list(islice(zip(*columns.values(), strict=True), MOST_ROWS))
    count = max(map(len, columns.values()), default=0)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    cells = ([f"<td>{escape(_cell(value))}</td>" for value in row] for row in rows)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    more = f"<p>{count:,} rows</p>" if count > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
