"""Finds all pairs of near-duplicates within one corpus, without a store."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.given import GivenRows
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs.trim import text_only, without_content
from simhbase.corpus.parser import Parser
from simhbase.corpus.reading import read_each
from simhbase.corpus.rejects import Counts
from simhbase.corpus.watcher import ProgressOnly
from simhbase.deduplication.matching import MatchCriteria, SpooledTexts
from simhbase.drawers.groups import Matcher
from simhbase.drawers.pairs import near_pairs, pairs_of
from simhbase.errors import BadInput
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.pipeline import ChunkFingerprinter
from simhbase.jobs.seen_ids import SeenIds
from simhbase.model.frames import Documents, Texts
from simhbase.model.groups import Pair
from simhbase.process.progress import Progress
from simhbase.process.slices import Numbers
from simhbase.process.spool import Spool, SpooledRows
from simhbase.profile.profile import Profile


@dataclass(frozen=True, repr=False)
class CorpusPairs:
    """The pairs of near documents of a corpus, each once, in no particular order. They are compared whenever
    they are iterated over; ids and texts are on disk until it is closed or forgotten.

    counts: of the documents read.
    """

    counts: Counts
    _matcher: Matcher
    _ids: Spool
    _rows: GivenRows | None
    _numbers: Sequence[int]  # of the rows of the documents, if these are rows
    _files: ExitStack

    def __repr__(self) -> str:
        return f"<pairs of {len(self._ids):,} documents>"

    def __iter__(self) -> Iterator[Pair]:
        return pairs_of(near_pairs(self._matcher), self._names)

    def _names(self, documents: Numbers) -> Sequence[Any]:
        numbers = documents.tolist()
        names = [each.decode() for each in self._ids.read(numbers)]
        if self._rows is None:
            return names
        return [
            self._rows.id_of(self._numbers[number], name) for number, name in zip(numbers, names, strict=True)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the space on disk. May be called twice."""
        self._files.close()


def pairs(
    inputs: Inputs | str | Path | Sequence[str | Path] | Documents | None = None,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    texts: Texts | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    progress: Progress | None = None,
) -> CorpusPairs:
    """Find all pairs of near-duplicates within one corpus, without a store: those that `dedup` groups by
    chains. (`Administrator.pairs` has those of a store.)

    inputs, profile, texts, id_field, text_field, min_similarity: as for `dedup`. A text that is there c times
    has c * (c - 1) / 2 pairs. progress: see `show_progress`; replaces the watcher of `inputs`.

    The corpus is read at once, and pairs are found as they are iterated over. Takes about 50 bytes of memory
    per document; ids, sketches and texts are in the folder for temporary files. Raises UsageError for invalid
    arguments, BadInput if no row could be read, TooManyRejects.
    """
    inputs = Inputs.of(inputs, texts)
    if id_field or text_field:
        inputs = inputs.with_fields(id_field, text_field)
    if progress is not None:
        inputs = replace(inputs, watcher=ProgressOnly(progress))
    inputs.require_outputs()
    criteria, least = MatchCriteria.exact(
        profile, min_similarity, of_texts=inputs.options.fingerprint_field is None
    )
    options = replace(inputs.options, fingerprint_bits=criteria.profile.bits)
    inputs = replace(inputs, options=options).with_given_rows()
    folder, numbers, problem = Path(gettempdir()), array("q"), None
    with ExitStack() as stack:
        ids = stack.enter_context(closing(Spool(folder)))
        values = stack.enter_context(closing(SpooledRows(folder, criteria.nothing.values)))
        sketches = stack.enter_context(closing(SpooledRows(folder, criteria.nothing.sketches)))
        spooled = (
            stack.enter_context(closing(SpooledTexts(criteria.profile, least, folder))) if least else None
        )
        fingerprinter = None if options.fingerprint_field else criteria.profile.fingerprinter()
        work = ChunkFingerprinter(Parser(options), fingerprinter, text_only if spooled else without_content)
        with inputs.noting_rejects() as rejects, closing(read_each(inputs, work)) as batches:
            for batch in map(SeenIds().without_repeats, batches):
                rejects.note(batch)
                problem = problem or next((each.reason for each in batch.rejects), None)
                ids.append(each.encode() for each in batch.ids)
                numbers.extend(record.line or 0 for record in batch.records)
                values.append(batch.fingerprints.values)
                sketches.append(batch.fingerprints.sketches)
                if spooled:
                    spooled.append(record.text or "" for record in batch.records)
            if rejects.counts.nothing_read and inputs.rows is not None:
                raise BadInput(f"no row could be read: {problem}")
        files = stack.pop_all()
    fingerprints = FingerprintBatch(cast(NDArray[np.uint64], values), cast(NDArray[np.uint8], sketches))
    scheme = criteria.scheme(len(fingerprints))
    if least and (missing := scheme.missing(least)):
        inputs.watcher.note(missing)
    exact = spooled.exact() if spooled else None
    matcher = Matcher(fingerprints, scheme, criteria.bounds, exact, inputs.watcher.progress)
    rows = inputs.rows if isinstance(inputs.rows, GivenRows) else None
    found = CorpusPairs(rejects.counts, matcher, ids, rows, numbers, files)
    weakref.finalize(found, files.close)
    return found
