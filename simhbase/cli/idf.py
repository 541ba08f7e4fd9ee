"""`simhbase idf`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from simhbase.boilerplate import WINDOW
from simhbase.bulk.boilerplate import LEAST_DOCUMENTS, ChunkCoverage, Coverage, learn
from simhbase.bulk.frequencies import ChunkFrequencies
from simhbase.bulk.outputs import OutputFile
from simhbase.bulk.parser import Parser
from simhbase.bulk.record import Chunk
from simhbase.bulk.sources import STDIN
from simhbase.cli.inputs import AnyOutcome, Inputs, Rejects, output_option, text_options
from simhbase.cli.output import Output, json_option
from simhbase.errors import BadInput, UsageError
from simhbase.idf import render_table

SHOWN = 10


@click.command(
    epilog="""\b
Examples:
  simhbase idf -o news.idf news.jsonl.gz
  simhbase load --weights tfidf --idf news.idf news.jsonl.gz
  simhbase idf --boilerplate news.boilerplate news.jsonl.gz
  simhbase load --boilerplate news.boilerplate news.jsonl.gz
"""
)
@text_options
@click.option("-o", "--output", "file", type=click.Path(dir_okay=False, path_type=Path), help="The IDF file.")
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
    help=f"Of the different texts, in at least {LEAST_DOCUMENTS}.",
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
    inputs.check_outputs(file, boilerplate)
    paths = inputs.or_stdin()
    if boilerplate:
        _require_rereadable(paths)
    summary: dict[str, Any] = {}
    with inputs.noting_rejects() as rejects:
        passes = _Passes(inputs, paths, rejects)
        if file:
            summary |= _write_idf(passes, file, min_documents)
        if boilerplate:
            summary |= _write_boilerplate(passes, boilerplate, share)
    output.summary(summary | {"rejected": rejects.count})
    rejects.end()


class _Passes:
    """Reads the same documents any number of times; their rejects are noted once."""

    def __init__(self, inputs: Inputs, paths: Sequence[str], rejects: Rejects) -> None:
        self.parser = Parser(inputs.options)
        self._inputs = inputs
        self._paths = paths
        self._rejects: Rejects | None = rejects

    def each(self, work: Callable[[Chunk], AnyOutcome]) -> Iterator[AnyOutcome]:
        """What work makes of each chunk."""
        with closing(self._inputs.each(work, self._paths)) as outcomes:
            for outcome in outcomes:
                yield outcome
                if self._rejects:
                    self._rejects.note(outcome)
        self._rejects = None


def _require_rereadable(paths: Sequence[str]) -> None:
    for path in paths:
        if path == STDIN or Path(path).is_fifo() or Path(path).is_char_device():
            raise UsageError(
                f"--boilerplate reads its input three times, and {path!r} can be read once: "
                "write it to a file"
            )


def _write_idf(passes: _Passes, file: Path, least: int) -> dict[str, Any]:
    """Counts the documents of each word. Raises BadInput where that leaves nothing to write."""
    frequencies: Counter[str] = Counter()
    documents = 0
    for chunk in passes.each(ChunkFrequencies(passes.parser)):
        frequencies.update(chunk.frequencies)
        documents += chunk.parsed
    table = render_table(frequencies, documents, least).splitlines()
    if not table:
        raise BadInput(f"no IDF file is written: no word comes up in {least} documents or more")
    with OutputFile(file) as written:
        written.write(table)
    return {"documents": documents, "words": len(table), "file": str(file)}


def _write_boilerplate(passes: _Passes, file: Path, share: float) -> dict[str, Any]:
    """Learns what that share of the texts have. Raises BadInput where there is no such thing."""
    found = learn(passes.each, passes.parser, share)
    if not found.entries:
        raise BadInput(
            f"no boilerplate file is written: no line and no run of {WINDOW} words or Chinese characters "
            f"comes up in {found.least:,} or more of {found.texts:,} different texts. A lower "
            f"--boilerplate-share asks for fewer, down to {LEAST_DOCUMENTS}"
        )
    learnt = found.boilerplate(file.name)
    covered = Coverage.total(passes.each(ChunkCoverage(passes.parser, learnt)))
    with OutputFile(file) as written:
        written.write(learnt.content.splitlines())
    return {
        "documents": covered.parsed,
        "boilerplate": {
            "texts": found.texts,
            "least": found.least,
            "lines": learnt.count("line"),
            "phrases": learnt.count("phrase"),
            "percent_of_characters": round(100 * covered.covered / max(1, covered.characters), 2),
            "documents_of_nothing_else": covered.bare,
            "file": str(file),
            "most_frequent": [
                {"documents": entry.documents, "kind": entry.kind, "text": entry.text}
                for entry in learnt.entries[:SHOWN]
            ],
        },
    }
