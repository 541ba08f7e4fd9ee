"""Parses raw records."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

import orjson

from simhbase.corpus.fields import (
    TYPE_NAMES,
    JsonObject,
    has_field,
    joined_objects,
    json_value,
    plain_object,
)
from simhbase.corpus.names import plain_name
from simhbase.corpus.prepared import fingerprint_of
from simhbase.corpus.record import (
    FINGERPRINT_HINT,
    ID_HINT,
    TAG_HINT,
    TEXT_HINT,
    VALUE_HINT,
    InputOptions,
    Raw,
    ReadItems,
    Record,
    Reject,
    Value,
)
from simhbase.errors import BadInput
from simhbase.index.rows import id_problem
from simhbase.index.tags import Tags, tags_problem
from simhbase.model.ids import IDS_ARE, id_of
from simhbase.text.html import extract_html

# JSON objects on one line, and bytes of it for each further one: small ones take far more memory.
_FEW_JOINED, _JOINED_SIZE = 16, 64
_ONE_A_LINE = "write one a line (jq -c . does it)"


@dataclass(frozen=True, slots=True)
class Parser:
    """Parses chunks to records."""

    options: InputOptions

    def parse(self, items: ReadItems) -> list[Record | Reject]:
        """A record or reject for every item of a chunk, in order; of a line on which JSON objects were
        joined, several."""
        parsed = list[Record | Reject]()
        for item in items:
            found = self._parse(item) if isinstance(item, Raw) else item
            if isinstance(item, Raw) and isinstance(found, Reject):
                parsed += self._parts(item, found)
            else:
                parsed.append(found)
        return parsed

    def lost(self, item: Raw | Record | Reject, reason: str) -> Raw | Record | Reject:
        """The reject of a record whose text could not be extracted. reason: why."""
        if not isinstance(item, Raw):
            return item
        record_id = None
        with suppress(BadInput):
            if self.options.id_from != "text":
                record_id = self._id(item, self._given_id(item, self._fields(item)))
        return Reject(item.source, item.line, record_id, f"the text of the page was not extracted: {reason}")

    def texts(self, chunk: ReadItems) -> tuple[list[str], list[Reject], Counter[str]]:
        """The texts of a chunk, its rejects, and the number of texts by source."""
        items = self.parse(chunk)
        records = [item for item in items if isinstance(item, Record)]
        texts = [record.text or "" for record in records]
        return (
            texts,
            [item for item in items if isinstance(item, Reject)],
            Counter(record.source for record in records),
        )

    def _parts(self, raw: Raw, rejected: Reject) -> list[Record | Reject]:
        """The records of the JSON objects joined on a rejected line, or the reject, if there are none."""
        try:
            return [self._parse(part) for part in self._joined(raw)] or [rejected]
        except BadInput as error:
            return [replace(rejected, reason=str(error))]

    def _joined(self, raw: Raw) -> list[Raw]:
        """The JSON objects joined on a line, if there are several. Raises BadInput if they are too many."""
        objects, most = list[str](), _FEW_JOINED + len(raw.data) // _JOINED_SIZE
        if raw.holds == "json":
            with suppress(ValueError, RecursionError):
                objects = list(islice(joined_objects(self.options.decode(raw.data, raw.encoding)), most + 1))
        if len(objects) > most:
            raise BadInput(f"more than {most:,} JSON objects on one line: {_ONE_A_LINE}")
        return [_part(raw, *each) for each in enumerate(objects, 1)] if len(objects) > 1 else []

    def _parse(self, raw: Raw) -> Record | Reject:
        record_id = None
        try:
            fields = self._fields(raw)
            if self.options.id_from != "text":
                record_id = self._id(raw, self._given_id(raw, fields))
            is_text = self.options.fingerprint_field is None
            text, title = self._text(raw, fields) if is_text else (None, None)
            fingerprint = None if is_text else self._fingerprint(raw, fields)
            if record_id is None and text is not None:
                text_id = blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
                record_id = self._id(raw, text_id)
            value = self._value(raw, fields) if fields is None or self.options.value_field else None
            tags = self._tags(raw, fields) if self.options.tag_fields else self.options.tags
            line = fields.data.strip() if fields and self.options.whole_rows else raw.row
            name = record_id or ""
            found = text, fingerprint, line, value, tags, raw.is_named, title
            return Record(raw.source, raw.line, name, *found)
        except BadInput as error:
            return Reject(raw.source, raw.line, record_id, str(error))

    def _fields(self, raw: Raw) -> JsonObject | None:
        """Its object, None if the format has no JSON. Raises BadInput."""
        if raw.holds != "json":
            return None
        is_utf8 = (raw.encoding or self.options.encoding) in ("auto", "utf-8")
        if is_utf8 and (found := plain_object(raw.data)) is not None:
            return JsonObject(raw.data, found)
        text = self.options.decode(raw.data, raw.encoding)
        try:
            value = json_value(text)
        except orjson.JSONDecodeError as error:
            is_list = text.lstrip()[:1] == "["
            hint = "; a JSON list? Write one object a line (jq -c '.[]' does it)" if is_list else ""
            raise BadInput(f"not JSON: {error.msg} at column {error.colno}{hint}") from error
        if isinstance(value, list):
            raise BadInput("a JSON list, not an object: write one object a line (jq -c '.[]' does it)")
        if not isinstance(value, dict):
            raise BadInput(f"not a JSON object but {TYPE_NAMES[type(value)]}")
        try:
            return JsonObject(text.encode(), value)
        except UnicodeEncodeError as error:  # as UTF-7 may have
            raise BadInput("its text contains half of a surrogate pair, which is no character") from error

    def _given_id(self, raw: Raw, fields: JsonObject | None) -> Any:
        if raw.id is None and fields is not None:
            return fields.get(self.options.id_field, ID_HINT)
        return self.options.decode_cell(raw.id, raw.encoding) if isinstance(raw.id, bytes) else raw.id

    def _id(self, raw: Raw, value: Any) -> str:
        try:
            given = value if isinstance(value, str) else id_of(value)
        except BadInput as error:
            if isinstance(value, float):
                raise
            kind = TYPE_NAMES[type(value)]
            raise BadInput(f"field {self.options.id_field!r} is {kind}: {IDS_ARE}") from error
        if not given:
            raise BadInput("the id is empty")
        record_id = f"{_prefix(self.options.id_prefix, raw.source)}{given}"
        if problem := id_problem(record_id):
            raise BadInput(problem)
        return record_id

    def _text(self, raw: Raw, fields: JsonObject | None) -> tuple[str, str | None]:
        """The text, and its title if it is a page."""
        if raw.holds == "page":  # its encoding is stated by the page or its server
            return extract_html(raw.data, raw.encoding)
        text = self._content(raw, fields, self.options.text_field, TEXT_HINT)
        if not isinstance(text, str):
            raise self._wrong_content(text, "a text")
        return extract_html(text) if self.options.html else (text, None)

    def _fingerprint(self, raw: Raw, fields: JsonObject | None) -> int:
        value = self._prepared(raw, fields)
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise self._wrong_content(value, "a fingerprint")
        return fingerprint_of(value, self.options.fingerprint_bits, self.options.fingerprint_base or raw.base)

    def fingerprint_texts(self, raw: Raw) -> list[str]:
        """The texts of the fingerprints of a line; none for integers, and for what cannot be read."""
        texts = []
        parts = list[Raw]()
        with suppress(BadInput):
            parts = self._joined(raw)
        for part in parts or [raw]:
            with suppress(BadInput):
                value = self._prepared(part, self._fields(part))
                if isinstance(value, str):
                    texts.append(value)
        return texts

    def _content(self, raw: Raw, fields: JsonObject | None, field: str, hint: str) -> Any:
        """The text or fingerprint of a record, as it is given. field: its name in JSON objects."""
        if fields is not None:
            return fields.get(field, hint)
        return int(raw.data) if raw.holds == "integer" else self.options.decode(raw.data, raw.encoding)

    def _prepared(self, raw: Raw, fields: JsonObject | None) -> Any:
        """The fingerprint of a record, as it is given."""
        return self._content(raw, fields, self.options.fingerprint_field or "", FINGERPRINT_HINT)

    def _wrong_content(self, value: Any, wanted: str) -> BadInput:
        return BadInput(f"field {self.options.content_field!r} is {TYPE_NAMES[type(value)]}, not {wanted}")

    def _value(self, raw: Raw, fields: JsonObject | None) -> Value | None:
        value = None
        if fields is None:
            value = None if raw.value is None else self.options.decode_cell(raw.value, raw.encoding)
        elif (name := self.options.value_field) is not None and has_field(fields.fields, name):
            value = fields.get(name, VALUE_HINT)  # documents without it are kept last
        if isinstance(value, (bool, list, dict)):
            raise BadInput(
                f"field {self.options.value_field!r} is {TYPE_NAMES[type(value)]}: "
                "only texts and numbers can be compared"
            )
        known: Value | None = None if value == "" else value
        return known

    def _tags(self, raw: Raw, fields: JsonObject | None) -> Tags:
        named, values = self.options.tag_fields, list[Any]()
        if fields is not None:
            values = [fields.get(field, TAG_HINT) for _, field in named]
        elif raw.tags:
            decode = self.options.decode_cell
            values = [None if cell is None else decode(cell, raw.encoding) for cell in raw.tags]
        else:
            raise BadInput(f"no field {named[0][1]!r}: this format has none to take tags from")
        found = (
            (name, self._tag(name, field, value)) for (name, field), value in zip(named, values, strict=True)
        )
        tags = tuple(sorted([*self.options.tags, *found]))
        if problem := tags_problem(tags):
            raise BadInput(problem)
        return tags

    def _tag(self, name: str, field: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise BadInput(f"field {field!r} is {TYPE_NAMES[type(value)]}: tags are texts or integers")
        if value == "":
            raise BadInput(f"field {field!r} is empty: it gives the tag {name!r}, which needs a value")
        return str(value)


@lru_cache
def _prefix(given: str, source: str) -> str:
    return given.replace("{file}", plain_name(source))


def _part(raw: Raw, number: int, text: str) -> Raw:
    """One of several objects of a line; ids made of the line count them from the second on."""
    part_id = f"{raw.id}:{number}" if isinstance(raw.id, str) and number > 1 else raw.id
    return raw._replace(id=part_id, data=text.encode(), encoding="utf-8")
