"""Factory Droid's sessions: JSONL, one message a line, one file a session.

How a file begins, and what each type of line says; `records` has the messages. Lines are appended, but the first one is rewritten in
place when the title or the directory changes: the file is then read again from its start. Knows no files (only their names), no index,
no time.
"""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

import msgspec
from msgspec.structs import replace

from sesamed.model import Fact, Identity, NameRank, Operation, Unknown, record_key
from sesamed.source import ForeignFileError, Hooks, Lines, Location, ResumeCommand, Setup, Spot, ToolFamilies, Variable
from sesamed.sources.droid.lines import STARTS, DroidState, Line, Step, advance, locate
from sesamed.sources.droid.records import SKILL_SHOWN, TASK, read_message
from sesamed.sources.lines import JsonLines
from sesamed.sources.names import clean_name, prompt_fact, stem_of, title_fact
from sesamed.sources.records import millis, note_activity

NO_TITLE: Final = re.compile(rf"|New Session|Generating title.*|{re.escape(TASK)}.*", re.DOTALL)
COPIED: Final = (
    "provider_switch_serialization"  # a compaction that is the talk so far, word by word, for another provider
)


class Droid(JsonLines[DroidState, Line]):
    """The source of Factory Droid's sessions."""

    name = "droid"
    label = "Factory Droid"
    version = 1
    locations = (
        Location(
            home="~/.factory", moved_by=(Variable("FACTORY_HOME_OVERRIDE", ".factory"),), directories=("sessions",)
        ),
    )
    shapes = (Lines(files=("*.jsonl", "*/*.jsonl")),)
    asks = ()  # it keeps a transcript of each prompt
    resume = ResumeCommand(words=("droid", "--resume", "{id}"))
    setup = Setup(
        program="droid",
        files=(Spot("~/.factory/mcp.json", (Variable("FACTORY_HOME_OVERRIDE", ".factory/mcp.json"),)),),
        keys=("mcpServers",),
        more={"type": "stdio", "disabled": False},
        skills=Spot("~/.factory/skills", (Variable("FACTORY_HOME_OVERRIDE", ".factory/skills"),)),
        hooks=Hooks(
            files=(Spot("~/.factory/settings.json", (Variable("FACTORY_HOME_OVERRIDE", ".factory/settings.json"),)),),
            events=("SessionStart", "UserPromptSubmit"),
            takes_hints=False,  # `droid exec` runs no hook for a prompt
        ),
    )
    tool_families = ToolFamilies(
        read=("Read",),
        write=("Create",),
        edit=("Edit", "MultiEdit", "ApplyPatch"),
        shell=("Execute",),
        search=("Grep", "Glob", "LS"),
        web=("WebSearch", "FetchUrl"),
        agent=("Task", "TaskOutput", "TaskStop"),
        mcp=(),
    )

    def __init__(self) -> None:
        super().__init__(DroidState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A file has the session's id as its name."""
        stem = stem_of(clean_name(path.name))
        return DroidState(file_id=stem), [Identity(native_id=stem, origin="")]

    def take(self, state: DroidState, entry: Line, _: bytes) -> Step:
        """The operations of a whole line."""
        if state.session:
            return HANDLERS.get(entry.type, _skip_unknown)(state, entry)
        if entry.type != "session_start":
            raise ForeignFileError("the first line is not the header of a session of Factory Droid")
        return _read_header(state, entry)

    def choose_whole(self, state: DroidState, found: list[Line]) -> list[Line]:
        """Only lines have an id and what belongs to their type."""
        whole = [
            entry for entry in found if entry.id and (entry.timestamp is not None or entry.type == "session_start")
        ]
        return whole if state.session or (whole and whole[0].type == "session_start") else []


def _read_header(state: DroidState, line: Line) -> Step:
    """Which session it is, where, and what it is called; it says no time."""
    session = line.id or state.file_id
    operations: list[Operation] = [Identity(native_id=session, origin="")]
    if line.cwd:
        operations.append(Fact(field="cwd", value=line.cwd))
    if line.calling_tool_use_id:
        operations.append(Fact(field="subagent", value="1"))
    if parent := line.parent or line.calling_session_id:
        operations.append(Fact(field="parent_id", value=parent))
    operations += _read_title(line)
    return DroidState(
        file_id=state.file_id, session=session, cwd=line.cwd, forked_at=line.forked_at_message_id
    ), operations


def _read_title(line: Line) -> list[Operation]:
    """The person's, or what a subagent was called to do; else a model's, or the first prompt."""
    titles = (title.strip() for title in (line.session_title, line.title) if title)
    title = next((title for title in titles if not NO_TITLE.fullmatch(title)), "")
    if title and line.is_session_title_manually_set:
        return [title_fact(title, NameRank.GIVEN if line.calling_tool_use_id else NameRank.RENAMED)]
    if SKILL_SHOWN.match(title) or (name := prompt_fact(title)) is None:
        return []
    return [msgspec.structs.replace(name, rank=NameRank.GIVEN if name.rank == NameRank.PROMPT else NameRank.STAND_IN)]


def _read_talk(state: DroidState, line: Line) -> Step:
    """A message. A fork began after the last one that it copied."""
    then, operations = read_message(state, line)
    if state.forked_at is None or line.id != state.forked_at:
        return then, operations
    forked_ms = millis(line.timestamp)
    began: list[Operation] = [] if forked_ms is None else [Fact(field="began", value=str(forked_ms))]
    return replace(then, forked_at=None), began + operations


def _read_compaction(state: DroidState, line: Line) -> Step:
    text = line.summary_text or ""
    if line.summary_kind == COPIED or not text.strip():
        return advance(state, line), []
    place = locate(state, line)
    return advance(state, line), [place.message(record_key(f"{place.stamp}\0summary", text), "summary", text)]


def _note(state: DroidState, line: Line) -> Step:
    """Something was done of which nothing is kept."""
    return advance(state, line), note_activity(line.timestamp)


def _skip(state: DroidState, line: Line) -> Step:
    return advance(state, line), []


def _skip_unknown(state: DroidState, line: Line) -> Step:
    return advance(state, line), [Unknown(type=line.type)]


HANDLERS: Final[dict[str, Callable[[DroidState, Line], Step]]] = {
    "message": _read_talk,
    "compaction_state": _read_compaction,
    "session_end": _note,  # it repeats the last answer
    "todo_state": _skip,
    "agent_turn_outcome": _skip,
}
