"""Sessions that the daemon stores itself, and annotations of any session. Decides what may be written."""

import time
from functools import partial
from typing import Literal

from sesamed.errors import ConflictError, ParamsError, RefusedError
from sesamed.ingest.own_prompts import is_ours
from sesamed.methods.method import MAX_OFFSET, Call, Context, NonNegative, Params, method
from sesamed.methods.sessions import SessionMeta, read_generated, read_meta
from sesamed.model import PROMPT_MARKER, Annotations, Answer, Generation, Utterance, iso
from sesamed.sanitize import Exact
from sesamed.sources.records import SHORT_CHARS, millis
from sesamed.store.reading import session as reading
from sesamed.store.reading.resolve import find, find_called
from sesamed.store.sqlite import Connection

SPEAKERS = ("user", "assistant")
MAX_LINE = 1000  # characters of a title, a name, a tag
MAX_TEXT = 64 << 10  # of a summary or a description
MAX_TAGS = 100  # and recall words
AHEAD_MS = 60_000  # of this clock


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
    _check_length("cwd", params.cwd, SHORT_CHARS)
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
        if params.role == "user" and params.tool_name is None and is_ours(params.text):
            await context.queries.ask(call.client, partial(_require_prompt, reference=params.session_id))
        if (key := context.own.key(path, utterance)) is not None:
            await context.queries.ask(call.client, partial(reading.check_call, key=key, utterance=utterance))
        key = await context.own.append(path, utterance)
    return Appended(msg_idx=await context.queries.ask(call.client, partial(reading.find_written, key=key, path=path)))


def _require_prompt(connection: Connection, reference: str) -> None:
    """Raise RefusedError if nobody has asked anything in the session: one that begins with a prompt of ours would go from the index."""
    if not reading.count_prompts(connection, find(connection, reference), MAX_OFFSET):
        raise RefusedError(f"text: begins with {PROMPT_MARKER}, and a session whose first prompt does is not indexed")


class GeneratedBy(Params, frozen=True, kw_only=True):
    """Which model wrote it, when it was asked, up to which message number it had read, and what it cost."""

    model: str
    at: str
    up_to: NonNegative
    cost_usd: float | None = None


class SetSessionMetaParams(Params, frozen=True, kw_only=True):
    """Annotations. Fields that are left out stay; an empty text removes a field. With `generated` they are a model's."""

    session_id: str
    title: str | None = None
    summary: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    recall_words: list[str] | None = None
    generated: GeneratedBy | None = None
    if_generated: str | None = None


@method
async def set_session_meta(context: Context, call: Call, params: SetSessionMetaParams) -> SessionMeta:
    """Title, summary, description, tags and recall words of any session, a person's or a model's."""
    annotations = _make_annotations(params)
    at = _check_generated(params)
    async with context.describing:
        session, public_id = await context.queries.ask(
            call.client, partial(reading.identify, reference=params.session_id)
        )
        generation = None
        if params.generated is not None:
            generation = await context.queries.ask(
                call.client, partial(_begin, source=session.source, public_id=public_id, at=at, params=params)
            )
        if generation is not None or annotations != Annotations():
            model = "" if params.generated is None else params.generated.model
            await context.own.describe(session, annotations, generation, model)
    return await context.queries.ask(
        call.client,
        lambda connection: read_meta(
            connection, find_called(connection, session.source, public_id), context.workstation
        ),
    )


def _make_annotations(params: SetSessionMetaParams) -> Annotations:
    for name, limit in (("title", MAX_LINE), ("summary", MAX_TEXT), ("description", MAX_TEXT)):
        _check_length(name, getattr(params, name), limit)
    return Annotations(
        title=params.title,
        summary=params.summary,
        description=params.description,
        tags=_check_words("tags", params.tags),
        recall_words=_check_words("recallWords", params.recall_words),
    )


def _check_words(name: str, given: list[str] | None) -> tuple[str, ...] | None:
    """Each once."""
    if given is None:
        return None
    words = tuple(dict.fromkeys(word.strip() for word in given if word.strip()))
    if len(words) > MAX_TAGS:
        raise ParamsError(f"{name}: {len(words)} given, but at most {MAX_TAGS} are allowed")
    for word in words:
        _check_length(name, word, MAX_LINE)
    return words


def _check_generated(params: SetSessionMetaParams) -> str:
    """When the model was asked, as answers give it."""
    if params.generated is None:
        if params.if_generated is not None:
            raise ParamsError("ifGenerated: only means something together with generated")
        return ""
    _check_length("generated.model", params.generated.model, MAX_LINE)
    at = millis(params.generated.at)
    if not params.generated.model.strip():
        raise ParamsError("generated.model: must not be empty")
    if at is None:
        raise ParamsError("generated.at: expected an ISO time, such as 2026-01-31T12:00:00Z")
    if at > time.time() * 1000 + AHEAD_MS:
        raise ParamsError("generated.at: must not be in the future")
    return iso(at)


def _begin(connection: Connection, source: str, public_id: str, at: str, params: SetSessionMetaParams) -> Generation:
    """What is kept of how annotations were generated. Raises ConflictError if others are there than the client has seen."""
    assert params.generated is not None
    session = find_called(connection, source, public_id)
    found = read_generated(connection, session)
    there = "" if found is None else found.at
    if params.if_generated not in (None, there):
        raise ConflictError(
            f"ifGenerated: there are others, generated at {there}; nothing was stored"
            if there
            else "ifGenerated: there are none any more; nothing was stored",
            generated=there,
        )
    last = params.generated.up_to
    prompts = reading.count_prompts(connection, session, min(last, MAX_OFFSET))
    return Generation(at=at, up_to=last, cost_usd=params.generated.cost_usd, prompts=prompts)


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
