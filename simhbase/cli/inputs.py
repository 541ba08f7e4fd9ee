"""What commands that read documents share: their inputs, their rejects, the one pass over them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from simhbase.bulk.outputs import OutputFile, part_of, plain_target, reject_line
from simhbase.bulk.parser import Parser
from simhbase.bulk.pipeline import ChunkFingerprinter, WithPrefixedId, in_workers, whole
from simhbase.bulk.record import FORMATS, MAX_RECORD_BYTES, Chunk, InputOptions, Record, Reject, SourceReject
from simhbase.bulk.sources import STDIN, Sources
from simhbase.cli.options import Command
from simhbase.cli.output import message
from simhbase.cli.progress import Watched, progress
from simhbase.errors import BadInput, SimhbaseError, UsageError
from simhbase.fingerprinter import Fingerprinter
from simhbase.profile import Profile

SHOWN, SHOWN_BESIDE_FILE = 10, 3  # rejects on stderr, without and with a file that lists them
DONE, FAILED, DONE_WITH_REJECTS = 0, 1, 3
UNIQUE_LINES = "JSON lines stay as they came, but for the id where --id-prefix is given."  # for its help


class TooManyRejects(BadInput):
    """More records were rejected than --max-rejects allows."""


class Outcome(Protocol):
    """What became of some records."""

    @property
    def rejects(self) -> list[Reject]:
        """Those that could not be used."""

    @property
    def parsed(self) -> int:
        """How many could be read at all."""


AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)


class Pipeline(Protocol):
    """What texts become fingerprints by."""

    @property
    def profile(self) -> Profile:
        """The parameters."""

    @property
    def fingerprinter(self) -> Fingerprinter:
        """This machine's, checked where a store has answers to compare with. Raises ProfileMismatch."""


class Rejects:
    """Writes rejected records and sources to a file, shows the first of them on stderr, and counts.

    count: rejected records; a source that could not be read is none.
    """

    def __init__(self, file: OutputFile | None, limit: int | None) -> None:
        self._file = file
        self._limit = limit
        self._parsed = 0
        self._noted = 0
        self.count = 0

    def note(self, outcome: Outcome) -> None:
        """Takes a batch's rejects. Raises TooManyRejects."""
        self._parsed += outcome.parsed
        self._show(outcome.rejects)
        self._noted += len(outcome.rejects)
        self.count += sum(not isinstance(reject, SourceReject) for reject in outcome.rejects)
        if self._file:
            self._file.write(map(reject_line, outcome.rejects))
        if self._limit is not None and self._noted > self._limit:
            raise TooManyRejects(
                f"{self._noted:,} records or sources were rejected, --max-rejects allows {self._limit:,}"
            )

    def _show(self, rejects: Sequence[Reject]) -> None:
        shown = SHOWN_BESIDE_FILE if self._file else SHOWN
        for reject in rejects[: max(0, shown - self._noted)]:
            message(f"rejected: {_described(reject)}")
        if self._noted <= shown < self._noted + len(rejects):
            where = f"{self._file.path} lists" if self._file else "--rejects FILE lists"
            message(f"more are rejected: {where} them all")

    @property
    def exit_code(self) -> int:
        """What the rejects so far call for."""
        if not self._noted:
            return DONE
        return DONE_WITH_REJECTS if self._parsed else FAILED

    def end(self) -> None:
        """Ends the command with its exit code."""
        if self.exit_code == FAILED:
            message("Error: nothing at all could be read")
        click.get_current_context().exit(self.exit_code)


@dataclass(frozen=True)
class Inputs:
    """Where documents come from, how they are read, and what becomes of those that cannot be."""

    paths: Sequence[str]
    options: InputOptions
    processes: int
    rejects: Path | None
    max_rejects: int | None

    def or_stdin(self) -> Sequence[str]:
        """The paths; standard input if there are none and it is no terminal. Raises UsageError."""
        if self.paths:
            return self.paths
        if sys.stdin.isatty():
            raise UsageError("no input: name files, folders or globs, or pipe documents to standard input")
        return [STDIN]

    @property
    def whole(self) -> Callable[[Record], Record]:
        """What is left of a record for --unique: everything, with the id that other files name."""
        id_field = self.options.id_field
        return WithPrefixedId(id_field) if self.options.id_prefix and id_field else whole

    def check_outputs(self, *others: Path | None) -> None:
        """Looks at --rejects and a command's other output files before anything starts.

        Raises UsageError for an input, which would be lost when the command ends, and for a file
        that two options name; SimhbaseError for a file in no folder.
        """
        inputs = [Path(given) for given in self.paths if Path(given).is_file()]
        targets: set[Path] = set()
        for path in filter(None, (self.rejects, *others)):
            target = plain_target(path)
            if target is None:
                continue
            written = {target, part_of(target)}
            for file in written:
                if file.is_file() and any(map(file.samefile, inputs)):
                    raise UsageError(f"{file} is an input of this command: write the output to another file")
            if written & targets:
                raise UsageError(f"{path} is named by two options: each needs a file of its own")
            if not target.parent.is_dir():
                raise SimhbaseError(f"cannot write {path}: there is no folder {target.parent}")
            targets |= written

    @contextmanager
    def noting_rejects(self) -> Iterator[Rejects]:
        """Opens the file of --rejects."""
        with opened(self.rejects) as file:
            yield Rejects(file, self.max_rejects)

    def each(
        self, work: Callable[[Chunk], AnyOutcome], paths: Sequence[str], watched: Watched = progress
    ) -> Generator[AnyOutcome, None, None]:
        """What work makes of each chunk of records, in order, while progress is shown.

        Hold it in `contextlib.closing`: that ends the worker processes whatever happens.
        """
        sources = Sources(paths, self.options)
        with (
            watched("documents", sources.total_bytes) as advance,
            closing(in_workers(work, sources.chunks(), self.processes)) as outcomes,
        ):
            for outcome in outcomes:
                yield outcome
                advance(outcome.parsed, sources.consumed_bytes)


def opened(path: Path | None) -> AbstractContextManager[OutputFile | None]:
    """The file that an option names, None where it was not given."""
    return OutputFile(path) if path else nullcontext()


def fingerprinting(
    inputs: Inputs, pipeline: Pipeline, trim: Callable[[Record], Record]
) -> ChunkFingerprinter:
    """What worker processes do with documents.

    Raises ProfileMismatch where this machine would make other fingerprints of texts.
    """
    parser = Parser(inputs.options)
    if inputs.options.fingerprint_field is not None:
        return ChunkFingerprinter(parser, None, trim)
    _ = pipeline.fingerprinter
    return ChunkFingerprinter(parser, pipeline.profile, trim)


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_OUTPUT = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = [
    click.argument("paths", nargs=-1, metavar="[FILE | FOLDER | GLOB | -]..."),
    click.option(
        "--format",
        type=click.Choice(FORMATS),
        help="By default told by the file's name: .jsonl .csv .tsv .txt (a file a document), also with "
        ".gz or .zst; else JSON lines. lines: a line a document.",
    ),
    click.option(
        "--text-field", default="text", show_default=True, help="JSON field or CSV column of the text."
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="auto: UTF-8, or else GB18030."),
    click.option("--delimiter", default=",", show_default=True, help="Between the cells of CSV."),
    click.option(
        "--max-record-bytes",
        type=click.IntRange(min=1),
        default=MAX_RECORD_BYTES,
        show_default=True,
        help="Longer records are rejected.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(min=1),
        default=usable_cores,
        show_default="usable cores",
        help="Worker processes that parse and fingerprint.",
    ),
    click.option("--rejects", type=_OUTPUT, help="List rejected records here, as JSON lines."),
    click.option("--max-rejects", type=click.IntRange(min=0), metavar="N", help="Stop and fail at more."),
]
_ID_OPTIONS = [
    click.option("--id-field", default="id", show_default=True, help="The same for the id."),
    click.option("--id-prefix", default="", help="Put before every id, as where ids repeat across sources."),
]
_FINGERPRINT_FIELD = click.option(
    "--fingerprint-field", help="JSON field or CSV column of a fingerprint in hex, read in place of a text."
)
_TEXT_FIELDS = ("format", "text_field", "encoding", "delimiter", "max_record_bytes")
_FIELDS = (*_TEXT_FIELDS, "id_field", "id_prefix")


def text_options(command: Command) -> Command:
    """Adds the arguments and options of texts, which need no id; the command takes `inputs`, an Inputs."""
    return _input_options(command, _OPTIONS, _TEXT_FIELDS, id_field=None)


def input_options(command: Command) -> Command:
    """The same for documents, which have an id."""
    return _input_options(command, [*_ID_OPTIONS, *_OPTIONS], _FIELDS)


def input_options_with_fingerprints(command: Command) -> Command:
    """The same with `--fingerprint-field`."""
    options = [*_ID_OPTIONS, *_OPTIONS, _FINGERPRINT_FIELD]
    return _input_options(command, options, (*_FIELDS, "fingerprint_field"))


def output_option(name: str, text: str) -> Callable[[Command], Command]:
    """An option that names a file to write."""
    return click.option(name, type=_OUTPUT, help=text)


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
        command(*args, inputs=Inputs(options=how, **others), **kwargs)

    decorated: Command = with_inputs
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def _described(reject: Reject) -> str:
    line = "" if reject.line is None else f", line {reject.line:,}"
    name = "" if reject.id is None else f", id {reject.id}"
    return f"{reject.source}{line}{name}: {reject.reason}"
