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
    Generation,
    Identity,
    NameRank,
    Operation,
    Role,
    SessionKey,
    Unknown,
    Utterance,
    record_key,
)
from sesamed.source import BadLineError, ForeignFileError, Lines, Location, ToolFamilies
from sesamed.sources.annotations import state_annotations
from sesamed.sources.lines import JsonState, repair
from sesamed.sources.names import prompt_fact, title_fact
from sesamed.sources.records import OpenCall, Place, Short, add_open, drop_open, millis

SESSION, SAID, WORDS, GENERATED = "sesame.session", "said", "sesame.words", "sesame.generated"
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
    id: Short = ""
    timestamp: str = ""
    agent: str | None = None  # header, and so are the next three
    created_by: str | None = None
    cwd: Short | None = None
    title: str | None = None  # and in words on a session, as the next six
    source: str = ""
    session: str = ""
    summary: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    recall_words: list[str] | None = None
    generation: Generation | None = None  # of words that a model wrote, and so is the next one
    model: str = ""
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
    asks = ()
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
        if entry.type in (WORDS, GENERATED):
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


def merge_annotations(
    session: SessionKey,
    annotations: Annotations,
    before: bytes = b"",
    generation: Generation | None = None,
    model: str = "",
) -> bytes:
    """The lines of an annotations file, a person's and a model's: what stood in the one that is meant, overlaid with what is new."""
    lines, _ = _decode_annotations(before)
    kind = WORDS if generation is None else GENERATED
    line = replace(lines.get(kind, Line(type=kind)), source=session.source, session=session.native_id)
    line.generation, line.model, lines[kind] = generation, model, line
    for name in Annotations.__struct_fields__:
        if (value := getattr(annotations, name)) is not None:
            setattr(line, name, list(value) if isinstance(value, tuple) else value)
    return b"".join(encode_line(lines[kind]) for kind in (WORDS, GENERATED) if kind in lines)


def count_unreadable(annotations: bytes) -> int:
    """How many lines of an annotations file do not decode; who writes it anew leaves them out."""
    return _decode_annotations(annotations)[1]


def _decode_annotations(data: bytes) -> tuple[dict[str, Line], int]:
    lines, bad = dict[str, Line](), 0
    for given in filter(bytes.strip, data.split(b"\n")):
        try:
            line = DECODE(repair(given))
        except (ValueError, RecursionError):
            bad += 1
        else:
            lines[line.type] = line
    return lines, bad


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
    if not line.source or not line.session or (line.type == GENERATED and line.generation is None):
        return [Unknown(type=line.type)]
    annotations = Annotations(
        title=line.title,
        summary=line.summary,
        description=line.description,
        tags=None if line.tags is None else tuple(line.tags),
        recall_words=None if line.recall_words is None else tuple(line.recall_words),
    )
    generation = line.generation if line.type == GENERATED else None
    return [*state_annotations(SessionKey(line.source, line.session), annotations, generation, line.model)]
