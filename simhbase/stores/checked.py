"""Values that end with a checksum of their key and content, so that damage is noticed where they are read.

Disks, caches and memory flip bits, and not every store sums what it keeps. The checksum stands last, because
SQL and NumPy read the fields in front of it at fixed places. It covers the key, so a value that stands under
another key is noticed, too.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from simhbase.stores.strings import Strings

CHECKSUM_BYTES = 4


def checked(key: bytes, value: bytes) -> bytes:
    """The value with its checksum: CRC-32 of key and value, 4 bytes big-endian."""
    return value + crc32(value, crc32(key)).to_bytes(CHECKSUM_BYTES)


def unchecked(key: bytes, value: bytes) -> bytes:
    """The value without its checksum. Raises ValueError if it is damaged."""
    content = value[:-CHECKSUM_BYTES]
    if crc32(content, crc32(key)).to_bytes(CHECKSUM_BYTES) != value[-CHECKSUM_BYTES:]:
        raise ValueError("its checksum differs")
    return content


def is_intact(key: bytes, value: bytes) -> bool:
    try:
        unchecked(key, value)
    except ValueError:
        return False
    return True


def all_checked(keys: Strings, values: Strings) -> Strings:
    """n values with their checksums (see checked)."""
    rows = zip(keys.to_list(), values.to_list(), strict=True)
    sums = np.fromiter((crc32(value, crc32(key)) for key, value in rows), ">u4", len(keys.lengths))
    return Strings.joined(values, Strings.rows_of(sums.view(np.uint8).reshape(-1, CHECKSUM_BYTES)))
