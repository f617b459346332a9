"""Codex's rollouts: JSONL, one envelope a line; bare items in the oldest ones; and the index of names beside them.

Owns how a file begins and how its lines are stepped through; `records` has what each line becomes. It must not
know files (only their names), the index, or the time.
"""

from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Bad, Identity, Operation, Unknown
from sesamed.source import BadLineError, ForeignFileError, Lines, Location, ResumeCommand, Variable
from sesamed.sources.codex.lines import STARTS, Line, Payload, is_dropped
from sesamed.sources.codex.meta import bare_header, is_bare_header
from sesamed.sources.codex.names import INDEX, file_ids, index_entry, root_of
from sesamed.sources.codex.records import LINES_OF, enveloped, response_item
from sesamed.sources.codex.state import CodexState, Step, changed, rooted
from sesamed.sources.lines import LineDecoder

LINES: Final = LineDecoder(Line, STARTS)
BARE: Final = LineDecoder(Payload, STARTS)
THAW: Final = msgspec.json.Decoder(CodexState)


class Codex:
    """The source of Codex's sessions."""

    name = "codex"
    label = "Codex"
    version = 2
    locations = (
        Location(home="~/.codex", moved_by=(Variable("CODEX_HOME"),), directories=("sessions", "archived_sessions")),
    )
    shapes = (Lines(files=("**/*.jsonl", "**/*.jsonl.zst")), Lines(files=(f"../{INDEX}",), side=True))
    resume = ResumeCommand(words=("codex", "resume", "{id}"))

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. The index of names is none."""
        name = path.name.encode("utf-8", "backslashreplace").decode()
        if name == INDEX:
            return CodexState(file_id=name, index=True), []
        session, rollout = file_ids(name)
        return CodexState(file_id=session, rollout=rollout), [Identity(native_id=session, origin="")]

    def step(self, state: CodexState, line: bytes) -> Step:
        """A line's operations, and the state after it."""
        if state.begun and is_dropped(line):
            return state, []
        try:
            entry = LINES.decode(line)
        except BadLineError:
            if line.strip():
                return _salvaged(state, line)
            return state, []
        return _stepped(state, entry, line)

    def freeze(self, state: CodexState) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(state)

    def thaw(self, data: bytes) -> CodexState:
        """The state from its JSON."""
        return THAW.decode(data)


def _stepped(state: CodexState, entry: Line, line: bytes) -> Step:
    if state.index:
        return index_entry(state, entry)
    if state.begun:
        return _bare(state, entry, line) if state.bare and entry.payload is None else enveloped(state, entry)
    if entry.payload is not None and entry.type in LINES_OF:
        root = root_of(state.file_id, entry.timestamp)  # for a file that has lost its beginning
        return enveloped(rooted(changed(state, begun=True), root), entry)
    if is_bare_header(entry):
        return bare_header(state, entry)
    raise ForeignFileError("the first line is none of a rollout")


def _bare(state: CodexState, entry: Line, line: bytes) -> Step:
    """A response item without an envelope, or a note on the state of the conversation."""
    if entry.type:
        return response_item(state, entry, BARE.decode(line))
    return state, [] if entry.record_type == "state" else [Unknown(type=entry.record_type or "")]


def _salvaged(state: CodexState, line: bytes) -> Step:
    found = [] if state.index else [entry for entry in LINES.salvage(line) if entry.payload is not None]
    if not found or not (state.begun or found[0].type in LINES_OF):
        raise BadLineError("no whole line in this one")
    operations: list[Operation] = [Bad()]
    for entry in found:
        state, more = _stepped(state, entry, line)
        operations += more
    return state, operations
