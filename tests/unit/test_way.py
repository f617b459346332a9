"""A load makes way for questions, for so long, and unless somebody waits for it."""

import time
from collections.abc import Callable

import pytest

from sesamed.way import EVERY, LEAST_S, LOOK_S, MOST_S, SHARE, Way


class Clock:
    """Time that passes only where somebody sleeps, or works."""

    def __init__(self) -> None:
        self.now_s, self.slept_s = 100.0, 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept_s += seconds
        self.on_sleep()

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


def never() -> bool:
    return False


def test_stands_still_until_all_are_answered(clock: Clock) -> None:
    """A row comes when the question is answered, and at once when none is."""
    asked, slept = list[str](), list[float]()
    way, clock.on_sleep = Way(lambda: bool(asked)), lambda: None if clock.slept_s < 0.05 else asked.clear()
    with way.open(never):
        for row in way.between(range(3 * EVERY)):
            slept.append(clock.slept_s)
            if row == EVERY // 2:  # it is noticed soon after
                asked.append("a question")
    assert len(slept) == 3 * EVERY
    assert slept[:EVERY] == [0.0] * EVERY
    assert slept[EVERY:] == [pytest.approx(0.05, abs=LOOK_S)] * 2 * EVERY


def test_only_a_backlog_makes_way(clock: Clock) -> None:
    """What somebody just wrote is not held up, nor what is no load at all."""
    way = Way(lambda: True)
    way.make()
    with way.open(never):
        pass
    way.make()
    assert list(way.between([1, 2])) == [1, 2]
    assert clock.slept_s == 0


def test_goes_on_as_soon_as_somebody_waits_for_it(clock: Clock) -> None:
    """An append that comes while it stands still gets its commit; until then nothing holds that up again."""
    waiting = list[str]()
    clock.on_sleep = lambda: waiting.append("an append")
    way = Way(lambda: True)
    with way.open(lambda: bool(waiting)):
        way.make()
        once = clock.slept_s
        way.make()
    assert 0 < once == clock.slept_s < MOST_S


@pytest.mark.parametrize("work_s", [0.0001, 0.003, 0.05, 1.0])
def test_stands_still_for_a_part_of_the_time(clock: Clock, work_s: float) -> None:
    """Whoever asks without a pause takes a fifth of the time from a load, and no more; and a dear question does not stop it."""
    way, worked_s, longest_s = Way(lambda: True), 0.0, 0.0
    with way.open(never):
        for _ in range(2000):
            before_s = clock.slept_s
            way.make()
            longest_s = max(longest_s, clock.slept_s - before_s)
            clock.now_s += work_s
            worked_s += work_s
    assert longest_s == pytest.approx(MOST_S)
    assert clock.slept_s <= MOST_S + SHARE * worked_s + 1e-6
    assert clock.slept_s >= min(SHARE * worked_s - LEAST_S, 2000 * MOST_S)
