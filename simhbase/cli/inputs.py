"""What commands that read documents share: the options of their inputs, and what they say of rejects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from simhbase.cli.options import Command, converted
from simhbase.cli.output import TAKEN, message, naming_options
from simhbase.cli.progress import progress, progress_beside_results
from simhbase.corpus.inputs import Inputs, usable_cores
from simhbase.corpus.outputs import STANDARD_OUTPUT
from simhbase.corpus.record import FORMATS, IDS_FROM, MAX_RECORD_BYTES, InputOptions, Reject, SourceReject
from simhbase.corpus.rejects import Counts
from simhbase.corpus.sources import STDIN
from simhbase.corpus.watcher import Advance, Total
from simhbase.errors import UsageError

SHOWN, SHOWN_BESIDE_FILE = 10, 3  # rejects on stderr, without and with a file that lists them
DONE, FAILED, DONE_WITH_REJECTS = 0, 1, 3
# For the help of commands that write them.
UNIQUE_LINES = (
    "JSON lines stay as they came, and rows of CSV and Parquet become some with all columns, but for the id "
    "where --id-prefix or --id-from makes it. In a file named .csv, .tsv or .parquet they are rows."
)


@dataclass
class Console:
    """A watcher for people: progress, messages and the first rejects on stderr.

    prints_results: whether the command prints a line a document, which are the progress on a terminal.
    prints_rejects: whether the reasons are in these lines, so that a terminal shows them already.
    shows_rejects: whether nobody has shown them before.
    """

    prints_results: bool = False
    prints_rejects: bool = False
    shows_rejects: bool = True
    _rejected: int = field(default=0, init=False)

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        """Shows how far the command is."""
        return (progress_beside_results if self.prints_results else progress)(unit, total)

    def rejected(self, reject: Reject, listed_in: Path | None) -> None:
        """Shows the first."""
        in_results = self.prints_rejects and not isinstance(reject, SourceReject)
        if not self.shows_rejects or (in_results and sys.stdout.isatty()):
            return
        most = SHOWN_BESIDE_FILE if listed_in else SHOWN
        self._rejected += 1
        if self._rejected <= most:
            message(f"rejected: {_described(reject)}")
        if self._rejected == most + 1:
            where = f"{listed_in} lists" if listed_in else "--rejects FILE lists"
            message(f"more are rejected: {where} them all")

    def worded(self, reason: str) -> str:
        """With the options that were or could be typed."""
        return naming_options(reason)

    def note(self, text: str) -> None:
        """Says it."""
        message(text)


def or_stdin(inputs: Inputs) -> Inputs:
    """The inputs; standard input if none are named and it is no terminal. Raises UsageError."""
    if inputs.paths:
        return inputs
    if sys.stdin.isatty():
        raise UsageError("no input: name files, folders or globs, or pipe documents to standard input")
    # Nobody meant to load what a scheduler has for standard input.
    if hasattr(sys.stdin.buffer, "peek") and not sys.stdin.buffer.peek(1):
        raise UsageError(
            "no input: standard input is empty. Name files, folders or globs; - takes it as it is"
        )
    return replace(inputs, paths=[STDIN])


def end(counts: Counts) -> None:
    """Ends a command with the exit code that its rejects call for."""
    if counts.nothing_read:
        message("Error: nothing at all could be read")
        click.get_current_context().exit(FAILED)
    click.get_current_context().exit(DONE if counts.all_usable else DONE_WITH_REJECTS)


class _OutputPath(click.Path):
    """A file to write; - is standard output, and no other result can go there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if path == _STANDARD_OUTPUT_FILE:  # as a file it would be replaced by what is written
            path = STANDARD_OUTPUT
        if path == STANDARD_OUTPUT and param and ctx:
            ctx.meta[TAKEN] = param.opts[-1]
        return path


_STANDARD_OUTPUT_FILE = Path("/dev/stdout")
OUTPUT_PATH = _OutputPath(dir_okay=False, allow_dash=True, path_type=Path)
_OPTIONS = [
    click.argument("paths", nargs=-1, metavar="[FILE | FOLDER | GLOB | URL | -]..."),
    click.option(
        "--format",
        type=click.Choice(FORMATS),
        help="Format of the input: text, html: a file a document; lines: a line a document; csv: with commas "
        "(--delimiter names others). [default: by the file's name (.jsonl .csv .tsv .txt .md .html .parquet "
        ".warc, also .gz .zst .bz2 .xz), else jsonl]",
    ),
    click.option("--html", is_flag=True, help="The text field holds HTML, of which to take the main text."),
    click.option(
        "--text-field",
        default="text",
        show_default=True,
        help="Column or JSON field that holds the text; a dot steps into objects: content.body.",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        help="Encoding of the text; auto: UTF-8, UTF-16 with a byte order mark, or else GB18030.",
    ),
    click.option(
        "--delimiter",
        default=",",
        show_default=True,
        callback=converted(lambda typed: "\t" if typed == "\\t" else typed),
        hidden=True,  # named at --format
        help="Character between the cells of CSV; \\t is a tab.",
    ),
    click.option(
        "--max-record-bytes",
        type=click.IntRange(min=1),
        default=MAX_RECORD_BYTES,
        show_default=True,
        hidden=True,  # the few who need it are told of it where a record is rejected
        help="Reject records of more bytes.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(min=1),
        default=usable_cores,
        show_default="usable cores",
        help="Number of worker processes that parse and fingerprint.",
    ),
    click.option(
        "--rejects",
        type=OUTPUT_PATH,
        help="File to list rejected records in, as JSON lines (--max-rejects N fails after more than N).",
    ),
    click.option(
        "--max-rejects",
        type=click.IntRange(min=0),
        metavar="N",
        hidden=True,  # named at --rejects
        help="Fail after more than N rejected records. [default: no limit]",
    ),
]
_ID_OPTIONS = [
    click.option("--id-field", default="id", show_default=True, help="Field that holds the id."),
    click.option(
        "--id-from",
        type=click.Choice(IDS_FROM),
        default="field",
        show_default=True,
        help="What the id is: that of --id-field; the source and line of a document; the same with the "
        "absolute path of its file; or a hash of its text.",
    ),
    click.option(
        "--id-prefix",
        default="",
        help="Text to put before every id, where sources repeat ids; {file} in it is the name of the "
        "document's file, without endings.",
    ),
]
_FINGERPRINT_FIELD = click.option(
    "--fingerprint-field",
    help="Field that holds a fingerprint in hexadecimal digits, to be read in place of a text.",
)
_TEXT_FIELDS = ("format", "html", "text_field", "encoding", "delimiter", "max_record_bytes")
_FIELDS = (*_TEXT_FIELDS, "id_field", "id_from", "id_prefix")


def text_options(command: Command) -> Command:
    """Adds the arguments and options of texts, which need no id; the command takes `inputs`, an Inputs."""
    return _input_options(command, _OPTIONS, _TEXT_FIELDS, id_from="line")


def input_options(command: Command) -> Command:
    """The same for documents, which have an id."""
    return _input_options(command, [*_ID_OPTIONS, *_OPTIONS], _FIELDS)


def input_options_with_fingerprints(command: Command) -> Command:
    """The same with `--fingerprint-field`."""
    options = [*_ID_OPTIONS, *_OPTIONS, _FINGERPRINT_FIELD]
    return _input_options(command, options, (*_FIELDS, "fingerprint_field"))


def output_option(name: str, text: str) -> Callable[[Command], Command]:
    """An option that names a file to write."""
    return click.option(name, type=OUTPUT_PATH, help=text)


def _input_options(
    command: Command,
    options: Sequence[Callable[[Command], Command]],
    fields: Sequence[str],
    **fixed: Any,
) -> Command:
    @wraps(command)
    def with_inputs(*args: Any, **kwargs: Any) -> None:
        how = InputOptions(**{name: kwargs.pop(name) for name in fields}, **fixed)
        others = {name: kwargs.pop(name) for name in ("paths", "processes", "rejects", "max_rejects")}
        command(*args, inputs=Inputs(options=how, watcher=Console(), **others), **kwargs)

    decorated: Command = with_inputs
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _described(reject: Reject) -> str:
    line = "" if reject.line is None else f", line {reject.line:,}"
    name = "" if reject.id is None else f", id {reject.id}"
    return f"{reject.source}{line}{name}: {reject.reason}"
