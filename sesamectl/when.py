"""A person's dates and times, in local time, as the wire wants them. Pure but for the time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime


def utc(text: str) -> str:
    """ISO in UTC; a span like `7d` stays as it is. Raises ValueError for anything else."""
    if re.fullmatch(r"\d+[hdwm]", text):
        return text
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is neither a date or time (2025-12-15, 2025-12-15T18:30) nor a span (12h, 7d, 2w, 1m)"
        ) from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
