"""Why a lookup found what it found: which drawers were read, what was in them, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.scheme import Bounds
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.reader import Reader, expired_before, listed_sketches
from simhbase.index.rows import Entry, PendingCell, State
from simhbase.index.writer import known
from simhbase.model import Candidate, Drawer, Explanation, Fingerprint, Verdict
from simhbase.stores.base import SharedStore, leaves_hints

MOST_CANDIDATES = 100


def explain(
    reader: Reader, query: FingerprintBatch, bounds: Bounds, document: str | None, most: int = MOST_CANDIDATES
) -> Explanation:
    """What a lookup of one fingerprint does; document: is among the candidates, found or not."""
    return reader.store.consistently(lambda: _Lookup(reader, query, bounds).explained(document, most))


@dataclass(frozen=True)
class _Hint:
    """A document, and the fingerprint that it was found under; None for one that is not stored, or a
    fingerprint that lists none."""

    id: str | None
    fingerprint: int | None


_NOTHING = np.empty(0, dtype=np.uint64)
_ONLY = np.array([0])


class _Lookup:
    """One that is under way."""

    def __init__(self, reader: Reader, query: FingerprintBatch, bounds: Bounds) -> None:
        self._reader, self._query, self._bounds = reader, query, bounds
        self._store, self._scheme = reader.store, reader.scheme
        self._value: int = query.values.item()

    def explained(self, document: str | None, most: int) -> Explanation:
        prefixes = self._scheme.prefixes(self._query)[0]
        contents, truncated = self._read(prefixes)
        found = np.unique(np.concatenate(contents))
        nearest: list[int] = self._nearest_first(found)[:most].tolist()
        hints = self._hints(nearest, most)
        if document is not None and document not in {hint.id for hint in hints}:
            entry = self._entries([document]).get(document)
            hints.append(_Hint(document, entry.fingerprint if entry else None))
        drawers = zip(self._scheme.drawer_runs, prefixes, contents, strict=True)
        return Explanation(
            Fingerprint(self._value),
            tuple(
                Drawer(
                    flag,
                    tuple((run.start, run.width) for run in runs),
                    prefix.tobytes().hex(),
                    len(held),
                    self._near(held),
                    flag - 1 in truncated,
                )
                for flag, (runs, prefix, held) in enumerate(drawers, 1)
            ),
            tuple(self._judged(hints, contents)),
            len(found) - len(nearest),
            bool(truncated),
        )

    def _read(self, prefixes: NDArray[np.uint8]) -> tuple[list[NDArray[np.uint64]], set[int]]:
        """The fingerprints in each drawer, and which drawers were not read to their end."""
        parts: list[list[NDArray[np.uint64]]] = [[_NOTHING] for _ in prefixes]
        truncated: set[int] = set()
        for part in self._reader.store.drawers.read(prefixes, self._reader.drawer_limit):
            truncated.update(part.truncated.tolist())
            for drawer, start, end in zip(part.drawers, part.offsets, part.offsets[1:], strict=False):
                parts[drawer].append(part.fingerprints[start:end])
        return [np.concatenate(each) for each in parts], truncated

    def _near(self, fingerprints: NDArray[np.uint64]) -> int:
        bits = self._scheme.bits_apart(fingerprints, self._query.values)
        return int(np.count_nonzero(bits <= self._bounds.bits))

    def _nearest_first(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if self._scheme.listed_sketching is None:
            distances = self._scheme.bits_apart(fingerprints, self._query.values)
        else:
            distances = self._reader.mismatches(self._query, fingerprints)
        return fingerprints[np.argsort(distances, kind="stable")]

    def _hints(self, fingerprints: Sequence[int], most: int) -> list[_Hint]:
        """The documents that are listed under fingerprints, at most so many."""
        prefixes = list(map(rows.listing_prefix, fingerprints))
        listed = self._store.records("fingerprints").scan(prefixes, most) if prefixes else []
        hints = {
            rows.listing_id(key): _Hint(rows.listing_id(key), fingerprint)
            for fingerprint, found in reversed(list(zip(fingerprints, listed, strict=True)))
            for key, _ in reversed(found)
        }
        empty = [_Hint(None, value) for value, found in zip(fingerprints, listed, strict=True) if not found]
        return list(reversed(hints.values()))[:most] + empty

    def _entries(self, ids: Sequence[str]) -> dict[str, Entry]:
        """The stored documents among ids, and pending claims of them."""
        storable = [document for document in ids if rows.id_problem(document) is None]
        earliest = expired_before(self._store, self._reader.clock())
        return self._pending(storable) | {
            document: each.entry
            for document, each in zip(storable, known(self._store, storable), strict=True)
            if each and (each.stored or each.entry.state == State.PENDING) and each.version >= earliest
        }

    def _pending(self, ids: Sequence[str]) -> dict[str, Entry]:
        """Documents that somebody is about to store."""
        if not leaves_hints(self._store):
            return {}
        found = cast(SharedStore, self._store).document_cells.get(list(map(rows.document_key, ids)))
        return {
            document: Entry(pending.fingerprint, State.PENDING)
            for document, cells in zip(ids, found, strict=True)
            for token, cell in cells.items()
            if token and (pending := PendingCell.decode(cell.value))
        }

    def _judged(self, hints: Sequence[_Hint], contents: Sequence[NDArray[np.uint64]]) -> list[Candidate]:
        entries = self._entries([hint.id for hint in hints if hint.id is not None])
        sketches = self._sketches(hints, entries)
        found = [
            self._candidate(
                hint,
                entries.get(hint.id or ""),
                sketches.get(hint.id or "", b""),
                tuple(flag for flag, held in enumerate(contents, 1) if (held == hint.fingerprint).any()),
            )
            for hint in hints
        ]
        return sorted(found, key=lambda each: (each.distance is None, each.distance or 0, each.id or ""))

    def _sketches(self, hints: Sequence[_Hint], entries: Mapping[str, Entry]) -> dict[str, bytes]:
        """The sketches of stored documents."""
        if not self._scheme.listed_sketching:
            return {document: entry.sketch for document, entry in entries.items()}
        return listed_sketches(self._store, {id_: entry.fingerprint for id_, entry in entries.items()})

    def _candidate(
        self, hint: _Hint, entry: Entry | None, sketch: bytes, drawers: tuple[int, ...]
    ) -> Candidate:
        if entry is None:
            verdict: Verdict = "stale hint" if drawers else "not stored"
            hinted = None if hint.fingerprint is None else Fingerprint(hint.fingerprint)
            return Candidate(hint.id, hinted, None, None, drawers, verdict)
        fingerprint = Fingerprint(entry.fingerprint)
        if not entry.stored:
            return Candidate(hint.id, fingerprint, None, None, drawers, "pending claim")
        bits = self._scheme.bits_between(entry.fingerprint, self._value)
        shares = self._scheme.shared_drawers(entry.fingerprint, self._value) != ()
        distance, similarity, near = bits, None, bits <= self._bounds.bits and shares
        sketching = self._scheme.sketching
        if sketching is not None and len(sketch) == sketching.bytes:
            kept = np.frombuffer(sketch, dtype=np.uint8).reshape(1, -1)
            mismatches, few = self._bounds.verified(sketching, self._query.sketches, _ONLY, kept, _ONLY)
            distance = int(self._scheme.distances(np.array([bits]), mismatches)[0])
            similarity = float(sketching.similarity(mismatches)[0])
            near = near and bool(few[0])
        elif near and self._bounds.mismatches is not None:
            return Candidate(hint.id, fingerprint, None, None, drawers, "lost sketch")
        if near:
            muted = self._reader.hidden.hides(hint.id or "", entry.fingerprint)
            verdict = "not met" if not drawers else "muted" if muted else "match"
        else:
            verdict = "too far" if entry.fingerprint == hint.fingerprint else "stale hint"
        return Candidate(hint.id, fingerprint, distance, similarity, drawers, verdict)
