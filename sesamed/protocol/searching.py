"""Questions, and answers that explain themselves."""

from collections.abc import Mapping
from typing import Literal

from sesamed.model import SessionSummary
from sesamed.protocol.shapes import Answer, Filters, NonNegative, PendingAnswer
from sesamed.sanitize import Exact, Line


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

    session_id: Exact
    path: Exact
    kind: Literal["message", "tool_call"]
    role: str
    tool_name: Line | None
    msg_idx: int
    entry_id: Exact | None
    timestamp: Exact | None
    undone: bool = False


class Hit(Answer, frozen=True, kw_only=True):
    """A session that matched."""

    session_id: Exact
    key: Exact
    source: Exact
    path: Exact
    cwd: Exact | None
    project_path: Exact | None
    git_branch: Line | None
    name: Line | None
    score: float
    created: Exact
    modified: Exact
    message_count: int
    gone: bool
    subagent: bool
    parent_session_id: Exact | None
    matched_snippet: Exact  # clean; `highlights` are places in it
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

    query: Exact
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


class SearchSessionsParams(Filters, frozen=True, kw_only=True):
    """A question, and how much to show around what matched."""

    query: str
    context_before: NonNegative = 4
    context_after: NonNegative = 4
    limit: NonNegative = 10


class WindowItem(Answer, frozen=True, kw_only=True):
    """A message or a tool call near a hit; of the hit itself, the part that matched."""

    role: str
    msg_idx: int
    snippet: Exact  # cleaned before it was cut
    truncated: bool
    tool_name: Line | None


class WindowHit(Answer, frozen=True, kw_only=True):
    """A place that matched, in the session that really holds it."""

    session_id: Exact
    msg_idx: int
    score: float
    meta: SessionSummary
    window: list[WindowItem]


class Windows(Answer, frozen=True, kw_only=True):
    """The best places, each with what is around it."""

    hits: list[WindowHit]
