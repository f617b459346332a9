"""Calls and their outputs, which come lines later under the same call_id, and whether a call failed, for which Codex has no flag."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sesamed.calls import join_path, value_text
from sesamed.model import ToolCall
from sesamed.sources.codex.lines import NOTHING, Line, Payload, directory_in, encode, ordinal
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
from sesamed.sources.lines import EMPTY, FAILURES, decode_part, object_of, text_in
from sesamed.sources.records import Place, millis

HEAD_CHARS = 600
EXIT: Final = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
# Before what a command wrote, in every output; that it still runs is worth keeping.
HEADER: Final = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Exit code: -?\d+\n)?Wall time: [^\n]*\n(?:Process exited with code -?\d+\n)?"
    r"(Process running with session ID [^\n]*\n)?(?:Original token count: \d+\n)?Output:(?:\n|$)"
)
FAILED: Final = re.compile(
    r"(?:execution error:|apply_patch verification failed|failed to parse function arguments|unsupported call:"
    r"|unsupported custom tool call:|aborted by user|exec_command failed|write_stdin failed|failed in sandbox"
    r"|error: |Error: |tool call error:|tool call failed|exec command rejected|patch rejected|err: )"
)
CONTENT: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})  # of a result, in MCP


class Metadata(msgspec.Struct, gc=False):
    """Of the shell's answers until 2025-12."""

    exit_code: int | float | None = None


class Answer(msgspec.Struct, gc=False):
    """An output that is JSON itself: the old shell's, or `{content, success}`."""

    output: str | None = None
    content: str | None = None
    success: bool | None = None
    metadata: Metadata | None = None


class Piece(msgspec.Struct, gc=False):
    """A part of an output that is a list."""

    text: str | None = None


ANSWER: Final[Callable[[bytes | str], Answer]] = msgspec.json.Decoder(Answer).decode
PIECES: Final[Callable[[bytes], list[Piece]]] = msgspec.json.Decoder(list[Piece]).decode
ANYTHING: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode


def output_of(raw: bytes) -> tuple[str, bool | None]:
    """The text of an output, and whether the call failed, as far as the text tells."""
    try:
        if raw[:1] == b'"':
            return _of_text(text_in(raw))
        if raw[:1] == b"[":
            return _of_text("\n".join([piece.text for piece in decode_part(PIECES, raw) if piece.text]))
        if raw[:1] == b"{":
            return _of_answer(decode_part(ANSWER, raw), value_text(_anything(raw)))
    except FAILURES:
        return raw.decode("utf-8", "replace"), None
    return "", None


def has_failed(event: Payload) -> bool | None:
    """Whether a call failed, according to its event or item; None if that does not say."""
    if event.exit_code is not None:
        return event.exit_code != 0
    if event.success is not None:
        return not event.success
    result = bytes(event.result)
    if result not in NOTHING or bytes(event.error) not in NOTHING:
        return bytes(event.error) not in NOTHING or result.startswith(b'{"Err"') or b'"isError":true' in result
    return None if event.status in (None, "", "inProgress", "in_progress") else event.status in ("failed", "declined")


def event_output(event: Payload) -> str:
    """The output that an event or an item has."""
    if event.aggregated_output:
        return event.aggregated_output
    parts = [part for part in (event.stdout, event.stderr) if part]
    return "\n".join(parts) if parts else _texts(bytes(event.result)) or _texts(bytes(event.error))


def list_changed_files(raw: bytes) -> list[str]:
    """The files that an event tells were changed, and where they were moved to."""
    changes = _anything(raw)
    if not isinstance(changes, dict):
        return []
    moves = {path: change.get("move_path") for path, change in changes.items() if isinstance(change, dict)}
    return [name for path in changes for name in (path, moves.get(path)) if isinstance(name, str)]


def tools_of(raw: bytes) -> str:
    """The names of the tools that a search for tools has found; their schemas are noise."""
    return "\n".join(_collect(_anything(raw), "name"))


def review_of(raw: bytes) -> str:
    """A review: its verdict, and its findings."""
    review = _anything(raw)
    if not isinstance(review, dict):
        return ""
    findings = review.get("findings")
    parts = [review.get("overall_explanation")]
    for finding in findings if isinstance(findings, list) else ():
        if isinstance(finding, dict):
            parts += [finding.get("title"), finding.get("body")]
    return "\n\n".join([part for part in parts if isinstance(part, str) and part.strip()])


def _of_text(text: str) -> tuple[str, bool | None]:
    if text.startswith("{"):
        try:
            return _of_answer(ANSWER(text), text)
        except FAILURES:
            return text, None
    code = EXIT.search(text[:HEAD_CHARS].split("Output:\n", 1)[0])
    text = HEADER.sub(lambda header: header[1] or "", text, count=1) if HEADER.match(text) else text
    text = _of_server(text)
    if code is not None:
        return text, code[1] != "0"
    return text, True if FAILED.match(text) else None


def _of_answer(answer: Answer, whole: str) -> tuple[str, bool | None]:
    text = next((part for part in (answer.output, answer.content) if part is not None), whole)
    text = _of_server(text)
    code = answer.metadata.exit_code if answer.metadata is not None else None
    if code is not None:
        return text, code != 0
    return text, None if answer.success is None else not answer.success


def _of_server(text: str) -> str:
    """The text in what an MCP server's tool gave back, of which most builds wrote the whole list as JSON."""
    if not text.startswith("[{"):
        return text
    value = _anything(text.encode())
    if not isinstance(value, list) or not all(isinstance(part, dict) and part.get("type") in CONTENT for part in value):
        return text
    return "\n".join(_collect(value, "text")) or text


def _texts(raw: bytes) -> str:
    value = _anything(raw)
    if isinstance(value, dict) and isinstance(value.get("Err"), str):
        return str(value["Err"])
    return "\n".join(_collect(value, "text") or _collect(value, "message"))


def _anything(raw: bytes) -> Any:
    try:
        return decode_part(ANYTHING, raw)
    except FAILURES:
        return None


def _collect(value: Any, name: str, depth: int = 6) -> list[str]:
    """The strings under `name`, wherever they stand."""
    if depth == 0 or not isinstance(value, dict | list):
        return []
    if isinstance(value, list):
        return [text for item in value for text in _collect(item, name, depth - 1)]
    own = [value[name]] if isinstance(value.get(name), str) else []
    return own + [text for item in value.values() for text in _collect(item, name, depth - 1)]


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
    """Where the line stands. The directory of a call may be relative to that of its turn."""
    cwd = join_path(state.cwd or "", cwd) if cwd else state.cwd
    return Place(time_ms=millis(line.timestamp), cwd=cwd, ordinal=ordinal(line.ordinal))


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
