"""Events: exit codes, names and turns, which response items lack; in a file without response items, everything.

An `item_completed` event has an item: the same things as the older events, in another shape.
"""

from collections.abc import Callable
from typing import Final

from sesamed.model import NameRank, ToolCall, Touched, Undone, Unknown
from sesamed.sources.codex.lines import Line, Payload, encode
from sesamed.sources.codex.messages import add_answer, read_review, read_user_event, read_user_item, text_of
from sesamed.sources.codex.outputs import Call, add_whole, event_output, has_failed, list_changed_files
from sesamed.sources.codex.state import CodexState, Step, begin_turn, record_outcome, roll_back
from sesamed.sources.lines import EMPTY
from sesamed.sources.names import title_fact
from sesamed.sources.records import millis, note_activity

Handler = Callable[[CodexState, Line, Payload], Step]


def read_event(state: CodexState, line: Line, event: Payload) -> Step:
    """A line of type `event_msg`."""
    if event.type in TURNS:
        state = begin_turn(state, event.turn_id)
    handler = EVENTS.get(event.type)
    return (state, [Unknown(type=f"event/{event.type}")]) if handler is None else handler(state, line, event)


def read_item(state: CodexState, line: Line, event: Payload) -> Step:
    """An `item_completed` event, by the type of its item."""
    item = event.item
    if item is None:
        return state, [Unknown(type="item/")]
    handler = ITEMS.get(item.type)
    return (state, [Unknown(type=f"item/{item.type}")]) if handler is None else handler(state, line, item)


def skip(state: CodexState, _: Line, __: Payload) -> Step:
    """A known type without anything to index."""
    return state, []


def read_end(state: CodexState, line: Line, _: Payload) -> Step:
    """A turn has ended, or was stopped."""
    return state, note_activity(line.timestamp)


def read_agent_message(state: CodexState, line: Line, event: Payload) -> Step:
    """The model's words: of use only where no response item has them."""
    text = event.message or event.text or text_of(event.content)
    return (state, []) if state.responses else add_answer(state, line, text)


def read_thread_name(state: CodexState, _: Line, event: Payload) -> Step:
    """The session's name. In a copy of the parent's lines it is the parent's. Of a thread's files, the later one counts."""
    if event.thread_id != state.session if event.thread_id is not None else state.copied:
        return state, []
    rank = NameRank.TITLED if state.rollout is None else NameRank.RENAMED
    return state, [title_fact(event.thread_name or "", rank)]


def read_roll_back(state: CodexState, line: Line, event: Payload) -> Step:
    """The person went back some turns."""
    state, key = roll_back(state, event.num_turns or 0)
    return state, [] if key is None else [Undone(key=key, time_ms=millis(line.timestamp))]


def read_command(state: CodexState, line: Line, event: Payload) -> Step:
    """A command has run."""
    arguments = encode({"command": event.command}) if bytes(event.command) != b"null" else EMPTY
    return _add_run(state, line, event, "shell", arguments)


def read_patch(state: CodexState, line: Line, event: Payload) -> Step:
    """Files were changed. Only here are their absolute paths, whichever way they were patched."""
    arguments = encode({"changes": event.changes}) if bytes(event.changes) != b"null" else EMPTY
    after, operations = _add_run(state, line, event, "apply_patch", arguments)
    call = next(
        (call for call in operations if isinstance(call, ToolCall)), state.calls.get(event.call_id or event.id or "")
    )
    paths = tuple(list_changed_files(bytes(event.changes)))
    return after, [*operations, Touched(key=call.key, paths=paths)] if call is not None and paths else operations


def read_tool(state: CodexState, line: Line, event: Payload) -> Step:
    """A tool of an MCP server was called."""
    by = event.invocation
    server, name = (event.server, event.tool) if by is None else (by.server, by.tool)
    arguments = bytes(event.arguments if by is None else by.arguments)
    name = f"mcp__{server}__{name}" if server else name or ""
    return _add_run(state, line, event, name, EMPTY if arguments in (b"", b"null") else arguments)


def read_search(state: CodexState, line: Line, event: Payload) -> Step:
    """The web was searched."""
    return _add_run(state, line, event, "web_search", encode({"query": event.query or ""}))


def _add_run(state: CodexState, line: Line, event: Payload, name: str, arguments: bytes) -> Step:
    """In a file with response items, only the outcome is new."""
    call_id = event.call_id or event.id or ""
    is_error = has_failed(event)
    if state.responses:
        after, outcome = record_outcome(state, call_id, is_error)
        return after, [*outcome, *note_activity(line.timestamp)]
    cwd = (event.cwd or "").removeprefix("file://") or None
    return add_whole(state, line, Call(name, arguments, call_id or None, event_output(event), bool(is_error), cwd))


TURNS: Final = frozenset({"task_started", "turn_started"})
SILENT_EVENTS: Final = """
    agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break token_count task_started
    turn_started entered_review_mode context_compacted image_generation_end
    thread_goal_updated thread_settings_applied sub_agent_activity collab_agent_spawn_begin
    collab_agent_spawn_end collab_agent_interaction_begin collab_agent_interaction_end collab_waiting_begin
    collab_waiting_end collab_close_begin collab_close_end collab_resume_begin collab_resume_end guardian_assessment
    error warning stream_error exec_command_begin exec_command_output_delta patch_apply_begin mcp_tool_call_begin
    web_search_begin turn_diff plan_update view_image_tool_call background_event undo_started undo_completed
    session_configured item_started model_reroute deprecation_notice dynamic_tool_call_request
    dynamic_tool_call_response shutdown_complete
"""
SILENT_ITEMS: Final = """
    Reasoning HookPrompt CollabAgentToolCall SubAgentActivity ImageView Sleep ImageGeneration ContextCompaction
"""

EVENTS: Final[dict[str, Handler]] = dict.fromkeys(SILENT_EVENTS.split(), skip)
EVENTS.update(
    {
        **dict.fromkeys(("task_complete", "turn_complete", "turn_aborted"), read_end),
        "user_message": read_user_event,
        "agent_message": read_agent_message,
        "item_completed": read_item,
        "exited_review_mode": read_review,
        "thread_name_updated": read_thread_name,
        "thread_rolled_back": read_roll_back,
        "exec_command_end": read_command,
        "patch_apply_end": read_patch,
        "mcp_tool_call_end": read_tool,
        "web_search_end": read_search,
    }
)

ITEMS: Final[dict[str, Handler]] = dict.fromkeys(SILENT_ITEMS.split(), skip)
ITEMS.update(
    {
        "UserMessage": read_user_item,
        "AgentMessage": read_agent_message,
        "Plan": read_agent_message,
        "CommandExecution": read_command,
        "FileChange": read_patch,
        "McpToolCall": read_tool,
        "DynamicToolCall": read_tool,
        "WebSearch": read_search,
    }
)
