"""The ingest as the server and the status see it."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sesamed.ingest.indexer import Indexer
from sesamed.ingest.requests import Runs
from sesamed.ingest.roots import Tending
from sesamed.model import IndexReport, Overview, Pending, Progress, RootState, SessionKey, Trouble

MAX_NAMED = 3


class IngestControl:
    """What may be asked of the ingest. Keeps since when something is wrong."""

    def __init__(self, indexer: Indexer, tending: Tending, standing: Iterable[Trouble] = ()) -> None:
        self._indexer = indexer
        self._tending = tending
        self._runs = Runs(indexer)
        self._standing = list(standing)
        self._since: dict[str, int] = {}
        self.last_event_ms: int | None = None

    def pending(self) -> Pending:
        """What is on disk and not searchable, as far as is known."""
        return self._indexer.inbox.pending()

    async def sync(self, paths: Iterable[str] | None, timeout_s: float) -> tuple[Pending, list[str]]:
        """Wait until everything on disk is searchable."""
        return await self._runs.sync(paths, timeout_s)

    async def index(
        self, *, full: bool, drop_gone: bool, told: Callable[[Progress], Awaitable[None]] | None
    ) -> IndexReport:
        """Look at every file."""
        return await self._runs.index(full=full, drop_gone=drop_gone, told=told)

    async def forget(self, sessions: Sequence[SessionKey]) -> None:
        """Take sessions out of the index for good, and never in again."""
        await self._runs.forget(sessions)

    async def finish_forgetting(self) -> None:
        """End what an earlier daemon could not."""
        await self._runs.finish_forgetting()

    def overview(self) -> Overview:
        """How the ingest is."""
        return Overview(
            roots=self._roots(), indexing=self._indexing(),
            freshness_ms=list(self._indexer.freshness), last_event_ms=self.last_event_ms,
            last_sweep_ms=self._indexer.last_sweep_ms, troubles=self.troubles(),
        )  # fmt: skip

    def _indexing(self) -> Progress | None:
        """How far an index run or the backlog is; before the first sweep nobody knows what there is."""
        unknown = Progress() if self._indexer.last_sweep_ms is None else None
        return self._runs.progress or self._indexer.backlog_progress() or unknown

    def _roots(self) -> list[RootState]:
        reasons, everywhere = self._tending.reasons, self._tending.reasons.get("*")
        return [
            RootState(
                parser=root.parser, path=root.path, real=root.real, mode=self._tending.mode(root), files=root.files,
                directories=root.directories, warnings=[reason for reason in (reasons.get(root.path), everywhere) if reason],
            )
            for root in self._indexer.sweep.roots
        ]  # fmt: skip

    def troubles(self) -> list[Trouble]:
        """What is wrong now; each with the time at which it was first seen."""
        found: dict[str, str] = {}
        if self._indexer.trouble is not None:
            found["storage"] = self._indexer.trouble.message
        if failed := self._indexer.failed:
            named = ", ".join(
                f"{path.decode('utf-8', 'replace')} ({why})" for path, why in list(failed.items())[:MAX_NAMED]
            )
            found["unreadable"] = f"{len(failed)} files cannot be read and are tried again at every sweep: {named}"
        now = int(time.time() * 1000)
        self._since = {code: self._since.get(code, now) for code in found}
        return [
            *self._standing,
            *(Trouble(code=code, message=text, since_ms=self._since[code]) for code, text in found.items()),
        ]
