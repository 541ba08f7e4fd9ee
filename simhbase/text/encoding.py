"""Bytes to text."""

from __future__ import annotations

import codecs

from simhbase.errors import BadInput, UsageError


def decode(data: bytes, encoding: str = "utf-8") -> str:
    """The text of bytes, without a byte order mark.

    `encoding` is any that Python knows, or "auto": UTF-8, else GB18030. Raises BadInput naming the
    offset of the first wrong byte, UsageError for an encoding that does not exist.
    """
    if encoding == "auto":
        return _decode_automatically(data)
    try:
        codecs.lookup(encoding)
        return _without_mark(data.decode(encoding))
    except LookupError as error:
        message = f"no text encoding {encoding!r}: use auto, utf-8, gb18030 or another name that Python knows"
        raise UsageError(message) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"not {encoding}: {_where(error)}") from error


def _decode_automatically(data: bytes) -> str:
    try:
        return _without_mark(data.decode("utf-8"))
    except UnicodeDecodeError as not_utf8:
        try:
            return _without_mark(data.decode("gb18030"))
        except UnicodeDecodeError as not_gb18030:
            message = f"neither utf-8 ({_where(not_utf8)}) nor gb18030 ({_where(not_gb18030)})"
            raise BadInput(message) from not_gb18030


def _without_mark(text: str) -> str:
    return text.removeprefix("\ufeff")


def _where(error: UnicodeDecodeError) -> str:
    return f"{error.reason} at byte {error.start} (0x{error.object[error.start]:02x})"
