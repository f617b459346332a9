"""Calls and what they gave back. A call's output comes lines later, under the same call_id."""

import msgspec

from sesamed.model import Role, ToolCall, ToolResult
from sesamed.sources.codex.json import EMPTY, directory_in, encoded, object_of
from sesamed.sources.codex.lines import Line, Payload, ordinal
from sesamed.sources.codex.open import closed, doubted, opened
from sesamed.sources.codex.outputs import output_of, tools_of
from sesamed.sources.codex.state import CodexState, Step, ToldCall, called, keyed
from sesamed.sources.own_tools import is_ours
from sesamed.sources.times import millis


class Made(msgspec.Struct, frozen=True, gc=False):
    """A call: what was called, with what, and, where that is known at once, what it gave back."""

    name: str
    arguments: bytes
    call_id: str | None = None
    output: str | None = None
    is_error: bool | None = None
    cwd: str | None = None
    role: Role = "assistant"


def function_call(state: CodexState, line: Line, item: Payload) -> Step:
    """The arguments are JSON in a string; other tools have them as an object."""
    return waiting(state, line, Made(name_of(item), object_of(bytes(item.arguments)), item.call_id))


def custom_tool_call(state: CodexState, line: Line, item: Payload) -> Step:
    """A tool that takes text, as apply_patch does."""
    return waiting(state, line, Made(name_of(item), encoded({"input": item.input or ""}), item.call_id))


def local_shell_call(state: CodexState, line: Line, item: Payload) -> Step:
    """The shell that the model brings along."""
    return waiting(state, line, Made("local_shell", object_of(bytes(item.action)), item.call_id or item.id))


def tool_search_call(state: CodexState, line: Line, item: Payload) -> Step:
    """A search for tools."""
    return waiting(state, line, Made("tool_search", object_of(bytes(item.arguments)), item.call_id))


def web_search_call(state: CodexState, line: Line, item: Payload) -> Step:
    """A search that the model's host runs; what it found is not in the file."""
    return made(state, line, Made("web_search", object_of(bytes(item.action)), item.id))


def image_generation_call(state: CodexState, line: Line, item: Payload) -> Step:
    """An image; of use is what it was to show."""
    return made(state, line, Made("image_generation", encoded({"prompt": item.revised_prompt or ""}), item.id))


def output(state: CodexState, line: Line, item: Payload) -> Step:
    """What a call gave back; if we don't know the call, a call of its own."""
    text, is_error = output_of(bytes(item.output))
    return answered(state, line, item, text, is_error)


def tool_search_output(state: CodexState, line: Line, item: Payload) -> Step:
    """The names of the tools that were found."""
    return answered(state, line, item, tools_of(bytes(item.tools)), None)


def answered(state: CodexState, line: Line, item: Payload, text: str, is_error: bool | None) -> Step:
    """An event that came before the output knows best how the call went."""
    call = state.calls.get(item.call_id or "")
    if call is None:
        return _orphan(state, line, item, text, is_error=bool(is_error))
    wrong = bool(is_error) if call.failed is None else call.failed
    result = ToolResult(key=call.key, text=text, is_error=wrong, time_ms=millis(line.timestamp), hidden=call.hidden)
    state = closed(state, item.call_id)
    if is_error is None and call.failed is None and item.call_id:
        state = doubted(state, item.call_id, call.key)
    return state, [result]


def waiting(state: CodexState, line: Line, call: Made) -> Step:
    """A call whose output comes later."""
    state, operation = _call(state, line, call)
    return opened(state, call.call_id, ToldCall(operation.key, operation.hidden)), [operation]


def made(state: CodexState, line: Line, call: Made) -> Step:
    """A call that is all there, or gets no output."""
    state, operation = _call(state, line, call)
    return state, [operation]


def shell_command(state: CodexState, line: Line, command: str, given: str) -> Step:
    """A command that the person ran with `!`, and what came of it."""
    arguments = encoded({"command": command})
    text, is_error = output_of(encoded(given.strip()))
    return made(state, line, Made("shell", arguments, None, text, bool(is_error), role="user"))


def name_of(item: Payload) -> str:
    """With the namespace that an MCP server's tools have."""
    name, space = item.name or "", item.namespace or ""
    return f"{space}{name}" if not space or space.endswith(("_", ".", "/", ":")) else f"{space}.{name}"


def _orphan(state: CodexState, line: Line, item: Payload, text: str, *, is_error: bool) -> Step:
    """Its text tells it from others: there is no name, and no argument."""
    state, key = keyed(state, f"output\0{item.call_id}", text)
    return state, [_operation(state, line, Made(name_of(item), EMPTY, None, text, is_error), key)]


def _call(state: CodexState, line: Line, call: Made) -> tuple[CodexState, ToolCall]:
    state, key = called(state, call.call_id, call.name, call.arguments)
    return state, _operation(state, line, call, key)


def _operation(state: CodexState, line: Line, call: Made, key: int) -> ToolCall:
    return ToolCall(
        key=key,
        name=call.name,
        arguments=call.arguments,
        role=call.role,
        cwd=call.cwd or directory_in(call.arguments) or state.cwd,
        time_ms=millis(line.timestamp),
        output=call.output,
        is_error=call.is_error,
        hidden=_is_ours(call.name, call.arguments),
        ordinal=ordinal(line.ordinal),
    )


def _is_ours(name: str, arguments: bytes) -> bool:
    """An MCP server's tool has the server's name before its own."""
    return is_ours(name.rpartition("__")[2].rpartition(".")[2], arguments)
