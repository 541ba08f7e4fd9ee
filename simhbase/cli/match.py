"""`simhbase match`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from simhbase.cli.inputs import Console, end, input_options_with_fingerprints
from simhbase.cli.options import HidingCommand, ProfileOptions, min_similarity_option, profile_options
from simhbase.cli.output import Output, results_option
from simhbase.cli.queries import (
    answer,
    documents_as_queries,
    fingerprint_option,
    ids_limit_option,
    text_option,
)
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.sources import STDIN
from simhbase.errors import UsageError
from simhbase.jobs.match import Corpus


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase match --against corpus.jsonl.gz --min-similarity 0.7 today.jsonl
  simhbase match --against 'archive/*.csv' --text '今天上午，北京市气象台发布大风蓝色预警信号。'
""",
)
@input_options_with_fingerprints
@click.option(
    "--against",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Look up among the documents of this file, folder or glob; may be repeated.",
)
@text_option
@fingerprint_option
@profile_options("k")
@min_similarity_option("Least Jaccard similarity of a match, counted exactly.")
@ids_limit_option
@results_option
def match(
    inputs: Inputs,
    against: Sequence[str],
    texts: Sequence[str],
    fingerprints: Sequence[int],
    chosen: ProfileOptions,
    min_similarity: float | None,
    ids_limit: int,
    output: Output,
) -> None:
    """Find the near-duplicates of documents among those of files, without a store.

    The nearest come first. The options of a profile say what matches, as for dedup: by default MinHash finds
    nearly all that share 0.8 of their shingles and more, and texts are compared exactly. Fingerprints of the
    documents are kept in memory; their ids and, where similarities are told (--min-similarity, --verify,
    --scheme minhash), their texts in the folder for temporary files.
    """
    inputs = documents_as_queries(inputs, others=bool(texts or fingerprints))
    searched = replace(inputs, paths=against, watcher=Console())
    for each in (inputs, searched):
        each.require_outputs()
    if [*against, *inputs.paths].count(STDIN) > 1:
        raise UsageError(
            "standard input is read once: give the queries or the documents of --against in files"
        )
    are_fingerprints = bool(fingerprints) or inputs.options.fingerprint_field is not None
    with (
        inputs.noting_rejects() as rejects,
        Corpus.of(chosen.given, min_similarity, ids_limit, of_texts=not are_fingerprints) as corpus,
    ):
        if corpus.tells_similarity and are_fingerprints:
            raise UsageError("fingerprints do not tell similarities: give the texts")
        with rejects.told_to(searched.watcher):  # no answer tells of them
            corpus.read(searched, rejects)
        answer(corpus, inputs, rejects, output, texts=texts, fingerprints=fingerprints)
    end(rejects.counts)
