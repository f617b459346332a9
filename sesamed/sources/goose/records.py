"""What is read of Goose's messages, and what they become: `CONTENTS` has each type of content.

A message has an id, which its copies in forks keep. Its rows are written anew when the session is compacted: what the model no longer
sees stays visible to the person, and a summary comes behind it that only the model sees.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from sesamed.calls import strip_server, value_text
from sesamed.model import Message, NameRank, Operation, Role, ToolResult, Unknown, record_key
from sesamed.source import BadLineError
from sesamed.sources.lines import FAILURES, LenientDecoder, ListDecoder, explain, repair
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import OpenCall, Place, add_open, drop_open


class Function(msgspec.Struct, gc=False):
    """What is called."""

    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Call(msgspec.Struct, gc=False):
    """A call, or why what the model wrote is none."""

    status: str | None = None
    value: Function | None = None
    error: str | None = None


class Result(msgspec.Struct, gc=False):
    """What a call came to."""

    status: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


class Content(msgspec.Struct, gc=False, rename="camel"):
    """A piece of a message."""

    type: str = ""
    text: str | None = None
    id: str | None = None  # of a call
    tool_call: Call | None = None
    tool_result: Result | None = None


class Visibility(msgspec.Struct, gc=False, rename="camel"):
    """Who sees a message."""

    user_visible: bool = True
    agent_visible: bool = True


VISIBILITY: Final = LenientDecoder(Visibility)


PIECES: Final = ListDecoder(Content, "contents")
ANYTHING: Final = msgspec.json.Decoder().decode

SPEAKERS: Final = ("user", "assistant")
# What the program adds behind a summary.
CONTINUES: Final = ("Your context was compacted", "The previous message contains a summary")


class GooseState(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows so far mean for the next one. Never changed in place."""

    session: str
    cwd: str | None = None
    named: bool = False
    calls: dict[str, OpenCall] = {}


Step = tuple[GooseState, list[Operation]]


def read_message(state: GooseState, place: Place, role: str, content: bytes, metadata: bytes | None) -> Step:
    """A row. An answer's text and its calls are rows of their own, with ids of their own."""
    if role not in SPEAKERS:
        return state, [Unknown(type=f"role/{role}")]
    seen = Visibility() if metadata is None or not metadata.startswith(b"{") else _read_visibility(metadata)
    pieces = PIECES.decode(content)
    strange = dict.fromkeys(piece.type for piece in pieces if piece.type not in CONTENTS)
    operations: list[Operation] = [Unknown(type=f"content/{type_}") for type_ in strange]
    if said := _say(place, role, pieces, seen):
        operations.append(said)
        state, facts = _name_session(state, said)
        operations += facts
    for number, piece in enumerate(pieces):
        if handler := CONTENTS.get(piece.type):
            state, more = handler(state, place, number, piece)
            operations += more
    return state, operations


def _say(place: Place, role: str, pieces: list[Content], seen: Visibility) -> Message | None:
    """What is said in a message: of what only the model sees, a summary; nothing of what nobody sees any more."""
    texts = [piece.text for piece in pieces if piece.type == "text" and piece.text]
    if not seen.user_visible:
        text = "\n".join(text for text in texts if not text.startswith(CONTINUES))
        key = record_key(place.stamp, "said")
        return place.message(key, "summary", text) if text.strip() and seen.agent_visible else None
    text = "\n".join(texts)
    speaker: Role = "user" if role == "user" else "assistant"
    is_picture = role == "user" and any(piece.type == "image" for piece in pieces)
    if not text.strip() and not is_picture:
        return None
    return place.message(record_key(place.stamp, "said"), speaker, text, prompt=role == "user")


def _read_call(state: GooseState, place: Place, number: int, piece: Content) -> Step:
    """A call. What the model wrote may be none: that is its result."""
    call = piece.tool_call or Call()
    function = call.value or Function()
    name, failed = function.name or "", call.status == "error"
    key = record_key(place.stamp, f"call\0{piece.id or number}")
    record = place.call(
        key,
        name,
        bytes(function.arguments),
        tool=strip_server(name),
        output=(call.error or "") if failed else None,
        is_error=True if failed else None,
    )
    if piece.id:
        state = msgspec.structs.replace(
            state, calls=add_open(state.calls, {piece.id: OpenCall(key=key, hidden=record.hidden)})
        )
    return state, [record]


def _read_result(state: GooseState, place: Place, number: int, piece: Content) -> Step:
    """The result of a call; if the call is not known, a call of its own."""
    result = piece.tool_result or Result()
    text, failed = _output(result)
    call = state.calls.get(piece.id or "")
    if call is None:
        key = record_key(place.stamp, f"result\0{piece.id or number}")
        return state, [place.call(key, "", output=text, is_error=failed)]
    state = msgspec.structs.replace(state, calls=drop_open(state.calls, piece.id or ""))
    return state, [ToolResult(key=call.key, text=text, is_error=failed, time_ms=place.time_ms, hidden=call.hidden)]


def _skip(state: GooseState, _: Place, __: int, ___: Content) -> Step:
    """A known type that has nothing to find in it, or that is read with the whole message."""
    return state, []


CONTENTS: Final[dict[str, Callable[[GooseState, Place, int, Content], Step]]] = {
    "toolRequest": _read_call,
    "frontendToolRequest": _read_call,
    "toolResponse": _read_result,
    **dict.fromkeys(
        "text image thinking redactedThinking reasoning toolConfirmationRequest actionRequired systemNotification"
        " conversationCompacted summarizationRequested contextLengthExceeded".split(),
        _skip,
    ),
}


def _output(result: Result) -> tuple[str, bool]:
    """What a call returned, and whether it failed. A shell command that fails says so, and its exit code."""
    if result.status == "error":
        return result.error or "", True
    try:
        value = ANYTHING(bytes(result.value))
    except FAILURES:
        return "", False
    if isinstance(value, list):  # of older versions
        return _texts(value), False
    if not isinstance(value, dict):
        return "" if value is None else value_text(value), False
    structured = value.get("structuredContent")
    exit_code = structured.get("exit_code") if isinstance(structured, dict) else None
    given = value.get("content")
    return _texts(given if isinstance(given, list) else []), value.get("isError") is True or exit_code not in (None, 0)


def _texts(items: list[Any]) -> str:
    """The texts of a result that are for the model; others say the same to the person."""
    blocks = [item for item in items if isinstance(item, dict)]
    for_model = [block for block in blocks if _is_for_model(block)] or blocks
    return "\n".join(text for text in map(_text_of, for_model) if text)


def _is_for_model(block: dict[str, Any]) -> bool:
    annotations = block.get("annotations")
    audience = annotations.get("audience") if isinstance(annotations, dict) else None
    return not isinstance(audience, list) or not audience or "assistant" in audience


def _text_of(block: dict[str, Any]) -> str:
    resource = block.get("resource")
    text = resource.get("text") if isinstance(resource, dict) else block.get("text")
    return text if isinstance(text, str) else ""


def _name_session(state: GooseState, said: Message) -> Step:
    """The first prompt is the name of a session without a title."""
    name = None if state.named or said.role != "user" else prompt_fact(said.text)
    if name is None:
        return state, []
    return msgspec.structs.replace(state, named=name.rank == NameRank.PROMPT), [name]


def _read_visibility(data: bytes) -> Visibility:
    try:
        return VISIBILITY.decode(repair(data))
    except FAILURES as error:
        raise BadLineError(explain(error)) from None
