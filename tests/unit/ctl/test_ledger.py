"""What runs of `remember` leave for the next one."""

import json
import os
import threading
from pathlib import Path

import pytest

from sesamectl.errors import RefusedError
from sesamectl.memory.ledger import DAY_S, FILE, HOUR_S, LOCK, LONGEST_S, MOST, Ledger

NOON = 1_800_000_000.0


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Ledger:
    return Ledger(str(tmp_path / "data"), clock)


def test_what_came_to_nothing_waits_longer_each_time(ledger: Ledger, clock: Clock) -> None:
    """Twice as long, up to a month; what was remembered begins anew."""
    for waited in (HOUR_S, 2 * HOUR_S, 4 * HOUR_S):
        ledger.fail("a", HOUR_S)
        clock.now += waited - 1
        assert ledger.list_waiting() == ["a"]
        clock.now += 1
        assert ledger.list_waiting() == []
    ledger.succeed("a")
    ledger.fail("a", HOUR_S)
    clock.now += HOUR_S
    assert ledger.list_waiting() == []
    for _ in range(100):
        ledger.fail("a", DAY_S)
    clock.now += LONGEST_S
    assert ledger.list_waiting() == []


def test_a_clock_that_was_wrong_blocks_nothing(ledger: Ledger, clock: Clock) -> None:
    """What was written in the future counts for nothing."""
    ledger.fail("a", DAY_S)
    clock.now -= 365 * DAY_S
    assert ledger.list_waiting() == []


def test_it_does_not_grow(ledger: Ledger, clock: Clock) -> None:
    """Those that wait longest are kept; what was over long ago goes."""
    for number in range(MOST + 20):
        clock.now += 1
        ledger.fail(f"s{number}", DAY_S)
    assert len(ledger.list_waiting()) == MOST
    assert "s19" not in ledger.list_waiting()
    clock.now += 2 * LONGEST_S
    ledger.fail("last", DAY_S)
    assert list(json.loads(Path(ledger._path).read_text())["failed"]) == ["last"]


def test_a_day_has_its_count(ledger: Ledger, clock: Clock) -> None:
    """It begins with the day, where the person is."""
    assert ledger.count_today() == 0
    ledger.spend(300)
    ledger.spend(20)
    assert ledger.count_today() == 320
    clock.now += DAY_S
    assert ledger.count_today() == 0
    ledger.spend(5)
    assert ledger.count_today() == 5


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"failed": 3}', '{"failed": {"a": {}}, "day": "", "tokens": 1}', "[" * 100_000, "\xff",
             '{"failed": {"a": {"times": Infinity, "until": 1}}, "day": "", "tokens": 1}'],
)  # fmt: skip
def test_a_file_that_says_nothing_is_written_anew(ledger: Ledger, tmp_path: Path, text: str) -> None:
    """Whoever broke it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).write_bytes(text.encode("latin-1"))
    assert (ledger.list_waiting(), ledger.count_today()) == ([], 0)
    ledger.fail("a", DAY_S)
    assert ledger.list_waiting() == ["a"]


def test_it_is_private_and_nothing_is_left_beside_it(ledger: Ledger, tmp_path: Path) -> None:
    """As all that we keep."""
    ledger.spend(1)
    with ledger.hold():
        names = {name: (tmp_path / "data" / name).stat().st_mode & 0o777 for name in os.listdir(tmp_path / "data")}
    assert names == {FILE: 0o600, LOCK: 0o600}


def test_what_several_note_at_once_is_not_lost(ledger: Ledger) -> None:
    """Each change is one of the whole."""

    def spend() -> None:
        for _ in range(20):
            ledger.spend(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.count_today() == 80


def test_one_run_at_a_time(ledger: Ledger) -> None:
    """The second is told who is at it; afterwards it may."""
    with ledger.hold():
        with pytest.raises(RefusedError, match=rf"another `sesamectl remember --due` is running \(pid {os.getpid()}\)"):
            ledger.hold().__enter__()
        ledger.spend(1)
    with ledger.hold():
        pass
