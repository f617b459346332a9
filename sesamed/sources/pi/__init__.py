"""pi's sessions: JSONL, one entry a line, versions 1 to 3 of the format.

Owns how a file begins and how its lines are stepped through; `records` has what each line becomes. It must not know
files (only their names), the index, or the time. A line is judged by its type, whatever version the header claims.
"""

from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Bad, Fact, Identity, Operation
from sesamed.source import BadLineError, ForeignFileError, Lines, Listing, Location, ResumeCommand, Variable
from sesamed.sources.lines import LineDecoder
from sesamed.sources.pi.lines import STARTS, Line
from sesamed.sources.pi.records import HANDLERS, Step, unknown
from sesamed.sources.pi.state import PiState
from sesamed.sources.pi.text import base_name, is_timed, native_id
from sesamed.sources.times import millis

LINES: Final = LineDecoder(Line, STARTS)
THAW: Final = msgspec.json.Decoder(PiState)
HOME: Final = "~/.pi/agent"
MOVED_BY: Final = (Variable("PI_CODING_AGENT_DIR"),)


class Pi:
    """The source of pi's sessions."""

    name = "pi"
    label = "pi"
    version = 1
    locations = (
        Location(home=HOME, moved_by=MOVED_BY, directories=("sessions",)),
        Location(moved_by=(Variable("PI_CODING_AGENT_SESSION_DIR"),)),
        Location(home=HOME, moved_by=MOVED_BY, directories=(), listings=(Listing("settings.json", ("sessionDir",)),)),
    )
    shapes = (Lines(files=("**/*.jsonl", "**/*.jsonl.zst")),)
    resume = ResumeCommand(words=("pi", "--session", "{path}"), subagents=True)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. A directory named like a session holds its subagents."""
        file_id = native_id(_clean(path.name))
        operations: list[Operation] = [Identity(native_id=file_id, origin="")]
        parent = next((_clean(part) for part in reversed(path.parts[:-1]) if is_timed(part)), None)
        if parent is not None:
            operations += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=native_id(parent))]
        return PiState(file_id=file_id), operations

    def step(self, state: PiState, line: bytes) -> Step:
        """A line's operations, and the state after it."""
        try:
            entry = LINES.decode(line)
        except BadLineError:
            if line.strip():
                return _salvaged(state, line)
            return state, []
        return _stepped(state, entry)

    def freeze(self, state: PiState) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(state)

    def thaw(self, data: bytes) -> PiState:
        """The state from its JSON."""
        return THAW.decode(data)


def _stepped(state: PiState, line: Line) -> Step:
    if state.begun:
        return HANDLERS.get(line.type, unknown)(state, line)
    if line.type == "session":
        return _begun(state, line)
    raise ForeignFileError("the first line is no header of a pi session")


def _salvaged(state: PiState, line: bytes) -> Step:
    """A block of a message has a type as well; only a whole line has a timestamp beside it."""
    found = [entry for entry in LINES.salvage(line) if entry.timestamp is not None]
    if not found or not (state.begun or found[0].type == "session"):
        raise BadLineError("no whole entry in this line")
    operations: list[Operation] = [Bad()]
    for entry in found:
        state, more = _stepped(state, entry)
        operations += more
    return state, operations


def _begun(state: PiState, header: Line) -> Step:
    session = header.id or state.file_id
    stamp = "" if header.timestamp is None else str(header.timestamp)
    began_ms = millis(header.timestamp)
    parent = header.parent_session or header.branched_from or ""
    facts = (
        Fact(field="cwd", value=header.cwd or ""),
        Fact(field="began", value="" if began_ms is None else str(began_ms)),
        Fact(field="parent_path", value=parent),
        Fact(field="parent_id", value=native_id(base_name(parent))),
    )
    identity = Identity(native_id=session, origin=f"{session} {stamp}")
    state = PiState(file_id=state.file_id, begun=True, cwd=header.cwd)
    return state, [identity, *(fact for fact in facts if fact.value)]


def _clean(name: str) -> str:
    """A file's name as text that can be stored: one that is no UTF-8 reaches us with lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()
