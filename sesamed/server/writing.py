"""The methods that change something: own sessions, words on any session, forgetting. What may be written is decided here."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from sesamed.errors import ParamsError
from sesamed.model import Control, Keeper, Utterance, Words
from sesamed.protocol import (
    APPEND_MESSAGE,
    FORGET,
    NEW_SESSION,
    SET_SESSION_META,
    Appended,
    AppendMessageParams,
    Filters,
    ForgetParams,
    Forgotten,
    NewSession,
    NewSessionParams,
    SessionMeta,
    SessionParams,
    SetSessionMetaParams,
)  # fmt: skip
from sesamed.server.asking import Asking
from sesamed.server.dispatch import Call, Route, route
from sesamed.store.reading import own as kept
from sesamed.store.search.filters import Where
from sesamed.store.writing import forgetting as forgotten

SPEAKERS = ("user", "assistant")
MAX_LINE = 1000  # characters of a title, a name, a tag
MAX_WORDS = 64 << 10  # of a summary or a description
MAX_TAGS = 100

Meta = Callable[[Call, SessionParams], Awaitable[SessionMeta]]


class Writing:
    """What serves these methods."""

    def __init__(
        self, control: Control, keeper: Keeper, asking: Asking, where: Callable[[Filters], Awaitable[Where]], meta: Meta
    ) -> None:
        self._control = control
        self._keeper = keeper
        self._asking = asking
        self._where = where
        self._meta = meta
        self._turns = anyio.Lock()  # two results of one call: the second is refused, not lost

    def routes(self) -> list[Route]:
        """The table of methods and handlers."""
        return [
            route(NEW_SESSION, self.new_session),
            route(APPEND_MESSAGE, self.append_message),
            route(SET_SESSION_META, self.set_session_meta),
            route(FORGET, self.forget),
        ]

    async def new_session(self, call: Call, params: NewSessionParams) -> NewSession:
        """Begin a session that the daemon stores."""
        for name in ("agent", "sender", "title"):
            _check_length(name, getattr(params, name), MAX_LINE)
        if params.cwd is not None and (not params.cwd.startswith("/") or "\0" in params.cwd):
            raise ParamsError(f"cwd: {params.cwd[:200]!r} is no absolute path")
        session, path = await self._keeper.begin(
            agent=params.agent, sender=params.sender, cwd=params.cwd, title=params.title
        )
        return NewSession(session_id=session, path=path)

    async def append_message(self, call: Call, params: AppendMessageParams) -> Appended:
        """Add to such a session."""
        said = _utterance(params)
        async with self._turns:
            path = await self._asking.ask(partial(kept.writable, reference=params.session_id))
            if (key := self._keeper.key(path, said)) is not None:
                await self._asking.ask(partial(kept.check_call, key=key, said=said))
            key = await self._keeper.append(path, said)
        return Appended(msg_idx=await self._asking.ask(partial(kept.place, key=key, path=path)))

    async def set_session_meta(self, call: Call, params: SetSessionMetaParams) -> SessionMeta:
        """Keep what a person says of a session."""
        for name, limit in (("title", MAX_LINE), ("summary", MAX_WORDS), ("description", MAX_WORDS)):
            _check_length(name, getattr(params, name), limit)
        tags = None if params.tags is None else tuple(dict.fromkeys(tag.strip() for tag in params.tags if tag.strip()))
        if len(tags or ()) > MAX_TAGS:
            raise ParamsError(f"tags: {len(tags or ())} are too many; at most {MAX_TAGS}")
        for tag in tags or ():
            _check_length("tags", tag, MAX_LINE)
        words = Words(title=params.title, summary=params.summary, description=params.description, tags=tags)
        session, public = await self._asking.ask(partial(kept.named, reference=params.session_id))
        if words != Words():
            await self._keeper.describe(session, words)
        return await self._meta(call, SessionParams(session_id=public))

    async def forget(self, call: Call, params: ForgetParams) -> Forgotten:
        """Take sessions out of the index for good."""
        given = [name for name in ("session_id", "source", "cwd") if getattr(params, name) is not None]
        if len(given) != 1:
            raise ParamsError("forget: name one of sessionId, source and cwd; they are not combined")
        where = await self._where(Filters(source=params.source, cwd=params.cwd))
        sessions, chunks = await self._asking.ask(partial(forgotten.chosen, reference=params.session_id, where=where))
        if sessions and not params.dry_run:
            await self._control.forget(sessions)
            await self._keeper.forget(sessions)
        return Forgotten(sessions=len(sessions), chunks=chunks)


def _check_length(name: str, value: str | None, limit: int) -> None:
    if value is not None and len(value) > limit:
        raise ParamsError(f"{name}: {len(value)} characters are too many; at most {limit}")


def _utterance(params: AppendMessageParams) -> Utterance:
    """What is to be written; refused where a reader could make nothing of it."""
    is_result = params.role == "tool"
    is_call = params.tool_name is not None and not is_result
    if is_call and params.role not in SPEAKERS:
        raise ParamsError(
            f"toolName: a call is made by {' or '.join(SPEAKERS)}, not by {params.role}; a result has the role tool"
        )
    if params.tool_call_id is not None and not (is_result or is_call):
        raise ParamsError("toolCallId: only a call (with toolName) and a result (role tool) have one")
    if params.is_error is not None and not is_result:
        raise ParamsError("isError: only a result (role tool) has it")
    if not (is_result or is_call or params.text.strip()):
        raise ParamsError("text: it is empty")
    for name in ("tool_name", "tool_call_id"):
        _check_length(name, getattr(params, name), MAX_LINE)
    return Utterance(
        role=params.role,
        text=params.text,
        tool=params.tool_name,
        call=params.tool_call_id or None,
        is_error=params.is_error,
    )
