"""Times as agents write them."""

import pytest

from sesamed.sources.records import Time, millis


@pytest.mark.parametrize(
    ("value", "time_ms"),
    [
        (1767323045006, 1767323045006),
        (1767323045006.7, 1767323045006),
        ("1767323045006", 1767323045006),
        ("2026-01-02T03:04:05.006Z", 1767323045006),
        ("2026-01-02T04:04:05.006+01:00", 1767323045006),
        ("2026-01-02T03:04:05.006", 1767323045006),
    ],
)
def test_a_time_is_utc_milliseconds(value: Time, time_ms: int) -> None:
    """However it is written; without a zone it is UTC."""
    assert millis(value) == time_ms


@pytest.mark.fault(31, 99)
@pytest.mark.parametrize(
    "value",
    [
        None, 0, -1, 1767323045, 10**30, 1e300, float("nan"), float("inf"), "", "soon", "9" * 5000, "²",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:00", "1989-12-31T00:00:00Z", "2201-01-01T00:00:00Z", "+010000-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_what_cannot_be_a_time_is_none(value: Time) -> None:
    """Before 1990, after 2200, or nonsense."""
    assert millis(value) is None
