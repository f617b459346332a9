"""A handler for each method: typed params in, typed result out. Questions go to the index, orders to the ingest."""

import os
import time
from collections.abc import Callable
from functools import partial

import apsw

from sesamed import __version__
from sesamed.errors import RefusedError
from sesamed.model import Control, Progress
from sesamed.protocol import (
    CANCEL,
    GET_SESSION_META,
    HELLO,
    INDEX,
    LIST_MESSAGES,
    LIST_SESSIONS,
    METHODS,
    MIN_PROTOCOL,
    PROTOCOL,
    RESOLVE_SESSION,
    SEARCH,
    SEARCH_SESSIONS,
    SHUTDOWN,
    STATUS,
    SYNC,
    CancelParams,
    CancelResult,
    Empty,
    Filters,
    Hello,
    HelloParams,
    IndexParams,
    IndexResult,
    ListMessagesParams,
    ListSessionsParams,
    MessageList,
    NoParams,
    PendingAnswer,
    Resolved,
    ResolveParams,
    SearchParams,
    SearchResult,
    SearchSessionsParams,
    SessionList,
    SessionMeta,
    SessionParams,
    Status,
    SyncParams,
    SyncResult,
    WindowHit,
    Windows,
)  # fmt: skip
from sesamed.sanitize import clean_line
from sesamed.server import reading, when
from sesamed.server.asking import Asking
from sesamed.server.dispatch import Call, Route, route
from sesamed.server.searching import Answered, Searcher
from sesamed.server.stating import Stating
from sesamed.server.windows import windows
from sesamed.store.reading import summaries
from sesamed.store.reading.resolve import Project
from sesamed.store.schema import VERSION
from sesamed.store.search import filters, query
from sesamed.store.search.filters import Where

MAX_HITS = 100
MAX_WINDOWS = 20
MAX_SESSIONS = 500
SYNC_TIMEOUT_MS = 60_000
FRESH_SHARE = 0.5  # of a search's time may go into waiting for what is on disk


class ProgressLine(Progress, frozen=True, kw_only=True, rename="camel"):
    """A progress notification: it names the request it is about."""

    id: str | int | None


class Handlers:
    """What serves the methods."""

    def __init__(
        self,
        control: Control,
        asking: Asking,
        stating: Stating,
        project_of: Callable[[str], str | None],
        stop: Callable[[], None],
    ) -> None:
        self._control = control
        self._asking = asking
        self._stating = stating
        self._project_of = project_of
        self._stop = stop

    def routes(self) -> list[Route]:
        """The table of methods and handlers."""
        return [
            route(HELLO, self.hello),
            route(STATUS, self.status),
            route(SEARCH, self.search),
            route(SEARCH_SESSIONS, self.search_sessions),
            route(LIST_SESSIONS, self.list_sessions),
            route(LIST_MESSAGES, self.list_messages),
            route(GET_SESSION_META, self.get_session_meta),
            route(RESOLVE_SESSION, self.resolve_session),
            route(INDEX, self.index),
            route(SYNC, self.sync),
            route(CANCEL, self.cancel),
            route(SHUTDOWN, self.shutdown),
        ]

    async def hello(self, call: Call, params: HelloParams) -> Hello:
        """Who answers. A client of another protocol is told so by the numbers, and decides."""
        return Hello(
            name="sesamed", version=__version__, protocol=PROTOCOL, min_protocol=MIN_PROTOCOL, pid=os.getpid(), schema=VERSION,
            methods=[method.name for method in METHODS], started_at=self._stating.started_at,
        )  # fmt: skip

    async def status(self, call: Call, params: NoParams) -> Status:
        """How the daemon is."""
        return await self._stating.status(self._control, self._asking)

    async def search(self, call: Call, params: SearchParams) -> SearchResult:
        """Answer a question."""
        begun = time.perf_counter()
        pending = self._control.pending()
        if params.fresh:
            share = (self._asking.limit_ms(params.timeout_ms)) * FRESH_SHARE / 1000
            pending = (await self._control.sync(None, share))[0]
        compiled = query.compiled(params.query)
        where = filters.compiled(await self.where(params))
        limit, offset, recent = min(params.limit, MAX_HITS), min(params.offset, 1 << 40), params.sort == "recent"

        def answer(connection: apsw.Connection) -> Answered:
            return Searcher(connection, compiled, where, self._stating.workstation).run(limit, offset, recent=recent)

        left_ms = (
            None if params.timeout_ms is None else max(1, params.timeout_ms - int((time.perf_counter() - begun) * 1000))
        )
        answered = await self._asking.ask(answer, left_ms)
        took_ms = (time.perf_counter() - begun) * 1000
        self._asking.took(took_ms)
        return SearchResult(
            query=params.query, result_count=len(answered.hits), results=answered.hits, words=answered.words,
            corrected=answered.terms.corrected, dropped=list(answered.terms.dropped), weak=answered.weak,
            filtered_out=answered.filtered_out, content_trust="untrusted-transcript",
            pending=PendingAnswer(files=pending.files, bytes=pending.bytes),
            warnings=[trouble.message for trouble in self._control.troubles()], took_ms=round(took_ms, 3),
        )  # fmt: skip

    async def search_sessions(self, call: Call, params: SearchSessionsParams) -> Windows:
        """Answer a question with what was said around the best places."""
        begun = time.perf_counter()
        compiled = query.compiled(params.query)
        where = filters.compiled(await self.where(params))
        workstation, limit = self._stating.workstation, min(params.limit, MAX_WINDOWS)

        def answer(connection: apsw.Connection) -> list[WindowHit]:
            answered = Searcher(connection, compiled, where, workstation).run(limit, 0, recent=False)
            return windows(connection, answered.hits, params.context_before, params.context_after, workstation)

        hits = await self._asking.ask(answer)
        self._asking.took((time.perf_counter() - begun) * 1000)
        return Windows(hits=hits)

    async def list_sessions(self, call: Call, params: ListSessionsParams) -> SessionList:
        """Sessions, newest activity first."""
        where = filters.compiled(await self.where(params))
        limit, offset = min(params.limit, MAX_SESSIONS), min(params.offset, 1 << 40)
        total, found = await self._asking.ask(
            lambda connection: summaries.listed(connection, where, limit, offset, self._stating.workstation)
        )
        following = offset + len(found)
        return SessionList(
            total=total,
            sessions=[summary for _, summary in found],
            next_offset=following if found and following < total else None,
        )

    async def list_messages(self, call: Call, params: ListMessagesParams) -> MessageList:
        """A page of a session."""
        return await self._asking.ask(lambda connection: reading.messages(connection, params))

    async def get_session_meta(self, call: Call, params: SessionParams) -> SessionMeta:
        """All about a session but its text."""
        return await self._asking.ask(
            lambda connection: reading.meta(connection, params.session_id, self._stating.workstation)
        )

    async def index(self, call: Call, params: IndexParams) -> IndexResult:
        """Look at every file."""

        async def tell(progress: Progress) -> None:
            values = {name: getattr(progress, name) for name in progress.__struct_fields__}
            await call.notify("progress", ProgressLine(id=call.id, **values))

        told = tell if params.progress and call.id is not None else None
        report = await self._control.index(full=params.full, drop_gone=params.drop_gone, told=told)
        return IndexResult(
            added=report.added, updated=report.updated, skipped=report.skipped, gone=report.gone, errors=report.errors,
            bad_lines=report.bad_lines, bytes=report.bytes, took_ms=round(report.took_ms, 3),
        )  # fmt: skip

    async def sync(self, call: Call, params: SyncParams) -> SyncResult:
        """Wait until what is on disk is searchable."""
        timeout_ms = SYNC_TIMEOUT_MS if params.timeout_ms is None else params.timeout_ms
        pending, ignored = await self._control.sync(params.paths, timeout_ms / 1000)
        return SyncResult(pending=PendingAnswer(files=pending.files, bytes=pending.bytes), ignored=ignored)

    async def cancel(self, call: Call, params: CancelParams) -> CancelResult:
        """End a running request of the same connection."""
        return CancelResult(cancelled=call.cancel(params.id))

    async def shutdown(self, call: Call, params: NoParams) -> Empty:
        """Stop; the answer goes out first."""
        self._stop()
        return Empty()

    async def resolve_session(self, call: Call, params: ResolveParams) -> Resolved:
        """The session that somebody means."""
        project = None
        if params.cwd is not None:
            project = Project(params.cwd, await self._main_worktree(params.cwd, self._project_of))
        return await self._asking.ask(
            lambda connection: reading.resolve(connection, params.ref, project, self._stating.workstation)
        )

    async def where(self, params: Filters) -> Where:
        """The filters, typed."""
        now_ms = int(time.time() * 1000)
        project = None if params.cwd is None else await self._main_worktree(params.cwd, self._worktree_of)
        return Where(
            cwd=params.cwd, cwd_project=project,
            after=None if params.after is None else when.milliseconds(params.after, "after", now_ms),
            before=None if params.before is None else when.milliseconds(params.before, "before", now_ms),
            source=_many(params.source), role=_many(params.role), tool=_clean(_many(params.tool)), exclude=_many(params.exclude),
            tools=params.tools, path=params.path or None, status=params.status, subagents=params.subagents,
            here=None if params.workstation is None else params.workstation == self._stating.workstation, project=params.project,
        )  # fmt: skip

    async def _main_worktree(self, cwd: str, look: Callable[[str], str | None]) -> str | None:
        if not cwd.startswith("/"):
            raise RefusedError(
                f"cwd: {cwd[:200]!r} is relative; the daemon does not know to what. Send an absolute path"
            )
        return await self._asking.in_thread(partial(look, cwd))

    def _worktree_of(self, cwd: str) -> str | None:
        """The main worktree, when `cwd` is the top of one: then all worktrees of the repository are meant."""
        return self._project_of(cwd) if os.path.lexists(os.path.join(cwd, ".git")) else None


def _clean(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Names of tools as the index has them."""
    return None if names is None else tuple(map(clean_line, names))


def _many(value: str | list[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)
