"""Moments of the past by which documents are chosen (a document's version is when it was last written, by the
clock of the process that wrote it), and moments to come at which something ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from simhbase.errors import UsageError
from simhbase.model import Moment

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LATEST = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // MILLISECOND  # later ones are none in some zones


def milliseconds(moment: Moment, now: int) -> int:
    """A moment in milliseconds since 1970, as `now` is. Raises UsageError for what is none, or is to come."""
    found = _at(moment, lambda span: now - span, "so long ago")
    if found > now:
        raise UsageError(f"{moment} is still to come: a moment of the past is needed")
    return found


def milliseconds_to_come(moment: Moment, now: int) -> int:
    """A moment to come in milliseconds since 1970. Raises UsageError for what is none, or is past."""
    found = _at(moment, lambda span: now + span, "so long from now")
    if found <= now:
        raise UsageError(f"{moment} is past: a moment to come is needed")
    if found > LATEST:
        raise UsageError(f"{moment!r} is outside what clocks show: leave it out for what never ends")
    return found


def at(milliseconds: int) -> datetime:
    """A moment in milliseconds since 1970 as a datetime in UTC."""
    return EPOCH + milliseconds * MILLISECOND


def since_epoch(moment: datetime) -> int:
    """A datetime with its zone in milliseconds since 1970, rounded down as clocks are, so that now is not to
    come."""
    return (moment - EPOCH) // MILLISECOND


def _at(moment: Moment, after: Callable[[int], int], means: str) -> int:
    if not isinstance(moment, Moment):
        raise UsageError(f"{moment!r} is no moment: a datetime is needed, or a timedelta for {means}")
    try:
        if isinstance(moment, datetime):
            return since_epoch(moment.astimezone(UTC))
        return after(moment // MILLISECOND)
    except (OverflowError, ValueError, OSError) as error:
        raise UsageError(f"{moment!r} is outside what clocks show") from error
