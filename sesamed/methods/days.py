"""Days, weeks, months and years as people name them: `yesterday`, `last week`, `april`, `3 days ago`, `2026-04`. A week begins on Monday.
Pure.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import partial
from typing import NamedTuple

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
NUMBERS = {"a": 1, "an": 1} | {
    name: number
    for number, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
}
FRIDAY = 4
LEAP_YEARS = 8  # may lie between two of them, at the end of a century


class Days(NamedTuple):
    """From the first day until before `end`; without one they are still going on."""

    first: date
    end: date | None


Read = Callable[[re.Match[str], date], Days]


def normalize(text: str) -> str:
    """In lower case, with single blanks, and without commas."""
    return " ".join(text.lower().replace(",", " ").split())


def read_words(words: str, today: date) -> Days | None:
    """The days that words name; None if they name none. Of weekdays, months, and days without a year, those are meant that began last;
    with `last` before it the weekday before today, and the month that is over. Raises ValueError or OverflowError where no calendar has
    them."""
    for pattern, read in READERS:
        if found := pattern.fullmatch(words):
            return read(found, today)
    return None


def read_figures(words: str) -> Days | None:
    """The day, week, month or year that figures name. Raises ValueError where no calendar has it."""
    if found := re.fullmatch(r"([0-9]{4})(?:-([0-9]{2}))?", words):
        return _month(int(found[1]), int(found[2])) if found[2] else _year(int(found[1]))
    if found := re.fullmatch(r"([0-9]{4})-?w([0-9]{2})", words):
        return _week(date.fromisocalendar(int(found[1]), int(found[2]), 1))
    try:
        return one_day(date.fromisoformat(words.upper()))
    except ValueError:
        return None


def read_number(text: str) -> int:
    """A number, in figures or as a word."""
    return NUMBERS.get(text) or int(text)


# -- days, weeks, months, years


def one_day(day: date) -> Days:
    """This day alone."""
    return Days(day, _later(day, 1))


def _week(monday: date) -> Days:
    return Days(monday, _later(monday, 7))


def _month(year: int, month: int) -> Days:
    return Days(date(year, month, 1), _later(date(year, month, monthrange(year, month)[1]), 1))


def _year(year: int) -> Days:
    return Days(date(year, 1, 1), _later(date(year, 12, 31), 1))


def _later(day: date, days: int) -> date | None:
    try:
        return day + timedelta(days)
    except OverflowError:  # beyond the calendar's last day
        return None


def _months_before(day: date, months: int) -> date:
    """The same day of an earlier month, or its last one."""
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


# -- what the patterns mean


def _read_near(back: int, _: re.Match[str], today: date) -> Days:
    return one_day(today - timedelta(back))


def _read_weekday(found: re.Match[str], today: date) -> Days:
    back = (today.weekday() - _index(WEEKDAYS, found["weekday"])) % 7
    return one_day(today - timedelta(7 if found["last"] and not back else back))


def _read_weekend(found: re.Match[str], today: date) -> Days:
    saturday = today - timedelta((today.weekday() - FRIDAY - 1) % 7)
    if found["last"] and today.weekday() > FRIDAY:  # this one is not over
        saturday -= timedelta(7)
    return Days(saturday, _later(saturday, 2))


def _read_month(found: re.Match[str], today: date) -> Days:
    month = _index(MONTHS, found["month"]) + 1
    has_begun = month < today.month or (month == today.month and not found["last"])
    return _month(today.year if has_begun else today.year - 1, month)


def _read_month_of_year(found: re.Match[str], _: date) -> Days:
    return _month(int(found["year"]), _index(MONTHS, found["month"]) + 1)


def _read_day(found: re.Match[str], today: date) -> Days:
    month, day = _index(MONTHS, found["month"]) + 1, int(found["day"])
    if found["year"]:
        return one_day(date(int(found["year"]), month, day))
    for year in range(today.year, today.year - LEAP_YEARS - 1, -1):
        if day <= monthrange(year, month)[1] and date(year, month, day) <= today:
            return one_day(date(year, month, day))
    raise ValueError(found[0])


def _read_this_or_last(found: re.Match[str], today: date) -> Days:
    return _whole(found["unit"], 0 if found["which"] == "this" else 1, today)


def _read_ago(found: re.Match[str], today: date) -> Days:
    return _whole(found["unit"], read_number(found["number"]), today)


def _whole(unit: str, back: int, today: date) -> Days:
    """The day, week, month or year that was so many of them ago."""
    if unit == "day":
        return one_day(today - timedelta(back))
    if unit == "week":
        return _week(today - timedelta(today.weekday() + 7 * back))
    if unit == "month":
        month = _months_before(today.replace(day=1), back)
        return _month(month.year, month.month)
    return _year(today.year - back)


def _read_past(found: re.Match[str], today: date) -> Days:
    """From the day that was so long ago, and still going on."""
    count, unit = read_number(found["number"] or "one"), found["unit"]
    if unit in ("day", "week"):
        return Days(today - timedelta(count * (7 if unit == "week" else 1)), None)
    return Days(_months_before(today, count * (12 if unit == "year" else 1)), None)


def _index(names: Sequence[str], beginning: str) -> int:
    return next(index for index, name in enumerate(names) if name.startswith(beginning[:3]))


def _any_of(names: Sequence[str]) -> str:
    return "|".join(f"{name}|{name[:3]}" for name in names)


A_NUMBER = rf"(?P<number>[0-9]{{1,4}}|{'|'.join(NUMBERS)})"
A_WEEKDAY = rf"(?P<weekday>{_any_of(WEEKDAYS)})"
A_MONTH = rf"(?P<month>{_any_of(MONTHS)}|sept)"
A_YEAR = r"(?P<year>[0-9]{4})"
A_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
A_UNIT = r"(?P<unit>day|week|month|year)"
READERS: tuple[tuple[re.Pattern[str], Read], ...] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        ("today", partial(_read_near, 0)),
        ("yesterday", partial(_read_near, 1)),
        ("(?:the )?day before yesterday", partial(_read_near, 2)),
        (rf"(?P<last>last )?{A_WEEKDAY}", _read_weekday),
        (r"(?:(?P<last>last )|this |the )?weekend", _read_weekend),
        (rf"(?P<last>last )?{A_MONTH}", _read_month),
        (rf"{A_MONTH} {A_YEAR}", _read_month_of_year),
        (rf"(?:the )?{A_DAY} (?:of )?{A_MONTH}(?: {A_YEAR})?", _read_day),
        (rf"{A_MONTH} {A_DAY}(?: {A_YEAR})?", _read_day),
        (r"(?P<which>this|last) (?P<unit>week|month|year)", _read_this_or_last),
        (rf"{A_NUMBER} {A_UNIT}s? ago", _read_ago),
        (rf"(?:the )?(?:last|past) {A_NUMBER} {A_UNIT}s?", _read_past),
        (rf"(?:the last|(?:the )?past)(?P<number>) {A_UNIT}", _read_past),
        (rf"{A_NUMBER} {A_UNIT}s?", _read_past),
    )
)
