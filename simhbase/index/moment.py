"""Points in time, in the past (when a document was last written, by its writer's clock) or future (when a
mute ends)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from simhbase.errors import UsageError
from simhbase.model import Moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LATEST = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // MILLISECOND  # later ones overflow in some time zones


def milliseconds(moment: Moment, now: int) -> int:
    """A past time in milliseconds since 1970. Raises UsageError if it is invalid or in the future."""
    found = _at(moment, now, -1, "a time ago")
    if found > now:
        raise UsageError(f"{moment} is in the future: give a time in the past")
    return found


def milliseconds_to_come(moment: Moment, now: int) -> int:
    """A future time in milliseconds since 1970. Raises UsageError if it is invalid or past."""
    found = _at(moment, now, 1, "a time from now")
    if found <= now:
        raise UsageError(f"{moment} is in the past: give a time in the future")
    if found > LATEST:
        raise UsageError(f"{moment!r} is out of range: leave it out for an entry that never ends")
    return found


def at(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as a datetime in UTC."""
    return EPOCH + milliseconds * MILLISECOND


def since_epoch(moment: datetime) -> int:
    """A datetime in milliseconds since 1970, rounded down so that now is never in the future."""
    return (moment - EPOCH) // MILLISECOND


def _at(moment: Moment, now: int, sign: int, means: str) -> int:
    if not isinstance(moment, Moment):
        raise UsageError(f"{moment!r} is not a time: give a datetime, or a timedelta for {means}")
    try:
        if isinstance(moment, datetime):
            return since_epoch(moment.astimezone(UTC))
        return now + sign * (moment // MILLISECOND)
    except (OverflowError, ValueError, OSError) as error:
        raise UsageError(f"{moment!r} is out of range") from error
