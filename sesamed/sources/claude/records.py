"""The records of a line of type `user` or `assistant`: what was said, called and given back. Most of type `user` are not the person's.

Keys must be the same in copies of a line in resumed and forked sessions. What stays the same there: of an answer the API's ids
and the text, always; of a prompt its time and text, but in resumes by 0.2.x, which stamp prompts anew (such a copy is
another record). Line uuids do not stay: 0.2.x and the SDK's forks give new ones.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.keys import record_key
from sesamed.model import Fact, Message, NameRank, Operation, Role, ToolCall
from sesamed.source import ForeignFileError
from sesamed.sources.claude.lines import Block, Content, Line, Origin, ToolUseResult
from sesamed.sources.claude.state import ClaudeState, Step, advance, replace_answers
from sesamed.sources.claude.text import (
    NOTIFICATION,
    SHELL,
    inner,
    is_about_the_program,
    is_command,
    output_of,
    prompt_name,
    prompt_of,
    result_of_task,
    summary_of,
)
from sesamed.sources.records import OpenCall, Place, add_open, drop_open, join_texts, link_parent, millis

# Where a person's words come from; all else is the program's, or another agent's.
PEOPLE: Final = frozenset({None, "", "human", "channel"})
SHELL_ID: Final = "!"  # what stands for the id of a command of the person's; the API's are longer
PROBE: Final = "Warmup"
CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
NOTHING_SAID: Final = ("<synthetic>", "No response requested.")
RANDOM_CHARS: Final = 16  # a gateway's own ids may be `msg_1`: such a one needs the time, too


def locate(state: ClaudeState, line: Line) -> Place:
    """Where the line stands."""
    return Place(
        entry=line.uuid,
        parent=link_parent(line.parent_uuid, state.last),
        time_ms=millis(line.timestamp),
        cwd=line.cwd or state.info.cwd,
        stamp=_stamp(state, line),
        side=bool(line.is_sidechain) and not state.info.subagent,
    )


def _stamp(state: ClaudeState, line: Line) -> str:
    """What tells equal texts apart: the time, else what there is."""
    if line.timestamp is not None:
        return str(line.timestamp)
    return line.uuid or f"{state.info.session}\0{state.undated}"


def read_user(state: ClaudeState, line: Line) -> Step:
    """The results in it, then its text."""
    content = None if line.message is None else line.message.content
    place = locate(state, line)
    calls, operations = _read_results(state.calls, place, content, is_async=_goes_on(line))
    raw = join_texts(content)
    then = advance(state, line, calls)
    if operations and not raw:
        return then, operations
    then, more = _read_words(then, line, place, content, raw)
    return then, operations + more


def read_assistant(state: ClaudeState, line: Line) -> Step:
    """A block of a response, or all of them; a response's other blocks are other lines."""
    spoken = line.message
    if spoken is None or line.is_api_error_message:
        return advance(state, line), []
    place = locate(state, line)
    if isinstance(spoken.content, str):
        text = spoken.content
        state, operations = replace_answers(state, line, [_answer(place, spoken.id, text)] if text.strip() else [])
        return advance(state, line), operations
    operations = []
    new: dict[str, OpenCall] = {}
    for part, block in enumerate(spoken.content or ()):
        if block.type == "text" and block.text and not block.text.isspace():
            if (spoken.model, block.text) != NOTHING_SAID:
                operations.append(_answer(place, spoken.id, block.text))
        elif block.type in CALLS:
            call = _tool_call(place, block, part)
            operations.append(call)
            if block.id:
                new[block.id] = OpenCall(call.key, call.hidden)
    state, operations = replace_answers(state, line, operations)
    calls = add_open(state.calls, new) if new else state.calls
    calls, answers = _read_results(calls, place, spoken.content)
    return advance(state, line, calls), operations + answers


def read_prompt(state: ClaudeState, place: Place, content: Content) -> Step:
    """A message that may be the person's: a prompt or a command; many are the program's."""
    raw = join_texts(content)
    if raw.lstrip().startswith(SHELL):
        return _read_shell(state, place, raw)
    prompt = prompt_of(raw)
    if not prompt.strip():
        pictured = not raw.strip() and any(block.type in ("image", "document") for block in blocks(content))
        return state, [make_message(place, "user", raw, "")] if pictured else []
    if state.info.subagent and not state.info.asked and prompt.strip() == PROBE:
        raise ForeignFileError("a probe by the program, not a session")
    return _name_session(state, place, raw, prompt)


def is_by_person(origin: Origin | None) -> bool:
    """Whether a person wrote this, as far as the line says."""
    return origin is None or origin.kind in PEOPLE


def blocks(content: Content) -> list[Block]:
    """The blocks of a content; plain text has none."""
    return content if isinstance(content, list) else []


def _goes_on(line: Line) -> bool:
    """Whether the tool works on in the background: what it gave back is about that, and the result comes as a notification."""
    return isinstance(line.tool_use_result, ToolUseResult) and bool(line.tool_use_result.is_async)


def read_notification(state: ClaudeState, place: Place, raw: str) -> Step:
    """A tool that worked in the background has ended: that is the result of its call."""
    call_id, text = result_of_task(raw)
    call = state.calls.get(call_id)
    if call is None:
        return state, []
    is_error = inner(raw, "status") not in (None, "completed")
    return replace(state, calls=drop_open(state.calls, call_id)), [place.result(call, text, is_error=is_error)]


def _read_words(state: ClaudeState, line: Line, place: Place, content: Content, raw: str) -> Step:
    if line.is_compact_summary:
        return state, [make_message(place, "summary", raw, summary_of(raw))] if raw.strip() else []
    if line.is_meta:
        return state, []
    if raw.startswith(NOTIFICATION):
        then, results = read_notification(state, place, raw)
        if results:
            return then, results
    # A subagent's prompts are another agent's in any case.
    if not state.info.subagent and (line.prompt_source == "system" or not is_by_person(line.origin)):
        return state, []
    return read_prompt(state, place, content)


def _name_session(state: ClaudeState, place: Place, raw: str, prompt: str) -> Step:
    """The first prompt with the person's own words names the session."""
    info = state.info
    said = make_message(place, "user", raw, prompt)
    if is_command(raw) and is_about_the_program(prompt):
        said = replace(said, prompt=False)  # `/compact` begins no exchange
    operations: list[Operation] = [said]
    if info.asked and (info.named or place.side):
        return state, operations
    name, good = ("", False) if info.named or place.side else prompt_name(raw, prompt)
    if name:
        operations.append(Fact(field="name", value=name, rank=NameRank.PROMPT if good else NameRank.STAND_IN))
    return replace(state, info=replace(info, asked=True, named=info.named or good)), operations


def _read_results(
    calls: dict[str, OpenCall], place: Place, content: Content, *, is_async: bool = False
) -> tuple[dict[str, OpenCall], list[Operation]]:
    """Results; one whose call is not known becomes a call of its own."""
    operations: list[Operation] = []
    for part, block in enumerate(blocks(content)):
        if block.type == "tool_result" or block.type.endswith("_tool_result"):
            name, text, is_error = block.tool_use_id or "", output_of(block.content), bool(block.is_error)
            if is_async and not is_error:
                continue
            call = calls.get(name)
            if call is None:
                key = record_key(f"claude\0{_lasting(block.tool_use_id, place, part)}\0tool_result", text)
                operations.append(place.call(key, "", output=text, is_error=is_error))
            else:
                operations.append(place.result(call, text, is_error=is_error))
                calls = drop_open(calls, name)
    return calls, operations


def _read_shell(state: ClaudeState, place: Place, raw: str) -> Step:
    """A command with `!`, and its output in the next line; or both in one."""
    command = inner(raw, "bash-input")
    outputs = [inner(raw, "bash-stdout"), inner(raw, "bash-stderr")]
    output = None if outputs == [None, None] else "\n".join(filter(None, outputs))
    call = state.calls.get(SHELL_ID)
    if command is not None:
        new = _shell_call(place, command, output)
        calls = add_open(state.calls, {SHELL_ID: OpenCall(new.key, new.hidden)}) if output is None else state.calls
        return replace(state, calls=calls), [new]
    if call is None or output is None:
        return state, [] if output is None else [_shell_call(place, None, output)]
    return replace(state, calls=drop_open(state.calls, SHELL_ID)), [place.result(call, output, is_error=False)]


def make_message(place: Place, role: Role, raw: str, text: str) -> Message:
    """A message of the person's, or a summary: `raw` as it stands in the file, `text` as we keep it."""
    key = record_key(f"claude\0{place.stamp}\0{role}", raw)
    return place.message(key, role, text, prompt=role == "user" and not place.side)


def _answer(place: Place, message_id: str | None, text: str) -> Message:
    """A text of the model's. A repetition in the same response is the same record."""
    return place.message(record_key(f"claude\0{_lasting(message_id, place)}\0assistant", text), "assistant", text)


def _tool_call(place: Place, block: Block, part: int) -> ToolCall:
    """A call of the model's, in block number `part`. A server's tool has the server's name in front: `mcp__sesame__search_sessions`."""
    name, arguments = block.name or "", bytes(block.input)
    key = record_key(f"claude\0{_lasting(block.id, place, part)}\0tool_use\0{name}", arguments)
    tool = name.rpartition("__")[2] if name.startswith("mcp__") else name
    return place.call(key, name, arguments, tool=tool)


def _shell_call(place: Place, command: str | None, output: str | None) -> ToolCall:
    """A command that the person ran with `!`, or the output of one that we did not see."""
    arguments = b"{}" if command is None else msgspec.json.encode({"command": command})
    key = record_key(f"claude\0{place.stamp}\0bash\0{command}", output or "")
    return place.command(key, "bash", arguments, output=output, is_error=None if output is None else False)


def _lasting(name: str | None, place: Place, part: int = 0) -> str:
    """An id that no other record has. Without one, calls in one line are told apart by the number of their block."""
    if name and len(name) >= RANDOM_CHARS:
        return name
    return f"{name}\0{place.stamp}\0{part}" if part and not name else f"{name}\0{place.stamp}"
