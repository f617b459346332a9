"""The status: put together from the index, the ingest and the server's own samples."""

import os
import time
from collections.abc import Iterable
from typing import Literal

import apsw

from sesamed import __version__
from sesamed.model import Control, Overview
from sesamed.protocol import PROTOCOL, Counts, Database, Freshness, PendingAnswer, Queries, SourceStatus, Status, Warn
from sesamed.server.asking import Asking
from sesamed.store import schema, sqlite
from sesamed.store.upkeep import wal_bytes
from sesamed.times import iso, iso_or_none

OF_ROOT = "SELECT root, count(DISTINCT session) FROM files WHERE session IS NOT NULL GROUP BY root"
LAST_SYNC = "SELECT CAST(value AS INTEGER) FROM metadata WHERE name = 'last_sync_at'"


class Stating:
    """What does not change while the daemon runs, and how its status is made."""

    def __init__(self, socket: str, database: str, workstation: str) -> None:
        self.workstation = workstation
        self.started_at = iso(int(time.time() * 1000))
        self._socket = socket
        self._database = database

    async def status(self, control: Control, asking: Asking) -> Status:
        """How the daemon is now."""
        overview = control.overview()
        counts, sessions, last_sync = await asking.ask(_counted)
        pending = control.pending()
        return Status(
            version=__version__, pid=os.getpid(), protocol=PROTOCOL, started_at=self.started_at, state=_state(overview),
            socket=self._socket, database=self._about_database(), counts=counts, sources=_sources(overview, sessions),
            pending=PendingAnswer(files=pending.files, bytes=pending.bytes), indexing=overview.indexing,
            freshness=Freshness(**_percentiles(overview.freshness_ms), samples=len(overview.freshness_ms)),
            queries=Queries(**_percentiles(asking.times_ms), count=asking.count),
            last_sync_at=last_sync, last_event_at=iso_or_none(overview.last_event_ms),
            last_sweep_at=iso_or_none(overview.last_sweep_ms),
            warnings=[Warn(code=t.code, message=t.message, since=iso(t.since_ms)) for t in overview.troubles],
        )  # fmt: skip

    def _about_database(self) -> Database:
        return Database(
            path=self._database, bytes=_size(self._database), wal_bytes=wal_bytes(self._database),
            sqlite_version=apsw.sqlite_lib_version(), schema=schema.VERSION,
        )  # fmt: skip


def _size(path: str) -> int:
    """0 for a file that somebody has just removed; it is made again within a second."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _state(overview: Overview) -> Literal["ready", "indexing", "degraded"]:
    if overview.troubles:
        return "degraded"
    return "ready" if overview.indexing is None else "indexing"


def _counted(connection: apsw.Connection) -> tuple[Counts, dict[str, int], str | None]:
    chunks, messages, tool_calls = sqlite.one(connection, "SELECT chunks, messages, tool_calls FROM totals")
    sql = "SELECT count(*) FILTER (WHERE session IS NOT NULL), coalesce(sum(bad_lines), 0) FROM files"
    files, bad_lines = sqlite.one(connection, sql)
    sessions, gone = sqlite.one(connection, "SELECT count(*), coalesce(sum(gone), 0) FROM sessions")
    of_root = sqlite.rows(connection, OF_ROOT)
    last_sync = connection.execute(LAST_SYNC).fetchone()
    counts = Counts(
        sessions=sessions,
        chunks=chunks,
        messages=messages,
        tool_calls=tool_calls,
        files=files,
        gone=gone,
        bad_lines=bad_lines,
    )
    return counts, dict(of_root), None if last_sync is None else iso_or_none(last_sync[0])


def _sources(overview: Overview, sessions: dict[str, int]) -> list[SourceStatus]:
    return [
        SourceStatus(
            parser=root.parser, path=root.path, mode=root.mode, files=root.files, sessions=sessions.get(root.real or root.path, 0),
            directories=root.directories, warnings=root.warnings,
        )
        for root in overview.roots
    ]  # fmt: skip


def _percentiles(samples: Iterable[float]) -> dict[str, float | None]:
    ordered = sorted(samples)
    if not ordered:
        return {"p50_ms": None, "p95_ms": None, "p99_ms": None}
    return {
        f"p{share}_ms": round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 3) for share in (50, 95, 99)
    }
