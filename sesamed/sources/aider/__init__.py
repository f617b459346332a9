"""Aider's sessions: one file in each project, to which each start of the program adds a session.

Where such files are, and what a session is known by; `lines` has what stands in them.
"""

import re
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Identity, Operation, digest, encode
from sesamed.source import ForeignFileError, Lines, Location, ResumeCommand, ToolFamilies, Variable
from sesamed.sources.aider.lines import AiderState, Step, flush, read_line
from sesamed.sources.lines import JsonState
from sesamed.sources.names import clean_name
from sesamed.sources.records import local_millis, note_activity

FILE: Final = ".aider.chat.history.md"
BEGINS: Final = re.compile(rb"# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*\Z")


class Aider(JsonState[AiderState]):
    """The source of Aider's sessions."""

    name = "aider"
    label = "Aider"
    version = 1
    locations = (
        Location(in_projects=FILE),
        Location(moved_by=(Variable("AIDER_CHAT_HISTORY_FILE", ".."),)),
    )
    shapes = (Lines(files=("*chat.history.md",), begins=BEGINS, in_place=True),)
    asks = ()
    resume = ResumeCommand(words=("aider", "--chat-history-file", "{path}", "--restore-chat-history"))
    tool_families = ToolFamilies(edit=("edit",), shell=("run", "test", "lint", "commit"))

    def __init__(self) -> None:
        super().__init__(AiderState)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A session has no id: it is known by when it began, and by the name of the directory. A file of another name may lie anywhere."""
        place = clean_name(str(path.parent))
        named = digest(encode(path.parent.name)) & 0xFFFFFF
        return AiderState(named=f"{named:06x}", cwd=place if path.name == FILE and path.is_absolute() else None), []

    def step(self, state: AiderState, line: bytes) -> Step:
        """A line; the first one says when the session began."""
        if state.session:
            return read_line(state, line.decode("utf-8", "replace").removesuffix("\r"))
        began = BEGINS.match(line)
        if began is None:
            raise ForeignFileError("no chat of Aider's")
        day, time = (part.decode() for part in began.groups())
        session = f"{day.replace('-', '')}-{time.replace(':', '')}-{state.named}"
        facts: list[Operation] = [Identity(native_id=session, origin="")]
        if (began_ms := local_millis(f"{day} {time}")) is not None:
            facts += [Fact(field="began", value=str(began_ms)), *note_activity(began_ms)]
        if state.cwd is not None:
            facts.append(Fact(field="cwd", value=state.cwd))
        return msgspec.structs.replace(state, session=session), facts

    def end(self, state: AiderState) -> list[Operation]:
        """What has several lines, and was not over with the last one."""
        return flush(state)[1] if state.session else []
