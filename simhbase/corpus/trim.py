"""What is left of a record that has its fingerprint: no text travels between processes for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from simhbase.corpus.fields import with_field
from simhbase.corpus.record import InputOptions, Record


def whole(record: Record) -> Record:
    return record


@dataclass(frozen=True)
class WithItsId:
    """The record as it is, but for its JSON line: that has the record's id in its id field, so that
    it can be joined with what else names the record. (Without a line where Python cannot read it.)
    Cheap to send to another process.

    has_field: whether the line has one, maybe inside an object.
    """

    id_field: str
    has_field: bool = True

    def __call__(self, record: Record) -> Record:
        if record.json is None:
            return record
        try:
            # json, not orjson, as it keeps integers beyond 64 bits.
            read = json.loads(record.json)
            fields = (
                with_field(read, self.id_field, record.id)
                if self.has_field
                else read | {self.id_field: record.id}
            )
            line = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        except RecursionError:  # a thousand levels, which the parser lets pass
            return replace(record, json=None)
        return replace(record, json=line)


def text_alone(record: Record) -> Record:
    """The record without the line it came from."""
    return replace(record, json=None)


@dataclass(frozen=True)
class Measured:
    """What another trim leaves of a record, with the length of its text as its value. Cheap to send to
    another process.
    """

    trim: Callable[[Record], Record]

    def __call__(self, record: Record) -> Record:
        return replace(self.trim(record), value=len(record.text or ""))


def without_content(record: Record) -> Record:
    """The record without its text, and without the line it came from."""
    return Record(
        record.source,
        record.line,
        record.id,
        fingerprint=record.fingerprint,
        value=record.value,
        tags=record.tags,
    )


def unique_trim(options: InputOptions) -> Callable[[Record], Record]:
    """What is left of a record that may be written out: everything, with the id that other files name."""
    has_field = options.id_from == "field"
    return whole if has_field and not options.id_prefix else WithItsId(options.id_field, has_field)
