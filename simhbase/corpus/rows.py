"""Rows of tables as JSON objects, so that what is written out has all their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simhbase.corpus.outputs import json_line
from simhbase.corpus.record import InputOptions, Raw
from simhbase.errors import BadInput


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names for the fields of an object: those of the columns, with its number behind one that has none or
    that of an earlier column."""
    found: dict[str, None] = {}
    for number, name in enumerate(names, 1):
        field = name
        while not field or field in found:
            field = f"{field or 'column'}_{number}"
        found[field] = None
    return list(found)


def whole_row(raw: Raw, row_id: str | None, fields: dict[str, Any]) -> Raw:
    """A record of which all is known: its id, None where it is made of its text, and its fields."""
    data = json_line(fields)
    return raw._replace(id=row_id, data=data, value=None, tags=(), holds="json", encoding="utf-8")


def readable(cell: bytes, options: InputOptions) -> str:
    """A cell that nobody asks for: bytes that are not in the encoding are written as \\x80 and the like."""
    try:
        return options.decode(cell)
    except BadInput:
        return cell.decode(errors="backslashreplace")
