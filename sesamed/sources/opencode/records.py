"""What the session, a message and a part become.

A fork copies messages and parts under new ids, with the times and the calls' ids that they had: keys are made from those. A text of the
model's is not in its key, for it is written again as it grows; what a person wrote is written once.
"""

import re
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.model import Fact, Identity, NameRank, Operation, Undone, Unknown
from sesamed.source import ForeignFileError
from sesamed.sources.keys import record_key
from sesamed.sources.names import session_name
from sesamed.sources.opencode.lines import MessageInfo, Part, SessionInfo, ToolState
from sesamed.sources.records import Place
from sesamed.sources.times import millis

UNTITLED: Final = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT.*")  # until the model has found one
RANDOM_CHARS: Final = 16  # a server's own ids of calls may be `call_1`
SILENT: Final = frozenset("reasoning file subtask compaction agent patch snapshot step-start step-finish retry".split())


class OpenCodeState(msgspec.Struct, frozen=True, kw_only=True):
    """What the items so far mean for the next one. Never changed in place."""

    cwd: str | None = None
    named: bool = False
    revert: str | None = None  # the message from which on all was taken back
    reverted: bool = False  # it was met
    role: str = ""  # of the message whose parts come, as are the others
    message: str | None = None
    created: int | None = None
    summary: bool = False
    place: str | None = None  # its directory
    texts: int = 0  # of its parts so far


Step = tuple[OpenCodeState, list[Operation]]


def read_session(state: OpenCodeState, session: SessionInfo) -> Step:
    """Who it is. A title may still be the program's own."""
    if not session.id:
        raise ForeignFileError("it does not say which session it is")
    began_ms = millis(session.time.created) if session.time is not None else None
    title = " ".join((session.title or "").split())
    facts = (
        Fact(field="cwd", value=session.directory or ""),
        Fact(field="began", value="" if began_ms is None else str(began_ms)),
        Fact(field="subagent", value="1" if session.parent else ""),
        Fact(field="parent_id", value=session.parent or ""),
        Fact(field="name", value="" if UNTITLED.fullmatch(title) else title, rank=NameRank.TITLED, keep="last"),
    )
    revert = session.revert.message if session.revert is not None else None
    state = replace(state, cwd=session.directory, revert=revert)
    return state, [Identity(native_id=session.id, origin=""), *(fact for fact in facts if fact.value)]


def read_message(state: OpenCodeState, message: MessageInfo) -> Step:
    """Whose the parts are that come next."""
    is_summary = bytes(message.summary) == b"true"
    state = replace(
        state,
        role=message.role,
        message=message.id,
        created=millis(message.time.created) if message.time is not None else None,
        summary=is_summary,
        place=(message.path.cwd if message.path is not None else None) or state.cwd,
        texts=0,
        reverted=state.reverted or (state.revert is not None and message.id == state.revert),
    )
    return state, [] if message.role in ("user", "assistant") else [Unknown(type=f"message/{message.role}")]


def read_part(state: OpenCodeState, part: Part) -> Step:
    """A text or a call; all else says nothing."""
    if part.type == "text":
        state, operations = _read_text(state, part)
    elif part.type == "tool" and part.state is not None:
        operations = [_read_call(state, part, part.state)]
    else:
        return state, [] if part.type in SILENT else [Unknown(type=f"part/{part.type}")]
    if state.reverted:
        keys = [key for operation in operations if (key := getattr(operation, "key", None)) is not None]
        operations += [Undone(key=key, alone=True) for key in keys]
    return state, operations


def _read_text(state: OpenCodeState, part: Part) -> Step:
    """What was said, if it is not the program's own."""
    text = part.text or ""
    state = replace(state, texts=state.texts + 1)
    if part.synthetic or part.ignored or not text.strip():
        return state, []
    stamp = f"opencode\0{state.created}\0{state.role}"
    if state.role == "user":
        key = record_key(stamp, text)
        text = _unquote(text)
        operations: list[Operation] = [_place(state, part).message(key, "user", text, prompt=True)]
        name = "" if state.named else session_name(text)
        if name:
            operations.append(Fact(field="name", value=name, rank=NameRank.PROMPT))
        return replace(state, named=state.named or bool(name)), operations
    start = part.time.start if part.time is not None else None
    key = record_key(f"{stamp}\0text", f"{state.texts} {start}")
    return state, [_place(state, part).message(key, "summary" if state.summary else "assistant", text)]


def _read_call(state: OpenCodeState, part: Part, call: ToolState) -> Operation:
    """A call, and its end, if it has come to one: a shell that failed is completed, too."""
    lasting = part.call if part.call and len(part.call) >= RANDOM_CHARS else f"{part.call}\0{state.created}"
    failed = (
        call.status == "error"
        or part.tool == "invalid"
        or (call.metadata is not None and call.metadata.exit not in (None, 0))
    )
    has_ended = call.status in ("completed", "error")
    return _place(state, part).call(
        record_key("opencode\0call", lasting),
        part.tool or "",
        bytes(call.input),
        output=(call.output or call.error or "") if has_ended else None,
        is_error=failed if has_ended else None,
    )


def _place(state: OpenCodeState, part: Part) -> Place:
    span = part.state.time if part.state is not None else part.time
    time_ms = millis(span.start) if span is not None else None
    return Place(entry=part.id, time_ms=state.created if time_ms is None else time_ms, cwd=state.place or state.cwd)


def _unquote(text: str) -> str:
    """`opencode run "…"` keeps the quotes."""
    inner = text[1:-1]
    return inner if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner else text
