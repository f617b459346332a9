"""What the lines of a Claude Code file so far mean for its next one. Small: it is stored with the cursor at each commit."""

from typing import Any

import msgspec

from sesamed.sources.calls import OpenCall
from sesamed.sources.claude.lines import Line

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


def changed(state: ClaudeState, **fields: Any) -> ClaudeState:
    """The state with these fields."""
    return msgspec.structs.replace(state, **fields)


def after(state: ClaudeState, line: Line, calls: dict[str, OpenCall] | None = None) -> ClaudeState:
    """The state once this line of the conversation was read."""
    last = line.uuid if line.uuid and len(line.uuid) <= ID_CHARS else state.last
    return changed(state, last=last, calls=state.calls if calls is None else calls)
