"""The records of Copilot CLI's events: what was said, called and given back. A call is in the answer that asked for it, and again in an
event of its own when it begins; the first of the two counts.
"""

import re
from typing import Final

from msgspec.structs import replace

from sesamed.calls import strip_server
from sesamed.model import Message, NameRank, Operation, Role, ToolCall, Touched, record_key
from sesamed.sources.copilot.lines import CopilotState, Data, Line, Request, Step, advance, is_by_agent, locate
from sesamed.sources.lines import object_of
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import OpenCall, Place, add_open, drop_open, note_activity, strip_exit

# At the end of what a shell printed; older versions say it only here.
ENDED: Final = re.compile(
    r"\n?<(?:shellId: \S+ completed|command with id: \S+ exited|exited) with exit code (-?\d+)>\s*\Z"
)
PROGRAMS: Final = ("skill-", "system")  # how the sources of messages begin that the program writes in the user's name


def read_user(state: CopilotState, line: Line) -> Step:
    """A prompt. Skills and what keeps the autopilot going are the program's."""
    said, then = line.data, advance(state, line)
    text = said.content or ""
    if said.is_autopilot_continuation or (said.source or "").startswith(PROGRAMS):
        return then, []
    if not text.strip() and not said.attachments:
        return then, []
    operations: list[Operation] = [make_message(locate(state, line), "user", text)]
    if state.named or is_by_agent(line) or (name := prompt_fact(text)) is None:
        return then, operations
    return replace(then, named=name.rank == NameRank.PROMPT), [*operations, name]


def read_assistant(state: CopilotState, line: Line) -> Step:
    """An answer: its text, then its calls."""
    place, said = locate(state, line), line.data
    operations: list[Operation] = []
    if said.content and not said.content.isspace():
        operations.append(make_message(place, "assistant", said.content))
    new: dict[str, OpenCall] = {}
    for part, request in enumerate(said.tool_requests or ()):
        if request.tool_call_id in state.calls:
            continue
        call = make_call(place, request, part)
        operations.append(call)
        if request.tool_call_id:
            new[request.tool_call_id] = OpenCall(call.key, call.hidden)
    return advance(state, line, add_open(state.calls, new) if new else None), operations or note_activity(
        line.timestamp
    )


def read_start(state: CopilotState, line: Line) -> Step:
    """A call begins. Most were announced by an answer."""
    said = line.data
    if said.tool_call_id in state.calls:
        return advance(state, line), []
    return _open(state, line, make_call(locate(state, line), _request_of(said), 0))


def read_command(state: CopilotState, line: Line) -> Step:
    """A command that the person ran with `!`."""
    call = replace(make_call(locate(state, line), _request_of(line.data), 0), role="user")
    return _open(state, line, call)


def read_complete(state: CopilotState, line: Line) -> Step:
    """What a call gave back, and the files that it changed; if the call is not known, it is one of its own."""
    place, said = locate(state, line), line.data
    text, is_error = output_of(said)
    call = state.calls.get(said.tool_call_id or "")
    if call is None:
        key = record_key(f"{place.stamp}\0result\0{said.tool_call_id}", "")
        return advance(state, line), [place.call(key, said.tool_name or "", output=text, is_error=is_error)]
    operations: list[Operation] = [place.result(call, text, is_error=is_error)]
    if paths := tuple(edit.path for edit in said.file_edits or () if edit.path):
        operations.append(Touched(key=call.key, paths=paths))
    return advance(state, line, drop_open(state.calls, said.tool_call_id or "")), operations


def read_summary(state: CopilotState, line: Line) -> Step:
    """The summary of a compaction, or of a session that is handed over."""
    text = line.data.summary_content or line.data.summary or ""
    return advance(state, line), [make_message(locate(state, line), "summary", text)] if text.strip() else []


def read_error(state: CopilotState, line: Line) -> Step:
    """Why there is no answer."""
    text = line.data.message or ""
    return advance(state, line), [make_message(locate(state, line), "assistant", text)] if text.strip() else []


def output_of(said: Data) -> tuple[str, bool]:
    """The text of a result, and whether the call failed: a shell that ends with 3 is a success to Copilot CLI."""
    given = said.result if isinstance(said.result, str) else said.result and said.result.content
    text, is_error = strip_exit(given or "", ENDED)
    why = said.error if isinstance(said.error, str) else said.error and said.error.message
    if why and why not in text:
        text = f"{text}\n{why}" if text else why
    if said.shell_execution is not None and said.shell_execution.exit_code is not None:
        is_error = said.shell_execution.exit_code != 0
    return text, is_error or said.success is False


def make_message(place: Place, role: Role, text: str) -> Message:
    """A message; what a subagent is asked is no prompt."""
    key = record_key(f"{place.stamp}\0{role}", text)
    return place.message(key, role, text, prompt=role == "user" and not place.side)


def make_call(place: Place, request: Request, part: int) -> ToolCall:
    """A call. A server's tool has the server's name in front: `sesame-search_sessions`."""
    name, arguments = request.name or "", object_of(bytes(request.arguments))
    key = record_key(f"{place.stamp}\0call\0{part}\0{request.tool_call_id}\0{name}", arguments)
    return place.call(key, name, arguments, tool=request.mcp_tool_name or strip_server(name.replace("-", "_")))


def _open(state: CopilotState, line: Line, call: ToolCall) -> Step:
    new = {line.data.tool_call_id: OpenCall(call.key, call.hidden)} if line.data.tool_call_id else {}
    return advance(state, line, add_open(state.calls, new)), [call]


def _request_of(said: Data) -> Request:
    return Request(said.tool_call_id, said.tool_name, said.arguments, said.mcp_tool_name)
