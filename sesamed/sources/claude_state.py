"""What the lines of a Claude Code file so far mean for its next one. Small: it is stored with the cursor at each commit."""

import msgspec

from sesamed.sources.calls import OpenCall
from sesamed.sources.claude_lines import Line

ANSWERS = 8
ID_CHARS = 128  # a longer uuid is none, and not kept
TITLE_CHARS = 256


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was said of the session itself. Changes a few times in a file."""

    file_id: str  # what the file's name says
    lasting: bool = False  # and that is the session's id
    foreign: bool = False  # known by its name to be no session
    known: bool = False  # a line of Claude's was seen
    begun: bool = False  # a line of the conversation was seen
    dated: bool = False
    subagent: bool = False
    parented: bool = False
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
    """Never changed in place, its dict neither: a caller may step twice from the same state."""

    told: Told
    last: str | None = None  # the uuid of the line before
    calls: dict[str, OpenCall] = {}  # without result yet, by tool_use_id, oldest first
    answers: tuple[Answer, ...] = ()  # the last ones


def after(state: ClaudeState, line: Line, calls: dict[str, OpenCall] | None = None) -> ClaudeState:
    """The state once this line of the conversation was read."""
    last = line.uuid if line.uuid and len(line.uuid) <= ID_CHARS else state.last
    calls = state.calls if calls is None else calls
    return ClaudeState(told=state.told, last=last, calls=calls, answers=state.answers)


def telling(state: ClaudeState, told: Told) -> ClaudeState:
    """The state with something more said of the session."""
    return ClaudeState(told=told, last=state.last, calls=state.calls, answers=state.answers)


def answering(state: ClaudeState, answers: tuple[Answer, ...]) -> ClaudeState:
    """The state with other last answers."""
    return ClaudeState(told=state.told, last=state.last, calls=state.calls, answers=answers)
