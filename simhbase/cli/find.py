"""`simhbase find`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from simhbase.cli.inputs import end, input_options
from simhbase.cli.options import (
    command,
    drawer_limit_option,
    fingerprint_option,
    ids_limit_option,
    min_similarity_option,
    option,
    scope_option,
    since_option,
    store_option,
    tag_option,
    text_option,
    together,
)
from simhbase.cli.output import Output, message, results_option
from simhbase.cli.queries import answer, documents_as_queries, explain, names_of
from simhbase.errors import UsageError
from simhbase.model.values import Query

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.corpus.rejects import Rejects
    from simhbase.index import Index
    from simhbase.jobs.answers import Answer
    from simhbase.jobs.pipeline import Batch
    from simhbase.model.values import Lookup


matches_options = together(
    option(
        "-k N",
        "Maximum Hamming distance in bits. [default: the store's]",
        group="Matches",
        type=click.IntRange(min=0),
    ),
    min_similarity_option("Minimum Jaccard similarity, estimated by the store's sketches."),
    since_option("Matches"),
    tag_option("Only documents with this tag. Repeatable: with all of them.", "Matches"),
    option("--exclude-self", "Leave out the document with the query's id.", group="Matches"),
    drawer_limit_option,
    ids_limit_option,
)


@command(
    epilog="""\b
Examples:
  simhbase find --text '今天上午，北京市气象台发布大风蓝色预警信号。'
  simhbase find --json today.jsonl.gz > near.jsonl
  simhbase find -k 1 --id 20240101/3
"""
)
@store_option
@scope_option
@text_option("Look up this text. Repeatable.", "Queries")
@option("--id ID", "Look up this document. Repeatable.", name="ids", group="Queries", multiple=True)
@fingerprint_option("Look up this fingerprint. Repeatable.", "Queries")
@matches_options
@input_options(fingerprints=True)
@option("--explain", "Show the drawers and candidates of --text and --id.", name="explain_them")
@option("--candidate ID", "With --explain: say why this document matches or not, found or not.")
@results_option
def find(
    inputs: Inputs,
    url: str,
    scope: str | None,
    texts: Sequence[str],
    ids: Sequence[str],
    fingerprints: Sequence[int],
    exclude_self: bool,
    k: int | None,
    min_similarity: float | None,
    since: datetime | None,
    tags: Mapping[str, str],
    drawer_limit: int | None,
    explain_them: bool,
    candidate: str | None,
    ids_limit: int,
    output: Output,
) -> None:
    """Find stored near-duplicates of texts, documents or fingerprints.

    Matches are listed nearest first. A stored document matches itself; use --exclude-self to hide it. A
    result marked "truncated" hit --drawer-limit or --ids-limit.
    """
    others = inputs.paths or fingerprints or since or tags or exclude_self
    if explain_them and (others or not (texts or ids)):
        raise UsageError(
            "--explain needs --text or --id, without files, --fingerprint, --since, --tag or --exclude-self"
        )
    if candidate is not None and not explain_them:
        raise UsageError("--candidate needs --explain")
    query = Query(k, min_similarity, since, tags)
    inputs = documents_as_queries(inputs, others=bool(texts or ids or fingerprints))
    if exclude_self and not (ids or inputs.paths):
        raise UsageError("applies to queries with ids: those of --id and files", parameter="exclude_self")
    inputs.require_outputs()

    from simhbase.index import open_index
    from simhbase.jobs.answers import AnsweredQueries

    with (
        inputs.noting_rejects() as rejects,
        open_index(url, access="read", drawer_limit=drawer_limit, ids_limit=ids_limit, scope=scope) as index,
    ):
        if min_similarity and (missing := index.profile.index_scheme.missing(min_similarity)):
            message(missing)
        if explain_them:
            by_text = [index.explain(text, candidate, k, min_similarity) for text in texts]
            explain("--text", names_of(texts), by_text, rejects, output)
            explain("--id", ids, index.explain_ids(ids, query, candidate), rejects, output)
        else:
            asked = []
            if texts:
                asked.append(AnsweredQueries.of("--text", names_of(texts), index.find_texts(texts, query)))
            if ids:
                stored = AnsweredQueries.of("--id", ids, index.find_ids(ids, query))
                if exclude_self:
                    stored = replace(stored, answers=[each.without_self() for each in stored.answers])
                asked.append(stored)
            if fingerprints:  # answers show them: they need no names
                found = index.find_fingerprints(fingerprints, query)
                asked.append(AnsweredQueries.of("--fingerprint", [None] * len(found), found))
            documents = _answers_of(inputs, index, query, rejects, exclude_self) if inputs.paths else iter(())
            answer(asked, documents, inputs.paths, rejects, output, limits="--drawer-limit or --ids-limit")
    end(rejects.counts, inputs)


def _answers_of(
    inputs: Inputs, index: Index, query: Query, rejects: Rejects, exclude_self: bool
) -> Iterator[Sequence[Answer]]:
    """Answers to the documents of files."""
    from simhbase.corpus.outputs.trim import without_content
    from simhbase.jobs.lookups import answers_to, lookups_of

    def lookups(batch: Batch) -> list[Lookup]:
        return lookups_of(index, batch.fingerprints, query)

    return answers_to(inputs, index, without_content, lookups, rejects, exclude_self=exclude_self)
