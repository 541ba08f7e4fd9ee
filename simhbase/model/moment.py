"""Points in time, in the past (when a document was last written, by its writer's clock) or future (when a
mute ends)."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Annotated

from msgspec import Meta

from simhbase.errors import UsageError
from simhbase.model.values import Moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LATEST = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // MILLISECOND  # later ones overflow in some time zones
Milliseconds = Annotated[int, Meta(ge=0, le=LATEST)]  # since 1970, as rows have them
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}  # seconds
_DURATION = re.compile("([0-9]{1,10})([smhdw])")


def now() -> int:
    """This machine's time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def milliseconds(moment: Moment, now: int) -> int:
    """A past time in milliseconds since 1970. Raises UsageError if it is invalid or in the future."""
    found = _at(moment, now, -1, "a time ago")
    if found > now:
        raise UsageError(f"{_shown(moment)} is in the future: give a time in the past")
    return found


def milliseconds_to_come(moment: Moment, now: int) -> int:
    """A future time in milliseconds since 1970. Raises UsageError if it is invalid or past."""
    found = _at(moment, now, 1, "a time from now")
    if found <= now:
        raise UsageError(f"{_shown(moment)} is in the past: give a time in the future")
    if found > LATEST:
        raise UsageError(f"{_shown(moment)} is out of range: leave it out for an entry that never ends")
    return found


def at(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as a datetime in UTC."""
    return EPOCH + milliseconds * MILLISECOND


def since_epoch(moment: datetime) -> int:
    """A datetime in milliseconds since 1970, rounded down so that now is never in the future."""
    return (moment - EPOCH) // MILLISECOND


def of_text(text: str, zone: tzinfo | None = None) -> datetime | timedelta:
    """A duration (90d), a date (2026-01-31), or a time of ISO 8601 or RFC 3339 (2026-01-31T18:00Z). zone: of
    dates, and a time must name its own; None: both may be of this machine's zone. Raises UsageError."""
    try:
        if found := _DURATION.fullmatch(text):
            return timedelta(seconds=int(found[1]) * UNITS[found[2]])
        if not text.isprintable():  # what follows a zone is left unread
            raise ValueError
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text[:40]!r} is not a time: use a number with s, m, h, d or w (90d), a date (2026-01-31), "
            "or a time of RFC 3339 (2026-01-31T18:00:00Z)"
        ) from error
    if zone is None or moment.tzinfo:
        return moment
    try:
        date.fromisoformat(text)
    except ValueError as error:  # it has a time of day
        raise UsageError(
            f"{text!r} has no time zone: put Z behind it for UTC, or an offset such as +08:00"
        ) from error
    return moment.replace(tzinfo=zone)


def _at(moment: Moment, now: int, sign: int, means: str) -> int:
    if not isinstance(moment, Moment):
        raise UsageError(
            f"{_shown(moment)} is not a time: give a datetime, a text, or a timedelta for {means}"
        )
    try:
        found = of_text(moment) if isinstance(moment, str) else moment
        if isinstance(found, datetime):
            return since_epoch(found.astimezone(UTC))
        return now + sign * (found // MILLISECOND)
    except (OverflowError, ValueError, OSError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{_shown(moment)} is out of range") from error


def _shown(moment: object) -> str:
    """A time as messages show it: as `of_text` reads it, if it can be, and as people write durations."""
    if isinstance(moment, date):  # also a datetime
        return moment.isoformat().replace("+00:00", "Z")
    return str(moment) if isinstance(moment, str | timedelta) else repr(moment)
