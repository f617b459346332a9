"""What is done from time to time is done at the same moments."""

import time

import pytest

from sesamed.beat import until_next


@pytest.mark.parametrize("now", [0.0, 0.3, 1.0, 4.999999, 1234567.75])
def test_periods_meet(now: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes every second, comes with whatever comes every fifth; nothing waits longer than its period, or not at all."""
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ends = {period: now + until_next(period) for period in (0.5, 1.0, 2.0, 5.0)}
    assert all(0 < until_next(period) <= period for period in ends)
    assert all(end == pytest.approx(round(end / period) * period) for period, end in ends.items())
