"""pi's sessions: JSONL, one entry a line, versions 1 to 3 of the format.

How a file begins and how its lines are stepped through; `records` has what each line becomes. Knows no files (only their names),
no index, no time. A line is judged by its type, whatever version the header claims.
"""

from pathlib import PurePath
from typing import Final

from sesamed.model import Fact, Identity, Operation
from sesamed.source import ForeignFileError, Lines, Listing, Location, ResumeCommand, Variable
from sesamed.sources.lines import JsonLines
from sesamed.sources.names import clean_name
from sesamed.sources.pi.lines import STARTS, Line, base_name, is_timed, native_id
from sesamed.sources.pi.records import HANDLERS, PiState, Step, skip_unknown
from sesamed.sources.records import millis

HOME: Final = "~/.pi/agent"
MOVED_BY: Final = (Variable("PI_CODING_AGENT_DIR"),)


class Pi(JsonLines[PiState, Line]):
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

    def __init__(self) -> None:
        super().__init__(PiState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. A directory named like a session holds its subagents."""
        file_id = native_id(clean_name(path.name))
        operations: list[Operation] = [Identity(native_id=file_id, origin="")]
        parent = next((clean_name(part) for part in reversed(path.parts[:-1]) if is_timed(part)), None)
        if parent is not None:
            operations += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=native_id(parent))]
        return PiState(file_id=file_id), operations

    def take(self, state: PiState, entry: Line, _: bytes) -> Step:
        """The operations of a whole line."""
        if state.begun:
            return HANDLERS.get(entry.type, skip_unknown)(state, entry)
        if entry.type == "session":
            return _read_header(state, entry)
        raise ForeignFileError("the first line is no header of a pi session")

    def choose_whole(self, state: PiState, found: list[Line]) -> list[Line]:
        """Blocks of a message have a type, too, but only lines have a timestamp beside it."""
        whole = [entry for entry in found if entry.timestamp is not None]
        return whole if state.begun or (whole and whole[0].type == "session") else []


def _read_header(state: PiState, header: Line) -> Step:
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
