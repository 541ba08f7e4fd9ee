"""The exceptions: retryable errors, permanent errors and bad input.

Each class carries the exit code of the command line, as do those that rooms add (TooManyRejects).
A command that ends without an error, but with rejects, has its code from `cli/inputs.py`.
"""

from __future__ import annotations

import sys
import warnings


class SimhbaseError(Exception):
    """Base class. The message says what to do next."""

    exit_code = 1


class RetryableError(SimhbaseError):
    """The same call may succeed later."""


class StoreUnreachable(RetryableError):
    """The store's server does not answer."""

    exit_code = 11


class StoreBusy(RetryableError):
    """Another process holds the store for writing."""

    exit_code = 13


class Undecided(RetryableError):
    """A claim timed out. Nothing is stored; repeat the claim."""


class Overloaded(RetryableError):
    """Too many calls are waiting. Nothing was done."""


class TimedOut(RetryableError):
    """No answer within the caller's timeout."""


class PermanentError(SimhbaseError):
    """The same call will fail again until something is changed."""


class TablesMissing(PermanentError):
    """The store or its profile does not exist, or its creation was interrupted."""

    exit_code = 10


class ProfileMismatch(PermanentError):
    """The requested profile, or this machine's fingerprints, differ from the store's."""

    exit_code = 12


class SchemaDiffers(PermanentError):
    """A table has other attributes than it should."""

    exit_code = 14


class StoreFailed(PermanentError):
    """The store reported a failure: full disk, corrupt file, refused write."""


class TableDisabled(StoreFailed):
    """An HBase table is disabled: it is being altered, restored or dropped."""


class OutputFailed(PermanentError):
    """A file or standard output cannot be written: full disk, no permission."""


class CoreFailed(PermanentError):
    """The compiled core met a fault of its own. Please report it with the text."""


class ReadOnly(PermanentError):
    """A write to an index that was opened with access="read"."""


class AccessDenied(PermanentError):
    """The service refused the request: a token is missing, or lacks the permission."""


class ShortTexts(UserWarning):
    """The index misses most near-duplicates of texts as short as one that was given. Once per opened index or
    client."""

    @classmethod
    def warn(cls, said: str) -> None:
        """Warns at the line that called this package."""
        frame, level = sys._getframe(1), 2
        while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "simhbase":
            frame, level = frame.f_back, level + 1
        warnings.warn(said, cls, stacklevel=level)


class BadInput(SimhbaseError, ValueError):
    """Invalid data or options.

    parameter: name of the invalid parameter, if there is one; the message starts with it.
    """

    def __init__(self, problem: str, *, parameter: str | None = None) -> None:
        super().__init__(problem if parameter is None else f"{parameter}: {problem}")
        self.parameter = parameter
        self._problem = problem

    def calling_it(self, name: str) -> str:
        """The message with another name for the parameter, such as an option."""
        return f"{name}: {self._problem}"


class UsageError(BadInput):
    """Options that are out of range or cannot be combined."""

    exit_code = 2


class Conflict(BadInput):
    """The claimed id is stored with another text."""


class NoFingerprint(BadInput):
    """A text with too few features; `reason` has the details."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
