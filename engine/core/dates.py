"""Days of the calendar in local time, and the seconds since the epoch that documents have."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

from engine.core.errors import UsageError

_EPOCH = datetime(
    1970,
    1,
    1,
    tzinfo=UTC,
)


def to_local(seconds: float) -> datetime:
    """Return the local time of a number of seconds since the epoch.

    Windows knows no local times before 1970 and after 3000: there, standard time is used. Raises
    ValueError or OverflowError outside the years 1 to 9999.
    """
    moment = _EPOCH + timedelta(seconds=seconds)
    try:
        offset = time.localtime(seconds).tm_gmtoff
    except OSError:
        offset = -time.timezone
    return moment.astimezone(timezone(timedelta(seconds=offset)))


def from_local(moment: datetime) -> float:
    """Return the seconds since the epoch of a local time, given without a zone.

    A time that occurs twice, when clocks are put back, means the first of the two. A time that
    clocks skip counts as if they had not been changed.
    """
    # Not time.mktime: its choice between two moments depends on what it was asked before.
    try:
        return moment.timestamp()
    except (OSError, OverflowError, ValueError):  # Windows: see `to_local`
        return (moment.replace(tzinfo=UTC) - _EPOCH).total_seconds() + time.timezone


def day(seconds: float | None) -> str:
    """Return the local day of a timestamp as YYYY-MM-DD; empty for None."""
    if seconds is None:
        return ""
    try:
        return f"{to_local(seconds):%Y-%m-%d}"
    except (ValueError, OverflowError):
        return ""


def document_date(
    changed: float | None,
    created: float | None,
    modified: float,
) -> float:
    """Return the date that a document gives itself, else that of its file.

    Its last change comes before its creation.
    """
    if changed is not None:
        return changed
    if created is not None:
        return created
    return modified


def read_day(text: str) -> float:
    """Return the seconds since the epoch of `YYYY-MM-DD`, in local time. Raises UsageError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            seconds = from_local(moment)
        else:
            seconds = moment.astimezone(UTC).timestamp()
        # Raises an error for a moment outside the years 1 to 9999.
        to_local(seconds)
        return seconds
    except (ValueError, OverflowError):
        to_do = "Write it as YYYY-MM-DD, such as 2031-04-30."
        raise UsageError(
            f"'{text}' is not a date.",
            "",
            to_do,
            code="date-invalid",
        ) from None
