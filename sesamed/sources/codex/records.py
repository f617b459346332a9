"""What each type of line (`LINES_OF`), and each type of response item (`RESPONSES`), becomes."""

from collections.abc import Callable
from typing import Final

from sesamed.model import Unknown
from sesamed.sources.codex import calls as calls
from sesamed.sources.codex.events import Handler, event, silent
from sesamed.sources.codex.lines import Line, Payload
from sesamed.sources.codex.messages import heard, message, said
from sesamed.sources.codex.meta import session_meta, turn_context
from sesamed.sources.codex.state import CodexState, Step, changed
from sesamed.sources.codex.text import text_of


def response_item(state: CodexState, line: Line, item: Payload) -> Step:
    """What the model was told, said and called."""
    if not state.responses:
        state = changed(state, responses=True)
    handler = RESPONSES.get(item.type)
    return (state, [Unknown(type=f"response/{item.type}")]) if handler is None else handler(state, line, item)


def compacted(state: CodexState, line: Line, item: Payload) -> Step:
    """The history was replaced by a summary; what replaces it was said before."""
    return said(state, line, "summary", item.message or "")


def other_agent(state: CodexState, line: Line, item: Payload) -> Step:
    """What agents tell each other."""
    return heard(state, line, text_of(item.content))


def enveloped(state: CodexState, line: Line) -> Step:
    """A line with a payload."""
    if state.own_from is not None and line.ordinal is not None and line.ordinal >= state.own_from:
        state = changed(state, copied=False, own_from=None)
    handler = LINES_OF.get(line.type)
    if handler is None or line.payload is None:
        return state, [Unknown(type=line.type)]
    return handler(state, line, line.payload)


def _by_line(handler: Callable[[CodexState, Line], Step]) -> Handler:
    return lambda state, line, _: handler(state, line)


LINES_OF: Final[dict[str, Handler]] = {
    "session_meta": _by_line(session_meta),
    "turn_context": _by_line(turn_context),
    "response_item": response_item,
    "event_msg": event,
    "compacted": compacted,
    "inter_agent_communication": other_agent,
    "inter_agent_communication_metadata": silent,
    "world_state": silent,
    "security_risk_score": silent,
    "token_usage_record": silent,
}

RESPONSES: Final[dict[str, Handler]] = {
    "message": message,
    "agent_message": other_agent,
    "function_call": calls.function_call,
    "function_call_output": calls.output,
    "custom_tool_call": calls.custom_tool_call,
    "custom_tool_call_output": calls.output,
    "local_shell_call": calls.local_shell_call,
    "local_shell_call_output": calls.output,
    "tool_search_call": calls.tool_search_call,
    "tool_search_output": calls.tool_search_output,
    "web_search_call": calls.web_search_call,
    "image_generation_call": calls.image_generation_call,
    "reasoning": silent,
    "ghost_snapshot": silent,
    "compaction": silent,
    "compaction_summary": silent,
    "context_compaction": silent,
    "additional_tools": silent,
    "configuration_update": silent,
}
