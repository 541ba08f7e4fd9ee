"""Moments by which documents are chosen: a document's version is when it was last written, by the clock of
the process that wrote it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from simhbase.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

Moment = datetime | timedelta  # at this time (without a zone: that of this machine), or so long ago


def milliseconds(moment: Moment, now: int) -> int:
    """A moment in milliseconds since 1970, as `now` is. Raises UsageError for what is none, or is to come."""
    if not isinstance(moment, Moment):
        raise UsageError(f"{moment!r} is no moment: a datetime is needed, or a timedelta for so long ago")
    try:
        if isinstance(moment, datetime):
            # Rounded down as clocks are, so that what is now is not to come.
            found = (moment.astimezone(UTC) - EPOCH) // MILLISECOND
        else:
            found = now - moment // MILLISECOND
    except (OverflowError, ValueError, OSError) as error:
        raise UsageError(f"{moment!r} is outside what clocks show") from error
    if found > now:
        raise UsageError(f"{moment} is still to come: a moment of the past is needed")
    return found
