"""A session of the command line, of Cline's hub, and of what is built with its library: `<id>.messages.json`, one object with all messages.

What of it is read, and what becomes of it. The format is described in Cline's own repository (messages contract, version 1).
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sesamed.calls import strip_server, value_text
from sesamed.model import Fact, Identity, Message, Operation, Role, ToolCall, ToolResult, Unknown, record_key
from sesamed.source import ForeignFileError
from sesamed.sources.elements import drop_elements
from sesamed.sources.lines import FAILURES, LineDecoder, decode_part
from sesamed.sources.names import name_facts
from sesamed.sources.records import Place, Time, millis


class Block(msgspec.Struct, gc=False):
    """A part of a message's content."""

    type: str = ""
    text: str | None = None
    id: str | None = None  # tool_use
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str | None = None  # tool_result
    content: msgspec.Raw = msgspec.Raw(b"null")
    is_error: bool | None = None


class Note(msgspec.Struct, gc=False, rename="camel"):
    """What the program says of a message of its own."""

    kind: str | None = None
    display_role: str | None = None
    summary: str | None = None


class Said(msgspec.Struct, gc=False):
    """A message."""

    id: str | None = None
    role: str = ""
    content: str | list[Block] | None = None
    ts: Time = None
    metadata: Note | None = None


class Origin(msgspec.Struct, gc=False, rename="camel"):
    """Where a session comes from."""

    parent_thread_id: str | None = None


class Transcript(msgspec.Struct, gc=False, rename={"session_id": "sessionId"}):
    """The whole file."""

    session_id: str | None = None
    system_prompt: str | None = None
    agent: str | None = None
    origin: Origin | None = None
    messages: list[Said] | None = None


NOTHING: Final = re.compile("(?!)")  # a document is one value: there is nothing to salvage
DECODER: Final = LineDecoder(Transcript, NOTHING)
ANYTHING: Final = msgspec.json.Decoder().decode

WORKERS: Final = ("subagent", "teammate")
SUMMARIES: Final = frozenset({"compaction", "compaction_summary"})
# Kinds of messages that the program writes in the user's name.
OWN: Final = frozenset(
    "auto_compaction compaction_budget_emergency completion_reminder loop_detection_notice manual_compaction"
    " mistake_stop_notice recovery_notice".split()
)
ASIDE: Final = frozenset({"system", "status", "error"})  # who such a message is shown as said by
RESUMED: Final = (
    "[TASK RESUMPTION]",
    "The user approved switching to act mode. Continue with the approved plan now.",
)
DIRECTORY: Final = re.compile(r"^(?:\d+\. )?Working Directory: (/[^\n]+)", re.MULTILINE)
INPUT: Final = re.compile(r"</?user_input\b[^<>]*>")
COMMAND: Final = re.compile(r"<user_command\b[^<>]*>")
SLASH: Final = re.compile(r'\bslash="([^"]*)"')
COMMAND_END: Final = "</user_command>"
LEFT_OUT: Final = (
    "mode_notice",
    "file_content",
)  # elements that the program adds: a switch of modes, files that are named


def read_transcript(data: bytes) -> list[Operation]:
    """Everything that the file says."""
    found = DECODER.decode(data)
    if not found.session_id or found.messages is None:
        raise ForeignFileError("not a session of Cline")
    told = DIRECTORY.search(found.system_prompt or "")
    conversation = Conversation(found.session_id, told[1].strip() if told else None)
    for number, said in enumerate(found.messages):
        conversation.take(number, said)
    facts = [*_facts(found, found.session_id), *name_facts(conversation.prompts())]
    if told:
        facts.append(Fact(field="cwd", value=told[1].strip()))
    return [Identity(native_id=found.session_id, origin=""), *facts, *conversation.operations]


def _facts(found: Transcript, session: str) -> Iterator[Fact]:
    """Whose subagent it is. Its id begins with that of the session."""
    if found.agent in WORKERS:
        parent = None if found.origin is None else found.origin.parent_thread_id
        yield Fact(field="subagent", value="1")
        yield Fact(field="parent_id", value=parent or session.partition("__")[0])


class Conversation:
    """The messages, in order. A fork has copies with the same ids."""

    def __init__(self, session: str, cwd: str | None) -> None:
        self._session = session
        self._cwd = cwd
        self._calls: dict[str, ToolCall] = {}
        self.operations: list[Operation] = []

    def take(self, number: int, said: Said) -> None:
        """Add a message."""
        stamp = f"cline\0{said.id}" if said.id else f"cline\0{self._session}\0{number}"
        place = Place(entry=said.id, time_ms=millis(said.ts), cwd=self._cwd, stamp=stamp)
        blocks = [Block(type="text", text=said.content)] if isinstance(said.content, str) else said.content or []
        if said.role not in ("user", "assistant"):
            self.operations.append(Unknown(type=f"role/{said.role}"))
            return
        self._read_texts(place, said, blocks)
        for at, block in enumerate(blocks):
            if block.type == "tool_use":
                self._read_call(place, at, block)
            elif block.type == "tool_result":
                self._read_result(place, at, block)
            elif block.type not in SKIPPED:
                self.operations.append(Unknown(type=f"block/{block.type}"))

    def prompts(self) -> list[str]:
        """What the person asked, in order."""
        said = [operation for operation in self.operations if isinstance(operation, Message)]
        return [message.text for message in said if message.role == "user"]

    def _read_texts(self, place: Place, said: Said, blocks: list[Block]) -> None:
        """A message's texts are one."""
        note = said.metadata or Note()
        text = "\n".join(block.text for block in blocks if block.type == "text" and block.text)
        role: Role = "assistant"
        if note.kind in SUMMARIES:
            role, text = "summary", note.summary or text
        elif note.kind in OWN or note.display_role in ASIDE:
            return
        elif said.role == "user":
            role, text = "user", prompt_of(text)
        is_picture = said.role == "user" and any(block.type == "image" for block in blocks)
        if text.strip() or (is_picture and not any(block.type == "tool_result" for block in blocks)):
            self.operations.append(place.message(record_key(place.stamp, "said"), role, text, prompt=role == "user"))

    def _read_call(self, place: Place, at: int, block: Block) -> None:
        name = block.name or ""
        call = place.call(record_key(place.stamp, f"call\0{at}"), name, bytes(block.input), tool=strip_server(name))
        if block.id:
            self._calls[block.id] = call
        self.operations.append(call)

    def _read_result(self, place: Place, at: int, block: Block) -> None:
        text, failed = output_of(bytes(block.content))
        failed = failed or bool(block.is_error)
        call = self._calls.get(block.tool_use_id or "")
        if call is None:
            key = record_key(place.stamp, f"result\0{at}")
            self.operations.append(place.call(key, block.name or "", output=text, is_error=failed))
            return
        self.operations.append(
            ToolResult(key=call.key, text=text, is_error=failed, time_ms=place.time_ms, hidden=call.hidden)
        )


SKIPPED: Final = frozenset({"text", "thinking", "redacted_thinking", "image", "file", "media"})


def prompt_of(text: str) -> str:
    """What the user typed: `/x …` for a command, without the marks around it; empty if the program wrote it."""
    for tag in LEFT_OUT:
        text = drop_elements(text, tag)
    text = COMMAND.sub(_name_command, INPUT.sub("", text)).replace(COMMAND_END, "").strip()
    return "" if text.startswith(RESUMED) else text


def _name_command(mark: re.Match[str]) -> str:
    slash = SLASH.search(mark[0])
    return mark[0] if slash is None else f"/{slash[1]} "


def output_of(raw: bytes) -> tuple[str, bool]:
    """What a call returned, as text, and whether it says that it failed. One call may do several things, each with an end of its own."""
    try:
        value = decode_part(ANYTHING, raw)
    except FAILURES:
        return "", False
    if isinstance(value, str):  # an object comes as JSON in a text
        value = _object_in(value) or value
    items = value if isinstance(value, list) else [] if value is None else [value]
    parts = [item if isinstance(item, dict) else {"text": value_text(item)} for item in items]
    texts = [text for part in parts for text in _texts_of(part)]
    return "\n".join(texts), any(part.get("success") is False or part.get("error") for part in parts)


def _texts_of(part: dict[str, Any]) -> Iterator[str]:
    """The texts of one of the things that a call did; an error is mostly in the output, too."""
    if part.get("type") in ("image", "media"):
        return
    result = next((part[name] for name in ("result", "text", "content") if name in part), None)
    error = part.get("error")
    text = value_text(part) if result is None and not error else "" if result is None else _texts_within(result)
    if text:
        yield text
    if isinstance(error, str) and error not in text:
        yield error


def _texts_within(result: Any) -> str:
    if isinstance(result, list):
        return "\n".join(text for item in result if isinstance(item, dict) for text in _texts_of(item))
    return value_text(result)


def _object_in(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = ANYTHING(text)
    except FAILURES:
        return None
    return value if isinstance(value, dict) else None
