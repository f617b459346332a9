"""Amp's threads: a JSON document each, which is replaced whenever something is said. Newer versions keep them on Amp's server.

Which files there are, and what a thread says of the session; `thread` has the messages.
"""

from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Identity, NameRank, Operation
from sesamed.source import Document, ForeignFileError, Location, ResumeCommand, ToolFamilies, Variable
from sesamed.sources.amp.thread import THREADS, Thread, read_place, read_records
from sesamed.sources.lines import JsonState
from sesamed.sources.names import clean_name, stem_of, title_fact
from sesamed.sources.records import millis

MAX_BYTES: Final = 64 << 20  # Amp itself reads none of more than 50 MiB
UNTITLED: Final = "Untitled"


class AmpState(msgspec.Struct, frozen=True, kw_only=True):
    """What a file's name says. There is no other state: a file is read as a whole."""

    file_id: str


Step = tuple[AmpState, list[Operation]]


class Amp(JsonState[AmpState]):
    """The source of Amp's threads."""

    name = "amp"
    label = "Amp"
    version = 1
    locations = (
        Location(
            home="~/.local/share/amp",
            moved_by=(Variable("XDG_DATA_HOME", "amp"),),
            directories=("threads",),
            rare=("threads",),
        ),
    )
    shapes = (Document(files=("T-*.json",), max_bytes=MAX_BYTES),)
    asks = ()
    resume = ResumeCommand(words=("amp", "threads", "continue", "{id}"))
    tool_families = ToolFamilies(
        read=("Read", "read_file"),
        write=("create_file",),
        edit=("edit_file", "undo_edit", "format_file"),
        shell=("Bash",),
        search=("Grep", "glob", "finder"),
        web=("web_search", "read_web_page"),
        agent=("Task", "oracle", "librarian"),
        mcp=("read_mcp_resource",),
    )

    def __init__(self) -> None:
        super().__init__(AmpState)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A file has the thread's id as its name."""
        stem = stem_of(clean_name(path.name))
        return AmpState(file_id=stem), [Identity(native_id=stem, origin="")]

    def step(self, state: AmpState, data: bytes) -> Step:
        """Everything that a thread says."""
        thread = THREADS.decode(data)
        if not thread.id or thread.messages is None:
            raise ForeignFileError("not a thread of Amp")
        facts = [*_facts(thread), *read_place(thread)]
        cwd = next((fact.value for fact in facts if fact.field == "cwd"), None)
        return state, [Identity(native_id=thread.id, origin=""), *facts, *read_records(thread, cwd)]


def _facts(thread: Thread) -> list[Fact]:
    """When it began, what it is called, and of which thread it is a part or a fork."""
    began = millis(thread.created)
    facts = [] if began is None else [Fact(field="began", value=str(began))]
    if thread.title and thread.title != UNTITLED:
        facts.append(title_fact(thread.title, NameRank.TITLED))
    if thread.main_thread:
        facts.append(Fact(field="subagent", value="1"))
    above = (other.thread_id for other in thread.relationships or () if other.role == "child" and other.thread_id)
    parent = thread.main_thread or next(above, None) or thread.origin_thread
    return [*facts, Fact(field="parent_id", value=parent)] if parent else facts
