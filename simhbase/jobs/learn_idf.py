"""Learns the IDF table of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs.files import OutputFile
from simhbase.corpus.parser import Parser
from simhbase.corpus.reading import read_each
from simhbase.corpus.record import ReadItems, Reject
from simhbase.corpus.rejects import Counts
from simhbase.errors import BadInput
from simhbase.text.features import document_frequencies
from simhbase.text.idf import render_table


@dataclass(frozen=True)
class IdfReport:
    """Result of `learn_idf`. documents: number read; words: number of words in the file; counts: rejected
    records and unreadable sources, by kind."""

    documents: int
    words: int
    file: str
    rejected: int
    counts: Counts


def learn_idf(
    inputs: Inputs | str | Path | Sequence[str | Path], file: str | Path, min_documents: int = 1
) -> IdfReport:
    """Write an IDF file with the words that occur in at least `min_documents` documents. Texts need no ids
    (`InputOptions(id_from="line")`). Raises BadInput, and writes nothing, if there is no such word;
    TooManyRejects."""
    inputs, file = Inputs.of(inputs), Path(file)
    inputs.require_outputs(file)
    frequencies: Counter[str] = Counter()
    documents = 0
    work = partial(frequencies_of, Parser(inputs.options))
    with inputs.noting_rejects() as rejects, closing(read_each(inputs, work)) as chunks:
        for chunk in chunks:
            frequencies.update(chunk.frequencies)
            documents += chunk.parsed
            rejects.note(chunk)
    table = render_table(frequencies, documents, min_documents).splitlines()
    if not table:
        raise BadInput(f"no IDF file was written: no word occurs in {min_documents} documents or more")
    with OutputFile(file, keep_partial=False) as written:
        written.write(table)
    return IdfReport(documents, len(table), str(file), rejects.counts.rejected, rejects.counts)


@dataclass(frozen=True)
class Frequencies:
    """Tokens of a chunk with the number of documents that contain each. parsed: number of documents."""

    frequencies: Mapping[str, int]
    parsed: int
    rejects: list[Reject]
    used: Mapping[str, int]


def frequencies_of(parser: Parser, chunk: ReadItems) -> Frequencies:
    texts, rejects, used = parser.texts(chunk)
    return Frequencies(document_frequencies(texts), len(texts), rejects, used)
