"""Sessions: pages of messages, metadata, and resolving references."""

import json
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from sesamed.errors import ParamsError
from sesamed.hub.question import Question
from sesamed.hub.sessions import HubMessage, Part, list_children, read_page, read_sessions
from sesamed.hub.sessions import find as find_there
from sesamed.methods.elsewhere import (
    Scope,
    ask_first,
    ask_hub,
    limit_ms,
    make_session,
    read_tool_counts,
)
from sesamed.methods.filters import find_main_worktree
from sesamed.methods.method import MAX_OFFSET, Call, CodePoints, Context, NonNegative, Params, find_next_offset, method
from sesamed.methods.resume import (
    Resume,
    ResumeProblem,
    find_problem,
    find_problem_elsewhere,
    is_archived,
    make_command_here,
    make_resume,
)
from sesamed.model import Answer, Role, Session, iso_or_none
from sesamed.sanitize import Exact, Line, Time, clean_line, clean_text
from sesamed.store.ids import Kind
from sesamed.store.reading import session as read
from sesamed.store.reading import summary
from sesamed.store.reading.branch import Branch, Span, find_branch
from sesamed.store.reading.resolve import Project, find, resolve
from sesamed.store.sqlite import Connection

MAX_MESSAGES = 200
TEXT_BYTES = 64 << 10
PAGE_BYTES = 3 << 20  # of an answer's 4 MiB


class ListMessagesParams(Params, frozen=True, kw_only=True):
    """Which part of a session to read."""

    session_id: str
    offset: int = 0  # below 0: from the end
    limit: NonNegative = 50
    around: NonNegative | None = None
    text_offset: CodePoints = 0
    branch: str | None = None  # only what leads to the newest message (`leaf`), or to the one with this entry id
    reveal: bool = False  # secrets as they stand in the transcript
    scope: Scope = "here"


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

    async def here() -> MessageList:
        return await context.queries.ask(call.client, lambda connection: _read_page(connection, params))

    def there() -> Awaitable[MessageList]:
        if params.branch is not None:
            raise ParamsError("branch: a hub has no branches; leave it out")
        if params.reveal:
            raise ParamsError("reveal: a hub does not have what is masked; leave it out")
        return ask_hub(context, partial(_read_page_there, params), limit_ms(context, params.scope))

    return await ask_first(params.scope, here, there)


def _read_page_there(params: ListMessagesParams, question: Question) -> MessageList:
    session = find_there(question, params.session_id)
    (about,) = read_sessions(question, [session])
    total, limit = int(about.values["total"]), min(params.limit, MAX_MESSAGES)
    first = params.offset if params.offset >= 0 else max(0, total + params.offset)
    if params.around is not None:
        first = max(0, min(params.around, total - 1) - limit // 2)
    page: list[MessageItem] = []
    size = 0
    part = Part(min(first, total), limit, params.text_offset, TEXT_BYTES + 1)  # one more says whether there is more
    for found in read_page(question, session, part):
        message = _make_message_there(found)
        size += len(json.dumps((message.text, found.tool, found.entry)))
        if page and size > PAGE_BYTES:
            break
        page.append(message)
    following = page[-1].msg_idx + 1 if page else total
    next_offset = following if following < total else None
    return MessageList(session_id=make_session(about).key, total=total, next_offset=next_offset, messages=page)


def _make_message_there(found: HubMessage) -> MessageItem:
    text = clean_text(found.text)
    kept = cut(text, TEXT_BYTES)
    return MessageItem(
        msg_idx=found.number,
        role=found.as_role,
        kind="message" if found.kind == "message" else "tool_call",
        tool_name=found.tool,
        is_error=found.is_error,
        timestamp=iso_or_none(found.time_ms),
        entry_id=None if found.entry is None else clean_line(found.entry),
        text=kept,
        truncated=len(kept) < len(text) or len(found.text) > TEXT_BYTES,
        undone=found.undone,
        revision=found.serial,
    )


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
    scope: Scope = "here"


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

    async def here() -> SessionMeta:
        return await context.queries.ask(
            call.client,
            lambda connection: read_meta(connection, find(connection, params.session_id), context.workstation),
        )

    def there() -> Awaitable[SessionMeta]:
        return ask_hub(context, partial(_read_meta_there, params.session_id), limit_ms(context, params.scope))

    return await ask_first(params.scope, here, there)


def _read_meta_there(reference: str, question: Question) -> SessionMeta:
    (about,) = read_sessions(question, [find_there(question, reference)])
    session = make_session(about)
    values = about.values
    whole = {name: clean_text(values[name]) if values[name] else None for name in ("summary", "description")}
    return SessionMeta(
        **{**msgspec.structs.asdict(session), **whole, "tags": values["tags"]},
        tool_counts=read_tool_counts(values["tool_counts"]),
        exchange_count=values["exchange_count"],
        agent=session.source,
        created_by=None,
        children=[clean_line(child) for child in list_children(question, about)],
        archived=False,
        resume=None,
        resume_problem=find_problem_elsewhere(session.workstation),
        resume_here=None,
        recall_words=values["recall_words"],
        generated=None,
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
