"""Calls and their outputs. An output comes lines later, under the same call_id."""

import msgspec

from sesamed.model import ToolCall
from sesamed.sources.codex.lines import EMPTY, Line, Payload, directory_in, encode, object_of, ordinal
from sesamed.sources.codex.outputs import output_of, tools_of
from sesamed.sources.codex.state import (
    CodexState,
    PendingCall,
    Step,
    add_call,
    add_record,
    close_call,
    mark_uncertain,
    open_call,
)
from sesamed.sources.records import Place, millis


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call: the tool, its arguments and, if known at once, its output."""

    name: str
    arguments: bytes
    call_id: str | None = None
    output: str | None = None
    is_error: bool | None = None
    cwd: str | None = None


def read_function_call(state: CodexState, line: Line, item: Payload) -> Step:
    """The arguments are JSON in a string; other tools have them as an object."""
    return add_pending(state, line, Call(name_of(item), object_of(bytes(item.arguments)), item.call_id))


def read_custom_tool_call(state: CodexState, line: Line, item: Payload) -> Step:
    """A tool that takes text, as apply_patch does."""
    return add_pending(state, line, Call(name_of(item), encode({"input": item.input or ""}), item.call_id))


def read_local_shell_call(state: CodexState, line: Line, item: Payload) -> Step:
    """The shell that the model brings along."""
    return add_pending(state, line, Call("local_shell", object_of(bytes(item.action)), item.call_id or item.id))


def read_tool_search_call(state: CodexState, line: Line, item: Payload) -> Step:
    """A search for tools."""
    return add_pending(state, line, Call("tool_search", object_of(bytes(item.arguments)), item.call_id))


def read_web_search_call(state: CodexState, line: Line, item: Payload) -> Step:
    """A search that the model's host runs; what it found is not in the file."""
    return add_whole(state, line, Call("web_search", object_of(bytes(item.action)), item.id))


def read_image_generation_call(state: CodexState, line: Line, item: Payload) -> Step:
    """An image; its prompt is what is indexed."""
    return add_whole(state, line, Call("image_generation", encode({"prompt": item.revised_prompt or ""}), item.id))


def read_output(state: CodexState, line: Line, item: Payload) -> Step:
    """A result; if its call is not known, it becomes a call of its own."""
    text, is_error = output_of(bytes(item.output))
    return _close(state, line, item, text, is_error)


def read_tool_search_output(state: CodexState, line: Line, item: Payload) -> Step:
    """The names of the tools that were found."""
    return _close(state, line, item, tools_of(bytes(item.tools)), None)


def _close(state: CodexState, line: Line, item: Payload, text: str, is_error: bool | None) -> Step:
    """An event that came before the output knows best how the call went."""
    call = state.calls.get(item.call_id or "")
    if call is None:
        return _add_orphan(state, line, item, text, is_error=bool(is_error))
    has_failed = bool(is_error) if call.failed is None else call.failed
    result = locate(state, line).result(call, text, is_error=has_failed)
    state = close_call(state, item.call_id)
    if is_error is None and call.failed is None and item.call_id:
        state = mark_uncertain(state, item.call_id, call.key)
    return state, [result]


def add_pending(state: CodexState, line: Line, call: Call) -> Step:
    """A call whose output comes later."""
    state, operation = _add(state, line, call)
    return open_call(state, call.call_id, PendingCall(operation.key, operation.hidden)), [operation]


def add_whole(state: CodexState, line: Line, call: Call) -> Step:
    """A call that is complete, or gets no output."""
    state, operation = _add(state, line, call)
    return state, [operation]


def add_shell_command(state: CodexState, line: Line, command: str, given: str) -> Step:
    """A command that the person ran with `!`, and its output."""
    arguments = encode({"command": command})
    text, is_error = output_of(encode(given.strip()))
    state, key = add_call(state, None, "shell", arguments)
    place = locate(state, line, directory_in(arguments))
    return state, [place.command(key, "shell", arguments, output=text, is_error=bool(is_error))]


def locate(state: CodexState, line: Line, cwd: str | None = None) -> Place:
    """Where the line stands."""
    return Place(time_ms=millis(line.timestamp), cwd=cwd or state.cwd, ordinal=ordinal(line.ordinal))


def name_of(item: Payload) -> str:
    """With the namespace that an MCP server's tools have."""
    name, space = item.name or "", item.namespace or ""
    return f"{space}{name}" if not space or space.endswith(("_", ".", "/", ":")) else f"{space}.{name}"


def _add_orphan(state: CodexState, line: Line, item: Payload, text: str, *, is_error: bool) -> Step:
    """An output without a known call; its text is its only key."""
    state, key = add_record(state, f"output\0{item.call_id}", text)
    return state, [_make(state, line, Call(name_of(item), EMPTY, None, text, is_error), key)]


def _add(state: CodexState, line: Line, call: Call) -> tuple[CodexState, ToolCall]:
    state, key = add_call(state, call.call_id, call.name, call.arguments)
    return state, _make(state, line, call, key)


def _make(state: CodexState, line: Line, call: Call, key: int) -> ToolCall:
    """An MCP server's tool has the server's name before its own."""
    place = locate(state, line, call.cwd or directory_in(call.arguments))
    tool = call.name.rpartition("__")[2].rpartition(".")[2]
    return place.call(key, call.name, call.arguments, tool=tool, output=call.output, is_error=call.is_error)
