"""Sessions: lists, pages of messages, all about one, and which one is meant."""

from collections.abc import Mapping
from typing import Literal

from sesamed.model import SessionSummary
from sesamed.protocol.shapes import Answer, Filters, NonNegative, Params


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


class ResolveParams(Params, frozen=True, kw_only=True):
    """What somebody calls a session, and the directory where they do."""

    ref: str
    cwd: str | None = None


class Resolved(Answer, frozen=True, kw_only=True):
    """The session that is meant, as lists show it."""

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


class SessionMeta(Resolved, frozen=True, kw_only=True):
    """All that is known of a session, but its text."""

    description: str | None
    summary: str | None
    tags: list[str]
    tool_counts: Mapping[str, int]
    exchange_count: int
    agent: str | None
    created_by: str | None
    children: list[str]
    resume: Resume | None
