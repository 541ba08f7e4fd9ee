"""Retries within a time limit, and what is known and said of a server that does not answer."""

from __future__ import annotations

import math
import random
import threading
import time

from simhbase.process.logs import logger

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
SILENT_SECONDS = 2.0  # length of an outage after which a warning is logged, and calls may fail at once
SAID_EVERY = 60.0  # seconds between warnings
# Of calls that fail at once, one is tried: this long after the last one failed, or has not come back.
TRIED_EVERY, TRIED_FOR = 1.0, 10.0

log = logger(__name__)


class Outage:
    """Since when a server has not answered, and why. Logs a warning at the beginning, one a minute, and one
    at the end with its length.

    name: of the server. fails_fast: while no connection to it can be made, calls fail at once, except for one
    a second, instead of waiting for it.
    """

    def __init__(self, name: str) -> None:
        self.fails_fast = False
        self._name = name
        self._lock = threading.Lock()
        self._since: float | None = None
        self._gone_since = math.inf  # since when no connection can be made
        self._problem: Exception | None = None
        self._said = -math.inf  # time of the last warning
        self._is_said = False  # of this outage
        self._next = 0.0  # when a call is tried again

    def failed(self, problem: Exception, said: str, *, gone: bool, until: float = math.inf) -> None:
        """Note that a call failed. said: the warning; gone: no connection can be made, or the call was lost
        with its connection; until: when the next attempt is made."""
        now = time.monotonic()
        with self._lock:
            since = self._since = now if self._since is None else self._since
            self._problem = problem
            self._gone_since = min(self._gone_since, now) if gone else math.inf
            self._next = now + TRIED_EVERY
            due = until > since + SILENT_SECONDS and now >= self._said + SAID_EVERY
            goes_on = self._is_said
            if due:
                self._said, self._is_said = now, True
        if not due:
            log.debug("%s", said)
        elif goes_on:
            log.warning("%s, since %.0f s", said, now - since)
        else:
            log.warning("%s", said)

    def answered(self) -> None:
        """Note that a call succeeded."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
            is_said, self._is_said = self._is_said, False
            self._gone_since = math.inf
        if since is not None and is_said:
            log.warning("%s answers again, after %.0f s", self._name, time.monotonic() - since)

    def is_known(self) -> bool:
        """True if calls should fail at once."""
        return self.fails_fast and time.monotonic() > self._gone_since + SILENT_SECONDS

    def refusal(self) -> str | None:
        """Why a call need not be tried; None if it should be."""
        if not self.is_known():
            return None
        now = time.monotonic()
        with self._lock:
            if now >= self._next:
                self._next = now + TRIED_FOR
                return None
            return f"no answer for {now - self._gone_since:.0f} s: {self._problem}"


class Attempts:
    """The time limit of an operation with its retries and pauses: `seconds`, until `end`."""

    def __init__(self, seconds: float, outage: Outage) -> None:
        self.seconds = seconds
        self.outage = outage
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.retries = 0

    def pause_for(self, problem: Exception, *, gone: bool = True) -> bool:
        """Note a failed attempt, and wait, longer each time; false if the time is up, or the store fails
        fast. gone: see Outage.failed.

        No pause after the first failure: an idle connection may have been closed. Random, so that many
        clients do not come back at once.
        """
        longest = min(FIRST_PAUSE * 2**self.retries, LONGEST_PAUSE)
        until = min(time.monotonic() + longest, self.end)
        how = "calls fail at once" if self.outage.fails_fast else f"{self.seconds:.0f} s at most"
        self.outage.failed(problem, f"waiting for {problem} ({how})", gone=gone, until=until)
        if self.outage.is_known():
            return False
        self.retries += 1
        if self.retries > 1:
            pause = min(FIRST_PAUSE * 2 ** (self.retries - 2), LONGEST_PAUSE) * random.uniform(0.5, 1.5)
            time.sleep(max(0.0, min(pause, self.end - time.monotonic())))
        return time.monotonic() < self.end
