"""Watches the roots that exist, notices new ones, and sweeps all of them from time to time.

Events only speed things up: with a watcher that does nothing, sweeps still find everything.
"""

import errno
import logging
import os
import time
from collections.abc import Callable
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
        due_at = 0.0
        drift = time.time() - time.monotonic()
        await self._indexer.in_thread(self._look)
        while True:
            jumped = abs(time.time() - time.monotonic() - drift) > CLOCK_JUMP_S
            if jumped or time.monotonic() >= due_at:
                with suppress(DamagedError):  # the index is about to be set aside
                    await self._indexer.look_around()
                    await self._indexer.expire()
                drift = time.time() - time.monotonic()
                self._compare_counts()
                due_at = time.monotonic() + (LOOK_AGAIN_S if self._is_short else self._interval())
            await anyio.sleep(TICK_S)
            self._indexer.mark_quiet()
            self._indexer.queue.end_rests()
            fresh, in_place = await self._indexer.in_thread(self._tick)
            for root in fresh:
                self._indexer.queue.mark_tree(root)
            if not in_place:
                await self._indexer.replace_index()

    def _interval(self) -> float:
        polling = self._wanted == "polling" or any(self.mode(root) == "polling" for root in self._indexer.sweep.roots)
        return min(POLLING_S, self._sweep_s) if polling and self._wanted != "off" else self._sweep_s

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

    def _tick(self) -> tuple[list[str], bool]:
        """Which roots have just appeared, and whether the index is still in place: all that is checked while nothing happens."""
        fresh = self._look()
        self._indexer.mark_side_files()
        self._indexer.index.look_aside()
        return fresh, self._indexer.index.is_in_place()

    def _look(self) -> list[str]:
        """See which roots exist, and watch them. Gives those that were not watched before."""
        fresh = []
        self._indexer.sweep.add_roots()
        for root in self._indexer.sweep.roots:
            try:
                if self._look_at(root) and root.real is not None:
                    fresh.append(root.real)
            except Exception as error:  # the others are looked at all the same
                self._watched.pop(root.path, None)
                if root.path not in self._reasons:
                    why = log_fault(os.fsencode(root.path), error)
                    text = f"cannot be watched ({why}); polling every {POLLING_S:.0f} s"
                    self._reasons[root.path] = RootWarning("unwatchable", text)
        return fresh

    def _look_at(self, root: Root) -> bool:
        """See whether a root exists, and watch it; says whether changes may have been missed."""
        changed = self._indexer.sweep.resolve(root)
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
