"""Looks up documents among those of files, without a store."""

from __future__ import annotations

import os
import stat
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from itertools import starmap
from pathlib import Path
from tempfile import gettempdir
from typing import Self

import numpy as np

from simhbase.corpus.given import GivenRows
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.names import STDIN
from simhbase.corpus.outputs.trim import text_only, without_content
from simhbase.corpus.paths import local_path
from simhbase.corpus.reading import read_each
from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Rejects
from simhbase.deduplication.matching import MatchCriteria, SpooledTexts
from simhbase.drawers.memory_index import Hits, Limits, MemoryIndex
from simhbase.drawers.threshold import RisingThreshold
from simhbase.errors import BadInput, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT
from simhbase.jobs.answers import Answer
from simhbase.jobs.lookups import answers_to
from simhbase.jobs.pipeline import Batch, fingerprinting
from simhbase.jobs.seen_ids import SeenIds
from simhbase.model.frames import Documents, Texts
from simhbase.model.values import Fingerprint, Lookup, Match
from simhbase.process.spool import Spool
from simhbase.profile.profile import Profile, given_parameters, with_corpus_defaults, without_sketches

# Documents per drawer. Larger than in dedup, which holds one table at a time: here every table takes 8 bytes
# per document, and comparing a query with dozens of further fingerprints costs next to nothing.
MEMBERS = 64
MATCHES_LIMIT = 100  # of a query: among n near texts all pairs would be n * n


def criteria_of(
    profile: Profile | Mapping[str, object] | None, min_similarity: float | None, *, of_texts: bool = True
) -> tuple[MatchCriteria, float | None]:
    """What matches, and the minimum similarity of texts, None if they are not compared. of_texts: False if
    queries or documents are fingerprints. Raises UsageError for invalid arguments."""
    profile = (with_corpus_defaults if of_texts else without_sketches)(given_parameters(profile))
    criteria = MatchCriteria.of(profile, min_similarity)
    if min_similarity is None and criteria.profile.sketching is not None:
        threshold = criteria.chosen.threshold or 0.0
        if isinstance(threshold, RisingThreshold):  # sketches decide: they have the number of features
            return criteria, 0.0
        min_similarity = threshold
        criteria = MatchCriteria.of(profile, min_similarity)
    return criteria, min_similarity


class Corpus:
    """The documents of files: fingerprints in memory, ids on disk (in the folder for temporary files).

    If a minimum similarity or a profile with sketches is given, texts are on disk, too, and matches have
    their exact similarity.
    """

    def __init__(self, criteria: MatchCriteria, least: float | None, limits: Limits) -> None:
        self._criteria = criteria
        self._limits = limits
        self._ids = Spool(Path(gettempdir()))
        self._texts = None if least is None else SpooledTexts(criteria.profile, least, Path(gettempdir()))
        self._memory_index = MemoryIndex(criteria.nothing, criteria.scheme(0))
        self._rows: GivenRows | None = None
        self._numbers = array("q")  # of the rows of the documents, if these are rows

    def close(self) -> None:
        self._ids.close()
        if self._texts is not None:
            self._texts.close()

    @classmethod
    def of(
        cls,
        profile: Profile | Mapping[str, object] | None,
        min_similarity: float | None,
        limits: Limits,
        *,
        is_itself: bool = False,
        of_texts: bool = True,
    ) -> Self:
        """Create an empty corpus. is_itself: its documents are the queries, too. of_texts: False
        if queries or documents are fingerprints. Raises UsageError for invalid arguments."""
        limits = Limits(limits.drawer, limits.listed + is_itself, limits.matches + is_itself)
        return cls(*criteria_of(profile, min_similarity, of_texts=of_texts), limits)

    @property
    def tells_similarity(self) -> bool:
        """True if matches have their exact similarity."""
        return self._texts is not None

    @cached_property
    def fingerprinter(self) -> Fingerprinter:
        return self.profile.fingerprinter()

    @property
    def profile(self) -> Profile:
        return self._criteria.profile

    def read(self, inputs: Inputs, rejects: Rejects) -> None:
        """Read the documents. Raises BadInput if nothing could be read."""
        found = [self._criteria.nothing]
        self._rows = inputs.rows if isinstance(inputs.rows, GivenRows) else None
        with closing(read_each(inputs, fingerprinting(inputs.options, self, self.trim))) as batches:
            for batch in map(SeenIds().without_repeats, batches):
                rejects.note(batch)
                found.append(batch.fingerprints)
                self._ids.append(each.encode() for each in batch.ids)
                if self._rows is not None:
                    self._numbers.extend(record.line for record in batch.records)
                if self._texts is not None:
                    self._texts.append(record.text or "" for record in batch.records)
        if rejects.counts.nothing_read:
            raise BadInput("nothing could be read")
        fingerprints = FingerprintBatch.joined(found)
        self._memory_index = MemoryIndex(fingerprints, self._criteria.scheme(len(fingerprints) // MEMBERS))

    @property
    def trim(self) -> Callable[[Record], Record]:
        return without_content if self._texts is None else text_only

    def of_texts(self, texts: Sequence[str]) -> list[Lookup]:
        found = self.fingerprinter.fingerprint_many(texts)
        usable = [text for text, reason in zip(texts, found.reasons, strict=True) if reason is None]
        lookups = iter(self._lookups(found.fingerprints[found.accepted], usable))
        return [next(lookups) if reason is None else Lookup(None, reason=reason) for reason in found.reasons]

    def of_fingerprints(self, values: Sequence[int]) -> list[Lookup]:
        return self._lookups(FingerprintBatch.bare(np.array(values, dtype=np.uint64)), ())

    def of_records(self, batch: Batch) -> list[Lookup]:
        return self._lookups(batch.fingerprints, [record.text or "" for record in batch.records])

    def _lookups(self, fingerprints: FingerprintBatch, texts: Sequence[str]) -> list[Lookup]:
        matches: list[list[tuple[Match, int]]] = [[] for _ in range(len(fingerprints))]
        truncated = np.zeros(len(fingerprints), dtype=np.bool_)
        for hits in self._memory_index.near(fingerprints, self._criteria.bounds, self._limits):
            truncated[hits.truncated] = True
            for query, match in self._matches(hits, texts):
                matches[query].append(match)
        return [
            Lookup(Fingerprint(value), tuple(starmap(self._with_given_id, sorted(near))), cut)
            for value, near, cut in zip(
                fingerprints.values.tolist(), matches, truncated.tolist(), strict=True
            )
        ]

    def _with_given_id(self, match: Match, document: int) -> Match:
        """The match of a row with the row's id as it was given."""
        if self._rows is None:
            return match
        return replace(match, id=self._rows.id_of(self._numbers[document], match.id))

    def _matches(self, hits: Hits, texts: Sequence[str]) -> Iterator[tuple[int, tuple[Match, int]]]:
        """Number of the query, and the match with the number of its document, of each hit that is similar
        enough."""
        similarity: list[float | None] = [None] * len(hits.query)
        if self._texts is not None:
            exact = self._texts.similarity(~hits.query, hits.document, texts)
            similar = exact >= self._texts.least
            hits, similarity = hits.where(similar), exact[similar].tolist()
        ids = (each.decode() for each in self._ids.read(hits.document.tolist()))
        fingerprints = map(Fingerprint, hits.fingerprint.tolist())
        matches = map(Match, hits.distance.tolist(), ids, fingerprints, similarity)
        return zip(hits.query.tolist(), zip(matches, hits.document.tolist(), strict=True), strict=True)


def require_pipes_once(paths: Sequence[str]) -> None:
    """Raise UsageError for a pipe that is named twice, by whatever names: it would be empty, or waited for,
    when it is read again."""
    pipes = list(filter(None, map(_pipe, paths)))
    if len(set(pipes)) < len(pipes):
        raise UsageError(
            "standard input or a pipe can only be read once: give the queries or the documents as files"
        )


def _pipe(given: str) -> tuple[int, int] | str | None:
    """What is the same for all names of a pipe; None for what can be read again."""
    with suppress(OSError, ValueError, AttributeError):  # standard input may be closed, or no file
        path = sys.stdin.fileno() if given == STDIN else local_path(given)
        status = None if path is None else os.stat(path)  # noqa: PTH116  # also of a number
        if status is not None and not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return status.st_dev, status.st_ino
    return STDIN if given == STDIN else None


def match(
    queries: Inputs | str | Path | Sequence[str | Path] | Documents | None = None,
    against: Inputs | str | Path | Sequence[str | Path] | Documents = (),
    profile: Profile | Mapping[str, object] | None = None,
    *,
    texts: Texts | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    min_similarity: float | None = None,
    drawer_limit: int | None = DRAWER_LIMIT,
    ids_limit: int = IDS_LIMIT,
    matches_limit: int = MATCHES_LIMIT,
) -> Iterator[Answer]:
    """Look up each document of one corpus among those of another, in input order, without a store.

    queries, against: files, or documents in Python, as for `dedup`; the same for both: each document is
    looked up among the others. Ids of rows, of queries and matches, have the type that was given. texts: in
    place of `queries`. id_field, text_field: as for `dedup`, of both.
    profile: a Profile, or some of its parameters by name. The default is MinHash, which finds nearly all
    pairs with a similarity of 0.65 or more, or SimHash if documents or queries are fingerprints. What
    it leaves open is chosen as by `dedup`. min_similarity: minimum exact Jaccard similarity of matches
    (default: the profile's threshold, if it has one). drawer_limit: maximum number of fingerprints read per
    drawer, None for all; ids_limit: of documents listed per fingerprint; matches_limit: of documents per
    query, the nearest by their fingerprints. Where there are more, the lookup is `truncated`. With
    `by_source` of the Inputs of queries, their watcher is told at the end how many of each source have
    matches.

    Keeps fingerprints of `against` in memory; ids and, if needed, texts are on disk until the iterator is
    exhausted or closed. Raises UsageError for invalid arguments, BadInput if nothing in `against` can be
    read, TooManyRejects.
    """
    limits = Limits(drawer_limit, ids_limit, matches_limit)
    for name, limit in zip(("drawer_limit", "ids_limit", "matches_limit"), limits, strict=True):
        is_all = limit is None and name == "drawer_limit"
        if not is_all and (not isinstance(limit, int) or limit < 1):
            raise UsageError(f"must be a whole number from 1 on, not {limit!r}", parameter=name)
    asked, searched = (
        given.with_fields(id_field, text_field) for given in (Inputs.of(queries, texts), Inputs.of(against))
    )
    searched_rows, asked_rows = (
        given.rows if isinstance(given, Inputs) else given for given in (against, queries)
    )
    if isinstance(searched_rows, Iterator) and any(each is searched_rows for each in (asked_rows, texts)):
        raise UsageError(
            "an iterator can only be read once: give a list of its documents", parameter="against"
        )
    require_pipes_once([*searched.paths, *asked.paths])
    replace(searched, rejects=asked.rejects).check_outputs()
    asked.require_outputs()
    return _answers(asked, searched, profile, min_similarity, limits)


def _answers(
    asked: Inputs,
    searched: Inputs,
    profile: Profile | Mapping[str, object] | None,
    min_similarity: float | None,
    limits: Limits,
) -> Iterator[Answer]:
    of_texts = asked.options.fingerprint_field is None and searched.options.fingerprint_field is None
    if is_itself := asked.are_those_of(searched):
        asked = asked.named_as(searched)
    asked, searched = asked.with_given_rows(), searched.with_given_rows()
    with (
        asked.noting_rejects() as rejects,
        closing(Corpus.of(profile, min_similarity, limits, is_itself=is_itself, of_texts=of_texts)) as corpus,
    ):
        corpus.read(searched, rejects)
        for answers in answers_to(
            asked,
            corpus,
            corpus.trim,
            corpus.of_records,
            rejects,
            exclude_self=is_itself,
            most=limits.matches,
        ):
            yield from answers
