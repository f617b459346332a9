"""A daemon whose loop stands still ends; one that moves, or was stopped for a while, does not."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from sesamed.standstill import FAILED, TICKS, Standstill


class EndedError(Exception):
    """The process would have."""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    lines: list[bytes] = []

    def end(code: int) -> None:
        assert code == FAILED
        raise EndedError

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(os, "write", lambda _, line: lines.append(line))
    return lines


def watch(monkeypatch: pytest.MonkeyPatch, standstill: Standstill, ticks: Iterator[Callable[[], object]]) -> None:
    """Watch for as long as there are ticks, in each of which something happens."""

    def sleep(_: float) -> None:
        tick = next(ticks, None)
        if tick is None:
            standstill.__exit__(None, None, None)
        else:
            tick()

    monkeypatch.setattr(time, "sleep", sleep)
    standstill._watch()


def nothing() -> None:
    """The loop gives no sign."""


def too_little_memory() -> None:
    raise MemoryError


def test_a_loop_that_gives_no_sign(monkeypatch: pytest.MonkeyPatch, said: list[bytes]) -> None:
    """It is waited for, and too little memory keeps nobody from noticing."""
    ticks = iter([nothing, too_little_memory] * TICKS)
    with pytest.raises(EndedError):
        watch(monkeypatch, Standstill(), ticks)
    assert len(list(ticks)) == 1
    assert said == [b"sesamed: nothing has moved for 60 s; ending, so that another one can start\n"]


def test_a_loop_that_moves(monkeypatch: pytest.MonkeyPatch, said: list[bytes]) -> None:
    """A sign now and then is enough."""
    standstill = Standstill()

    def move() -> None:
        standstill._moves += 1

    watch(monkeypatch, standstill, iter(([nothing] * (TICKS - 1) + [move]) * 3))
    assert said == []
