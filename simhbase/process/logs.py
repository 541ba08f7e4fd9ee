"""Python loggers, one per module under the name "simhbase". The application configures handlers."""

from __future__ import annotations

import logging
import re
from copy import copy

# Control characters, and marks that change the direction of text: no terminal and no log gets these raw.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_LIBRARY = logging.getLogger("simhbase")
_LIBRARY.addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module, given its `__name__`."""
    return logging.getLogger(module)


def printable(text: str) -> str:
    r"""Escape control characters and the like, e.g. as \x1b or \u202e."""
    return CONTROL.sub(_escaped, text)


def printable_json(line: bytes) -> bytes:
    r"""Escape the same in a line of JSON, e.g. as \u009b."""
    if line.isascii():
        return line
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}"


class _Printable(logging.Formatter):
    """What a terminal can be given: servers may have said it."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


_ON_STDERR = copy(logging.lastResort)


def warn_on_stderr() -> None:
    """Log warnings to standard error, like the command line; may be called twice."""
    if _ON_STDERR is not None:
        _ON_STDERR.setFormatter(_Printable())
        _LIBRARY.addHandler(_ON_STDERR)
