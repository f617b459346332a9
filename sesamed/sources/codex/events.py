"""What events add to the response items, or have alone: exit codes, names, turns, and all of it in a file without items.

An `item_completed` event has an item: the same things as the older events, in another shape.
"""

from collections.abc import Callable
from typing import Final

from sesamed.model import Fact, NameRank, Undone, Unknown
from sesamed.sources.codex.calls import Made, made
from sesamed.sources.codex.json import EMPTY, encoded
from sesamed.sources.codex.lines import Line, Payload
from sesamed.sources.codex.messages import answer, review, user_event, user_item
from sesamed.sources.codex.open import noted
from sesamed.sources.codex.outputs import failed, told_output
from sesamed.sources.codex.state import CodexState, Step, rolled_back, turned
from sesamed.sources.codex.text import text_of

Handler = Callable[[CodexState, Line, Payload], Step]


def event(state: CodexState, line: Line, told: Payload) -> Step:
    """A line of type `event_msg`."""
    if told.type in TURNS:
        state = turned(state, told.turn_id)
    handler = EVENTS.get(told.type)
    return (state, [Unknown(type=f"event/{told.type}")]) if handler is None else handler(state, line, told)


def item_completed(state: CodexState, line: Line, told: Payload) -> Step:
    """What the item is."""
    item = told.item
    if item is None:
        return state, [Unknown(type="item/")]
    handler = ITEMS.get(item.type)
    return (state, [Unknown(type=f"item/{item.type}")]) if handler is None else handler(state, line, item)


def silent(state: CodexState, _: Line, __: Payload) -> Step:
    """Known, and nothing to find in it."""
    return state, []


def agent_message(state: CodexState, line: Line, told: Payload) -> Step:
    """The model's words: of use only where no response item has them."""
    text = told.message or told.text or text_of(told.content)
    return (state, []) if state.responses else answer(state, line, text)


def thread_name(state: CodexState, _: Line, told: Payload) -> Step:
    """The session was given a name. In a copy of the parent's lines it is the parent's. Of a thread's files, the later one knows."""
    if told.thread_id != state.session if told.thread_id is not None else state.copied:
        return state, []
    rank = NameRank.TITLED if state.rollout is None else NameRank.RENAMED
    return state, [Fact(field="name", value=(told.thread_name or "").strip(), rank=rank, keep="last")]


def taken_back(state: CodexState, _: Line, told: Payload) -> Step:
    """The person went back some turns."""
    state, key = rolled_back(state, told.num_turns or 0)
    return state, [] if key is None else [Undone(key=key)]


def command(state: CodexState, line: Line, told: Payload) -> Step:
    """A command has run."""
    arguments = encoded({"command": told.command}) if bytes(told.command) != b"null" else EMPTY
    return _ran(state, line, told, "shell", arguments)


def patch(state: CodexState, line: Line, told: Payload) -> Step:
    """Files were changed."""
    arguments = encoded({"changes": told.changes}) if bytes(told.changes) != b"null" else EMPTY
    return _ran(state, line, told, "apply_patch", arguments)


def tool(state: CodexState, line: Line, told: Payload) -> Step:
    """A tool of an MCP server was called."""
    by = told.invocation
    server, name = (told.server, told.tool) if by is None else (by.server, by.tool)
    arguments = bytes(told.arguments if by is None else by.arguments)
    name = f"mcp__{server}__{name}" if server else name or ""
    return _ran(state, line, told, name, EMPTY if arguments in (b"", b"null") else arguments)


def search(state: CodexState, line: Line, told: Payload) -> Step:
    """The web was searched."""
    return _ran(state, line, told, "web_search", encoded({"query": told.query or ""}))


def _ran(state: CodexState, line: Line, told: Payload, name: str, arguments: bytes) -> Step:
    """With response items in the file, only how it went is news."""
    call_id = told.call_id or told.id or ""
    is_error = failed(told)
    if state.responses:
        return noted(state, call_id, is_error)
    cwd = (told.cwd or "").removeprefix("file://") or None
    return made(state, line, Made(name, arguments, call_id or None, told_output(told), bool(is_error), cwd))


TURNS: Final = frozenset({"task_started", "turn_started"})
SILENT_EVENTS: Final = """
    agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break token_count task_started task_complete
    turn_started turn_complete turn_aborted entered_review_mode context_compacted image_generation_end
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

EVENTS: Final[dict[str, Handler]] = dict.fromkeys(SILENT_EVENTS.split(), silent)
EVENTS.update(
    {
        "user_message": user_event,
        "agent_message": agent_message,
        "item_completed": item_completed,
        "exited_review_mode": review,
        "thread_name_updated": thread_name,
        "thread_rolled_back": taken_back,
        "exec_command_end": command,
        "patch_apply_end": patch,
        "mcp_tool_call_end": tool,
        "web_search_end": search,
    }
)

ITEMS: Final[dict[str, Handler]] = dict.fromkeys(SILENT_ITEMS.split(), silent)
ITEMS.update(
    {
        "UserMessage": user_item,
        "AgentMessage": agent_message,
        "Plan": agent_message,
        "CommandExecution": command,
        "FileChange": patch,
        "McpToolCall": tool,
        "DynamicToolCall": tool,
        "WebSearch": search,
    }
)
