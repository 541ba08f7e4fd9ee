"""Retries within a time limit."""

from __future__ import annotations

import random
import time

from simhbase.logs import logger

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
SILENT_SECONDS = 2.0  # waiting time after which a warning is logged

log = logger(__name__)


class Attempts:
    """The time limit of an operation with its retries and pauses: `seconds`, until `end`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.retries = 0
        self._said = False

    def pause_for(self, problem: Exception) -> bool:
        """Like pause, but logs a warning once before the wait becomes long."""
        longest = min(FIRST_PAUSE * 2**self.retries, LONGEST_PAUSE)
        if not self._said and time.monotonic() + longest > self.start + SILENT_SECONDS < self.end:
            self._said = True
            log.warning("waiting for %s (%.0f s at most)", problem, self.seconds)
        return self.pause()

    def pause(self) -> bool:
        """Wait, longer each time; false if the time is up.

        No pause after the first failure: an idle connection may have been closed. Random, so that many
        clients do not come back at once.
        """
        self.retries += 1
        if self.retries > 1:
            pause = min(FIRST_PAUSE * 2 ** (self.retries - 2), LONGEST_PAUSE) * random.uniform(0.5, 1.5)
            time.sleep(max(0.0, min(pause, self.end - time.monotonic())))
        return time.monotonic() < self.end
