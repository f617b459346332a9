"""The wire contract, version 1: params, results and the table of methods. No I/O.

Field names are camelCase on the wire. Params refuse unknown fields by name; results may grow, so clients ignore what they do not
know.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sesamed.protocol.reading import (
    ListMessagesParams,
    ListSessionsParams,
    MessageItem,
    MessageList,
    Resolved,
    ResolveParams,
    Resume,
    SessionList,
    SessionMeta,
    SessionParams,
)
from sesamed.protocol.running import (
    CancelParams,
    CancelResult,
    Counts,
    Database,
    Freshness,
    Hello,
    HelloParams,
    IndexParams,
    IndexResult,
    Queries,
    SourceStatus,
    Status,
    SyncParams,
    SyncResult,
)
from sesamed.protocol.searching import (
    Hit,
    Match,
    SearchParams,
    SearchResult,
    SearchSessionsParams,
    WindowHit,
    WindowItem,
    Windows,
    WordCount,
)
from sesamed.protocol.shapes import (
    Answer,
    Empty,
    Filters,
    NonNegative,
    NoParams,
    OneOrMany,
    Params,
    PendingAnswer,
    Warn,
)
from sesamed.protocol.writing import (
    Appended,
    AppendMessageParams,
    ForgetParams,
    Forgotten,
    NewSession,
    NewSessionParams,
    SetSessionMetaParams,
)

PROTOCOL = 1
MIN_PROTOCOL = 1
MAX_REQUEST_BYTES = 1 << 20
MAX_ANSWER_BYTES = 4 << 20

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
SEARCH_SESSIONS = Method(
    "search_sessions", SearchSessionsParams, Windows, "The messages that match best, each with those around it."
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
RESOLVE_SESSION = Method(
    "resolve_session", ResolveParams, Resolved, "The session that is meant by an id, a part of one, or a name."
)
INDEX = Method(
    "index", IndexParams, IndexResult, "Look at every file now; with full, build the index anew beside the old one."
)
SYNC = Method("sync", SyncParams, SyncResult, "Wait until everything on disk at the call is searchable.")
NEW_SESSION = Method("new_session", NewSessionParams, NewSession, "Begin a session that the daemon itself stores.")
APPEND_MESSAGE = Method(
    "append_message", AppendMessageParams, Appended, "Add to such a session; written and searchable when answered."
)
SET_SESSION_META = Method(
    "set_session_meta", SetSessionMetaParams, SessionMeta, "Title, summary, description and tags of any session."
)
FORGET = Method("forget", ForgetParams, Forgotten, "Take sessions out of the index for good; their files stay.")
CANCEL = Method("cancel", CancelParams, CancelResult, "End a running request of this connection.")
SHUTDOWN = Method("shutdown", NoParams, Empty, "Stop the daemon.")

METHODS: tuple[Method[Any, Any], ...] = (
    HELLO, STATUS, SEARCH, SEARCH_SESSIONS, LIST_SESSIONS, LIST_MESSAGES, GET_SESSION_META, RESOLVE_SESSION, INDEX, SYNC,
    NEW_SESSION, APPEND_MESSAGE, SET_SESSION_META, FORGET, CANCEL, SHUTDOWN,
)  # fmt: skip

__all__ = [
    "APPEND_MESSAGE", "CANCEL", "FORGET", "GET_SESSION_META", "HELLO", "INDEX", "LIST_MESSAGES", "LIST_SESSIONS",
    "MAX_ANSWER_BYTES", "MAX_REQUEST_BYTES", "METHODS", "MIN_PROTOCOL", "NEW_SESSION", "PROTOCOL", "RESOLVE_SESSION", "SEARCH",
    "SEARCH_SESSIONS", "SET_SESSION_META", "SHUTDOWN", "STATUS", "SYNC",
    "Answer", "AppendMessageParams", "Appended", "CancelParams", "CancelResult", "Counts", "Database", "Empty", "Filters",
    "ForgetParams", "Forgotten", "Freshness", "Hello", "HelloParams", "Hit", "IndexParams", "IndexResult", "ListMessagesParams",
    "ListSessionsParams", "Match", "MessageItem", "MessageList", "Method", "NewSession", "NewSessionParams", "NoParams",
    "NonNegative", "OneOrMany", "Params", "PendingAnswer", "Queries", "ResolveParams", "Resolved", "Resume", "SearchParams",
    "SearchResult", "SearchSessionsParams", "SessionList", "SessionMeta", "SessionParams", "SetSessionMetaParams",
    "SourceStatus", "Status", "SyncParams", "SyncResult", "Warn", "WindowHit", "WindowItem", "Windows", "WordCount",
]  # fmt: skip
