"""Index runs and syncs: what a client asks for and waits for."""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import anyio
import msgspec

from sesamed.errors import BusyError, SesameError
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.look import Ingest, Outcome
from sesamed.model import IndexReport, Pending, Progress, SessionKey
from sesamed.store.index import remove_index
from sesamed.store.upkeep import Upkeep
from sesamed.store.writing.forgetting import UNFINISHED
from sesamed.store.writing.replay import Replay
from sesamed.store.writing.transaction import Writer

log = logging.getLogger(__name__)

PROGRESS_S = 0.5
ROUNDS = 5  # of catching up with files that grow while the new index is built
KEPT = ("workstation", "roots", "last_sync_at")

Told = Callable[[Progress], Awaitable[None]]


class Runs:
    """Index runs, one at a time."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._running = False
        self.progress: Progress | None = None  # of a full run

    async def sync(self, paths: Iterable[str] | None, timeout_s: float) -> tuple[Pending, list[str]]:
        """Wait until everything on disk at the call is searchable; what is not, when time is up."""
        indexer, ignored = self._indexer, list[str]()
        numbers: dict[bytes, int] = {}
        with anyio.move_on_after(timeout_s):
            if paths is None:
                found_due = await indexer.look_around()
                numbers = indexer.inbox.under_way() | found_due
            found = [] if paths is None else await indexer.in_thread(partial(indexer.sweep.targets, paths))
            for path, target in found:
                if target is None:
                    ignored.append(path)
                else:
                    numbers[target.path] = indexer.inbox.mark(target)
            await indexer.inbox.served(numbers)
        return indexer.inbox.pending(numbers), ignored

    async def index(self, *, full: bool, drop_gone: bool, told: Told | None) -> IndexReport:
        """Look at every file now; with `full`, into a new index."""
        if self._running:
            raise BusyError("an index run is going on already; wait for it, or look at `sesamectl status`")
        self._running, begun = True, time.monotonic()
        try:
            report = await (self._full(drop_gone, told) if full else self._changed(drop_gone, told))
        finally:
            self._running, self.progress = False, None
        return msgspec.structs.replace(report, took_ms=(time.monotonic() - begun) * 1000)

    async def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out, and build the index anew: free pages hold what was deleted, a new file does not."""
        if self._running:
            raise BusyError("an index run is going on, and would bring back what is forgotten now; try again after it")
        self._running = True
        try:
            await self._indexer.forget(sessions)
            await self._full(drop_gone=False, told=None)
        finally:
            self._running, self.progress = False, None

    async def finish_forgetting(self) -> None:
        """A daemon was stopped in between. What fails now is tried again at the next start."""
        async with self._indexer.writing():
            unfinished = await self._indexer.in_thread(partial(self._indexer.index.get, UNFINISHED))
        if unfinished is not None:
            try:
                await self.forget([])
            except SesameError as error:
                log.error("what was forgotten may still be in free pages of the index error=%s", error)  # noqa: TRY400  # no fault of ours

    async def _changed(self, drop_gone: bool, told: Told | None) -> IndexReport:
        indexer = self._indexer
        with self._counted() as sums:
            numbers = await indexer.look_around()
            files = sum(root.files for root in indexer.sweep.roots)
            async with Telling(told, lambda: _progress(indexer.inbox.pending(numbers), numbers, sums)):
                await indexer.inbox.served(numbers)
        errors = sum(path in indexer.failed for path in numbers)
        dropped = await indexer.expire(_now_ms()) if drop_gone and indexer.gone_days is not None else 0
        if drop_gone and indexer.gone_days is None:
            dropped = await indexer.drop(await self._gone())
        if (sums.added or sums.updated or sums.gone or dropped) and not errors:
            await self._remember_sync()
        return IndexReport(
            added=sums.added, updated=sums.updated, skipped=max(0, files - len(numbers)), gone=sums.gone, errors=errors,
            bad_lines=sums.bad_lines, bytes=sums.bytes,
        )  # fmt: skip

    async def _gone(self) -> list[bytes]:
        async with self._indexer.writing():
            return await self._indexer.in_thread(partial(self._indexer.index.writer.files.gone_before, _now_ms()))

    async def _remember_sync(self) -> None:
        async with self._indexer.writing():
            await self._indexer.in_thread(partial(self._indexer.index.put, "last_sync_at", str(_now_ms())))

    @contextmanager
    def _counted(self) -> Iterator[Outcome]:
        sums = Outcome()

        def add(outcome: Outcome) -> None:
            for name in ("added", "updated", "gone", "bad_lines", "bytes"):
                setattr(sums, name, getattr(sums, name) + getattr(outcome, name))

        end = self._indexer.listen(add)
        try:
            yield sums
        finally:
            end()

    # -- a new index

    async def _full(self, drop_gone: bool, told: Told | None) -> IndexReport:
        path = self._indexer.index.path + ".new"
        remove_index(path)
        writer = await self._indexer.in_thread(partial(Writer, path))
        try:
            sums = await self._build(writer, told)
            await self._carry_over(writer, drop_gone)
            await self._swap(writer)
        except BaseException:
            writer.close()
            remove_index(path)
            raise
        await self._indexer.look_around()
        await self._remember_sync()
        self._indexer.wake()  # or nobody folds in the new index's WAL
        return IndexReport(added=sums.added, errors=len(sums.failed), bad_lines=sums.bad_lines, bytes=sums.bytes)

    async def _build(self, writer: Writer, told: Told | None) -> Outcome:
        """Read all files into the new index, and merge it."""
        indexer, sums = self._indexer, Outcome()
        ingest, upkeep = indexer.ingest_into(writer), Upkeep(writer)
        await indexer.in_thread(partial(upkeep.bulk, on=True))
        async with Telling(told, lambda: self.progress or Progress()):
            for _ in range(ROUNDS):
                if not await self._round(ingest, sums, upkeep):
                    break
        await indexer.in_thread(partial(upkeep.bulk, on=False))
        while upkeep.has_work:
            await indexer.in_thread(upkeep.step)
        self._new = ingest
        return sums

    async def _round(self, ingest: Ingest, sums: Outcome, upkeep: Upkeep) -> int:
        due = await self._indexer.due(ingest)
        due = [item for item in due if item.target.path not in sums.failed]
        targets, total = [item.target for item in due], sum(item.unread for item in due)
        done = 0
        while targets:
            outcome = await self._indexer.in_thread(partial(ingest.run, targets[:200], lambda: self._indexer.leaving))
            targets = outcome.unfinished + targets[200:]
            sums.added += outcome.added
            sums.bad_lines += outcome.bad_lines
            sums.bytes += outcome.bytes
            sums.failed |= outcome.failed
            done += outcome.bytes
            upkeep.wrote()
            if upkeep.must_step():
                await self._indexer.in_thread(upkeep.urgent_step)
            self.progress = Progress(
                files_done=len(due) - len(targets), files_total=len(due), bytes_done=min(done, total), bytes_total=total
            )
        return len(due)

    async def _carry_over(self, writer: Writer, drop_gone: bool) -> None:
        """What can't be read now stays as it was indexed."""
        indexer = self._indexer

        def wanted(path: bytes, gone: bool) -> bool:
            return not (indexer.sweep.excludes(path) or (gone and drop_gone))

        for name in KEPT:
            async with indexer.writing():
                await indexer.in_thread(partial(_carry, indexer, writer, name))
        steps = Replay(indexer.index.writer, writer, wanted).run()
        done = object()
        while True:
            async with indexer.writing():
                if await indexer.in_thread(partial(next, steps, done)) is done:
                    return

    async def _swap(self, writer: Writer) -> None:
        """Nobody writes: read what has come meanwhile, and put the new index in the place of the old one."""
        indexer = self._indexer
        async with indexer.writing():
            due = await indexer.due(self._new)
            await indexer.in_thread(partial(self._new.run, [item.target for item in due]))
            await indexer.in_thread(partial(indexer.index.swap, writer))
            await indexer.in_thread(indexer.after_swap)


class Telling:
    """Tells the progress now and then while something runs."""

    def __init__(self, told: Told | None, progress: Callable[[], Progress]) -> None:
        self._told = told
        self._progress = progress
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> None:
        await self._group.__aenter__()
        if self._told is not None:
            self._group.start_soon(self._tell, self._told)

    async def __aexit__(self, *error: object) -> bool | None:
        self._group.cancel_scope.cancel()
        return await self._group.__aexit__(*error)  # type: ignore[arg-type]  # as they came

    async def _tell(self, told: Told) -> None:
        while True:
            await told(self._progress())
            await anyio.sleep(PROGRESS_S)


def _carry(indexer: Indexer, writer: Writer, name: str) -> None:
    if (value := indexer.index.get(name)) is not None:
        writer.set_metadata(name, value)


def _progress(pending: Pending, numbers: dict[bytes, int], sums: Outcome) -> Progress:
    return Progress(
        files_done=len(numbers) - pending.files,
        files_total=len(numbers),
        bytes_done=sums.bytes,
        bytes_total=sums.bytes + pending.bytes,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
