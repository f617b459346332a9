"""Kimi Code's `wire.jsonl`: the log that an agent is rebuilt from. Each message is in it up to three times; what is read are the changes of
the context, which are there while the agent works."""

import html
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.calls import strip_server
from sesamed.model import Message as Said
from sesamed.model import Undone, Unknown, record_key
from sesamed.sources.elements import inner
from sesamed.sources.kimi.cli import Step, add_prompt, add_result, make_message
from sesamed.sources.kimi.lines import Event, KimiState, Line, Message, Origin, text_of
from sesamed.sources.records import OpenCall, Place, add_open, millis, note_activity

SHELL_TOOL: Final = "Bash"
PROMPTS: Final = 64
COMMAND_CHARS: Final = 1 << 15  # it is stored with the cursor until its output comes
IMPORTED: Final = "<system>The user has imported context from "
SUBAGENT: Final = "subagent"


def read_line(state: KimiState, line: Line) -> Step:
    """A line of any type."""
    handler = TYPES.get(line.type)
    if handler is not None:
        return handler(state, line)
    is_known = line.type in SKIPPED or line.type.partition(".")[0] in ASIDE
    return state, [] if is_known else [Unknown(type=line.type)]


def locate(state: KimiState, line: Line, name: str | None) -> Place:
    """Where a line stands. Ids of calls may be no more than numbers, so the time is part of what a line is known by."""
    return Place(entry=None, time_ms=millis(line.time), cwd=state.cwd, stamp=f"kimi\0{line.time}\0{name or ''}")


# -- the user


def read_message(state: KimiState, line: Line) -> Step:
    """A message by the person, or by somebody in the person's name."""
    message = line.message or Message()
    if message.role != "user":
        return state, [Unknown(type=f"context.append_message/{message.role}")]
    place, origin = locate(state, line, message.id), message.origin or Origin(kind="user")
    text = text_of(message.content)
    if origin.kind == "shell_command":
        return _read_command(state, place, origin, text)
    said = _typed(state, origin, text)
    if said is None:
        return state, []
    state, operations = add_prompt(state, place, said)
    keys = [operation.key for operation in operations if isinstance(operation, Said)]
    return replace(state, prompts=(*state.prompts, *keys)[-PROMPTS:]), operations


def _typed(state: KimiState, origin: Origin, text: str) -> str | None:
    """What the person typed; None if somebody else said this. To a subagent its task is said by another agent."""
    if origin.kind == "user":
        return None if text.startswith(IMPORTED) else text
    if origin.kind == "system_trigger" and origin.name == SUBAGENT:
        return text
    if origin.kind == "skill_activation" and origin.trigger == "user-slash":
        return " ".join(filter(None, (f"/{origin.skill_name or ''}", origin.skill_args)))
    if origin.kind == "plugin_command":
        return " ".join(filter(None, (f"/{origin.command_name or ''}", origin.command_args)))
    return None


def _read_command(state: KimiState, place: Place, origin: Origin, text: str) -> Step:
    """A command of the person's (`!`): what it is, then what it wrote."""
    if origin.phase == "input":
        typed = html.unescape(inner(text, "bash-input") or "").strip("\n")
        return replace(state, command=typed[:COMMAND_CHARS]), []
    outputs = [inner(text, tag) for tag in ("bash-stdout", "bash-stderr")]
    output = "\n".join(html.unescape(part) for part in outputs if part)
    arguments = msgspec.json.encode({"command": (state.command or "").encode("utf-8", "replace").decode()})
    key = record_key(f"{place.stamp}\0command", arguments)
    call = place.command(key, SHELL_TOOL, arguments, output=output, is_error=bool(origin.is_error))
    return replace(state, command=None), [call]


def read_undo(state: KimiState, line: Line) -> Step:
    """The person took back the last prompts, and what came of them."""
    count = min(max(line.count or 0, 0), len(state.prompts))
    if not count:
        return state, []
    taken = state.prompts[-count]
    return replace(state, prompts=state.prompts[:-count]), [Undone(key=taken, time_ms=millis(line.time))]


def read_summary(state: KimiState, line: Line) -> Step:
    """What the model is shown from now on, instead of what was said."""
    text = line.summary or ""
    return state, [make_message(locate(state, line, None), "summary", text)] if text.strip() else []


# -- the model


def read_event(state: KimiState, line: Line) -> Step:
    """A step of the model's."""
    event = line.event or Event()
    handler = EVENTS.get(event.type)
    if handler is None:
        is_known = event.type.startswith("step.")
        return state, note_activity(line.time) if is_known else [
            Unknown(type=f"context.append_loop_event/{event.type}")
        ]
    return handler(state, locate(state, line, event.uuid or event.tool_call_id), event)


def read_part(state: KimiState, place: Place, event: Event) -> Step:
    """A part of an answer, once it is whole."""
    text = "" if event.part is None or event.part.type != "text" else event.part.text or ""
    return state, [make_message(place, "assistant", text)] if text.strip() else note_activity(place.time_ms)


def read_call(state: KimiState, place: Place, event: Event) -> Step:
    """A call, before the tool begins."""
    name, arguments = event.name or "", bytes(event.args)
    key = record_key(f"{place.stamp}\0call\0{name}", arguments)
    call = place.call(key, name, arguments, tool=strip_server(name))
    if event.tool_call_id is not None:
        state = replace(state, calls=add_open(state.calls, {event.tool_call_id: OpenCall(call.key, call.hidden)}))
    return state, [call]


def read_result(state: KimiState, place: Place, event: Event) -> Step:
    """What a call gave back."""
    if event.result is None:
        return state, []
    text = text_of(event.result.output)
    return add_result(state, place, event.tool_call_id or "", text, is_error=bool(event.result.is_error))


def read_clearing(state: KimiState, _: Line) -> Step:
    """The conversation began anew: nothing of what was before can be taken back."""
    return replace(state, prompts=()), []


EVENTS: Final[dict[str, Callable[[KimiState, Place, Event], Step]]] = {
    "content.part": read_part,
    "tool.call": read_call,
    "tool.result": read_result,
}
TYPES: Final[dict[str, Callable[[KimiState, Line], Step]]] = {
    "context.append_message": read_message,
    "context.append_loop_event": read_event,
    "context.apply_compaction": read_summary,
    "context.undo": read_undo,
    "context.clear": read_clearing,
}
SKIPPED: Final = frozenset({"context.update_token_count", "context.overflow", "context.spliced", "forked", "metadata"})
# What is about the program, or repeats what is said: the first words of their types.
ASIDE: Final = frozenset(
    """agent config cron full_compaction goal llm mcp micro_compaction permission plan_mode plugin profile prompt runtime skill swarm_mode
    task token_counting tools turn usage""".split()
)
