"""The ingest task: takes what is next in the queue, has it looked at and committed in a worker thread, and does upkeep when idle.

Everything that writes holds the write lock. Nothing here knows events or clients: the daemon wires them.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from sesamed.errors import StoreError
from sesamed.exclusion import IGNORE_FILE
from sesamed.ingest.ahead.child import Ahead
from sesamed.ingest.decode import Decoder, ReadLimits, log_fault
from sesamed.ingest.look import SLICE_BYTES, Committed, Counts, Ingest, LookResult
from sesamed.ingest.project import Projects
from sesamed.ingest.queue import Batch, Queue, Ticket
from sesamed.ingest.state import FileState, FileStates, Target
from sesamed.ingest.sweep import Due, Sweep
from sesamed.ingest.withholding import Withholding
from sesamed.model import Pending, Progress, ProjectExclusion, SessionKey
from sesamed.source import Document, Source, Unit
from sesamed.store import sqlite
from sesamed.store.index import EXCLUDES, Index, IndexLostError, note_lost
from sesamed.store.sqlite import DamagedError
from sesamed.store.upkeep import Upkeep
from sesamed.store.writing.files import Files
from sesamed.store.writing.transaction import Why, Writer

log = logging.getLogger(__name__)
T = TypeVar("T")

BULK_FILES = 50  # a backlog longer than this is loaded without merging, which is done afterwards
ALONE_S = 1.0  # so long nobody else must have wanted to write before commits of a load become long
SETTLE_S = 0.2  # so long nothing may happen before upkeep begins
FOLD_S = 3.0  # and so long, before a short WAL is folded in: agents at work write again sooner
RETRY_S = (1.0, 30.0)
REPLACEMENTS, REPLACEMENTS_S = 3, 3600.0  # so many damaged indexes are replaced at once in that time
UNKNOWN_BYTES = 64 << 10  # of a unit that is a part of a file
SAMPLES = 1000
DAY_MS = 86_400_000


class Indexer:
    """Keeps one index up to date with what is below the roots."""

    def __init__(
        self,
        index: Index,
        sources: Mapping[str, Source[Any]],
        sweep: Sweep,
        limits: ReadLimits,
        keep_gone_days: int | None = None,
        named: frozenset[bytes] = frozenset(),
    ) -> None:
        self.index = index
        self.sweep = sweep
        self.keep_gone_days = keep_gone_days
        self.states = FileStates(index.writer.files.all())
        self.queue = Queue(self.states)
        self.freshness: deque[float] = deque(maxlen=SAMPLES)
        self.counts = Counts()  # of all looks so far
        self.trouble: StoreError | None = None
        self.is_replaced = False  # somebody took the index away since the start
        self.replaced = anyio.Event()  # the index was replaced; there is another event for the next time
        self._replacements = list[float]()  # when a damaged index was replaced, not long ago
        self.last_sweep_ms: int | None = None
        self.sweep_took_s = 0.0  # of CPU, the last one
        self.last_event_ms: int | None = None
        self._has_to_decide = (
            False  # a sweep has found all that there is; once it is read, numbers of sessions are for ever
        )
        # the revision of the exclusion by which files were dropped last; None: an earlier daemon's
        self._excluded_by = None if index.recall(EXCLUDES, str) == "1" else 0
        self.leaving = False  # set when the daemon stops: what is under way ends with the next commit
        self._sources = sources
        self._limits = limits
        self.secrets = limits.secrets
        self._named = named  # files that an agent's variable names
        self.projects_trouble: str | None = None  # why the last sweep could not look into the projects
        self.projects = Projects(heeds_files=sweep.exclusion.heeds_projects)
        self._withholding = Withholding(self.projects)
        self._heeded: tuple[int, int] | None = (
            None  # what was excluded in projects when files were taken out last; None: never
        )
        self._let_in = 0  # how often files were to be read again since nothing excludes them any more
        self._ingest = Ingest(index.writer, self._decoder(), self.states)
        self._ahead = self.make_ahead()
        self.upkeep = Upkeep(index.writer)
        index.on_damage = self.wake
        self.on_commit: Callable[[], None] = lambda: None
        self._writing = anyio.Lock(fast_acquire=True)
        self._looking = ThreadPoolExecutor(
            1, "look"
        )  # anyio's threads cost three turns of the loop before a look begins
        self._delay_s = RETRY_S[0]
        self._loaded_files = self._loaded_bytes = 0  # of the backlog, since there was none; without the batch under way
        self._is_loading = False  # that batch is of the backlog
        self._shared_at = 0.0  # when a load began, or somebody else wanted to write meanwhile

    # -- the task

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                try:
                    if self.index.damage is not None:
                        await self.replace_index()
                    await self._work()
                    self.trouble = None
                except IndexLostError:
                    raise
                except DamagedError as error:
                    self.index.note_damage(error)
                    self.trouble = error
                except StoreError as error:
                    await self._back_off(error)
        finally:
            await self.in_thread(self._ahead.end)

    def mark_path(self, path: str) -> None:
        """Called in the watcher's thread: a file has probably changed."""
        name = os.fsencode(path)
        state = self.states.get(name)
        target = self.sweep.target(name) if state is None else state.target
        if target is not None:
            self.last_event_ms = int(time.time() * 1000)
            self.queue.mark(target, may_rest=True)
        elif os.path.basename(path) == IGNORE_FILE:  # others may be excluded now
            self.queue.sweep_wanted = True
            self.wake()

    def wake(self) -> None:
        """Wake the task: there may be upkeep to do."""
        self.queue.waker.ring()

    async def _work(self) -> None:
        if self.queue.sweep_wanted:
            self.queue.sweep_wanted = False
            await self.look_around()
        if self.queue.trees:
            await self._look_at_trees()
        if batch := self.queue.take():
            await self._look_at(batch)
        elif self.queue.is_empty:
            await self._rest()

    async def _look_at(self, batch: Batch) -> None:
        async with self.write_lock():
            if len(batch.states) + batch.left > BULK_FILES:
                self.upkeep.bulk(on=True)  # until there is nothing to do: the last commits would pay for all merging

            self._is_loading = not batch.is_live
            if batch.is_live or not self._loaded_files:
                self._shared_at = time.monotonic()
            there = [state for state in batch.states if not state.is_gone]

            def stop() -> bool:
                waits = self._writing.statistics().tasks_waiting or (self.queue.live_is_waiting and not batch.is_live)
                if waits:
                    self._shared_at = time.monotonic()
                return self.leaving or bool(waits)

            try:
                result = await self._look(partial(self._run, batch, stop))
            except Exception:
                self._ingest.committed = Committed()
                self.queue.put_back()
                raise
            self.upkeep.wrote()
            self.on_commit()
        if result.gone:
            await self._drop_hidden([state for state in there if state.is_gone])
        _, let_in = await self._heed_projects()
        self.queue.sweep_wanted |= bool(let_in)
        self._finish(result, batch.states, {Unit.parse(path).path for path in let_in})
        if batch.is_live or not self.queue.live_is_waiting:  # a step may take longer than a commit
            await self.keep_up()

    def _run(self, batch: Batch, stop: Callable[[], bool]) -> LookResult:
        """Look at a batch; during a load with the process that reads ahead. In a thread."""
        targets = [state.target for state in batch.states]
        if batch.is_live:
            return self._ingest.run(targets, stop)
        if self._ahead.is_idle:
            self._ahead.begin(self.queue.count_new())
        is_alone = time.monotonic() - self._shared_at > ALONE_S
        return self._ingest.run(targets, stop, self._ahead, self.queue.list_next(), is_alone=is_alone)

    async def keep_up(self) -> None:
        """After a commit, do what cannot wait until the daemon is idle."""
        if self.upkeep.must_step():
            async with self.write_lock():
                await self.in_thread(self.upkeep.urgent_step)

    def _finish(self, result: LookResult, states: list[FileState], let_in: Collection[bytes] = ()) -> None:
        """Serve whoever waits for the look; not for a file of which it kept nothing by a rule that has changed meanwhile."""
        now, unfinished = time.monotonic(), {*let_in, *(target.path for target in result.unfinished)}
        for state in states[: result.reached]:
            if state.look_since is not None:
                self.freshness.append((now - state.look_since) * 1000)
        backlog = [state.target.path for state in states if state.look_since is None]
        if backlog:
            self._loaded_files += sum(path not in unfinished for path in backlog)
            self._loaded_bytes += result.bytes
        self.counts += result
        self._ingest.committed = Committed()
        self.queue.finish(unfinished)

    def backlog_progress(self) -> Progress | None:
        """How far the backlog has been read; None if there is none."""
        left, files, read = self.queue.backlog(), self._loaded_files, self._loaded_bytes
        if not left.files:
            return None
        now = self.committed if self._is_loading else Committed()
        return Progress(
            files_done=files + min(now.files, left.files),
            files_total=files + left.files,
            bytes_done=read + min(now.bytes, left.bytes),
            bytes_total=read + left.bytes,
        )

    @property
    def reads_ahead(self) -> bool:
        """Whether there is so much to read that a process beside this one helps: the index will be large."""
        return not self._ahead.is_idle

    @property
    def committed(self) -> Committed:
        """What of the batch under way is searchable already, though none of its tickets is served."""
        return self._ingest.committed

    def pending(self) -> Pending:
        """What is on disk but not searchable, as far as is known. There is something as long as a ticket is not served."""
        found, now = self.queue.pending(), self.committed
        return Pending(files=min(found.files, max(1, found.files - now.files)), bytes=max(0, found.bytes - now.bytes))

    async def _rest(self) -> None:
        """With nothing to read, merge and checkpoint in small steps, and sleep until there is work."""
        self._loaded_files = self._loaded_bytes = 0
        waker = self.queue.waker
        if not self._ahead.is_idle:
            await self.in_thread(self._ahead.end)
        async with self.write_lock():
            self.upkeep.bulk(on=False)
            if self._has_to_decide:
                await self.in_thread(self.index.writer.decide_numbers)
                self._has_to_decide = False
        while not waker.is_rung:
            if not self.upkeep.has_work:
                await waker.wait()
                return
            is_calm = time.monotonic() - self._shared_at > SETTLE_S  # who appends appends again
            quiet_s = FOLD_S if self.upkeep.can_wait else SETTLE_S
            with anyio.move_on_after(0 if self.upkeep.is_busy and is_calm else quiet_s):
                await waker.wait()
            if not waker.is_rung:
                async with self.write_lock():
                    await self.in_thread(self.upkeep.step)

    async def _back_off(self, error: StoreError) -> None:
        if self.trouble is None or str(self.trouble) != str(error):
            log.error("cannot write error=%s", error)
            self._delay_s = RETRY_S[0]
        self.trouble = error
        await self.in_thread(self._ahead.end)
        await anyio.sleep(self._delay_s)
        self._delay_s = min(self._delay_s * 2, RETRY_S[1])

    # -- finding what is due

    async def look_around(self) -> list[Ticket]:
        """Sweep all roots; gives a ticket for each file that is due."""
        let_in = self._let_in
        found = await self.in_thread(self._look_around)
        await self._drop_excluded()  # before others are looked at: links may lead elsewhere since the last sweep
        await self._heed_projects()
        if self._let_in != let_in:  # here, or after a look that ended meanwhile
            found = await self.due(self._ingest)
        self.last_sweep_ms = int(time.time() * 1000)
        tickets = self.queue.add(item for item in found if self._is_still_due(item))
        self._has_to_decide = not self.index.writer.has_decided
        if self._has_to_decide:
            self.wake()
        return tickets

    def _look_around(self) -> list[Due]:
        begun_s = time.thread_time()
        self._look_into_projects()
        self.sweep.add_projects(self.projects.list_directories())
        found = self.sweep.due(self._ingest)
        self.sweep_took_s = time.thread_time() - begun_s
        return found

    def _is_still_due(self, found: Due) -> bool:
        """Whether a file is still due: it may have been read for another sweep meanwhile."""
        version = self._ingest.decoder.versions[found.target.source]
        return found.signature is None or self._ingest.is_due(found.target.path, found.signature, version)

    async def due(self, ingest: Ingest) -> list[Due]:
        """What differs from an index."""
        return await self.in_thread(partial(self.sweep.due, ingest))

    async def resolve(self, paths: Iterable[str]) -> list[tuple[str, Target | None]]:
        """The targets of these paths, by roots and links as they are now."""
        return await self.in_thread(partial(self.sweep.targets, paths))

    async def _look_at_trees(self) -> None:
        trees, self.queue.trees = self.queue.trees, set()
        for tree in sorted(trees):
            try:
                found = await self.in_thread(partial(self.sweep.due_below, tree, self._ingest))
            except Exception as error:
                log_fault(os.fsencode(tree), error)
                self.queue.sweep_wanted = True  # which says so, if it cannot either
            else:
                self.queue.add(
                    found, may_rest=True
                )  # of a tree of small files a new directory is an event like any other

    def mark_quiet(self) -> None:
        """Mark files whose unfinished last line may be taken now."""
        for target in self.states.take_quiet(time.monotonic()):
            if self.sweep.target(target.path) is not None:
                self.queue.mark(target)

    def mark_side_files(self) -> None:
        """Mark files beside the roots that have changed. They are polled, because nobody watches them. Runs in a thread."""
        for due in self.sweep.due_beside(self._ingest):
            state = self.states.get(due.target.path)
            if state is None or state.trouble is None:  # the sweeps try those again
                self.queue.mark(due.target)

    # -- taking out

    async def expire(self, *, all_gone: bool = False) -> int:
        """Drop what is excluded now, and what has been gone for longer than configured, or all that is gone."""
        if self._heeded is None:
            await self.in_thread(self._look_into_projects)
        withheld, _ = await self._heed_projects()
        dropped = withheld + await self._drop_excluded()
        days = self.keep_gone_days
        if all_gone or days is not None:
            before_ms = None if all_gone or days is None else int(time.time() * 1000) - days * DAY_MS
            dropped += await self.drop(await self.write(lambda: self.index.writer.files.list_gone(before_ms)))
        return dropped

    async def _drop_excluded(self) -> int:
        """Drop what is excluded, if that has changed since it was last done."""
        if (revision := self.sweep.exclusion.revision) == self._excluded_by:
            return 0
        if has_rules := self.sweep.exclusion.has_rules:
            await self.write(partial(self._note_rules, "1"))
        dropped = await self.drop(await self.write(self._mark_excluded), "excluded")
        if silent := await self.write(self._find_silent):
            await self._change(partial(self._ingest.read_again, silent))
            self._let_in += 1
        if not has_rules:
            await self.write(partial(self._note_rules, ""))
        self._excluded_by = revision
        return dropped

    def _note_rules(self, value: str) -> None:
        """Note for the next daemon whether anything is excluded: when it is told of nothing, it has to know that this is new."""
        if (self.index.get(EXCLUDES) or "") != value:
            self.index.put(EXCLUDES, value)

    def _look_into_projects(self) -> None:
        """Look for the `.sesameignore` of all projects. A bug stops nothing else: it is said, and the next sweep tries again."""
        try:
            if self._heeded is None:
                self._load_projects()
            self.projects.refresh()
        except Exception as error:
            self.projects_trouble = log_fault(b".sesameignore", error)
        else:
            self.projects_trouble = None

    def list_project_exclusions(self) -> list[ProjectExclusion]:
        """Which `.sesameignore` of projects exclude how many sessions."""
        sessions: dict[bytes, set[tuple[str, str, str]]] = {}
        for state in list(self.states.withheld.values()):
            if (why := state.withheld) is not None and not state.is_gone:
                sessions.setdefault(why.by, set()).add((state.target.source, why.native_id, why.origin))
        return [
            ProjectExclusion(
                path=os.fsdecode(by), sessions=len(found), trouble=self.projects.find_trouble(os.fsdecode(by))
            )
            for by, found in sorted(sessions.items())
        ]

    def _load_projects(self) -> None:
        """Learn from the index which directories there are, and what is withheld already."""
        for path, state in list(self.states.withheld.items()):
            if state.withheld is not None:
                self._withholding.load(path, state.target.source, state.withheld)
        with self.index.readers.lend() as connection:
            files = Files(connection)
            directories, places = files.list_directories(), files.list_places()
        for entry, cwd in places:
            with suppress(OSError):  # `refresh` asks again
                self._withholding.locate(entry, cwd)
        self.projects.add(directories)

    async def _heed_projects(self) -> tuple[int, list[bytes]]:
        """Take out what is excluded in projects, if that has changed since it was last done. Gives how many files, and what is due now
        because it isn't excluded any more."""
        now = self.projects.revision, self._withholding.revision
        if now == self._heeded or not (self.states.withheld or self.projects.list_excluded()):
            if not self._writing.locked():  # what a look decides is only known when it has ended, and does this again
                self._heeded = now
            return 0, []
        places, withheld = await self.write(self._ingest.find_excluded), 0
        for some in self._slices(places):
            withheld += await self._change(partial(self._ingest.withhold, {path: places[path] for path in some}))
        let_in = await self._change(self._ingest.read_included)
        self._let_in += bool(let_in)
        self._heeded = now
        return withheld, let_in

    def _mark_excluded(self) -> list[bytes]:
        """Note which files are excluded; gives those that have to go."""
        paths = []
        for state in self.states:
            path = Unit.parse(state.target.path).path
            state.is_excluded = self.sweep.excludes(path)
            if state.is_excluded and self.sweep.drops(path):
                paths.append(state.target.path)
        described = self.index.writer.files.list_described()
        return [*paths, *(path for path, transcript in described if self.sweep.drops(os.fsencode(transcript)))]

    def _find_silent(self) -> list[bytes]:
        """The documents that say nothing: what they are about may have been excluded."""
        states = (self.states.get(path) for path in self.index.writer.files.list_silent())
        shapes = ((state, self._ingest.decoder.shape(state)) for state in states if state is not None)
        return [state.target.path for state, shape in shapes if isinstance(shape, Document) and shape.side]

    async def _drop_hidden(self, gone: list[FileState]) -> None:
        """What has just moved to where it is excluded is excluded, and not gone."""
        lost = {state.signature: state.target.path for state in gone if state.signature is not None}
        await self.drop(await self.in_thread(partial(self.sweep.find_hidden, lost)), "excluded")

    async def drop(self, paths: Collection[bytes], why: Why = "gone") -> int:
        """Take files out of the index."""
        for some in self._slices(paths):
            await self._change(partial(self._ingest.drop, some, why))
        return len(paths)

    def _slices(self, paths: Iterable[bytes]) -> Iterator[list[bytes]]:
        """The files by commits: to take many out takes as long as to read them, and live appends come in between."""
        some, size = list[bytes](), 0
        for path in paths:
            some.append(path)
            state = self.states.get(path)
            size += UNKNOWN_BYTES if state is None or state.signature is None else state.signature.size
            if size >= SLICE_BYTES:
                yield some
                some, size = [], 0
        if some:
            yield some

    async def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out for good."""
        await self._change(lambda: self._ingest.forget(sessions))

    async def _change(self, function: Callable[[], T]) -> T:
        done = await self.write(function)
        self.upkeep.wrote()
        self.on_commit()
        await self.keep_up()
        return done

    # -- another index

    def ingest_into(self, writer: Writer) -> Ingest:
        """An ingest into an index beside this one."""
        return Ingest(writer, self._decoder())

    def make_ahead(self) -> Ahead:
        """What reads ahead for an ingest during a load."""
        return Ahead(self._limits, SLICE_BYTES)

    async def swap(self, new: Ingest) -> None:
        """Replace this index by a finished one. For holders of the write lock."""
        await self.in_thread(lambda: self.index.swap(new.writer))
        await self.in_thread(lambda: self._begin_anew(new.states))

    async def replace_index(self) -> None:
        """The index is damaged, or somebody deleted it: create a new one and read all files again. Raises IndexLostError if it cannot."""
        async with self.write_lock():
            if self.index.damage is None:
                log.error("the index was removed or replaced; indexing all files again path=%s", self.index.path)
                self.is_replaced = True
            else:
                log.error("the index is damaged and is set aside; indexing all files again error=%s", self.index.damage)
                await self._pause()
            self._has_to_decide = False
            await self.in_thread(self._replace)
        self.replaced.set()
        self.replaced = anyio.Event()
        await self.look_around()

    async def _pause(self) -> None:
        """Where disk or memory is failing, damage comes again and again; that must not take all of a core."""
        now = time.monotonic()
        self._replacements = [*(at for at in self._replacements if now - at < REPLACEMENTS_S), now]
        if (many := len(self._replacements) - REPLACEMENTS) > 0:
            await anyio.sleep(min(2.0**many, RETRY_S[1]))

    def _replace(self) -> None:
        is_removed, held = self.index.damage is None, {state.target.path for state in self.states if state.is_gone}
        self.index.reopen()
        self._begin_anew(FileStates())
        lost = sorted(path for path in held if self.states.get(path) is None)
        if is_removed and lost:
            note_lost(self.index.path, lost)

    def _begin_anew(self, states: FileStates) -> None:
        writer = self.index.writer
        states.load(writer.files.all())  # some may have been written without a look: what was carried over
        self.states.take_over(states)
        self._excluded_by, self._heeded = 0, None
        self._ingest = Ingest(writer, self._decoder(), self.states)
        self.upkeep = Upkeep(writer)

    def reload_states(self) -> None:
        """Load the states of files that were written without a look (carried over). In a thread, for holders of the write lock."""
        with self.states.lock:
            self.states.load(self.index.writer.files.all())
        self._heeded = None
        self.upkeep.wrote()

    def _decoder(self) -> Decoder:
        return Decoder(
            self._sources,
            self._limits,
            rules=self.sweep,
            named=self._named,
            withholding=self._withholding,
        )

    # -- the write lock

    @asynccontextmanager
    async def write_lock(self) -> AsyncIterator[None]:
        """A lock that every writer holds."""
        async with self._writing:
            yield

    async def prove_alive(self) -> None:
        """Take the write lock and release it: the writer yields with its next commit, unless it hangs."""
        async with self.write_lock():
            return

    async def write(self, function: Callable[[], T]) -> T:
        """Run it in a worker thread, with the write lock held."""

        def run() -> T:
            with sqlite.errors(self.index.path):
                return function()

        async with self.write_lock():
            return await self.in_thread(run)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run it in a worker thread, to its end even if cancelled: there are no half commits, and a writer is not abandoned."""
        return await self._finish_it(to_thread.run_sync, function)

    async def _look(self, look: Callable[[], T]) -> T:
        """The same in the thread that is there for it."""
        return await self._finish_it(lambda it: asyncio.wrap_future(self._looking.submit(it)), look)

    async def _finish_it(self, run: Callable[[Callable[[], T]], Awaitable[T]], function: Callable[[], T]) -> T:
        with anyio.CancelScope(shield=True):
            try:
                return await run(function)
            except DamagedError as error:
                self.index.note_damage(error)
                raise
        raise AssertionError("nobody cancels this scope")
