"""Counts refused claims: how many different ids were refused because of a document, and when.

A row of the table `met` for each document and refused id; no counter, so that a call that is repeated, by a
gateway or after a crash, changes nothing. The rows are written when a batch of claims is decided, before it
is answered. Its times tell when the id was refused first and last. `vacuum` removes rows of documents that
are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from simhbase.index import rows
from simhbase.index.rows import parse_document
from simhbase.model.groups import Group
from simhbase.model.moment import LATEST, at
from simhbase.model.stored import Met, StoredDocument
from simhbase.model.values import Claim
from simhbase.stores.base import MET, Cell, Records, Row, Store
from simhbase.stores.keys import after_prefix

MOST = 10_000  # ids that are counted for a document
MOST_TOLD = 50_000  # refused claims that are read for one list
_FEW = 100  # rows that are read with others
_TOGETHER = 256  # documents

Listed = TypeVar("Listed", StoredDocument, Group)


def note_refused(store: Store, time: int, claims: Iterable[Claim]) -> None:
    """Note the duplicates among some claims, at this time."""
    note_pairs(store, time, ((each.match.id, each.id) for each in claims if each.match is not None))


def note_pairs(store: Store, time: int, pairs: Iterable[tuple[str, str]]) -> None:
    """Note ids that were refused at this time: documents, and the ids that were refused because of them."""
    keys = sorted({rows.met_key(*pair) for pair in pairs})
    if keys:
        table = store.records(MET)
        found = zip(keys, table.get(keys), strict=True)
        table.put(
            [(key, rows.met_value(key, time if cell is None else _first(key, cell))) for key, cell in found],
            time,
        )


def copy_rows(batch: Sequence[Row], target: Store) -> None:
    """Copy rows to another store, which may have counted the same ids."""
    table, keys = target.records(MET), [key for key, _ in batch]
    put, versions = [], []
    for (key, cell), there in zip(batch, table.get(keys), strict=True):
        both = [cell] if there is None else [cell, there]
        put.append((key, rows.met_value(key, min(_first(key, each) for each in both))))
        versions.append(max(each.version for each in both))
    table.put(put, versions)


def counts_of(store: Store, ids: Sequence[str], earliest: int) -> Iterator[Met]:
    """How often each of some documents was met. earliest: rows of before have expired."""
    table = store.records(MET)
    for start in range(0, len(ids), _TOGETHER):
        prefixes = list(map(rows.met_prefix, ids[start : start + _TOGETHER]))
        for prefix, found in zip(prefixes, table.scan(prefixes, _FEW), strict=True):
            if len(found) == _FEW:
                (found,) = table.scan([prefix], MOST)
            alive = [(key, cell) for key, cell in found if cell.version >= earliest]
            if not alive:
                yield Met(0, truncated=len(found) == MOST)
                continue
            first, last = min(_first(*each) for each in alive), max(cell.version for _, cell in alive)
            yield Met(len(alive), _moment(first), _moment(last), truncated=len(found) == MOST)


def until_many(listed: Iterable[Listed]) -> Iterator[Listed]:
    """What is listed, up to the one with which very many refused claims have been read."""
    told = 0
    for each in listed:
        yield each
        told += each.met.count if each.met else 0
        if told >= MOST_TOLD:
            return


def forget(store: Store, before: int, earliest: int, note: Callable[[int], None] = lambda read: None) -> int:
    """Remove rows of documents that are gone; returns how many. before: of those that were written before
    this time; earliest: documents and rows of before have expired; note: is told the number of rows read."""
    table, documents, removed = store.records(MET), store.records("documents"), 0
    for batch in table.iterate():
        old = {key: cell.version for key, cell in batch if cell.version < before}
        kept = set[bytes]()
        for start, found in _alike(documents, sorted({key[: rows.MET_ALIKE] for key in old})):
            kept |= {rows.met_prefix(each) for each in _alive(found, earliest)}
            if any(parse_document(key, cell.value) is None for key, cell in found):
                kept.add(start)
        gone = {
            key: version
            for key, version in old.items()
            if version < earliest or kept.isdisjoint((key[: rows.MET_ALIKE], rows.prefix_of_met(key)))
        }
        table.delete(list(gone), list(gone.values()))
        removed += len(gone)
        note(len(batch))
    return removed


def _alike(documents: Records, starts: Sequence[bytes]) -> Iterator[tuple[bytes, Sequence[Row]]]:
    """The rows of documents whose keys begin with the same four bytes, in batches: a few of a store, of a
    large scope a 256th of its documents."""
    for start, found in zip(starts, documents.scan(starts, _FEW), strict=True):
        if len(found) < _FEW:
            yield start, found
        else:
            yield from ((start, batch) for batch in documents.iterate(start, after_prefix(start)))


def damaged_rows(batch: Sequence[Row]) -> list[tuple[bytes, int]]:
    """Keys and versions of the rows of a batch that cannot be read."""
    return [(key, cell.version) for key, cell in batch if not _has_moments(key, cell)]


def _has_moments(key: bytes, cell: Cell) -> bool:
    first = rows.parse_met(key, cell.value)
    return first is not None and all(0 <= each <= LATEST for each in (first, cell.version))


def _alive(found: Sequence[Row], earliest: int) -> Iterator[str]:
    """The documents that are stored."""
    for key, cell in found:
        parsed = parse_document(key, cell.value)
        if parsed is not None and parsed[1].stored and cell.version >= earliest:
            yield parsed[0]


def _first(key: bytes, cell: Cell) -> int:
    """When an id was refused first; if the row is damaged, which check tells, when it was refused last."""
    found = rows.parse_met(key, cell.value)
    return cell.version if found is None else min(found, cell.version)


def _moment(version: int) -> datetime:
    """A time of a row. Damaged ones, which check tells, may be out of range."""
    return at(min(max(version, 0), LATEST))
