"""Times as people write them, and what they mean for whoever asks: a date, `7d`, `yesterday`, `last week`. Days begin when they begin in
the asker's time zone. Pure, but for the machine's own zone and its list of others.
"""

import re
import time
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sesamed.methods.days import (
    A_NUMBER,
    MONTHS,
    WEEKDAYS,
    Days,
    normalize,
    one_day,
    read_figures,
    read_number,
    read_words,
)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
UNIT_MS = {
    "min": MINUTE_MS, "minute": MINUTE_MS, "h": HOUR_MS, "hour": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS, "mo": 30 * DAY_MS,
}  # fmt: skip
BACK = re.compile(r"([0-9]{1,6})(min|h|d|w|mo|m)")
HOURS_AGO = re.compile(rf"{A_NUMBER} (?P<unit>hour|minute)s? ago")
PAST_HOURS = re.compile(rf"(?:(?:the )?(?:last|past) )?{A_NUMBER} (?P<unit>hour|minute)s?")
OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3]):([0-5][0-9])")
LOCAL = "local"
DASH = "\N{EN DASH}"
MAX_SHOWN = 64  # characters of what was asked for
KNOWN = (
    "now", "today", "yesterday", "day before yesterday", "this week", "last week", "this month", "last month", "this year", "last year",
    "last weekend", *WEEKDAYS, *MONTHS, *(f"last {name}" for name in (*WEEKDAYS, *MONTHS)),
)  # fmt: skip
COUNTED = tuple(
    form.format(unit) for form in ("{{}} {}s ago", "last {{}} {}s") for unit in ("hour", "day", "week", "month", "year")
)


class Clock(NamedTuple):
    """When somebody asks, and where: in which time zone days in words are meant, and in which dates and times in figures. None is the
    machine's own."""

    now_ms: int
    zone: tzinfo | None = None
    of_figures: tzinfo | None = UTC

    @property
    def today(self) -> date:
        """The day that it is there."""
        return self.day_of(self.now_ms)

    def day_of(self, moment_ms: int) -> date:
        """The day in which a moment lies there."""
        return datetime.fromtimestamp(moment_ms / 1000, self.zone).date()


class Span(NamedTuple):
    """From its beginning until before its end, which one that is still going on has not. A moment ends where it begins."""

    begin_ms: int
    end_ms: int | None


def read_clock(now_ms: int, zone_name: str | None) -> Clock:
    """The clock of somebody who names a time zone, gives an offset, or says `local`. For somebody who says nothing figures are UTC's, and
    words the machine's. Raises ValueError."""
    if zone_name is None or zone_name == LOCAL:
        time.tzset()  # machines travel
        return Clock(now_ms) if zone_name is None else Clock(now_ms, None, None)
    zone = _read_zone(zone_name)
    return Clock(now_ms, zone, zone)


def _read_zone(name: str) -> tzinfo:
    if found := OFFSET.fullmatch(name):
        ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(ahead if found[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # none is called so, nothing can be, or it is a directory of some
        shown = f"{name[:MAX_SHOWN]!r} is not a time zone"
        raise ValueError(f"{shown}; expected a name (Europe/Berlin), an offset (+02:00), or `local`") from None


def read_span(text: str, clock: Clock) -> Span:
    """What a text means. Raises ValueError with what is to be done about it, or without."""
    words = normalize(text)
    if (back := BACK.fullmatch(words)) and back[2] == "m":
        raise ValueError(f"{words}: write {back[1]}min or {back[1]}mo")
    try:
        if (days := read_words(words, clock.today)) is not None:
            return to_span(days, clock.zone)
        if (days := read_figures(words)) is not None:
            return to_span(days, clock.of_figures)
        return _read_moment(words, text.strip(), clock)
    except (ValueError, OverflowError, OSError):  # the last two, where no calendar has it
        raise ValueError from None


def list_known(text: str) -> tuple[str, ...]:
    """Words that mean a time, with the first number of this text where they take one."""
    counts = [word for word in normalize(text).split() if re.fullmatch("[0-9]{1,4}", word)][:1]
    return (*KNOWN, *(form.format(count) for count in counts for form in COUNTED))


def _read_moment(words: str, text: str, clock: Clock) -> Span:
    if words == "now":
        begin = clock.now_ms
    elif back := BACK.fullmatch(words):
        begin = clock.now_ms - int(back[1]) * UNIT_MS[back[2]]
    elif found := HOURS_AGO.fullmatch(words) or PAST_HOURS.fullmatch(words):
        begin = clock.now_ms - read_number(found["number"]) * UNIT_MS[found["unit"]]
        return Span(begin, begin if words.endswith("ago") else None)
    else:
        moment = datetime.fromisoformat(text)
        begin = int((moment if moment.tzinfo else moment.replace(tzinfo=clock.of_figures)).timestamp() * 1000)
    return Span(begin, begin)


def to_span(days: Days, zone: tzinfo | None) -> Span:
    """When days begin and end in a time zone."""
    return Span(_begin_ms(days.first, zone), None if days.end is None else _begin_ms(days.end, zone))


def day_around(moment_ms: int, clock: Clock) -> Span:
    """The whole day in which a moment lies."""
    return to_span(one_day(clock.day_of(moment_ms)), clock.zone)


def _begin_ms(day: date, zone: tzinfo | None) -> int:
    """When a day begins: where midnight comes twice, the first time; where it is left out, with what comes instead."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


# -- for people


def describe(begin_ms: int | None, end_ms: int | None, clock: Clock) -> str:
    """The days from when on and before when, as `9-15 Nov`; with the year if that is another one."""
    today = clock.today
    first = None if begin_ms is None else clock.day_of(begin_ms)
    last = None if end_ms is None else clock.day_of(end_ms if end_ms == begin_ms else end_ms - 1)
    if first is None or last is None:
        ends = (("from", first), ("until", last))
        return " ".join(f"{name} {_date(day, today)}" for name, day in ends if day is not None)
    if first == last:
        return _date(first, today)
    if first.year != last.year:
        return f"{_date(first, date.min)} {DASH} {_date(last, date.min)}"
    if first.month != last.month:
        return f"{first.day} {_month(first)} {DASH} {_date(last, today)}"
    return f"{first.day}{DASH}{_date(last, today)}"


def _date(day: date, today: date) -> str:
    return f"{day.day} {_month(day)}" + (f" {day.year}" if day.year != today.year else "")


def _month(day: date) -> str:
    return MONTHS[day.month - 1][:3].title()
