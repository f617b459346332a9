"""What each type of line becomes: `CHAIN` has the lines of the conversation, `ASIDE` those about it."""

from collections.abc import Callable
from typing import Final

from sesamed.model import Operation, Unknown
from sesamed.sources.calls import OpenCall, opened
from sesamed.sources.claude.answers import replacing
from sesamed.sources.claude.facts import Step, ai_title, custom_title, summary
from sesamed.sources.claude.lines import Content, Line
from sesamed.sources.claude.operations import answered, place_of, said, tool_call
from sesamed.sources.claude.state import ClaudeState, after
from sesamed.sources.claude.text import text_of
from sesamed.sources.claude.user import asked, blocks, by_person, results, user

CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
BLOCKS: Final = CALLS | {"text", "thinking", "redacted_thinking", "tool_result", "image", "document", "tool_reference"}
NOTHING_SAID: Final = ("<synthetic>", "No response requested.")


def assistant(state: ClaudeState, line: Line) -> Step:
    """A block of a response, or all of them; a response's other blocks are other lines."""
    spoken = line.message
    if spoken is None or line.is_api_error_message:
        return after(state, line), []
    place = place_of(state, line)
    if isinstance(spoken.content, str):
        text = spoken.content
        state, operations = replacing(state, line, [answered(place, spoken.id, text)] if text.strip() else [])
        return after(state, line), operations
    operations = []
    new: dict[str, OpenCall] = {}
    for block in spoken.content or ():
        if block.type == "text" and block.text and not block.text.isspace():
            if (spoken.model, block.text) != NOTHING_SAID:
                operations.append(answered(place, spoken.id, block.text))
        elif block.type in CALLS:
            call = tool_call(place, block)
            operations.append(call)
            if block.id:
                new[block.id] = OpenCall(call.key, call.hidden)
    state, operations = replacing(state, line, operations)
    calls = opened(state.calls, new) if new else state.calls
    calls, answers = results(calls, place, spoken.content)
    return after(state, line, calls), operations + answers


def system(state: ClaudeState, line: Line) -> Step:
    """What the program says. Only what happened while the person was away is worth finding."""
    text = text_of(line.content) if line.subtype == "away_summary" else ""
    return after(state, line), [said(place_of(state, line), "summary", text, text)] if text.strip() else []


def attachment(state: ClaudeState, line: Line) -> Step:
    """What came along with a prompt. A queued prompt is one that was typed while the agent worked."""
    then, attached = after(state, line), line.attachment
    if attached is None or attached.type != "queued_command":
        return then, []
    if line.is_meta or attached.is_meta or attached.command_mode == "task-notification":
        return then, []
    if not (by_person(attached.origin) and by_person(line.origin)):
        return then, []
    return asked(then, place_of(state, line), attached.prompt)


def silent(state: ClaudeState, line: Line) -> Step:
    """Known, and nothing to find in it."""
    return after(state, line), []


def aside(state: ClaudeState, _: Line) -> Step:
    """Known, and nothing to find in it."""
    return state, []


def unknown(state: ClaudeState, line: Line) -> Step:
    """A type of another day; it may be a link in the chain of parents."""
    return after(state, line), [Unknown(type=line.type)]


def odd_blocks(content: Content) -> list[Operation]:
    """A count of the blocks that we do not know."""
    return [
        Unknown(type=f"block/{block.type}")
        for block in blocks(content)
        if block.type not in BLOCKS and not block.type.endswith("_tool_result")
    ]


Handler = Callable[[ClaudeState, Line], Step]

CHAIN: Final[dict[str, Handler]] = {
    "user": user,
    "assistant": assistant,
    "system": system,
    "attachment": attachment,
    "progress": silent,
}

ASIDE: Final[dict[str, Handler]] = {
    "custom-title": custom_title,
    "ai-title": ai_title,
    "summary": summary,
} | dict.fromkeys(
    [
        "agent-name",
        "tag",
        "last-prompt",
        "pr-link",
        "queue-operation",
        "file-history-snapshot",
        "permission-mode",
        "mode",
        "agent-setting",
        "bridge-session",
        "atis-latch",
        "cost-state",
        "tools-used",
        "worktree-state",
        "relocated",
        "frame-link",
        "api-request-shape",
        "api-request-blob",
        "api-request",
        "started",
        "result",
    ],
    aside,
)
