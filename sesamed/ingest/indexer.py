"""The ingest task: takes dirty paths, has them looked at and committed in a worker thread, and does upkeep when idle.

Everything that writes goes through `writing`, one at a time. Nothing here knows events or clients: the daemon wires them.
"""

import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from sesamed.errors import StoreError
from sesamed.ingest.decode import Limits, Reading
from sesamed.ingest.look import Ingest, Outcome
from sesamed.ingest.queue import Inbox, Mark
from sesamed.ingest.sweep import Due, Sweep
from sesamed.model import Progress, SessionKey
from sesamed.source import Source
from sesamed.store.index import Index
from sesamed.store.upkeep import Upkeep
from sesamed.store.writing.transaction import Writer

log = logging.getLogger(__name__)
T = TypeVar("T")

BULK_FILES = 50  # a backlog longer than this is loaded without merging, which is done afterwards
SETTLE_S = 0.2  # so long nothing may happen before upkeep begins
RETRY_S = (1.0, 30.0)
SAMPLES = 1000


class _Loading:
    """What was read of the backlog so far."""

    def __init__(self) -> None:
        self.files = self.bytes = 0


class Indexer:
    """Keeps one index up to date with what lies below the roots."""

    def __init__(
        self,
        index: Index,
        sources: Mapping[str, Source[Any]],
        sweep: Sweep,
        limits: Limits,
        inbox: Inbox,
        gone_days: int | None = None,
    ) -> None:
        self.index = index
        self.sweep = sweep
        self.inbox = inbox
        self.gone_days = gone_days
        self.freshness: deque[float] = deque(maxlen=SAMPLES)
        self.failed: dict[bytes, str] = {}
        self.trouble: StoreError | None = None
        self.last_sweep_ms: int | None = None
        self.quiet_at: dict[bytes, float] = {}
        self.leaving = False  # set when the daemon stops: what is under way ends with the next commit
        self._loading: _Loading | None = None
        self._sources = sources
        self._limits = limits
        self._ingest = self.ingest_into(self.index.writer)
        self._upkeep = Upkeep(index.writer)
        self._writing = anyio.Lock()
        self._work = anyio.Event()
        self._heard: list[Callable[[Outcome], None]] = []

    # -- the task

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                await self._turn()
                self.trouble = None
            except StoreError as error:
                await self._back_off(error)

    def wake(self) -> None:
        """There is work. Called in the loop."""
        self._work.set()

    async def _turn(self) -> None:
        self._work = anyio.Event()
        if self.inbox.sweep_wanted:
            self.inbox.sweep_wanted = False
            await self.look_around()
        if self.inbox.trees:
            await self._look_at_trees()
        if marks := self.inbox.take():
            await self._serve(marks)
        elif self.inbox.is_empty:
            await self._rest()

    async def _serve(self, marks: list[Mark]) -> None:
        live = any(mark.live_since is not None for mark in marks)
        async with self.writing():
            if len(marks) + self.inbox.backlog_size > BULK_FILES:
                self._upkeep.bulk(on=True)  # until there is nothing to do: the last commits would pay for all merging

            def stop() -> bool:
                somebody_waits = bool(self._writing.statistics().tasks_waiting)
                return self.leaving or somebody_waits or (self.inbox.live_is_waiting and not live)

            try:
                outcome = await self.in_thread(partial(self._ingest.run, [mark.target for mark in marks], stop))
            except StoreError:
                self.inbox.put_back()
                raise
            self._upkeep.wrote()
        self._note(outcome, marks)
        if self._upkeep.must_step():
            async with self.writing():
                await self.in_thread(self._upkeep.urgent_step)

    def _note(self, outcome: Outcome, marks: list[Mark]) -> None:
        now = time.monotonic()
        looked_at = set(outcome.looked_at)
        for mark in marks:
            path = mark.target.path
            if path in looked_at:
                self.failed.pop(path, None)
                if mark.live_since is not None:
                    self.freshness.append((now - mark.live_since) * 1000)
        self.failed |= outcome.failed
        for path, seconds in outcome.quiet_in.items():
            self.quiet_at[path] = now + seconds
        for heard in self._heard:
            heard(outcome)
        self._count(outcome, [mark for mark in marks if mark.live_since is None])
        self.inbox.note_tails(outcome.tails)
        self.inbox.serve(outcome.unfinished, self._ingest.unread_of)

    def _count(self, outcome: Outcome, backlog: list[Mark]) -> None:
        if backlog:
            self._loading = self._loading or _Loading()
            self._loading.files += len(backlog) - len(outcome.unfinished)
            self._loading.bytes += outcome.bytes

    def backlog_progress(self) -> Progress | None:
        """How far the backlog is read; None when there is none."""
        left = self.inbox.backlog()
        if not left.files:
            return None
        done = self._loading or _Loading()
        return Progress(
            files_done=done.files,
            files_total=done.files + left.files,
            bytes_done=done.bytes,
            bytes_total=done.bytes + left.bytes,
        )

    async def _rest(self) -> None:
        """Nothing is dirty: merge and checkpoint in small steps, and sleep until there is work."""
        self._loading = None
        async with self.writing():
            self._upkeep.bulk(on=False)
        while not self._work.is_set():
            if not self._upkeep.has_work:
                await self._work.wait()
                return
            with anyio.move_on_after(0 if self._upkeep.is_merging else SETTLE_S):
                await self._work.wait()
            if not self._work.is_set():
                async with self.writing():
                    await self.in_thread(self._upkeep.step)

    async def _back_off(self, error: StoreError) -> None:
        if self.trouble is None or str(self.trouble) != str(error):
            log.error("cannot write error=%s", error)
            self._delay_s = RETRY_S[0]
        self.trouble = error
        await anyio.sleep(self._delay_s)
        self._delay_s = min(self._delay_s * 2, RETRY_S[1])

    # -- finding what is due

    async def look_around(self) -> dict[bytes, int]:
        """Sweep all roots; says under which marks what was found will be served."""
        found = await self.due(self._ingest)
        due = [item for item in found if self._is_still_due(item)]
        self.last_sweep_ms = int(time.time() * 1000)
        return self.inbox.add(due)

    def _is_still_due(self, found: Due) -> bool:
        """What another sweep has found, too, may have been read meanwhile."""
        version = self._version(found.target.source)
        return found.signature is None or self._ingest.is_due(found.target.path, found.signature, version)

    async def due(self, ingest: Ingest) -> list[Due]:
        """What differs from what an index knows."""
        return await self.in_thread(partial(self.sweep.due, ingest, self._version))

    async def _look_at_trees(self) -> None:
        trees, self.inbox.trees = self.inbox.trees, set()
        for tree in sorted(trees):
            self.inbox.add(await self.in_thread(partial(self.sweep.tree, tree, self._ingest, self._version)))

    def mark_quiet(self) -> None:
        """Files whose unfinished last line may be taken now."""
        now = time.monotonic()
        for path in [path for path, at in self.quiet_at.items() if at <= now]:
            del self.quiet_at[path]
            if (target := self.sweep.target(path)) is not None:
                self.inbox.mark(target)

    def mark_beside(self) -> None:
        """Files beside the roots that have changed: asked for, as nobody watches them. In a thread."""
        for due in self.sweep.beside(self._ingest, self._version):
            if due.target.path not in self.failed:  # the sweeps try those again
                self.inbox.mark(due.target)

    async def expire(self, now_ms: int | None = None) -> int:
        """Drop what is excluded by now, and what is gone for longer than the configuration keeps it."""
        paths = {path for path in self._ingest.glances if self.sweep.excludes(path)}
        if self.gone_days is not None:
            since = int(time.time() * 1000) - self.gone_days * 86_400_000 if now_ms is None else now_ms
            async with self.writing():
                paths |= set(await self.in_thread(partial(self.index.writer.files.gone_before, since)))
        return await self.drop(paths)

    async def drop(self, paths: Collection[bytes]) -> int:
        """Take files out of the index."""
        if not paths:
            return 0
        async with self.writing():
            await self.in_thread(partial(self._ingest.drop, paths))
            self._upkeep.wrote()
        return len(paths)

    async def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out, and never in again."""
        async with self.writing():
            await self.in_thread(partial(self._ingest.forget, sessions))
            self._upkeep.wrote()

    async def replace_index(self) -> None:
        """Somebody has deleted the index under us: make it anew, from the files that are there."""
        log.error("the index was removed or replaced; all files are read anew path=%s", self.index.path)
        async with self.writing():
            await self.in_thread(self.index.reopen)
            await self.in_thread(self.after_swap)
        await self.look_around()

    # -- for those who use it

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Nobody else writes."""
        async with self._writing:
            yield

    async def turn(self) -> None:
        """Wait for a turn at writing, and leave it: who writes makes way with its next commit, unless it hangs."""
        async with self.writing():
            return

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run it in a worker thread, to its end even when cancelled: a half commit is none, and a writer is not left alone."""
        with anyio.CancelScope(shield=True):
            return await to_thread.run_sync(function)
        raise AssertionError("nobody cancels this scope")

    def listen(self, heard: Callable[[Outcome], None]) -> Callable[[], None]:
        """Be told every outcome; the answer ends it."""
        self._heard.append(heard)
        return lambda: self._heard.remove(heard)

    def ingest_into(self, writer: Writer) -> Ingest:
        """A fresh look at an index."""
        return Ingest(writer, Reading(self._sources, self._limits))

    @property
    def ingest(self) -> Ingest:
        """The files as they are known."""
        return self._ingest

    def after_swap(self) -> None:
        """The index is another one now."""
        self._ingest = self.ingest_into(self.index.writer)
        self._upkeep = Upkeep(self.index.writer)

    def _version(self, parser: str) -> int:
        return self._sources[parser].version
