"""The inputs of a job: sources, options, rejects."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from glob import has_magic
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, cast, get_args

from simhbase.corpus.folders import resolved
from simhbase.corpus.names import FORMATS_OF_PAGES, STDIN, WITH_FIELDS, format_of, require_lines
from simhbase.corpus.outputs.files import (
    OutputFile,
    files_in_place,
    made_of,
    part_of,
)
from simhbase.corpus.paths import expand, is_taken, local_path, names_nothing
from simhbase.corpus.record import FORMATS, Format, InputOptions
from simhbase.corpus.rejects import Rejects
from simhbase.corpus.watcher import NULL_WATCHER, Watcher
from simhbase.errors import OutputFailed, UsageError
from simhbase.model.urls import MEANT_AS_URL, redacted
from simhbase.process.machine import usable_threads
from simhbase.process.parallel import require_some
from simhbase.process.plain_files import STANDARD_OUTPUT, plain_target

if TYPE_CHECKING:
    from simhbase.corpus.given import GivenRows
    from simhbase.corpus.sources import Sources
    from simhbase.model.frames import Documents, Texts

BySource = Literal["folder", "file"]
BY_SOURCE: tuple[BySource, ...] = get_args(BySource)
# Options that only some formats take. Those of files, not of rows of a program; those that jobs set.
_TAKEN_BY: Mapping[str, tuple[Format, ...]] = {
    "text_field": WITH_FIELDS,
    "id_field": WITH_FIELDS,
    "fingerprint_field": WITH_FIELDS,
    "delimiter": ("csv",),
    "quoting": ("csv", "tsv"),
}
_OF_FILES = ("format", "encoding", "delimiter", "quoting", "zstd_long", "follow_links")
_OF_JOBS = ("fingerprint_bits", "value_field", "whole_rows", "tags", "tag_fields")


@dataclass(frozen=True)
class Inputs:
    """The documents of a corpus.

    paths: files, folders, globs, URLs, or "-" for standard input. options: how to read them. threads: number
    of threads that parse and fingerprint, by default one for each core. processes: number of worker processes
    that extract the text of HTML, only for inputs that may have pages; by default as many as there are cores
    and memory for. rejects: file for rejected records, as JSON lines; max_rejects: the job fails above this
    number. watcher: receives progress and messages. rows: documents in place of files: a frame, or what else
    `Index.find_many` takes; options name their fields, and rows without ids are named by their number.
    by_source: the sources of a report: each "file", or each "folder" with files; None: as given in `paths`
    (`match` counts none). Jobs set sources: the paths, of which some are listed already. local: those of the
    paths that are on this machine.

    Raises UsageError for invalid arguments.
    """

    paths: Sequence[str] = field(default=(), repr=False)  # which would show passwords
    options: InputOptions = field(default_factory=InputOptions)
    threads: int = field(default_factory=usable_threads)
    processes: int | None = None
    rejects: Path | None = None
    max_rejects: float | None = None
    watcher: Watcher = NULL_WATCHER
    rows: Texts | GivenRows | None = field(default=None, repr=False)
    by_source: BySource | None = None
    sources: Sources | None = field(default=None, repr=False, compare=False)
    local: Sequence[str] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Accepts Path objects, too, and a single path, for untyped callers."""
        if self.rows is not None:
            from simhbase.model.frames import collected

            object.__setattr__(self, "rows", collected(self.rows))
        if self.paths and self.rows is not None:
            raise UsageError("either paths or rows are read: leave one out", parameter="rows")
        several = [self.paths] if isinstance(self.paths, (str, Path)) else self.paths
        object.__setattr__(self, "paths", list(map(str, several)))
        local = [path for path in map(local_path, self.paths) if path is not None]  # it raises
        object.__setattr__(self, "local", local)
        require_some(self.threads, "threads")
        if self.by_source not in (None, *BY_SOURCE):
            raise UsageError(f"{self.by_source!r} is neither folder nor file", parameter="by_source")
        if self.processes is not None:
            require_some(self.processes, "processes")
            if not self._may_have_pages:
                raise UsageError(
                    "worker processes only extract the text of HTML, and these inputs are no HTML: texts are "
                    "fingerprinted by threads, so leave it out, or set the number of threads",
                    parameter="processes",
                )

    @property
    def _may_have_pages(self) -> bool:
        """True unless it is known that no input is HTML."""
        if self.options.html or self.rows is not None:
            return self.options.html
        return any(map(self._may_be_pages, self.paths or [STDIN]))

    def _may_be_pages(self, given: str) -> bool:
        found = self.options.format or format_of(given)
        is_one_file = given == STDIN or os.path.isfile(given)  # noqa: PTH113  # never raises
        return found in FORMATS_OF_PAGES or (found is None and not is_one_file)

    @classmethod
    def of(
        cls,
        given: Inputs | str | Path | Iterable[str | Path] | Documents | None,
        texts: Texts | None = None,
    ) -> Self | Inputs:
        """Convert one or several paths, or rows, or texts, to Inputs with default options. Raises UsageError
        for paths that name nothing at all, which are probably texts."""
        if (given is None) == (texts is None):
            raise UsageError("give files or documents, or else texts", parameter="texts")
        if texts is not None:
            return cls(rows=texts)
        if isinstance(given, Inputs):
            return given
        paths: Sequence[str | Path] | None = None
        if isinstance(given, (str, Path)):
            paths = [given]
        elif isinstance(given, Sequence) and all(isinstance(path, (str, Path)) for path in given):
            paths = given
        elif isinstance(given, Iterator):  # of paths, as of Path.glob, or of documents
            first = list(islice(given, 1))
            given = chain(first, given)
            if first and isinstance(first[0], (str, Path)):
                paths = [*given]
        if paths is None:
            return cls(rows=cast("Documents", given))
        if paths and all(str(path) != STDIN and names_nothing(str(path)) for path in paths):
            others = f", and neither do the {len(paths) - 1:,} others" if len(paths) > 1 else ""
            raise UsageError(
                f"{str(paths[0])!r:.80} names no file{others}. Texts are given by texts=[...], documents as "
                "(id, text) pairs"
            )
        return cls(list(map(str, paths)))

    def with_fields(self, id_field: str | None, text_field: str | None) -> Inputs:
        """These inputs with other names of fields, if they are given."""
        options = self.options
        named = replace(
            options, id_field=id_field or options.id_field, text_field=text_field or options.text_field
        )
        return replace(self, options=named)

    def are_those_of(self, other: Inputs) -> bool:
        """True for the same files or rows, by whatever names."""
        if self.rows is not None or other.rows is not None:
            return self.rows is other.rows
        return sorted(map(_real_name, self.paths)) == sorted(map(_real_name, other.paths))

    def named_as(self, other: Inputs) -> Inputs:
        """These inputs with the names that `other` has for the same files: ids may be made of names. Both may
        have several names of a file."""
        own, others = (
            sorted(each.paths, key=lambda path: (_real_name(path), path)) for each in (self, other)
        )
        names = dict(zip(own, others, strict=True))
        return replace(self, paths=[names[path] for path in self.paths])

    def with_given_rows(self) -> Self:
        """These inputs; rows note the types of their ids when they are read."""
        from simhbase.corpus.given import GivenRows

        return self if self.rows is None else replace(self, rows=GivenRows.of(self.rows, self.options))

    def require_files(self) -> None:
        """Raise UsageError for rows, where files are read several times, or again after a crash."""
        if self.rows is not None:
            raise UsageError(
                f"inputs must be paths of files, not {type(self.rows).__name__}: to add texts to an index, "
                "use Index.add"
            )

    def require_outputs(
        self, *others: str | Path | None, documents: Sequence[str | Path | None] = ()
    ) -> None:
        """Check `rejects` and a job's other output files before anything starts, and tell the watcher which
        exist. Raises as `check_outputs`, and what the watcher raises."""
        self.check_outputs(*others, documents=documents)
        self.watcher.replacing(files_in_place((self.rejects, *documents, *others)))

    def check_outputs(self, *others: str | Path | None, documents: Sequence[str | Path | None] = ()) -> None:
        """Check the options, `rejects` and a job's other output files. documents: those of the files that get
        whole documents.

        Raises UsageError for an option without effect, for an output, also the watcher's, that is an input,
        that the next run would read as an input, or that is named twice; OutputFailed if the folder does not
        exist or is not writable.
        """
        forms = {format_of(str(path)) or "jsonl" for path in documents if path}
        for option in fields(InputOptions):
            is_given = getattr(self.options, option.name) != option.default
            if is_given and (reason := self._without_effect(option.name, forms)):
                raise UsageError(f"has no effect, as {reason}: leave it out", parameter=option.name)
        if self.rejects:
            require_lines(str(self.rejects), "rejects")
        inputs = [Path(given).stat() for given in self.local if os.path.isfile(given)]  # noqa: PTH113  # never raises
        if STDIN in self.paths:
            with suppress(OSError, ValueError, AttributeError):  # it may be closed, or no file
                inputs.append(os.fstat(sys.stdin.fileno()))
        targets: set[Path] = set()
        named = [Path(path) for path in (self.rejects, *documents, *others) if path]
        if named.count(STANDARD_OUTPUT) > 1:
            raise UsageError("two options write to standard output: give one of them a file")
        if self.watcher.standard_output:
            named.append(self.watcher.standard_output)
        for path in named:
            if MEANT_AS_URL.match(str(path)) and not path.parent.is_dir():
                url = redacted(str(path).replace(":/", "://", 1))  # Path removes one slash
                raise UsageError(f"cannot write {url}: URLs can only be read, give a local file")
            try:
                target = plain_target(path)
            except OSError as error:
                raise OutputFailed(f"cannot write {redacted(str(path))}: {error.strerror}") from error
            if target is None:
                continue
            written = {target, part_of(target), made_of(target)}
            for file in written:
                if file.is_file() and any(os.path.samestat(file.stat(), each) for each in inputs):
                    raise UsageError(f"{file} is an input of this command: write the output to another file")
            if (given := self._given_that_names(target)) is not None:
                raise UsageError(
                    f"{path} would be read as part of the input {given}: write the output elsewhere"
                )
            if written & targets:
                raise UsageError(f"two options write to {path}: give each its own file")
            if not target.parent.is_dir():
                raise OutputFailed(
                    f"cannot write {redacted(str(path))}: there is no folder {redacted(f'{target.parent}/')}"
                )
            targets |= written

    def require_unread(self) -> None:
        """Raise UsageError for options of files where none are read."""
        self.check_outputs()
        self.require_no_rejects("no files are read")

    def require_no_rejects(self, reason: str) -> None:
        """Raise UsageError for options of rejects where there can be none. reason: why."""
        for option in ("rejects", "max_rejects"):
            if getattr(self, option) is not None:
                raise UsageError(f"has no effect, as {reason}: leave it out", parameter=option)

    def _without_effect(self, option: str, written: AbstractSet[Format]) -> str | None:
        """The reason why an option has no effect on what is read or written; None if it may have one.
        written: the formats of the files that get documents."""
        options = self.options
        if option in _OF_JOBS:
            return None
        if option == "escape_formulas":
            return None if written & {"csv", "tsv"} else "no documents are written to CSV or TSV"
        if (option == "delimiter" and "csv" in written) or (option in ("id_field", "text_field") and written):
            return None
        if not self.paths and self.rows is None:
            return "no files are read"
        if self.rows is not None and option in _OF_FILES:
            return "documents are given in place of files"
        if option == "id_field" and options.id_from != "field":
            return "ids come from no field (id_from)"
        if option == "text_field" and options.fingerprint_field is not None:
            return "fingerprints are read in place of texts (fingerprint_field)"
        if option == "fingerprint_base" and options.fingerprint_field is None:
            return "texts are read, and no fingerprints (fingerprint_field)"
        if self.rows is None and (taken := _TAKEN_BY.get(option)) is not None:
            from simhbase.corpus.sources import Sources  # a lookup of one text reads no files

            sources = Sources(self.paths, options)
            if sources.has_any_of(FORMATS) and not sources.has_any_of(taken):
                return f"no input is {' or '.join(taken)} by its name or format"
        return None

    def _given_that_names(self, target: Path) -> str | None:
        """The folder or glob among the inputs that matches a file, existing or not."""
        real = target.resolve()
        for given in self.local:
            folder = Path(given)
            if folder.is_dir() and real.is_relative_to(folder.resolve()):
                below = real.relative_to(folder.resolve())
                if is_taken(below, self.options.format):
                    return given
            elif has_magic(given) and any(
                resolved(path) == real
                for found in expand(given, self.options.format, follow_links=self.options.follow_links)
                if isinstance(path := getattr(found, "path", None), Path)
            ):
                return given
        return None

    @contextmanager
    def noting_rejects(self) -> Iterator[Rejects]:
        """Open the file of `rejects`, and count rejects. Raises TooManyRejects at the end."""
        with OutputFile(Path(self.rejects)) if self.rejects else nullcontext() as file:
            rejects = Rejects(file, self.max_rejects, self.watcher)
            yield rejects
            rejects.require_share()


def _real_name(given: str) -> str:
    """One name of a file or folder for all that it has."""
    path = None if given == STDIN else local_path(given)
    return os.path.realpath(path) if path is not None and os.path.lexists(path) else given
