"""Times as clients write them: ISO dates and times, or how long ago. Pure; the clock is handed in."""

import re
from datetime import UTC, datetime

from sesamed.errors import ParamsError

UNIT_MS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "m": 30 * 86_400_000}
AGO = re.compile(r"([0-9]{1,6})([hdwm])")


def milliseconds(text: str, name: str, now_ms: int) -> int:
    """The time that `12h`, `7d`, `2w`, `1m`, `2026-01-31` or an ISO time means; without a zone it is UTC."""
    if ago := AGO.fullmatch(text.strip()):
        return now_ms - int(ago[1]) * UNIT_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        expected = "an ISO date or time (2026-01-31, 2026-01-31T12:00:00Z), or 12h, 7d, 2w, 1m ago"
        raise ParamsError(f"{name}: {text[:64]!r} is no time; expected {expected}") from None
