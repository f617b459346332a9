"""pi's sessions: JSONL, one entry a line, versions 1 to 3 of the format.

Where they are and how a file begins; what becomes of each type of line (`HANDLERS`) and each role of a message (`ROLES`); the state in
between. Knows no files (only their names), no index, no time. A line is judged by its type, whatever version the header claims.
"""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.calls import BLOCK, OWN_MESSAGES
from sesamed.model import Fact, Identity, Message, NameRank, Operation, Role, ToolCall, Unknown, record_key
from sesamed.source import (
    Document,
    ForeignFileError,
    Lines,
    Listing,
    Location,
    ResumeCommand,
    Shape,
    ToolFamilies,
    Variable,
)
from sesamed.sources.lines import JsonLines
from sesamed.sources.names import clean_name, prompt_fact, session_name, title_fact
from sesamed.sources.pi.lines import STARTS, Block, Content, Line, Spoken, base_name, is_timed, native_id
from sesamed.sources.pi.meta import NAMES, read_meta
from sesamed.sources.records import (
    ID_CHARS,
    OpenCall,
    Place,
    add_open,
    drop_open,
    join_texts,
    link_parent,
    millis,
    note_activity,
    note_passed,
)

HOME: Final = "~/.pi/agent"
MOVED_BY: Final = (Variable("PI_CODING_AGENT_DIR"),)
FALSY = frozenset({b"", b"null", b"false", b"0", b'""'})
BLOCKS = frozenset({"text", "thinking", "image", "toolCall"})
SKILL = re.compile(r'\s*<skill name="([^"]*)"[^>]*>.*?</skill>', re.DOTALL)
# pi 0.31 came out on this day. Earlier entries had no ids, and a migration gives parent and child different ones.
FIRST_IDS = "2026-01-02T00:00:00"


class PiState(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier lines mean for the next one. Never changed in place, nor is its dict: a caller may step twice from one state."""

    file_id: str  # the session's id as the file's name has it; of a document about one, its whole name
    is_meta: bool = False
    origin: str = ""  # the session's id and time as its header has them
    begun: bool = False  # the header was seen
    named: bool = False  # the first text stated a name
    cwd: str | None = None
    last: str | None = None  # the id of the entry before
    undated: int = 0  # lines so far with neither id nor time: position is all that tells them apart
    calls: dict[str, OpenCall] = {}  # by toolCallId, oldest first


Step = tuple[PiState, list[Operation]]


class Pi(JsonLines[PiState, Line]):
    """The source of pi's sessions, and the base of one whose agent descends from pi."""

    name = "pi"
    label = "pi"
    version = 4
    locations: tuple[Location, ...] = (
        Location(home=HOME, moved_by=MOVED_BY, directories=("sessions", "sessions-meta"), rare=("sessions-meta",)),
        Location(moved_by=(Variable("PI_CODING_AGENT_SESSION_DIR"),)),
        Location(home=HOME, moved_by=MOVED_BY, directories=(), listings=(Listing("settings.json", ("sessionDir",)),)),
    )
    shapes: tuple[Shape, ...] = (
        Lines(files=("**/*.jsonl", "**/*.jsonl.zst")),
        Document(files=(NAMES,), side=True),
    )
    # pi runs in the directory that the file names, and asks whether to go on in the current one if that is gone.
    asks: tuple[str, ...] = ("pi", "-p", "--no-session", "--no-tools")
    resume: ResumeCommand | None = ResumeCommand(
        words=("pi", "--session", "{path}"), subagents=True, here=("pi", "--session", "{path}")
    )
    tool_families = ToolFamilies(
        read=("read",),
        write=("write",),
        edit=("edit",),
        shell=("bash",),
        search=("grep", "find", "ls"),
        web=("web_search", "fetch_content"),  # of extensions, and so are the next two
        agent=("subagent",),
        mcp=("mcp",),
    )

    def __init__(self) -> None:
        super().__init__(PiState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. A directory named like a session holds its subagents."""
        if path.match(NAMES):
            return PiState(file_id=path.name, is_meta=True), []
        file_id = native_id(clean_name(path.name))
        operations: list[Operation] = [Identity(native_id=file_id, origin="")]
        parent = next((clean_name(part) for part in reversed(path.parts[:-1]) if is_timed(part)), None)
        if parent is not None:
            operations += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=native_id(parent))]
        return PiState(file_id=file_id), operations

    def take(self, state: PiState, entry: Line, line: bytes) -> Step:
        """The operations of a whole line, or of a document beside the sessions."""
        if state.begun:
            after, operations = HANDLERS.get(entry.type, skip_unknown)(state, entry)
            if after.last == state.last:  # it has no id
                return after, operations
            return after, note_passed(operations, entry.id, entry.parent_id, state.last)
        if state.is_meta:
            return state, read_meta(line)
        if entry.type == "session":
            return _read_header(state, entry)
        raise ForeignFileError(f"the first line is not the header of a session of {self.label}")

    def choose_whole(self, state: PiState, found: list[Line]) -> list[Line]:
        """Blocks of a message have a type, too, but only lines have a timestamp beside it."""
        whole = [entry for entry in found if entry.timestamp is not None]
        return whole if state.begun or (whole and whole[0].type == "session") else []


def _read_header(state: PiState, header: Line) -> Step:
    session = header.id or state.file_id
    stamp = "" if header.timestamp is None else str(header.timestamp)
    began_ms = millis(header.timestamp)
    parent = header.parent_session or header.branched_from or ""
    facts = (
        Fact(field="cwd", value=header.cwd or ""),
        Fact(field="began", value="" if began_ms is None else str(began_ms)),
        Fact(field="parent_path", value=parent),
        Fact(field="parent_id", value=native_id(base_name(parent))),
    )
    identity = Identity(native_id=session, origin=f"{session} {stamp}")
    state = PiState(file_id=state.file_id, origin=identity.origin, begun=True, cwd=header.cwd)
    return state, [identity, *(fact for fact in facts if fact.value)]


def advance(
    state: PiState, line: Line, *, named: bool | None = None, calls: dict[str, OpenCall] | None = None
) -> PiState:
    """The state after this line. (`msgspec.structs.replace` takes three times as long.)"""
    return PiState(
        file_id=state.file_id,
        origin=state.origin,
        begun=True,
        named=state.named if named is None else named,
        cwd=state.cwd,
        last=line.id if line.id and len(line.id) <= ID_CHARS else state.last,
        undated=state.undated + (not line.id and line.timestamp is None),
        calls=state.calls if calls is None else calls,
    )


def locate(state: PiState, line: Line, spoken: Spoken) -> Place:
    """Where the line stands. The time is the message's own, else the entry's."""
    time_ms, ended_ms = millis(spoken.timestamp), millis(line.timestamp)
    return Place(
        entry=line.id,
        parent=link_parent(line.parent_id, state.last),
        time_ms=ended_ms if time_ms is None else time_ms,
        ended_ms=ended_ms if time_ms is not None and ended_ms is not None and ended_ms > time_ms else None,
        cwd=state.cwd,
        stamp=_stamp(state, line, time_ms),
    )


def _stamp(state: PiState, line: Line, time_ms: int | None) -> str:
    """What keys begin with: id and time of the line. Converters leave them out: the message's own time, else session and position."""
    if not line.id and line.timestamp is None:
        return f"\0{time_ms}" if time_ms is not None else f"\0{state.origin}\0{state.undated}"
    stamp = "" if line.timestamp is None else str(line.timestamp)
    dated = "" if "2" <= stamp < FIRST_IDS else line.id or ""
    return f"{dated}\0{stamp}"


def read_message(state: PiState, line: Line) -> Step:
    """A line of type `message`: what its role says."""
    spoken = line.message
    if spoken is None:
        return advance(state, line), [Unknown(type="message")]
    handler = ROLES.get(spoken.role)
    if handler is None:
        return advance(state, line), [Unknown(type=f"message/{spoken.role}")]
    return handler(state, line, spoken)


def without_references(prompt: str) -> str:
    """A prompt as the person typed it: what its references mean is quoted from other sessions, and is found in those."""
    begin, end = BLOCK
    start = prompt.rfind(begin) if prompt.endswith(end) else -1
    return prompt if start < 0 else prompt[:start]


def read_user(state: PiState, line: Line, spoken: Spoken) -> Step:
    """A prompt. The first one with the person's own words names the session."""
    raw = join_texts(spoken.content)
    said = without_references(raw)
    text = without_skills(said)
    operations: list[Operation] = [_message(locate(state, line, spoken), "user", raw, text), *_unknown(spoken.content)]
    if state.named:
        return advance(state, line), operations
    name = prompt_fact(said)
    if name is None and (stand_in := session_name(text)):  # `[skill x]`, until something is said
        operations.append(Fact(field="name", value=stand_in, rank=NameRank.STAND_IN))
    if name is not None:
        operations.append(name)
    return advance(state, line, named=name is not None and name.rank == NameRank.PROMPT), operations


def without_skills(text: str) -> str:
    """A user's text with `[skill x]` for each skill in front of it: a skill's body is not what the person said."""
    if not text.lstrip().startswith("<skill "):
        return text
    names: list[str] = []
    position = 0
    while match := SKILL.match(text, position):
        names.append(f"[skill {match[1]}]")
        position = match.end()
    return "\n".join(names) + text[position:]


def read_assistant(state: PiState, line: Line, spoken: Spoken) -> Step:
    """One response of the model: its text, then its calls."""
    place = locate(state, line, spoken)
    said = join_texts(spoken.content)
    text = "\n".join(filter(str.strip, (said, _failure_of(spoken))))
    operations: list[Operation] = [_message(place, "assistant", said or text, text)] if text.strip() else []
    new: dict[str, OpenCall] = {}
    for part, block in enumerate(_blocks(spoken.content)):
        if block.type == "toolCall":
            call = _tool_call(place, block, part)
            operations.append(call)
            if block.id is not None:
                new[block.id] = OpenCall(call.key, call.hidden)
    operations += _unknown(spoken.content)
    if not operations:  # it only thought
        operations = note_activity(line.timestamp)
    return advance(state, line, calls=add_open(state.calls, new) if new else None), operations


def _failure_of(spoken: Spoken) -> str:
    """Why there is no answer, or only a part of one; that the person stopped it says nothing."""
    return "" if spoken.stop_reason == "aborted" else spoken.error_message or ""


def read_result(state: PiState, line: Line, spoken: Spoken) -> Step:
    """A result; if its call is not known, it becomes a call of its own."""
    place = locate(state, line, spoken)
    text = join_texts(spoken.content)
    is_error = bool(spoken.is_error) or (spoken.details is not None and bytes(spoken.details.error) not in FALSY)
    name = spoken.tool_call_id or ""
    call = state.calls.get(name)
    odd = _unknown(spoken.content)
    if call is None:
        tool = spoken.tool_name or ""
        key = record_key(f"{place.stamp}\0toolResult\0{spoken.tool_call_id}\0{tool}", text)
        return advance(state, line), [place.call(key, tool, output=text, is_error=is_error), *odd]
    return advance(state, line, calls=drop_open(state.calls, name)), [place.result(call, text, is_error=is_error), *odd]


def read_bash(state: PiState, line: Line, spoken: Spoken) -> Step:
    """A command that the person ran with `!`, whole in one line."""
    place = locate(state, line, spoken)
    output = spoken.output or ""
    call = place.command(
        record_key(f"{place.stamp}\0bashExecution\0{spoken.command}", output),
        "bash",
        msgspec.json.encode({"command": spoken.command or ""}),
        output=output,
        is_error=spoken.exit_code not in (None, 0) or bool(spoken.cancelled),
    )
    return advance(state, line), [call]


def read_custom(state: PiState, line: Line, spoken: Spoken) -> Step:
    """What an extension put into the conversation. It names a session in which nobody says anything."""
    text = join_texts(spoken.content)
    shown = f"[{spoken.custom_type}]\n{text}" if spoken.custom_type else text
    said: list[Operation] = [_message(locate(state, line, spoken), "custom", text, shown)] if text.strip() else []
    operations = [*said, *_unknown(spoken.content)]
    if not state.named and (name := session_name(text)):
        operations.append(Fact(field="name", value=name, rank=NameRank.STAND_IN))
    return advance(state, line), operations


def read_summary(state: PiState, line: Line, spoken: Spoken) -> Step:
    """The summary of a compaction, or of a branch that was left."""
    return advance(state, line), _statement(locate(state, line, spoken), "summary", spoken.summary or "")


def skip_system(state: PiState, line: Line, _: Spoken) -> Step:
    """The prompt and the tools' schemas: noise, and the same in each session."""
    return skip(state, line)


def read_custom_line(state: PiState, line: Line) -> Step:
    """The role `custom` as a line of its own. What we put there ourselves is quoted from other sessions: it is found in those."""
    if line.custom_type in OWN_MESSAGES:
        text = join_texts(line.content)
        place = locate(state, line, Spoken())
        return advance(state, line), [_message(place, "custom", text, text, hidden=True)] if text.strip() else []
    return read_custom(state, line, Spoken(content=line.content, custom_type=line.custom_type))


def read_summary_line(state: PiState, line: Line) -> Step:
    """The role of summaries as a line of its own."""
    return read_summary(state, line, Spoken(summary=line.summary))


def read_session_info(state: PiState, line: Line) -> Step:
    """The session's name: the last one counts, an empty one removes it."""
    return advance(state, line), [title_fact(line.name or "", NameRank.GIVEN)]


def skip_header(state: PiState, line: Line) -> Step:
    """A second header in a file: the first one counts, and this one is not part of the chain of parents."""
    return state, [Unknown(type=line.type)]


def skip(state: PiState, line: Line) -> Step:
    """A known type without anything to index."""
    return advance(state, line), []


def skip_unknown(state: PiState, line: Line) -> Step:
    """A new type; its id is still part of the chain of parents."""
    return advance(state, line), [Unknown(type=line.type)]


HANDLERS: Final[dict[str, Callable[[PiState, Line], Step]]] = {
    "message": read_message,
    "session": skip_header,
    "session_info": read_session_info,
    "custom_message": read_custom_line,
    "compaction": read_summary_line,
    "branch_summary": read_summary_line,
    "custom": skip,
    "label": skip,
    "model_change": skip,
    "thinking_level_change": skip,
    "usage": skip,
    "context_edit": skip,
}

ROLES: Final[dict[str, Callable[[PiState, Line, Spoken], Step]]] = {
    "user": read_user,
    "assistant": read_assistant,
    "toolResult": read_result,
    "bashExecution": read_bash,
    "custom": read_custom,
    "hookMessage": read_custom,  # its name until version 3
    "compactionSummary": read_summary,
    "branchSummary": read_summary,
    "system": skip_system,
}


def _message(place: Place, role: Role, raw: str, text: str, *, hidden: bool = False) -> Message:
    """A message: `raw` as it stands in the file, `text` as we keep it."""
    key = record_key(f"{place.stamp}\0{role}", raw)
    return place.message(key, role, text, prompt=role == "user", hidden=hidden)


def _tool_call(place: Place, block: Block, part: int) -> ToolCall:
    """A call of the model's; `part` is its block's number."""
    name, arguments = block.name or "", bytes(block.arguments)
    key = record_key(f"{place.stamp}\0toolCall\0{part}\0{block.id}\0{name}", arguments)
    return place.call(key, name, arguments)


def _statement(place: Place, role: Role, text: str) -> list[Operation]:
    return [_message(place, role, text, text)] if text.strip() else []


def _blocks(content: Content) -> list[Block]:
    return content if isinstance(content, list) else []


def _unknown(content: Content) -> list[Operation]:
    return [Unknown(type=f"block/{block.type}") for block in _blocks(content) if block.type not in BLOCKS]
