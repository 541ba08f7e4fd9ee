"""An IDF table of a corpus: in how many of its documents each word occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import OutputFile
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Chunk, Record, Reject
from simhbase.corpus.rejects import Counts
from simhbase.errors import BadInput
from simhbase.text.features import document_frequencies
from simhbase.text.idf import render_table


@dataclass(frozen=True)
class IdfReport:
    """What was learnt: of how many documents, how many words, written to which file. counts: what could not
    be read, by kind."""

    documents: int
    words: int
    file: str
    rejected: int
    counts: Counts


def learn_idf(
    inputs: Inputs | str | Path | Sequence[str | Path], file: str | Path, min_documents: int = 1
) -> IdfReport:
    """Writes an IDF file of a corpus, without the words of fewer documents than min_documents. Its texts need
    no ids (`InputOptions(id_from="line")`).

    Raises BadInput, and writes nothing, where that leaves no word; TooManyRejects.
    """
    inputs, file = Inputs.of(inputs), Path(file)
    inputs.require_outputs(file)
    frequencies: Counter[str] = Counter()
    documents = 0
    work = ChunkFrequencies(Parser(inputs.options))
    with inputs.noting_rejects() as rejects, closing(inputs.each(work)) as chunks:
        for chunk in chunks:
            frequencies.update(chunk.frequencies)
            documents += chunk.parsed
            rejects.note(chunk)
    table = render_table(frequencies, documents, min_documents).splitlines()
    if not table:
        raise BadInput(f"no IDF file is written: no word comes up in {min_documents} documents or more")
    with OutputFile(file, keep_partial=False) as written:
        written.write(table)
    return IdfReport(documents, len(table), str(file), rejects.counts.rejected, rejects.counts)


@dataclass(frozen=True)
class Frequencies:
    """A chunk's tokens with the number of documents that hold each; parsed: how many documents."""

    frequencies: Mapping[str, int]
    parsed: int
    rejects: list[Reject]


@dataclass(frozen=True)
class ChunkFrequencies:
    """Chunk -> Frequencies. Cheap to send to another process."""

    parser: Parser

    def __call__(self, chunk: Chunk) -> Frequencies:
        items = self.parser.parse(chunk)
        frequencies, documents = document_frequencies(
            item.text or "" for item in items if isinstance(item, Record)
        )
        return Frequencies(frequencies, documents, [item for item in items if isinstance(item, Reject)])
