"""Byte formats of the tables of records. Examples: schema/format.md.

documents:     mmh3.hash(id, seed 0) (4 bytes, unsigned) + id -> fingerprint (8), state (1), the claim where
               one is pending, and the sketch where one is kept that the fingerprint does not name
               (`Scheme.listed_sketching`)
               a claim: token (16), ticket (8, 0: none yet), lease (4), beat (4), fingerprint (8), size of the
               sketch (2), sketch
fingerprints:  fingerprint (8) + id -> the sketch that the fingerprint is a hash of, else empty
obsolete:      salt (1) + time (8) + fingerprint (8) + id -> empty
Integers are big-endian, times milliseconds since 1970. The versions of the cells are the store's to keep.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import mmh3

from simhbase.errors import StoreFailed

MAX_ID_BYTES = 1024
_ENTRY = struct.Struct(">QB")
_CLAIM = struct.Struct(">16sQIIQH")
_WORD = struct.Struct(">Q")
_HASH = struct.Struct(">I")
_OBSOLETE = struct.Struct(">BqQ")
SALTS = 256


class State(IntEnum):
    """What a document is."""

    STORED = 1
    DELETED = 2
    PENDING = 3  # claimed, and not stored
    REPLACING = 4  # stored, and claimed with another text


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """Who is about to store a document, and with what.

    token: of one attempt, 16 bytes; ticket: its place among all claims, 0 before it has one; lease: in
    milliseconds, after which others may break it where it has not changed; beat: changes to say that somebody
    still waits.
    """

    token: bytes
    fingerprint: int
    sketch: bytes
    lease: int
    ticket: int = 0
    beat: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What the documents table says of an id: the one truth. Of a deleted document the fingerprint is the
    one that it had; of one that is claimed only, that of the claim."""

    fingerprint: int
    state: State = State.STORED
    sketch: bytes = b""
    claim: PendingClaim | None = None

    @property
    def stored(self) -> bool:
        """Whether it is a document, and not what is left of one or what may become one."""
        return self.state in (State.STORED, State.REPLACING)

    def encode(self) -> bytes:
        """The row's value."""
        head = _ENTRY.pack(self.fingerprint, self.state)
        return head + (_encoded(self.claim) if self.claim else b"") + self.sketch

    @staticmethod
    def decode(value: bytes) -> Entry:
        """The entry of a row's value. Raises StoreFailed where it is none."""
        try:
            fingerprint, number = _ENTRY.unpack_from(value)
            state, rest = State(number), value[_ENTRY.size :]
            if state in (State.STORED, State.DELETED):
                return Entry(fingerprint, state, rest)
            claim, rest = _decoded(rest)
            return Entry(fingerprint, state, rest, claim)
        except (struct.error, ValueError) as error:
            raise StoreFailed(
                f"a row of the documents table cannot be read: its value is {value.hex() or 'empty'}. "
                "simhbase check --repair removes such rows"
            ) from error


def entry(value: bytes) -> Entry:
    """The same, of a row that was read; one that cannot be read is no document, and the next write replaces
    it."""
    try:
        return Entry.decode(value)
    except StoreFailed:
        return Entry(0, State.DELETED)


def _encoded(claim: PendingClaim) -> bytes:
    head = _CLAIM.pack(
        claim.token, claim.ticket, claim.lease, claim.beat, claim.fingerprint, len(claim.sketch)
    )
    return head + claim.sketch


def _decoded(value: bytes) -> tuple[PendingClaim, bytes]:
    """A claim, and what is behind it. Raises struct.error, ValueError."""
    token, ticket, lease, beat, fingerprint, size = _CLAIM.unpack_from(value)
    behind = _CLAIM.size + size
    if len(value) < behind:
        raise ValueError("the sketch of a claim was cut")
    return PendingClaim(token, fingerprint, value[_CLAIM.size : behind], lease, ticket, beat), value[behind:]


@dataclass(frozen=True, slots=True)
class Obsolete:
    """A listing that a document left behind: at `time` it had another fingerprint, or none."""

    time: int
    fingerprint: int
    id: str

    def key(self) -> bytes:
        """The row key; the salt spreads what is written at one time over the table."""
        document = document_key(self.id)
        return _OBSOLETE.pack(document[0], self.time, self.fingerprint) + document[_HASH.size :]


def parse_obsolete(key: bytes) -> Obsolete | None:
    """What a row of the table obsolete says, None where it is no row that was written so."""
    try:
        _, time, fingerprint = _OBSOLETE.unpack_from(key)
        found = Obsolete(time, fingerprint, key[_OBSOLETE.size :].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return found if id_problem(found.id) is None and found.key() == key else None


def obsolete_range(salt: int, before: int) -> tuple[bytes, bytes]:
    """Where the rows of one salt with a time before this one begin, and what is behind them."""
    return bytes([salt]), bytes([salt]) + _OBSOLETE.pack(0, max(before, 0), 0)[1:9]


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
    return _WORD.pack(fingerprint)


def listing_key(fingerprint: int, document_id: str) -> bytes:
    """The row that lists a document under its fingerprint."""
    return _WORD.pack(fingerprint) + document_id.encode()


def parse_listing(key: bytes) -> tuple[int, str] | None:
    """Fingerprint and id of a row that lists a document, None for unusable ids."""
    try:
        document = key[_WORD.size :].decode()
        (fingerprint,) = _WORD.unpack_from(key)
    except (struct.error, UnicodeDecodeError):
        return None
    return None if id_problem(document) else (fingerprint, document)


def listing_id(key: bytes) -> str:
    """The id in a row that lists a document."""
    return key[_WORD.size :].decode(errors="backslashreplace")


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
