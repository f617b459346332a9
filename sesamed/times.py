"""Times as answers and the daemon's own files give them: UTC with milliseconds."""

from datetime import UTC, datetime

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def iso(ms: int) -> str:
    """A time as text; outside of what a calendar can express, the nearest that it can."""
    ms = min(max(ms, FIRST_MS), LAST_MS)
    return f"{datetime.fromtimestamp(ms // 1000, UTC).isoformat()[:19]}.{ms % 1000:03d}Z"  # strftime takes five times as long


def iso_or_none(ms: int | None) -> str | None:
    """A time as text, or None if there is none."""
    return None if ms is None else iso(ms)
