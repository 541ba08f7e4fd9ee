"""The index of a store with scopes: within one of them, or without, for administration only.

All of `Index` is in terms of shown ids and fingerprints. Here they become stored ones, where documents and
queries go to the reader, the writer and the claimer, and become shown ones in what these answer: by
`Scope` (`scopes.py`), with a prefix of ids and a mask of fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

from simhbase.drawers.scheme import Bounds
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import Fingerprinter, TextFingerprint
from simhbase.index.claims.claim import Claimer
from simhbase.index.index import Index
from simhbase.index.mute import KEY, MuteList, Name
from simhbase.index.reader import Asked, Listings, Reader
from simhbase.index.rows import Entry, document_key, id_problem
from simhbase.index.scopes import Scope, forget_scope, note_scope
from simhbase.index.tags import Tags
from simhbase.index.writer import Copied, DocumentBatch, Known, Writer, known_in
from simhbase.model.explanations import Explanation
from simhbase.model.stored import Met, Muted
from simhbase.model.values import AddReport, Lookup, Match, Query
from simhbase.stores.base import Store


class StoreOfScopes(Index):
    """The index of a store with scopes, opened without one: its documents are found and changed by `within`
    alone."""

    def within(self, scope: str) -> ScopedIndex:
        return ScopedIndex(self, scope)

    def require_scope(self) -> NoReturn:
        self._refuse()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UsageError(
            f"{self.store.url} has scopes, and none was given: without one it can be administered only",
            parameter="scope",
        )

    _accepted = add_batch = _claim_request = claim_batch = delete = _refuse
    _find_text = find_batch = find_fingerprints = _explained = duplicates_of = _refuse
    _documents_of = _live = stored_page = met = _refuse
    mute = unmute = muted = hidden = _refuse


class ScopedIndex(Index):
    """The index of a store within one scope."""

    _scope: Scope

    def __init__(self, whole: StoreOfScopes, name: str) -> None:
        self.__dict__.update(whole.__dict__)
        self.__dict__.pop("writer", None)  # its own notes the scope
        stored = whole.stored_profile
        assert stored.salt is not None
        self._whole = whole
        self._scope = scope = Scope(name, stored.salt, stored.profile.sketching)
        self._mute_list = ScopedMuteList(self.store, self.clock, scope)
        self.of = scope.of
        self._reader = replace(whole._reader, of=scope.of)

    def within(self, scope: str) -> ScopedIndex:
        return self._whole.within(scope)

    @cached_property
    def fingerprinter(self) -> Fingerprinter:
        return self._whole.fingerprinter

    @cached_property
    def writer(self) -> Writer:
        writer = self._whole.writer
        note_scope(self.store, self._scope.name)
        return writer

    @property
    def claimer(self) -> Claimer:
        _ = self.writer
        return self._whole.claimer

    def close(self) -> None:
        self._whole.close()

    @property
    def _lookups(self) -> ScopedReader:  # type: ignore[override]  # it has what is called
        return ScopedReader(self.reader, self._scope)

    def add_batch(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None = None,
        removing: Sequence[str] = (),
    ) -> AddReport:
        new = self._scope.documents(DocumentBatch(ids, fingerprints, tags))
        gone = self._scope.ids_of(removing)
        return self._scope.report(super().add_batch(new.ids, new.fingerprints, new.tags, gone))

    def duplicates_of(
        self, ids: Sequence[str], fingerprints: FingerprintBatch, bounds: Bounds
    ) -> list[Match | None]:
        new = self._scope.documents(DocumentBatch(ids, fingerprints))
        found = super().duplicates_of(new.ids, new.fingerprints, bounds)
        return [None if match is None else self._scope.match(match) for match in found]

    def note_refused(self, ids: Sequence[str], duplicate_of: Sequence[Match | None]) -> None:
        matches = [match and replace(match, id=self._scope.id_of(match.id)) for match in duplicate_of]
        super().note_refused(self._scope.ids_of(ids), matches)

    def _delete(self, ids: Sequence[str]) -> int:
        return super()._delete(self._scope.ids_of(ids))

    def delete_seen(self, seen: Mapping[str, int], at: Mapping[str, int] | None = None) -> int:
        stored, versions = (
            {self._scope.id_of(document): version for document, version in (given or {}).items()}
            for given in (seen, at)
        )
        return super().delete_seen(stored, versions or None)

    def copy(self, batch: DocumentBatch, versions: Sequence[int]) -> Copied:
        stored = self._scope.documents(batch)
        for problem in filter(None, map(id_problem, stored.ids)):  # where it came from, it is short enough
            raise UsageError(f"cannot copy into the scope {self.scope!r}: {problem}")
        return super().copy(stored, versions)

    def forget(self) -> None:
        """Remove what the scope has beside its documents: its mute list and its name. Raises ReadOnly."""
        self._require_writable()
        self._mute_list.remove()
        forget_scope(self.store, self._scope.name)

    def shown_fingerprint(self, stored: int) -> int:
        return self._scope.value(stored)

    def _listed_under(self, fingerprints: Sequence[int], most: int) -> Listings:
        scope = self._scope
        found = super()._listed_under(list(map(scope.value, fingerprints)), most)
        return {
            scope.value(value): [(scope.shown_id(name), scope.sketch(sketch)) for name, sketch in listed]
            for value, listed in found.items()
        }

    def known(self, ids: Sequence[str]) -> list[Known | None]:
        found = super().known(self._scope.ids_of(ids))
        return [each and Known(self._scope.entry(each.entry), each.version) for each in found]

    def _sketches_of(self, stored: Mapping[str, Entry]) -> dict[str, bytes]:
        scope = self._scope
        entries = {scope.id_of(document): scope.entry(each) for document, each in stored.items()}
        found = super()._sketches_of(entries)
        return {scope.shown_id(document): scope.sketch(sketch) for document, sketch in found.items()}

    def _explained(self, text: FingerprintBatch, document: str | None, query: Query) -> Explanation:
        named = None if document is None else self._scope.id_of(document)
        found = self._scope.explanation(super()._explained(self._scope.batch(text), named, query))
        # Those of the text as it is shown: the stored ones would tell the mask.
        (prefixes,) = self.reader.scheme.prefixes(text)
        drawers = (
            replace(drawer, prefix=prefix.tobytes().hex())
            for drawer, prefix in zip(found.drawers, prefixes, strict=False)
        )
        return replace(found, drawers=tuple(drawers))

    def met(self, ids: Sequence[str]) -> Iterator[Met | None]:
        return super().met(self._scope.ids_of(ids))

    def rows_after(self, after: str | None = None) -> Iterator[dict[str, Known]]:
        scope, documents = self._scope, self.store.records("documents")
        start = b"" if after is None else document_key(scope.id_of(after)) + b"\0"
        for first, end in scope.ranges:
            if start < end:
                for batch in documents.iterate(max(first, start), end):
                    yield scope.known(known_in(batch))


@dataclass(frozen=True)
class ScopedReader:
    """Looks up what is shown, by a reader of what is stored."""

    reader: Reader
    scope: Scope

    def asked(self, query: Query) -> Asked:
        return self.reader.asked(query)

    def find(self, fingerprints: FingerprintBatch, query: Query = Query()) -> list[Lookup]:
        found = self.reader.find(self.scope.batch(fingerprints), query)
        return list(map(self.scope.lookup, found))

    def find_one(self, text: TextFingerprint, asked: Asked) -> Lookup:
        return self.scope.lookup(self.reader.find_one(self.scope.text(text), asked))


class ScopedMuteList(MuteList):
    """The mute list of a scope, which holds stored ids and fingerprints."""

    def __init__(self, store: Store, clock: Callable[[], int], scope: Scope) -> None:
        super().__init__(store, clock, key=KEY + b"/" + scope.of)
        self._scope = scope

    def entries(self) -> list[Muted]:
        return list(map(self._scope.muted, super().entries()))

    def mute(self, wanted: Sequence[Muted]) -> int:
        return super().mute(list(map(self._scope.to_mute, wanted)))

    def unmute(self, names: Iterable[Name]) -> int:
        scope = self._scope
        return super().unmute(
            (None if name is None else scope.id_of(name), None if value is None else scope.value(value))
            for name, value in names
        )
