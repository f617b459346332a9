"""A session as Cursor's command line keeps it: rows with messages, which a tree of hashes leads to.

What is read of a message, and what becomes of it. The text of a message never changes: when something is said, there is a new tree.
"""

import re
from typing import Any, Final

import msgspec

from sesamed.calls import strip_server, value_text
from sesamed.model import Bad, Fact, Message, NameRank, Operation, ToolResult, Unknown, digest, encode, record_key
from sesamed.source import BadLineError, Row, Value
from sesamed.sources.columns import json_column, text_column
from sesamed.sources.cursor.prompts import answer_of, prompt_of, time_of
from sesamed.sources.lines import FAILURES, LineDecoder, decode_part
from sesamed.sources.names import prompt_fact, title_fact
from sesamed.sources.records import UUID, OpenCall, Place, Time, add_open, drop_open, millis


class Worker(msgspec.Struct, gc=False, rename="camel"):
    """Whose subagent a session is."""

    parent_agent_id: str | None = None


class Chat(msgspec.Struct, gc=False, rename="camel"):
    """What is said of the whole session."""

    name: str | None = None
    created_at: Time = None
    latest_root_blob_id: str | None = None
    subagent_info: Worker | None = None


class Outcome(msgspec.Struct, gc=False, rename="camel"):
    """What a call came to, besides its text: the field that `output` has says whether it went well."""

    output: msgspec.Raw = msgspec.Raw(b"null")
    is_error: bool | None = None


class Options(msgspec.Struct, gc=False, rename="camel"):
    """What Cursor adds to a message."""

    request_id: str | None = None
    is_summary: bool | None = None
    high_level_tool_call_result: Outcome | None = None


class Provider(msgspec.Struct, gc=False):
    """The same, under Cursor's name."""

    cursor: Options | None = None


class Block(msgspec.Struct, gc=False, rename="camel"):
    """A part of a message's content."""

    type: str = ""
    text: str | None = None
    tool_call_id: str | None = None  # tool-call, tool-result
    tool_name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"null")
    experimental_content: msgspec.Raw = msgspec.Raw(b"null")


class Said(msgspec.Struct, gc=False, rename="camel"):
    """A message."""

    role: str = ""
    content: str | list[Block] | None = None
    id: str | None = None
    provider_options: Provider | None = None


class CursorState(msgspec.Struct, frozen=True, kw_only=True):
    """What the items so far mean for the next one. Never changed in place."""

    session: str
    path: str = ""  # of a transcript
    cwd: str | None = None
    is_elsewhere: bool = False  # another file holds the session, and more of it
    named: bool = False
    request: str = ""  # the prompt that is being answered
    time_ms: int | None = None  # of the last message that has one
    asked: dict[str, int] = {}  # when each prompt was sent
    told: dict[str, tuple[int | None, int | None]] = {}  # when each text of the model's began, and was complete
    calls: dict[str, OpenCall] = {}


Step = tuple[CursorState, list[Operation]]

NOTHING: Final = re.compile("(?!)")  # a row is one value: there is nothing to salvage
CHATS: Final = LineDecoder(Chat, NOTHING)
MESSAGES: Final = LineDecoder(Said, NOTHING)
ANYTHING: Final = msgspec.json.Decoder().decode
TURNS: Final = msgspec.json.Decoder(list[tuple[str | None, int | None]]).decode
STEPS: Final = msgspec.json.Decoder(list[tuple[str | None, str | None, int | None, int | None]]).decode

UNTITLED: Final = "New Agent"
UNREADABLE_TIMES: Final = "its times are not readable"
SKIPPED: Final = frozenset({"text", "image", "file", "reasoning", "redacted-reasoning"})
PICTURES: Final = frozenset({"image", "file"})
BY_NAME: Final = frozenset({"CallMcpTool", "CallDynamicTool"})  # tools that call others
PATCH: Final = "ApplyPatch"
# How a call ended that did not succeed.
FAILED: Final = frozenset(
    "failure error rejected timeout spawnError permissionDenied readPermissionDenied writePermissionDenied fileNotFound invalidFile notFile"
    " fileBusy noSpace toolNotFound serverNotFound".split()
)
EXIT: Final = re.compile(r"Exit code: (-?\d{1,10})\n\nCommand output:\n\n```\n")
OUTPUT_ENDS: Final = "\n```\n\nCommand "  # what stands behind a command's output, up to how long it took


def read_chat(state: CursorState, row: Row) -> Step:
    """A row: what is said of the session, the times, or a message."""
    if row.query == 0:
        return _read_head(state, row)
    if row.query == 1:
        asked = {name: time for name, time in _decode(TURNS, row.values[0]) if name and millis(time)}
        return msgspec.structs.replace(state, asked=asked), []
    if row.query == 2:
        told: dict[str, tuple[int | None, int | None]] = {}
        for name, text, began, ended in _decode(STEPS, row.values[0]):
            told.setdefault(_mark(name or "", _read_hex(text or "")), (millis(began), millis(ended)))
        return msgspec.structs.replace(state, told=told), []
    return _read_message(state, *row.values)


def _read_head(state: CursorState, row: Row) -> Step:
    """Facts about the session."""
    said, has_root, workspace = row.values
    chat = CHATS.decode(json_column(said))
    began_ms, cwd = millis(chat.created_at), (text_column(workspace) or "").removeprefix("file://") or None
    facts: list[Operation] = [] if began_ms is None else [Fact(field="began", value=str(began_ms))]
    if cwd is not None:
        facts.append(Fact(field="cwd", value=cwd))
    if chat.subagent_info is not None and chat.subagent_info.parent_agent_id:
        facts += subagent_facts(chat.subagent_info.parent_agent_id)
    if (name := (chat.name or "").strip()) and name != UNTITLED:
        facts.append(title_fact(name, NameRank.TITLED))
    if chat.latest_root_blob_id and not has_root:
        facts.insert(0, Bad(reason="the list of its messages is missing"))
    return msgspec.structs.replace(state, cwd=cwd, time_ms=began_ms), facts


def subagent_facts(parent: str) -> list[Operation]:
    """Whose subagent a session is."""
    return [Fact(field="subagent", value="1"), Fact(field="parent_id", value=parent)]


def _read_message(state: CursorState, named: Value, number: Value, data: Value) -> Step:
    """A message. One with an id of its own is the same in a copy of the session."""
    if data is None:
        raise BadLineError("a message is missing")
    said = MESSAGES.decode(json_column(data))
    options = (said.provider_options or Provider()).cursor or Options()
    entry, own = text_column(named) or "", options.request_id or said.id or ""
    stamp = f"cursor\0{'' if UUID.search(own) else state.session}\0{entry}\0{text_column(number)}"
    blocks = [Block(type="text", text=said.content)] if isinstance(said.content, str) else said.content or []
    if options.is_summary:
        return _read_summary(state, _locate(state, entry, stamp), blocks)
    reader = ROLES.get(said.role)
    if reader is None:
        return state, [Unknown(type=f"role/{said.role}")]
    if said.role == "user" and options.request_id:
        state = msgspec.structs.replace(state, request=options.request_id)
    return reader(state, _locate(state, entry, stamp), blocks, options)


def _locate(state: CursorState, entry: str, stamp: str) -> Place:
    return Place(entry=entry, time_ms=state.time_ms, cwd=state.cwd, stamp=stamp)


def _texts(blocks: list[Block]) -> str:
    return "\n".join(block.text for block in blocks if block.type == "text" and block.text)


def _strange(blocks: list[Block], known: frozenset[str]) -> list[Operation]:
    names = dict.fromkeys(block.type for block in blocks if block.type not in known)
    return [Unknown(type=f"block/{name}") for name in names]


def _read_summary(state: CursorState, place: Place, blocks: list[Block]) -> Step:
    """What the model is shown in the place of what was said."""
    text = prompt_of(_texts(blocks))
    return state, [place.message(record_key(place.stamp, "said"), "summary", text)] if text else []


def _read_prompt(state: CursorState, place: Place, blocks: list[Block], _: Options) -> Step:
    """What the person asked, or what the program says in their name."""
    told = _texts(blocks)
    text, is_picture = prompt_of(told), any(block.type in PICTURES for block in blocks)
    operations = _strange(blocks, SKIPPED)
    if not text and not is_picture:
        return state, operations
    time_ms = state.asked.get(state.request) or time_of(told) or state.time_ms
    state, place = _at(state, place, time_ms)
    said = place.message(record_key(place.stamp, "said"), "user", text, prompt=True)
    state, facts = name_session(state, said)
    return state, [*operations, said, *facts]


def name_session(state: CursorState, said: Message) -> Step:
    """The first prompt is the name of a session without a title."""
    name = None if state.named else prompt_fact(said.text)
    if name is None:
        return state, []
    return msgspec.structs.replace(state, named=name.rank == NameRank.PROMPT), [name]


def _read_answer(state: CursorState, place: Place, blocks: list[Block], _: Options) -> Step:
    """What the model said and called."""
    operations = _strange(blocks, SKIPPED | {"tool-call"})
    for block in blocks:  # the times are those of texts as they came
        began, ended = state.told.get(_mark(state.request, encode(block.text or "")), (None, None))
        if began or ended:
            state, place = _at(state, place, began or ended, ended)
            break
    if text := answer_of(_texts(blocks)):
        operations.append(place.message(record_key(place.stamp, "said"), "assistant", text))
    for number, block in enumerate(blocks):
        if block.type == "tool-call":
            call = make_call(place, f"call\0{number}", block.tool_name or "", bytes(block.args))
            operations.append(call)
            if block.tool_call_id:
                opened = {block.tool_call_id: OpenCall(key=call.key, hidden=call.hidden)}
                state = msgspec.structs.replace(state, calls=add_open(state.calls, opened))
    return state, operations


def _at(
    state: CursorState, place: Place, time_ms: int | None, ended_ms: int | None = None
) -> tuple[CursorState, Place]:
    """The state and the place at this time."""
    state = msgspec.structs.replace(state, time_ms=ended_ms or time_ms)
    return state, msgspec.structs.replace(place, time_ms=time_ms, ended_ms=ended_ms)


class Named(msgspec.Struct, gc=False, rename="camel"):
    """The arguments of a tool that calls others."""

    tool_name: str | None = None
    server: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


DECODE_NAMED: Final = msgspec.json.Decoder(Named).decode


def make_call(place: Place, kind: str, name: str, arguments: bytes) -> Any:
    """A call. One by way of another tool is the call that it means; a patch is an argument, as with others."""
    tool = strip_server(name)
    if name in BY_NAME:
        try:
            named = decode_part(DECODE_NAMED, arguments)
        except FAILURES:
            named = Named()
        if named.tool_name:
            server, arguments = named.server or named.namespace or "", bytes(named.arguments)
            name, tool = f"mcp__{server}__{named.tool_name}", named.tool_name
    elif name == PATCH and arguments[:1] == b'"':
        arguments = b'{"patch": ' + arguments + b"}"
    return place.call(record_key(place.stamp, kind), name, arguments, tool=tool)


def _read_results(state: CursorState, place: Place, blocks: list[Block], options: Options) -> Step:
    """What calls came to; a result whose call is not known is a call of its own."""
    operations = _strange(blocks, frozenset({"tool-result"}))
    outcome = options.high_level_tool_call_result or Outcome()
    for number, block in enumerate(blocks):
        if block.type != "tool-result":
            continue
        text, code = strip_frame(_result_text(block))
        failed = bool(outcome.is_error) or code != 0 or _has_failed(bytes(outcome.output))
        call = state.calls.get(block.tool_call_id or "")
        if call is None:
            key = record_key(place.stamp, f"result\0{number}")
            operations.append(place.call(key, block.tool_name or "", output=text, is_error=failed))
            continue
        state = msgspec.structs.replace(state, calls=drop_open(state.calls, block.tool_call_id or ""))
        operations.append(
            ToolResult(key=call.key, text=text, is_error=failed, time_ms=place.time_ms, hidden=call.hidden)
        )
    return state, operations


def _skip(state: CursorState, _: Place, __: list[Block], ___: Options) -> Step:
    """What the program tells the model."""
    return state, []


ROLES: Final = {"user": _read_prompt, "assistant": _read_answer, "tool": _read_results, "system": _skip}


def _result_text(block: Block) -> str:
    """What a call returned: a text, a list of such, or a value."""
    for raw in (block.result, block.experimental_content):
        try:
            value = decode_part(ANYTHING, bytes(raw))
        except FAILURES:
            continue
        if isinstance(value, list):
            texts = [item.get("text") for item in value if isinstance(item, dict)]
            value = "\n".join(text for text in texts if isinstance(text, str)) or None
        if value is not None:
            return value_text(value)
    return ""


def strip_frame(text: str) -> tuple[str, int]:
    """A command's output without what stands around it, and its exit code; other results as they are."""
    begin = EXIT.match(text)
    if begin is None:
        return text, 0
    output = text[begin.end() - 1 :]  # with the line break before it
    end = output.rfind(OUTPUT_ENDS)
    return (output.removesuffix("\n```") if end < 0 else output[:end]).strip("\n"), int(begin[1])


def _has_failed(output: bytes) -> bool:
    try:
        value = ANYTHING(output)
    except FAILURES:
        return False
    return isinstance(value, dict) and not FAILED.isdisjoint(value)


def _mark(request: str, text: bytes) -> str:
    """What an answer's text is known by."""
    return f"{request} {digest(text)}"


def _decode(decode: Any, value: Value) -> Any:
    try:
        return decode(json_column(value))
    except FAILURES:
        raise BadLineError(UNREADABLE_TIMES) from None


def _read_hex(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise BadLineError(UNREADABLE_TIMES) from None
