"""`simhbase find`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import click
import numpy as np

from simhbase.bulk.pipeline import Batch, without_content
from simhbase.bulk.record import Record, Reject, SourceReject
from simhbase.cli.inputs import Inputs, fingerprinting, input_options_with_fingerprints
from simhbase.cli.options import converted, min_similarity_option, store_option
from simhbase.cli.output import Answer, Output, json_option
from simhbase.cli.progress import progress_beside_results
from simhbase.errors import UsageError
from simhbase.index import Index, open_index
from simhbase.model import Lookup
from simhbase.prints import Prints
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
"""
)
@input_options_with_fingerprints
@store_option
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
@click.option(
    "-k", "k", type=click.IntRange(min=0), help="Bits in which matches differ at most (the store's)."
)
@min_similarity_option(
    "Jaccard similarity of matches at least, estimated by sketches: of stores with the scheme minhash (by "
    "default their threshold) or --verify."
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
    texts: Sequence[str],
    ids: Sequence[str],
    fingerprints: Sequence[int],
    k: int | None,
    min_similarity: float | None,
    drawer_limit: int | None,
    ids_limit: int,
    output: Output,
) -> None:
    """Find the stored documents near texts, ids or fingerprints.

    The nearest come first. A document that is stored is among its own matches. An answer that a
    limit has cut says that it is truncated.
    """
    inputs.check_outputs()
    asked = bool(texts or ids or fingerprints)
    paths = inputs.paths if asked else inputs.or_stdin()
    with (
        inputs.noting_rejects() as rejects,
        open_index(url, access="read", drawer_limit=drawer_limit, ids_limit=ids_limit) as index,
    ):
        near = _Bounds(k, min_similarity)
        for answered in _asked(index, texts, ids, fingerprints, near):
            output.lookups(answered.answers)
            rejects.note(answered)
        if paths:
            work = fingerprinting(inputs, index, without_content)
            with closing(inputs.each(work, paths, progress_beside_results)) as batches:
                for batch in batches:
                    output.lookups(_answers(index, batch, near))
                    rejects.note(batch)
    rejects.end()


@dataclass(frozen=True)
class _Bounds:
    """What counts as near, None: as the store's profile says."""

    k: int | None
    min_similarity: float | None

    def of_fingerprints(self, index: Index, values: Sequence[int]) -> list[Lookup]:
        """What is near fingerprints."""
        return index.find_fingerprints(np.array(values, dtype=np.uint64), self.k, self.min_similarity)

    def of_prints(self, index: Index, prints: Prints) -> list[Lookup]:
        """What is near texts, or near the fingerprints that were given in their place."""
        if not prints.sketches.shape[1]:
            return index.find_fingerprints(prints.values, self.k, self.min_similarity)
        return index.find_prints(prints, self.k, self.min_similarity)


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
    index: Index, texts: Sequence[str], ids: Sequence[str], fingerprints: Sequence[int], near: _Bounds
) -> Iterator[_Answered]:
    if texts:
        yield _Answered(
            "--text", [(None, found) for found in index.find_many(texts, near.k, near.min_similarity)]
        )
    if ids:
        yield _Answered("--id", _by_id(index, ids, near))
    if fingerprints:
        found = near.of_fingerprints(index, fingerprints)
        yield _Answered("--fingerprint", [(None, lookup) for lookup in found])


def _by_id(index: Index, ids: Sequence[str], near: _Bounds) -> list[Answer]:
    storable = [document for document in ids if id_problem(document) is None]
    stored_under = dict(zip(storable, index.fingerprints(storable), strict=True))
    fingerprints = [stored_under.get(document) for document in ids]
    known = [fingerprint for fingerprint in fingerprints if fingerprint is not None]
    found = iter(near.of_fingerprints(index, known))
    return [
        (
            document,
            Lookup(None, reason="no document is stored under this id") if stored is None else next(found),
        )
        for document, stored in zip(ids, fingerprints, strict=True)
    ]


def _answers(index: Index, batch: Batch, near: _Bounds) -> list[Answer]:
    """An answer to each record, also to those that were rejected, in input order."""
    found = iter(near.of_prints(index, batch.prints))
    return [
        (item.id, next(found) if isinstance(item, Record) else Lookup(None, reason=item.reason))
        for item in batch.items
        if not isinstance(item, SourceReject)
    ]
