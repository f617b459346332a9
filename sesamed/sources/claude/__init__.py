"""Claude Code's sessions: JSONL, one entry a line, one file a session, the subagents' files below it or beside it.

Owns how a file begins and how its lines are stepped through; `records` has what each line becomes. It must not know
files (only their names), the index, or the time. A line is judged by its type, whatever version it claims.
"""

import re
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Bad, Fact, Identity, Operation
from sesamed.source import (
    BadLineError,
    Document,
    ForeignFileError,
    Lines,
    Location,
    ResumeCommand,
    Variable,
    find_shape,
)
from sesamed.sources.claude.facts import Step, dated, noted, replaced, side_title
from sesamed.sources.claude.lines import STARTS, Line
from sesamed.sources.claude.records import ASIDE, CHAIN, odd_blocks, unknown
from sesamed.sources.claude.state import ClaudeState, Told, changed
from sesamed.sources.lines import LineDecoder

LINES: Final = LineDecoder(Line, STARTS)
THAW: Final = msgspec.json.Decoder(ClaudeState)
UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
SUBAGENTS: Final = "subagents"
JOURNALS: Final = frozenset({"journal.jsonl", "history.jsonl"})
JOURNALED: Final = frozenset({"started", "result"})  # a journal begins so, and no session


class Claude:
    """The source of Claude Code's sessions."""

    name = "claude"
    label = "Claude Code"
    version = 2
    locations = (Location(home="~/.claude", moved_by=(Variable("CLAUDE_CONFIG_DIR"),), directories=("projects",)),)
    shapes = (
        Lines(files=("**/*.jsonl", "**/*.jsonl.zst")),
        Document(files=("**/custom-title.json", "**/agent-*.meta.json"), side=True),
    )
    resume = ResumeCommand(words=("claude", "--resume", "{id}"))

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. A session's directory holds its subagents."""
        if isinstance(find_shape(self.shapes, bytes(path)), Document):
            return ClaudeState(told=Told(file_id=path.name, titled=_titled(path))), []
        stem = _clean(path.name).removesuffix(".zst").removesuffix(".jsonl")
        parts = path.parts[:-1]
        below = SUBAGENTS in parts
        subagent = below or stem.startswith("agent-")
        parent = _clean(parts[parts.index(SUBAGENTS) - 1]) if below and parts[0] != SUBAGENTS else ""
        parented = UUID.fullmatch(parent) is not None
        told = Told(
            file_id=stem,
            lasting=UUID.fullmatch(stem) is not None or stem.startswith("agent-"),
            foreign=path.name in JOURNALS and (below or path.name == "history.jsonl"),
            subagent=subagent,
            parented=parented,
        )
        operations: list[Operation] = [Identity(native_id=stem, origin="")]
        operations += [Fact(field="subagent", value="1")] if subagent else []
        operations += [Fact(field="parent_id", value=parent)] if parented else []
        return ClaudeState(told=told), operations

    def step(self, state: ClaudeState, line: bytes) -> Step:
        """A line's operations, and the state after it."""
        if state.told.titled is not None:
            return state, side_title(state.told.titled, line)
        try:
            entry = LINES.decode(line)
        except BadLineError:
            if line.strip():
                return _salvaged(state, line)
            return state, []
        return _stepped(state, entry)

    def freeze(self, state: ClaudeState) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(state)

    def thaw(self, data: bytes) -> ClaudeState:
        """The state from its JSON."""
        return THAW.decode(data)


def _stepped(state: ClaudeState, line: Line) -> Step:
    if not state.told.known:
        state = _recognised(state, line)
    handler = CHAIN.get(line.type)
    if handler is None:
        return _aside(state, line)
    state, operations = noted(state, line)
    state, more = handler(state, line)
    if line.message is not None:
        more += odd_blocks(line.message.content)
    return state, operations + more


def _aside(state: ClaudeState, line: Line) -> Step:
    """A line about the session."""
    operations: list[Operation] = []
    if not state.told.dated:
        state = changed(state, told=dated(state.told, line, operations))
    state, more = ASIDE.get(line.type, unknown)(state, line)
    return state, operations + more


def _recognised(state: ClaudeState, line: Line) -> ClaudeState:
    """The first line shows whose file it is. A type of another day is Claude's when it names its session."""
    known = line.type in CHAIN or line.type in ASIDE or bool(line.session_id)
    if state.told.foreign or not known or line.type in JOURNALED:
        raise ForeignFileError("the first line is none of a session of Claude Code")
    return changed(state, told=replaced(state.told, known=True))


def _salvaged(state: ClaudeState, line: bytes) -> Step:
    """Lines hold other lines (a subagent's progress); only a whole one of the file's own names its session."""
    found = [entry for entry in LINES.salvage(line) if entry.session_id or (entry.summary and entry.leaf_uuid)]
    if not found:
        raise BadLineError("no whole entry in this line")
    operations: list[Operation] = [Bad()]
    for entry in found:
        state, more = _stepped(state, entry)
        operations += more
    return state, operations


def _titled(path: PurePath) -> str:
    """The session that a document is about: `<session>/custom-title.json`, `agent-<id>.meta.json`."""
    named = path.name.removesuffix(".meta.json")
    return _clean(path.parent.name if named == path.name else named)


def _clean(name: str) -> str:
    """A file's name as text that can be stored: one that is no UTF-8 reaches us with lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()
