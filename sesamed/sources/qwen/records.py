"""What each type of Qwen Code's lines becomes. A line may come in several, which have the same uuid: each says a part of it."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.calls import strip_server
from sesamed.model import Fact, Message, NameRank, Operation, Role, Undone, Unknown, record_key
from sesamed.sources.gemini.lines import (
    ACKNOWLEDGED,
    COMMANDS,
    FunctionResponse,
    Part,
    command_of,
    is_failed_command,
    is_failure,
    output_of,
    prompt_of,
    text_of,
)
from sesamed.sources.names import prompt_fact, title_fact
from sesamed.sources.qwen.lines import Line, Payload, QwenState, Turn, goes_on, output_of_shell, parts_of
from sesamed.sources.records import ID_CHARS, OpenCall, Place, add_open, drop_open, link_parent, millis, note_activity
from sesamed.sources.tasks import has_failed, result_of_task

SHELL_TOOL: Final = "run_shell_command"
FAILED: Final = frozenset({"error", "cancelled"})
TURNS: Final = 64
# Prompts of the program's; those that it does not mark are older than any of these.
OWN_SUBTYPES: Final = frozenset({"goal_runtime"})
OWN_PROVENANCES: Final = frozenset({"goal_control", "goal_runtime", "system"})
NOTIFIED: Final = "notification"
SCHEDULED: Final = "cron"

Step = tuple[QwenState, list[Operation]]


def locate(state: QwenState, line: Line) -> Place:
    """Where a line stands. A part of the line before follows what that follows."""
    parent = msgspec.UNSET if line.uuid and line.uuid == state.last else line.parent_uuid
    name = line.uuid or f"{state.file_id}\0{line.timestamp}\0{state.nameless}"
    return Place(
        entry=line.uuid,
        parent=link_parent(parent, state.last),
        time_ms=millis(line.timestamp),
        cwd=line.cwd or state.cwd,
        stamp=f"qwen\0{name}",
    )


# -- the user


def read_user(state: QwenState, line: Line) -> Step:
    """A prompt, or what the program says in the person's name."""
    place, parts = locate(state, line), parts_of(line)
    if line.subtype == NOTIFIED:
        return _read_notification(state, place, text_of(parts))
    shown = "" if line.system_payload is None else line.system_payload.display_text or ""
    if line.subtype == SCHEDULED:
        text = shown or text_of(parts)
        return state, [_message(place, "custom", f"[{SCHEDULED}]\n{text}")] if text.strip() else []
    if line.subtype in OWN_SUBTYPES or line.provenance in OWN_PROVENANCES:
        return state, []
    return _read_prompt(state, line, place, parts, shown)


def _read_prompt(state: QwenState, line: Line, place: Place, parts: Sequence[Part], shown: str) -> Step:
    command = command_of(text_of(parts))
    if command is not None:
        arguments = msgspec.json.encode({"command": command[0]})
        key = record_key(f"{place.stamp}\0command", arguments)
        failed = is_failed_command(command[1])
        return state, [place.command(key, SHELL_TOOL, arguments, output=command[1], is_error=failed)]
    text = shown if shown.strip() else prompt_of(parts)
    if not text.strip() and not any(bytes(part.inline_data) or bytes(part.file_data) for part in parts):
        return state, []
    said = _message(place, "user", text)
    state = replace(state, turns=(*state.turns, Turn(_followed_by(line), said.key))[-TURNS:])
    name = None if state.named else prompt_fact(text)
    if name is None:
        return state, [said]
    if text.startswith(COMMANDS):
        name = replace(name, rank=NameRank.STAND_IN)
    return replace(state, named=name.rank == NameRank.PROMPT), [said, name]


def _read_notification(state: QwenState, place: Place, text: str) -> Step:
    """A task in the background has ended: that is the result of the call that began it."""
    call_id, result = result_of_task(text)
    call = state.calls.get(call_id)
    if call is None:
        return state, []
    ended = place.result(call, result, is_error=has_failed(text))
    return replace(state, calls=drop_open(state.calls, call_id)), [ended]


# -- the model


def read_answer(state: QwenState, line: Line) -> Step:
    """What the model says, and its calls."""
    place, parts = locate(state, line), parts_of(line)
    text = text_of(parts)
    operations: list[Operation] = [_message(place, "assistant", text)] if text.strip() else []
    new: dict[str, OpenCall] = {}
    for number, part in enumerate(parts):
        call = part.function_call
        if call is None:
            continue
        name, arguments = call.name or "", bytes(call.args)
        key = record_key(f"{place.stamp}\0call\0{call.id or number}", name)
        record = place.call(key, name, arguments, tool=strip_server(name))
        operations.append(record)
        if call.id:
            new[call.id] = OpenCall(record.key, record.hidden)
    if not operations:
        operations = note_activity(line.timestamp)
    return (replace(state, calls=add_open(state.calls, new)) if new else state), operations


def read_result(state: QwenState, line: Line) -> Step:
    """What calls gave back; one that is not known is a call of its own. A task that has only begun has no result yet."""
    if goes_on(line.tool_call_result):
        return state, []
    place, operations = locate(state, line), list[Operation]()
    failed = line.tool_call_result is not None and line.tool_call_result.status in FAILED
    for part in parts_of(line):
        if part.function_response is not None:
            state, more = _read_response(state, place, part, part.function_response, failed=failed)
            operations += more
    return state, operations


def _read_response(state: QwenState, place: Place, part: Part, response: FunctionResponse, *, failed: bool) -> Step:
    given, is_error = output_of([part]) or ("", False)
    text, name = output_of_shell(given), response.name or ""
    is_error = failed or is_error or (name == SHELL_TOOL and is_failure(given))
    call = state.calls.get(response.id or "")
    if call is not None:
        after = replace(state, calls=drop_open(state.calls, response.id or ""))
        return after, [place.result(call, text, is_error=is_error)]
    key = record_key(f"{place.stamp}\0result\0{response.id}\0{name}", text)
    return state, [place.call(key, name, tool=strip_server(name), output=text, is_error=is_error)]


# -- the program


def read_system(state: QwenState, line: Line) -> Step:
    """What is said about the session."""
    subtype = line.subtype or ""
    if subtype in SKIPPED:
        return state, []
    handler = ABOUT.get(subtype)
    if handler is None:
        return state, [Unknown(type=f"system/{subtype}")]
    return handler(state, line, line.system_payload or Payload())


def read_title(state: QwenState, _: Line, payload: Payload) -> Step:
    """A name, by the person unless it says otherwise; it is written again and again."""
    rank = NameRank.TITLED if payload.title_source == "auto" else NameRank.RENAMED
    return state, [title_fact(payload.custom_title or "", rank)]


def read_compression(state: QwenState, line: Line, payload: Payload) -> Step:
    """The summary that the history begins with from now on. A fast compression has none: it only leaves parts out."""
    texts = [text_of(said.parts or []) for said in (payload.compressed_history or ())[:2]]
    if len(texts) < 2 or not texts[1].startswith(ACKNOWLEDGED) or not texts[0].strip():
        return state, []
    return state, [_message(locate(state, line), "summary", texts[0])]


def read_parent(state: QwenState, _: Line, payload: Payload) -> Step:
    """The session that began this one."""
    parent = payload.parent_session_id
    return state, [Fact(field="parent_id", value=parent)] if parent else []


def read_rewind(state: QwenState, line: Line, _: Payload) -> Step:
    """The person went back to before a prompt: to what that one follows."""
    after = _followed_by(line)
    number = next((at for at, turn in enumerate(state.turns) if turn.after == after), None)
    if number is None:
        return state, []
    taken = state.turns[number]
    return replace(state, turns=state.turns[:number]), [Undone(key=taken.key, time_ms=millis(line.timestamp))]


def _followed_by(line: Line) -> str:
    """The id of what a line follows, or the beginning of one that is too long to be any: the state keeps it."""
    return "" if line.parent_uuid is msgspec.UNSET else (line.parent_uuid or "")[:ID_CHARS]


ABOUT: Final[dict[str, Callable[[QwenState, Line, Payload], Step]]] = {
    "custom_title": read_title,
    "chat_compression": read_compression,
    "parent_session": read_parent,
    "rewind": read_rewind,
}
SKIPPED: Final = frozenset(
    """ui_telemetry attribution_snapshot file_history_snapshot slash_command at_command session_source session_model agent_bootstrap
    agent_launch_prompt agent_retry user_text_elements session_artifact_event session_artifact_snapshot branch_checkpoint goal_state
    goal_runtime turn_result""".split()
)


def _message(place: Place, role: Role, text: str) -> Message:
    return place.message(record_key(f"{place.stamp}\0{role}", text), role, text, prompt=role == "user")
