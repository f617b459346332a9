"""What is read of sessions, messages and parts, and what they become: `PARTS` has each type of part.

A fork copies messages under new ids, so keys are made from what it keeps: when a message was created, the ids of calls, the texts. The time
alone is not enough: sessions that run side by side create many messages in the same millisecond. So a key begins with the session's first
record and the last prompt. An answer is stored empty and again when it is complete, so its number in the message stands for its text.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sesamed.calls import strip_server
from sesamed.model import Fact, Message, NameRank, Operation, Role, ToolCall, Undone, Unknown, record_key
from sesamed.sources.names import prompt_fact
from sesamed.sources.records import Place, Time, millis

# -- what is read: flat views with the few fields that are needed
#
# Files and rows hold the same JSON, except that a row has the ids in columns. Fields that are not listed here (reasoning, tokens, diffs,
# snapshots, attached files) are skipped by the decoder.


class Times(msgspec.Struct, gc=False):
    """When something was made, began, or ended."""

    created: Time = None
    start: Time = None
    end: Time = None


class Revert(msgspec.Struct, gc=False, rename={"message_id": "messageID", "part_id": "partID"}):
    """Where the user went back to. What follows is deleted with the next prompt."""

    message_id: str | None = None
    part_id: str | None = None


class Session(msgspec.Struct, gc=False, rename={"parent_id": "parentID"}):
    """A session. The oldest ones have no directory."""

    id: str | None = None
    parent_id: str | None = None
    directory: str | None = None
    title: str | None = None
    time: Times | None = None
    revert: Revert | None = None


class Path(msgspec.Struct, gc=False):
    """Where an answer was given."""

    cwd: str | None = None


class Header(msgspec.Struct, gc=False, rename={"parent_id": "parentID"}):
    """A message without its text, which is in its parts."""

    id: str | None = None
    role: str = ""
    parent_id: str | None = None
    time: Times | None = None
    path: Path | None = None
    summary: msgspec.Raw = msgspec.Raw(b"false")  # of an answer: whether it sums up; of a prompt: an object


class Outcome(msgspec.Struct, gc=False):
    """What a tool reports besides its output."""

    exit: int | float | None = None
    output: str | None = None


class CallState(msgspec.Struct, gc=False):
    """The state of a call: pending, running, completed, error. The order of the fields changes with each update."""

    status: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    output: str | None = None
    error: str | None = None
    metadata: Outcome | None = None
    time: Times | None = None


class Part(msgspec.Struct, gc=False, rename={"call_id": "callID"}):
    """A piece of a message."""

    id: str | None = None
    type: str = ""
    text: str | None = None  # text
    synthetic: bool | None = None
    ignored: bool | None = None
    time: Times | None = None
    tool: str | None = None  # tool, and so are the next two
    call_id: str | None = None
    state: CallState | None = None
    prompt: str | None = None  # subtask


# -- what it becomes

COMMAND: Final = "The following tool was executed by the user"
SPEAKERS: Final = ("user", "assistant")
ENDED: Final = ("completed", "error")
INVALID: Final = "invalid"  # the tool that gets calls with an unknown name or bad arguments
QUOTED: Final = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """The message that the following parts belong to."""

    id: str
    role: str
    created: str  # as stored; the same in forks
    place: Place
    is_summary: bool = False
    is_command: bool = False  # one that the user ran
    texts: int = 0  # of its parts so far
    nameless: int = 0  # calls without an id so far


class OpenCodeState(msgspec.Struct, frozen=True, kw_only=True):
    """What the items so far mean for the next one. Never changed in place."""

    session: str
    cwd: str | None = None
    root: str | None = None  # stands for the first record; the same in forks
    asked: str | None = None  # stands for the last prompt: there forks part
    named: bool = False
    revert: tuple[str, str | None] | None = None  # the message, perhaps a part of it, that the user went back to
    reverted: bool = False
    command: str | None = None  # the message that announces a command of the user's
    speaker: Speaker | None = None


Step = tuple[OpenCodeState, list[Operation]]


def read_message(state: OpenCodeState, name: str, message: Header) -> Step:
    """A message; its parts come next."""
    created = None if message.time is None else message.time.created
    cwd = (message.path.cwd if message.path is not None else None) or state.cwd
    answer = message.role == "assistant"
    speaker = Speaker(
        id=name,
        role=message.role,
        created=name if created is None else str(created),
        place=Place(entry=name, time_ms=millis(created), cwd=cwd),
        is_summary=answer and bytes(message.summary) == b"true",
        is_command=answer and message.parent_id is not None and message.parent_id == state.command,
    )
    operations: list[Operation] = [] if message.role in SPEAKERS else [Unknown(type=f"role/{message.role}")]
    if state.cwd is None and cwd is not None:
        operations.append(Fact(field="cwd", value=cwd))
    return _replace(
        state, speaker=speaker, cwd=cwd, reverted=state.reverted or state.revert == (name, None)
    ), operations


def read_part(state: OpenCodeState, name: str, part: Part) -> Step:
    """A part of the last message."""
    speaker = state.speaker
    if speaker is None or speaker.role not in SPEAKERS:
        return state, []
    if state.revert == (speaker.id, name):
        state = _replace(state, reverted=True)
    handler = PARTS.get(part.type)
    if handler is None:
        return state, [Unknown(type=f"part/{part.type}")]
    return handler(state, speaker, part)


def read_text(state: OpenCodeState, speaker: Speaker, part: Part) -> Step:
    """A text of the model's, of the user's, or of the program's in the user's name."""
    words = part.text or ""
    state = _replace(state, speaker=msgspec.structs.replace(speaker, texts=speaker.texts + 1))
    if part.synthetic or part.ignored:
        return _replace(state, command=speaker.id) if words == COMMAND else state, []
    if not words.strip():
        return state, []
    place = _locate(speaker, part.time)
    if speaker.role == "assistant":
        return _add_message(state, speaker, place, "summary" if speaker.is_summary else "assistant", words)
    prompt = unquote(words)
    return _name_session(*_add_message(state, speaker, place, "user", prompt), prompt, NameRank.PROMPT)


def read_subtask(state: OpenCodeState, speaker: Speaker, part: Part) -> Step:
    """The prompt for a subagent that a command of the user's stands for."""
    prompt = part.prompt or ""
    if not prompt.strip():
        return state, []
    state, operations = _add_message(state, speaker, speaker.place, "user", prompt)
    state = _replace(state, speaker=msgspec.structs.replace(speaker, texts=speaker.texts + 1))
    return _name_session(state, operations, prompt, NameRank.STAND_IN)


def read_call(state: OpenCodeState, speaker: Speaker, part: Part) -> Step:
    """A call, with its result once it has ended. The partial output of a running call is not kept."""
    call = part.state or CallState()
    name, arguments = part.tool or "", bytes(call.input)
    state = _begin_keys(state, f"{speaker.created}\0{part.call_id}", asked=False)
    nameless = f"\0{speaker.nameless}" if speaker.nameless else ""
    key = record_key(f"opencode\0{state.asked}\0{speaker.created}\0call", part.call_id or nameless)
    if not part.call_id:
        state = _replace(state, speaker=msgspec.structs.replace(speaker, nameless=speaker.nameless + 1))
    place = _locate(speaker, call.time)
    ended = call.status in ENDED
    output, failed = (_output(call), _is_failure(name, call)) if ended else (None, None)
    if speaker.is_command:
        record = place.command(key, name, arguments, output=output, is_error=failed)
    else:
        record = place.call(key, name, arguments, tool=strip_server(name), output=output, is_error=failed)
    return state, _mark(state, record)


def skip(state: OpenCodeState, _: Speaker, __: Part) -> Step:
    """A known type that has nothing to find in it."""
    return state, []


PARTS: Final[dict[str, Callable[[OpenCodeState, Speaker, Part], Step]]] = {
    "text": read_text,
    "tool": read_call,
    "subtask": read_subtask,
    **dict.fromkeys("reasoning file agent compaction patch snapshot step-start step-finish retry".split(), skip),
}


def unquote(words: str) -> str:
    """A prompt without the quotes that `opencode run` adds to an argument with spaces."""
    found = QUOTED.fullmatch(words)
    return found[1].replace('\\"', '"') if found else words


def _locate(speaker: Speaker, time: Times | None) -> Place:
    """The place of a part: its own time, if it has one, else its message's."""
    started_ms = None if time is None else millis(time.start)
    if time is None or started_ms is None:
        return speaker.place
    return msgspec.structs.replace(speaker.place, time_ms=started_ms, ended_ms=millis(time.end))


def _add_message(state: OpenCodeState, speaker: Speaker, place: Place, role: Role, text: str) -> Step:
    state = _begin_keys(state, f"{speaker.created}\0{text}", asked=role == "user")
    key = record_key(f"opencode\0{state.asked}\0{speaker.created}\0{speaker.role}", str(speaker.texts))
    return state, _mark(state, place.message(key, role, text, prompt=role == "user"))


def _begin_keys(state: OpenCodeState, first: str, *, asked: bool) -> OpenCodeState:
    """Set what keys begin with: the session's first record, and the last prompt. (Prompts are written once.)"""
    root = state.root or str(record_key("opencode", first))
    if asked or state.asked is None:
        return _replace(state, root=root, asked=str(record_key(f"opencode\0{root}", first)))
    return state


def _mark(state: OpenCodeState, record: Message | ToolCall) -> list[Operation]:
    """A record, marked if it comes after the point that the user went back to."""
    return [record, Undone(key=record.key, alone=True)] if state.reverted else [record]


def _name_session(state: OpenCodeState, operations: list[Operation], prompt: str, rank: NameRank) -> Step:
    """The first prompt is the name of a session without a title."""
    name = None if state.named else prompt_fact(prompt)
    if name is None:
        return state, operations
    name = msgspec.structs.replace(name, rank=min(rank, name.rank))
    return _replace(state, named=name.rank == NameRank.PROMPT), [*operations, name]


def _output(call: CallState) -> str:
    """What a call returned. One that was interrupted may have some output as well as an error."""
    before = None if call.metadata is None else call.metadata.output
    texts = [call.output] if call.status == "completed" else [before, call.error]
    return "\n".join(text for text in texts if text)


def _is_failure(name: str, call: CallState) -> bool:
    """Whether a call failed. A shell command that exits with an error still has the status `completed`."""
    exit_code = None if call.metadata is None else call.metadata.exit
    return call.status == "error" or name == INVALID or exit_code not in (None, 0)


def _replace(state: OpenCodeState, **changes: Any) -> OpenCodeState:
    return msgspec.structs.replace(state, **changes)
