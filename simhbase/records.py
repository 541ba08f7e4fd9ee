"""Byte formats of the documents and fingerprints tables. Examples: schema/format.md.

documents:     mmh3.hash(id, seed 0) (4 bytes, unsigned) + id -> fingerprint (8), state (1),
               time (8), then 8 bytes for each fingerprint that the document is being moved from;
               where the state has its highest bit set, first a sketch that is being written: its
               length (2), then its bytes
fingerprints:  fingerprint (8) + 01 + id -> time (8)
               fingerprint (8) + 02 -> sketch
Integers are big-endian, times milliseconds since 1970.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import mmh3

from simhbase.errors import StoreFailed

MAX_ID_BYTES = 1024
DOCUMENT_MARK = b"\x01"
SKETCH_MARK = b"\x02"
_HEAD = struct.Struct(">QBq")
_WORD = struct.Struct(">Q")
_TIME = struct.Struct(">q")
_HASH = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_WITH_SKETCH = 0x80  # in the state's byte


class State(IntEnum):
    """What is being done to a document: its row is written before the work and settled after it."""

    WRITING = 1
    STORED = 2
    DELETING = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the documents table: what is stored, or meant to be, under an id.

    old: fingerprints that may still list the document, where a move has not been finished; sketch:
    that of the fingerprint, until it is written.
    """

    fingerprint: int
    state: State
    time: int
    old: tuple[int, ...] = ()
    sketch: bytes = b""

    def encode(self) -> bytes:
        """The row's value."""
        state, sketch = int(self.state), b""
        if self.sketch:
            state, sketch = state | _WITH_SKETCH, _LENGTH.pack(len(self.sketch)) + self.sketch
        head = _HEAD.pack(self.fingerprint, state, self.time)
        return head + sketch + b"".join(map(_WORD.pack, self.old))

    @staticmethod
    def decode(value: bytes) -> Entry:
        """The entry of a row's value. Raises StoreFailed where it is none."""
        try:
            return Entry._decode(value)
        except (struct.error, ValueError) as error:
            raise StoreFailed(
                f"a row of the documents table cannot be read: its value is {value.hex() or 'empty'}. "
                "simhbase check --repair removes such rows"
            ) from error

    @staticmethod
    def _decode(value: bytes) -> Entry:
        fingerprint, state, time = _HEAD.unpack_from(value)
        rest, sketch = value[_HEAD.size :], b""
        if state & _WITH_SKETCH:
            (size,) = _LENGTH.unpack_from(rest)
            sketch, rest = rest[_LENGTH.size : _LENGTH.size + size], rest[_LENGTH.size + size :]
            if not 0 < size == len(sketch):
                raise ValueError("the sketch is cut")
        old = tuple(word for (word,) in _WORD.iter_unpack(rest))
        return Entry(fingerprint, State(state & ~_WITH_SKETCH), time, old, sketch)


def document_key(document_id: str) -> bytes:
    """The row key of a document: a hash spreads ids that begin alike over the table."""
    encoded = document_id.encode()
    return _HASH.pack(mmh3.hash(encoded, 0, signed=False)) + encoded


def document_id(key: bytes) -> str:
    """The id in a row key of the documents table."""
    return key[_HASH.size :].decode()


def parse_document(key: bytes, value: bytes) -> tuple[str, Entry] | None:
    """Id and entry of a row of the documents table, None where it is no row that was written so."""
    try:
        document, entry = document_id(key), Entry.decode(value)
    except (UnicodeDecodeError, StoreFailed):
        return None
    return (document, entry) if id_problem(document) is None and document_key(document) == key else None


def listing_prefix(fingerprint: int) -> bytes:
    """The prefix of the rows that list a fingerprint's documents."""
    return _WORD.pack(fingerprint) + DOCUMENT_MARK


def listing_key(fingerprint: int, document_id: str) -> bytes:
    """The row that lists a document under its fingerprint."""
    return listing_prefix(fingerprint) + document_id.encode()


def is_listing(key: bytes) -> bool:
    """Whether a row of the fingerprints table lists a document; others hold a fingerprint's state."""
    return key[_WORD.size : _WORD.size + 1] == DOCUMENT_MARK


def parse_listing(key: bytes) -> tuple[int, str] | None:
    """Fingerprint and id of a row that lists a document, None for other rows and unusable ids."""
    if not is_listing(key):
        return None
    try:
        document = key[_WORD.size + 1 :].decode()
    except UnicodeDecodeError:
        return None
    (fingerprint,) = _WORD.unpack_from(key)
    return None if id_problem(document) else (fingerprint, document)


def sketch_key(fingerprint: int) -> bytes:
    """The row that holds a fingerprint's sketch."""
    return _WORD.pack(fingerprint) + SKETCH_MARK


def sketched(key: bytes) -> int | None:
    """The fingerprint of a row that holds a sketch, None for other rows."""
    if key[_WORD.size :] != SKETCH_MARK:
        return None
    (fingerprint,) = _WORD.unpack_from(key)
    return int(fingerprint)


def listing_id(key: bytes) -> str:
    """The id in a row that lists a document."""
    return key[_WORD.size + 1 :].decode(errors="backslashreplace")


def encode_time(milliseconds: int) -> bytes:
    """A time as the tables hold it."""
    return _TIME.pack(milliseconds)


def id_problem(document_id: str) -> str | None:
    """Why an id cannot be stored, None where it can."""
    if not document_id:
        return "the id is empty"
    try:
        size = len(document_id.encode())
    except UnicodeEncodeError:
        return "the id is no valid Unicode text (it holds half of a surrogate pair)"
    if size > MAX_ID_BYTES:
        return f"the id has {size} bytes in UTF-8, at most {MAX_ID_BYTES} are allowed"
    return None
