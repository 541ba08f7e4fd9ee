"""Messages about the work, for those who look after it: Python's logging, with a logger for each module under
the name "simhbase". They go nowhere until the application says where.
"""

from __future__ import annotations

import logging

_LIBRARY = logging.getLogger("simhbase")
_LIBRARY.addHandler(logging.NullHandler())


def logger(module: str) -> logging.Logger:
    """The logger of a module, given its `__name__`."""
    return logging.getLogger(module)


def warn_on_stderr() -> None:
    """Has warnings go to standard error, as the command line does; may be called twice."""
    if logging.lastResort is not None:
        _LIBRARY.addHandler(logging.lastResort)
