"""Byte formats of the tables documents, fingerprints, obsolete, meta and met (schema/format.md has the
specification and examples).

Integers are big-endian, times milliseconds since 1970.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.errors import StoreFailed
from simhbase.index.tags import Tags
from simhbase.stores.checked import all_checked, checked, is_intact, unchecked
from simhbase.stores.keys import after_prefix
from simhbase.stores.meta import quoted
from simhbase.stores.strings import Strings

MAX_ID_BYTES = 1024
SEPARATOR = "\x1f"  # behind the name of a scope, in the ids of a store with scopes
_SEPARATOR, _OF_SCOPE = SEPARATOR.encode(), 0xFFFFFF  # bits of a hash
_ENTRY = struct.Struct(">QB")
_PENDING = struct.Struct(">HQIH")
_BATCH_ROW = struct.Struct(">BBQIH")
_BATCH_FORMAT, _FROZEN = 1, 1
_WORD = struct.Struct(">Q")
_HASH = struct.Struct(">I")
_OBSOLETE = struct.Struct(">BqQ")
_SIZE = struct.Struct(">H")
_TIME = struct.Struct(">q")
_MET_BYTES = 8  # of a hash
MET_ALIKE = 4  # bytes that keys of the tables documents and met begin with
_TAGGED = 0x10  # flag in the state byte
BATCH_ROWS, BEHIND_BATCH_ROWS = b"claims/", b"claims0"  # range of batch rows in meta; a token follows
_DECISIONS = 4  # per byte
_ALIKE = 1024  # cached encodings of tags: most documents share theirs with others
SALTS = 256


class State(IntEnum):
    STORED = 1
    DELETED = 2


_STATES = {state.value: state for state in State}  # to call the class takes four times as long


class Entry(NamedTuple):
    """Value of a row in the documents table, which is authoritative. fingerprint: of a deleted document its
    last one."""

    fingerprint: int
    state: State = State.STORED
    sketch: bytes = b""
    tags: Tags = ()

    @property
    def stored(self) -> bool:
        return self.state == State.STORED

    def encode(self, key: bytes) -> bytes:
        """The value of the row with this key."""
        tagged = _TAGGED if self.tags else 0
        head = _ENTRY.pack(self.fingerprint, self.state | tagged)
        return checked(key, head + _encoded_tags(self.tags) + self.sketch)

    @staticmethod
    def decode(key: bytes, value: bytes) -> Entry:
        """Decode a row. Raises StoreFailed if it is damaged: what an answer would lack, or which listing an
        update has to remove, cannot be known. Only a repair replaces it."""
        try:
            content = unchecked(key, value)
            fingerprint, number = _ENTRY.unpack_from(content)
            state, rest = _STATES[number & ~_TAGGED], content[_ENTRY.size :]
            tags, rest = _decoded_tags(rest) if number & _TAGGED else ((), rest)
            return Entry(fingerprint, state, rest, tags)
        except (struct.error, ValueError, KeyError) as error:
            remedy = "'simhbase check --repair' removes it: then load the document again"
            raise _damaged("the row", key, value, error, remedy) from error


@dataclass(frozen=True, slots=True)
class PendingCell:
    """A claim of this row's id by a batch of claims.

    number: position of the claim in its batch; lease: milliseconds without a change after which others may
    break the batch.
    """

    number: int
    fingerprint: int
    lease: int
    sketch: bytes = b""
    tags: Tags = ()

    def encode(self, key: bytes) -> bytes:
        """The value of a cell in the row with this key."""
        head = _PENDING.pack(self.number, self.fingerprint, self.lease, len(self.sketch))
        return checked(key, head + self.sketch + _encoded_tags(self.tags))

    @staticmethod
    def decode(key: bytes, value: bytes) -> PendingCell:
        """Decode a cell. Raises StoreFailed if it is damaged: what claims the same text cannot know that it
        does."""
        try:
            content = unchecked(key, value)
            number, fingerprint, lease, size = _PENDING.unpack_from(content)
            sketch, rest = content[_PENDING.size :][:size], content[_PENDING.size + size :]
            tags, rest = _decoded_tags(rest) if rest else ((), b"")
            if rest or len(sketch) < size:
                raise ValueError("another size")
        except (struct.error, ValueError) as error:
            raise _damaged(
                "a claim",
                *(key, value, error),
                "'simhbase check --repair' removes it a day after it was written",
            ) from error
        return PendingCell(number, fingerprint, lease, sketch, tags)

    @property
    def entry(self) -> Entry:
        """The documents row once the claim is committed."""
        return Entry(self.fingerprint, State.STORED, self.sketch, tags=self.tags)


class Decision(IntEnum):
    """Decision about a claim in its batch's row."""

    OPEN = 0
    ACCEPTED = 1
    DECLINED = 2


@dataclass(frozen=True, slots=True)
class BatchRow:
    """Decisions of a batch of claims so far.

    ticket: its place among all batches, 0 if it was frozen before it had one; frozen: it decides no more;
    beat: heartbeat counter.
    """

    ticket: int
    decisions: tuple[Decision, ...] = ()
    frozen: bool = False
    beat: int = 0

    def decision(self, number: int) -> Decision:
        return self.decisions[number] if number < len(self.decisions) else Decision.OPEN

    def encode(self) -> bytes:
        flags = _FROZEN if self.frozen else 0
        head = _BATCH_ROW.pack(_BATCH_FORMAT, flags, self.ticket, self.beat, len(self.decisions))
        packed = bytearray(-(-len(self.decisions) // _DECISIONS))
        for number, decision in enumerate(self.decisions):
            packed[number // _DECISIONS] |= decision << 6 - 2 * (number % _DECISIONS)
        return head + packed

    @staticmethod
    def decode(value: bytes) -> BatchRow:
        """Decode a row's value. Raises StoreFailed if it is malformed."""
        try:
            form, flags, ticket, beat, count = _BATCH_ROW.unpack_from(value)
            packed = value[_BATCH_ROW.size :]
            if form != _BATCH_FORMAT or len(packed) != -(-count // _DECISIONS):
                raise ValueError("another form")
            decisions = tuple(
                Decision(packed[number // _DECISIONS] >> 6 - 2 * (number % _DECISIONS) & 3)
                for number in range(count)
            )
        except (struct.error, ValueError) as error:
            raise StoreFailed(
                f"the row of a batch of claims cannot be read: its value is {value.hex() or 'empty'}"
            ) from error
        return BatchRow(ticket, decisions, bool(flags & _FROZEN), beat)


def batch_key(token: bytes) -> bytes:
    """Row key in meta of a batch of claims."""
    return BATCH_ROWS + token


def _damaged(what: str, key: bytes, value: bytes, error: Exception, remedy: str) -> StoreFailed:
    return StoreFailed(
        f"{what} of the document {quoted(key[_HASH.size :])} in the table documents is damaged: {error}. "
        f"Its key is {key.hex()}, its value {value.hex() or 'empty'}. {remedy}"
    )


@lru_cache(_ALIKE)
def _encoded_tags(tags: Tags) -> bytes:
    if not tags:
        return b""
    texts = [text.encode() for tag in tags for text in tag]
    content = b"".join(bytes([len(text)]) + text for text in texts)
    return _SIZE.pack(len(content)) + content


def _decoded_tags(value: bytes) -> tuple[Tags, bytes]:
    """Decode tags; returns the remaining bytes, too. Raises struct.error, ValueError."""
    (size,) = _SIZE.unpack_from(value)
    content, rest = value[_SIZE.size : _SIZE.size + size], value[_SIZE.size + size :]
    if not size or len(content) < size:
        raise ValueError("tags were cut")
    return _tags_in(content), rest


@lru_cache(_ALIKE)
def _tags_in(content: bytes) -> Tags:
    texts = list[str]()
    place = 0
    while place < len(content):
        end = place + 1 + content[place]
        if end > len(content):
            raise ValueError("a tag was cut")
        texts.append(content[place + 1 : end].decode())
        place = end
    return tuple(zip(texts[::2], texts[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class Obsolete:
    """A listing to be removed: at `time` the document got another fingerprint or was deleted."""

    time: int
    fingerprint: int
    id: str

    def key(self) -> bytes:
        """The row key. It starts with a salt, to spread the writes of one moment over the table."""
        document = document_key(self.id)
        return _OBSOLETE.pack(document[0], self.time, self.fingerprint) + document[_HASH.size :]


def parse_obsolete(key: bytes) -> Obsolete | None:
    """Parse a row key of the obsolete table; None if it is malformed."""
    try:
        _, time, fingerprint = _OBSOLETE.unpack_from(key)
        found = Obsolete(time, fingerprint, key[_OBSOLETE.size :].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return found if id_problem(found.id) is None and found.key() == key else None


def obsolete_range(salt: int, before: int) -> tuple[bytes, bytes]:
    """Key range of the rows with one salt and a time before this one."""
    return bytes([salt]), bytes([salt]) + _OBSOLETE.pack(0, max(before, 0), 0)[1:9]


def document_key(document_id: str) -> bytes:
    """Row key of a document."""
    return key_of_id(document_id.encode())


def key_of_id(encoded: bytes) -> bytes:
    """Row key of a document, given its id as bytes. A hash spreads ids with a common prefix over the table.
    Of an id within a scope, its last three bytes are those of the scope's hash: so the documents of a scope
    are in SALTS ranges of keys, and still spread over the table."""
    hashed = mmh3.hash(encoded, 0, signed=False)
    if _SEPARATOR in encoded:
        scope = mmh3.hash(encoded.partition(_SEPARATOR)[0], 0, signed=False)
        hashed = hashed & ~_OF_SCOPE | scope & _OF_SCOPE
    return _HASH.pack(hashed) + encoded


def scope_of(document_id: str) -> str:
    """The scope of a stored id."""
    return document_id.partition(SEPARATOR)[0]


def document_ranges(scope: str) -> Iterator[tuple[bytes, bytes]]:
    """Ranges of keys that hold the documents of a scope, given its name and the SEPARATOR, in order."""
    key = key_of_id(scope.encode())
    for salt in range(SALTS):
        first = bytes([salt]) + key[1:]
        yield first, after_prefix(first)


def met_prefix(document_id: str) -> bytes:
    """What the keys of the table met begin with, of ids that were refused because of a document. It begins as
    the document's own key, of which three bytes are the same for all documents of a scope."""
    return document_key(document_id)[:MET_ALIKE] + _short_hash(document_id)


def met_key(document_id: str, refused: str) -> bytes:
    """Row key of an id that was refused because of a document."""
    return met_prefix(document_id) + _short_hash(refused)


def prefix_of_met(key: bytes) -> bytes:
    """The part of a key that stands for the document."""
    return key[: MET_ALIKE + _MET_BYTES]


def met_value(key: bytes, first: int) -> bytes:
    """The value of the row with this key. first: when the id was refused first."""
    return checked(key, _TIME.pack(first))


def parse_met(key: bytes, value: bytes) -> int | None:
    """When an id was refused first; None if the row is damaged."""
    try:
        (first,) = _TIME.unpack(unchecked(key, value))
    except (struct.error, ValueError):
        return None
    return int(first) if len(key) == MET_ALIKE + 2 * _MET_BYTES else None


def _short_hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_MET_BYTES).digest()


def document_id(key: bytes) -> str:
    return key[_HASH.size :].decode(errors="backslashreplace")


def parse_document(key: bytes, value: bytes) -> tuple[str, Entry] | None:
    """Parse a row of the documents table; None if it is damaged."""
    encoded = key[_HASH.size :]
    try:
        entry, document = Entry.decode(key, value), encoded.decode()
    except (StoreFailed, UnicodeDecodeError):
        return None
    return (document, entry) if id_problem(document) is None and key_of_id(encoded) == key else None


def listing_prefix(fingerprint: int) -> bytes:
    """Common prefix of the rows that list a fingerprint's documents."""
    return _WORD.pack(fingerprint)


def listing_key(fingerprint: int, document_id: str) -> bytes:
    """Row key that lists a document under its fingerprint."""
    return _WORD.pack(fingerprint) + document_id.encode()


def parse_listing(key: bytes) -> tuple[int, str] | None:
    """Fingerprint and id in a listing's key, None if it is malformed."""
    try:
        document = key[_WORD.size :].decode()
        (fingerprint,) = _WORD.unpack_from(key)
    except (struct.error, UnicodeDecodeError):
        return None
    return None if id_problem(document) else (fingerprint, document)


def listing_rows(
    fingerprints: NDArray[np.uint64], ids: Strings, sketches: NDArray[np.uint8]
) -> tuple[Strings, Strings]:
    """Row keys of n listings (see listing_key), and values: sketches with a checksum, or nothing if there are
    none."""
    keys, values = Strings.joined(_big_endian(fingerprints), ids), Strings.rows_of(sketches)
    return keys, all_checked(keys, values) if sketches.shape[1] else values


def document_values(
    keys: Strings, fingerprints: NDArray[np.uint64], sketches: NDArray[np.uint8], tags: Sequence[Tags] | None
) -> Strings:
    """Row values of n stored documents, given their keys (see Entry)."""
    states = np.full(len(fingerprints), State.STORED, dtype=np.uint8)
    parts = [_big_endian(fingerprints), Strings.rows_of(states[:, None]), Strings.rows_of(sketches)]
    if tags is not None:
        parts.insert(2, Strings.of(list(map(_encoded_tags, tags))))
        states[parts[2].lengths > 0] |= _TAGGED
    return all_checked(keys, Strings.joined(*parts))


def listed_sketch(key: bytes, value: bytes) -> bytes:
    """The sketch in a listing. Raises StoreFailed if it is damaged."""
    try:
        return unchecked(key, value)
    except ValueError as error:
        raise StoreFailed(
            f"the sketch of the document {quoted(key[_WORD.size :])} in the table fingerprints is damaged: "
            f"{error}. Its key is {key.hex()}. Load the document's text again (simhbase load), or delete it"
        ) from error


def whole_sketch(document: str, sketch: bytes, size: int) -> bytes:
    """The sketch of a document. Raises StoreFailed if it has another size."""
    if len(sketch) != size:
        raise StoreFailed(
            f"the sketch of the document {quoted(document.encode())} is damaged: it has {len(sketch)} bytes "
            f"instead of {size}. Load the document's text again (simhbase load), or delete it"
        )
    return sketch


def usable_sketch(key: bytes, value: bytes) -> bytes:
    """The sketch in a listing, b"" if it is damaged or there is none."""
    return unchecked(key, value) if is_intact(key, value) else b""


def _big_endian(numbers: NDArray[np.unsignedinteger]) -> Strings:
    order = numbers.astype(numbers.dtype.newbyteorder(">"))
    return Strings.rows_of(order.view(np.uint8).reshape(len(numbers), order.itemsize))


def listing_id(key: bytes) -> str:
    return key[_WORD.size :].decode(errors="backslashreplace")


def id_problem(document_id: str) -> str | None:
    """Why an id is invalid, None if it is valid."""
    if not document_id:
        return "the id is empty"
    try:
        size = len(document_id) if document_id.isascii() else len(document_id.encode())
    except UnicodeEncodeError:
        return "the id is not valid Unicode (it contains half of a surrogate pair)"
    if size > MAX_ID_BYTES:
        what = "the id has" if SEPARATOR not in document_id else "the id and its scope have"
        return f"{what} {size} bytes in UTF-8, at most {MAX_ID_BYTES} are allowed"
    return None
