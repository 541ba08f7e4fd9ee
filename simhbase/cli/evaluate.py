"""`simhbase evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simhbase.cli.inputs import end, input_options
from simhbase.cli.options import (
    FiniteRange,
    command,
    min_similarity_option,
    option,
    profile_options,
    scope_option,
    store_option,
)
from simhbase.cli.output import Output, json_option, message
from simhbase.errors import UsageError
from simhbase.model.thresholds import RIGHT

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs


@command(
    epilog="""\b
Examples:
  simhbase evaluate --pairs pairs.tsv --store rocksdb:news.db
  simhbase evaluate --pairs pairs.tsv --set k=6 --set layout=9x3 news.jsonl.gz
"""
)
@option(
    "--pairs FILE",
    "Tab-separated pairs: id_a id_b, or jaccard id_a id_b, with or without a header.",
    name="file",
    group="Evaluation",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
)
@option(
    "--right S",
    "Minimum Jaccard similarity of a correct pair.",
    group="Evaluation",
    type=FiniteRange(min=0, max=1, min_open=True),
    default=RIGHT,
)
@min_similarity_option("Count only matches of this Jaccard similarity, estimated by sketches.", "Evaluation")
@store_option
@scope_option
@profile_options
@input_options()
@json_option
def evaluate(inputs: Inputs, url: str, file: Path, output: Output, **arguments: Any) -> None:
    """Measure recall and precision against given pairs.

    With files, their documents are compared under the given profile. A found pair is correct if its exact
    Jaccard similarity is at least --right (of pairs of characters if most texts are short).

    Without files, the documents of the pairs are looked up in the store. A found pair is correct if it is one
    of the given pairs.

    Shares are percentages with 95 % intervals.
    """
    from simhbase.quality.evaluation import evaluate as measure

    source = click.get_current_context().get_parameter_source("url")
    if inputs.paths and source is ParameterSource.COMMANDLINE:
        raise UsageError("has no effect, as files are compared: leave it or the files out", parameter="url")
    if not inputs.paths:
        inputs.require_unread()
    documents, store = (inputs, None) if inputs.paths else (None, url)
    found = measure(file, documents, store=store, **arguments)
    output.summary(found.as_dict())
    if found.copies:
        message(f"{found.copies:,} documents are exact copies: pairs of equal texts are left out")
    end(found.counts, inputs)
