"""The daemon itself: its status, cancelling a request, shutdown."""

import os
from collections.abc import Iterable
from typing import Literal

from sesamed import __version__
from sesamed.errors import HubCause
from sesamed.hub import progress
from sesamed.methods.method import PROTOCOL, Call, Context, Empty, NoParams, Params, method
from sesamed.model import (
    Answer,
    Counts,
    Overview,
    Pending,
    Progress,
    ProjectExclusion,
    RootCode,
    TroubleCode,
    WorkstationOrigin,
    iso,
    iso_or_none,
)
from sesamed.sanitize import Exact, Line, Time
from sesamed.sources import SOURCES
from sesamed.store import schema, sqlite
from sesamed.store.reading.summary import read_holdings
from sesamed.store.upkeep import wal_bytes

RARE = {
    (name, os.path.basename(rare))
    for name, source in SOURCES.items()
    for place in source.locations
    for rare in place.rare
}


class Database(Answer, frozen=True, kw_only=True):
    """The index file."""

    path: Exact
    bytes: int
    wal_bytes: int
    sqlite_version: str
    schema: int


class SourceStatus(Answer, frozen=True, kw_only=True):
    """A root."""

    parser: str
    path: Exact
    mode: Literal["events", "polling", "missing"]
    files: int
    sessions: int
    directories: int
    ignore_file: Exact | None
    warnings: list[Line]
    warning_codes: list[RootCode]


class Freshness(Answer, frozen=True, kw_only=True):
    """Milliseconds between noticing an append and committing it."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    samples: int


class Queries(Answer, frozen=True, kw_only=True):
    """Milliseconds a search took in the daemon."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    count: int


class Warn(Answer, frozen=True, kw_only=True):
    """A problem, and since when it exists."""

    code: TroubleCode
    message: Line
    since: Time


class WorkstationStatus(Answer, frozen=True, kw_only=True):
    """The first part of keys."""

    id: Exact
    origin: WorkstationOrigin
    since: Time


class HubStatus(Answer, frozen=True, kw_only=True):
    """How far this workstation has shipped to its hub."""

    phase: Literal["starting", "shipping", "idle", "waiting", "refused"]
    behind: int
    comparing: bool
    sessions: int
    messages: int
    rows_per_second: int
    shipped_at: Time | None
    cause: HubCause | None
    error: Line | None
    since: Time | None
    followed: int
    followed_bytes: int
    follow_error: Line | None


class Status(Answer, frozen=True, kw_only=True):
    """The state of the daemon."""

    version: str
    pid: int
    protocol: int
    started_at: Time
    state: Literal["ready", "indexing", "degraded"]
    socket: Exact
    config_file: Exact
    settings_digest: Exact
    database: Database
    workstation: WorkstationStatus
    counts: Counts
    sources: list[SourceStatus]
    excluded: list[ProjectExclusion]
    pending: Pending
    indexing: Progress | None
    freshness: Freshness
    queries: Queries
    last_sync_at: Time | None
    last_event_at: Time | None
    last_sweep_at: Time | None
    hub: HubStatus | None
    warnings: list[Warn]


@method
async def status(context: Context, call: Call, params: NoParams) -> Status:
    """What is indexed, watched and pending, and how fast the daemon is."""
    overview, station = context.ingest.overview(), context.station
    holdings, hub = await context.queries.ask(call.client, lambda index: (read_holdings(index), _read_hub(context)))
    return Status(
        version=__version__,
        pid=os.getpid(),
        protocol=PROTOCOL,
        started_at=context.started_at,
        state=_find_state(overview),
        socket=context.socket,
        config_file=context.config_file,
        settings_digest=context.settings_digest,
        database=_describe_database(context.database),
        workstation=WorkstationStatus(id=station.id, origin=station.origin, since=station.since),
        counts=holdings.counts,
        sources=_list_sources(overview, holdings.sessions_by_root),
        excluded=overview.excluded,
        pending=context.ingest.pending(),
        indexing=overview.indexing,
        freshness=Freshness(**_find_percentiles(overview.freshness_ms), samples=len(overview.freshness_ms)),
        queries=Queries(**_find_percentiles(context.queries.times_ms), count=context.queries.count),
        last_sync_at=iso_or_none(holdings.changed_ms),
        last_event_at=iso_or_none(overview.last_event_ms),
        last_sweep_at=iso_or_none(overview.last_sweep_ms),
        hub=hub,
        warnings=[Warn(code=t.code, message=t.message, since=iso(t.since_ms)) for t in overview.troubles],
    )


def _read_hub(context: Context) -> HubStatus | None:
    """What the process that ships has last said. Runs in a reader's thread."""
    if not context.hub.is_named:
        return None
    said = progress.read(os.path.dirname(context.database)) or progress.Progress()
    return HubStatus(**{field: getattr(said, field) for field in HubStatus.__struct_fields__})


def _find_state(overview: Overview) -> Literal["ready", "indexing", "degraded"]:
    codes = {trouble.code for trouble in overview.troubles}
    if codes - {"secrets"}:
        return "degraded"
    if codes:
        return "indexing"
    return "ready" if overview.indexing is None else "indexing"


def _describe_database(path: str) -> Database:
    try:
        size = os.path.getsize(path)
    except FileNotFoundError:  # somebody has just removed it; it is made again within a second
        size = 0
    return Database(
        path=path, bytes=size, wal_bytes=wal_bytes(path), sqlite_version=sqlite.LIBRARY_VERSION, schema=schema.VERSION
    )


def _list_sources(overview: Overview, sessions: dict[str, int]) -> list[SourceStatus]:
    return [
        SourceStatus(
            parser=root.parser,
            path=root.path,
            mode=root.mode,
            files=root.files,
            sessions=sessions.get(root.real or root.path, 0),
            directories=root.directories,
            ignore_file=root.ignore_file,
            warnings=[warning.message for warning in root.warnings],
            warning_codes=[warning.code for warning in root.warnings],
        )
        for root in overview.roots
        if root.mode != "missing" or (root.parser, os.path.basename(root.path)) not in RARE
    ]


def _find_percentiles(samples: Iterable[float]) -> dict[str, float | None]:
    ordered = sorted(samples)
    if not ordered:
        return {"p50_ms": None, "p95_ms": None, "p99_ms": None}
    return {
        f"p{share}_ms": round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 3) for share in (50, 95, 99)
    }


class CancelParams(Params, frozen=True, kw_only=True):
    """The id of a request on this connection."""

    id: str | int


class CancelResult(Answer, frozen=True, kw_only=True):
    """Whether there was a request to cancel."""

    cancelled: bool


@method
async def cancel(context: Context, call: Call, params: CancelParams) -> CancelResult:
    """End a running request of this connection."""
    return CancelResult(cancelled=call.cancel(params.id))


@method
async def shutdown(context: Context, call: Call, params: NoParams) -> Empty:
    """Stop the daemon, after this is answered."""
    context.stop()
    return Empty()
