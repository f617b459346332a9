"""Qwen Code's sessions: JSONL, a record a line, appended to. A subagent has a file of its own, below its session's id.

Where they are, and what lines say of their session; `records` has what the types become.
"""

from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from sesamed.model import Fact, Identity, NameRank, Operation, Unknown
from sesamed.source import (
    BadLineError,
    Document,
    ForeignFileError,
    Hooks,
    Lines,
    Listing,
    Location,
    ResumeCommand,
    Setup,
    Spot,
    ToolFamilies,
    Variable,
)
from sesamed.sources.lines import FAILURES, JsonLines, repair
from sesamed.sources.names import clean_name, stem_of, title_fact
from sesamed.sources.qwen.lines import DECODE_META, STARTS, Line, QwenState, advance
from sesamed.sources.qwen.records import Step, read_answer, read_result, read_system, read_user
from sesamed.sources.records import millis, note_passed

META: Final = ".meta.json"
MOVED_BY: Final = (Variable("QWEN_HOME"),)
SUBAGENTS: Final = "subagents"


class Qwen(JsonLines[QwenState, Line]):
    """The source of Qwen Code's sessions."""

    name = "qwen"
    label = "Qwen Code"
    version = 2
    locations = (
        Location(
            home="~/.qwen",
            moved_by=(Variable("QWEN_RUNTIME_DIR"), *MOVED_BY),
            directories=("projects",),
            rare=("projects",),
        ),
        Location(
            home="~/.qwen",
            moved_by=MOVED_BY,
            directories=(),
            listings=(Listing("settings.json", ("advanced", "runtimeOutputDir"), "projects"),),
        ),
    )
    shapes = (
        Lines(files=("*/chats/*.jsonl", "*/chats/archive/*.jsonl", f"*/{SUBAGENTS}/*/*.jsonl")),
        Document(files=(f"*/{SUBAGENTS}/*/*{META}",), side=True),
    )
    asks = ()
    resume = ResumeCommand(words=("qwen", "--resume", "{id}"))  # only in the session's directory
    setup = Setup(
        program="qwen",
        files=(Spot("~/.qwen/settings.json", (Variable("QWEN_HOME", "settings.json"),)),),
        keys=("mcpServers",),
        skills=Spot("~/.qwen/skills", (Variable("QWEN_HOME", "skills"),)),
        hooks=Hooks(
            files=(Spot("~/.qwen/settings.json", (Variable("QWEN_HOME", "settings.json"),)),),
            events=("SessionStart", "UserPromptSubmit"),
        ),
    )
    tool_families = ToolFamilies(
        read=("read_file", "read_many_files"),
        write=("write_file",),
        edit=("edit", "notebook_edit"),
        shell=("run_shell_command",),
        search=("grep_search", "glob", "list_directory", "lsp"),
        web=("web_fetch", "web_search"),
        agent=("agent", "task", "create_sub_session", "send_message"),
        mcp=("mcp__*", "read_mcp_resource"),
    )

    def __init__(self) -> None:
        super().__init__(QwenState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A file is named after its session, by which it is resumed; a subagent's lies in a directory named after its parent."""
        stem = clean_name(path.name.removesuffix(META))
        if path.name.endswith(META):
            return QwenState(file_id=stem, is_meta=True), []
        stem = stem_of(stem)
        parent = clean_name(path.parent.name) if SUBAGENTS in path.parts[:-2] else ""
        operations: list[Operation] = [Identity(native_id=stem, origin=parent)]
        if parent:
            operations += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=parent)]
        return QwenState(file_id=stem, parent=parent), operations

    def step(self, state: QwenState, item: bytes) -> Step:
        """A line, or what stands beside a subagent's file."""
        return (state, _read_meta(state, item)) if state.is_meta else super().step(state, item)

    def take(self, state: QwenState, entry: Line, line: bytes) -> Step:
        """The operations of a whole line."""
        if not state.known:
            if not (entry.type in TYPES and entry.session_id):
                raise ForeignFileError("the first line is not from a session of Qwen Code")
            state = replace(state, known=True)
        handler = TYPES.get(entry.type)
        if handler is None:
            return advance(state, entry), [Unknown(type=entry.type)]
        after, facts = _read_facts(state, entry)
        after, operations = handler(after, entry)
        if entry.uuid != state.last:
            parent = entry.parent_uuid
            operations = note_passed(operations, entry.uuid, parent, state.last)
        return advance(after, entry), facts + operations

    def choose_whole(self, state: QwenState, found: list[Line]) -> list[Line]:
        """Only lines name their session."""
        return [entry for entry in found if entry.session_id and entry.type]


TYPES: Final[dict[str, Callable[[QwenState, Line], Step]]] = {
    "user": read_user,
    "assistant": read_answer,
    "tool_result": read_result,
    "system": read_system,
}


def _read_facts(state: QwenState, line: Line) -> Step:
    """What each line says of its session: the directory that it began in, the branch that it was on last, and what it was copied from. It
    began with the first line that was not."""
    facts: list[Operation] = []
    if line.cwd and state.cwd is None:
        facts.append(Fact(field="cwd", value=line.cwd))
        state = replace(state, cwd=line.cwd)
    if line.git_branch and line.git_branch != state.branch:
        facts.append(Fact(field="git_branch", value=line.git_branch, keep="last"))
        state = replace(state, branch=line.git_branch)
    forked = None if line.forked_from is None else line.forked_from.session_id
    if forked and forked not in (state.forked, state.file_id):
        facts.append(Fact(field="parent_id", value=forked, keep="last"))
        state = replace(state, forked=forked)
    began_ms = None if state.dated or forked else millis(line.timestamp)
    if began_ms is not None:
        facts.append(Fact(field="began", value=str(began_ms)))
        state = replace(state, dated=True)
    return state, facts


def _read_meta(state: QwenState, data: bytes) -> list[Operation]:
    """What a subagent was called to do, and which subagent called it, if one did."""
    try:
        meta = DECODE_META(repair(data))
    except FAILURES:
        raise BadLineError("not what stands beside a subagent's file") from None
    facts: list[Operation] = []
    if (meta.description or "").strip():
        facts.append(title_fact(meta.description or "", NameRank.GIVEN, native_id=state.file_id))
    if meta.parent_agent_id:
        parent = f"agent-{meta.parent_agent_id}"
        facts.append(Fact(field="parent_id", value=parent, rank=1, native_id=state.file_id))
    return facts
