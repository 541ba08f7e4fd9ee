"""Reads a corpus to measure on a sample of it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from simhbase.bulk.parser import Parser
from simhbase.bulk.pipeline import Batch
from simhbase.bulk.record import Chunk, Record
from simhbase.bulk.seen import SeenIds
from simhbase.cli.inputs import Inputs, Rejects
from simhbase.errors import BadInput
from simhbase.features import Extractor
from simhbase.prints import Prints
from simhbase.quality.jaccard import shingle_extractor
from simhbase.quality.sample import Sample, Sampler, document_keys


@dataclass(frozen=True)
class _ChunkKeys:
    """Chunk -> Batch, in which keys to sample by, uint64 (n, KEYS), take the place of fingerprints.
    Cheap to send to another process."""

    parser: Parser
    seed: int

    def __call__(self, chunk: Chunk) -> Batch:
        """Parses a chunk and makes keys of its texts."""
        items = self.parser.parse(chunk)
        texts = [item.text or "" for item in items if isinstance(item, Record)]
        keys = document_keys(self._extractor.extract(texts), self.seed)
        return Batch(items, Prints.bare(keys), len(texts))

    @cached_property
    def _extractor(self) -> Extractor:
        return shingle_extractor()


def read_sample(inputs: Inputs, limit: int, seed: int, rejects: Rejects) -> Sample:
    """A sample of at most so many different texts. Raises BadInput where nothing could be read."""
    sampler = Sampler(limit)
    seen = SeenIds()
    work = _ChunkKeys(Parser(inputs.options), seed)
    with closing(inputs.each(work, inputs.or_stdin())) as batches:
        for batch in (batch.without_repeats(seen) for batch in batches):
            texts = [record.text or "" for record in batch.records]
            sampler.add(batch.ids, texts, batch.prints.values)
            rejects.note(batch)
    sample = sampler.sample()
    if not sample.read:
        raise BadInput("no document could be read, so there is nothing to measure")
    return sample
