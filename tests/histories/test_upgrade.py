"""An index of an older schema becomes one of today's, wherever the daemon is killed on the way."""

import shutil
from pathlib import Path

import pytest

from sesamed.store.index import older_indexes
from tests.support.older import carry_over, holds_golden, made, open_index
from tests.support.state_machines import is_night


def test_a_crash_between_any_two_steps_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is killed after each step, started again, and ends what it began."""
    monkeypatch.setattr("sesamed.store.writing.takeover.RECORDS_AT_ONCE", 2)
    database = made(tmp_path / "index.sqlite")
    index = open_index(database)
    steps = 0
    for steps, _ in enumerate(carry_over(database, index), 1):
        if steps % 3 and not is_night():
            continue
        killed = tmp_path / f"killed-{steps}"
        killed.mkdir()
        for path in [database, f"{database}-wal", *older_indexes(database)]:
            shutil.copy(path, killed)
        again = open_index(str(killed / "index.sqlite"))
        for _ in carry_over(again.path, again):
            pass
        holds_golden(again)
        assert older_indexes(again.path) == []
        again.close()
    assert steps > 20
    index.close()
