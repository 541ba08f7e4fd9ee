"""`simhbase idf`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.inputs import (
    OUTPUT_PATH,
    end,
    input_options,
    or_stdin,
    output_option,
    with_console,
    without_ids,
)
from simhbase.cli.options import FiniteRange, command, option
from simhbase.cli.output import Output, json_option
from simhbase.errors import UsageError

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.jobs.learn_boilerplate import BoilerplateReport

_SHARE = 0.01


@command(
    epilog="""\b
Examples:
  simhbase idf -o news.idf news.jsonl.gz
  simhbase load --set weights=tfidf --set idf=news.idf news.jsonl.gz
  simhbase idf --boilerplate news.boilerplate news.jsonl.gz
  simhbase load --set boilerplate=news.boilerplate news.jsonl.gz
"""
)
@option("-o, --output FILE", "Write IDF here.", name="file", group="Output files", type=OUTPUT_PATH)
@option(
    "--min-documents N",
    "Leave out words in fewer documents.",
    group="Output files",
    type=click.IntRange(min=1),
    default=1,
)
@output_option("--boilerplate", "Write frequent lines and phrases here.")
@option(
    "--boilerplate-share S",
    "Minimum share of texts with a line or phrase.",
    name="share",
    group="Output files",
    type=FiniteRange(0, 1, min_open=True),
    default=_SHARE,
)
@input_options(ids=False)
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

    Texts need no ids. Learning boilerplate reads them three times. Review the file before you use it: it is
    plain text, and lines can be removed or added.
    """
    if not (file or boilerplate):
        raise UsageError("nothing to write: give -o FILE, --boilerplate FILE or both")
    if file is None and min_documents != 1:
        raise UsageError("applies to IDF: give -o FILE, too", parameter="min_documents")
    if boilerplate is None and share != _SHARE:
        raise UsageError("applies to boilerplate: give --boilerplate FILE, too", parameter="share")
    from simhbase.jobs.learn_boilerplate import learn_boilerplate, require_rereadable
    from simhbase.jobs.learn_idf import learn_idf

    inputs = without_ids(or_stdin(inputs))
    inputs.require_outputs(file, boilerplate)
    if boilerplate:
        require_rereadable(inputs.paths)
    summary: dict[str, Any] = {}
    again = inputs
    if file:
        learnt = learn_idf(inputs, file, min_documents)
        counts = learnt.counts
        summary |= {"documents": learnt.documents, "words": learnt.words, "file": learnt.file}
        again = with_console(replace(inputs, rejects=None, max_rejects=None), shows_rejects=False)
    if boilerplate:
        found = learn_boilerplate(again, boilerplate, share)
        counts = learnt.counts if file else found.counts
        summary |= {"documents": found.documents, "boilerplate": _shown(found)}
    output.summary(summary | {"rejected": counts.rejected})
    end(counts, inputs)


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
