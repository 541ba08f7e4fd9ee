"""`simhbase match`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from simhbase.cli.inputs import end, input_options, with_console
from simhbase.cli.options import (
    command,
    drawer_limit_option,
    fingerprint_option,
    ids_limit_option,
    matches_limit_option,
    min_similarity_option,
    option,
    profile_options,
    text_option,
)
from simhbase.cli.output import Output, results_option
from simhbase.cli.queries import answer, documents_as_queries, names_of
from simhbase.errors import UsageError

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs


@command(
    epilog="""\b
Examples:
  simhbase match --against corpus.jsonl.gz --min-similarity 0.75 today.jsonl
  simhbase match --against 'archive/*.csv' --text '今天上午，北京市气象台发布大风蓝色预警信号。'
"""
)
@option(
    "--against FILE",
    "Search the documents of this file, folder or glob. Repeatable.",
    group="Queries",
    multiple=True,
    required=True,
)
@text_option("Look up this text. Repeatable.", "Queries")
@fingerprint_option("Look up this fingerprint. Repeatable.", "Queries")
@profile_options
@min_similarity_option("Minimum Jaccard similarity of the texts.")
@drawer_limit_option
@ids_limit_option
@matches_limit_option
@input_options(fingerprints=True, by_source="not counted")
@results_option
def match(
    inputs: Inputs,
    against: Sequence[str],
    texts: Sequence[str],
    fingerprints: Sequence[int],
    profile: Mapping[str, object],
    min_similarity: float | None,
    drawer_limit: int | None,
    ids_limit: int,
    matches_limit: int,
    output: Output,
) -> None:
    """Find near-duplicates of documents among those of other files, without a store.

    If the files are the same, each document is looked up among the others.

    Matches are listed nearest first; a result marked "truncated" hit one of the limits. By default MinHash
    finds nearly all texts with a similarity of at least 0.65, which are then compared exactly. Fingerprints
    are held in memory, texts and ids in temporary files.
    """
    from simhbase.deduplication.match import Corpus, require_pipes_once
    from simhbase.drawers.memory_index import Limits
    from simhbase.jobs.answers import AnsweredQueries
    from simhbase.jobs.lookups import answers_to

    inputs = documents_as_queries(inputs, others=bool(texts or fingerprints))
    if inputs.by_source and not inputs.paths:
        raise UsageError("counts queries of files: leave it out", parameter="by_source")
    searched = with_console(replace(inputs, paths=against), prints_results=False, prints_rejects=False)
    replace(inputs, paths=[*inputs.paths, *against]).require_outputs()
    require_pipes_once([*against, *inputs.paths])
    if is_itself := inputs.are_those_of(searched):
        inputs = inputs.named_as(searched)
    are_fingerprints = bool(fingerprints) or inputs.options.fingerprint_field is not None
    with (
        inputs.noting_rejects() as rejects,
        closing(
            Corpus.of(
                profile,
                min_similarity,
                Limits(drawer_limit, ids_limit, matches_limit),
                is_itself=is_itself,
                of_texts=not are_fingerprints,
            )
        ) as corpus,
    ):
        if corpus.tells_similarity and are_fingerprints:
            raise UsageError("similarity cannot be computed from fingerprints: give the texts")
        with rejects.told_to(searched.watcher):  # answers do not show them
            corpus.read(searched, rejects)
        asked = []
        if texts:
            asked.append(AnsweredQueries.of("--text", names_of(texts), corpus.of_texts(texts)))
        if fingerprints:
            found = corpus.of_fingerprints(fingerprints)
            asked.append(AnsweredQueries.of("--fingerprint", [None] * len(found), found))
        others = answers_to(
            inputs,
            corpus,
            corpus.trim,
            corpus.of_records,
            rejects,
            exclude_self=is_itself,
            most=matches_limit,
        )
        limits = "--matches-limit, --ids-limit or --drawer-limit"
        answer(asked, others, inputs.paths, rejects, output, limits=limits, exact=True)
    end(rejects.counts, inputs)
