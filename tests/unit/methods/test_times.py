"""Times in words mean the right days, in every zone and at every hour. What is right is said here day by day, without the arithmetic that
the code has.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sesamed.methods.days import MONTHS, WEEKDAYS
from sesamed.methods.times import Clock, Span, day_around, describe, list_known, read_clock, read_span

HOUR = 3_600_000
DAY = 24 * HOUR
# With half hours, both hemispheres, midnights that come twice or not at all, and none of it.
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "America/Havana", "America/Asuncion", "Asia/Beirut", "Africa/Cairo",
    "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Niue",
)  # fmt: skip
Belongs = Callable[[date, date], bool]  # a day, and today


def weekday(number: int, back: int) -> Belongs:
    return lambda day, today: day.weekday() == number and back <= (today - day).days < back + 7


def months_between(day: date, today: date) -> int:
    return (today.year - day.year) * 12 + today.month - day.month


def month(number: int, back: int) -> Belongs:
    return lambda day, today: day.month == number and back <= months_between(day, today) < back + 12


def weeks_between(day: date, today: date) -> float:
    """Between their Mondays, which are found by going back to them."""
    while day.weekday():
        day -= timedelta(1)
    while today.weekday():
        today -= timedelta(1)
    return (today - day).days / 7


def is_weekend(day: date, today: date) -> bool:
    return day.weekday() >= 5 and weeks_between(day, today) == (0 if today.weekday() >= 5 else 1)


def last_weekend(day: date, today: date) -> bool:
    return day.weekday() >= 5 and weeks_between(day, today) == 1


def in_last(days: int) -> Belongs:
    return lambda day, today: (today - day).days <= days


def of_year(number: int, of: int) -> Belongs:
    """The last one that has begun: no later one has that is not after today."""

    def belongs(day: date, today: date) -> bool:
        if (day.month, day.day) != (number, of) or day > today:
            return False
        later = day + timedelta(1)
        while later <= today:
            if (later.month, later.day) == (number, of):
                return False
            later += timedelta(1)
        return True

    return belongs


WORDS: dict[str, Belongs] = {
    "today": lambda day, today: day == today,
    "yesterday": lambda day, today: (today - day).days == 1,
    "the day before yesterday": lambda day, today: (today - day).days == 2,
    "3 days ago": lambda day, today: (today - day).days == 3,
    "a day ago": lambda day, today: (today - day).days == 1,
    "this week": lambda day, today: weeks_between(day, today) == 0,
    "last week": lambda day, today: weeks_between(day, today) == 1,
    "two weeks ago": lambda day, today: weeks_between(day, today) == 2,
    "this month": lambda day, today: months_between(day, today) == 0,
    "last month": lambda day, today: months_between(day, today) == 1,
    "14 months ago": lambda day, today: months_between(day, today) == 14,
    "this year": lambda day, today: day.year == today.year,
    "last year": lambda day, today: day.year == today.year - 1,
    "five years ago": lambda day, today: day.year == today.year - 5,
    "the weekend": is_weekend,
    "last weekend": last_weekend,
    "last 3 days": in_last(3),
    "past two weeks": in_last(14),
    "the last week": in_last(7),
    "7 days": in_last(7),
    **{name: weekday(number, 0) for number, name in enumerate(WEEKDAYS)},
    **{f"last {name}": weekday(number, 1) for number, name in enumerate(WEEKDAYS)},
    **{name[:3]: weekday(number, 0) for number, name in enumerate(WEEKDAYS)},
    **{name: month(number, 0) for number, name in enumerate(MONTHS, 1)},
    **{f"Last {name.title()}": month(number, 1) for number, name in enumerate(MONTHS, 1)},
    "24 january": of_year(1, 24),
    "Feb 29th": of_year(2, 29),
    "the 31st of December": of_year(12, 31),
    "april 2025": lambda day, _: (day.year, day.month) == (2025, 4),
    "1 march 2024": lambda day, _: day == date(2024, 3, 1),
    "Dec 31st, 2025": lambda day, _: day == date(2025, 12, 31),
    "2026-03-01": lambda day, _: day == date(2026, 3, 1),
    "2026-02": lambda day, _: (day.year, day.month) == (2026, 2),
    "2026-w01": lambda day, _: day.isocalendar()[:2] == (2026, 1),
    "2026": lambda day, _: day.year == 2026,
}
zones = st.sampled_from(ZONES)
# Mostly near what turns: hours of a day, its first and last minutes, ends of years, changes of clocks (most are on Sundays).
nows = st.one_of(
    st.datetimes(datetime(2021, 1, 1), datetime(2031, 1, 1)),  # noqa: DTZ001  # of the zone
    st.builds(
        lambda year, day, minutes: datetime(year, 12, 31) + timedelta(day, minutes=minutes),  # noqa: DTZ001
        st.integers(2021, 2030),
        st.integers(-2, 2),
        st.integers(-3, 3),
    ),
    st.builds(
        lambda week, minutes: datetime(2024, 1, 7) + timedelta(weeks=week, minutes=minutes),  # noqa: DTZ001
        st.integers(0, 200),
        st.integers(-5, 300),
    ),
)


def clock_at(now: datetime, zone: str) -> Clock:
    return read_clock(int(now.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000), zone)


def local(moment_ms: int, zone: str) -> datetime:
    return datetime.fromtimestamp(moment_ms / 1000, ZoneInfo(zone))


@pytest.mark.parametrize("words", WORDS)
@given(nows, zones, st.floats(-1, 2), st.booleans())
@example(datetime(2026, 3, 29, 12), "Asia/Beirut", 0, False)  # noqa: DTZ001  # its clock goes from midnight to one
@example(datetime(2026, 11, 1, 0, 30), "America/Havana", 0, True)  # noqa: DTZ001  # its clock has midnight twice
def test_words_name_the_right_days(words: str, now: datetime, zone: str, place: float, fold: bool) -> None:
    """Each moment of a span, and none that is not, is on a day that belongs to it: its ends, and any other within and around it."""
    clock, belongs = clock_at(now.replace(fold=fold), zone), WORDS[words]
    span = read_span(words, clock)
    end = clock.now_ms + 1 if span.end_ms is None else span.end_ms
    moments = {span.begin_ms: True, span.begin_ms - 1: False, end - 1: True}
    if span.end_ms is not None:
        moments[end] = False
    there = int(span.begin_ms + place * (end - span.begin_ms))
    moments.setdefault(there, span.begin_ms <= there < end or (span.end_ms is None and there >= end))
    today = local(clock.now_ms, zone).date()
    for moment, expected in moments.items():
        assert belongs(local(moment, zone).date(), today) is expected, (words, local(moment, zone), today)


@given(nows, zones, st.sampled_from(sorted(WORDS)))
def test_case_blanks_and_commas_mean_nothing(now: datetime, zone: str, words: str) -> None:
    """However somebody types it."""
    clock = clock_at(now, zone)
    assert read_span(f"  {words.upper().replace(' ', ',  ')} ", clock) == read_span(words, clock)


@given(nows, zones, st.integers(1, 12), st.sampled_from(["hour", "minute"]))
def test_hours(now: datetime, zone: str, count: int, unit: str) -> None:
    """They are no days: so long before this moment."""
    clock = clock_at(now, zone)
    begin = clock.now_ms - count * (HOUR if unit == "hour" else 60_000)
    assert read_span(f"{count} {unit}s ago", clock) == Span(begin, begin)
    assert read_span(f"last {count} {unit}s", clock) == read_span(f"{count} {unit}s", clock) == Span(begin, None)
    assert read_span("now", clock) == Span(clock.now_ms, clock.now_ms)


@given(nows, zones)
def test_figures_are_in_the_zone_of_the_asker(now: datetime, zone: str) -> None:
    """If a zone is given; else UTC's, while words are the machine's."""
    clock = clock_at(now, zone)
    half_past = local(read_span("2026-03-01T12:30", clock).begin_ms, zone)
    assert half_past.isoformat()[:16] == "2026-03-01T12:30"
    assert read_span("2026-03-01T12:30Z", clock).begin_ms == read_span("2026-03-01T12:30", Clock(clock.now_ms)).begin_ms
    begin = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)
    assert read_span("2026-03-01", read_clock(clock.now_ms, None)) == Span(begin, begin + DAY)


@given(nows, zones)
def test_the_day_around_a_moment(now: datetime, zone: str) -> None:
    """From its first moment to its last one."""
    clock = clock_at(now, zone)
    assert day_around(clock.now_ms, clock) == read_span("today", clock)


@contextmanager
def machine_in(zone: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@given(nows, zones, st.sampled_from(sorted(set(WORDS))))
def test_the_machines_own_zone(now: datetime, zone: str, words: str) -> None:
    """What is meant as local is as if the zone were named, also when the machine has moved since the daemon was started."""
    named = clock_at(now, zone)
    with machine_in(zone):
        there = read_clock(named.now_ms, "local")
        assert (there.today, read_span(words, there)) == (named.today, read_span(words, named))


def test_offsets_and_names() -> None:
    """An offset is one for all times; what is no zone is refused."""
    assert (
        read_span("2026-03-01", read_clock(0, "+05:30")).begin_ms == read_span("2026-02-28T18:30Z", Clock(0)).begin_ms
    )
    assert (
        read_span("2026-03-01", read_clock(0, "-23:59")).begin_ms == read_span("2026-03-01T23:59Z", Clock(0)).begin_ms
    )
    for name in (
        "",
        "Berlin",
        "Europe",
        "../etc/passwd",
        "/etc/passwd",
        "+24:00",
        "+0100",
        "x\0y",
        "CET-1CEST",
        "Europe/Berlin\n",
    ):
        with pytest.raises(ValueError, match="is not a time zone; expected a name"):
            read_clock(0, name)


@given(
    st.text(max_size=40)
    | st.sampled_from(list_known("3")).flatmap(lambda one: st.builds(one.__add__, st.text(max_size=3))),
    nows,
)
def test_any_text_is_a_time_or_refused(text: str, now: datetime) -> None:
    """No calendar goes beyond its ends in vain: a span begins before it ends, or it is a moment."""
    try:
        span = read_span(text, clock_at(now, "Europe/Berlin"))
    except ValueError:
        return
    assert span.end_ms is None or span.begin_ms <= span.end_ms


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "7", "d", "7y", "1970-13-01", "2026-13", "0000", "9999999d", "12:00", "31 february", "0 january", "next week",
        "last day", "this monday", "9999 years ago", "last 9999 years", "monday april", "last april 2026",
    ],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    """Neither are words that somebody else might understand."""
    with pytest.raises(ValueError, match=r"^$"):
        read_span(text, clock_at(datetime(2026, 11, 19), "Europe/Berlin"))  # noqa: DTZ001


@pytest.mark.parametrize("text", ["9999", "9999-12", "9999-12-31", "december 9999"])
def test_the_end_of_the_calendar(text: str) -> None:
    """What goes on until there has no end."""
    assert read_span(text, read_clock(0, "UTC")).end_ms is None


@pytest.mark.parametrize("text", list_known("3 dayz"))
def test_what_is_suggested_is_a_time(text: str) -> None:
    """Whoever takes it is understood."""
    read_span(text, clock_at(datetime(2026, 11, 19), "Europe/Berlin"))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("yesterday", "18 Nov"),
        ("last week", "9-15 Nov"),
        ("two weeks ago", "2-8 Nov"),
        ("2026-W40", "28 Sep - 4 Oct"),
        ("2026-W01", "29 Dec 2025 - 4 Jan 2026"),
        ("april", "1-30 Apr"),
        ("last november", "1-30 Nov 2025"),
        ("24 january 2024", "24 Jan 2024"),
        ("last year", "1 Jan - 31 Dec 2025"),
        ("last 3 days", "from 16 Nov"),
        ("last 24 hours", "from 18 Nov"),
        ("12h", "19 Nov"),
    ],
)
def test_how_people_read_it(words: str, shown: str) -> None:
    """As few figures as say it."""
    clock = clock_at(datetime(2026, 11, 19, 12, 30), "Europe/Berlin")  # noqa: DTZ001
    assert describe(None, read_span("monday", clock).begin_ms, clock) == "until 15 Nov"
    assert describe(*read_span(words, clock), clock).replace("\N{EN DASH}", "-") == shown


@given(nows, zones, st.sampled_from(sorted(WORDS)))
def test_it_names_the_first_and_the_last_day(now: datetime, zone: str, words: str) -> None:
    """Both are in the span, and the days beside them are not."""
    clock = clock_at(now, zone)
    span = read_span(words, clock)
    assume(span.end_ms is not None)
    assert span.end_ms is not None
    first, last = local(span.begin_ms, zone), local(span.end_ms - 1, zone)
    shown = describe(*span, clock).replace("\N{EN DASH}", " ").split()
    assert (shown[0], str(last.day) in shown) == (str(first.day), True)
