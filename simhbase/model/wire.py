"""JSON of all values, used by --json, the service and its client.

A dataclass is an object with its fields in order, a Fingerprint a string of 16 hexadecimal digits, a datetime
an RFC 3339 string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from simhbase.errors import BadInput
from simhbase.model.values import Fingerprint

T = TypeVar("T")

_DIGITS = re.compile("[0-9a-f]{16}")
# What is wrong may have been given, so what ends the place is not looked for again and again.
_PLACED = re.compile(r"(?s)(.*) - at `(?:key in )?\$([^`]*)`")
MOST_SAID = 200  # characters of what is wrong with a value
_SCHEMA_REFERENCE = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in decoded data. where: the path, e.g. documents.0.id; "" for the whole value."""

    where: str
    problem: str


class Malformed(BadInput):
    pass


class Unfitting(BadInput):
    """Valid JSON of the wrong shape."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.where}: {problem.problem}" if problem.where else problem.problem)
        self.problem = problem


def encode(value: Any, **before: Any) -> bytes:
    """Encode a value as one line of JSON, without the line break. before: fields to put in front of an
    object's own. Raises TypeError for unsupported types, UnicodeEncodeError for lone surrogates."""
    content = _ENCODER.encode(value)
    return _ENCODER.encode(before)[:-1] + b"," + content[1:] if before else content


def encode_any_text(value: Any) -> bytes:
    """Encode a value as JSON, with lone surrogates escaped. (Command line arguments have them in place of
    bytes that are not UTF-8.)"""
    try:
        return encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain), separators=(",", ":")).encode()


def decode(content: bytes, kind: type[T], place: str = "") -> T:
    """Decode JSON as a value of a type. place: prefix for the path in errors. Raises Malformed, and Unfitting
    with the first problem."""
    try:
        return msgspec.json.decode(content, type=kind, dec_hook=_known)
    except msgspec.ValidationError as error:
        raise _unfitting(error, place) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the {place or 'content'} is not JSON in UTF-8: {error}") from error


def require_single_names(content: bytes, place: str) -> None:
    """Raise Malformed for JSON, decoded before, with a name twice in one object: parsers do not agree which
    value counts."""
    rest = content.replace(b"\\\\", b"")  # a backslash that is left escapes what is behind it
    strings = (rest.count(b'"') - rest.count(b'\\"')) // 2
    if strings != _strings_in(msgspec.json.decode(content)):
        json.loads(content, object_pairs_hook=partial(_single, place))


def _strings_in(value: Any) -> int:
    """Names and texts in a decoded value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_strings_in, value.values()))
    return sum(map(_strings_in, value)) if isinstance(value, list) else isinstance(value, str)


def _single(place: str, pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise Malformed(f"the {place} has {name[:MOST_SAID]!r} twice in one object: give it once")
        names.add(name)


def convert(values: Any, kind: type[T], place: str = "") -> T:
    """Convert plain mappings and lists to a type. Raises Unfitting."""
    try:
        return msgspec.convert(values, kind, dec_hook=_known)
    except msgspec.ValidationError as error:
        raise _unfitting(error, place) from error


def schemas(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON schemas of types, and the components they refer to, by name."""
    found, components = msgspec.json.schema_components(
        kinds, schema_hook=_schema, ref_template=_SCHEMA_REFERENCE
    )
    return list(found), components


def _plain(value: object) -> object:
    if isinstance(value, Fingerprint):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be encoded")


def _known(kind: type, value: object) -> object:
    if kind is Fingerprint:
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            return Fingerprint(value, 16)
        raise ValueError("a fingerprint is 16 hexadecimal digits in lower case")
    raise TypeError(f"{kind.__name__} is no type of the wire")


def _schema(kind: type) -> dict[str, Any]:
    if kind is Fingerprint:
        return {"type": "string", "pattern": f"^{_DIGITS.pattern}$"}
    raise TypeError(f"{kind.__name__} is no type of the wire")


def _unfitting(error: msgspec.ValidationError, place: str) -> Unfitting:
    found = _PLACED.fullmatch(str(error))
    problem, path = found.groups() if found else (str(error), "")
    if len(problem) > MOST_SAID:  # a field's name may be as long as the body
        problem = f"{problem[:MOST_SAID]}..."
    return Unfitting(Problem(place + re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path), problem))


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
