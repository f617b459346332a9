"""Times as answers and our own files give them: UTC with milliseconds."""

from datetime import UTC, datetime

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def iso(ms: int) -> str:
    """A time as text. What no calendar holds is the nearest that one does."""
    ms = min(max(ms, FIRST_MS), LAST_MS)
    return f"{datetime.fromtimestamp(ms // 1000, UTC).isoformat()[:19]}.{ms % 1000:03d}Z"  # strftime takes five times as long


def iso_or_none(ms: int | None) -> str | None:
    """The same of a time that may not be known."""
    return None if ms is None else iso(ms)
