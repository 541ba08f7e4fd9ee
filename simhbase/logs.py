"""Python loggers, one per module under the name "simhbase". The application configures handlers."""

from __future__ import annotations

import logging

_LIBRARY = logging.getLogger("simhbase")
_LIBRARY.addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module, given its `__name__`."""
    return logging.getLogger(module)


def warn_on_stderr() -> None:
    """Log warnings to standard error, like the command line; may be called twice."""
    if logging.lastResort is not None:
        _LIBRARY.addHandler(logging.lastResort)
