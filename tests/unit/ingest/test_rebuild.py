"""A new index from the old one: what can't be read any more is carried over whole."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.ingest.look import Ingest
from sesamed.store.writing.replay import Replay
from tests.support.dump import dumped
from tests.support.history import History, look_until_done, same
from tests.unit.ingest.test_order import NAMES, written


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def rebuilt(history: History, *, dropped: bool = False) -> Ingest:
    """As `index --full` does it: what is there is read, what is not is carried over."""
    new = history.opened(f"new-{history.number()}")
    look_until_done(new, [item.target for item in history.sweep.due(new)])
    for _ in Replay(history.ingest.writer, new.writer, lambda path, gone: not (gone and dropped)).run():
        pass
    return new


@pytest.mark.parametrize("gone", [(name,) for name in NAMES] + [NAMES, ("p", "copy"), ("early", "late", "child")])
def test_gone_files_are_carried_over_whole(history: History, gone: tuple[str, ...]) -> None:
    """With what they share with those that are there, and with each other."""
    written(history, NAMES)
    history.look_at_everything()
    for name in gone:
        (history.roots[0] / f"{name}.jsonl").unlink()
    history.look_at_everything()
    new = rebuilt(history)
    same(dumped(new.writer.connection), history.dump())
    again = Ingest(new.writer, history.ingest.decoder)
    assert not history.sweep.due(again)
    new.writer.close()


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_a_gone_fork_is_carried_over_with_its_own_results(
    history: History, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though another one's stands: the parent may be dropped later. However many records a step takes."""
    monkeypatch.setattr("sesamed.store.writing.replay.RECORDS_AT_ONCE", at_once)
    written(history, NAMES)
    history.look_at_everything()
    for name in ("early", "child"):
        (history.roots[0] / f"{name}.jsonl").unlink()
    history.look_at_everything()
    new = rebuilt(history)
    paths = [os.fsencode(history.roots[0] / f"{name}.jsonl") for name in ("p", "copy", "late", "child")]
    new.drop(paths)
    history.ingest.drop(paths)
    same(dumped(new.writer.connection), history.dump())
    assert "done differently" in str(history.dump())
    new.writer.close()


def test_gone_files_can_be_left_behind(history: History) -> None:
    """`--drop-gone`."""
    path, _ = written(history, ("p", "early"))
    history.look_at_everything()
    path.unlink()
    history.look_at_everything()
    new = rebuilt(history, dropped=True)
    assert sorted(dumped(new.writer.connection)["sessions"]) == ["pi:early"]
    new.writer.close()


def test_what_cannot_be_read_now_is_carried_over_and_not_gone(history: History) -> None:
    """An unmounted root; its files go on where they were when it returns."""
    written(history, NAMES)
    other = history.roots[1] / "z.jsonl"
    Path(history.roots[0] / "p.jsonl").rename(other)
    history.look_at_everything()
    before = history.dump()
    history.away = history.roots[1]
    history.away.rename(history.away.with_suffix(".away"))
    new = rebuilt(history)
    same(dumped(new.writer.connection), before)
    history.ingest = Ingest(new.writer, history.ingest.decoder)
    history.away.with_suffix(".away").rename(history.away)
    history.away = None
    assert not history.sweep.due(history.ingest)
