"""`simhbase find`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Protocol

import click
import numpy as np
from click.core import ParameterSource

from simhbase.bulk.pipeline import Batch, without_content
from simhbase.bulk.record import Record, Reject, SourceReject
from simhbase.bulk.sources import STDIN
from simhbase.cli.against import Corpus
from simhbase.cli.inputs import Inputs, Pipeline, fingerprinting, input_options_with_fingerprints
from simhbase.cli.options import (
    ProfileOptions,
    converted,
    min_similarity_option,
    profile_options,
    store_option,
)
from simhbase.cli.output import Answer, Output, json_option
from simhbase.cli.progress import progress_beside_results
from simhbase.errors import UsageError
from simhbase.fingerprinter import Fingerprinter
from simhbase.index import Index, open_index
from simhbase.model import Lookup
from simhbase.profile import Profile
from simhbase.reader import DRAWER_LIMIT, IDS_LIMIT
from simhbase.records import id_problem


def _fingerprints(values: Sequence[str]) -> list[int]:
    for value in values:
        if not re.fullmatch("[0-9a-fA-F]{16}", value):
            raise UsageError(f"{value!r} is no fingerprint: 16 hexadecimal digits are needed")
    return [int(value, 16) for value in values]


def _limit(value: str) -> int | None:
    if value != "all" and not re.fullmatch("[1-9][0-9]*", value):
        raise UsageError(f"{value!r} is no limit: use a number from 1 on, or all")
    return None if value == "all" else int(value)


@click.command(
    epilog="""\b
Examples:
  simhbase find --text '今天上午，北京市气象台发布大风蓝色预警信号。'
  simhbase find --json today.jsonl.gz > near.jsonl
  simhbase find -k 1 --id 20240101/3
  simhbase find --against corpus.jsonl.gz --min-similarity 0.7 today.jsonl
"""
)
@input_options_with_fingerprints
@store_option
@click.option(
    "--against",
    multiple=True,
    metavar="FILE",
    help="Look up among the documents of this file, folder or glob instead of a store; may be repeated.",
)
@click.option("--text", "texts", multiple=True, help="Look this text up.")
@click.option("--id", "ids", multiple=True, help="Look up what is near this stored document.")
@click.option(
    "--fingerprint",
    "fingerprints",
    callback=converted(_fingerprints),
    multiple=True,
    metavar="HEX",
    help="Look this up.",
)
@profile_options
@min_similarity_option(
    "Jaccard similarity of matches at least: by default the threshold of the scheme minhash. Of a store it "
    "is estimated by the sketches of that scheme or --verify, of files it is counted exactly."
)
@click.option(
    "--drawer-limit",
    callback=converted(_limit),
    default=str(DRAWER_LIMIT),
    metavar="N",
    show_default=True,
    help="Rows read of a drawer at most, or all.",
)
@click.option(
    "--ids-limit",
    type=click.IntRange(min=1),
    default=IDS_LIMIT,
    show_default=True,
    help="Documents listed of a fingerprint at most.",
)
@json_option
def find(
    inputs: Inputs,
    url: str,
    against: Sequence[str],
    texts: Sequence[str],
    ids: Sequence[str],
    fingerprints: Sequence[int],
    chosen: ProfileOptions,
    min_similarity: float | None,
    drawer_limit: int | None,
    ids_limit: int,
    output: Output,
) -> None:
    """Find the stored documents near texts, ids or fingerprints.

    The nearest come first. A document that is stored is among its own matches. An answer that a
    limit has cut says that it is truncated.

    A store has its profile, of which -k alone can be asked for otherwise. With --against no store is
    opened: the options of a profile say what is near, as for dedup. Fingerprints of the documents are
    kept in memory; their ids and, where similarities are told (--min-similarity, --verify, --scheme
    minhash), their texts in the folder for temporary files.
    """
    inputs.check_outputs()
    asked = bool(texts or ids or fingerprints)
    paths = inputs.paths if asked else inputs.or_stdin()
    with inputs.noting_rejects() as rejects, ExitStack() as stack:
        searched: _Searched
        if against:
            _refuse_beside_against([*against, *paths], ids)
            corpus = stack.enter_context(Corpus.of(chosen, min_similarity, ids_limit))
            if corpus.tells_similarity and (fingerprints or inputs.options.fingerprint_field is not None):
                raise UsageError("fingerprints do not tell similarities: give the texts")
            corpus.read(replace(inputs, paths=against), rejects)
            searched = corpus
        else:
            k = _k_of_store(chosen)
            index = open_index(url, access="read", drawer_limit=drawer_limit, ids_limit=ids_limit)
            searched = _Stored(stack.enter_context(index), k, min_similarity)
        for answered in _asked(searched, texts, ids, fingerprints):
            output.lookups(answered.answers)
            rejects.note(answered)
        if paths:
            work = fingerprinting(inputs, searched, searched.trim)
            with closing(inputs.each(work, paths, progress_beside_results)) as batches:
                for batch in batches:
                    output.lookups(_answers(searched, batch))
                    rejects.note(batch)
    rejects.end()


class _Searched(Pipeline, Protocol):
    """What queries are looked up in."""

    @property
    def trim(self) -> Callable[[Record], Record]:
        """What is left of a query that has its fingerprint."""

    def of_texts(self, texts: Sequence[str]) -> list[Lookup]:
        """What is near texts."""

    def of_fingerprints(self, values: Sequence[int]) -> list[Lookup]:
        """What is near fingerprints."""

    def of_records(self, batch: Batch) -> list[Lookup]:
        """What is near the records of a batch."""


@dataclass(frozen=True)
class _Stored:
    """The documents of a store, and what counts as near; None: as the store's profile says."""

    index: Index
    k: int | None
    min_similarity: float | None

    @property
    def profile(self) -> Profile:
        return self.index.profile

    @property
    def fingerprinter(self) -> Fingerprinter:
        return self.index.fingerprinter

    @property
    def trim(self) -> Callable[[Record], Record]:
        return without_content

    def of_texts(self, texts: Sequence[str]) -> list[Lookup]:
        return self.index.find_many(texts, self.k, self.min_similarity)

    def of_ids(self, ids: Sequence[str]) -> list[Lookup]:
        storable = [document for document in ids if id_problem(document) is None]
        stored_under = dict(zip(storable, self.index.fingerprints(storable), strict=True))
        fingerprints = [stored_under.get(document) for document in ids]
        known = [fingerprint for fingerprint in fingerprints if fingerprint is not None]
        found = iter(self.of_fingerprints(known))
        unknown = Lookup(None, reason="no document is stored under this id")
        return [unknown if stored is None else next(found) for stored in fingerprints]

    def of_fingerprints(self, values: Sequence[int]) -> list[Lookup]:
        fingerprints = np.array(values, dtype=np.uint64)
        return self.index.find_fingerprints(fingerprints, self.k, self.min_similarity)

    def of_records(self, batch: Batch) -> list[Lookup]:
        # Fingerprints that were given in place of texts have no sketches.
        if not batch.prints.sketches.shape[1]:
            return self.index.find_fingerprints(batch.prints.values, self.k, self.min_similarity)
        return self.index.find_prints(batch.prints, self.k, self.min_similarity)


def _k_of_store(chosen: ProfileOptions) -> int | None:
    others = [name for name in chosen.given if name != "k"]
    if others:
        raise UsageError(
            f"a store has its profile: leave out {', '.join(others)}, or name files with --against"
        )
    return chosen.given.get("k")


def _refuse_beside_against(paths: Sequence[str], ids: Sequence[str]) -> None:
    if ids:
        raise UsageError("--id looks up a document of a store: with --against give its text instead")
    if paths.count(STDIN) > 1:
        raise UsageError(
            "standard input is read once: give the queries or the documents of --against in files"
        )
    context = click.get_current_context()
    for name, option in (("url", "--store"), ("drawer_limit", "--drawer-limit")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option} is about a store, and --against opens none: leave one of them out")


@dataclass(frozen=True)
class _Answered:
    """Answers to queries that an option asked."""

    option: str
    answers: Sequence[Answer]

    @property
    def rejects(self) -> list[Reject]:
        return [
            Reject(self.option, None, query, found.reason)
            for query, found in self.answers
            if found.reason is not None
        ]

    @property
    def parsed(self) -> int:
        return len(self.answers)


def _asked(
    searched: _Searched, texts: Sequence[str], ids: Sequence[str], fingerprints: Sequence[int]
) -> Iterator[_Answered]:
    if texts:
        yield _Answered("--text", [(None, found) for found in searched.of_texts(texts)])
    if ids and isinstance(searched, _Stored):  # others refuse them
        yield _Answered("--id", list(zip(ids, searched.of_ids(ids), strict=True)))
    if fingerprints:
        yield _Answered("--fingerprint", [(None, found) for found in searched.of_fingerprints(fingerprints)])


def _answers(searched: _Searched, batch: Batch) -> list[Answer]:
    """An answer to each record, also to those that were rejected, in input order."""
    found = iter(searched.of_records(batch))
    return [
        (item.id, next(found) if isinstance(item, Record) else Lookup(None, reason=item.reason))
        for item in batch.items
        if not isinstance(item, SourceReject)
    ]
