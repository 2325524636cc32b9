"""Days in local time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from fixtures.errors import fails
from fixtures.local_zone import in_zone
from hypothesis import given
from hypothesis import strategies as st

from engine.core.dates import day, read_day, to_local
from engine.core.errors import UsageError

LAST = 32_535_215_999  # the last second of which Windows knows the local time


@pytest.fixture(params=["this system", "as on Windows"])
def berlin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time is that of Berlin; Windows knows none before 1970 or after 3000."""
    if request.param == "as on Windows":
        localtime = time.localtime
        mktime = time.mktime

        def find_local(seconds: float) -> time.struct_time:
            if not 0 <= seconds <= LAST:
                raise OSError(22, "Invalid argument")
            return localtime(seconds)

        def find_seconds(moment: time.struct_time) -> float:
            if not 1970 <= moment.tm_year <= 3000:
                raise OverflowError("mktime argument out of range")
            return mktime(moment)

        monkeypatch.setattr(time, "localtime", find_local)
        monkeypatch.setattr(time, "mktime", find_seconds)
    with in_zone("Europe/Berlin"):
        yield


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1931-01-31", -1_228_179_600.0),
        ("1965-03-01", -152_672_400.0),
        ("1970-01-01", -3600.0),
        ("2031-01-30", 1_927_494_000.0),
        ("2031-07-30", 1_943_128_800.0),  # summer time
        ("3500-01-02", 48_282_217_200.0),
    ],
)
def test_days_of_all_times(text: str, seconds: float) -> None:
    assert read_day(text) == seconds
    assert day(seconds) == text
    assert day(seconds - 1) < text
    assert f"{to_local(seconds):%Y-%m-%d %H:%M}" == f"{text} 00:00"


@pytest.mark.usefixtures("berlin")
def test_a_moment_before_1970() -> None:
    assert read_day("1969-12-31T23:59:59.5") == -3600.5
    assert read_day("1969-12-31T23:59:59.5+01:00") == -3600.5


@pytest.mark.parametrize("seconds", [None, float("nan"), float("inf"), -1e12, 1e12, 1e300])
def test_what_has_no_day(seconds: float | None) -> None:
    assert day(seconds) == ""


def test_a_date_is_midnight_local_time() -> None:
    assert read_day("2031-04-30") == datetime(2031, 4, 30).timestamp()
    assert read_day("2031-04-30T12:00:00+00:00") == 1_935_316_800.0


@pytest.mark.parametrize(
    "text",
    ["", "today", "2031-13-01", "30.04.2031", "2031-04-31", "0001-01-01T00:00:00+14:00", "\ud800"],
)
def test_what_is_not_a_date(text: str) -> None:
    with fails(UsageError, "date-invalid"):
        read_day(text)


@given(
    text=st.text()
    | st.dates().map(str)
    | st.datetimes(timezones=st.none() | st.timezones()).map(str)
)
def test_any_date_works_or_is_an_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(read_day(text), float)


@pytest.mark.parametrize(
    ("zone", "text", "seconds"),
    [
        ("America/Havana", "2025-11-02", 1_762_056_000.0),  # midnight comes twice: the first
        ("Atlantic/Azores", "2025-10-26", 1_761_436_800.0),
        ("Europe/Berlin", "2024-10-27T02:30", 1_729_989_000.0),
        ("America/Havana", "2025-03-09", 1_741_496_400.0),  # no midnight: the day's first moment
    ],
)
@pytest.mark.parametrize("before", ["2025-01-15", "2025-07-15"])
def test_a_time_that_comes_twice_or_never_is_the_same_whatever_was_asked_before(
    zone: str, text: str, seconds: float, before: str
) -> None:
    with in_zone(zone):
        read_day(before)
        assert read_day(text) == seconds
        assert day(seconds) == text[:10]


@pytest.mark.parametrize(
    ("zone", "text"),
    [("Europe/Berlin", "0001-01-01"), ("America/New_York", "9999-12-31T23:59:59")],
)
def test_a_moment_outside_the_calendar_is_refused(zone: str, text: str) -> None:
    with in_zone(zone), fails(UsageError, "date-invalid"):
        read_day(text)
