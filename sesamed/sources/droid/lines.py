"""The parts of Factory Droid's lines that are read: flat views with the few fields that are needed; and what earlier lines mean for the
next one.

What is not named here (thinking, images' base64, hooks, todos) is skipped by the decoder and never becomes an object.
"""

import re

import msgspec
from msgspec.structs import replace

from sesamed.model import Operation
from sesamed.sources.lines import EMPTY
from sesamed.sources.records import ID_CHARS, OpenCall, Place, Short, Time, link_parent, millis, stamp_of

Parent = str | None | msgspec.UnsetType


class Part(msgspec.Struct, gc=False):
    """A block within a tool's result."""

    type: str = ""
    text: str | None = None


class Block(msgspec.Struct, gc=False):
    """A block of a message's content."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(EMPTY)
    tool_use_id: str | None = None
    content: str | list[Part] | None = None
    is_error: bool | None = None


class Spoken(msgspec.Struct, gc=False, rename="camel"):
    """The `message` of a line."""

    role: str = ""
    content: str | list[Block] | None = None
    visibility: str | None = None  # `llm_only`, `user_only` or `both`; what a person says has none
    interaction_mode: str | None = None


class Line(msgspec.Struct, gc=False, rename="camel"):
    """Any line."""

    type: str = ""
    id: Short | None = None
    parent_id: Parent = msgspec.UNSET
    timestamp: Time = None
    message: Spoken | None = None
    cwd: Short | None = None  # session_start, and so are the others up to `calling_session_id`
    title: str | None = None
    session_title: str | None = None
    is_session_title_manually_set: bool | None = None
    parent: str | None = None
    forked_at_message_id: Short | None = None
    calling_session_id: str | None = None
    calling_tool_use_id: str | None = None
    summary_text: str | None = None  # compaction_state, and so is the next one
    summary_kind: str | None = None


STARTS = re.compile(r'\{"type": ?"(?:session_start|message|compaction_state)"')


class DroidState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, nor is its dict: a caller may step twice from one state."""

    file_id: str
    session: str = ""  # as the header has it; empty before that
    cwd: str | None = None
    forked_at: str | None = None  # the last message that is a copy
    named: bool = False
    last: str | None = None  # the id of the message before
    undated: int = 0  # lines so far without a time
    calls: dict[str, OpenCall] = {}  # by the id of the call, oldest first


Step = tuple[DroidState, list[Operation]]


def advance(state: DroidState, line: Line, calls: dict[str, OpenCall] | None = None) -> DroidState:
    """The state after this line."""
    if line.message is not None and line.id and len(line.id) <= ID_CHARS:
        state = replace(state, last=line.id)
    if line.timestamp is None:
        state = replace(state, undated=state.undated + 1)
    return state if calls is None else replace(state, calls=calls)


def locate(state: DroidState, line: Line) -> Place:
    """Where the line stands. A fork's copy has the same id and time."""
    stamp = stamp_of(state.session, line.id, line.timestamp, state.undated)
    return Place(
        entry=line.id if line.id and len(line.id) <= ID_CHARS else None,
        parent=link_parent(line.parent_id, state.last),
        time_ms=millis(line.timestamp),
        cwd=state.cwd,
        stamp=f"droid\0{stamp}",
    )
