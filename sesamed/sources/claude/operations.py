"""The records of a line: their keys, where they stand, and what they say. `records` decides which ones there are.

Keys must be the same in copies of a line in resumed and forked sessions. What stays the same there: of an answer the API's ids
and the text, always; of a prompt its time and text, but in resumes by 0.2.x, which stamp prompts anew (such a copy is
another record). Line uuids do not stay: 0.2.x and the SDK's forks give new ones.
"""

import msgspec

from sesamed.model import Message, Role, ToolCall
from sesamed.sources.claude.lines import Block, Line
from sesamed.sources.claude.state import ClaudeState
from sesamed.sources.keys import record_key
from sesamed.sources.own_tools import is_ours
from sesamed.sources.times import millis

RANDOM_CHARS = 16  # a gateway's own ids may be `msg_1`: such a one needs the time, too


class Place(msgspec.Struct, frozen=True, gc=False):
    """What all operations of a line have in common."""

    stamp: str
    entry: str | None
    parent: str | None
    time_ms: int | None
    cwd: str | None
    side: bool  # a subagent's line within its parent's file


def place_of(state: ClaudeState, line: Line) -> Place:
    """Where the line stands."""
    told = state.told
    return Place(
        "" if line.timestamp is None else str(line.timestamp),
        line.uuid,
        _parent(state, line),
        millis(line.timestamp),
        line.cwd or told.cwd,
        bool(line.is_sidechain) and not told.subagent,
    )


def said(place: Place, role: Role, raw: str, text: str) -> Message:
    """A message of the person's, or a summary: `raw` as it stands in the file, `text` as we keep it."""
    return Message(
        key=record_key(f"claude\0{place.stamp}\0{role}", raw),
        role=role,
        text=text,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        prompt=role == "user" and not place.side,
    )


def answered(place: Place, message_id: str | None, text: str) -> Message:
    """A text of the model's. A repetition in the same response is the same record."""
    return Message(
        key=record_key(f"claude\0{lasting(message_id, place)}\0assistant", text),
        role="assistant",
        text=text,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
    )


def tool_call(place: Place, block: Block) -> ToolCall:
    """A call of the model's."""
    name = block.name or ""
    arguments = bytes(block.input)
    return ToolCall(
        key=record_key(f"claude\0{lasting(block.id, place)}\0tool_use\0{name}", arguments),
        name=name,
        arguments=arguments,
        cwd=place.cwd,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        hidden=is_ours(bare_name(name), arguments),
    )


def orphan(place: Place, block: Block, text: str) -> ToolCall:
    """A result whose call we do not know, as a call of its own."""
    return ToolCall(
        key=record_key(f"claude\0{lasting(block.tool_use_id, place)}\0tool_result", text),
        name="",
        cwd=place.cwd,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        output=text,
        is_error=bool(block.is_error),
    )


def shell_call(place: Place, command: str | None, output: str | None) -> ToolCall:
    """A command that the person ran with `!`, or the output of one that we did not see."""
    arguments = b"{}" if command is None else msgspec.json.encode({"command": command})
    return ToolCall(
        key=record_key(f"claude\0{place.stamp}\0bash\0{command}", output or ""),
        name="bash",
        arguments=arguments,
        role="user",
        cwd=place.cwd,
        entry=place.entry,
        parent=place.parent,
        time_ms=place.time_ms,
        output=output,
        is_error=None if output is None else False,
        hidden=is_ours("bash", arguments),
    )


def lasting(name: str | None, place: Place) -> str:
    """An id that no other record in the world has."""
    return name if name and len(name) >= RANDOM_CHARS else f"{name}\0{place.stamp}"


def bare_name(tool: str) -> str:
    """A tool's name without the server's: `mcp__sesame__search_sessions`."""
    return tool.rpartition("__")[2] if tool.startswith("mcp__") else tool


def _parent(state: ClaudeState, line: Line) -> str | None:
    """None where it simply follows; the empty string where it begins another tree."""
    parent = line.parent_uuid
    if parent is msgspec.UNSET or parent == state.last:
        return None
    return parent or ""
