"""JSON objects as users have them, and their fields by name; a dot steps into nested objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from simhbase.errors import BadInput


class _WithRepeats(dict[str, Any]):
    """An object with several values under a name, of which it holds the last. A line may have a million."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = sorted(name for name, _ in pairs)
        self.repeated = tuple(name for name, following in pairwise(names) if name == following)


TYPE_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number with a fraction, or one beyond 64 bits",
    str: "a text",
    list: "a list",
    dict: "an object",
    _WithRepeats: "an object",
}


_MOST_DIGITS = 4300  # that Python converts to an integer
_SPACE = re.compile("[ \t\r\n\v\f\x1e\ufeff]*")  # around an object; RFC 7464 begins each with 1e
EXACT = 2.0**53  # orjson gives integers beyond 64 bits as floats, which are inexact from here on


def plain_object(data: bytes) -> dict[str, Any] | None:
    """The object of a JSON text in UTF-8; None if it is none, or for `json_value` to read."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text; also with NaN, Infinity, halves of surrogate pairs and control characters in
    strings. Integers beyond 64 bits may be floats: from EXACT on, ask `exact_json_value`. Raises
    orjson.JSONDecodeError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        with suppress(ValueError, RecursionError):
            return exact_json_value(text)
        raise


def exact_json_value(text: str | bytes) -> Any:
    """As `json_value`, but integers beyond 64 bits are exact. Raises ValueError, RecursionError."""
    return _DECODER.decode(text if isinstance(text, str) else text.decode())


def exact_object(data: bytes) -> dict[str, Any]:
    """The object of a line that `json_value` reads, with exact integers. Raises BadInput for deep nesting."""
    try:
        found: dict[str, Any] = exact_json_value(data)
    except RecursionError as error:
        raise BadInput("its values are nested too deeply to tell which of its fields count") from error
    return found


def joined_objects(text: str) -> Iterator[str]:
    """The texts of several JSON objects on one line, with nothing or a comma between them. Raises ValueError,
    RecursionError."""
    place = 0
    while place < len(text):
        place = _SPACE.match(text, place).end()  # type: ignore[union-attr]  # it matches everywhere
        if place < len(text):
            _, end = _DECODER.raw_decode(text, place)
            yield text[place:end]
            place = end + text[end : end + 1].count(",")


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _WithRepeats(pairs)


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, object_pairs_hook=_object)


class Forms(NamedTuple):
    """How a name is in JSON texts. quoted: as it is nearly always; escape: what escapes of its characters
    begin with; escaped: finds them. Another form of the name has one."""

    quoted: bytes
    escape: bytes
    escaped: re.Pattern[bytes]


@lru_cache
def forms(name: str) -> Forms:
    digits = name.encode("utf-16-be", "surrogatepass").hex()
    escapes = {rf"\u{digits[place : place + 4]}" for place in range(0, len(digits), 4)}
    escape = r"\u00" if name.isascii() else r"\u"
    if "/" in name:  # it has a short one, which only some programs write
        escapes, escape = escapes | {r"\/"}, "\\"
    forms = "|".join(map(re.escape, sorted(escapes))) or "(?!)"
    escaped = re.compile(forms.encode(), re.IGNORECASE)
    return Forms(f'"{name}"'.encode(errors="surrogatepass"), escape.encode(), escaped)


def require_one_value(data: bytes, record: dict[str, Any], name: str) -> None:
    """Raise BadInput if a field that the record has is there twice in its text."""
    steps = _steps(record, name)
    known = [forms(step) for step in dict.fromkeys(steps)]
    is_escaped = any(each.escaped.search(data) for each in known)
    if not is_escaped and sum(data.count(each.quoted) for each in known) == len(steps):
        return  # as nearly always: each name is there once
    value: Any = exact_object(data)
    for step in steps:
        if isinstance(value, _WithRepeats) and step in value.repeated:
            raise BadInput(f"field {name!r} is there twice: which value counts is not certain")
        value = value[step]


class JsonObject(NamedTuple):
    """A JSON object and its text, in UTF-8."""

    data: bytes
    fields: dict[str, Any]

    def get(self, name: str, hint: str) -> Any:
        """The value of a field; an integer of any length is exact. Raises BadInput."""
        (quoted, escape, escaped), data = forms(name), self.data
        # As nearly always: it is there once. Looked for from both ends, as names come before long texts, and
        # Python passes these four times as fast from their end.
        is_once = 0 <= data.find(quoted) == data.rfind(quoted)
        if is_once and name in self.fields and (data.rfind(escape) < 0 or not escaped.search(data)):
            value = self.fields[name]
        else:
            value = field_of(self.fields, name, hint)
            require_one_value(data, self.fields, name)
        if isinstance(value, float) and abs(value) >= EXACT:
            return field_of(exact_object(data), name, hint)
        return value


def field_of(record: dict[str, Any], name: str, hint: str) -> Any:
    """The value of a field. Raises BadInput with the missing step and a hint."""
    value: Any = record
    path: list[str] = []
    for step in _steps(record, name):
        if not isinstance(value, dict):
            reason = f"{'.'.join(path)!r} is {TYPE_NAMES[type(value)]}, not an object"
            raise BadInput(f"no field {name!r}: {reason}: {hint}")
        if step not in value:
            place = f" in {'.'.join(path)!r}," if path else ""
            missing = repr(name) if name == step else f"{name!r}: {step!r} is not{place}"
            raise BadInput(f"no field {missing} {listed(value)}: {hint}")
        value = value[step]
        path.append(step)
    return value


def has_field(record: dict[str, Any], name: str) -> bool:
    with suppress(BadInput):
        field_of(record, name, "")
        return True
    return False


def with_field(record: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The record with another value of an existing field."""
    changed = inner = dict(record)
    *above, last = _steps(record, name)
    for step in above:
        inner[step] = dict(inner[step])
        inner = inner[step]
    inner[last] = value
    return changed


def listed(names: Iterable[str]) -> str:
    """Field names for a message, limited to a line."""
    return f"among {(', '.join(map(repr, names)) or 'none')[:200]}"


def _steps(record: dict[str, Any], name: str) -> list[str]:
    return [name] if name in record else name.split(".")
