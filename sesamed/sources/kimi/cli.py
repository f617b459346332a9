"""Kimi CLI's `wire.jsonl`: what goes between the model and the terminal, a message a line, without ids.

A line that was copied into a fork is the same, to its time, by which it is known.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from sesamed.model import Message, NameRank, Operation, Role, Unknown, record_key
from sesamed.sources.kimi.lines import KimiState, Line, Payload, text_of
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import OpenCall, Place, Time, add_open, drop_open, millis, note_activity

GIT_CONTEXT: Final = re.compile(
    r"\A\s*+<git-context>.*?</git-context>\s*+", re.DOTALL
)  # what a subagent is told beside its task

Step = tuple[KimiState, list[Operation]]


def locate(state: KimiState, line: Line) -> Place:
    """Where a line stands."""
    return Place(time_ms=from_seconds(line.timestamp), cwd=state.cwd, stamp=f"kimi\0{line.timestamp}")


def from_seconds(time: Time) -> int | None:
    """A time in milliseconds."""
    return millis(time * 1000) if isinstance(time, int | float) else None


def read_line(state: KimiState, line: Line) -> Step:
    """A message of any type."""
    message = line.message
    kind = "" if message is None else message.type or ""
    handler = TYPES.get(kind)
    if message is None or handler is None:
        return state, [] if kind in SKIPPED else [Unknown(type=f"message/{kind}")]
    return handler(state, locate(state, line), message.payload or Payload())


def read_prompt(state: KimiState, place: Place, payload: Payload) -> Step:
    """A prompt, at the beginning of a turn or during it."""
    return add_prompt(state, place, text_of(payload.user_input))


def add_prompt(state: KimiState, place: Place, text: str) -> Step:
    """What the person said, or another agent to one that works for it; the first prompt that says something names the session."""
    text = GIT_CONTEXT.sub("", text)
    said = make_message(place, "user", text)
    name = None if state.named else prompt_fact(text)
    if name is None:
        return state, [said]
    if text.startswith("/"):
        name = replace(name, rank=NameRank.STAND_IN)
    return replace(state, named=name.rank == NameRank.PROMPT), [said, name]


def read_part(state: KimiState, place: Place, payload: Payload) -> Step:
    """A part of an answer."""
    if payload.type != "text" or not (payload.text or "").strip():
        return state, note_activity(place.time_ms)
    return state, [make_message(place, "assistant", payload.text or "")]


def read_call(state: KimiState, place: Place, payload: Payload) -> Step:
    """A call, before the tool begins."""
    function = payload.function
    name = "" if function is None else function.name or ""
    arguments = b"{}" if function is None else (function.arguments or "{}").encode("utf-8", "surrogatepass")
    call = place.call(record_key(f"{place.stamp}\0call\0{payload.id}\0{name}", arguments), name, arguments)
    if payload.id is not None:
        state = replace(state, calls=add_open(state.calls, {payload.id: OpenCall(call.key, call.hidden)}))
    return state, [call]


def read_result(state: KimiState, place: Place, payload: Payload) -> Step:
    """What a call gave back, and how a failed command ended."""
    returned, name = payload.return_value, payload.tool_call_id or ""
    if returned is None:
        return state, []
    text, failed = text_of(returned.output), bool(returned.is_error)
    if (failed or not text.strip()) and returned.message:
        text = "\n".join(filter(str.strip, (text.rstrip("\n"), returned.message)))
    return add_result(state, place, name, text, is_error=failed)


def add_result(state: KimiState, place: Place, name: str, text: str, *, is_error: bool) -> Step:
    """The result of the call with this id; if that is not known, it becomes a call of its own."""
    call = state.calls.get(name)
    if call is None:
        key = record_key(f"{place.stamp}\0result\0{name}", text)
        return state, [place.call(key, "", output=text, is_error=is_error)]
    return replace(state, calls=drop_open(state.calls, name)), [place.result(call, text, is_error=is_error)]


def read_question(state: KimiState, place: Place, payload: Payload) -> Step:
    """A question aside, which is not part of the conversation that the model sees."""
    return state, [make_message(place, "user", payload.question or "")]


def read_answer(state: KimiState, place: Place, payload: Payload) -> Step:
    """The answer to a question aside."""
    text = payload.response or ""
    return state, [make_message(place, "assistant", text)] if text.strip() else []


def make_message(place: Place, role: Role, text: str) -> Message:
    """A message; a prompt begins an exchange."""
    return place.message(record_key(f"{place.stamp}\0{role}", text), role, text, prompt=role == "user")


TYPES: Final[dict[str, Callable[[KimiState, Place, Payload], Step]]] = {
    "TurnBegin": read_prompt,
    "SteerInput": read_prompt,
    "ContentPart": read_part,
    "ToolCall": read_call,
    "ToolResult": read_result,
    "BtwBegin": read_question,
    "BtwEnd": read_answer,
}
SKIPPED: Final = frozenset(
    """TurnEnd StepBegin StepInterrupted StepRetry CompactionBegin CompactionEnd HookTriggered HookResolved MCPLoadingBegin MCPLoadingEnd
    StatusUpdate Notification PlanDisplay SubagentEvent ApprovalRequest ApprovalResponse ApprovalRequestResolved QuestionRequest
    ToolCallRequest ToolCallPart HookRequest""".split()
)
