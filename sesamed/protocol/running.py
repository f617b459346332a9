"""The daemon itself: who it is, how it is, what it is to do."""

from typing import Literal

from sesamed.model import Progress
from sesamed.protocol.shapes import Answer, NonNegative, Params, PendingAnswer, Warn
from sesamed.sanitize import Exact


class HelloParams(Params, frozen=True, kw_only=True):
    """Who asks, and which protocol it speaks."""

    client: str | None = None
    protocol: int | None = None


class Hello(Answer, frozen=True, kw_only=True):
    """Who answers, and what it can do."""

    name: str
    version: str
    protocol: int
    min_protocol: int
    pid: int
    schema: int
    methods: list[str]
    started_at: str


class Database(Answer, frozen=True, kw_only=True):
    """The index file."""

    path: Exact
    bytes: int
    wal_bytes: int
    sqlite_version: str
    schema: int


class Counts(Answer, frozen=True, kw_only=True):
    """What the index holds."""

    sessions: int
    chunks: int
    messages: int
    tool_calls: int
    files: int
    gone: int
    bad_lines: int


class SourceStatus(Answer, frozen=True, kw_only=True):
    """One watched directory."""

    parser: str
    path: Exact
    mode: Literal["events", "polling", "missing"]
    files: int
    sessions: int
    directories: int
    warnings: list[str]


class Freshness(Answer, frozen=True, kw_only=True):
    """Milliseconds from an append being seen to its commit."""

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


class Status(Answer, frozen=True, kw_only=True):
    """How the daemon is."""

    version: str
    pid: int
    protocol: int
    started_at: str
    state: Literal["ready", "indexing", "degraded"]
    socket: Exact
    database: Database
    counts: Counts
    sources: list[SourceStatus]
    pending: PendingAnswer
    indexing: Progress | None
    freshness: Freshness
    queries: Queries
    last_sync_at: str | None
    last_event_at: str | None
    last_sweep_at: str | None
    warnings: list[Warn]


class IndexParams(Params, frozen=True, kw_only=True):
    """How thorough an index run is."""

    full: bool = False
    drop_gone: bool = False
    progress: bool = False


class IndexResult(Answer, frozen=True, kw_only=True):
    """What an index run did."""

    added: int
    updated: int
    skipped: int
    gone: int
    errors: int
    bad_lines: int
    bytes: int
    took_ms: float


class SyncParams(Params, frozen=True, kw_only=True):
    """Which files may have grown; all of them when none is named."""

    paths: list[str] | None = None
    timeout_ms: NonNegative | None = None


class SyncResult(Answer, frozen=True, kw_only=True):
    """What is still to be read, and what is none of ours."""

    pending: PendingAnswer
    ignored: list[Exact]


class CancelParams(Params, frozen=True, kw_only=True):
    """The id of a request on this connection."""

    id: str | int


class CancelResult(Answer, frozen=True, kw_only=True):
    """Whether there was something to cancel."""

    cancelled: bool
