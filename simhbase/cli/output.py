"""What commands say: results on standard output, as text to read or as JSON; messages on stderr.

Commands never print by themselves, so that `--json` means the same everywhere.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol

import click

from simhbase.bulk.outputs import json_line, shown_similarity
from simhbase.cli.tabular import is_estimate, shown_estimate, table_lines
from simhbase.model import Lookup, Match

Answer = tuple[str | None, Lookup]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class Output(Protocol):
    """Results, by kind. Each call is flushed: whoever reads the other end of a pipe gets it now."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """What a command did or found, by name; values may be mappings and lists themselves (a list
        of mappings is a table). Those that `estimates` names are no exact numbers."""

    def hint(self, text: str) -> None:
        """What else a person could ask for."""

    def lookups(self, answers: Iterable[Answer]) -> None:
        """Answers to queries, each with the query's id if it has one."""

    def fingerprints(self, rows: Iterable[tuple[str, str]]) -> None:
        """Ids and hex digits."""

    def script(self, text: str) -> None:
        """A file for another program."""


class JsonOutput:
    """A JSON object a summary, a line of JSON a record."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """One object."""
        self._lines([values])

    def hint(self, text: str) -> None:
        """Nothing: a program reads this."""

    def lookups(self, answers: Iterable[Answer]) -> None:
        """A line a query."""
        self._lines(_lookup(query, found) for query, found in answers)

    def fingerprints(self, rows: Iterable[tuple[str, str]]) -> None:
        """A line a document."""
        self._lines({"id": document, "fingerprint": digits} for document, digits in rows)

    def script(self, text: str) -> None:
        """One object."""
        self._lines([{"script": text}])

    def _lines(self, values: Iterable[Mapping[str, Any]]) -> None:
        _write(json_line(value) + b"\n" for value in values)


class ConsoleOutput:
    """Text for people. Ids come last in a line: they may be long, and are never cut; what a terminal
    would obey is shown as an escape."""

    def summary(self, values: Mapping[str, Any]) -> None:
        """A line a value."""
        estimates = values.get("estimates", ())
        shown = {
            name: f"about {_shown(value)}" if name in estimates and value is not None else value
            for name, value in values.items()
            if name != "estimates"
        }
        _write(_encoded(_aligned(shown)))

    def hint(self, text: str) -> None:
        """A message."""
        message(text)

    def lookups(self, answers: Iterable[Answer]) -> None:
        """A block a query: its fingerprint and id, then a line a match."""
        _write(_encoded(line for query, found in answers for line in _lookup_lines(query, found)))

    def fingerprints(self, rows: Iterable[tuple[str, str]]) -> None:
        """A line a document."""
        _write(_encoded(f"{digits}  {document}" for document, digits in rows))

    def script(self, text: str) -> None:
        """The file as it is."""
        _write([text.encode()])


def message(text: str) -> None:
    """A line on stderr."""
    click.echo(printable(text), err=True)


def printable(text: str) -> str:
    """A text without what a terminal would obey: control characters as \\x1b and the like."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def json_option(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--json`; the command takes an `output`."""

    @wraps(command)
    def with_output(*args: Any, as_json: bool, **kwargs: Any) -> None:
        output: Output = JsonOutput() if as_json else ConsoleOutput()
        command(*args, output=output, **kwargs)

    decorated: Callable[..., None] = with_output
    text = "Print JSON: one object, or a line a record."
    return click.option("--json", "as_json", is_flag=True, help=text)(decorated)


def _write(lines: Iterable[bytes]) -> None:
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    # Half of a surrogate pair stands for a byte of the command line that is no UTF-8.
    return (f"{printable(line)}\n".encode(errors="backslashreplace") for line in lines)


def _lookup(query: str | None, found: Lookup) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": query,
        "fingerprint": _digits(found.fingerprint),
        "matches": list(map(_match, found.matches)),
        "truncated": found.truncated,
    }
    return values if found.reason is None else values | {"reason": found.reason}


def _match(match: Match) -> dict[str, Any]:
    values = {"id": match.id, "fingerprint": _digits(match.fingerprint), "distance": match.distance}
    return values if match.similarity is None else values | {"similarity": shown_similarity(match.similarity)}


def _digits(fingerprint: int | None) -> str | None:
    return None if fingerprint is None else f"{fingerprint:016x}"


def _lookup_lines(query: str | None, found: Lookup) -> Iterator[str]:
    digits = _digits(found.fingerprint) or "no fingerprint"
    name = digits if query is None else f"{digits:16}  {query}"
    if found.reason is not None:
        yield f"{name}: {found.reason}"
        return
    matches = f"{len(found.matches)} near" if found.matches else "nothing near"
    more = ", and there may be more (truncated)" if found.truncated else ""
    yield f"{name}: {matches}{more}"
    for match in found.matches:
        near = f"{match.distance} bits" if match.similarity is None else f"{match.similarity:.2f} similar"
        yield f"  {near}  {_digits(match.fingerprint)}  {match.id}"


def _aligned(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Names and values in two columns; what is inside a value follows, indented."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        label = f"{indent}{name.replace('_', ' '):{width}}"
        if is_estimate(value):
            yield f"{label}  {shown_estimate(value)} %"
        elif isinstance(value, Mapping) and value:
            yield label.rstrip()
            yield from _aligned(value, indent + "  ")
        elif isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
            yield label.rstrip()
            yield from (f"{indent}  {line}" for line in table_lines(value, _shown))
        elif isinstance(value, Sequence) and not isinstance(value, str) and value:
            yield label.rstrip()
            yield from (f"{indent}  {item}" for item in value)
        else:
            yield f"{label}  {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "none" if value is None or value in ([], {}) else str(value)
