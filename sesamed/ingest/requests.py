"""What clients ask of the ingest: syncs, index runs, forgetting, troubles, progress.

Index runs come one at a time.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import anyio
import msgspec

from sesamed.errors import BusyError, SesameError
from sesamed.exclusion import IgnoreFile
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.queue import Ticket
from sesamed.ingest.rebuild import Rebuild, carry_over_damaged, carry_over_older
from sesamed.ingest.roots import RootWatcher
from sesamed.ingest.sweep import Root
from sesamed.model import (
    IndexReport,
    Overview,
    Pending,
    Progress,
    RootState,
    RootWarning,
    SessionKey,
    Trouble,
    TroubleCode,
)
from sesamed.store.index import NOTE, Aside, is_of_today, older_indexes, remove_aside
from sesamed.store.reading.summary import show_path
from sesamed.store.sqlite import DamagedError
from sesamed.store.writing.decisions import UNFINISHED

log = logging.getLogger(__name__)

PROGRESS_S = 0.5
MAX_NAMED = 3

Report: TypeAlias = Callable[[Progress], Awaitable[None]]
ForgetAnnotations: TypeAlias = Callable[[Sequence[SessionKey]], Awaitable[None]]


class Requests:
    """Serves requests to the ingest, and remembers since when something is wrong."""

    def __init__(
        self,
        indexer: Indexer,
        watcher: RootWatcher,
        forget_annotations: ForgetAnnotations,
        standing: Sequence[Trouble] = (),
    ) -> None:
        self._indexer = indexer
        self._watcher = watcher
        self._standing = standing  # the caller's: what is in it at the moment
        self._since: dict[TroubleCode, int] = {}
        self._turn = anyio.Lock()
        self._forget_annotations = forget_annotations
        self._is_cut_short = anyio.Event()  # whoever wanted something forgotten has left before it was done
        self._left_behind: str | None = None  # why an index of an older schema is still there
        self._is_remade = any(map(is_of_today, older_indexes(indexer.index.path)))
        self._rebuild: Rebuild | None = None

    # -- how it is

    def pending(self) -> Pending:
        """What is on disk but not searchable, as far as is known."""
        indexer = self._indexer
        return indexer.pending() if indexer.queue.unserved or indexer.states.notable else Pending()

    def list_unfinished(self, most: int) -> list[tuple[str, int]]:
        """The files whose last line has no newline yet, and how many bytes of it wait."""
        states = self._indexer.states.list_unfinished()
        return [(show_path(state.target.path), state.rest) for state in states[:most]]

    def overview(self) -> Overview:
        """The state of the ingest."""
        return Overview(
            roots=self._roots(),
            indexing=self._progress(),
            freshness_ms=list(self._indexer.freshness),
            last_event_ms=self._indexer.last_event_ms,
            last_sweep_ms=self._indexer.last_sweep_ms,
            excluded=self._indexer.list_project_exclusions(),
            troubles=self.troubles(),
        )

    def troubles(self) -> list[Trouble]:
        """What is wrong now, each with the time when it was first noticed."""
        found: dict[TroubleCode, str] = {}
        if self._indexer.trouble is not None:
            found["storage"] = self._indexer.trouble.message
        if self._indexer.states.notable and (unreadable := self._indexer.states.list_unreadable()):
            named = ", ".join(
                f"{s.target.path.decode('utf-8', 'replace')} ({s.trouble})" for s in unreadable[:MAX_NAMED]
            )
            found["unreadable"] = f"{len(unreadable)} files cannot be read (each sweep tries again): {named}"
        if self._indexer.is_replaced:
            found["damaged"] = (
                "the index was removed or replaced while it was in use, and has been built anew from the session files;"
                " sessions whose files are gone are not in it. This is said until the daemon is started again"
            )
        if self._indexer.projects_trouble is not None:
            found["internal"] = (
                f"the `.sesameignore` of projects cannot be looked for: {self._indexer.projects_trouble}"
            )
        if self._left_behind is not None:
            found["older-index"] = self._left_behind
        elif self._is_remade:
            found["secrets"] = (
                "what becomes of secrets has changed (`secrets` in config.jsonc, or the rules of this version): the index is being built"
                " anew, and until that is done not everything is found"
            )
        now = _now_ms()
        self._since = {code: self._since.get(code, now) for code in found}
        return [
            *self._standing,
            *map(_tell_aside, self._indexer.index.aside),
            *(Trouble(code=code, message=text, since_ms=self._since[code]) for code, text in found.items()),
        ]

    def _progress(self) -> Progress | None:
        """The progress of an index run or of the backlog; before the first sweep it is unknown."""
        if self._rebuild is not None and self._rebuild.progress is not None:
            return self._rebuild.progress
        unknown = Progress() if self._indexer.last_sweep_ms is None else None
        return self._indexer.backlog_progress() or unknown

    def _roots(self) -> list[RootState]:
        return [
            RootState(
                parser=root.parser,
                path=root.path,
                real=root.real,
                mode=self._watcher.mode(root),
                files=root.files,
                directories=root.directories,
                ignore_file=None if (file := self._ignore_file(root)) is None else file.path,
                warnings=[*self._watcher.warnings(root), *self._warnings(root)],
            )
            for root in self._indexer.sweep.roots
        ]

    def _ignore_file(self, root: Root) -> IgnoreFile | None:
        return None if root.real is None else self._indexer.sweep.exclusion.ignore_files.get(root.real)

    def _warnings(self, root: Root) -> list[RootWarning]:
        """What below a root is not read, although it could be."""
        found = self._warn_of_formats(root)
        file = self._ignore_file(root)
        if file is not None and file.trouble is not None:
            until = "nothing new below it is opened" if file.text is None else "its rules as they were last read count"
            text = f"{file.path} cannot be read ({file.trouble}); until it can, {until}"
            found.append(RootWarning("ignoreFile", text))
        if root.trouble is not None:
            text = f"it cannot be looked through: {root.trouble}. Each sweep tries again; until then only events are heeded"
            found.append(RootWarning("sweep", text))
        return found

    def _warn_of_formats(self, root: Root) -> list[RootWarning]:
        return [
            RootWarning("unknownFormat", f"{state.target.path.decode('utf-8', 'replace')} is {state.warning}")
            for state in self._indexer.states.list_warned()
            if state.target.root == root.real
        ]

    # -- syncs and index runs

    async def sync(self, paths: Iterable[str] | None, timeout_s: float) -> tuple[Pending, list[str]]:
        """Wait until everything on disk at the call is searchable. Gives what still is not when the time is up, and the paths outside
        every root. What that is has to be known first, however little time there is.
        """
        indexer, queue, ends_at = self._indexer, self._indexer.queue, anyio.current_time() + timeout_s
        ignored, tickets = list[str](), list[Ticket]()
        if paths is None:
            found = await indexer.look_around()
            tickets = [*queue.under_way(), *found]
        else:
            for path, target in await indexer.resolve(paths):
                if target is None:
                    ignored.append(path)
                else:
                    tickets.append(queue.mark(target))
            if any(ticket.is_wish for ticket in tickets):
                found = await indexer.look_around()
                tickets += [*queue.under_way(), *found]
        with anyio.CancelScope(deadline=ends_at):
            await queue.wait_for(tickets)
        return queue.pending(tickets), ignored

    async def index(self, *, full: bool, drop_gone: bool, report: Report | None) -> IndexReport:
        """Check every file now; with `full`, build a new index."""
        if self._turn.locked():
            raise BusyError("an index run is already in progress; wait for it (`sesamectl status` shows how far it is)")
        begun = time.monotonic()
        async with self._turn:
            run = partial(self._index_all if full else self._index_changes, drop_gone, report)
            replaced = self._indexer.replaced
            try:
                done = await run()
            except Exception:
                if self._indexer.index.damage is None and not replaced.is_set():
                    raise
                await replaced.wait()  # and once more, with the index that takes its place
                done = await run()
        return msgspec.structs.replace(done, took_ms=(time.monotonic() - begun) * 1000)

    async def _index_changes(self, drop_gone: bool, report: Report | None) -> IndexReport:
        """Look at what has changed."""
        indexer, before = self._indexer, msgspec.structs.replace(self._indexer.counts)
        tickets = await indexer.look_around()
        files = sum(root.files for root in indexer.sweep.roots)

        def progress() -> Progress:
            pending, now = indexer.queue.pending(tickets), indexer.committed
            done, read = len(tickets) - pending.files, (indexer.counts - before).bytes
            return Progress(
                files_done=done + min(now.files, pending.files),
                files_total=len(tickets),
                bytes_done=read + min(now.bytes, pending.bytes),
                bytes_total=read + pending.bytes,
            )

        async with ProgressTicker(report, progress):
            await indexer.queue.wait_for(tickets)
        counts = indexer.counts - before
        errors = sum(ticket.state.trouble is not None for ticket in tickets)
        looked_at = sum(not ticket.state.is_gone for ticket in tickets)
        if drop_gone:
            await indexer.expire(all_gone=True)
        return IndexReport(
            added=counts.added,
            updated=counts.updated,
            skipped=max(0, files - looked_at),
            gone=counts.gone,
            errors=errors,
            bad_lines=counts.bad_lines,
            bytes=counts.bytes,
        )

    async def _index_all(self, drop_gone: bool, report: Report | None) -> IndexReport:
        """Read every file into a new index."""
        self._rebuild = rebuild = Rebuild(self._indexer, drop_gone=drop_gone)
        try:
            async with ProgressTicker(report, lambda: rebuild.progress or Progress()):
                counts, errors = await rebuild.run()
        finally:
            self._rebuild = None
        await self._indexer.look_around()
        self._indexer.wake()  # or nobody folds in the new index's WAL
        return IndexReport(added=counts.added, errors=errors, bad_lines=counts.bad_lines, bytes=counts.bytes)

    # -- forgetting

    async def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out, and rebuild the index: free pages contain what was deleted, a new file does not."""
        if self._turn.locked():
            raise BusyError(
                "an index run is in progress and would bring back what is forgotten now; try again when it is done"
            )
        if self._indexer.index.unread:
            raise BusyError(
                "sessions are being carried over from an index that was damaged; try again when that is done"
            )
        async with self._turn:
            try:
                with anyio.CancelScope(
                    shield=True
                ):  # else what is annotated would stay, and nobody would come back for it
                    await self._indexer.forget(sessions)
                    await self._forget_annotations(sessions)
                await self._index_all(drop_gone=False, report=None)
                await self._indexer.write(partial(remove_aside, self._indexer.index))
            except anyio.get_cancelled_exc_class():
                self._is_cut_short.set()
                raise

    # -- what an earlier daemon left

    async def finish_left_over(self) -> None:
        """Finish what an earlier daemon could not: forgetting, and carrying over from an older index. If it fails, the next start tries
        again.
        """
        await self._finish_forgetting()
        if not older_indexes(self._indexer.index.path):
            return
        await self._indexer.queue.wait_for(await self._indexer.look_around())
        async with self._turn:
            self._left_behind = await carry_over_older(self._indexer)
            self._is_remade = False

    async def finish_cut_short(self) -> None:
        """Finish what clients did not wait for: their text would be in the index until it is built anew for another reason."""
        while True:
            await self._is_cut_short.wait()
            self._is_cut_short = anyio.Event()
            await self._finish_forgetting()

    async def save_from_damaged(self) -> None:
        """Carry over what only an index has that was damaged, at a start and whenever one is set aside."""
        while True:
            replaced = self._indexer.replaced
            with suppress(DamagedError):  # another one: again, then
                if self._indexer.index.unread:
                    await self._indexer.queue.wait_for(await self._indexer.look_around())
                    async with self._turn:
                        await carry_over_damaged(self._indexer)
            await replaced.wait()

    async def _finish_forgetting(self) -> None:
        """Not what a client has forgotten since the start: whoever has the turn may be doing just that."""
        while await self._indexer.write(lambda: self._indexer.index.get(UNFINISHED)) is not None:
            if self._turn.locked():
                async with self._turn:  # and not while it is looked again: others would be refused
                    continue
            try:
                await self._forget_annotations(await self._indexer.write(self._indexer.index.list_forgotten))
                await self.forget([])
            except SesameError as error:
                log.error("forgotten text may still be in free pages of the index error=%s", error)  # noqa: TRY400  # no fault of ours
            return


class ProgressTicker:
    """Reports progress from time to time while something runs."""

    def __init__(self, report: Report | None, progress: Callable[[], Progress]) -> None:
        self._report = report
        self._progress = progress
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> None:
        await self._group.__aenter__()
        if self._report is not None:
            self._group.start_soon(self._tick, self._report)

    async def __aexit__(self, *error: object) -> bool | None:
        self._group.cancel_scope.cancel()
        try:
            return await self._group.__aexit__(*error)  # type: ignore[arg-type]  # as they came
        except BaseExceptionGroup as group:  # who waits for the run understands its error, and no group
            raise group.exceptions[0] from None

    async def _tick(self, report: Report) -> None:
        while True:
            await report(self._progress())
            await anyio.sleep(PROGRESS_S)


def _tell_aside(aside: Aside) -> Trouble:
    """What became of an index, until somebody deletes what lies there of it."""
    path, _, salvaged = aside
    if path.endswith(NOTE):
        text = (
            "the index was removed or replaced while it was in use, and with it sessions whose files are gone; "
            f"{path} lists these files. Delete it when you have seen it"
        )
    elif salvaged is None:
        text = f"the index was damaged and has been set aside as {path}; it is built anew from the session files"
    elif not salvaged.is_readable:
        text = (
            f"the index was damaged and has been built anew from the session files. Nothing could be read of {path}, which was set "
            "aside: sessions whose files are gone are only in there. Delete it when you don't need it"
        )
    else:
        lost = f"; of {salvaged.lost} something could not be read" if salvaged.lost else ""
        lost += "; what was in it last could not be read" if salvaged.is_cut else ""
        text = (
            f"the index was damaged and has been built anew. Of the session files that are gone, {salvaged.carried} were carried over from "
            f"{path}{lost}. Delete it when you don't need it"
        )
    return Trouble(code="damaged", message=text, since_ms=aside.since_ms)


def _now_ms() -> int:
    return int(time.time() * 1000)
