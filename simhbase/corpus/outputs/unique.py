"""The file of unique documents, in the format given by its name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path, PurePath

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.names import JSON_LINES_NOT, NOT_WRITTEN, SUFFIXES, WITHOUT_FIELDS, format_of
from simhbase.corpus.outputs.csv import csv_form
from simhbase.corpus.outputs.files import (
    LINES,
    NOTHING,
    KeptBeginning,
    OutputBusy,
    OutputFile,
    PartDiffers,
    cut,
    is_finished,
    part_of,
)
from simhbase.corpus.outputs.parquet import Types, count_type, is_table_of, parquet_form
from simhbase.corpus.outputs.trim import Trim, in_one_schema, with_its_id
from simhbase.corpus.sources import Sources
from simhbase.errors import UsageError
from simhbase.process.plain_files import plain_target

_NOT_WRITTEN = {"text": "plain text", "html": "HTML", "warc": "WARC", "arrow": "Arrow"}


def require_written(unique: str | Path, option: str = "unique") -> None:
    """Raise UsageError if the name of a file of unique documents has the ending of a format that is not
    written, or of Parquet if that is unavailable."""
    file_format, ending = format_of(Path(unique).name), PurePath(unique).suffix
    if ending.lower() in NOT_WRITTEN:
        raise UsageError(f"{unique}: {JSON_LINES_NOT.format(ending)}", parameter=option)
    if file_format in _NOT_WRITTEN:
        raise UsageError(
            f"{unique}: JSON lines, rows (.csv, .tsv) and Parquet are written, not "
            f"{_NOT_WRITTEN[file_format]}: name it .jsonl",
            parameter=option,
        )
    if file_format != "parquet":
        return
    if PurePath(unique).suffix.lower() in SUFFIXES:
        raise UsageError(f"{unique}: Parquet is compressed within: name it .parquet", parameter=option)
    with suppress(OSError):  # reported when all outputs are checked
        if plain_target(Path(unique)) is None:
            raise UsageError(
                f"{unique}: Parquet is written to plain files, and this is none", parameter=option
            )
    if find_spec("pyarrow") is None:
        raise UsageError(
            f"{unique}: Parquet is written by pyarrow, which is not installed: "
            "pip install 'simhbase[parquet]'",
            parameter=option,
        )


def unique_file(
    path: Path,
    inputs: Inputs,
    *,
    keep_partial: bool = True,
    keep: KeptBeginning = NOTHING,
    count_field: str | None = None,
) -> OutputFile:
    """A file for unique documents, given as JSON lines, written as CSV or TSV (also compressed), Parquet or
    JSON lines, by its name. count_field: one of theirs that holds counts. The other arguments: see
    OutputFile."""
    match format_of(path.name):
        case "parquet":
            form = parquet_form(path, partial(_column_types, inputs, count_field))
        case "csv" | "tsv" as found:
            options = inputs.options
            delimiter = "\t" if found == "tsv" else options.delimiter
            form = csv_form(path, delimiter, keep, escape_formulas=options.escape_formulas)
        case _:
            form = LINES
    return OutputFile(path, keep_partial=keep_partial, keep=keep, form=form)


def _column_types(inputs: Inputs, count_field: str | None) -> Types:
    found = Sources(inputs.paths, inputs.options).column_types()
    return found if count_field is None else {**found, count_field: count_type()}


def unique_trim(inputs: Inputs) -> tuple[Trim, Inputs]:
    """The trim for records that may be written to a file of unique documents: JSON lines and tables stay as
    they are, except for made and prefixed ids. If an input has no fields, all get one schema. And the inputs,
    to be read once: their files are listed already."""
    options = inputs.options
    has_field, sources = options.id_from == "field", Sources(inputs.paths, options)
    inputs = replace(inputs, sources=sources)
    if sources.has_any_of(WITHOUT_FIELDS):
        id_field, text_field = options.id_field, options.text_field
        trim = partial(in_one_schema, id_field=id_field, text_field=text_field, has_field=has_field)
        return trim, inputs
    if has_field and not options.id_prefix:
        return lambda record: record, inputs
    return partial(with_its_id, id_field=options.id_field, has_field=has_field), inputs


def unique_is_finished(path: Path, kept: KeptBeginning) -> bool:
    """True if a file of unique documents is complete under its final name. Raises OutputFailed."""
    if format_of(path.name) != "parquet":
        return is_finished(path, kept)
    if not is_table_of(path, kept):
        return False
    # A run killed after renaming the table leaves its lines, unless another run writes there now.
    if (part := part_of(path.resolve())).exists():
        with suppress(OutputBusy, PartDiffers), cut(part, kept):
            part.unlink()
    return True
