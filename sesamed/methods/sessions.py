"""Sessions: lists, pages of messages, metadata, and resolving references."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from sesamed.errors import ParamsError, RefusedError
from sesamed.methods.filters import Filters, find_main_worktree, make_condition, narrow, warn_of_unknown_tools
from sesamed.methods.method import MAX_OFFSET, Call, CodePoints, Context, NonNegative, Params, find_next_offset, method
from sesamed.methods.resume import (
    Resume,
    ResumeProblem,
    find_problem,
    is_archived,
    make_command_here,
    make_resume,
)
from sesamed.model import Answer, Role, Session, digest, iso_or_none
from sesamed.sanitize import Exact, Line, Time, clean_text
from sesamed.store.ids import Kind
from sesamed.store.reading import session as read
from sesamed.store.reading import summary
from sesamed.store.reading.branch import Branch, Span, find_branch
from sesamed.store.reading.resolve import Project, find, resolve
from sesamed.store.search.filters import Conditions
from sesamed.store.sqlite import Connection

MAX_SESSIONS = 500
MAX_MESSAGES = 200
TEXT_BYTES = 64 << 10
QUIET_MS = 15 * 60_000  # then nobody is at work in a session
PAGE_BYTES = 3 << 20  # of an answer's 4 MiB


class ListSessionsParams(Filters, frozen=True, kw_only=True):
    """Which sessions to list, or which changes."""

    limit: NonNegative = 50
    offset: NonNegative = 0
    similar_to: str | None = None
    since: NonNegative | None = None
    epoch: str | None = None
    needs_memory: bool = False


class RemovedSession(Answer, frozen=True, kw_only=True):
    """A session that was removed, has another key now, or does not pass the filters."""

    source: Exact
    session_id: Exact
    key: Exact
    why: Literal["gone", "forgotten", "excluded", "moved", "filtered"]


class SessionList(Answer, frozen=True, kw_only=True):
    """Sessions, newest activity first; or those that changed, in the order of revisions."""

    total: int
    sessions: list[Session]
    next_offset: int | None
    warnings: list[Line]
    removed: list[RemovedSession]
    revision: int  # up to which the answer is complete
    epoch: Exact
    more: bool


@method
async def list_sessions(context: Context, call: Call, params: ListSessionsParams) -> SessionList:
    """Sessions that pass the filters, newest activity first, or those that changed."""
    if params.since is not None and params.offset:
        raise ParamsError("offset: cannot be combined with since; continue from the answer's revision instead")
    if params.since is not None and params.similar_to is not None:
        raise ParamsError("similarTo: cannot be combined with since, which lists each session by itself")
    if params.since is None and params.epoch is not None:
        raise ParamsError("epoch: only means something together with since")
    if params.since is not None and params.needs_memory:
        raise ParamsError("needsMemory: cannot be combined with since, which lists what changed")
    where = await make_condition(context, params)
    if params.needs_memory:
        where = summary.needs_memory(where, int(time.time() * 1000) - QUIET_MS)
    make_list = _list_all if params.since is None else _list_changes
    troubles = [trouble.message for trouble in context.ingest.troubles()]

    def ask(connection: Connection) -> SessionList:
        found = make_list(connection, params, where, context.workstation)
        return msgspec.structs.replace(found, warnings=troubles + warn_of_unknown_tools(connection, params))

    return await context.queries.ask(call.client, ask)


def _list_all(connection: Connection, params: ListSessionsParams, where: Conditions, workstation: str) -> SessionList:
    limit, offset = min(params.limit, MAX_SESSIONS), min(params.offset, MAX_OFFSET)
    listed = where if params.similar_to is None else narrow(connection, where, params.similar_to)
    total, found = summary.list_sessions(connection, listed, limit, offset, workstation)
    revision, epoch = _read_revision(connection, workstation)
    return SessionList(
        total=total,
        sessions=list(found.values()),
        next_offset=find_next_offset(offset, len(found), total),
        warnings=[],
        removed=[],
        revision=revision,
        epoch=epoch,
        more=offset + len(found) < total,
    )


def _list_changes(
    connection: Connection, params: ListSessionsParams, where: Conditions, workstation: str
) -> SessionList:
    since, (revision, epoch) = params.since or 0, _read_revision(connection, workstation)
    if since > revision or params.epoch not in (None, epoch):
        raise RefusedError(
            f"since: {since} is not a revision of this index, which is at {revision} in epoch {epoch}; the index is a new one or belongs "
            "to another workstation. Start over: drop what you have, and list since 0",
            revision=revision,
            epoch=epoch,
        )
    found = summary.list_changes(connection, where, since, min(params.limit, MAX_SESSIONS), workstation)
    return SessionList(
        total=found.total,
        sessions=found.sessions,
        next_offset=None,
        warnings=[],
        removed=[RemovedSession(**removed._asdict()) for removed in found.removed],
        revision=found.revision,
        epoch=epoch,
        more=found.revision < revision,
    )


def _read_revision(connection: Connection, workstation: str) -> tuple[int, str]:
    """The last revision and its epoch: keys of another workstation are others, too."""
    revision, epoch = summary.read_revision(connection)
    return revision, f"{digest(f'{epoch}:{workstation}'.encode()):016x}"


class ListMessagesParams(Params, frozen=True, kw_only=True):
    """Which part of a session to read."""

    session_id: str
    offset: int = 0  # below 0: from the end
    limit: NonNegative = 50
    around: NonNegative | None = None
    text_offset: CodePoints = 0
    branch: str | None = None  # only what leads to the newest message (`leaf`), or to the one with this entry id
    reveal: bool = False  # secrets as they stand in the transcript


class MessageItem(Answer, frozen=True, kw_only=True):
    """A message or a tool call with its result."""

    msg_idx: int
    role: Role
    kind: Literal["message", "tool_call"]
    tool_name: Line | None
    is_error: bool | None
    timestamp: Time | None
    entry_id: Exact | None
    text: Exact  # cleaned before it was cut
    truncated: bool
    undone: bool = False  # taken back by the person: a reverted or rolled back turn, a message that was replaced
    revision: int = 0  # raised by a late result, and when it is taken back


class MessageList(Answer, frozen=True, kw_only=True):
    """A page of a session."""

    session_id: Exact
    total: int
    next_offset: int | None
    messages: list[MessageItem]


@method
async def list_messages(context: Context, call: Call, params: ListMessagesParams) -> MessageList:
    """A page of a session's messages and tool calls."""
    return await context.queries.ask(call.client, lambda connection: _read_page(connection, params))


def _read_page(connection: Connection, params: ListMessagesParams) -> MessageList:
    """As many messages as fit into an answer."""
    session = find(connection, params.session_id)
    public_id, count = read.count_items(connection, session)
    branch = Branch([Span(0, count - 1)]) if params.branch is None else find_branch(connection, session, params.branch)
    total, limit = branch.total, min(params.limit, MAX_MESSAGES)
    first = params.offset if params.offset >= 0 else max(0, total + params.offset)
    if params.around is not None:
        first = max(0, min(branch.index_of(params.around), total - 1) - limit // 2)
    page: list[MessageItem] = []
    size = 0
    for item in _read_items(connection, session, branch.cut(min(first, MAX_OFFSET), limit)):
        message = _make_message(connection, item, params)
        size += len(json.dumps((message.text, item.tool, item.entry)))  # as bytes: the answer is ASCII, too
        if page and size > PAGE_BYTES:
            break
        page.append(message)
    next_offset = find_next_offset(first, len(page), total)
    return MessageList(session_id=public_id, total=total, next_offset=next_offset, messages=page)


def _read_items(connection: Connection, session: int, spans: Sequence[Span]) -> Iterator[read.Item]:
    for first, last in spans:
        yield from read.read_items(connection, session, first, last - first + 1)


def _make_message(connection: Connection, item: read.Item, params: ListMessagesParams) -> MessageItem:
    text = clean_text(read.read_whole_text(connection, item.record, reveal=params.reveal))[params.text_offset :]
    kept = cut(text, TEXT_BYTES)
    return MessageItem(
        msg_idx=item.position,
        role=item.role,
        kind="message" if item.kind < Kind.CALL else "tool_call",
        tool_name=item.tool,
        is_error=item.is_error,
        timestamp=iso_or_none(item.time_ms),
        entry_id=item.entry,
        text=kept,
        truncated=len(kept) < len(text),
        undone=item.undone,
        revision=item.revision,
    )


def cut(text: str, limit: int) -> str:
    """At most so many bytes of a text, cut at a character."""
    return text if len(text) * 4 <= limit else text[:limit].encode()[:limit].decode("utf-8", "ignore")


class SessionParams(Params, frozen=True, kw_only=True):
    """One session, by its id or a unique prefix of it."""

    session_id: str


Annotated = Literal["title", "summary", "description", "tags", "recallWords"]
CALLED: Mapping[str, Annotated] = {
    "name": "title",
    "summary": "summary",
    "description": "description",
    "tags": "tags",
    "recall_words": "recallWords",
}


class Generated(Answer, frozen=True, kw_only=True):
    """Which model wrote annotations, when, and having read how much; and which of the session's fields are its."""

    model: Line
    at: Time
    up_to: int | None
    cost_usd: float | None
    fields: list[Annotated]


class SessionMeta(Session, frozen=True, kw_only=True):
    """Everything that is known about a session, except its text."""

    recall_words: list[Line]  # here only: they are for finding
    generated: Generated | None
    tool_counts: Mapping[str, int]
    exchange_count: int
    agent: Line | None
    created_by: Line | None
    children: list[Exact]
    archived: bool
    resume: Resume | None
    resume_problem: ResumeProblem | None  # why there is no `resume`
    resume_here: list[Exact] | None  # the command for another directory than the session's


@method
async def get_session_meta(context: Context, call: Call, params: SessionParams) -> SessionMeta:
    """Everything that is known about a session, except its text."""
    return await context.queries.ask(
        call.client, lambda connection: read_meta(connection, find(connection, params.session_id), context.workstation)
    )


def read_meta(connection: Connection, session: int, workstation: str) -> SessionMeta:
    """Everything that is known about a session, except its text. Runs in a reader's thread."""
    about = summary.read_session(connection, session, workstation)
    details = summary.read_details(connection, session)
    origin = summary.read_origin(connection, session)
    problem = find_problem(origin)
    whole = {
        "summary": details.summary,
        "description": details.description,
        "tags": summary.TAGS.decode(details.tags or "[]"),
    }
    return SessionMeta(
        **{**msgspec.structs.asdict(about), **whole},
        tool_counts=read.count_tools(connection, session),
        exchange_count=details.exchanges,
        agent=details.agent or about.source,
        created_by=details.created_by,
        children=summary.list_children(connection, session),
        archived=is_archived(origin),
        resume=None if problem else make_resume(origin),
        resume_problem=problem,
        resume_here=make_command_here(origin, problem),
        recall_words=summary.TAGS.decode(details.recall_words or "[]"),
        generated=_make_generated(details),
    )


def read_generated(connection: Connection, session: int) -> Generated | None:
    """How a session's annotations were generated, if any were. Runs in a reader's thread."""
    return _make_generated(summary.read_details(connection, session))


def _make_generated(details: summary.Details) -> Generated | None:
    if details.generated is None:
        return None
    told = json.loads(details.generated)
    return Generated(
        model=details.generated_by or "",
        at=told["at"],
        up_to=told["upTo"],
        cost_usd=told["costUsd"],
        fields=[CALLED[field] for field in told["fields"]],
    )


class ResolveParams(Params, frozen=True, kw_only=True):
    """A reference to a session, and the directory in which it was typed."""

    ref: str
    cwd: str | None = None


@method
async def resolve_session(context: Context, call: Call, params: ResolveParams) -> Session:
    """The session that an id, the beginning of an id, or a name means."""
    project = None
    if params.cwd is not None:
        project = Project(params.cwd, await find_main_worktree(context, params.cwd))
    return await context.queries.ask(
        call.client,
        lambda connection: summary.read_session(
            connection, resolve(connection, params.ref, project), context.workstation
        ),
    )
