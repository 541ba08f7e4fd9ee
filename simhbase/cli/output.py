"""Output: results on standard output, as text or JSON; messages on standard error.

Commands print only through this module, so --json works the same everywhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from datetime import datetime
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TextIO, TypeVar

import click

from simhbase.errors import OutputFailed, UsageError
from simhbase.model.urls import without_passwords
from simhbase.process.logs import printable, printable_json

if TYPE_CHECKING:
    from simhbase.model.stored import Met

Record = TypeVar("Record")

TAKEN = "simhbase.standard_output"  # key in a context's meta: the option that writes to standard output
_ESTIMATE = {"value", "low", "high", "pairs"}
_NOT_SHOWN = ("estimates", "ranges", "warnings", "largest", "sources")
MOST_SAID = 8_000  # characters of an error
ROUNDED = 20_000  # estimates from here on are shown with three digits
# Values of reports that are not shown to people if they are 0 or unknown.
_RARE = (
    "duplicates_of_stored",
    "largest_drawer",
    "new_store",
    "not_stored",
    "outdated",
    "unreadable_sources",
    "unusable_sources",
    "lost_sketches",
    "not_contained",
    "truncated",
    "unreadable_rows",
    "removable",
    "same",
)


class Report(Protocol):
    """The result of a job: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Output:
    """Prints results, as JSON or as text.

    In text, ids come last in a line, as they may be long, and control characters are escaped. Each call
    flushes, so that pipes get lines at once.

    as_json: print JSON: an object for a summary, a line for each record. stdout_taken: standard output is an
    output file of this command, so summaries go to standard error.
    """

    def __init__(self, *, as_json: bool = False, stdout_taken: bool = False) -> None:
        self.as_json = as_json
        self._stdout_taken = stdout_taken

    def summary(self, values: Mapping[str, Any] | Report) -> None:
        """Print the result of a command.

        Values may be mappings and lists (a list of mappings becomes a table). `estimates` lists inexact
        values; `warnings` are skipped in text, as they were printed as messages.
        """
        named = values if isinstance(values, Mapping) else values_of(values)
        if self.as_json:
            self._write([_json(named)])
            return
        shown = _for_people(named)
        if self._stdout_taken:
            for line in _aligned(shown):
                message(line)
        else:
            self._write(map(_text, _aligned(shown)))

    def rows(self, rows: Sequence[Mapping[str, Any] | Report]) -> None:
        if self.as_json:
            self._write(map(_json, rows))
        elif rows:
            self._write(
                map(_text, table([row if isinstance(row, Mapping) else values_of(row) for row in rows]))
            )

    def records(
        self,
        records: Iterable[Record],
        text: Callable[[Record], Iterable[str]],
        as_json: Callable[[Record], Any] = lambda record: record,
    ) -> None:
        """Print records. text: returns the lines of one; as_json: returns the JSON value of one."""
        if self.as_json:
            self._write(_json(as_json(record)) for record in records)
        else:
            self._write(_text(line) for record in records for line in text(record))

    def tab_separated(
        self, names: Sequence[str], records: Iterable[Record], cells: Callable[[Record], Iterable[str]]
    ) -> None:
        """Print records as tab-separated values under a header."""
        if self.as_json:
            self._write(map(_json, records))
        else:
            rows = chain([names], map(cells, records))
            self._write(b"\t".join(map(_text, row)) for row in rows)

    def hint(self, text: str) -> None:
        """Print a message, unless the output is JSON that goes to a program."""
        if not self.as_json or sys.stderr.isatty():
            message(text)

    def _write(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with _naming_stdout():
                sys.stdout.buffer.write(line + b"\n")
        with _naming_stdout():
            sys.stdout.buffer.flush()


def print_script(script: str, output: Output) -> None:
    """Print a script for the shell of a store."""
    output.records([{"script": script}], lambda each: each["script"].splitlines())


def message(text: str) -> None:
    """Print a line on standard error."""
    click.echo(printable(without_passwords(text)), err=True)


def fail(text: str, exit_code: int) -> NoReturn:
    if len(text) > MOST_SAID:  # it may quote a file of strangers
        text = f"{text[: MOST_SAID // 2]} ... {text[-MOST_SAID // 2 :]}"
    with suppress(OSError):  # standard error may be closed
        for line in f"Error: {text}".split("\n"):
            message(line)
    raise click.exceptions.Exit(exit_code)


def local_time(milliseconds: int) -> str:
    """Milliseconds since 1970 as local time."""
    return _shown(datetime.fromtimestamp(milliseconds / 1000))


def closeness(distance: int, similarity: float | None, *, exact: bool = False) -> str:
    """How near two documents are. exact: the similarity is no estimate."""
    if similarity is None:
        return f"{distance} bits"
    return f"{'' if exact else 'about '}{similarity:.2f} similar"


def times_met(met: Met | None) -> str:
    """How often claims were refused because of a document; empty if the store does not count them."""
    if met is None:
        return ""
    count = f"{met.count:,} or more" if met.truncated else f"{met.count:,}"
    if met.first is None or met.last is None:
        return f"met {count}  "
    return f"met {count}, {_shown(met.first)} to {_shown(met.last)}  "


def values_of(report: Report) -> dict[str, Any]:
    """The values of a report by name, without the input counts."""
    values = asdict(report)
    return {each.name: values[each.name] for each in fields(report) if each.name != "counts"}


def results_option(function: Callable[..., None]) -> Callable[..., None]:
    """Adds `--json` to a command that prints lines for each record."""
    return json_option(function, prints_records=True)


def json_option(function: Callable[..., None], *, prints_records: bool = False) -> Callable[..., None]:
    """Adds `--json`; the command takes `output`. Raises UsageError if an output file on standard output would
    be mixed with results."""

    @wraps(function)
    def with_output(*args: Any, as_json: bool, **kwargs: Any) -> None:
        taken_by = click.get_current_context().meta.get(TAKEN)
        if taken_by and (as_json or prints_records):
            results = "--json" if as_json else "the results"
            raise UsageError(f"{taken_by} - and {results} both go to standard output: give {taken_by} a file")
        _require_stdout()
        function(*args, output=Output(as_json=as_json, stdout_taken=bool(taken_by)), **kwargs)

    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON: an object, or a line for each record."
    )(with_output)


def _require_stdout() -> None:
    """Raise OutputFailed before any work if standard output was closed."""
    with suppress(ValueError, AttributeError):  # it is no file in tests
        number = sys.stdout.fileno()
        with _naming_stdout():
            os.write(number, b"")


@contextmanager
def _naming_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise OutputFailed(f"cannot write to standard output: {error.strerror}") from error


def discard(stream: TextIO) -> None:
    """Discard Python's buffer for standard output or error, as flushing it at exit would fail again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _json(value: Any) -> bytes:
    from simhbase.model import wire

    return printable_json(wire.encode_any_text(value))


def _text(line: str) -> bytes:
    # A lone surrogate is a byte of the command line that is not UTF-8.
    return printable(line).encode(errors="backslashreplace")


def _for_people(values: Mapping[str, Any]) -> dict[str, Any]:
    estimates, ranges = values.get("estimates", ()), values.get("ranges", {})
    shown = {
        name: _about(value, ranges.get(name)) if name in estimates and value is not None else value
        for name, value in values.items()
        if name not in _NOT_SHOWN and (value or name not in _RARE)
    }
    if largest := values.get("largest"):
        shown["largest group"] = f"{largest[0]['group']} ({largest[0]['documents']:,} documents)"
    if len(values.get("sources", ())) > 1:
        shown["sources"] = values["sources"]
    return shown


def _about(value: float, within: tuple[int, int] | None) -> str:
    """An estimate without digits that mean nothing. within: its range, if it is known."""
    counted = within is not None and within[0] == within[1]
    if value >= ROUNDED and not counted:
        value = round(value, 3 - len(str(round(value))))
    about = f"about {_shown(value)}"
    return about if within is None or counted else f"{about} ({within[0]:,} to {within[1]:,})"


def _aligned(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Names and values in two columns; nested values follow, indented."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        label = f"{indent}{_label(name):{width}}"
        if _is_estimate(value):
            yield f"{label}  {_percentage(value)} %"
        elif value and isinstance(value, (Mapping, Sequence)) and not isinstance(value, str):
            yield label.rstrip()
            if isinstance(value, Mapping):
                yield from _aligned(value, indent + "  ")
            else:
                lines = table(value) if isinstance(value[0], Mapping) else map(str, value)
                yield from (f"{indent}  {line}" for line in lines)
        else:
            yield f"{label}  {_shown(value)}"


def _label(name: str) -> str:
    """A name for people. Those of attributes in HBase stay as its shell takes them."""
    return name.replace("_", " ") if name.islower() else name


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A header, then a line per row; a nested mapping becomes a column per value."""
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    cells = [[_label(name) for name in names]]
    cells += [[_cell(row.get(name)) for name in names] for row in flat]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and not _is_estimate(value):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value


def _cell(value: Any) -> str:
    if _is_estimate(value):
        return _percentage(value)
    return "-" if value is None else _shown(value)


def _is_estimate(value: Any) -> bool:
    """True for a share with its interval and number of pairs."""
    return isinstance(value, Mapping) and value.keys() == _ESTIMATE


def _percentage(value: Mapping[str, Any]) -> str:
    return f"{100 * value['value']:.1f} ({100 * value['low']:.0f}-{100 * value['high']:.0f})"


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() if type(value) is int:
            return f"{value:,}"
        case float():
            return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
        case datetime():
            return value.astimezone().isoformat(" ", "seconds")
    return "none" if value is None or value in ([], {}) else str(value)
