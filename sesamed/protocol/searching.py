"""Questions, and answers that explain themselves."""

from collections.abc import Mapping
from typing import Literal

from sesamed.model import SessionSummary
from sesamed.protocol.shapes import Answer, Filters, NonNegative, PendingAnswer


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
    snippet: str
    truncated: bool
    tool_name: str | None


class WindowHit(Answer, frozen=True, kw_only=True):
    """A place that matched, in the session that really holds it."""

    session_id: str
    msg_idx: int
    score: float
    meta: SessionSummary
    window: list[WindowItem]


class Windows(Answer, frozen=True, kw_only=True):
    """The best places, each with what is around it."""

    hits: list[WindowHit]
