"""Values as JSON, the same for the command line's --json, the service and its client.

A dataclass is an object with its fields in their order, a Fingerprint is 16 hexadecimal digits, a datetime
RFC 3339.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from simhbase.errors import BadInput
from simhbase.model import Fingerprint

T = TypeVar("T")

_DIGITS = re.compile("[0-9a-f]{16}")
_PLACED = re.compile(r"(?s)(.*) - at `(?:key in )?\$(.*)`")
_SCHEMA_REFERENCE = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a part of what was read; where: its path, as documents.0.id, "" for all of it."""

    where: str
    problem: str


class Malformed(BadInput):
    pass


class Unfitting(BadInput):
    """JSON of another shape than was expected."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.where}: {problem.problem}" if problem.where else problem.problem)
        self.problem = problem


def encode(value: Any, **before: Any) -> bytes:
    """A value as JSON in one line, without its line break; before: what comes before the fields of an object.
    Raises TypeError for what is no value of the wire, UnicodeEncodeError for halves of surrogate pairs."""
    content = _ENCODER.encode(value)
    return _ENCODER.encode(before)[:-1] + b"," + content[1:] if before else content


def encode_any_text(value: Any, **before: Any) -> bytes:
    """Encode a value as JSON; a half of a surrogate pair, which UTF-8 cannot hold, is written as its escape:
    the command line has such ones in place of bytes that are not UTF-8."""
    try:
        return encode(value, **before)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_plain)
        return json.dumps(before | plain if before else plain, separators=(",", ":")).encode()


def decode(content: bytes, kind: type[T], place: str = "") -> T:
    """JSON as a value of this type; place: what problems call it. Raises Malformed, and Unfitting with the
    first problem."""
    try:
        return msgspec.json.decode(content, type=kind, dec_hook=_known)
    except msgspec.ValidationError as error:
        raise _unfitting(error, place) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the {place or 'content'} is not JSON in UTF-8: {error}") from error


def convert(values: Any, kind: type[T], place: str = "") -> T:
    """Mappings and lists of plain values as a value of this type. Raises Unfitting."""
    try:
        return msgspec.convert(values, kind, dec_hook=_known)
    except msgspec.ValidationError as error:
        raise _unfitting(error, place) from error


def schemas(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """JSON schemas of types, and those that they refer to, by name."""
    found, components = msgspec.json.schema_components(
        kinds, schema_hook=_schema, ref_template=_SCHEMA_REFERENCE
    )
    return list(found), components


def _plain(value: object) -> object:
    if isinstance(value, Fingerprint):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of the wire")


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
    return Unfitting(Problem(place + re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path), problem))


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
