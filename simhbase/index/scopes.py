"""Scopes: tenants of one store, none of which sees what another stores.

Keys isolate: a stored id is the scope's name, SEPARATOR, and the id, and the listings of a fingerprint are
read by the scope's prefix. Masks spread load: a stored fingerprint is the shown one XOR a mask of the scope,
and so are the packed slots of a sketch. Within a scope both sides of a comparison have the same mask, so
distances and equal slots are what they are without one, and one text of many scopes does not fill one drawer.
The masks come from a random salt of the store, so that nobody can choose texts for another scope's drawers.

Ids and fingerprints below are stored ones; `scoped.py` translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import TextFingerprint
from simhbase.index.rows import SEPARATOR, Entry, document_ranges
from simhbase.index.writer import DocumentBatch, Known
from simhbase.model.explanations import Explanation
from simhbase.model.stored import Muted
from simhbase.model.values import AddReport, Claim, Fingerprint, Lookup, Match, Rejected
from simhbase.stores.base import Store
from simhbase.stores.meta import Meta

MOST_IN_NAME = 64  # bytes of UTF-8
_DOMAIN = b"simhbase scope\0"
_NOTED = b"scope/"  # in meta; a name follows
_VALUE_BYTES = 8


def require_scope(name: object) -> str:
    """Raises UsageError for what is no name of a scope."""
    if not isinstance(name, str):
        raise UsageError(f"a scope is named by a text, not by {name!r}", parameter="scope")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MOST_IN_NAME or any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in name):
        raise UsageError(
            f"{name!r:.80} is not a valid name of a scope: give 1 to {MOST_IN_NAME} bytes of UTF-8 without "
            "control characters",
            parameter="scope",
        )
    return name


def note_scope(store: Store, name: str) -> None:
    """Note that a scope is written to, so that scopes are listed without reading documents."""
    meta, key = Meta(store), _NOTED + name.encode()
    if meta.get(key) is None:
        meta.put([(key, b"")])


def noted_scopes(store: Store) -> list[str]:
    """The scopes that were written to and not dropped, by name."""
    meta = Meta(store)
    return sorted(_noted_name(meta, key) for key, _ in meta.under(_NOTED))


def _noted_name(meta: Meta, key: bytes) -> str:
    try:
        return require_scope(key.removeprefix(_NOTED).decode())
    except (UsageError, UnicodeDecodeError) as error:
        raise meta.damaged(key, error) from error


def forget_scope(store: Store, name: str) -> None:
    Meta(store).delete([_NOTED + name.encode()])


@dataclass(frozen=True)
class Scope:
    """A scope of one store. salt: of the store; sketching: of its profile. Raises UsageError for an invalid
    name."""

    name: str
    salt: bytes
    sketching: SketchParameters | None

    def __post_init__(self) -> None:
        require_scope(self.name)

    @cached_property
    def prefix(self) -> str:
        """What stored ids begin with."""
        return self.name + SEPARATOR

    @cached_property
    def of(self) -> bytes:
        """The prefix as in keys of listings, behind a fingerprint."""
        return self.prefix.encode()

    @cached_property
    def ranges(self) -> Sequence[tuple[bytes, bytes]]:
        """Ranges of keys that hold the scope's rows of the table documents."""
        return list(document_ranges(self.prefix))

    @cached_property
    def _masks(self) -> bytes:
        size = _VALUE_BYTES + (self.sketching.signature_bytes if self.sketching else 0)
        return shake_256(_DOMAIN + self.salt + self.name.encode()).digest(size)

    @cached_property
    def value_mask(self) -> int:
        """XOR mask of fingerprints."""
        return int.from_bytes(self._masks[:_VALUE_BYTES])

    @cached_property
    def sketch_mask(self) -> NDArray[np.uint8]:
        """XOR mask of the packed slots of sketches: uint8 (signature_bytes,)."""
        return np.frombuffer(self._masks[_VALUE_BYTES:], np.uint8)

    # From what is shown to what is stored, and back, as a mask is its own inverse.

    def id_of(self, shown: str) -> str:
        """The stored id. One that is empty stays so, and is refused as everywhere."""
        return self.prefix + shown if shown else shown

    def ids_of(self, shown: Sequence[str]) -> list[str]:
        return list(map(self.id_of, shown))

    def shown_id(self, stored: str) -> str:
        return stored.removeprefix(self.prefix)

    def value(self, fingerprint: int) -> int:
        return fingerprint ^ self.value_mask

    def sketch(self, sketch: bytes) -> bytes:
        """A sketch with or without mask; one that is lost or damaged stays what it is."""
        mask = self.sketch_mask.tobytes()
        if not mask or len(sketch) < len(mask):
            return sketch
        slots = int.from_bytes(sketch[: len(mask)]) ^ int.from_bytes(mask)
        return slots.to_bytes(len(mask)) + sketch[len(mask) :]

    def batch(self, batch: FingerprintBatch) -> FingerprintBatch:
        sketches = batch.sketches
        if len(self.sketch_mask):
            sketches = sketches.copy()
            sketches[:, : len(self.sketch_mask)] ^= self.sketch_mask
        return FingerprintBatch(batch.values ^ np.uint64(self.value_mask), sketches)

    def text(self, text: TextFingerprint) -> TextFingerprint:
        return TextFingerprint(self.value(text.value), self.sketch(text.sketch))

    def documents(self, shown: DocumentBatch) -> DocumentBatch:
        """Documents as they are stored."""
        return DocumentBatch(self.ids_of(shown.ids), self.batch(shown.fingerprints), shown.tags)

    def entry(self, entry: Entry) -> Entry:
        """What a documents row holds."""
        value, sketch = self.value(entry.fingerprint), self.sketch(entry.sketch)
        return entry._replace(fingerprint=value, sketch=sketch)

    def entries(self, stored: Mapping[str, Entry]) -> dict[str, Entry]:
        """Documents as they are shown, by their shown ids."""
        return {self.shown_id(document): self.entry(each) for document, each in stored.items()}

    def known(self, stored: Mapping[str, Known]) -> dict[str, Known]:
        """Rows of documents as they are shown, by their shown ids."""
        return {
            self.shown_id(document): Known(self.entry(each.entry), each.version)
            for document, each in stored.items()
        }

    # Answers as they are shown.

    def fingerprint(self, stored: Fingerprint | None) -> Fingerprint | None:
        return None if stored is None else Fingerprint(stored ^ self.value_mask)

    def match(self, stored: Match) -> Match:
        return Match(
            stored.distance,
            self.shown_id(stored.id),
            Fingerprint(stored.fingerprint ^ self.value_mask),
            stored.similarity,
            stored.drawers,
        )

    def lookup(self, stored: Lookup) -> Lookup:
        found, matches = self.fingerprint(stored.fingerprint), tuple(map(self.match, stored.matches))
        return replace(stored, fingerprint=found, matches=matches)  # which may be one to be done again

    def claim(self, stored: Claim) -> Claim:
        return replace(
            stored,
            id=self.shown_id(stored.id),
            fingerprint=self.fingerprint(stored.fingerprint),
            match=None if stored.match is None else self.match(stored.match),
            also_at=tuple(map(self.match, stored.also_at)),
        )

    def explanation(self, stored: Explanation) -> Explanation:
        """Without fingerprints that list nothing here: they are of other scopes, or of nothing any more."""
        candidates = (each for each in stored.candidates if each.id is not None)
        return replace(
            stored,
            fingerprint=self.fingerprint(stored.fingerprint),
            candidates=tuple(
                replace(each, id=self.shown_id(each.id or ""), fingerprint=self.fingerprint(each.fingerprint))
                for each in candidates
            ),
        )

    def muted(self, entry: Muted) -> Muted:
        """An entry of the mute list as it is shown."""
        document = None if entry.id is None else self.shown_id(entry.id)
        return replace(entry, id=document, fingerprint=self.fingerprint(entry.fingerprint))

    def to_mute(self, entry: Muted) -> Muted:
        """An entry of the mute list as it is stored."""
        document = None if entry.id is None else self.id_of(entry.id)
        return replace(entry, id=document, fingerprint=self.fingerprint(entry.fingerprint))

    def report(self, stored: AddReport) -> AddReport:
        rejected = tuple(Rejected(self.shown_id(each.id), each.reason) for each in stored.rejected)
        return replace(stored, rejected=rejected)
