"""What the lines of a Claude Code file so far mean for its next one. Small: it is stored with the cursor at each commit."""

import msgspec

from sesamed.sources.calls import OpenCall
from sesamed.sources.claude_lines import Line

RECENT = 64
ID_CHARS = 128  # a longer uuid is none, and not kept
TITLES = 16
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
    titles: dict[str, str] = {}  # of conversations that have not been seen, by the uuid of their last line


class ClaudeState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, its dict neither: a caller may step twice from the same state."""

    told: Told
    recent: tuple[str, ...] = ()  # uuids, the last one last
    calls: dict[str, OpenCall] = {}  # without result yet, by tool_use_id, oldest first

    @property
    def last(self) -> str | None:
        """The uuid of the line before."""
        return self.recent[-1] if self.recent else None


def after(state: ClaudeState, line: Line, calls: dict[str, OpenCall] | None = None) -> ClaudeState:
    """The state once this line of the conversation was read."""
    recent = state.recent
    if line.uuid and len(line.uuid) <= ID_CHARS:
        recent = (*recent[1 - RECENT :], line.uuid)
    return ClaudeState(told=state.told, recent=recent, calls=state.calls if calls is None else calls)


def telling(state: ClaudeState, told: Told) -> ClaudeState:
    """The state with something more said of the session."""
    return ClaudeState(told=told, recent=state.recent, calls=state.calls)


def awaiting(titles: dict[str, str], leaf: str, title: str) -> dict[str, str]:
    """The titles that wait for their conversation, with one more; the oldest give way."""
    if len(leaf) > ID_CHARS:
        return titles
    everything = {uuid: other for uuid, other in titles.items() if uuid != leaf} | {leaf: title[:TITLE_CHARS]}
    for uuid in list(everything)[:-TITLES]:
        del everything[uuid]
    return everything
