"""Sessions that the daemon stores itself, and annotations of any session. Decides what may be written."""

from functools import partial
from typing import Literal

from sesamed.errors import ParamsError
from sesamed.methods.method import Call, Context, NonNegative, Params, method
from sesamed.methods.sessions import SessionMeta, read_meta
from sesamed.model import Annotations, Answer, Utterance
from sesamed.sanitize import Exact
from sesamed.store.reading import session as reading
from sesamed.store.reading.resolve import find

SPEAKERS = ("user", "assistant")
MAX_LINE = 1000  # characters of a title, a name, a tag
MAX_TEXT = 64 << 10  # of a summary or a description
MAX_TAGS = 100


class NewSessionParams(Params, frozen=True, kw_only=True):
    """Whose session it is, who asks for it, where it is, and its title."""

    agent: str | None = None
    sender: str | None = None
    cwd: str | None = None
    title: str | None = None


class NewSession(Answer, frozen=True, kw_only=True):
    """A session that the daemon stores."""

    session_id: Exact
    path: Exact


@method
async def new_session(context: Context, call: Call, params: NewSessionParams) -> NewSession:
    """Begin a session that the daemon itself stores."""
    for name in ("agent", "sender", "title"):
        _check_length(name, getattr(params, name), MAX_LINE)
    if params.cwd is not None and (not params.cwd.startswith("/") or "\0" in params.cwd):
        raise ParamsError(f"cwd: {params.cwd[:200]!r} is not an absolute path")
    session, path = await context.own.begin(
        agent=params.agent, sender=params.sender, cwd=params.cwd, title=params.title
    )
    return NewSession(session_id=session, path=path)


class AppendMessageParams(Params, frozen=True, kw_only=True):
    """A message; with `toolName` a call (`text` is its arguments), with the role `tool` a result."""

    session_id: str
    role: Literal["user", "assistant", "custom", "summary", "tool"]
    text: str
    tool_name: str | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None


class Appended(Answer, frozen=True, kw_only=True):
    """The message number; a result has that of its call."""

    msg_idx: NonNegative


@method
async def append_message(context: Context, call: Call, params: AppendMessageParams) -> Appended:
    """Append to such a session; the message is written and searchable when this is answered."""
    utterance = _make_utterance(params)
    async with context.appending:
        path = await context.queries.ask(call.client, partial(reading.find_writable, reference=params.session_id))
        if (key := context.own.key(path, utterance)) is not None:
            await context.queries.ask(call.client, partial(reading.check_call, key=key, utterance=utterance))
        key = await context.own.append(path, utterance)
    return Appended(msg_idx=await context.queries.ask(call.client, partial(reading.find_written, key=key, path=path)))


class SetSessionMetaParams(Params, frozen=True, kw_only=True):
    """Annotations. Fields that are left out stay; an empty text removes a field."""

    session_id: str
    title: str | None = None
    summary: str | None = None
    description: str | None = None
    tags: list[str] | None = None


@method
async def set_session_meta(context: Context, call: Call, params: SetSessionMetaParams) -> SessionMeta:
    """Title, summary, description and tags of any session."""
    for name, limit in (("title", MAX_LINE), ("summary", MAX_TEXT), ("description", MAX_TEXT)):
        _check_length(name, getattr(params, name), limit)
    tags = None if params.tags is None else tuple(dict.fromkeys(tag.strip() for tag in params.tags if tag.strip()))
    if len(tags or ()) > MAX_TAGS:
        raise ParamsError(f"tags: {len(tags or ())} given, but at most {MAX_TAGS} are allowed")
    for tag in tags or ():
        _check_length("tags", tag, MAX_LINE)
    annotations = Annotations(title=params.title, summary=params.summary, description=params.description, tags=tags)
    session, public_id = await context.queries.ask(call.client, partial(reading.identify, reference=params.session_id))
    if annotations != Annotations():
        await context.own.describe(session, annotations)
    return await context.queries.ask(
        call.client, lambda connection: read_meta(connection, find(connection, public_id), context.workstation)
    )


def _check_length(name: str, value: str | None, limit: int) -> None:
    if value is not None and len(value) > limit:
        raise ParamsError(f"{name}: {len(value)} characters, but at most {limit}")


def _make_utterance(params: AppendMessageParams) -> Utterance:
    """What to write; raises ParamsError if it would make no sense to a reader."""
    is_result = params.role == "tool"
    is_call = params.tool_name is not None and not is_result
    if is_call and params.role not in SPEAKERS:
        raise ParamsError(
            f"toolName: only the roles {' and '.join(SPEAKERS)} make calls, not {params.role}; the role of a result is tool"
        )
    if params.tool_call_id is not None and not (is_result or is_call):
        raise ParamsError("toolCallId: only allowed for a call (with toolName) or a result (role tool)")
    if params.is_error is not None and not is_result:
        raise ParamsError("isError: only allowed for a result (role tool)")
    if not (is_result or is_call or params.text.strip()):
        raise ParamsError("text: must not be empty")
    for name in ("tool_name", "tool_call_id"):
        _check_length(name, getattr(params, name), MAX_LINE)
    return Utterance(
        role=params.role,
        text=params.text,
        tool=params.tool_name,
        call=params.tool_call_id or None,
        is_error=params.is_error,
    )
