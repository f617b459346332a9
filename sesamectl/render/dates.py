"""Times for people: in local time, and how long ago it was while that is easier to grasp."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
else:
    try:
        from _datetime import datetime  # `datetime` itself costs a search 3 ms
    except ImportError:  # another Python than CPython
        from datetime import datetime

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86_400, 604_800


def minute(moment: str) -> str:
    """A time as local date and time of day; what is no time as it is."""
    seconds = _seconds(moment)
    return moment if seconds is None else _format(seconds)


def ago(moment: str, now: float) -> str:
    """How long ago a time was, in a week; then, or if it is still to come, its date and time of day."""
    seconds = _seconds(moment)
    if seconds is None:
        return moment
    passed = int(now - seconds)
    if not 0 <= passed < WEEK:
        return _format(seconds)
    if passed < MINUTE:
        return "just now"
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if passed >= unit:
            return f"{passed // unit} {name} ago"
    raise AssertionError


def _seconds(moment: str) -> float | None:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return None


def _format(seconds: float) -> str:
    try:
        year, month, day, hour, minute, *_ = time.localtime(seconds)
    except (ValueError, OverflowError, OSError):  # no calendar of this system has it
        return "?"
    return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}"
