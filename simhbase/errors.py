"""One tree of errors: what may be tried again, what may not, and bad input.

Every error that a user of the command line can meet carries the exit code it ends with, so that
the command line needs no table of its own.
"""

from __future__ import annotations


class SimhbaseError(Exception):
    """Anything simhbase raises on purpose. The message says what to do next."""

    exit_code = 1


class RetryableError(SimhbaseError):
    """The same call may succeed later, unchanged."""


class StoreUnreachable(RetryableError):
    """No answer from the store's server."""

    exit_code = 11


class StoreBusy(RetryableError):
    """Another process holds the store for writing."""

    exit_code = 13


class Undecided(RetryableError):
    """A claim whose time was up: nothing is stored, and nobody knows yet whether it may be."""


class Overloaded(RetryableError):
    """More is asked for at once than may wait; nothing was done."""


class TimedOut(RetryableError):
    """No answer within the time that the caller gave."""


class PermanentError(SimhbaseError):
    """The same call fails again until somebody changes something."""


class TablesMissing(PermanentError):
    """The store or its profile does not exist (a half-made set of tables counts as missing)."""

    exit_code = 10


class ProfileMismatch(PermanentError):
    """What was asked for, or what this machine computes, differs from the store's profile."""

    exit_code = 12


class SchemaDiffers(PermanentError):
    """A table exists with other attributes than it should have."""

    exit_code = 14


class StoreFailed(PermanentError):
    """The store answered with a failure: a full disk, a corrupt file, a refused write."""


class TableDisabled(StoreFailed):
    """A table of HBase is disabled: somebody alters, restores or is about to drop it."""


class OutputFailed(PermanentError):
    """A file, or standard output, that cannot be written: a full disk, no permission."""


class ReadOnly(PermanentError):
    """A write through an index that was opened for reading."""


class AccessDenied(PermanentError):
    """A service does not let this caller do this: it has no token, or another one is needed."""


class BadInput(SimhbaseError, ValueError):
    """The caller's data or options are wrong.

    parameter: the name of the parameter at fault, if it is one; the message begins with it.
    """

    def __init__(self, problem: str, *, parameter: str | None = None) -> None:
        super().__init__(problem if parameter is None else f"{parameter}: {problem}")
        self.parameter = parameter
        self._problem = problem

    def calling_it(self, name: str) -> str:
        """The message with another name for the parameter."""
        return f"{name}: {self._problem}"


class UsageError(BadInput):
    """Options that do not go together or lie outside their range."""

    exit_code = 2


class Conflict(BadInput):
    """A claim of an id that is stored with another text."""


class NoFingerprint(BadInput):
    """A text without enough features; `reason` says which and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
