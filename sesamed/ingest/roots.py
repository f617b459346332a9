"""Watches the roots that exist, notices new ones, and sweeps all of them from time to time.

Events only speed things up: with a watcher that does nothing, sweeps still find everything.
"""

import asyncio
import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Literal, Protocol

import anyio

from sesamed.ingest.decode import log_fault
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.sweep import Root
from sesamed.model import RootWarning
from sesamed.store.sqlite import DamagedError

log = logging.getLogger(__name__)

TICK_S = 0.5  # a root that is made is noticed within this; a tick costs a stat or two a root, and one a file beside it
POLLING_S = 5.0  # between sweeps where there are no events
LOOK_AGAIN_S = 2.0  # when fewer directories are watched than there are
SWEEP_SHARE = 0.001  # of the time may go into sweeps, unless there have to be more than one a minute
MINUTE_S, LONGEST_S = 60.0, 600.0  # between two sweeps, which is as long as it becomes by that
CLOCK_JUMP_S = 60.0  # the machine slept, or the clock was set: events may have been lost

Mode = Literal["events", "polling", "missing"]
Wanted = Literal["events", "polling", "off"]


class Watcher(Protocol):
    """The part of a watch that is used here; `sesamed.watch.Watch` is one."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def watch(self, root: str) -> None: ...
    def unwatch(self, root: str) -> None: ...
    def alive(self, root: str) -> bool: ...
    def directories_watched(self) -> int | None: ...


class RootWatcher:
    """Watches and sweeps the roots of an indexer."""

    def __init__(
        self,
        indexer: Indexer,
        make_watcher: Callable[[Callable[[str], None], Callable[[str], None], Callable[[str], bool]], Watcher],
        wanted: Wanted,
        sweep_s: float,
        polled: Callable[[str], str | None],
    ) -> None:
        self._indexer = indexer
        self._watcher = None
        if wanted == "events":
            self._watcher = make_watcher(indexer.mark_path, indexer.queue.mark_tree, indexer.sweep.enters)
        self._wanted = wanted
        self._sweep_s = sweep_s
        self._polled = polled  # the file system's name, where events don't work
        self._watched: dict[str, str] = {}
        self._is_short = False
        self._reasons: dict[str, RootWarning] = {}  # why a root is polled, by its path
        self._no_events: RootWarning | None = None  # why no root is watched
        self._ticking = ThreadPoolExecutor(1, "roots")

    def mode(self, root: Root) -> Mode:
        """How changes below a root are noticed."""
        if root.real is None:
            return "missing"
        return "events" if root.path in self._watched else "polling"

    def warnings(self, root: Root) -> list[RootWarning]:
        """Why a root is not watched."""
        return [reason for reason in (self._reasons.get(root.path), self._no_events) if reason]

    async def run(self) -> None:
        """Watch and sweep until cancelled."""
        if self._watcher is not None:
            await self._indexer.in_thread(self._start)
        try:
            await self._watch_and_sweep()
        finally:
            if self._watcher is not None:
                await self._indexer.in_thread(self._watcher.stop)

    async def _watch_and_sweep(self) -> None:
        await self._indexer.in_thread(self._look)
        while True:
            with suppress(DamagedError):  # the index is about to be set aside
                await self._indexer.look_around()
                await self._indexer.expire()
            self._compare_counts()
            drift = time.time() - time.monotonic()
            due_at = time.monotonic() + (LOOK_AGAIN_S if self._is_short else self._interval())
            while not await self._tick_until(due_at, drift):
                await self._indexer.replace_index()

    async def _tick_until(self, due_at: float, drift: float) -> bool:
        """Tick until a sweep is due, or until the index is away: then false. If cancelled, until the tick under way has ended.

        A thread's job for all ticks of a minute, and not for each: what is looked at costs a tenth of handing it over and back. On the
        loop it has no place, as a root may be on a server that does not answer.
        """
        over = threading.Event()
        ticking = asyncio.wrap_future(self._ticking.submit(self._tick_till, due_at, drift, over))
        try:
            await asyncio.wait([ticking])
        finally:
            over.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([ticking])
        return ticking.result()

    def _tick_till(self, due_at: float, drift: float, over: threading.Event) -> bool:
        while not over.wait(TICK_S):
            if not self._tick():
                return False
            if time.monotonic() >= due_at or abs(time.time() - time.monotonic() - drift) > CLOCK_JUMP_S:
                return True
        return True

    def _interval(self) -> float:
        polling = self._wanted == "polling" or any(self.mode(root) == "polling" for root in self._indexer.sweep.roots)
        if polling and self._wanted != "off":
            return min(POLLING_S, self._sweep_s)
        # What cannot be read is tried again by each sweep.
        is_needed = self._wanted == "off" or self._sweep_s < MINUTE_S or self._indexer.states.list_unreadable()
        spared_s = 0.0 if is_needed else min(self._indexer.sweep_took_s / SWEEP_SHARE, LONGEST_S)
        return max(self._sweep_s, spared_s)

    def _start(self) -> None:
        assert self._watcher is not None
        try:
            self._watcher.start()
        except OSError as error:
            self._watcher = None
            text = f"no file events ({error.strerror}); "
            if error.errno == errno.EMFILE:
                self._no_events = RootWarning("tooFewInstances", f"{text}raise fs.inotify.max_user_instances")
            else:
                self._no_events = RootWarning("unwatchable", f"{text}polling every {POLLING_S:.0f} s")

    def _tick(self) -> bool:
        """Everything that is checked while nothing happens; says whether the index is still in place."""
        indexer = self._indexer
        indexer.mark_quiet()
        indexer.queue.end_rests()
        for root in self._look():
            indexer.queue.mark_tree(root)
        indexer.mark_side_files()
        indexer.index.look_aside()
        return indexer.index.is_in_place()

    def _look(self) -> list[str]:
        """See which roots exist, and watch them. Gives those that were not watched before."""
        fresh, away = list[str](), set[str]()
        self._indexer.sweep.add_roots()
        for root in self._indexer.sweep.roots:
            try:
                if self._look_at(root, away) and root.real is not None:
                    fresh.append(root.real)
            except Exception as error:  # the others are looked at all the same
                self._watched.pop(root.path, None)
                if root.path not in self._reasons:
                    why = log_fault(os.fsencode(root.path), error)
                    text = f"cannot be watched ({why}); polling every {POLLING_S:.0f} s"
                    self._reasons[root.path] = RootWarning("unwatchable", text)
        return fresh

    def _look_at(self, root: Root, away: set[str]) -> bool:
        """See whether a root exists, and watch it; says whether changes may have been missed. Of a hundred roots most are missing, and
        many for want of the same directory: that one is looked for once."""
        changed = root.lacks not in away and self._indexer.sweep.resolve(root)
        if root.lacks is not None:
            away.add(root.lacks)
        if root.real is None:
            self._watched.pop(root.path, None)
            self._reasons.pop(root.path, None)
            return False
        return self._watch(root, root.real) or changed

    def _watch(self, root: Root, real: str) -> bool:
        """Watch a root that is not watched; says whether changes may have been missed."""
        if self._watcher is None or self._reasons.get(root.path) or self._watcher.alive(real):
            return False
        if (kind := self._polled(real)) is not None:
            text = f"{kind} does not report changes; polling every {POLLING_S:.0f} s"
            self._reasons[root.path] = RootWarning("remoteFilesystem", text)
            return False
        try:
            self._watcher.watch(real)
        except (FileNotFoundError, NotADirectoryError):  # gone just now: the next tick sees it
            return False
        except OSError as error:
            self._watched.pop(root.path, None)
            log.warning("cannot watch root=%s error=%s", real, error.strerror)
            text = f"cannot be watched ({error.strerror}); polling every {POLLING_S:.0f} s"
            self._reasons[root.path] = RootWarning("unwatchable", text)
            return False
        self._watched[root.path] = real
        return True

    def _compare_counts(self) -> None:
        """Poll the roots if the kernel gave fewer watches than there are directories: watchdog does not report that.

        A directory that was just made may not be watched yet, so that only a shortage that lasts is one.
        """
        watched = None if self._watcher is None else self._watcher.directories_watched()
        roots = [root for root in self._indexer.sweep.roots if root.path in self._watched]
        was_short = self._is_short
        swept = dict[str | None, int]()  # sources that share a directory share its watches
        for root in roots:
            swept[root.real] = max(root.directories, swept.get(root.real, 0))
        self._is_short = watched is not None and watched < sum(swept.values())
        if not (self._is_short and was_short):
            return
        self._is_short = False
        for root in roots:
            self._watched.pop(root.path)
            text = "too few inotify watches; raise fs.inotify.max_user_watches (sysctl), then restart the daemon"
            self._reasons[root.path] = RootWarning("tooFewWatches", text)
