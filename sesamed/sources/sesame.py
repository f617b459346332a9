"""Sessions that the daemon stores itself, and annotations of sessions of any source. JSONL, one message per line.

Owns the lines, read and written: nobody else knows their fields. A call and its result are tied by `toolCallId` alone, so that who
writes a line knows the record's key without reading the file.
"""

from pathlib import PurePath
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.model import (
    Annotations,
    Fact,
    Field,
    Identity,
    NameRank,
    Operation,
    Role,
    SessionKey,
    Unknown,
    Utterance,
    record_key,
)
from sesamed.sanitize import clean_line
from sesamed.source import BadLineError, ForeignFileError, Lines, Location, ToolFamilies
from sesamed.sources.lines import JsonState, repair
from sesamed.sources.names import one_line, prompt_fact, title_fact
from sesamed.sources.records import OpenCall, Place, add_open, drop_open, millis

SESSION, SAID, WORDS = "sesame.session", "said", "sesame.words"
ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "custom": "custom",
    "summary": "summary",
    "tool": "assistant",
}


class Line(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Any line: the header of a session, a message, or annotations of a session."""

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
    """What earlier lines mean for the next one. Never changed in place."""

    session: str = ""
    cwd: str | None = None
    named: bool = False
    calls: dict[str, OpenCall] = {}


Step = tuple[State, list[Operation]]
DECODE: Final = msgspec.json.Decoder(Line).decode


class Sesame(JsonState[State]):
    """The source of the daemon's own sessions."""

    name = "sesame"
    label = "sesame"
    version = 3
    locations: tuple[Location, ...] = ()  # in the data directory, wherever that is
    shapes = (Lines(files=("**/*.jsonl", "**/*.jsonl.zst")),)
    resume = None
    tool_families = ToolFamilies()  # its calls are those of other agents

    def __init__(self) -> None:
        super().__init__(State)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """The file's place says nothing."""
        return State(), []

    def step(self, state: State, item: bytes) -> Step:
        """The state after a line, and its operations."""
        try:
            entry = DECODE(repair(item))
        except (ValueError, RecursionError) as error:
            raise BadLineError("not a line of sesame") from error
        if entry.type == WORDS:
            return replace(state, session=state.session or "-"), _read_words(entry)
        if not state.session:
            return _read_header(entry)
        if entry.type == SAID and entry.role in ROLES:
            return _read_utterance(state, entry)
        return state, [Unknown(type=entry.type)]


def make_line(entry: str, timestamp: str, what: Utterance) -> Line:
    """A line of a session."""
    return Line(
        type=SAID,
        id=entry,
        timestamp=timestamp,
        role=what.role,
        text=what.text,
        tool_name=what.tool,
        tool_call_id=what.call,
        is_error=what.is_error,
    )


def encode_line(line: Line) -> bytes:
    """A line with its newline."""
    return msgspec.json.encode(line) + b"\n"


def merge_annotations(session: SessionKey, annotations: Annotations, before: bytes) -> bytes:
    """The one line of an annotations file: the old annotations, overlaid with the new ones."""
    try:
        line = DECODE(before.split(b"\n", 1)[0])
    except ValueError:
        line = Line(type=WORDS)
    line = replace(line, type=WORDS, source=session.source, session=session.native_id)
    for name in ("title", "summary", "description"):
        if (value := getattr(annotations, name)) is not None:
            setattr(line, name, value)
    if annotations.tags is not None:
        line.tags = list(annotations.tags)
    return encode_line(line)


def key_of(session: str, line: Line) -> int:
    """The key of the record that a line creates or adds to."""
    if line.tool_call_id and _is_of_tool(line):
        return record_key(f"sesame\0{session}\0call", line.tool_call_id)
    return record_key(f"sesame\0{session}\0{line.id}\0{line.timestamp}\0{line.role}\0{line.tool_name or ''}", line.text)


def _is_of_tool(line: Line) -> bool:
    return line.role == "tool" or (line.role in ("user", "assistant") and line.tool_name is not None)


def _read_header(line: Line) -> Step:
    if line.type != SESSION or not line.id:
        raise ForeignFileError("the first line is not the header of a session of sesame")
    began = millis(line.timestamp)
    facts = (
        Fact(field="cwd", value=line.cwd or ""),
        Fact(field="began", value="" if began is None else str(began)),
        Fact(field="agent", value=line.agent or ""),
        Fact(field="created_by", value=line.created_by or ""),
        title_fact(line.title or "", NameRank.GIVEN, keep="first"),
    )
    identity = Identity(native_id=line.id, origin=f"{line.id} {line.timestamp}")
    return State(session=line.id, cwd=line.cwd), [identity, *(fact for fact in facts if fact.value)]


def _read_utterance(state: State, line: Line) -> Step:
    key = key_of(state.session, line)
    if line.role == "tool":
        return _read_result(state, line, key)
    if _is_of_tool(line):
        return _read_call(state, line, key)
    role = ROLES[line.role]
    message = _locate(state, line).message(key, role, line.text, prompt=role == "user")
    if role != "user" or state.named or (name := prompt_fact(line.text)) is None:
        return state, [message]
    return replace(state, named=name.rank == NameRank.PROMPT), [message, name]


def _read_call(state: State, line: Line, key: int) -> Step:
    call = _locate(state, line).call(key, line.tool_name or "tool", line.text.encode() or b"{}")
    if line.tool_call_id:
        state = replace(state, calls=add_open(state.calls, {line.tool_call_id: OpenCall(key, call.hidden)}))
    return state, [replace(call, role=ROLES[line.role])]


def _read_result(state: State, line: Line, key: int) -> Step:
    """A result; if its call is not known, it becomes a call of its own."""
    place, call_id, is_error = _locate(state, line), line.tool_call_id or "", bool(line.is_error)
    call = state.calls.get(call_id)
    if call is None:
        return state, [place.call(key, line.tool_name or "tool", output=line.text, is_error=is_error)]
    return replace(state, calls=drop_open(state.calls, call_id)), [place.result(call, line.text, is_error=is_error)]


def _locate(state: State, line: Line) -> Place:
    return Place(entry=line.id or None, time_ms=millis(line.timestamp), cwd=state.cwd)


def _read_words(line: Line) -> list[Operation]:
    if not line.source or not line.session:
        return [Unknown(type=WORDS)]
    tags = "" if not line.tags else msgspec.json.encode([clean_line(tag) for tag in line.tags]).decode()
    values: tuple[tuple[Field, str], ...] = (
        ("name", one_line(line.title or "")),
        ("summary", line.summary or ""),
        ("description", line.description or ""),
        ("tags", tags),
    )
    return [
        Fact(field=field, value=value, rank=NameRank.ANNOTATED, native_id=line.session, source=line.source)
        for field, value in values
        if value
    ]
