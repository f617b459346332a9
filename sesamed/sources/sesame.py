"""Sessions that the daemon stores itself, and what a person says of sessions of any source. JSONL, one line one thing said.

Owns the lines, read and written: nobody else knows their fields. A call and its result are tied by `toolCallId` alone, so that who
writes a line knows the record's key without reading the file.
"""

from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import (
    Fact,
    Field,
    Identity,
    Message,
    NameRank,
    Operation,
    Role,
    SessionKey,
    ToolCall,
    ToolResult,
    Unknown,
    Utterance,
    Words,
)
from sesamed.source import BadLineError, ForeignFileError, Lines, Location
from sesamed.sources.calls import OpenCall, closed, opened
from sesamed.sources.keys import record_key
from sesamed.sources.lines import repaired
from sesamed.sources.names import session_name
from sesamed.sources.own_tools import is_ours
from sesamed.sources.times import millis

SESSION, SAID, WORDS = "sesame.session", "said", "sesame.words"
ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "custom": "custom",
    "summary": "summary",
    "tool": "assistant",
}


class Line(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Any line: the header of a session, something said in it, or words on a session."""

    type: str
    id: str = ""
    timestamp: str = ""
    agent: str | None = None  # header, and so are the next three
    created_by: str | None = None
    cwd: str | None = None
    title: str | None = None  # and in words on a session, as the next five
    source: str = ""
    session: str = ""
    summary: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    role: str = ""  # of something said, and so are the others
    text: str = ""
    tool_name: str | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None


class State(msgspec.Struct, frozen=True):
    """What the lines so far mean for the next one. Never changed in place."""

    session: str = ""
    cwd: str | None = None
    named: bool = False
    calls: dict[str, OpenCall] = {}


Step = tuple[State, list[Operation]]
DECODE: Final = msgspec.json.Decoder(Line).decode
THAW: Final = msgspec.json.Decoder(State).decode


class Sesame:
    """The source of our own sessions."""

    name = "sesame"
    label = "sesame"
    version = 1
    locations: tuple[Location, ...] = ()  # in the data directory, wherever that is
    shapes = (Lines(files=("**/*.jsonl", "**/*.jsonl.zst")),)
    resume = None

    def begin(self, path: PurePath, _: str = "") -> Step:
        """The file's place says nothing."""
        return State(), []

    def step(self, state: State, line: bytes) -> Step:
        """A line's operations, and the state after it."""
        try:
            entry = DECODE(repaired(line))
        except (ValueError, RecursionError) as error:
            raise BadLineError("no line of ours") from error
        if entry.type == WORDS:
            return msgspec.structs.replace(state, session=state.session or "-"), _words(entry)
        if not state.session:
            return _begun(entry)
        if entry.type == SAID and entry.role in ROLES:
            return _said(state, entry)
        return state, [Unknown(type=entry.type)]

    def freeze(self, state: State) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(state)

    def thaw(self, data: bytes) -> State:
        """The state from its JSON."""
        return THAW(data)


def said(entry: str, timestamp: str, what: Utterance) -> Line:
    """A line of a session."""
    return Line(
        type=SAID, id=entry, timestamp=timestamp, role=what.role, text=what.text, tool_name=what.tool, tool_call_id=what.call,
        is_error=what.is_error,
    )  # fmt: skip


def encoded(line: Line) -> bytes:
    """A line with its newline."""
    return msgspec.json.encode(line) + b"\n"


def words_on(session: SessionKey, words: Words, before: bytes) -> bytes:
    """The one line of a file of words on a session: what was said before, and over it what is said now."""
    try:
        line = DECODE(before.split(b"\n", 1)[0])
    except ValueError:
        line = Line(type=WORDS)
    line = msgspec.structs.replace(line, type=WORDS, source=session.source, session=session.native_id)
    for name in ("title", "summary", "description"):
        if (value := getattr(words, name)) is not None:
            setattr(line, name, value)
    if words.tags is not None:
        line.tags = list(words.tags)
    return encoded(line)


def key_of(session: str, line: Line) -> int:
    """The key of the record that a line makes or adds to."""
    if line.tool_call_id and _is_of_tool(line):
        return record_key(f"sesame\0{session}\0call", line.tool_call_id)
    return record_key(f"sesame\0{session}\0{line.id}\0{line.timestamp}\0{line.role}\0{line.tool_name or ''}", line.text)


def _is_of_tool(line: Line) -> bool:
    return line.role == "tool" or (line.role in ("user", "assistant") and line.tool_name is not None)


def _begun(line: Line) -> Step:
    if line.type != SESSION or not line.id:
        raise ForeignFileError("the first line is no header of a session of ours")
    began = millis(line.timestamp)
    facts = (
        Fact(field="cwd", value=line.cwd or ""),
        Fact(field="began", value="" if began is None else str(began)),
        Fact(field="agent", value=line.agent or ""),
        Fact(field="created_by", value=line.created_by or ""),
        Fact(field="name", value=" ".join((line.title or "").split()), rank=NameRank.GIVEN),
    )
    identity = Identity(native_id=line.id, origin=f"{line.id} {line.timestamp}")
    return State(session=line.id, cwd=line.cwd), [identity, *(fact for fact in facts if fact.value)]


def _said(state: State, line: Line) -> Step:
    key = key_of(state.session, line)
    if line.role == "tool":
        return _result(state, line, key)
    if _is_of_tool(line):
        return _call(state, line, key)
    role = ROLES[line.role]
    message = Message(
        key=key,
        role=role,
        text=line.text,
        entry=line.id or None,
        time_ms=millis(line.timestamp),
        prompt=role == "user",
    )
    if role != "user" or state.named or not (name := session_name(line.text)):
        return state, [message]
    return msgspec.structs.replace(state, named=True), [message, Fact(field="name", value=name, rank=NameRank.PROMPT)]


def _call(state: State, line: Line, key: int) -> Step:
    call = _made(state, line, key, line.text.encode() or b"{}")
    if line.tool_call_id:
        calls = opened(state.calls, {line.tool_call_id: OpenCall(key, call.hidden)})
        state = msgspec.structs.replace(state, calls=calls)
    return state, [call]


def _result(state: State, line: Line, key: int) -> Step:
    """What a call gave back; if we don't know the call, a call of its own."""
    open_call = state.calls.get(line.tool_call_id or "")
    is_error = bool(line.is_error)
    if open_call is None:
        alone = _made(state, line, key, b"{}")
        return state, [msgspec.structs.replace(alone, output=line.text, is_error=is_error)]
    result = ToolResult(
        key=key, text=line.text, is_error=is_error, time_ms=millis(line.timestamp), hidden=open_call.hidden
    )
    return msgspec.structs.replace(state, calls=closed(state.calls, line.tool_call_id or "")), [result]


def _made(state: State, line: Line, key: int, arguments: bytes) -> ToolCall:
    name = line.tool_name or "tool"
    return ToolCall(
        key=key, name=name, arguments=arguments, role=ROLES[line.role], cwd=state.cwd, entry=line.id or None,
        time_ms=millis(line.timestamp), hidden=is_ours(name, arguments),
    )  # fmt: skip


def _words(line: Line) -> list[Operation]:
    if not line.source or not line.session:
        return [Unknown(type=WORDS)]
    tags = "" if not line.tags else msgspec.json.encode(line.tags).decode()
    values: tuple[tuple[Field, str], ...] = (
        ("name", " ".join((line.title or "").split())),
        ("summary", line.summary or ""),
        ("description", line.description or ""),
        ("tags", tags),
    )
    return [
        Fact(field=field, value=value, rank=NameRank.ANNOTATED, native_id=line.session, source=line.source)
        for field, value in values
        if value
    ]
