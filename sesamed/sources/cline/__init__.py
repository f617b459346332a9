"""Cline, and what was made from it: Roo Code, and Kilo Code up to 5. Each task is a directory with documents that are rewritten as a whole.

Where they are and how they are told apart; `transcript` has what Cline's command line and its library write, `panel` what extensions of
editors do, `beside` the files that say more about a session.
"""

from pathlib import PurePath
from typing import Final, Literal

import msgspec

from sesamed.model import Operation
from sesamed.source import Document, Location, ResumeCommand, Shape, ToolFamilies, Variable
from sesamed.sources.cline.beside import read_manifest, read_tasks
from sesamed.sources.cline.panel import read_panel
from sesamed.sources.cline.transcript import read_transcript
from sesamed.sources.editors import extension_locations
from sesamed.sources.lines import JsonState
from sesamed.sources.names import clean_name

MAX_BYTES: Final = 64 << 20
LIST_BYTES: Final = 16 << 20
TRANSCRIPT: Final = ".messages.json"
PANEL: Final = "ui_messages.json"
TASKS: Final = ("history_item.json", "taskHistory.json")

TOOLS: Final = ToolFamilies(
    read=("readFile", "read_files", "fetchInstructions"),
    write=("newFileCreated", "editor"),
    edit=("editedExistingFile", "appliedDiff", "insertContent", "searchAndReplace", "apply_patch", "fileDeleted"),
    shell=("execute_command", "run_commands"),
    search=(
        *("searchFiles", "listFiles", "listFilesTopLevel", "listFilesRecursive", "listCodeDefinitionNames"),
        *("codebaseSearch", "search_codebase"),
    ),
    web=("browser_action", "webFetch", "webSearch", "fetch_web_content"),
    agent=("use_subagents", "newTask", "spawn_agent", "team_*"),
    mcp=("use_mcp_tool", "access_mcp_resource"),
)


class ClineState(msgspec.Struct, frozen=True, kw_only=True):
    """What a file's path says. There is no other state: a file is read as a whole."""

    kind: Literal["transcript", "manifest", "panel", "tasks"]
    session: str = ""


Step = tuple[ClineState, list[Operation]]


class Tasks(JsonState[ClineState]):
    """What an extension keeps of its tasks."""

    version = 1
    asks = ()
    resume: ResumeCommand | None = None
    tool_families = TOOLS
    shapes: tuple[Shape, ...] = (
        Document(files=(f"tasks/*/{PANEL}",), max_bytes=MAX_BYTES),
        Document(files=("tasks/*/history_item.json", "state/taskHistory.json"), max_bytes=LIST_BYTES, side=True),
    )

    def __init__(self) -> None:
        super().__init__(ClineState)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A task is known by the name of its directory."""
        if path.name == PANEL:
            return ClineState(kind="panel", session=clean_name(path.parent.name)), []
        if path.name in TASKS:
            return ClineState(kind="tasks"), []
        return ClineState(kind="transcript" if path.name.endswith(TRANSCRIPT) else "manifest"), []

    def step(self, state: ClineState, data: bytes) -> Step:
        """Everything that a file says."""
        if state.kind == "panel":
            return state, read_panel(state.session, data)
        if state.kind == "transcript":
            return state, read_transcript(data)
        return state, list(read_tasks(data) if state.kind == "tasks" else read_manifest(data))


class Cline(Tasks):
    """The source of Cline's sessions. Those of editors cannot be resumed from a shell."""

    name = "cline"
    label = "Cline"
    locations = (
        Location(home="~/.cline", moved_by=(Variable("CLINE_DIR"),), directories=("data",), rare=("data",)),
        Location(moved_by=(Variable("CLINE_DATA_DIR"),)),
        Location(moved_by=(Variable("CLINE_SESSION_DATA_DIR", ".."),)),
        *extension_locations("saoudrizwan.claude-dev"),
    )
    shapes = (
        Document(files=(f"sessions/*/*{TRANSCRIPT}",), max_bytes=MAX_BYTES),
        *Tasks.shapes,
        Document(files=("sessions/*/*.json",), max_bytes=LIST_BYTES, side=True),
    )
    resume = ResumeCommand(words=("cline", "--id", "{id}"), within="sessions")


class Roo(Tasks):
    """The source of Roo Code's tasks."""

    name = "roo"
    label = "Roo Code"
    locations = extension_locations("rooveterinaryinc.roo-cline")
