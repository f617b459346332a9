"""What earlier lines of a file mean for the next one. Small, because it is stored with the cursor at each commit."""

from zlib import crc32

import msgspec
from msgspec.structs import replace

from sesamed.model import Message, Operation, Undone, encode
from sesamed.sources.claude.lines import Line
from sesamed.sources.records import OpenCall

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


def advance(state: ClaudeState, line: Line, calls: dict[str, OpenCall] | None = None) -> ClaudeState:
    """The state after this line of the conversation."""
    last = line.uuid if line.uuid and len(line.uuid) <= ID_CHARS else state.last
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
