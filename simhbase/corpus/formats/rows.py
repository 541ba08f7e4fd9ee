"""Rows of tables as JSON objects, so that output files contain all their columns."""

from __future__ import annotations

from collections.abc import Sequence

from simhbase.corpus.record import InputOptions
from simhbase.errors import BadInput


def distinct_names(names: Sequence[str]) -> list[str]:
    """Unique field names for columns: those without a name, or with a repeated one, get their number
    appended."""
    found: dict[str, None] = {}
    for number, name in enumerate(names, 1):
        field = name
        while not field or field in found:
            field = f"{field or 'column'}_{number}"
        found[field] = None
    return list(found)


def readable(cell: bytes, options: InputOptions) -> str:
    r"""A cell that is not needed: bytes that cannot be decoded are escaped, e.g. \x80."""
    try:
        return options.decode_cell(cell)
    except BadInput:
        return cell.decode(errors="backslashreplace")
