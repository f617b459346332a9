"""Copilot CLI's sessions: a log of events for each, and a description beside it; at first, a document that was rewritten as a whole.

Where they are, how a log begins, and what each type of event says of the session; `records` has the conversation, `timeline` the old
documents, `workspace` the descriptions. Knows no files (only their names), no index, no time.
"""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from sesamed.model import Fact, Identity, NameRank, Operation, Unknown
from sesamed.source import (
    Document,
    ForeignFileError,
    Hooks,
    Lines,
    Location,
    ResumeCommand,
    Setup,
    Spot,
    ToolFamilies,
    Variable,
)
from sesamed.sources.copilot.lines import STARTS, Context, CopilotState, Line, Step, advance
from sesamed.sources.copilot.records import (
    read_assistant,
    read_command,
    read_complete,
    read_error,
    read_start,
    read_summary,
    read_user,
)
from sesamed.sources.copilot.timeline import DOCUMENTS, find_trusted, read_history
from sesamed.sources.copilot.workspace import read_workspace
from sesamed.sources.lines import JsonLines
from sesamed.sources.names import clean_name, stem_of, title_fact
from sesamed.sources.records import millis, note_activity

WORKSPACE: Final = "workspace.yaml"
EVENTS: Final = "events.jsonl"
DIRECTORIES: Final = ("session-state", "history-session-state")
HISTORY_BYTES: Final = 64 << 20  # a session of two hours has 1.2 MB
HISTORY_NAME: Final = re.compile(r"session_(.+)_\d+", re.DOTALL)
BY_CONTEXT = 1  # the directory that the session says it works in
FORKED: Final = re.compile(r'Forked from ".*" \(([0-9a-fA-F-]{36})\) as ".*', re.DOTALL)


class Copilot(JsonLines[CopilotState, Line]):
    """The source of Copilot CLI's sessions."""

    name = "copilot"
    label = "Copilot CLI"
    version = 2
    locations = (
        Location(
            home="~/.copilot", moved_by=(Variable("COPILOT_HOME"),), directories=DIRECTORIES, rare=DIRECTORIES[1:]
        ),
        Location(  # until 1.0
            moved_by=(Variable("XDG_STATE_HOME", ".copilot"),), directories=DIRECTORIES, rare=DIRECTORIES[1:]
        ),
    )
    shapes = (
        Lines(files=(f"*/{EVENTS}", "*.jsonl")),
        Document(files=("session_*.json",), max_bytes=HISTORY_BYTES),
        Document(files=(f"*/{WORKSPACE}",), side=True),
    )
    asks = ()  # it keeps a transcript of each prompt
    resume = ResumeCommand(words=("copilot", "--resume", "{id}"))
    setup = Setup(
        program="copilot",
        files=(Spot("~/.copilot/mcp-config.json", (Variable("COPILOT_HOME", "mcp-config.json"),)),),
        keys=("mcpServers",),
        more={"type": "local", "tools": ["*"]},
        skills=Spot("~/.copilot/skills", (Variable("COPILOT_HOME", "skills"),)),
        hooks=Hooks(
            files=(Spot("~/.copilot/hooks/sesame.json", (Variable("COPILOT_HOME", "hooks/sesame.json"),)),),
            events=("SessionStart", "UserPromptSubmit"),
            is_flat=True,
        ),
    )
    tool_families = ToolFamilies(
        read=("view",),
        write=("create",),
        edit=("edit", "str_replace_editor", "str_replace", "insert", "apply_patch", "git_apply_patch"),
        shell=(
            *("bash", "read_bash", "write_bash", "stop_bash", "list_bash", "search_bash"),
            *("powershell", "read_powershell", "write_powershell", "stop_powershell", "list_powershell", "local_shell"),
        ),
        search=("grep", "rg", "glob", "search_code_subagent"),
        web=("web_fetch", "web_search"),
        agent=("task", "read_agent", "write_agent", "list_agents"),
        mcp=("github-mcp-server-*",),
    )

    def __init__(self) -> None:
        super().__init__(CopilotState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A log's directory, or its name, is the session's id."""
        if path.name == WORKSPACE:
            return CopilotState(kind="workspace", file_id=clean_name(path.parent.name)), []
        stem = stem_of(clean_name(path.parent.name if path.name == EVENTS else path.name))
        if path.suffix == ".json":
            named = HISTORY_NAME.fullmatch(stem)
            stem = named[1] if named else stem
            return CopilotState(kind="document", file_id=stem), [Identity(native_id=stem, origin="")]
        return CopilotState(kind="events", file_id=stem), [Identity(native_id=stem, origin="")]

    def step(self, state: CopilotState, item: bytes) -> Step:
        """An item's operations, and the state after it."""
        if state.kind == "workspace":
            return state, [*read_workspace(state.file_id, item)]
        if state.kind == "document":
            return state, _read_document(item)
        return super().step(state, item)

    def take(self, state: CopilotState, entry: Line, _: bytes) -> Step:
        """The operations of a whole event."""
        if state.begun:
            return HANDLERS.get(entry.type, _skip_unknown)(state, entry)
        if entry.type not in HANDLERS:
            raise ForeignFileError("the first line is not an event of Copilot CLI")
        state = replace(state, begun=True, session=state.file_id)
        return HANDLERS[entry.type](state, entry)

    def choose_whole(self, _: CopilotState, found: list[Line]) -> list[Line]:
        """Events have a time; what looks like one within them has none."""
        return [entry for entry in found if entry.timestamp is not None and entry.id is not None]


def _read_document(data: bytes) -> list[Operation]:
    history = DOCUMENTS.decode(data)
    if not history.session_id:
        raise ForeignFileError("not a session of Copilot CLI")
    return [Identity(native_id=history.session_id, origin=""), *read_history(history)]


def _read_header(state: CopilotState, line: Line) -> Step:
    """The first event; a fork's has a time and an id of its own."""
    said = line.data
    if said.session_id is not None and state.session == state.file_id:
        state = replace(state, session=said.session_id)
    operations: list[Operation] = [Identity(native_id=state.session, origin="")]
    began = millis(said.start_time)
    if began is not None:
        operations.append(Fact(field="began", value=str(began)))
    if parent := said.detached_from_spawning_parent_session_id:
        operations += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=parent)]
    state, more = _read_context(state, line)
    return state, operations + more


def _read_context(state: CopilotState, line: Line) -> Step:
    """Where the session works from here on: its own directory is the first, its branch the last."""
    said, operations = line.data, list[Operation]()
    context = said.context if isinstance(said.context, Context) else Context(said.cwd, said.branch)
    if context.cwd and context.cwd != state.cwd:
        operations.append(Fact(field="cwd", value=context.cwd, rank=BY_CONTEXT))
        state = replace(state, cwd=context.cwd)
    if context.branch:
        operations.append(Fact(field="git_branch", value=context.branch, keep="last"))
    return advance(state, line), operations


def _read_info(state: CopilotState, line: Line) -> Step:
    """What the program tells the person: that this is a fork, and of what; in which directory they are."""
    text, operations = line.data.message or "", list[Operation]()
    if line.data.info_type == "fork" and (parent := FORKED.fullmatch(text)):
        operations.append(Fact(field="parent_id", value=parent[1], keep="last"))
    if line.data.info_type == "folder_trust" and (trusted := find_trusted(text)):
        operations.append(Fact(field="cwd", value=trusted))
    return advance(state, line), operations


def _read_title(state: CopilotState, line: Line) -> Step:
    return advance(state, line), [title_fact(line.data.title or "", NameRank.TITLED)]


def _read_legacy(state: CopilotState, line: Line) -> Step:
    """A session that an older version kept as a document."""
    history = DOCUMENTS.decode(bytes(line.data.legacy_session))
    return advance(state, line), list(read_history(history))


def _note(state: CopilotState, line: Line) -> Step:
    """Something was done of which nothing is kept."""
    return advance(state, line), note_activity(line.timestamp)


def _skip(state: CopilotState, line: Line) -> Step:
    return advance(state, line), []


def _skip_unknown(state: CopilotState, line: Line) -> Step:
    return advance(state, line), [Unknown(type=line.type)]


Handler = Callable[[CopilotState, Line], Step]

NOISE: Final[dict[str, Handler]] = dict.fromkeys(
    """session.auto_mode_resolved session.auto_tier_recommendation session.autopilot_objective_changed session.background_tasks_changed
    session.binary_asset session.canvas.recorded session.canvas.removed session.compaction_start session.completion_receipt
    session.context_cleared session.custom_agents_updated session.custom_notification session.extensions_loaded session.fusion_completed
    session.fusion_resolved session.fusion_route_failed session.idle session.mcp_server_status_changed session.mcp_servers_loaded
    session.mode_changed session.mode_notice_delivered session.model_change session.permissions_changed session.plan_changed
    session.remote_steerable_changed session.schedule_cancelled session.schedule_created session.schedule_rearmed
    session.session_limits_changed session.shutdown session.skills_loaded session.snapshot_rewind session.task_complete
    session.todos_changed session.tools_updated session.truncation session.usage_checkpoint session.usage_info session.usage_record
    session.warning session.workspace_file_changed
    assistant.fusion_phase_completed assistant.fusion_phase_failed assistant.intent assistant.turn_start assistant.usage
    external_tool.completed external_tool.requested hook.end hook.start
    model.call_failure model.call_finished model.message model.messages_snapshot model.model_call_failure model.model_call_started
    model.model_call_success model.response model.turn_ended model.turn_started
    permission.assentDetected permission.carriedForward permission.completed permission.contextualAuthorization
    permission.messageAuthorization permission.messageAuthorizationDegraded permission.messageAuthorizationRead permission.requested
    pending_messages.modified skill.invoked subagent.completed subagent.configured subagent.deselected subagent.failed subagent.selected
    subagent.started system.message system.notification tool.execution_partial_result tool.execution_progress
    tool_search.activated""".split(),
    _skip,
)
HANDLERS: Final[dict[str, Handler]] = NOISE | {
    "session.start": _read_header,
    "session.resume": _read_context,
    "session.context_changed": _read_context,
    "session.info": _read_info,
    "session.title_changed": _read_title,
    "session.import_legacy": _read_legacy,
    "session.compaction_complete": read_summary,
    "session.handoff": read_summary,
    "session.error": read_error,
    "user.message": read_user,
    "assistant.message": read_assistant,
    "tool.user_requested": read_command,
    "tool.execution_start": read_start,
    "tool.execution_complete": read_complete,
    "assistant.reasoning": _note,
    "assistant.turn_end": _note,
    "abort": _note,
}
