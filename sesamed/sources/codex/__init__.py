"""Codex's rollouts: JSONL, one envelope a line; bare items in the oldest ones; and the index of names beside them.

How a file begins, how its lines are stepped through, and what each type of line (`LINES_OF`) and of response item (`RESPONSES`)
becomes. Knows no files (only their names), no index, no time.
"""

from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from sesamed.model import Identity, Message, ToolCall, Unknown
from sesamed.source import ForeignFileError, Lines, Location, ResumeCommand, ToolFamilies, Variable
from sesamed.sources.codex import outputs
from sesamed.sources.codex.events import Handler, read_event, skip
from sesamed.sources.codex.lines import STARTS, Line, Payload, is_dropped
from sesamed.sources.codex.messages import add_agent_message, add_message, read_message, release_prompts, text_of
from sesamed.sources.codex.meta import (
    INDEX,
    file_ids,
    is_bare_header,
    read_bare_header,
    read_index_entry,
    read_session_meta,
    read_turn_context,
    root_of,
)
from sesamed.sources.codex.state import CodexState, Step, set_root
from sesamed.sources.lines import JsonLines, LineDecoder
from sesamed.sources.names import clean_name

ARCHIVE: Final = "archived_sessions"
BARE: Final = LineDecoder(Payload, STARTS)


class Codex(JsonLines[CodexState, Line]):
    """The source of Codex's sessions."""

    name = "codex"
    label = "Codex"
    version = 5
    locations = (Location(home="~/.codex", moved_by=(Variable("CODEX_HOME"),), directories=("sessions", ARCHIVE)),)
    shapes = (Lines(files=("**/*.jsonl", "**/*.jsonl.zst")), Lines(files=(f"../{INDEX}",), side=True))
    resume = ResumeCommand(
        words=("codex", "resume", "{id}"),
        here=("codex", "resume", "--cd", ".", "{id}"),
        anywhere=True,
        archive=ARCHIVE,
        unarchive=("codex", "unarchive", "{id}"),
    )
    tool_families = ToolFamilies(
        read=("read_file",),
        write=("apply_patch",),
        edit=("apply_patch",),
        shell=(
            "shell",
            "shell_command",
            "local_shell",
            "container.exec",
            "exec_command",
            "unified_exec",
            "write_stdin",
        ),
        search=("grep_files", "list_dir"),
        web=("web_search",),
        agent=("spawn_agent", "send_input", "resume_agent", "wait_agent", "close_agent"),
        mcp=("mcp__*", "list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
    )

    def __init__(self) -> None:
        super().__init__(CodexState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. The index of names is none."""
        name = clean_name(path.name)
        if name == INDEX:
            return CodexState(file_id=name, index=True), []
        session, rollout = file_ids(name)
        return CodexState(file_id=session, rollout=rollout), [Identity(native_id=session, origin="")]

    def step(self, state: CodexState, item: bytes) -> Step:
        """The state after a line, and its operations."""
        if state.begun and is_dropped(item):
            return state, []
        return super().step(state, item)

    def take(self, state: CodexState, entry: Line, line: bytes) -> Step:
        """The operations of a whole line."""
        if state.index:
            return read_index_entry(state, entry)
        if state.begun:
            return (
                _read_bare(state, entry, line)
                if state.bare and entry.payload is None
                else _read_enveloped(state, entry)
            )
        if entry.payload is not None and entry.type in LINES_OF:
            root = root_of(state.file_id, entry.timestamp)  # for a file that has lost its beginning
            return _read_enveloped(set_root(replace(state, begun=True), root), entry)
        if is_bare_header(entry):
            return read_bare_header(state, entry)
        raise ForeignFileError("the first line is not from a rollout of Codex")

    def choose_whole(self, state: CodexState, found: list[Line]) -> list[Line]:
        """Those with an envelope; the index of names has none."""
        whole = [] if state.index else [entry for entry in found if entry.payload is not None]
        return whole if state.begun or (whole and whole[0].type in LINES_OF) else []


def _read_bare(state: CodexState, entry: Line, line: bytes) -> Step:
    """A response item without an envelope, or a note on the state of the conversation."""
    if entry.type:
        return _read_response_item(state, entry, BARE.decode(line))
    return state, [] if entry.record_type == "state" else [Unknown(type=entry.record_type or "")]


def _read_response_item(state: CodexState, line: Line, item: Payload) -> Step:
    """A response item: what the model was sent, said and called."""
    if not state.responses:
        state = replace(state, responses=True)
    handler = RESPONSES.get(item.type)
    return (state, [Unknown(type=f"response/{item.type}")]) if handler is None else handler(state, line, item)


def _read_compacted(state: CodexState, line: Line, item: Payload) -> Step:
    """The history was replaced by a summary; what replaces it was said before."""
    return add_message(state, line, "summary", item.message or "")


def _read_agent_message(state: CodexState, line: Line, item: Payload) -> Step:
    """A message from one agent to another."""
    return add_agent_message(state, line, text_of(item.content))


def _read_enveloped(state: CodexState, line: Line) -> Step:
    """A line with a payload."""
    if state.own_from is not None and line.ordinal is not None and line.ordinal >= state.own_from:
        state = replace(state, copied=False, own_from=None)
    handler = LINES_OF.get(line.type)
    if handler is None or line.payload is None:
        return state, [Unknown(type=line.type)]
    after, operations = handler(state, line, line.payload)
    if after.held and any(isinstance(said, Message | ToolCall) and said.role != "user" for said in operations):
        state, prompts = release_prompts(state)
        after, operations = handler(state, line, line.payload)
        operations = prompts + operations
    return after, operations


def _by_line(handler: Callable[[CodexState, Line], Step]) -> Handler:
    return lambda state, line, _: handler(state, line)


LINES_OF: Final[dict[str, Handler]] = {
    "session_meta": _by_line(read_session_meta),
    "turn_context": _by_line(read_turn_context),
    "response_item": _read_response_item,
    "event_msg": read_event,
    "compacted": _read_compacted,
    "inter_agent_communication": _read_agent_message,
    "inter_agent_communication_metadata": skip,
    "world_state": skip,
    "security_risk_score": skip,
    "token_usage_record": skip,
}

RESPONSES: Final[dict[str, Handler]] = {
    "message": read_message,
    "agent_message": _read_agent_message,
    "function_call": outputs.read_function_call,
    "function_call_output": outputs.read_output,
    "custom_tool_call": outputs.read_custom_tool_call,
    "custom_tool_call_output": outputs.read_output,
    "local_shell_call": outputs.read_local_shell_call,
    "local_shell_call_output": outputs.read_output,
    "tool_search_call": outputs.read_tool_search_call,
    "tool_search_output": outputs.read_tool_search_output,
    "web_search_call": outputs.read_web_search_call,
    "image_generation_call": outputs.read_image_generation_call,
    "reasoning": skip,
    "ghost_snapshot": skip,
    "compaction": skip,
    "compaction_summary": skip,
    "context_compaction": skip,
    "additional_tools": skip,
    "configuration_update": skip,
}
