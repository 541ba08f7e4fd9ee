"""What commands say: results on standard output, as text to read or as JSON; messages on stderr.

Commands never print by themselves, so that `--json` means the same everywhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from datetime import datetime
from functools import wraps
from typing import Any, ClassVar, Protocol, TypeVar

import click

from simhbase import wire
from simhbase.cli.tabular import is_estimate, shown_estimate, table_lines
from simhbase.corpus.rejects import Counts
from simhbase.errors import OutputFailed, UsageError
from simhbase.jobs.lookups import Answer
from simhbase.model import Candidate, Drawer, Explanation, Fingerprint, Lookup

# What messages of the library name, and the options that say the same.
Reasoned = TypeVar("Reasoned", Lookup, Explanation)

OPTIONS: Mapping[str, str] = {
    "share": "--boilerplate-share",
    "tags": "--tag",
    "tag_fields": "--tag-field",
} | {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "compression",
        "date_field",
        "delimiter",
        "documents",
        "duplicates",
        "encoding",
        "evidence",
        "fingerprint_field",
        "format",
        "id_field",
        "id_from",
        "id_prefix",
        "ids_are_unique",
        "jaccard",
        "keep",
        "keep_rejected",
        "max_record_bytes",
        "max_rejects",
        "min_similarity",
        "name",
        "new",
        "read_only",
        "regions",
        "sample",
        "skip_existing",
        "text_field",
        "ttl",
        "unique",
        "unique_only",
        "verify",
        "via",
        "work_folder",
        "workers",
    )
}
_PARAMETER = re.compile(rf"`({'|'.join(OPTIONS)})(?:=(?:True|'([^'`]*)'))?`")
TAKEN = "simhbase.standard_output"  # the option whose file standard output is, in a context's meta
# What a terminal obeys, and the marks that have it show letters in another order than they are in.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Output(Protocol):
    """Results, by kind. Each call is flushed: whoever reads the other end of a pipe gets it now.

    is_for_programs: whether nobody is meant to read it.
    """

    is_for_programs: ClassVar[bool]

    def summary(self, values: Mapping[str, Any]) -> None:
        """What a command did or found, by name; values may be mappings and lists themselves (a list
        of mappings is a table). Those that `estimates` names are no exact numbers; `warnings` are for
        programs, people have had them as messages."""

    def report(self, report: Report) -> None:
        """The summary of what a job returned: its values, but for the counts of its inputs."""

    def hint(self, text: str) -> None:
        """What else a person could ask for."""

    def end(self, text: str) -> None:
        """What a person wants to know when all results are there."""

    def lookups(self, answers: Iterable[Answer]) -> None:
        """Answers to queries, each with the query's id if it has one."""

    def explanations(self, explained: Iterable[tuple[str | None, Explanation]]) -> None:
        """The same of what lookups did."""

    def fingerprints(self, rows: Iterable[tuple[str, str]]) -> None:
        """Ids and hex digits."""

    def rows(self, rows: Sequence[Row]) -> None:
        """What there is of one kind: mappings of the same names, or data classes."""

    def script(self, text: str) -> None:
        """A file for another program."""


class JsonOutput:
    """A JSON object a summary, a line of JSON a record."""

    is_for_programs: ClassVar[bool] = True

    def summary(self, values: Mapping[str, Any]) -> None:
        """One object."""
        self._lines([wire.encode_any_text(values)])

    def report(self, report: Report) -> None:
        """The summary of a report."""
        self.summary(values_of(report))

    def hint(self, text: str) -> None:
        """Nothing: a program reads this."""

    def end(self, text: str) -> None:
        """A message where a person sees it."""
        if sys.stderr.isatty():
            message(text)

    def lookups(self, answers: Iterable[Answer]) -> None:
        """A line a query."""
        self._lines(wire.encode_any_text(_naming_options(found), id=query) for query, found in answers)

    def explanations(self, explained: Iterable[tuple[str | None, Explanation]]) -> None:
        """A line a query."""
        self._lines(wire.encode_any_text(_naming_options(found), id=query) for query, found in explained)

    def fingerprints(self, rows: Iterable[tuple[str, str]]) -> None:
        """A line a document."""
        self._lines(
            wire.encode_any_text({"id": document, "fingerprint": digits}) for document, digits in rows
        )

    def rows(self, rows: Sequence[Row]) -> None:
        """A line each."""
        self._lines(map(wire.encode_any_text, rows))

    def script(self, text: str) -> None:
        """One object."""
        self._lines([wire.encode_any_text({"script": text})])

    def _lines(self, lines: Iterable[bytes]) -> None:
        _write(line + b"\n" for line in lines)


class ConsoleOutput:
    """Text for people. Ids come last in a line: they may be long, and are never cut; what a terminal
    would obey is shown as an escape. summary_beside: summaries go to stderr."""

    def __init__(self, *, summary_beside: bool = False) -> None:
        self._summary_beside = summary_beside

    is_for_programs: ClassVar[bool] = False

    def summary(self, values: Mapping[str, Any]) -> None:
        """A line a value."""
        estimates = values.get("estimates", ())
        shown = {
            name: f"about {_shown(value)}" if name in estimates and value is not None else value
            for name, value in values.items()
            if name not in ("estimates", "warnings")
        }
        if self._summary_beside:
            for line in _aligned(shown):
                message(line)
        else:
            _write(_encoded(_aligned(shown)))

    def report(self, report: Report) -> None:
        """The summary of a report, without what there is rarely, with groups in a line, and with sources
        where there are several."""
        values = values_of(report)
        if largest := values.pop("largest", ()):
            sizes = ", ".join(f"{each['documents']:,}" for each in largest)
            values["largest groups"] = f"{sizes}: the largest is that of {largest[0]['group']}"
        if "sources" in values:  # behind the line
            values["sources"] = values.pop("sources")
        if len(values.get("sources", ())) < 2:
            values.pop("sources", None)
        self.summary({name: value for name, value in values.items() if value or name not in RARE})

    def hint(self, text: str) -> None:
        """A message."""
        message(text)

    def end(self, text: str) -> None:
        """A message."""
        message(text)

    def lookups(self, answers: Iterable[Answer]) -> None:
        """A block a query: its fingerprint and id, then a line a match."""
        _write(_encoded(line for query, found in answers for line in _lookup_lines(query, found)))

    def explanations(self, explained: Iterable[tuple[str | None, Explanation]]) -> None:
        """A block a query: its fingerprint and id, a table of drawers, and one of candidates."""
        _write(_encoded(line for query, found in explained for line in _explanation_lines(query, found)))

    def fingerprints(self, rows: Iterable[tuple[str, str]]) -> None:
        """A line a document."""
        _write(_encoded(f"{digits}  {document}" for document, digits in rows))

    def rows(self, rows: Sequence[Row]) -> None:
        """A table."""
        if rows:
            values = [row if isinstance(row, Mapping) else _fields(row) for row in rows]
            _write(_encoded(table_lines(values, _shown)))

    def script(self, text: str) -> None:
        """The file as it is."""
        _write([text.encode()])


RARE = ("duplicates_of_stored", "outdated", "unreadable_sources", "lost_sketches", "unreadable_rows")


class Report(Protocol):
    """What a job returns: a data class."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Row = Mapping[str, Any] | Report


def _fields(row: Report) -> dict[str, Any]:
    return {each.name: getattr(row, each.name) for each in fields(row)}


def values_of(report: Report) -> dict[str, Any]:
    """What a report says by name, but for the counts of its inputs."""
    names = [each.name for each in fields(report) if not isinstance(getattr(report, each.name), Counts)]
    values = asdict(report)
    return {name: values[name] for name in names}


def message(text: str) -> None:
    """A line on stderr."""
    click.echo(printable(naming_options(text)), err=True)


def naming_options(text: str) -> str:
    """A message of the library, which names parameters as `max_rejects` or `verify=True`, with the
    command line's options in their place: --max-rejects, --verify."""
    return _PARAMETER.sub(lambda found: " ".join(filter(None, [OPTIONS[found[1]], found[2]])), text)


def _naming_options(answer: Reasoned) -> Reasoned:
    return answer if answer.reason is None else replace(answer, reason=naming_options(answer.reason))


def printable(text: str) -> str:
    """A text without what a terminal would obey: control characters and the like as \\x1b or \\u202e."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}"


def shown_moment(milliseconds: int) -> str:
    """A moment in milliseconds since 1970 by the clock on the wall."""
    return _moment(datetime.fromtimestamp(milliseconds / 1000))


def _moment(moment: datetime) -> str:
    return moment.astimezone().isoformat(" ", "seconds")


def results_option(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--json` to a command that prints a line or more a record."""
    return json_option(command, prints_results=True)


def json_option(command: Callable[..., None], *, prints_results: bool = False) -> Callable[..., None]:
    """Adds `--json`; the command takes an `output`. Where an option has standard output for its file, a
    summary goes to stderr. Raises UsageError for results that would be mixed with it."""

    @wraps(command)
    def with_output(*args: Any, as_json: bool, **kwargs: Any) -> None:
        taken_by = click.get_current_context().meta.get(TAKEN)
        if taken_by and (as_json or prints_results):
            results = "--json" if as_json else "the results"
            raise UsageError(f"{taken_by} - and {results} both go to standard output: give {taken_by} a file")
        output: Output = JsonOutput() if as_json else ConsoleOutput(summary_beside=bool(taken_by))
        command(*args, output=output, **kwargs)

    decorated: Callable[..., None] = with_output
    text = "Print JSON: one object, or a line a record."
    return click.option("--json", "as_json", is_flag=True, help=text)(decorated)


def _write(lines: Iterable[bytes]) -> None:
    for line in lines:
        with _failing_clearly():
            sys.stdout.buffer.write(line)
    with _failing_clearly():
        sys.stdout.buffer.flush()


@contextmanager
def _failing_clearly() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_stdout()
        raise OutputFailed(f"cannot write to standard output: {error.strerror}") from error


def discard_stdout() -> None:
    """Keep Python from writing what is left in the buffer, which would fail again, when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    # Half of a surrogate pair stands for a byte of the command line that is no UTF-8.
    return (f"{printable(line)}\n".encode(errors="backslashreplace") for line in lines)


def _explanation_lines(query: str | None, found: Explanation) -> Iterator[str]:
    digits = "no fingerprint" if found.fingerprint is None else str(found.fingerprint)
    name = digits if query is None else f"{digits:16}  {query}"
    if found.reason is not None:
        yield f"{name}: {naming_options(found.reason)}"
        return
    matches = sum(each.verdict == "match" for each in found.candidates)
    yield f"{name}: {matches or 'no'} match{'es' * (matches != 1)}"
    yield from _indented(table_lines(list(map(_drawer_row, found.drawers)), _shown))
    if found.candidates:
        yield from _indented(table_lines(list(map(_candidate_row, found.candidates)), _shown))
    if found.more_candidates:
        yield f"  and {found.more_candidates:,} fingerprints that are farther away"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _drawer_row(drawer: Drawer) -> dict[str, Any]:
    bits = ", ".join(f"{start}-{start + width - 1}" for start, width in drawer.bits)
    more = " (truncated)" * drawer.truncated
    return {
        "drawer": drawer.flag,
        "named_by": bits,
        "row_keys": f"{drawer.prefix}...",
        "rows": f"{drawer.rows:,}{more}",
        "candidates": drawer.candidates,
    }


def _candidate_row(each: Candidate) -> dict[str, Any]:
    distance: dict[str, Any] = {"distance": "" if each.distance is None else each.distance}
    similar = {} if each.similarity is None else {"similarity": each.similarity}
    return {
        "verdict": each.verdict,
        **distance,
        **similar,
        "drawers": ",".join(map(str, each.drawers)),
        "fingerprint": "" if each.fingerprint is None else each.fingerprint,
        "id": "" if each.id is None else each.id,
    }


def _lookup_lines(query: str | None, found: Lookup) -> Iterator[str]:
    digits = "no fingerprint" if found.fingerprint is None else str(found.fingerprint)
    name = digits if query is None else f"{digits:16}  {query}"
    if found.reason is not None:
        yield f"{name}: {naming_options(found.reason)}"
        return
    matches = f"{len(found.matches) or 'no'} match{'es' * (len(found.matches) != 1)}"
    more = ", and there may be more (truncated)" if found.truncated else ""
    yield f"{name}: {matches}{more}"
    for match in found.matches:
        closeness = (
            f"{match.distance} bits" if match.similarity is None else f"{match.similarity:.2f} similar"
        )
        yield f"  {closeness}  {match.fingerprint}  {match.id}"


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
    if isinstance(value, Fingerprint):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "none" if value is None or value in ([], {}) else str(value)
