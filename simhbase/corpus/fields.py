"""Fields of JSON objects by name; a dot steps into nested objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simhbase.errors import BadInput

TYPE_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number with a fraction, or one beyond 64 bits",
    str: "a text",
    list: "a list",
    dict: "an object",
}


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
