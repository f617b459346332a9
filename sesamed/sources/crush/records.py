"""What is read of Crush's messages, and what they become: `PARTS` has each type of part."""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from sesamed.calls import strip_server
from sesamed.model import NameRank, Operation, Role, ToolResult, Unknown, record_key
from sesamed.sources.lines import ListDecoder
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import OpenCall, Place, add_open, drop_open


class Data(msgspec.Struct, gc=False):
    """A part, whatever its type is."""

    text: str | None = None  # text
    id: str | None = None  # tool_call, and so are the next two
    name: str | None = None
    input: str | None = None
    tool_call_id: str | None = None  # tool_result, and so are the next two
    content: str | None = None
    is_error: bool | None = None
    command: str | None = None  # shell_command, and so are the next two
    output: str | None = None
    exit_code: int | None = None
    reason: str | None = None  # finish, and so are the next two
    message: str | None = None
    details: str | None = None


class Part(msgspec.Struct, gc=False):
    """A piece of a message."""

    type: str = ""
    data: Data = msgspec.field(default_factory=Data)


PIECES: Final = ListDecoder(Part, "parts")

SPEAKERS: Final = ("user", "assistant", "summary", "tool")
SHELL: Final = "bash"
DIRECTORY: Final = re.compile(r"\n\n<cwd>[^\n]*</cwd>\Z")  # behind the output of a command
EXIT: Final = re.compile(r"(?:\A|\n)(?:Exit code [1-9]\d*|Command was aborted before completion)\Z")
# What is asked anew, when the talk has become too long, begins so.
ANEW: Final = "The previous session was interrupted because it got too long"


class CrushState(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows so far mean for the next one. Never changed in place."""

    session: str
    cwd: str | None = None
    named: bool = False
    calls: dict[str, OpenCall] = {}


Step = tuple[CrushState, list[Operation]]


def read_message(state: CrushState, place: Place, role: str, parts: bytes) -> Step:
    """A message, with its parts; the results of calls are messages of a tool's."""
    if role not in SPEAKERS:
        return state, [Unknown(type=f"role/{role}")]
    operations: list[Operation] = []
    for number, part in enumerate(PIECES.decode(parts)):
        handler = PARTS.get(part.type)
        if handler is None:
            operations.append(Unknown(type=f"part/{part.type}"))
            continue
        state, more = handler(state, place, role, number, part.data)
        operations += more
    return state, operations


def _read_text(state: CrushState, place: Place, role: str, number: int, data: Data) -> Step:
    """What is said. It grows while the answer comes, at its place."""
    text = data.text or ""
    if not text.strip() or role == "tool" or (role == "user" and text.startswith(ANEW)):
        return state, []
    speaker: Role = "user" if role == "user" else "summary" if role == "summary" else "assistant"
    said = place.message(record_key(place.stamp, f"text\0{number}"), speaker, text, prompt=role == "user")
    name = prompt_fact(text) if role == "user" and not state.named else None
    if name is None:
        return state, [said]
    return msgspec.structs.replace(state, named=name.rank == NameRank.PROMPT), [said, name]


def _read_call(state: CrushState, place: Place, _: str, number: int, data: Data) -> Step:
    """A call. Its arguments are JSON in a text, which may still be coming."""
    name, arguments = data.name or "", (data.input or "{}").encode()
    key = record_key(place.stamp, f"call\0{data.id or number}")
    record = place.call(key, name, arguments, tool=strip_server(name))
    if data.id:
        calls = add_open(state.calls, {data.id: OpenCall(key=key, hidden=record.hidden)})
        state = msgspec.structs.replace(state, calls=calls)
    return state, [record]


def _read_result(state: CrushState, place: Place, _: str, number: int, data: Data) -> Step:
    """The result of a call; if the call is not known, a call of its own. A command that fails is no error to Crush."""
    output = DIRECTORY.sub("", data.content or "")
    failed = bool(data.is_error) or (data.name == SHELL and EXIT.search(output) is not None)
    call = state.calls.get(data.tool_call_id or "")
    if call is None:
        key = record_key(place.stamp, f"result\0{number}")
        return state, [place.call(key, data.name or "", output=output, is_error=failed)]
    state = msgspec.structs.replace(state, calls=drop_open(state.calls, data.tool_call_id or ""))
    return state, [ToolResult(key=call.key, text=output, is_error=failed, time_ms=place.time_ms, hidden=call.hidden)]


def _read_command(state: CrushState, place: Place, _: str, number: int, data: Data) -> Step:
    """A command that the person ran (`!`)."""
    arguments = msgspec.json.encode({"command": data.command or ""})
    key, failed = record_key(place.stamp, f"command\0{number}"), bool(data.exit_code)
    return state, [place.command(key, SHELL, arguments, output=data.output or "", is_error=failed)]


def _read_end(state: CrushState, place: Place, _: str, number: int, data: Data) -> Step:
    """Why there is no answer, if there is none."""
    text = "\n".join(text for text in (data.message, data.details) if text)
    if data.reason != "error" or not text:
        return state, []
    return state, [place.message(record_key(place.stamp, f"end\0{number}"), "custom", text)]


def _read_picture(state: CrushState, place: Place, role: str, number: int, _: Data) -> Step:
    """A prompt may be a picture, or a file: it begins an exchange, but for those behind a text."""
    if role != "user" or number:
        return state, []
    return state, [place.message(record_key(place.stamp, "picture"), "user", "", prompt=True)]


def _skip(state: CrushState, _: Place, __: str, ___: int, ____: Data) -> Step:
    """A known type that has nothing to find in it."""
    return state, []


PARTS: Final[dict[str, Callable[[CrushState, Place, str, int, Data], Step]]] = {
    "text": _read_text,
    "tool_call": _read_call,
    "tool_result": _read_result,
    "shell_command": _read_command,
    "finish": _read_end,
    "binary": _read_picture,
    "image_url": _read_picture,
    "reasoning": _skip,
}
