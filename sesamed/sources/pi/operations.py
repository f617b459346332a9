"""The records of a line: their keys, where they stand, and what they say. `records` decides which ones there are."""

import msgspec

from sesamed.model import Message, Role, ToolCall
from sesamed.sources.keys import record_key
from sesamed.sources.own_tools import is_ours
from sesamed.sources.pi.lines import Block, Line, Spoken
from sesamed.sources.pi.state import PiState
from sesamed.sources.times import millis

# pi 0.31 came out on this day. Earlier entries had no ids, and a migration gives parent and child different ones.
FIRST_IDS = "2026-01-02T00:00:00"


class Place(msgspec.Struct, frozen=True, gc=False):
    """What all operations of a line have in common."""

    stamp: str  # begins each key
    entry: str | None
    parent: str | None
    time_ms: int | None


def place_of(state: PiState, line: Line, spoken: Spoken) -> Place:
    """Where the line stands, and what its records' keys begin with."""
    stamp = "" if line.timestamp is None else str(line.timestamp)
    dated = "" if "2" <= stamp < FIRST_IDS else line.id or ""
    return Place(f"{dated}\0{stamp}", line.id, _parent(state, line), time_of(line, spoken))


def time_of(line: Line, spoken: Spoken) -> int | None:
    """The message's own time, else the entry's."""
    time_ms = millis(spoken.timestamp)
    return millis(line.timestamp) if time_ms is None else time_ms


def said(place: Place, role: Role, raw: str, text: str, *, hidden: bool = False) -> Message:
    """A message: `raw` as it stands in the file, `text` as we keep it."""
    return Message(
        key=record_key(f"{place.stamp}\0{role}", raw),
        role=role,
        text=text,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        prompt=role == "user",
        hidden=hidden,
    )


def tool_call(place: Place, block: Block, part: int, cwd: str | None) -> ToolCall:
    """A call of the model's; `part` is its block's number."""
    name = block.name or ""
    arguments = bytes(block.arguments)
    return ToolCall(
        key=record_key(f"{place.stamp}\0toolCall\0{part}\0{block.id}\0{name}", arguments),
        name=name,
        arguments=arguments,
        cwd=cwd,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        hidden=is_ours(name, arguments),
    )


def orphan(place: Place, spoken: Spoken, text: str, *, is_error: bool, cwd: str | None) -> ToolCall:
    """A result whose call we do not know, as a call of its own."""
    name = spoken.tool_name or ""
    return ToolCall(
        key=record_key(f"{place.stamp}\0toolResult\0{spoken.tool_call_id}\0{name}", text),
        name=name,
        cwd=cwd,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        output=text,
        is_error=is_error,
        hidden=is_ours(name, b"{}"),
    )


def shell_call(place: Place, spoken: Spoken, cwd: str | None) -> ToolCall:
    """A command of the person's, whole in one line."""
    arguments = msgspec.json.encode({"command": spoken.command or ""})
    output = spoken.output or ""
    return ToolCall(
        key=record_key(f"{place.stamp}\0bashExecution\0{spoken.command}", output),
        name="bash",
        arguments=arguments,
        role="user",
        cwd=cwd,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        output=output,
        is_error=spoken.exit_code not in (None, 0) or bool(spoken.cancelled),
        hidden=is_ours("bash", arguments),
    )


def _parent(state: PiState, line: Line) -> str | None:
    """None where it simply follows; the empty string where it begins another tree."""
    parent = line.parent_id
    if parent is msgspec.UNSET or parent == state.last:
        return None
    return parent or ""
