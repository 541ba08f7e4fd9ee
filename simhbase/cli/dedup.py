"""`simhbase dedup`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from time import monotonic

import click
import numpy as np
from numpy.typing import NDArray

from simhbase.bulk.dedup import Compared, Groups, groups, stars
from simhbase.bulk.outputs import OutputFile, duplicate_line, unique_line
from simhbase.bulk.parser import Parser
from simhbase.bulk.pipeline import Batch, ChunkFingerprinter, Measured, text_alone, without_content
from simhbase.bulk.preference import Preference, Value, preference, text_among_numbers
from simhbase.bulk.record import InputOptions, Record
from simhbase.bulk.seen import SeenIds
from simhbase.bulk.spool import Spool
from simhbase.cli.comparing import ComparedTexts, Comparison
from simhbase.cli.inputs import UNIQUE_LINES, Inputs, input_options_with_fingerprints, output_option
from simhbase.cli.options import ProfileOptions, converted, min_similarity_option, profile_options_with_bits
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import BadInput, UsageError
from simhbase.prints import Prints

LINES_AT_ONCE = 4096


@click.command(
    epilog="""\b
Examples:
  simhbase dedup --unique unique.jsonl --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --representative -date --no-chains --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --bits 128 -k 6 --json 'parts/*.jsonl.zst'
"""
)
@input_options_with_fingerprints
@profile_options_with_bits
@min_similarity_option(
    "What shares less of its shingles is not near: Jaccard similarity, counted exactly in all that the "
    "fingerprints find."
)
@click.option(
    "--representative",
    "preferred",
    default="first",
    show_default=True,
    metavar="first|longest|FIELD|-FIELD",
    callback=converted(preference),
    help="Which one stands for a group: the first in input order, the one with the longest text, or with the "
    "greatest (-FIELD: least) value of a JSON field or CSV column. Values are compared as numbers where all "
    "are, else as texts. Of equal ones the first stands, and those without a value come last.",
)
@click.option(
    "--chains/--no-chains",
    default=True,
    show_default=True,
    help="A group is all that a chain of near ones joins, or the one that stands for it and what is near to "
    "that one.",
)
@output_option(
    "--unique", "Write one document of each group, and those without any near one, here. " + UNIQUE_LINES
)
@output_option("--duplicates", "Write the others here, each with the one that stands for it and its group.")
@json_option
def dedup(
    inputs: Inputs,
    chosen: ProfileOptions,
    min_similarity: float | None,
    preferred: Preference | None,
    chains: bool,
    unique: Path | None,
    duplicates: Path | None,
    output: Output,
) -> None:
    """Find the near duplicates within one corpus, without a store.

    Documents that are joined by a chain of near ones are a group; its first one in input order, or
    that of --representative, stands for it, and may be more than k bits from others. With --no-chains
    the first of all leads a group of those near it, the first of the rest the next, and so on. All
    pairs within any k are found: a layout is chosen for it unless --layout names one. With
    --min-similarity near documents must also share so much of their shingles, counted exactly.
    Fingerprints and the values of --representative are kept in memory, and what --unique and
    --duplicates may write on disk beside them, as large as the input unpacked; the texts for
    --min-similarity in the folder for temporary files.

    A group is named by the id of its first document, whichever stands for it. So it keeps its name when
    documents are added behind the others; where these join two groups, the earlier name stays. Only with
    --no-chains and another --representative than first, an added one that leads may take documents
    out of their group.
    """
    inputs.check_outputs(unique, duplicates)
    start = monotonic()
    comparison = Comparison.of(chosen, min_similarity)
    values = None if preferred is None else _Values(preferred, inputs.options)
    options = replace(
        inputs.options,
        fingerprint_bits=comparison.profile.fingerprint_bits,
        value_field=None if preferred is None else preferred.field,
    )
    inputs = replace(inputs, options=options)
    prepared = options.fingerprint_field is not None
    if prepared and (comparison.profile.form is not None or min_similarity is not None):
        raise UsageError("--fingerprint-field: fingerprints do not tell similarities. Give the texts")
    trim = inputs.whole if unique else without_content if min_similarity is None else text_alone
    trim = values.noted(trim) if values else trim
    work = ChunkFingerprinter(Parser(options), None if prepared else comparison.profile, trim)
    seen = SeenIds()
    found = []
    with ExitStack() as stack:
        rejects = stack.enter_context(inputs.noting_rejects())
        files = [
            kind(stack, path) for kind, path in ((_UniqueFile, unique), (_DuplicatesFile, duplicates)) if path
        ]
        exact = None
        if min_similarity is not None:
            exact = stack.enter_context(ComparedTexts(comparison.profile, min_similarity))
        batches = stack.enter_context(closing(inputs.each(work, inputs.or_stdin())))
        for batch in (batch.without_repeats(seen) for batch in batches):
            rejects.note(batch)
            found.append(batch.prints)
            for file in (*files, exact, values):
                if file:
                    file.put_aside(batch)
        prints = Prints.joined([comparison.nothing, *found])
        compared = Compared(
            prints, comparison.filing(len(prints)), comparison.bounds, exact.exact() if exact else None
        )
        grouped = (groups if chains else stars)(compared, values.order() if values else None)
        for file in files:
            file.write(grouped)
    kept = int(np.count_nonzero(grouped.unique))
    output.summary(
        {
            "documents": len(grouped.unique) + rejects.count,
            "unique": kept,
            "duplicates": len(grouped.unique) - kept,
            "groups": grouped.count,
            "rejected": rejects.count,
            "seconds": round(monotonic() - start, 3),
        }
    )
    if kept < len(grouped.unique) and not files:
        output.hint("to see them: --duplicates FILE lists the duplicates, --unique FILE the other documents")
    rejects.end()


class _Values:
    """Keeps what documents are preferred by. Raises UsageError where the inputs have no such thing."""

    def __init__(self, preferred: Preference, options: InputOptions) -> None:
        if preferred.field is None and options.fingerprint_field is not None:
            raise UsageError("--representative longest: fingerprints have no length. Give the texts")
        if preferred.field is not None and options.format in ("text", "lines"):
            raise UsageError(f"--representative: documents of --format {options.format} have no fields")
        self._preferred = preferred
        self._values: list[Value | None] = []

    def noted(self, trim: Callable[[Record], Record]) -> Callable[[Record], Record]:
        """The same trim, which leaves a record its value."""
        return Measured(trim) if self._preferred.field is None else trim

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._values += [record.value for record in batch.records]

    def order(self) -> NDArray[np.int64]:
        """The documents, the most preferred first. Raises BadInput where none has a value."""
        field = self._preferred.field
        if self._values and all(value is None for value in self._values):
            raise BadInput(f"--representative: no document has anything in a field {field!r}")
        if text := text_among_numbers(self._values):
            message(
                f"--representative: {field!r} is compared as text: {text[:40]!r} is no number, others are"
            )
        return self._preferred.order(self._values)


class _UniqueFile:
    """Writes --unique; keeps every record until it is known which ones are."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self._file = stack.enter_context(OutputFile(path))
        self._spool = stack.enter_context(Spool(path.parent))

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._spool.put_aside(unique_line(record, batch.bits) for record in batch.records)

    def write(self, grouped: Groups) -> None:
        """Writes those that stand for themselves."""
        for lot in _lots(grouped.unique):
            self._file.write(self._spool.read(lot.tolist()))


class _DuplicatesFile:
    """Writes --duplicates; keeps every id until it is known what is a duplicate of what."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self._file = stack.enter_context(OutputFile(path))
        self._spool = stack.enter_context(Spool(path.parent))

    def put_aside(self, batch: Batch) -> None:
        """Takes the next records."""
        self._spool.put_aside(each.encode() for each in batch.ids)

    def write(self, grouped: Groups) -> None:
        """Writes those that do not stand for themselves, each with the one that does."""
        first = grouped.first
        for lot in _lots(~grouped.unique):
            similarity = [None] * len(lot) if grouped.similarity is None else grouped.similarity[lot].tolist()
            names = (self._ids(documents) for documents in (lot, grouped.representative[lot], first[lot]))
            lines = zip(*names, grouped.distance[lot].tolist(), similarity, strict=True)
            self._file.write(
                duplicate_line(each, by, far, similar, group) for each, by, group, far, similar in lines
            )

    def _ids(self, documents: NDArray[np.int64]) -> list[str]:
        return [each.decode() for each in self._spool.read(documents.tolist())]


def _lots(chosen: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """The positions of the chosen among n documents, so many at a time as are written together."""
    positions = np.flatnonzero(chosen)
    for start in range(0, len(positions), LINES_AT_ONCE):
        yield positions[start : start + LINES_AT_ONCE]
