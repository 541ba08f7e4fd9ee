"""`simhbase pairs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from simhbase.cli.groups import tell
from simhbase.cli.inputs import end, input_options, or_stdin, with_console
from simhbase.cli.options import (
    command,
    min_similarity_option,
    option,
    profile_options,
    scope_option,
    since_option,
    tag_option,
)
from simhbase.cli.output import Output, results_option
from simhbase.errors import UsageError
from simhbase.model.groups import Pair
from simhbase.model.thresholds import SIMILAR
from simhbase.process.progress import show_progress

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs


@command(
    epilog="""\b
Examples:
  simhbase pairs corpus.jsonl.gz > pairs.tsv
  simhbase pairs --set k=3 --fingerprint-field f --json fingerprints.jsonl
  simhbase pairs --store rocksdb:news.db --since 7d
"""
)
@profile_options
@min_similarity_option(
    f"Minimum Jaccard similarity of texts; 0: compare none. [default: the profile's threshold, or {SIMILAR}]"
)
@option("--store URL", "The documents of this store, by its profile.", name="url", group="Store")
@scope_option
@since_option("Store")
@tag_option("Only documents with this tag. Repeatable: with all of them.", "Store")
@input_options(fingerprints=True)
@results_option
def pairs(
    inputs: Inputs,
    url: str | None,
    scope: str | None,
    profile: Mapping[str, object],
    min_similarity: float | None,
    since: datetime | None,
    tags: Mapping[str, str],
    output: Output,
) -> None:
    """List all pairs of near-duplicates of a corpus or a store.

    Prints each once, in no particular order: tab-separated ids, distance and similarity under a header, as
    'simhbase evaluate' reads them. In a corpus, the texts of the pairs are compared exactly; in a store,
    pairs are those that lookups find. A text that is there N times has N * (N - 1) / 2 pairs.

    SIMHBASE_STORE is ignored: give --store for the documents of a store.
    """
    if url is None:
        if since or tags or scope:
            raise UsageError("--scope, --since and --tag are for the documents of a store: give --store")
        _of_corpus(inputs, profile, min_similarity, output)
    elif inputs.paths or profile or min_similarity is not None:
        raise UsageError(
            "a store has its own documents, profile and threshold: leave out files, --profile, --set and "
            "--min-similarity, or --store"
        )
    else:
        inputs.require_unread()
        _of_store(url, scope, since, tags, output)


def _of_corpus(
    inputs: Inputs, profile: Mapping[str, object], min_similarity: float | None, output: Output
) -> None:
    from simhbase.deduplication.pairs import pairs as find_pairs

    inputs = or_stdin(with_console(inputs, prints_results=True))
    with find_pairs(inputs, profile, min_similarity=min_similarity) as found:
        _print(found, output)
    end(found.counts, inputs)


def _of_store(
    url: str, scope: str | None, since: datetime | None, tags: Mapping[str, str], output: Output
) -> None:
    from simhbase.admin import Administrator
    from simhbase.index import open_index

    with (
        open_index(url, access="read", scope=scope) as index,
        Administrator(index).pairs(since=since, tags=tags, progress=show_progress) as found,
    ):
        tell(found, f"{found.documents:,} documents")
        _print(found, output)


def _print(found: Iterable[Pair], output: Output) -> None:
    output.tab_separated(("id_a", "id_b", "distance", "similarity"), found, _cells)


def _cells(pair: Pair) -> tuple[str, ...]:
    similarity = "" if pair.similarity is None else f"{pair.similarity:.4f}"
    return pair.id_a, pair.id_b, str(pair.distance), similarity
