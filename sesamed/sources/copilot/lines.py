"""The parts of Copilot CLI's events that are read: one flat view for the `data` of all types; and what earlier events mean for the next
one.

What is not named here (usage, reasoning, telemetry, what the model was really sent) is skipped by the decoder and never becomes an object.
"""

import re
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from sesamed.model import Operation
from sesamed.sources.lines import EMPTY
from sesamed.sources.records import ID_CHARS, OpenCall, Place, Short, Time, millis, stamp_of

NOTHING: Final = msgspec.Raw(b"null")


class Context(msgspec.Struct, gc=False):
    """Where the session works."""

    cwd: Short | None = None
    branch: Short | None = None


class Request(msgspec.Struct, gc=False, rename="camel"):
    """A call in an answer."""

    tool_call_id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(EMPTY)
    mcp_tool_name: str | None = None


class Result(msgspec.Struct, gc=False):
    """What a tool gave back, as the model was given it."""

    content: str | None = None


class Failure(msgspec.Struct, gc=False):
    """Why a tool failed."""

    message: str | None = None


class ShellExecution(msgspec.Struct, gc=False, rename="camel"):
    """How a command ended."""

    exit_code: int | float | None = None


class FileEdit(msgspec.Struct, gc=False):
    """A file that a tool changed."""

    path: str | None = None


class Data(msgspec.Struct, gc=False, rename="camel"):
    """What an event of any type says."""

    session_id: Short | None = None  # session.start, and so are the next three
    start_time: Time = None
    context: Context | str | None = None  # of a hand-over it is a text
    detached_from_spawning_parent_session_id: str | None = None
    cwd: Short | None = None  # session.context_changed, and so is the next one
    branch: Short | None = None
    content: str | None = None  # messages
    source: str | None = None  # user.message, and so are the next two
    is_autopilot_continuation: bool | None = None
    attachments: list[msgspec.Raw] | None = None
    tool_requests: list[Request] | None = None  # assistant.message
    parent_tool_call_id: str | None = None  # of a subagent's events
    tool_call_id: str | None = None  # tools, and so are the others up to `file_edits`
    tool_name: str | None = None
    mcp_tool_name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(EMPTY)
    success: bool | None = None
    result: Result | str | None = None
    error: Failure | str | None = None
    shell_execution: ShellExecution | None = None
    file_edits: list[FileEdit] | None = None
    summary_content: str | None = None  # session.compaction_complete
    summary: str | None = None  # session.handoff
    message: str | None = None  # session.info, session.error
    info_type: str | None = None
    title: str | None = None  # session.title_changed
    legacy_session: msgspec.Raw = NOTHING  # session.import_legacy


class Line(msgspec.Struct, gc=False, rename="camel"):
    """Any event."""

    type: str = ""
    id: str | None = None
    timestamp: Time = None
    agent_id: str | None = None
    data: Data = msgspec.field(default_factory=Data)


STARTS = re.compile(r'\{"type": ?"(?:session|user|assistant|tool|system|subagent)\.')


class CopilotState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, nor is its dict: a caller may step twice from one state."""

    kind: Literal["events", "document", "workspace"]
    file_id: str  # the session's id as the path has it
    begun: bool = False
    session: str = ""
    cwd: str | None = None
    named: bool = False
    undated: int = 0  # events so far without a time
    calls: dict[str, OpenCall] = {}  # by toolCallId, oldest first


Step = tuple[CopilotState, list[Operation]]


def advance(state: CopilotState, line: Line, calls: dict[str, OpenCall] | None = None) -> CopilotState:
    """The state after this event."""
    if line.timestamp is None:
        state = replace(state, undated=state.undated + 1)
    return state if calls is None else replace(state, calls=calls)


def locate(state: CopilotState, line: Line) -> Place:
    """Where the event stands. A fork's copy has the same id, which is random; what others write in its place may not be."""
    stamp = stamp_of(state.session, line.id, line.timestamp, state.undated)
    return Place(
        entry=line.id if line.id and len(line.id) <= ID_CHARS else None,
        time_ms=millis(line.timestamp),
        cwd=state.cwd,
        stamp=f"copilot\0{stamp}",
        side=is_by_agent(line),
    )


def is_by_agent(line: Line) -> bool:
    """Whether this is a subagent's event, in its parent's file, or what it was asked."""
    return bool(line.agent_id or line.data.parent_tool_call_id or (line.data.source or "").startswith("agent-"))
