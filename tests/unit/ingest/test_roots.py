"""How roots are watched, and what is done where events don't work."""

import errno
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sesamed.ingest import indexer as ingest
from sesamed.ingest import roots as module
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.roots import RootWatcher, Wanted
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root
from tests.support.indexing import running, states_of, write
from tests.support.watching import StandIn

SWEEP_S = 3600.0


class Desk:
    """A watcher of an indexer's roots, and the stand-in that it watches with."""

    def __init__(self, indexer: Indexer, wanted: Wanted = "events", polled: str | None = None) -> None:
        self.made: list[StandIn] = []
        self.indexer = indexer
        self.watcher = RootWatcher(indexer, self._make, wanted, SWEEP_S, lambda _: polled)

    def _make(
        self, post: Callable[[str], None], post_tree: Callable[[str], None], enters: Callable[[str], bool]
    ) -> StandIn:
        self.made.append(StandIn(post, post_tree, enters))
        return self.made[-1]

    @property
    def watch(self) -> StandIn:
        """What it watches with."""
        (watch,) = self.made
        return watch

    @property
    def root(self) -> Root:
        """The only root."""
        (root,) = self.indexer.sweep.roots
        return root

    def codes(self) -> list[str]:
        """Why the root is not watched."""
        return [warning.code for warning in self.watcher.warnings(self.root)]


def test_a_root_is_watched_when_it_comes(indexer: Indexer, root: Path) -> None:
    """And once; while it is away it is missing, and when its watch has died it is watched again."""
    desk = Desk(indexer)
    root.rmdir()
    assert desk.watcher._look() == []
    assert (desk.watcher.mode(desk.root), desk.watch.watched) == ("missing", [])
    root.mkdir()
    assert desk.watcher._look() == [str(root)]
    assert (desk.watcher.mode(desk.root), desk.watch.watched) == ("events", [str(root)])
    assert desk.watcher._look() == []
    desk.watch.dead.add(str(root))
    assert desk.watcher._look() == [str(root)]
    assert desk.codes() == []


def test_where_roots_are_is_not_looked_for_all_the_time(indexer: Indexer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice a second, for each of a hundred projects: only of those that are not where they were."""
    desk, looked_for = Desk(indexer), list[str]()
    realpath = os.path.realpath

    def look_for(path: str) -> str:
        looked_for.append(path)
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", look_for)
    indexer.sweep.roots[0].real = None
    desk.watcher._look()
    assert looked_for == [desk.root.path]
    desk.watcher._look()
    assert looked_for == [desk.root.path]


def test_many_missing_roots_are_looked_for_once(
    indexer: Indexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most are missing for want of the same directory."""
    indexer.sweep.roots += [Root("pi", str(tmp_path / "none" / name / "sessions")) for name in ("one", "two", "three")]
    desk, looked_for = Desk(indexer), list[str]()
    desk.watcher._look()
    exists = os.path.exists

    def look_for(path: str) -> bool:
        looked_for.append(path)
        return exists(path)

    monkeypatch.setattr(os.path, "exists", look_for)
    assert desk.watcher._look() == []
    assert looked_for == [str(tmp_path / "none")]
    (tmp_path / "none" / "two" / "sessions").mkdir(parents=True)
    assert desk.watcher._look() == [str(tmp_path / "none" / "two" / "sessions")]
    assert [desk.watcher.mode(root) for root in indexer.sweep.roots] == ["events", "missing", "events", "missing"]
    (tmp_path / "none").rename(tmp_path / "away")
    assert desk.watcher._look() == []
    assert [desk.watcher.mode(root) for root in indexer.sweep.roots] == ["events", "missing", "missing", "missing"]


@pytest.mark.fault(8)
def test_a_root_that_leads_elsewhere_is_looked_at(indexer: Indexer, root: Path, tmp_path: Path) -> None:
    """A link that was changed: what is there now is watched."""
    desk = Desk(indexer)
    desk.watcher._look()
    root.rmdir()
    (tmp_path / "other").mkdir()
    root.symlink_to("other")
    assert desk.watcher._look() == [str(tmp_path / "other")]
    assert desk.watch.watched == [str(root), str(tmp_path / "other")]


def test_an_event_marks_a_file_of_ours(indexer: Indexer, root: Path) -> None:
    """And no other one."""
    desk = Desk(indexer)
    desk.watcher._look()
    path = write(root, "one", "quince")
    desk.watch.post(str(root / "note.txt"))
    assert (indexer.queue.is_empty, indexer.last_event_ms) == (True, None)
    desk.watch.post(str(path))
    assert indexer.last_event_ms is not None
    (state,) = states_of(indexer.queue.take())
    assert state.target.path == os.fsencode(path)
    desk.watch.post_tree(str(root))
    assert indexer.queue.trees == {str(root)}


@pytest.mark.fault(17)
def test_a_file_system_without_events_is_polled(indexer: Indexer, root: Path) -> None:
    """It is said why, and nobody tries to watch it."""
    desk = Desk(indexer, polled="nfs4")
    desk.watcher._look()
    assert (desk.watcher.mode(desk.root), desk.codes()) == ("polling", ["remoteFilesystem"])
    assert desk.watch.watched == []
    assert desk.watcher._interval() == module.POLLING_S
    root.rmdir()
    desk.watcher._look()
    assert (desk.watcher.mode(desk.root), desk.codes()) == ("missing", [])


@pytest.mark.parametrize(
    ("wanted", "interval", "mode"),
    [("events", SWEEP_S, "events"), ("polling", module.POLLING_S, "polling"), ("off", SWEEP_S, "polling")],
)
def test_how_often_roots_are_swept(indexer: Indexer, wanted: Wanted, interval: float, mode: str) -> None:
    """Often only where there are no events, and somebody wants to know."""
    desk = Desk(indexer, wanted)
    desk.watcher._look()
    assert (desk.watcher._interval(), desk.watcher.mode(desk.root)) == (interval, mode)
    assert len(desk.made) == (wanted == "events")


@pytest.mark.parametrize(
    ("took_s", "configured_s", "interval_s"),
    [
        (0.5, 59.0, 59.0),  # somebody wants it so
        (0.05, 60.0, 60.0),
        (0.15, 60.0, 150.0),
        (0.15, 3600.0, 3600.0),
        (5.0, 60.0, module.LONGEST_S),
    ],
)
def test_with_very_many_files_sweeps_are_rarer(
    indexer: Indexer, took_s: float, configured_s: float, interval_s: float
) -> None:
    """So that they take a thousandth of a core at most; there are events meanwhile. But they try again what cannot be read."""
    desk = Desk(indexer)
    desk.watcher._sweep_s, indexer.sweep_took_s = configured_s, took_s
    desk.watcher._look()
    assert desk.watcher._interval() == pytest.approx(interval_s)
    state = indexer.states.find_or_add(Target(b"/one", "/", "pi"))
    state.trouble = "Permission denied"
    indexer.states.note(state)
    assert desk.watcher._interval() == configured_s


async def test_says_what_a_sweep_took(indexer: Indexer) -> None:
    """Of CPU, in its thread: how busy the machine is does not count."""
    await indexer.look_around()
    assert 0 < indexer.sweep_took_s < 1


@pytest.mark.fault(12)
def test_without_instances_all_roots_are_polled(indexer: Indexer) -> None:
    """The kernel's limit is for all programs of a user."""
    desk = Desk(indexer)
    desk.watch.fails = OSError(errno.EMFILE, "Too many open files")
    desk.watcher._start()
    desk.watcher._look()
    assert (desk.watcher.mode(desk.root), desk.codes()) == ("polling", ["tooFewInstances"])
    assert desk.watcher._interval() == module.POLLING_S


@pytest.mark.fault(18)
def test_without_any_events_all_roots_are_polled(indexer: Indexer) -> None:
    """As where watchdog was built without FSEvents. That has nothing to do with the kernel's limits."""
    desk = Desk(indexer)
    desk.watch.fails = OSError(errno.ENOTSUP, "watchdog was built without FSEvents")
    desk.watcher._start()
    desk.watcher._look()
    assert (desk.watcher.mode(desk.root), desk.codes()) == ("polling", ["unwatchable"])
    (warning,) = desk.watcher.warnings(desk.root)
    assert warning.message == "no file events (watchdog was built without FSEvents); polling every 5 s"


def test_a_root_that_cannot_be_watched_is_polled(indexer: Indexer, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried once. One that has just gone is no reason."""
    desk = Desk(indexer)
    desk.watch.fails = FileNotFoundError(errno.ENOENT, "No such file or directory")
    assert (desk.watcher._look(), desk.codes()) == ([], [])
    desk.watch.fails = PermissionError(errno.EACCES, "Permission denied")
    desk.watcher._look()
    assert (desk.watcher.mode(desk.root), desk.codes()) == ("polling", ["unwatchable"])
    assert "Permission denied" in caplog.text
    desk.watch.fails = None
    desk.watcher._look()
    assert desk.watch.watched == []


@pytest.mark.fault(11)
async def test_too_few_watches_are_noticed_when_that_lasts(indexer: Indexer, root: Path) -> None:
    """A directory that was just made may not be watched yet."""
    (root / "below").mkdir()
    desk = Desk(indexer)
    desk.watcher._look()
    await indexer.look_around()
    assert desk.root.directories == 2
    for watched, is_short in [(2, False), (1, True), (2, False), (1, True), (None, False)]:
        desk.watch.directories = watched
        desk.watcher._compare_counts()
        assert (desk.watcher._is_short, desk.codes()) == (is_short, [])
    desk.watch.directories = 1
    desk.watcher._compare_counts()
    desk.watcher._compare_counts()
    assert (desk.watcher._is_short, desk.codes()) == (False, ["tooFewWatches"])
    assert desk.watcher.mode(desk.root) == "polling"


# -- the task


@pytest.fixture
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_S", 0.001)


async def until(condition: Callable[[], bool]) -> None:
    """As soon as something holds."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def idle(indexer: Indexer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to do of what an index that was just made needs, however long it takes until that begins."""
    monkeypatch.setattr(ingest, "SETTLE_S", 0.0)
    monkeypatch.setattr(ingest, "FOLD_S", 0.0)
    await indexer.look_around()
    await until(lambda: indexer.index.writer.has_decided and not indexer.upkeep.has_work)


def move(path: Path, name: str) -> None:
    """Give it another name."""
    path.rename(path.with_name(name))


def write_beside(root: Path) -> Path:
    """A session is written below a root that is away."""
    write(root.with_name("away"), "two", "medlar")
    return root.with_name("away")


@pytest.mark.usefixtures("_fast")
async def test_roots_are_swept_at_the_start_and_when_they_come(indexer: Indexer, root: Path) -> None:
    """Files that were there, that came without an event, or with a root. The watch ends with the task."""
    write(root, "one", "quince")
    desk = Desk(indexer)
    async with running(indexer), anyio.create_task_group() as tasks:
        tasks.start_soon(desk.watcher.run)
        await until(lambda: indexer.counts.added == 1)
        assert desk.watch.is_running
        move(root, "away")
        await until(lambda: desk.watcher.mode(desk.root) == "missing")
        move(write_beside(root), root.name)
        await until(lambda: indexer.counts.added == 2)
        tasks.cancel_scope.cancel()
    assert not desk.watch.is_running


@pytest.mark.usefixtures("_fast")
async def test_ticks_cost_the_loop_nothing(indexer: Indexer, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them between two sweeps are one job of one thread, which ends with the task."""
    desk, ticks, handed_over = Desk(indexer), list[int](), list[int]()
    tick, in_thread, submit = desk.watcher._tick, indexer.in_thread, desk.watcher._ticking.submit

    def count_tick() -> bool:
        ticks.append(threading.get_ident())
        return tick()

    async def count_job(function: Callable[[], object]) -> object:
        handed_over.append(len(ticks))
        return await in_thread(function)

    def count_submitted(*call: Any) -> Future[Any]:
        handed_over.append(len(ticks))
        return submit(*call)

    monkeypatch.setattr(desk.watcher, "_tick", count_tick)
    monkeypatch.setattr(indexer, "in_thread", count_job)
    monkeypatch.setattr(desk.watcher._ticking, "submit", count_submitted)
    async with running(indexer), anyio.create_task_group() as tasks:
        await idle(indexer, monkeypatch)  # or it is its own upkeep that is handed over meanwhile
        tasks.start_soon(desk.watcher.run)
        await until(lambda: len(ticks) >= 20)  # it may be more: nothing waits for the loop between two of them
        assert set(handed_over) == {0}
        tasks.cancel_scope.cancel()
    ended = len(ticks)
    assert submit(int).result(30) == 0
    assert (len(ticks), len(set(ticks))) == (ended, 1)


@pytest.mark.fault(21, 99)
@pytest.mark.usefixtures("_fast")
async def test_a_clock_that_jumps_is_a_reason_to_sweep(
    indexer: Indexer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine slept: events may have been lost."""
    desk = Desk(indexer)
    async with running(indexer), anyio.create_task_group() as tasks:
        tasks.start_soon(desk.watcher.run)
        await until(lambda: desk.watch.counted == 1)
        write(root, "one", "quince")
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + module.CLOCK_JUMP_S + 1)
        await until(lambda: indexer.counts.added == 1)
        tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("_fast")
async def test_an_index_that_is_away_is_noticed(indexer: Indexer, root: Path) -> None:
    """It is made anew from the files that are there."""
    write(root, "one", "quince")
    desk = Desk(indexer, "off")
    async with running(indexer), anyio.create_task_group() as tasks:
        tasks.start_soon(desk.watcher.run)
        await until(lambda: indexer.counts.added == 1)
        for file in root.parent.glob("index.sqlite*"):
            file.unlink()
        await until(lambda: indexer.counts.added == 2)
        tasks.cancel_scope.cancel()
    assert indexer.index.is_in_place()
