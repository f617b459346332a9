"""A transcript: what was said and called, without ids, times and results. Cursor writes it anew, or appends to it, after each turn."""

import re
from typing import Final

import msgspec

from sesamed.model import Bad, Fact, Operation, Unknown, record_key
from sesamed.source import BadLineError, ForeignFileError
from sesamed.sources.cursor.chat import CursorState, Step, make_call, name_session
from sesamed.sources.cursor.prompts import PICTURE, answer_of, prompt_of, time_of
from sesamed.sources.cursor.text import list_told
from sesamed.sources.lines import FAILURES, LenientDecoder, LineDecoder, decode_part, repair
from sesamed.sources.records import Place


class Block(msgspec.Struct, gc=False):
    """A part of a message's content."""

    type: str = ""
    text: str | None = None
    name: str | None = None  # tool_use
    input: msgspec.Raw = msgspec.Raw(b"{}")
    content: msgspec.Raw = msgspec.Raw(b"null")  # tool_result


class Said(msgspec.Struct, gc=False):
    """What a message consists of."""

    content: str | list[Block] | None = None


class Line(msgspec.Struct, gc=False):
    """A message, or how a turn ended."""

    role: str = ""
    message: Said | None = None
    type: str = ""
    status: str | None = None  # turn_ended, and so is the next one
    error: str | None = None


class Trust(msgspec.Struct, gc=False, rename="camel"):
    """`.workspace-trusted`."""

    workspace_path: str | None = None


TRUST: Final = LenientDecoder(Trust)
LINES: Final = LineDecoder(Line, re.compile("(?!)"))
TEXTS: Final = msgspec.json.Decoder(list[Block]).decode
ENDED: Final = "turn_ended"
KNOWN: Final = frozenset({"metadata"})  # a summary that a model made of the beginning
SPEAKERS: Final = ("user", "assistant")
SKIPPED: Final = frozenset({"text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image"})


def read_trust(data: bytes) -> list[Operation]:
    """Where the sessions of a project worked, if the person said that it may be trusted."""
    try:
        path = TRUST.decode(repair(data)).workspace_path
    except FAILURES:
        return [Bad(reason="not readable: where the project is")]
    return [Fact(field="cwd", value=path)] if path else []


def read_transcript(state: CursorState, data: bytes) -> Step:
    """All of it."""
    if not data.strip():
        raise BadLineError("nothing in it")
    operations: list[Operation] = []
    messages = 0
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            line = LINES.decode(text)
        except BadLineError as error:
            operations.append(Bad(reason=str(error), line=number))
            continue
        stamp = f"cursor\0{state.session}\0{messages}\0{line.type or line.role}"
        messages += line.role in SPEAKERS
        state, said = _read_line(state, stamp, line)
        operations += said
    return state, operations


def read_text(state: CursorState, data: bytes) -> Step:
    """All of one that is text."""
    if not data.strip():
        raise BadLineError("nothing in it")
    operations: list[Operation] = []
    for number, told in enumerate(list_told(data.decode("utf-8", "replace"))):
        place = Place(time_ms=state.time_ms, cwd=state.cwd, stamp=f"cursor\0{state.session}\0{number}\0{told.role}")
        blocks = [Block(type="text", text=told.text)]
        blocks += [Block(type="tool_use", name=name, input=msgspec.Raw(given)) for name, given in told.calls]
        state, said = _read_message(state, place, told.role, blocks)
        operations += said
    if not operations:
        raise ForeignFileError("nobody says anything in it")
    return state, operations


def _read_line(state: CursorState, stamp: str, line: Line) -> Step:
    place = Place(time_ms=state.time_ms, cwd=state.cwd, stamp=stamp)
    if line.type == ENDED:
        is_error = line.status == "error" and line.error
        return state, [place.message(record_key(stamp, "end"), "custom", line.error or "")] if is_error else []
    if line.type in KNOWN or not line.message:
        return state, [] if line.type in KNOWN else [Unknown(type=line.type or f"role/{line.role}")]
    if line.role not in SPEAKERS:
        return state, [Unknown(type=f"role/{line.role}")]
    content = line.message.content
    blocks = [Block(type="text", text=content)] if isinstance(content, str) else content or []
    strange = dict.fromkeys(block.type for block in blocks if block.type not in SKIPPED)
    state, said = _read_message(state, place, line.role, blocks)
    return state, [*(Unknown(type=f"block/{name}") for name in strange), *said]


def _read_message(state: CursorState, place: Place, role: str, blocks: list[Block]) -> Step:
    told = "\n".join(block.text for block in blocks if block.type == "text" and block.text)
    if role == "assistant":
        text = answer_of(told)
        said: list[Operation] = [place.message(record_key(place.stamp, "said"), "assistant", text)] if text else []
        said += [
            make_call(place, f"call\0{number}", block.name or "", bytes(block.input))
            for number, block in enumerate(blocks)
            if block.type == "tool_use"
        ]
        return state, said
    text = prompt_of(told)
    if not text and not told:
        return state, _read_results(place, blocks)
    if not text and PICTURE not in told.split("\n"):
        return state, []  # all of it is the program's
    time_ms = time_of(told) or state.time_ms
    state, place = msgspec.structs.replace(state, time_ms=time_ms), msgspec.structs.replace(place, time_ms=time_ms)
    prompt = place.message(record_key(place.stamp, "said"), "user", text, prompt=True)
    state, facts = name_session(state, prompt)
    return state, [prompt, *facts]


def _read_results(place: Place, blocks: list[Block]) -> list[Operation]:
    """Results, which no version of Cursor that we know writes: each is a call of its own, as nothing says of which one it is."""
    found: list[Operation] = []
    for number, block in enumerate(blocks):
        if block.type == "tool_result":
            output = "\n".join(part.text for part in _parts(bytes(block.content)) if part.text)
            found.append(place.call(record_key(place.stamp, f"result\0{number}"), "", output=output, is_error=False))
    return found


def _parts(raw: bytes) -> list[Block]:
    try:
        return decode_part(TEXTS, raw)
    except FAILURES:
        return []
