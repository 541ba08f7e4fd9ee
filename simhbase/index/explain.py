"""Explains a lookup by recording the reader, so that both always agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import FLAG, numbers_of
from simhbase.drawers.scheme import Bounds
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.mute import NOTHING_HIDDEN
from simhbase.index.reader import Led, Reader, led_to, sketches_of
from simhbase.index.rows import PendingCell
from simhbase.index.tags import required_tags
from simhbase.index.writer import Known, expired_before, known
from simhbase.model.explanations import Candidate, Drawer, Explanation, Verdict
from simhbase.model.moment import milliseconds
from simhbase.model.values import Fingerprint, Match, Query
from simhbase.stores.base import DrawerRows, HintingStore, Store

MOST_CANDIDATES = 100
MOST_FOLLOWED = 100_000  # documents, the nearest: as in lookups of a service
_EVERYTHING = Bounds(64)
_NOTHING = np.empty(0, dtype=np.uint64)


def explain(reader: Reader, text: FingerprintBatch, query: Query, document: str | None = None) -> Explanation:
    """Look one text up, and explain what was read and why each document matches or not.

    document: an id to include in the candidates, found or not. The reads must be of one state of the store
    (`Store.read_consistent`). Raises UsageError like `Reader.find`.
    """
    scheme = reader.scheme
    (prefixes,) = scheme.prefixes(text)
    probes = scheme.probes(text)[0]
    _, in_order = np.unique(numbers_of(probes), return_index=True)  # as the reader reads them
    tables = probes[in_order, FLAG] - 1
    read: list[list[NDArray[np.uint64]]] = [[_NOTHING] for _ in prefixes]
    truncated: set[int] = set()

    def record(part: DrawerRows) -> None:
        truncated.update(tables[part.truncated].tolist())
        for drawer, start, end in zip(part.drawers, part.offsets, part.offsets[1:], strict=False):
            read[tables[drawer]].append(part.fingerprints[start:end])

    followed = replace(reader, metrics=None, record=record, near_limit=MOST_FOLLOWED, deferred="nothing")
    lookup = followed.find(text, query)[0]
    contents = [np.unique(np.concatenate(parts)) for parts in read]  # a drawer may be read twice
    if reader.of:
        contents = _listed_here(reader, contents)
    found = np.unique(np.concatenate(contents))
    bounds = scheme.bounds(query.k, query.min_similarity)
    drawers = (
        Drawer(
            flag,
            tuple((run.start, run.width) for run in runs),
            prefix.tobytes().hex(),
            len(held),
            int(np.count_nonzero(scheme.bits_apart(held, text.values) <= bounds.bits)),
            flag - 1 in truncated,
        )
        for flag, (runs, prefix, held) in enumerate(
            zip(scheme.drawer_runs, prefixes, contents, strict=True), 1
        )
    )
    candidates = _Candidates(reader, text, query, contents).judged(found, lookup.matches, document)
    more = max(0, len(found) - MOST_CANDIDATES)
    return Explanation(lookup.fingerprint, tuple(drawers), tuple(candidates), more, bool(truncated))


def _listed_here(reader: Reader, contents: Sequence[NDArray[np.uint64]]) -> list[NDArray[np.uint64]]:
    """The fingerprints of drawers that list documents of the reader's scope. Others are of other scopes, of
    which this one is told nothing, not even how many."""
    listed = replace(reader, ids_limit=0).listed(np.unique(np.concatenate(contents)).tolist())
    own = np.array([value for value, documents in listed.items() if documents], dtype=np.uint64)
    return [held[np.isin(held, own)] for held in contents]


class _Candidates:
    """Verdicts on the documents found by a lookup. contents: fingerprints in each drawer."""

    def __init__(
        self, reader: Reader, text: FingerprintBatch, query: Query, contents: list[NDArray[np.uint64]]
    ) -> None:
        self._store, self._scheme, self._hidden = reader.store, reader.scheme, reader.hidden
        self._reader = replace(reader, metrics=None, hidden=NOTHING_HIDDEN)
        self._text, self._contents = text, contents
        self._bounds = reader.scheme.bounds(query.k, query.min_similarity)
        self._earliest = expired_before(reader.store, reader.clock())
        self._since = 0 if query.since is None else milliseconds(query.since, reader.clock())
        self._tags = set(required_tags(query.tags))

    def judged(
        self, found: NDArray[np.uint64], matches: Iterable[Match], document: str | None
    ) -> list[Candidate]:
        """Documents of the nearest fingerprints, nearest first."""
        bits = self._scheme.bits_apart(found, self._text.values)
        distances = (
            bits if self._scheme.listed_sketching is None else self._reader.mismatches(self._text, found)
        )
        nearest = np.argsort(distances, kind="stable")[:MOST_CANDIDATES]
        values = found[nearest].tolist()
        hits = [(0, value, far) for value, far in zip(values, bits[nearest].tolist(), strict=True)]
        listed = replace(self._reader, ids_limit=MOST_CANDIDATES).listed(values)
        led = list(islice(led_to(hits, listed), MOST_CANDIDATES))
        ids = {each[1] for each in led} | ({document} if document is not None else set())
        stored, pending = _known(self._store, ids, self._earliest)
        now = {id_: each.entry for id_, each in stored.items()}
        if document is not None and document not in {each[1] for each in led}:
            led.append(self._asked_for(document, stored.get(document), pending.get(document, 0)))
        everything = {each.id: each for each in self._reader.matches(self._text, led, now, _EVERYTHING)[0]}
        near = {each.id for each in self._reader.matches(self._text, led, now, self._bounds)[0]}
        matched = {match.id for match in matches}
        judged = [
            Candidate(None, Fingerprint(value), None, None, self._flags(value), "stale hint")
            for value, documents in listed.items()
            if not documents
        ]
        for _, id_, hinted, _, _ in led:
            each, flags = stored.get(id_), self._flags(hinted)
            if id_ in pending:
                judged.append(Candidate(id_, Fingerprint(pending[id_]), None, None, flags, "pending claim"))
                continue
            if each is None:
                seen = Fingerprint(hinted) if flags else None
                judged.append(
                    Candidate(id_, seen, None, None, flags, "stale hint" if flags else "not stored")
                )
                continue
            fingerprint = Fingerprint(each.entry.fingerprint)
            if id_ not in everything:  # it shares no drawer
                far = self._scheme.bits_between(fingerprint, self._text.values.item())
                judged.append(Candidate(id_, fingerprint, far, None, flags, _away(fingerprint == hinted)))
                continue
            match = everything[id_]
            is_lost = self._scheme.sketching is not None and match.similarity is None
            verdict: Verdict
            if id_ in matched:
                verdict = "match"
            elif id_ not in near:
                verdict = _away(fingerprint == hinted)
            elif flags and self._hidden.hides(id_, fingerprint):
                verdict = "muted"
            elif flags and (each.version < self._since or not self._tags.issubset(each.entry.tags)):
                verdict = "filtered"
            else:
                verdict = "not met"
            distance = None if is_lost else match.distance
            judged.append(Candidate(id_, fingerprint, distance, match.similarity, flags, verdict))
        return sorted(judged, key=lambda each: (each.distance is None, each.distance or 0, each.id or ""))

    def _flags(self, fingerprint: int) -> tuple[int, ...]:
        return tuple(flag for flag, held in enumerate(self._contents, 1) if (held == fingerprint).any())

    def _asked_for(self, document: str, found: Known | None, pending: int) -> Led:
        """A document as if its current listing had been found. pending: the fingerprint of its claim."""
        if found is None:
            return 0, document, pending, 0, b""
        fingerprint = found.entry.fingerprint
        sketch = sketches_of(self._store, self._scheme, {document: found.entry}).get(document, b"")
        bits = self._scheme.bits_between(fingerprint, self._text.values.item())
        return 0, document, fingerprint, bits, sketch


def _away(is_where_it_was: bool) -> Verdict:
    return "too far" if is_where_it_was else "stale hint"


def _known(store: Store, ids: Iterable[str], earliest: int) -> tuple[dict[str, Known], dict[str, int]]:
    """Live documents, and the fingerprints of pending claims."""
    storable = [id_ for id_ in ids if rows.id_problem(id_) is None]
    found = {
        id_: each
        for id_, each in zip(storable, known(store, storable), strict=True)
        if each and each.stored and each.version >= earliest
    }
    pending: dict[str, int] = {}
    if store.keeps_hints:
        keys = list(map(rows.document_key, storable))
        beside = cast(HintingStore, store).document_cells.get(keys)
        for id_, key, cells in zip(storable, keys, beside, strict=True):
            own = cells.get(b"")
            for token, cell in cells.items():
                is_newer = own is None or cell.version > own.version
                if id_ not in found and token and is_newer:
                    pending[id_] = PendingCell.decode(key, cell.value).fingerprint
    return found, pending
