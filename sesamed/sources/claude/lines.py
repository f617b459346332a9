"""The parts of Claude Code's lines that are read: flat views with the few fields that are needed; and what earlier lines mean for the next
one.

What is not named here (thinking, images' base64, usage, `toolUseResult` with whole files, hooks' data) is skipped by the
decoder and never becomes an object. Every field has a default, and a `type` is a string: new ones appear monthly.
"""

import re
from zlib import crc32

import msgspec
from msgspec.structs import replace

from sesamed.model import Message, Operation, Undone, encode
from sesamed.sources.records import OpenCall, Short, Time

Parent = str | None | msgspec.UnsetType


class Part(msgspec.Struct, gc=False):
    """A block within a tool's result."""

    type: str = ""
    text: str | None = None
    title: str | None = None  # of a page that the server's search found, and so is the next one
    url: str | None = None


class Block(msgspec.Struct, gc=False):
    """A block of a message's content."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str | None = None
    content: str | list[Part] | None = None
    is_error: bool | None = None


Content = str | list[Block] | None


class Spoken(msgspec.Struct, gc=False):
    """The `message` of a line: a request to the API, or its response."""

    id: Short | None = None
    model: str | None = None
    content: Content = None


class Origin(msgspec.Struct, gc=False):
    """Whose words a user's message has."""

    kind: str | None = None


class Attachment(msgspec.Struct, gc=False, rename="camel"):
    """Something attached to a prompt; of all kinds only queued prompts are indexed."""

    type: str = ""
    prompt: Content = None
    origin: Origin | None = None
    command_mode: str | None = None
    is_meta: bool | None = None


class ForkedFrom(msgspec.Struct, gc=False, rename="camel"):
    """Of a line that was copied from another session: which."""

    session_id: Short | None = None


class ToolUseResult(msgspec.Struct, gc=False, rename="camel"):
    """What the program knows of a result: here only whether the tool goes on in the background."""

    is_async: bool | None = None


class Snapshot(msgspec.Struct, gc=False):
    """Of a `file-history-snapshot`; in a session where nothing was said, the only time there is."""

    timestamp: Time = None


class Line(msgspec.Struct, gc=False, rename="camel"):
    """Any line."""

    type: str = ""
    uuid: Short | None = None
    parent_uuid: Parent = msgspec.UNSET
    logical_parent_uuid: str | None = None  # where a compaction begins another tree: what it goes on from
    session_id: Short | None = None
    timestamp: Time = None
    cwd: Short | None = None
    git_branch: Short | None = None
    version: str | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    supersedes_uuids: list[str] | None = None
    prompt_source: str | None = None
    origin: Origin | None = None
    forked_from: ForkedFrom | None = None
    request_session_id: Short | None = None  # of an answer: the session in which the model was asked
    tool_use_result: ToolUseResult | str | list[msgspec.Raw] | None = None
    message: Spoken | None = None
    attachment: Attachment | None = None
    subtype: str | None = None  # system, and so is the next one
    content: Content = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None  # summary, and so is the next one
    leaf_uuid: str | None = None
    snapshot: Snapshot | None = None


STARTS = re.compile(r'\{"(?:type|parentUuid|uuid|sessionId|isSidechain)": ?["ntf]')


# -- what earlier lines of a file mean for the next one; small, because it is stored with the cursor at each commit

ANSWERS = 8
ID_CHARS = 128  # a longer uuid is none, and not kept


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the session. Changes a few times in a file."""

    file_id: str  # what the file's name says
    lasting: bool = False  # and that is the session's id
    session: str = ""  # the session's id
    foreign: bool = False  # known by its name to be no session
    known: bool = False  # a line of Claude's was seen
    begun: bool = False  # a line of the conversation was seen
    dated: bool = False
    subagent: bool = False
    parented: bool = False
    fork_of: str = ""  # the session that the last copied line came from
    asked: bool = False  # somebody said something
    named: bool = False  # a prompt gave the name
    cwd: str | None = None
    branch: str | None = None
    titled: str | None = None  # not a session, but a document that tells the name of the one with this id


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A text of the model's that later lines may replace."""

    key: int
    entry: str | None
    message: str | None
    length: int
    checksum: int


class ClaudeState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, nor are its dicts: a caller may step twice from one state."""

    info: SessionInfo = msgspec.field(name="told")  # as indexes have it
    last: str | None = None  # the uuid of the line before
    undated: int = 0  # lines so far with neither time nor uuid: position is all that tells them apart
    calls: dict[str, OpenCall] = {}  # without result yet, by tool_use_id, oldest first
    answers: tuple[Answer, ...] = ()  # the last ones
    held: tuple[bytes, ...] = ()  # lines of a subagent that may only be warmed up


Step = tuple[ClaudeState, list[Operation]]


def is_beside(state: ClaudeState, line: Line) -> bool:
    """Whether it is a subagent's line within its parent's file: beside the conversation, where it was called."""
    return bool(line.is_sidechain) and not state.info.subagent


def parent_of(state: ClaudeState, line: Line) -> Parent:
    """What a line follows: the line before, where the file says nothing else of what was said. A result names its call's line, also where
    other calls of the same answer stand between them: all of them are followed."""
    if is_beside(state, line) or _has_result(line):
        return msgspec.UNSET
    return line.logical_parent_uuid if line.parent_uuid is None and line.logical_parent_uuid else line.parent_uuid


def _has_result(line: Line) -> bool:
    content = None if line.type != "user" or line.message is None else line.message.content
    return isinstance(content, list) and any(block.type == "tool_result" for block in content)


def advance(state: ClaudeState, line: Line, calls: dict[str, OpenCall] | None = None) -> ClaudeState:
    """The state after this line of the conversation."""
    is_known = line.uuid and len(line.uuid) <= ID_CHARS and not is_beside(state, line)
    last = line.uuid if is_known else state.last
    undated = state.undated + (line.timestamp is None and not line.uuid)
    return replace(state, last=last, undated=undated, calls=state.calls if calls is None else calls)


def replace_answers(state: ClaudeState, line: Line, operations: list[Operation]) -> Step:
    """Mark the answers that these replace: some versions write a text again as it grows, others name what it supersedes."""
    gone = [
        Undone(key=answer.key, alone=True) for answer in state.answers if answer.entry in (line.supersedes_uuids or ())
    ]
    answers = [answer for answer in state.answers if answer.entry not in (line.supersedes_uuids or ())]
    name = None if line.message is None else line.message.id
    for new in [operation for operation in operations if isinstance(operation, Message)]:
        shorter = [answer for answer in answers if name and answer.message == name and _grew(answer, new.text)]
        gone += [Undone(key=answer.key, alone=True) for answer in shorter]
        known = Answer(new.key, new.entry, name, len(new.text), crc32(encode(new.text)))
        answers = [answer for answer in answers if answer not in shorter and answer.key != new.key] + [known]
    if len(answers) == len(state.answers) and not operations:
        return state, operations
    return replace(state, answers=tuple(answers[-ANSWERS:])), operations + gone


def _grew(answer: Answer, text: str) -> bool:
    """Whether the text is this answer and more."""
    return len(text) > answer.length and crc32(encode(text[: answer.length])) == answer.checksum
