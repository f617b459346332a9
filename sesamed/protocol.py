"""The wire contract, version 1: params, results and the table of methods. No I/O.

Field names are camelCase on the wire. Params refuse unknown fields by name; results may grow, so clients ignore what they do not
know. A boundary struct is frozen and keyword-only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from sesamed.model import Progress, SessionSummary

PROTOCOL = 1
MIN_PROTOCOL = 1
MAX_REQUEST_BYTES = 1 << 20
MAX_ANSWER_BYTES = 4 << 20

NonNegative = Annotated[int, Meta(ge=0)]
OneOrMany = str | list[str] | None


class Params(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a method takes."""


class Answer(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a method gives."""


class NoParams(Params, frozen=True, kw_only=True):
    """A method without parameters."""


class Empty(Answer, frozen=True, kw_only=True):
    """An answer without fields."""


class Filters(Params, frozen=True, kw_only=True):
    """Which sessions and records count at all; `store.filters` turns them into SQL."""

    cwd: str | None = None
    after: str | None = None
    before: str | None = None
    source: OneOrMany = None
    role: OneOrMany = None
    tool: OneOrMany = None
    exclude: OneOrMany = None
    tools: bool = False
    path: str | None = None
    status: Literal["success", "error"] | None = None
    subagents: Literal["include", "exclude", "only"] = "include"
    workstation: str | None = None
    project: str | None = None


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


class PendingAnswer(Answer, frozen=True, kw_only=True):
    """What is on disk and not yet searchable."""

    files: int
    bytes: int


class Warn(Answer, frozen=True, kw_only=True):
    """Something a person should know, since when."""

    code: str
    message: str
    since: str


class Database(Answer, frozen=True, kw_only=True):
    """The index file."""

    path: str
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
    path: str
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
    socket: str
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


class SearchParams(Filters, frozen=True, kw_only=True):
    """A question."""

    query: str
    limit: NonNegative = 10
    offset: NonNegative = 0
    sort: Literal["relevance", "recent"] = "relevance"
    fresh: bool = False
    timeout_ms: NonNegative | None = None


class Match(Answer, frozen=True, kw_only=True):
    """The record that matched, in the session and file that really hold it."""

    session_id: str
    path: str
    kind: Literal["message", "tool_call"]
    role: str
    tool_name: str | None
    msg_idx: int
    entry_id: str | None
    timestamp: str | None
    undone: bool = False


class Hit(Answer, frozen=True, kw_only=True):
    """A session that matched."""

    session_id: str
    key: str
    source: str
    path: str
    cwd: str | None
    project_path: str | None
    git_branch: str | None
    name: str | None
    score: float
    created: str
    modified: str
    message_count: int
    gone: bool
    subagent: bool
    parent_session_id: str | None
    matched_snippet: str
    highlights: list[tuple[int, int]]
    matched_words: list[str]
    missing_words: list[str]
    match: Match | None
    similar: int
    subagents: int


class WordCount(Answer, frozen=True, kw_only=True):
    """In how many chunks a word of the query stands, whatever the filters."""

    word: str
    chunks: int


class SearchResult(Answer, frozen=True, kw_only=True):
    """The answer to a question; it says how far it can be trusted."""

    query: str
    result_count: int
    results: list[Hit]
    words: list[WordCount]
    corrected: Mapping[str, str]
    dropped: list[str]
    weak: bool
    filtered_out: int
    content_trust: Literal["untrusted-transcript"]
    pending: PendingAnswer
    warnings: list[str]
    took_ms: float


class ListSessionsParams(Filters, frozen=True, kw_only=True):
    """Which sessions to list."""

    limit: NonNegative = 50
    offset: NonNegative = 0


class SessionList(Answer, frozen=True, kw_only=True):
    """Sessions, newest activity first."""

    total: int
    sessions: list[SessionSummary]
    next_offset: int | None


class ListMessagesParams(Params, frozen=True, kw_only=True):
    """Which part of a session to read."""

    session_id: str
    offset: NonNegative = 0
    limit: NonNegative = 50
    around: NonNegative | None = None
    text_offset: NonNegative = 0


class MessageItem(Answer, frozen=True, kw_only=True):
    """A message or a tool call with its result."""

    msg_idx: int
    role: str
    kind: Literal["message", "tool_call"]
    tool_name: str | None
    is_error: bool | None
    timestamp: str | None
    entry_id: str | None
    text: str
    truncated: bool
    undone: bool = False  # taken back by the person: a reverted or rolled back turn, a message that was replaced


class MessageList(Answer, frozen=True, kw_only=True):
    """A page of a session."""

    session_id: str
    total: int
    next_offset: int | None
    messages: list[MessageItem]


class SessionParams(Params, frozen=True, kw_only=True):
    """One session, by its id or a unique prefix of it."""

    session_id: str


class Resume(Answer, frozen=True, kw_only=True):
    """How the agent itself takes the session up again."""

    command: list[str]
    cwd: str | None


class SessionMeta(Answer, frozen=True, kw_only=True):
    """All that is known of a session, but its text."""

    session_id: str
    key: str
    source: str
    path: str
    cwd: str | None
    project_path: str | None
    git_branch: str | None
    name: str | None
    created: str
    modified: str
    message_count: int
    parent_session_id: str | None
    subagent: bool
    gone: bool
    description: str | None
    summary: str | None
    tags: list[str]
    tool_counts: Mapping[str, int]
    exchange_count: int
    agent: str | None
    created_by: str | None
    children: list[str]
    resume: Resume | None


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
    ignored: list[str]


class CancelParams(Params, frozen=True, kw_only=True):
    """The id of a request on this connection."""

    id: str | int


class CancelResult(Answer, frozen=True, kw_only=True):
    """Whether there was something to cancel."""

    cancelled: bool


P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Answer)


@dataclass(frozen=True)
class Method(Generic[P, R]):
    """One thing that can be asked of the daemon."""

    name: str
    params: type[P]
    result: type[R]
    summary: str


HELLO = Method("hello", HelloParams, Hello, "Who answers, which protocol it speaks and which methods it has.")
STATUS = Method("status", NoParams, Status, "What is indexed, watched and pending, and how fast it goes.")
SEARCH = Method(
    "search", SearchParams, SearchResult, "Sessions that match the words best, each with the place that matched."
)
LIST_SESSIONS = Method(
    "list_sessions", ListSessionsParams, SessionList, "Sessions that pass the filters, newest activity first."
)
LIST_MESSAGES = Method(
    "list_messages", ListMessagesParams, MessageList, "A page of a session's messages and tool calls."
)
GET_SESSION_META = Method(
    "get_session_meta", SessionParams, SessionMeta, "All that is known of a session, but its text."
)
INDEX = Method(
    "index", IndexParams, IndexResult, "Look at every file now; with full, build the index anew beside the old one."
)
SYNC = Method("sync", SyncParams, SyncResult, "Wait until everything on disk at the call is searchable.")
CANCEL = Method("cancel", CancelParams, CancelResult, "End a running request of this connection.")
SHUTDOWN = Method("shutdown", NoParams, Empty, "Stop the daemon.")

METHODS: tuple[Method[Any, Any], ...] = (
    HELLO, STATUS, SEARCH, LIST_SESSIONS, LIST_MESSAGES, GET_SESSION_META, INDEX, SYNC, CANCEL, SHUTDOWN,
)  # fmt: skip
