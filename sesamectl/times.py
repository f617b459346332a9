"""Dates and times as people type them, in local time -> as the wire wants them. Pure but for the time zone."""

import re
from datetime import UTC, datetime


def parse_time(text: str) -> str:
    """The time as ISO in UTC; a span like `7d` as it is. Raises ValueError for anything else."""
    if span := re.fullmatch(r"([0-9]+)(min|h|d|w|mo|m)", text):
        if span[2] == "m":
            raise ValueError(f"{text}: write {span[1]}min or {span[1]}mo")
        return text
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a date (2025-12-15), a time (2025-12-15T18:30) or a span (30min, 12h, 7d, 2w, 1mo)"
        ) from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
