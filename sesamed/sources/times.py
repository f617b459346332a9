"""Agents' times as UTC milliseconds: ISO 8601, milliseconds as a number, or nonsense. Never raises."""

from datetime import UTC, datetime

EARLIEST_MS = 631_152_000_000  # 1990: earlier, and it is a count of seconds or a zero
LATEST_MS = 7_258_118_400_000  # 2200

Time = str | int | float | None


def millis(value: Time) -> int | None:
    """Milliseconds since 1970, or None if it cannot be the time of a session."""
    if isinstance(value, str):
        value = _parse(value)
    if value is None or not EARLIEST_MS <= value <= LATEST_MS:  # False for NaN, too
        return None
    return int(value)


def _parse(text: str) -> float | None:
    try:
        if text.isascii() and text.isdigit():
            return int(text[:20])
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
