"""`simhbase idf`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simhbase.cli.inputs import OUTPUT_PATH, Console, end, or_stdin, output_option, text_options
from simhbase.cli.options import HidingCommand
from simhbase.cli.output import Output, json_option
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.rejects import Counts
from simhbase.errors import UsageError
from simhbase.jobs.learn_boilerplate import (
    LEAST_DOCUMENTS,
    BoilerplateReport,
    learn_boilerplate,
    require_rereadable,
)
from simhbase.jobs.learn_idf import learn_idf


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase idf -o news.idf news.jsonl.gz
  simhbase load --weights tfidf --idf news.idf news.jsonl.gz
  simhbase idf --boilerplate news.boilerplate news.jsonl.gz
  simhbase load --boilerplate news.boilerplate news.jsonl.gz
""",
)
@text_options
@click.option("-o", "--output", "file", type=OUTPUT_PATH, help="File to write the IDF table to.")
@click.option(
    "--min-documents",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Leave words of fewer documents out of the IDF file.",
)
@output_option("--boilerplate", "Learn lines and phrases that many documents have, and write them here.")
@click.option(
    "--boilerplate-share",
    "share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.01,
    show_default=True,
    metavar="S",
    help=f"Learn what at least this share of the different texts have, and {LEAST_DOCUMENTS} of them.",
)
@json_option
def idf(
    inputs: Inputs,
    file: Path | None,
    min_documents: int,
    boilerplate: Path | None,
    share: float,
    output: Output,
) -> None:
    """Learn an IDF file or the boilerplate of a corpus.

    Its texts need no ids. For boilerplate they are read three times: to find what may be frequent, to
    count that exactly, and to measure what it covers. Look at the file: what was learnt is text, and
    lines can be taken away or added.
    """
    if not (file or boilerplate):
        raise UsageError("nothing to write: name an IDF file (-o), a file of --boilerplate, or both")
    inputs = or_stdin(inputs)
    inputs.require_outputs(file, boilerplate)
    if boilerplate:
        require_rereadable(inputs.paths)
    summary: dict[str, Any] = {}
    counts = Counts()
    if file:
        learnt = learn_idf(inputs, file, min_documents)
        counts = learnt.counts
        summary |= {"documents": learnt.documents, "words": learnt.words, "file": learnt.file}
        inputs = replace(inputs, rejects=None, max_rejects=None, watcher=Console(shows_rejects=False))
    if boilerplate:
        found = learn_boilerplate(inputs, boilerplate, share)
        counts = counts if file else found.counts
        summary |= {"documents": found.documents, "boilerplate": _shown(found)}
    output.summary(summary | {"rejected": counts.rejected})
    end(counts)


def _shown(found: BoilerplateReport) -> dict[str, Any]:
    return {
        "texts": found.texts,
        "least": found.least,
        "lines": found.lines,
        "phrases": found.phrases,
        "percent_of_characters": found.percent_of_characters,
        "documents_of_nothing_else": found.documents_of_nothing_else,
        "file": found.file,
        "most_frequent": [
            {"documents": entry.documents, "kind": entry.kind, "text": entry.text}
            for entry in found.most_frequent
        ],
    }
