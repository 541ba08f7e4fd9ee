"""`simhbase load`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Self

import click

from simhbase.bulk.loader import DuplicateOf, Loaded, load_all, load_unique
from simhbase.bulk.outputs import OutputFile, duplicate_line, unique_line
from simhbase.bulk.pipeline import joined, without_content
from simhbase.bulk.record import Record
from simhbase.bulk.seen import SeenIds
from simhbase.cli.inputs import (
    FAILED,
    UNIQUE_LINES,
    Inputs,
    fingerprinting,
    input_options_with_fingerprints,
    opened,
    output_option,
)
from simhbase.cli.interrupt import interrupt_put_off
from simhbase.cli.options import ProfileOptions, min_similarity_option, profile_options, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import TablesMissing, UsageError
from simhbase.fingerprinter import Fingerprinter
from simhbase.index import Index, open_index

CHUNKS_AT_ONCE = 8  # written and made durable together: up to 4,096 documents or 8 MB of text


@click.command(
    epilog="""\b
Examples:
  simhbase load news.jsonl.gz
  simhbase load --text-field body --id-prefix 2024/ 'archive/*.csv'
  curl -s https://example.org/dump.gz | simhbase load --unique-only --duplicates duplicates.jsonl -
"""
)
@input_options_with_fingerprints
@store_option
@profile_options
@click.option(
    "--unique-only",
    is_flag=True,
    help="Store a document only if none that is stored by then is near it.",
)
@min_similarity_option(
    "With --unique-only: what is less similar is no duplicate. Estimated by sketches: of stores with the "
    "scheme minhash (by default their threshold) or --verify."
)
@output_option("--unique", "With --unique-only: write the documents that were stored here. " + UNIQUE_LINES)
@output_option("--duplicates", "With --unique-only: write what the others are duplicates of here.")
@json_option
def load(
    inputs: Inputs,
    url: str,
    chosen: ProfileOptions,
    unique_only: bool,
    min_similarity: float | None,
    unique: Path | None,
    duplicates: Path | None,
    output: Output,
) -> None:
    """Fingerprint documents and store them.

    A document whose id is stored already is replaced. An embedded store that does not exist is
    created, with the profile that the options give; one that exists keeps its own, and options that
    differ from it are an error. A load that was stopped is gone on with by running it again.
    """
    if (unique or duplicates) and not unique_only:
        raise UsageError("--unique and --duplicates say what --unique-only kept: they need it")
    if min_similarity is not None and not unique_only:
        raise UsageError("--min-similarity says what --unique-only takes for a duplicate: it needs it")
    inputs.check_outputs(unique, duplicates)
    start = monotonic()
    tally = _Tally()
    paths = inputs.or_stdin()
    store = partial(load_unique, min_similarity=min_similarity) if unique_only else load_all
    trim = inputs.whole if unique else without_content
    seen = SeenIds()
    with (
        _target(
            inputs, url, chosen, min_similarity
        ) as target,  # first: who does not get the store touches no file
        inputs.noting_rejects() as rejects,
        opened(unique) as unique_file,
        opened(duplicates) as duplicates_file,
        closing(inputs.each(fingerprinting(inputs, target, trim), paths)) as batches,
        _saying_what_is_kept(tally),
    ):
        for batch in joined((batch.without_repeats(seen) for batch in batches), CHUNKS_AT_ONCE):
            rejects.note(batch)
            if not batch.records:
                continue
            with interrupt_put_off():
                done = store(target.make(), batch.ids, batch.prints)
                _write(unique_file, _unique_lines(batch.records, done.duplicate_of))
                _write(duplicates_file, _duplicate_lines(batch.ids, done.duplicate_of))
                tally.add(done)
        if rejects.exit_code != FAILED:
            target.make()
    output.summary(
        {
            "documents": tally.loaded + tally.duplicates + rejects.count,
            "loaded": tally.loaded,
            "added": tally.added,
            "moved": tally.moved,
            "unchanged": tally.unchanged,
            "duplicates": tally.duplicates,
            "rejected": rejects.count,
            "seconds": round(monotonic() - start, 3),
        }
    )
    rejects.end()


class _Target:
    """The store to load into.

    One that exists is open from the start. An embedded one that does not is made with the first
    documents, so that a load which fails before them leaves nothing behind. Raises as
    ProfileOptions.open.
    """

    def __init__(self, url: str, chosen: ProfileOptions) -> None:
        self._url = url
        self._index: Index | None = None
        try:
            self._index = chosen.open(url)
            self.profile = self._index.profile
        except TablesMissing:
            if url.startswith("hbase:"):
                raise
            self.profile = chosen.profile()

    @property
    def fingerprinter(self) -> Fingerprinter:
        """The profile's pipeline, checked against the store's if there is one."""
        return self._index.fingerprinter if self._index else self.profile.fingerprinter()

    def make(self) -> Index:
        """The store, created if it is missing. Raises what `open_index` raises."""
        if self._index is None:
            self._index = open_index(self._url, create=self.profile)
        return self._index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._index is not None:
            self._index.close()


@contextmanager
def _target(
    inputs: Inputs, url: str, chosen: ProfileOptions, min_similarity: float | None
) -> Iterator[_Target]:
    """The store to load into. Raises UsageError for what it cannot take or compare by."""
    with _Target(url, chosen) as target:
        _ = target.profile.filing.bounds(None, min_similarity)
        if inputs.options.fingerprint_field is not None and target.profile.form is not None:
            raise UsageError(
                "--fingerprint-field: the store keeps a sketch of each text, which fingerprints made "
                "elsewhere do not have. Give the texts"
            )
        yield target


@dataclass
class _Tally:
    """What has been acknowledged so far."""

    added: int = 0
    moved: int = 0
    unchanged: int = 0
    duplicates: int = 0

    @property
    def loaded(self) -> int:
        """How many of the documents the store holds now."""
        return self.added + self.moved + self.unchanged

    def add(self, done: Loaded) -> None:
        self.added += done.report.added
        self.moved += done.report.moved
        self.unchanged += done.report.unchanged
        self.duplicates += sum(near is not None for near in done.duplicate_of)


@contextmanager
def _saying_what_is_kept(tally: _Tally) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if tally.loaded or tally.duplicates:
            message(
                f"stopped after {tally.loaded:,} documents loaded and {tally.duplicates:,} duplicates. "
                "What was loaded is kept: run the same command again to go on"
            )
        else:
            message("stopped before anything was loaded")
        raise


def _write(file: OutputFile | None, lines: Iterator[bytes]) -> None:
    if file:
        file.write(lines)


def _unique_lines(records: Sequence[Record], found: Sequence[DuplicateOf | None]) -> Iterator[bytes]:
    return (unique_line(record) for record, near in zip(records, found, strict=True) if near is None)


def _duplicate_lines(ids: Sequence[str], found: Sequence[DuplicateOf | None]) -> Iterator[bytes]:
    return (
        duplicate_line(document, near.id, near.distance, near.similarity)
        for document, near in zip(ids, found, strict=True)
        if near
    )
