"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice

MOST_ROWS = 10
_MOST_CHARACTERS = 60  # of a cell


def html_table(columns: Mapping[str, Sequence[object]]) -> str:
    """Columns of equal length as an HTML table: its first rows, and how many there are."""
    rows = list(islice(zip(*columns.values(), strict=True), MOST_ROWS))
    count = max(map(len, columns.values()), default=0)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    more = f"<p>{count:,} rows</p>" if count > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    shown = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
    return f"<td>{escape(shown)}</td>"
