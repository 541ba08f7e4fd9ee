"""Reduces records after fingerprinting to what is needed, so that texts do not wait in memory until many
documents are written at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from simhbase.corpus.fields import exact_json_value, with_field
from simhbase.corpus.outputs.files import json_line
from simhbase.corpus.record import Record

Fields = dict[str, Any]
Trim = Callable[[Record], Record]


def with_its_id(record: Record, id_field: str, *, has_field: bool = True) -> Record:
    """The record, with its id written into the id field of its JSON line, so that output files can be joined
    by it. (Without the line if Python cannot parse it.)

    has_field: the line has an id field, possibly nested.
    """

    def fields_of(read: Fields) -> Fields:
        return with_field(read, id_field, record.id) if has_field else read | {id_field: record.id}

    return record if record.json is None else _rewritten(record, record.json, fields_of)


def in_one_schema(record: Record, id_field: str, text_field: str, *, has_field: bool) -> Record:
    """The record with a JSON line that has its id, text, source and title, in every format. Fields of JSON
    lines and tables stay, also those of these names. has_field: as in `with_its_id`."""
    own = {"source": record.source, "title": record.title}
    if record.json is None:
        fields = {id_field: record.id, text_field: record.text} | own
        return record if record.text is None else record._replace(json=json_line(fields))
    named = with_its_id(record, id_field, has_field=has_field)
    return named if named.json is None else _rewritten(named, named.json, lambda read: read | own | read)


def _rewritten(record: Record, line: bytes, fields_of: Callable[[Fields], Fields]) -> Record:
    """The record with other fields in its JSON line; without the line if Python cannot parse it."""
    try:
        # json, not orjson: it keeps integers of more than 64 bits, and those of thousands of digits as texts.
        fields = fields_of(exact_json_value(line))
        written = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, ValueError):  # a thousand levels, which the parser accepts
        return record._replace(json=None)
    return record._replace(json=written.encode(errors="backslashreplace"))


def text_only(record: Record) -> Record:
    """The record without its JSON line."""
    return record._replace(json=None)


def measured(trim: Trim, record: Record) -> Record:
    """The trimmed record, with the length of its text as its value."""
    return trim(record)._replace(value=len(record.text or ""))


def without_content(record: Record) -> Record:
    """The record without its text and JSON line."""
    source, line, name, _, fingerprint, _, value, tags, is_named, _ = record
    return Record(source, line, name, None, fingerprint, None, value, tags, is_named)
