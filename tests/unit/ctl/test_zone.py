"""In which time zone a process is, as the daemon takes it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from sesamectl.zone import find_zone, say_zone
from sesamed.methods.times import read_clock, read_span

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _own_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()
    time.tzset()


def set_zone(monkeypatch: pytest.MonkeyPatch, zone: str | None) -> None:
    if zone is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", zone)
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        (None, "local"),
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("", "+00:00"),
        ("<+0530>-5:30", "+05:30"),
        ("<-0930>9:30", "-09:30"),
        ("EST5", "-05:00"),
        ("Europe", "+00:00"),
        ("../etc/passwd", "+00:00"),
        ("/etc/passwd", "+00:00"),
    ],
)
def test_zones(monkeypatch: pytest.MonkeyPatch, zone: str | None, said: str) -> None:
    """By name, if it has one, else by how far it is ahead; whatever it is, the daemon takes it, and means the same day."""
    set_zone(monkeypatch, zone)
    assert find_zone() == said
    now = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
    begin = read_span("today", read_clock(now, said)).begin_ms
    assert begin == int(datetime(2026, 3, 1).timestamp() * 1000)  # noqa: DTZ001  # here
    assert begin % (HOUR // 2) == 0


def test_only_who_says_when_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other questions have no use for it."""
    set_zone(monkeypatch, "Asia/Tokyo")
    assert say_zone({"query": "x", "timeWords": False}) == {"query": "x", "timeWords": False}
    for params in ({"on": "monday"}, {"after": "7d"}, {"before": "7d"}, {"until": "7d"}, {"timeWords": True}):
        assert say_zone(params) == {**params, "timeZone": "Asia/Tokyo"}
