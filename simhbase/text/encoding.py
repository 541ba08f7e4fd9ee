"""Decodes bytes to text, in a known encoding (`corpus/formats/encoding_detection.py` detects it)."""

from __future__ import annotations

import codecs

from simhbase.errors import BadInput, UsageError

SHIFT = b"\x1b$"  # begins characters of ISO-2022, whose bytes are those of ASCII, too
# What Python calls encodings, too: names of hosts, and literals of programs.
_OF_PROGRAMS = frozenset(["idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined"])


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """Decode bytes, without a byte order mark. Otherwise as `decode_all`."""
    return decode_all(data, encoding).removeprefix("\ufeff")


def decode_all(data: bytes, encoding: str = "utf-8") -> str:
    """Decode bytes.

    encoding: any that Python knows, or "auto": UTF-8 (sources in another encoding are converted before).
    Raises BadInput with the offset of the first invalid byte, UsageError for an unknown encoding.
    """
    encoding = "utf-8" if encoding == "auto" else encoding
    try:
        if not data and codecs.lookup(encoding).name in _OF_PROGRAMS:
            raise LookupError
        # Decoding no bytes succeeds for any encoding, so unknown ones are found by decoding others.
        return data.decode(encoding) if data else b"aaaa".decode(encoding, "ignore")[:0]
    except UnicodeDecodeError as error:
        raise BadInput(f"not {encoding}: {_where(error)}") from error
    except (LookupError, ValueError) as error:
        raise UsageError(
            f"no text encoding {encoding!r}: use auto, utf-8, gb18030, big5, shift_jis, euc-kr, latin-1 or "
            "any other that Python knows"
        ) from error


def is_shifted(encoding: str) -> bool:
    """True if bytes of ASCII are also those of other characters, behind a sequence that says so."""
    name = codecs.lookup(encoding).name
    return name.startswith("iso2022") or name == "hz"


def is_wide(encoding: str) -> bool:
    """True if lines do not end with the byte 0a, as in UTF-16."""
    return "\n".encode(encoding) != b"\n"


def _where(error: UnicodeDecodeError) -> str:
    return f"{error.reason} at byte {error.start} (0x{error.object[error.start]:02x})"
