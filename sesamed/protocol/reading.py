"""Sessions: lists, pages of messages, all about one, and which one is meant."""

from collections.abc import Mapping
from typing import Literal

from sesamed.model import SessionSummary
from sesamed.protocol.shapes import Answer, Filters, NonNegative, Params
from sesamed.sanitize import Exact, Line


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
    tool_name: Line | None
    is_error: bool | None
    timestamp: Exact | None
    entry_id: Exact | None
    text: Exact  # cleaned before it was cut
    truncated: bool
    undone: bool = False  # taken back by the person: a reverted or rolled back turn, a message that was replaced


class MessageList(Answer, frozen=True, kw_only=True):
    """A page of a session."""

    session_id: Exact
    total: int
    next_offset: int | None
    messages: list[MessageItem]


class SessionParams(Params, frozen=True, kw_only=True):
    """One session, by its id or a unique prefix of it."""

    session_id: str


class Resume(Answer, frozen=True, kw_only=True):
    """How the agent itself takes the session up again."""

    command: list[Exact]
    cwd: Exact | None


class ResolveParams(Params, frozen=True, kw_only=True):
    """What somebody calls a session, and the directory where they do."""

    ref: str
    cwd: str | None = None


class Resolved(Answer, frozen=True, kw_only=True):
    """The session that is meant, as lists show it."""

    session_id: Exact
    key: Exact
    source: Exact
    path: Exact
    cwd: Exact | None
    project_path: Exact | None
    git_branch: Line | None
    name: Line | None
    created: Exact
    modified: Exact
    message_count: int
    parent_session_id: Exact | None
    subagent: bool
    gone: bool


class SessionMeta(Resolved, frozen=True, kw_only=True):
    """All that is known of a session, but its text."""

    description: str | None
    summary: str | None
    tags: list[Line]
    tool_counts: Mapping[str, int]
    exchange_count: int
    agent: Line | None
    created_by: Line | None
    children: list[Exact]
    resume: Resume | None
