"""What each type of line becomes: `CHAIN` has the lines of the conversation, `ASIDE` those about it."""

from collections.abc import Callable
from typing import Final

from sesamed.model import Operation, Unknown
from sesamed.sources.claude.facts import read_ai_title, read_custom_title, read_summary
from sesamed.sources.claude.lines import Content, Line
from sesamed.sources.claude.records import (
    CALLS,
    blocks,
    is_by_person,
    locate,
    make_message,
    read_assistant,
    read_prompt,
    read_user,
)
from sesamed.sources.claude.state import ClaudeState, Step, advance
from sesamed.sources.records import join_texts

BLOCKS: Final = CALLS | {"text", "thinking", "redacted_thinking", "tool_result", "image", "document", "tool_reference"}


def read_system(state: ClaudeState, line: Line) -> Step:
    """A message of the program's. Only the summary of what happened while the person was away is indexed."""
    text = join_texts(line.content) if line.subtype == "away_summary" else ""
    return advance(state, line), [make_message(locate(state, line), "summary", text, text)] if text.strip() else []


def read_attachment(state: ClaudeState, line: Line) -> Step:
    """Something attached to a prompt. A queued prompt is one that was typed while the agent worked."""
    then, attached = advance(state, line), line.attachment
    if attached is None or attached.type != "queued_command":
        return then, []
    if line.is_meta or attached.is_meta or attached.command_mode == "task-notification":
        return then, []
    if not (is_by_person(attached.origin) and is_by_person(line.origin)):
        return then, []
    return read_prompt(then, locate(state, line), attached.prompt)


def skip(state: ClaudeState, line: Line) -> Step:
    """A known type without anything to index."""
    return advance(state, line), []


def skip_aside(state: ClaudeState, _: Line) -> Step:
    """A known type without anything to index."""
    return state, []


def skip_unknown(state: ClaudeState, line: Line) -> Step:
    """A new type; it may be part of the chain of parents."""
    return advance(state, line), [Unknown(type=line.type)]


def count_odd_blocks(content: Content) -> list[Operation]:
    """Count blocks of unknown types."""
    return [
        Unknown(type=f"block/{block.type}")
        for block in blocks(content)
        if block.type not in BLOCKS and not block.type.endswith("_tool_result")
    ]


Handler = Callable[[ClaudeState, Line], Step]

CHAIN: Final[dict[str, Handler]] = {
    "user": read_user,
    "assistant": read_assistant,
    "system": read_system,
    "attachment": read_attachment,
    "progress": skip,
}

ASIDE: Final[dict[str, Handler]] = {
    "custom-title": read_custom_title,
    "ai-title": read_ai_title,
    "summary": read_summary,
} | dict.fromkeys(
    """agent-name tag last-prompt pr-link queue-operation file-history-snapshot permission-mode mode agent-setting bridge-session
    atis-latch cost-state tools-used worktree-state relocated frame-link api-request-shape api-request-blob api-request
    started result""".split(),
    skip_aside,
)
