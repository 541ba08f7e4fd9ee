"""SequenceFiles of rows, read as Hadoop's and HBase's classes read them."""

from collections.abc import Iterator
from pathlib import Path

from simhbase.stores.hbase.sequencefile import SYNC_BYTES, header

INT = 4


def read(path: Path) -> Iterator[tuple[bytes, bytes, int, bytes]]:
    """Row, family, time and value of each record, as Hadoop's classes read them."""
    content = path.read_bytes()
    place = len(header(bytes(SYNC_BYTES)))
    sync = content[place - SYNC_BYTES : place]
    while place < len(content):
        if content[place : place + INT] == b"\xff\xff\xff\xff":
            assert content[place + INT : place + INT + len(sync)] == sync
            place += INT + len(sync)
            continue
        size = int.from_bytes(content[place : place + INT])
        key_size = int.from_bytes(content[place + INT : place + 2 * INT])
        place += 2 * INT
        key, value = content[place : place + key_size], content[place + key_size : place + size]
        place += size
        assert int.from_bytes(key[:INT]) == len(key) - INT
        length, rest = varint(value)
        assert length == len(rest)
        (cell,) = fields(rest).values()
        assert isinstance(cell, bytes)
        row, family, qualifier, time, kind, stored = fields(cell).values()
        assert (row, qualifier, kind) == (key[INT:], b"", 4)
        yield row, family, time, stored  # type: ignore[misc]


def fields(message: bytes) -> dict[int, bytes | int]:
    """The fields of a message of Protocol Buffers, in their order."""
    found: dict[int, bytes | int] = {}
    while message:
        tag, message = varint(message)
        number, message = varint(message)
        if tag & 7 == 2:
            found[tag >> 3], message = message[:number], message[number:]
        else:
            found[tag >> 3] = number
    assert list(found) == sorted(found)
    return found


def varint(message: bytes) -> tuple[int, bytes]:
    number = shift = 0
    for place, byte in enumerate(message):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, message[place + 1 :]
    raise AssertionError("no end")
