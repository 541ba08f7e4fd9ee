"""`simhbase find`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import click

from simhbase.cli.inputs import end, input_options_with_fingerprints
from simhbase.cli.options import (
    HidingCommand,
    converted,
    k_option,
    min_similarity_option,
    moment,
    store_option,
    tag_option,
)
from simhbase.cli.output import Output, results_option
from simhbase.cli.queries import (
    answer,
    documents_as_queries,
    explained,
    fingerprint_option,
    ids_limit_option,
    names_of,
    text_option,
)
from simhbase.corpus.inputs import Inputs
from simhbase.errors import UsageError
from simhbase.index import open_index
from simhbase.index.reader import DRAWER_LIMIT
from simhbase.jobs.lookups import StoredDocuments
from simhbase.model import Query


def _limit(value: str) -> int | None:
    if value != "all" and not re.fullmatch("[1-9][0-9]*", value):
        raise UsageError(f"{value!r} is no limit: use a number from 1 on, or all")
    return None if value == "all" else int(value)


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase find --text '今天上午，北京市气象台发布大风蓝色预警信号。'
  simhbase find --json today.jsonl.gz > near.jsonl
  simhbase find -k 1 --id 20240101/3
""",
)
@input_options_with_fingerprints
@store_option
@text_option
@click.option("--id", "ids", multiple=True, help="Look up the near-duplicates of this stored document.")
@fingerprint_option
@click.option("--exclude-self", is_flag=True, help="Leave out the document that has the query's own id.")
@k_option
@min_similarity_option(
    "Least Jaccard similarity of a match, estimated by sketches: of stores with --scheme minhash (by default "
    "their threshold) or --verify."
)
@click.option(
    "--since",
    metavar="TIME",
    callback=converted(moment),
    hidden=True,  # the text above names it
    help="Only documents last written since then: 7d or 12h for so long ago, or a date as 2026-01-31.",
)
@tag_option("Find only documents with this tag; of several, with all.")
@click.option(
    "--drawer-limit",
    callback=converted(_limit),
    default=str(DRAWER_LIMIT),
    metavar="N",
    show_default=True,
    hidden=True,  # few need it: the help names it where it says what truncated means
    help="Rows read of a drawer at most, or all.",
)
@click.option(
    "--explain",
    is_flag=True,
    hidden=True,  # the text above names it
    help="Say which drawers were read, and what became of each candidate there.",
)
@ids_limit_option
@results_option
def find(
    inputs: Inputs,
    url: str,
    texts: Sequence[str],
    ids: Sequence[str],
    fingerprints: Sequence[int],
    exclude_self: bool,
    k: int | None,
    min_similarity: float | None,
    since: datetime | None,
    tags: Mapping[str, str],
    drawer_limit: int | None,
    explain: bool,
    ids_limit: int,
    output: Output,
) -> None:
    """Find the stored near-duplicates of texts, documents or fingerprints.

    The nearest come first. A document that is stored is among its own matches (but with --exclude-self).
    With --since 7d, or a date, only those that were last written since then: new, or with another
    fingerprint than before. A load that finds a document unchanged does not write it.

    An answer that a limit has cut says that it is truncated: --drawer-limit N (or all) reads so many rows of
    a drawer, --ids-limit N lists so many documents of a fingerprint. With --explain the answer to --text and
    --id is which drawers were read, and why each candidate there is a match or none. To look documents up
    among those of files, without a store, use match.
    """
    if explain and (inputs.paths or fingerprints or since or tags or not (texts or ids)):
        raise UsageError(
            "--explain goes with --text and --id: give one of them, and no files, --fingerprint, --since or "
            "--tag"
        )
    query = Query(k, min_similarity, since, tags)
    inputs = documents_as_queries(inputs, others=bool(texts or ids or fingerprints))
    inputs.require_outputs()
    with (
        inputs.noting_rejects() as rejects,
        open_index(url, access="read", drawer_limit=drawer_limit, ids_limit=ids_limit) as index,
    ):
        if explain:
            by_text = [index.explain(text, k=k, min_similarity=min_similarity) for text in texts]
            explained("--text", names_of(texts), by_text, rejects, output)
            explained("--id", ids, index.explain_ids(ids, query), rejects, output)
            end(rejects.counts)
            return
        answer(
            StoredDocuments(index, query),
            inputs,
            rejects,
            output,
            texts=texts,
            ids=ids,
            fingerprints=fingerprints,
            exclude_self=exclude_self,
        )
    end(rejects.counts)
