"""Reduces records after fingerprinting to what is needed, so that texts do not wait in memory until many
documents are written at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from simhbase.corpus.fields import with_field
from simhbase.corpus.record import InputOptions, Record


def whole(record: Record) -> Record:
    return record


def with_its_id(record: Record, id_field: str, *, has_field: bool = True) -> Record:
    """The record, with its id written into the id field of its JSON line, so that output files can be joined
    by it. (Without the line if Python cannot parse it.)

    has_field: the line has an id field, possibly nested.
    """
    if record.json is None:
        return record
    try:
        # json, not orjson: it keeps integers of more than 64 bits.
        read = json.loads(record.json, strict=False)
        fields = with_field(read, id_field, record.id) if has_field else read | {id_field: record.id}
        line = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
    except (RecursionError, ValueError):  # a thousand levels or digits, which the parser accepts
        return record._replace(json=None)
    return record._replace(json=line)


def text_only(record: Record) -> Record:
    """The record without its JSON line."""
    return record._replace(json=None)


def measured(trim: Callable[[Record], Record], record: Record) -> Record:
    """The trimmed record, with the length of its text as its value."""
    return trim(record)._replace(value=len(record.text or ""))


def without_content(record: Record) -> Record:
    """The record without its text and JSON line."""
    source, line, name, _, fingerprint, _, value, tags, is_named = record
    return Record(source, line, name, None, fingerprint, None, value, tags, is_named)


def unique_trim(options: InputOptions) -> Callable[[Record], Record]:
    """The trim for records that may be written to the file of unique documents."""
    has_field = options.id_from == "field"
    if has_field and not options.id_prefix:
        return whole
    return partial(with_its_id, id_field=options.id_field, has_field=has_field)
