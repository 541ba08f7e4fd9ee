"""Options of commands that read documents; messages about rejects, and the exit code that they lead to."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

import click

from simhbase.cli.consent import Consent, yes_option
from simhbase.cli.options import (
    STANDARD_OUTPUT_NAMES,
    Decorator,
    Function,
    converted,
    fingerprint_base_option,
    option,
    together,
    typed_fingerprints,
)
from simhbase.cli.output import TAKEN, message
from simhbase.corpus.names import STDIN
from simhbase.corpus.record import (
    FORMATS,
    IDS_FROM,
    MAX_RECORD_BYTES,
    QUOTINGS,
    InputOptions,
    Reject,
    SourceReject,
)
from simhbase.corpus.watcher import Watcher
from simhbase.errors import UsageError
from simhbase.process.progress import Advance, Total, no_progress, show_progress

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.corpus.rejects import Counts

SHOWN, KINDS_COUNTED = 10, 10_000  # sources and reasons of rejects
_SPECIFIC = re.compile(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|[0-9][0-9,.]*")  # what differs in reasons of one kind
DONE, FAILED, DONE_WITH_REJECTS = 0, 1, 3


@dataclass
class _Kind:
    """Rejects of one source for one reason."""

    example: Reject
    count: int
    is_shown: bool


@dataclass
class Console(Watcher):
    """Shows progress, messages and rejects by source and reason on stderr.

    prints_results: the command prints a line per document, which shows progress on a terminal.
    prints_rejects: these lines contain the reasons of rejects. shows_rejects: False if they were shown
    before. consent: is asked for before files are replaced. kinds: rejects so far, by source and reason.
    standard_output: as in Watcher.
    """

    prints_results: bool = False
    prints_rejects: bool = False
    shows_rejects: bool = True
    consent: Consent = field(default_factory=Consent)
    kinds: dict[tuple[str, str], _Kind] = field(default_factory=dict)
    standard_output: Path | None = field(default_factory=lambda: _file_of(sys.stdout))

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        # Beside results progress is shown only if those go to a file. On a terminal, or through a pipe that
        # may lead to it (as with `| head`), the lines themselves show progress.
        is_seen = self.prints_results and _may_be_seen(sys.stdout)
        return (no_progress if is_seen else show_progress)(unit, total)

    def rejected(self, reject: Reject, listed_in: Path | None) -> None:
        in_results = self.prints_rejects and not isinstance(reject, SourceReject)
        if not self.shows_rejects or (in_results and sys.stdout.isatty()):
            return
        name = reject.source, _SPECIFIC.sub("...", reject.reason)
        if (kind := self.kinds.get(name)) is not None:
            kind.count += 1
        elif len(self.kinds) < KINDS_COUNTED:
            self.kinds[name] = _Kind(reject, 1, len(self.kinds) < SHOWN)
            if self.kinds[name].is_shown:
                message(f"rejected: {_described(reject)}")

    def show_rejects(self, listed_in: Path | str | None) -> None:
        """Show how many records of each source were rejected for each reason, the most frequent ones first,
        if there are more than the examples shown before."""
        kinds = sorted(self.kinds.values(), key=lambda kind: -kind.count)
        for kind in kinds[:SHOWN]:
            if not kind.is_shown:
                message(f"rejected: {_described(kind.example)}")
            if kind.count > 1:
                line = "" if kind.example.line is None else f" like that of line {kind.example.line:,}"
                reason = _SPECIFIC.sub("...", kind.example.reason)
                message(f"rejected: {kind.count:,} records of {kind.example.source}{line}: {reason}")
        if len(kinds) > SHOWN or any(kind.count > 1 for kind in kinds):
            where = f"{listed_in} lists" if listed_in else "--rejects FILE lists"
            message(f"{where} all rejected records")
        self.kinds.clear()

    def replacing(self, files: Iterable[Path]) -> None:
        self.consent.require_replacing(files)

    def note(self, text: str) -> None:
        message(text)

    def hint(self, text: str) -> None:
        """Show advice on a terminal only; cron jobs stay quiet."""
        if sys.stderr.isatty():
            message(text)


def with_console(inputs: Inputs, **how: Any) -> Inputs:
    """The inputs of a command with other attributes of their Console, which keeps the consent."""
    return replace(inputs, watcher=replace(cast(Console, inputs.watcher), **how))


def without_ids(inputs: Inputs) -> Inputs:
    """The inputs, whose texts need no ids."""
    return replace(inputs, options=replace(inputs.options, id_from="line"))


def or_stdin(inputs: Inputs) -> Inputs:
    """The inputs; standard input if there are none and it is not a terminal. Raises UsageError."""
    if inputs.paths:
        return inputs
    if sys.stdin.isatty():
        raise UsageError("no input: give files, folders or globs, or pipe documents to standard input")
    try:
        # Schedulers may provide an empty standard input that is not meant as input.
        is_empty = hasattr(sys.stdin.buffer, "peek") and not sys.stdin.buffer.peek(1)
    except OSError as error:
        raise UsageError(f"no input: standard input cannot be read ({error.strerror})") from error
    if is_empty:
        raise UsageError(
            "no input: standard input is empty. Give files, folders or globs, or - to read it anyway"
        )
    return replace(inputs, paths=[STDIN])


class Ended(Protocol):
    """Inputs that were read: the watcher is a Console; rejects: where they are listed."""

    @property
    def watcher(self) -> Watcher: ...
    @property
    def rejects(self) -> Path | str | None: ...


def end(counts: Counts, inputs: Ended) -> None:
    """Show how many were rejected, and exit: with 0 if nothing was, 1 if nothing could be read, else 3."""
    cast(Console, inputs.watcher).show_rejects(inputs.rejects)
    for source in counts.unusable_sources:
        used, rejected = counts.tallies[source]
        message(f"unreadable: {source}: only {used:,} of its {used + rejected:,} records could be used")
    if counts.nothing_read:
        message("Error: nothing could be read")
        click.get_current_context().exit(FAILED)
    if not counts.parsed and counts.all_usable:
        message("warning: the input has no documents")
    click.get_current_context().exit(DONE if counts.all_usable else DONE_WITH_REJECTS)


def _most_rejects(typed: str) -> float:
    """A number of records, or a share as 5%. Raises UsageError."""
    if re.fullmatch("[0-9]{1,15}", typed):
        return int(typed)
    if found := re.fullmatch("([0-9]{1,2}(?:[.][0-9]{1,6})?) ?%", typed):
        return float(found[1]) / 100
    raise UsageError(f"{typed!r} is neither a number of records nor a share of them: use 100, or 5%")


class _OutputPath(click.Path):
    """An output file; - is standard output, which then takes no other results."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from simhbase.process.plain_files import STANDARD_OUTPUT

        path = super().convert(value, param, ctx)
        if str(path) in STANDARD_OUTPUT_NAMES:
            path = STANDARD_OUTPUT
        if path == STANDARD_OUTPUT and param and ctx:
            ctx.meta[TAKEN] = param.opts[-1]
        return path


OUTPUT_PATH = _OutputPath(dir_okay=False, allow_dash=True, path_type=Path)


def output_option(name: str, text: str) -> Decorator:
    """An option that names a file to write."""
    return option(f"{name} FILE", text, group="Output files", type=OUTPUT_PATH)


max_rejects_option = option(
    "--max-rejects N|N%",
    "Fail after more than N rejected records, or at the end if more than N % were rejected. [default: no "
    "limit]",
    group="Input",
    callback=converted(_most_rejects),
)
_IDS = (
    option("--id-field FIELD", "Field with the id.", group="Input", default="id"),
    option(
        "--id-from SOURCE",
        "Where ids come from: field, line (file and line), path (full path and line) or text (its hash).",
        group="Input",
        type=click.Choice(IDS_FROM),
        default="field",
    ),
    option(
        "--id-prefix TEXT",
        "Put this before every id; {file} is the file's name without endings.",
        group="Input",
        default="",
    ),
)
_TEXTS = (
    click.argument("paths", nargs=-1, metavar="[FILE | FOLDER | GLOB | URL | -]..."),
    option(
        "--format FORMAT",
        f"Input format: {', '.join(FORMATS)}. [default: by the file's name, else jsonl]",
        group="Input",
        type=click.Choice(FORMATS),
    ),
    option(
        "--text-field FIELD",
        "Field or column with the text; content.body is nested.",
        group="Input",
        default="text",
    ),
    option("--html", "The text field holds HTML; extract the main text.", group="Input"),
    option(
        "--encoding NAME",
        "Text encoding; auto finds UTF-8, UTF-16 and GB18030, and says what it found.",
        group="Input",
        default="auto",
    ),
    option(
        "--delimiter CHAR",
        "Delimiter of CSV cells; \\t is a tab.",
        group="Input",
        default=",",
        callback=converted(lambda typed: "\t" if typed == "\\t" else typed),
    ),
    option(
        "--quoting csv|none|backslash",
        "Whether cells are quoted, or have escapes as of databases. [default: csv; TSV by what it shows]",
        group="Input",
        type=click.Choice(QUOTINGS),
    ),
    option(
        "--max-record-bytes N",
        "Reject larger records.",
        group="Input",
        type=click.IntRange(min=1),
        default=MAX_RECORD_BYTES,
    ),
    option(
        "--zstd-long N",
        "Read zstd files made with --long up to N, for which 2^N bytes of memory are taken. [default: 27]",
        group="Input",
        type=click.IntRange(10, 31),
    ),
    option(
        "--follow-links",
        "Read links that lead out of a given folder or glob, and where a web server leads to this machine or "
        "network.",
        group="Input",
    ),
    option(
        "--threads N",
        "Threads that parse and fingerprint. [default: one for each core]",
        group="Input",
        type=click.IntRange(min=1),
    ),
    option(
        "--processes N",
        "For HTML and WARC: worker processes that extract the text. [default: by cores and memory]",
        group="Input",
        type=click.IntRange(min=1),
    ),
    option("--rejects FILE", "List rejected records here, as JSON lines.", group="Input", type=OUTPUT_PATH),
    max_rejects_option,
)
_FINGERPRINT_FIELD = (
    option(
        "--fingerprint-field FIELD",
        "Read fingerprints (integers, or texts of digits) from this field instead of texts.",
        group="Input",
    ),
    fingerprint_base_option("Input"),
)


_ESCAPE_FORMULAS = option(
    "--escape-formulas",
    "In CSV and TSV, put an apostrophe before texts that spreadsheets take for formulas.",
    group="Output files",
)
_OF_INPUTS = ("threads", "processes", "rejects", "max_rejects")


def input_options(
    *, ids: bool = True, fingerprints: bool = False, by_source: str | None = None, tables: bool = False
) -> Decorator:
    """Adds the options of commands that read documents; the command takes `inputs`, an Inputs, and
    `fingerprints`, if it has this option, as integers.

    ids: False for texts without ids; fingerprints: documents may have a fingerprint instead of a text;
    by_source: sources are counted, by default as this says; tables: documents are written, as tables, too.
    """
    options = [*_TEXTS[:2], *(_IDS if ids else ()), *_TEXTS[2:]]
    names = ["format", "html", "text_field", "encoding", "delimiter", "quoting"]
    names += ["max_record_bytes", "zstd_long", "follow_links"]
    names += ("id_field", "id_from", "id_prefix") if ids else ()
    options.append(yes_option)
    if fingerprints:
        options += _FINGERPRINT_FIELD
        names += ("fingerprint_field", "fingerprint_base")
    if tables:
        options.append(_ESCAPE_FORMULAS)
        names.append("escape_formulas")
    of_inputs = ["paths", *_OF_INPUTS]
    if by_source:
        options.append(
            option(
                "--by-source folder|file",
                f"Count by folder or by file. [default: {by_source}]",
                group="Output",
                type=click.Choice(["folder", "file"]),
            )
        )
        of_inputs.append("by_source")

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_inputs(*args: Any, yes: bool, **kwargs: Any) -> None:
            from simhbase.corpus.inputs import Inputs

            if (typed := kwargs.get("fingerprints")) is not None:
                kwargs["fingerprints"] = typed_fingerprints(
                    typed, kwargs["fingerprint_base"] if typed else None
                )
                if typed and kwargs["fingerprint_field"] is None:  # it is that of the typed ones
                    kwargs["fingerprint_base"] = None
            how = InputOptions(**{name: kwargs.pop(name) for name in names})
            others = {name: kwargs.pop(name) for name in of_inputs}
            given = {name: value for name, value in others.items() if value is not None}
            console = Console(consent=Consent(yes))
            function(*args, inputs=Inputs(options=how, watcher=console, **given), **kwargs)

        return together(*options)(with_inputs)

    return decorate


def _may_be_seen(stream: TextIO) -> bool:
    """True if output may appear on the terminal."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it may be closed
        return False
    return stream.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _file_of(stream: TextIO) -> Path | None:
    """The plain file that output goes to; None for a terminal or pipe, or a file that has no name."""
    with suppress(AttributeError, OSError, ValueError):  # it may be closed
        status = os.fstat(stream.fileno())
        path = Path(os.path.realpath(f"/dev/fd/{stream.fileno()}"))
        if stat.S_ISREG(status.st_mode) and os.path.samestat(status, path.stat()):
            return path
    return None


def _described(reject: Reject) -> str:
    line = "" if reject.line is None else f", line {reject.line:,}"
    name = "" if reject.id is None else f", id {reject.id}"
    return f"{reject.source}{line}{name}: {reject.reason}"
