"""`simhbase idf`."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import click

from simhbase.bulk.frequencies import ChunkFrequencies
from simhbase.bulk.outputs import OutputFile
from simhbase.bulk.parser import Parser
from simhbase.cli.inputs import Inputs, text_options
from simhbase.cli.output import Output, json_option
from simhbase.errors import BadInput
from simhbase.idf import render_table


@click.command(
    epilog="""\b
Examples:
  simhbase idf -o news.idf news.jsonl.gz
  simhbase load --weights tfidf --idf news.idf news.jsonl.gz
"""
)
@text_options
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The IDF file.",
)
@click.option(
    "--min-documents",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Leave out words of fewer documents.",
)
@json_option
def idf(inputs: Inputs, file: Path, min_documents: int, output: Output) -> None:
    """Build an IDF file from a corpus.

    Its texts need no ids.
    """
    inputs.check_outputs(file)
    paths = inputs.or_stdin()
    frequencies: Counter[str] = Counter()
    documents = 0
    with (
        inputs.noting_rejects() as rejects,
        closing(inputs.each(ChunkFrequencies(Parser(inputs.options)), paths)) as counted,
    ):
        for chunk in counted:
            frequencies.update(chunk.frequencies)
            documents += chunk.parsed
            rejects.note(chunk)
        table = render_table(frequencies, documents, min_documents).splitlines()
        if not table:
            raise BadInput(f"no IDF file is written: no word comes up in {min_documents} documents or more")
        with OutputFile(file) as written:
            written.write(table)
    output.summary(
        {"documents": documents, "words": len(table), "rejected": rejects.count, "file": str(file)}
    )
    rejects.end()
