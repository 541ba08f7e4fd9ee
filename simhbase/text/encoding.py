"""Decodes bytes to text."""

from __future__ import annotations

import re

from simhbase.errors import BadInput, UsageError

_PAIRS = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]")
_LOOKED_AT = 4096  # bytes
_FEW = 4  # pairs: too few to decide with less


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """Decode bytes, without a byte order mark.

    encoding: any that Python knows, or "auto": UTF-8, else GB18030. Raises BadInput with the offset of the
    first invalid byte, and with "auto" for data that looks like Big5; UsageError for an unknown encoding.
    """
    if encoding == "auto":
        return _decode_automatically(data)
    try:
        # Decoding no bytes succeeds for any encoding, so unknown ones are found by decoding others.
        return _without_mark(data.decode(encoding)) if data else (b"a" * 4).decode(encoding, "ignore")[:0]
    except UnicodeDecodeError as error:
        raise BadInput(f"not {encoding}: {_where(error)}") from error
    except (LookupError, ValueError) as error:
        raise UsageError(
            f"no text encoding {encoding!r}: use auto, utf-8, gb18030, big5, shift_jis, euc-kr, latin-1 or "
            "any other that Python knows"
        ) from error


def _decode_automatically(data: bytes) -> str:
    try:
        return _without_mark(data.decode("utf-8"))
    except UnicodeDecodeError as not_utf8:
        try:
            text = data.decode("gb18030")
        except UnicodeDecodeError as not_gb18030:
            message = f"neither utf-8 ({_where(not_utf8)}) nor gb18030 ({_where(not_gb18030)})"
            raise BadInput(message) from not_gb18030
        if _is_rather_big5(data):
            raise BadInput(f"not utf-8 ({_where(not_utf8)}), and more likely big5 than gb18030") from not_utf8
        return _without_mark(text)


def _is_rather_big5(data: bytes) -> bool:
    """True if more pairs of bytes are common characters in Big5 than in GB18030. (Most Big5 is also valid
    GB18030, with other characters.)"""
    import numpy as np  # not at the top: help and clients need no NumPy

    pairs = np.frombuffer(b"".join(_PAIRS.findall(data[:_LOOKED_AT])), np.uint8).reshape(-1, 2)
    lead, trail = pairs.T
    is_high = trail >= 0xA1
    # Symbols, kana, Cyrillic and common characters of GB18030; symbols and common characters of Big5.
    in_gb18030 = np.count_nonzero(
        is_high & (lead >= 0xA1) & (lead <= 0xD7) & ((lead <= 0xA9) | (lead >= 0xB0))
    )
    in_big5 = np.count_nonzero((is_high | (trail <= 0x7E)) & (lead >= 0xA1) & (lead <= 0xC6))
    return bool(len(pairs) >= _FEW and in_big5 > 1.5 * in_gb18030)


def _without_mark(text: str) -> str:
    return text.removeprefix("\ufeff")


def _where(error: UnicodeDecodeError) -> str:
    return f"{error.reason} at byte {error.start} (0x{error.object[error.start]:02x})"
