"""Codex's rollouts: JSONL, one envelope a line; bare items in the oldest ones; and the index of names beside them.

Which session a file belongs to, how it begins, how its lines are stepped through, and what each type of line (`LINES_OF`) and of response
item (`RESPONSES`) becomes. Knows no files (only their names), no index, no time.
"""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from sesamed.model import Fact, Field, Identity, Message, NameRank, Operation, ToolCall, Unknown
from sesamed.source import ForeignFileError, Lines, Location, ResumeCommand, Setup, Spot, ToolFamilies, Variable
from sesamed.sources.codex import outputs
from sesamed.sources.codex.events import Handler, read_event, skip
from sesamed.sources.codex.lines import STARTS, Base, Git, Line, Payload, is_dropped, ordinal
from sesamed.sources.codex.messages import add_agent_message, add_message, read_message, release_prompts, text_of
from sesamed.sources.codex.state import CodexState, Step, begin_turn, set_directory, set_root
from sesamed.sources.lines import FAILURES, JsonLines, LineDecoder
from sesamed.sources.names import clean_name, stem_of, title_fact
from sesamed.sources.records import Time, millis

# -- facts about a session: from its file's name, its first session_meta or bare header, and the index of names

INDEX: Final = "session_index.jsonl"
UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A thread that was reverted has files of its own: `…-<thread>_<rollout>`.
NAME: Final = re.compile(rf"rollout-.*?({UUID})(?:_({UUID}))?", re.DOTALL)
IS_UUID: Final = re.compile(UUID)


def is_bare_header(line: Line) -> bool:
    """The first line of a rollout from before there were envelopes: id, time, instructions, perhaps git."""
    known = line.instructions is not msgspec.UNSET or line.git is not None
    return not line.type and line.payload is None and line.id is not None and line.timestamp is not None and known


def read_bare_header(state: CodexState, line: Line) -> Step:
    """The session that a bare file holds."""
    session = line.id or state.file_id
    after = set_root(replace(state, begun=True, bare=True, session=session), root_of(session, line.timestamp))
    return after, [_identity(session, line.timestamp), *_facts(("began", _millis(line.timestamp))), *_branch(line.git)]


def read_session_meta(state: CodexState, line: Line) -> Step:
    """The first one is this session's. Others are copies of its ancestors', or news of its own branch."""
    meta = line.payload or Payload()
    session = meta.id or state.file_id
    if state.session is None:
        return _read_first(state, meta, session)
    state = set_root(state, root_of(session, meta.timestamp))
    if session == state.session:
        return state, _branch(meta.git)
    return replace(state, copied=state.copied or (state.subagent and not state.named)), []


def read_turn_context(state: CodexState, line: Line) -> Step:
    """The settings of a turn: where it runs, and its id."""
    payload = line.payload or Payload()
    state = begin_turn(state, payload.turn_id)
    if not payload.cwd or payload.cwd == state.cwd:
        return state, []
    return set_directory(state, payload.cwd)


def file_ids(name: str) -> tuple[str, str | None]:
    """The session's id from its file's name, or all of the name; and the file's own, if it has one."""
    stem = stem_of(name)
    match = NAME.fullmatch(stem)
    return (match[1], match[2]) if match else (stem, None)


def origin_of(session: str, stamp: Time) -> str:
    """What distinguishes sessions with the same id: nothing if it is a UUID, else when they began."""
    return "" if IS_UUID.fullmatch(session) else f"{session} {'' if stamp is None else stamp}"


def root_of(session: str, stamp: Time) -> str:
    """What the keys of a session begin with."""
    return origin_of(session, stamp) or session


def read_index_entry(state: CodexState, line: Line) -> Step:
    """A line of the index: the name that a person gave a session; an empty one removes it."""
    if not line.id:
        return state, [Unknown(type="session_index")]
    return state, [title_fact(line.thread_name or "", NameRank.LISTED, native_id=line.id)]


def _read_first(state: CodexState, meta: Payload, session: str) -> Step:
    source = _decode(bytes(meta.source))
    parent = meta.parent_thread_id or _spawner(source) or meta.forked_from_id or ""
    subagent = meta.thread_source == "subagent" or (
        isinstance(source, dict) and bool({"subagent", "internal"} & set(source))
    )
    facts = _facts(
        ("cwd", meta.cwd or ""),
        ("began", _millis(meta.timestamp)),
        ("parent_id", parent),
        ("subagent", "1" if subagent else ""),
    )
    state = replace(
        state,
        begun=True,
        session=session,
        cwd=meta.cwd or state.cwd,
        subagent=subagent,
        began_ms=millis(meta.timestamp),
        rollout=_other(meta.rollout_id or state.rollout, session),
    )
    state = set_root(_mark_copied(state, meta), _root(state, meta))
    return state, [_identity(session, meta.timestamp), *facts, *_branch(meta.git), *_base(state, meta)]


def _mark_copied(state: CodexState, meta: Payload) -> CodexState:
    """A subagent may begin with a copy of its parent's lines; newer builds say where its own begin."""
    start = ordinal(meta.subagent_history_start_ordinal)
    return replace(state, copied=True, own_from=start) if state.subagent and start else state


def _other(rollout: str | None, session: str) -> str | None:
    """A file's own id: the first one of a thread has the thread's."""
    return None if rollout == session else rollout


def _root(state: CodexState, meta: Payload) -> str:
    """Each file of a reverted thread has keys of its own."""
    root = root_of(state.session or "", meta.timestamp)
    return root if state.rollout is None else f"{root}_{state.rollout}"


def _base(state: CodexState, meta: Payload) -> list[Operation]:
    """Where a paginated file goes on. It names a file, by an id that need not be a thread's: the fork's parent leads there, too.

    A reverted thread goes on from itself, and leaves what it held from there on; unless that is within its own parent.
    """
    base = meta.history_base or Base()
    end = ordinal(base.end_ordinal_exclusive)
    if end is None or not base.thread_id:
        return []
    if state.rollout is None:
        return _facts(("base", f"{meta.forked_from_id or base.thread_id}:{end}"))
    above = base.thread_id == meta.forked_from_id
    return [Fact(field="base", value=f"{base.thread_id if above else state.session}:{end}", rank=int(above))]


def _identity(session: str, stamp: Time) -> Identity:
    return Identity(native_id=session, origin=origin_of(session, stamp))


def _facts(*given: tuple[Field, str]) -> list[Operation]:
    return [Fact(field=field, value=value) for field, value in given if value]


def _branch(git: Git | None) -> list[Operation]:
    return [Fact(field="git_branch", value=git.branch, keep="last")] if git is not None and git.branch else []


def _millis(stamp: Time) -> str:
    time_ms = millis(stamp)
    return "" if time_ms is None else str(time_ms)


def _spawner(source: Any, depth: int = 4) -> str | None:
    """The thread that spawned this one, wherever the source names it."""
    if not isinstance(source, dict) or depth == 0:
        return None
    parent = source.get("parent_thread_id")
    if isinstance(parent, str) and parent:
        return parent
    return next((found for value in source.values() if (found := _spawner(value, depth - 1))), None)


def _decode(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except FAILURES:
        return None


# -- the source

ARCHIVE: Final = "archived_sessions"
BARE: Final = LineDecoder(Payload, STARTS)


class Codex(JsonLines[CodexState, Line]):
    """The source of Codex's sessions."""

    name = "codex"
    label = "Codex"
    version = 7
    locations = (Location(home="~/.codex", moved_by=(Variable("CODEX_HOME"),), directories=("sessions", ARCHIVE)),)
    shapes = (Lines(files=("**/*.jsonl", "**/*.jsonl.zst")), Lines(files=(f"../{INDEX}",), side=True))
    asks = (
        "codex", "exec", "--ephemeral", "--sandbox", "read-only", "-c", "web_search=disabled", "-c", "features.shell_tool=false",
        "--skip-git-repo-check", "-",
    )  # fmt: skip
    resume = ResumeCommand(
        words=("codex", "resume", "{id}"),
        here=("codex", "resume", "--cd", ".", "{id}"),
        anywhere=True,
        archive=ARCHIVE,
        unarchive=("codex", "unarchive", "{id}"),
    )
    setup = Setup(
        program="codex",
        files=(Spot("~/.codex/config.toml", (Variable("CODEX_HOME", "config.toml"),)),),
        keys=("mcp_servers",),
        skills=Spot("~/.codex/skills", (Variable("CODEX_HOME", "skills"),)),
    )
    tool_families = ToolFamilies(
        read=("read_file",),
        write=("apply_patch",),
        edit=("apply_patch",),
        shell=(
            "shell",
            "shell_command",
            "local_shell",
            "container.exec",
            "exec_command",
            "unified_exec",
            "write_stdin",
        ),
        search=("grep_files", "list_dir"),
        web=("web_search",),
        agent=("spawn_agent", "send_input", "resume_agent", "wait_agent", "close_agent"),
        mcp=("mcp__*", "list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
    )

    def __init__(self) -> None:
        super().__init__(CodexState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. The index of names is none."""
        name = clean_name(path.name)
        if name == INDEX:
            return CodexState(file_id=name, index=True), []
        session, rollout = file_ids(name)
        return CodexState(file_id=session, rollout=rollout), [Identity(native_id=session, origin="")]

    def step(self, state: CodexState, item: bytes) -> Step:
        """The state after a line, and its operations."""
        if state.begun and is_dropped(item):
            return state, []
        return super().step(state, item)

    def take(self, state: CodexState, entry: Line, line: bytes) -> Step:
        """The operations of a whole line."""
        if state.index:
            return read_index_entry(state, entry)
        if state.begun:
            return (
                _read_bare(state, entry, line)
                if state.bare and entry.payload is None
                else _read_enveloped(state, entry)
            )
        if entry.payload is not None and entry.type in LINES_OF:
            root = root_of(state.file_id, entry.timestamp)  # for a file that has lost its beginning
            return _read_enveloped(set_root(replace(state, begun=True), root), entry)
        if is_bare_header(entry):
            return read_bare_header(state, entry)
        raise ForeignFileError("the first line is not from a rollout of Codex")

    def choose_whole(self, state: CodexState, found: list[Line]) -> list[Line]:
        """Those with an envelope; the index of names has none."""
        whole = [] if state.index else [entry for entry in found if entry.payload is not None]
        return whole if state.begun or (whole and whole[0].type in LINES_OF) else []


def _read_bare(state: CodexState, entry: Line, line: bytes) -> Step:
    """A response item without an envelope, or a note on the state of the conversation."""
    if entry.type:
        return _read_response_item(state, entry, BARE.decode(line))
    return state, [] if entry.record_type == "state" else [Unknown(type=entry.record_type or "")]


def _read_response_item(state: CodexState, line: Line, item: Payload) -> Step:
    """A response item: what the model was sent, said and called."""
    if not state.responses:
        state = replace(state, responses=True)
    handler = RESPONSES.get(item.type)
    return (state, [Unknown(type=f"response/{item.type}")]) if handler is None else handler(state, line, item)


def _read_compacted(state: CodexState, line: Line, item: Payload) -> Step:
    """The history was replaced by a summary; what replaces it was said before."""
    return add_message(state, line, "summary", item.message or "")


def _read_agent_message(state: CodexState, line: Line, item: Payload) -> Step:
    """A message from one agent to another."""
    return add_agent_message(state, line, text_of(item.content))


def _read_enveloped(state: CodexState, line: Line) -> Step:
    """A line with a payload."""
    if state.own_from is not None and line.ordinal is not None and line.ordinal >= state.own_from:
        state = replace(state, copied=False, own_from=None)
    handler = LINES_OF.get(line.type)
    if handler is None or line.payload is None:
        return state, [Unknown(type=line.type)]
    after, operations = handler(state, line, line.payload)
    if after.held and any(isinstance(said, Message | ToolCall) and said.role != "user" for said in operations):
        state, prompts = release_prompts(state)
        after, operations = handler(state, line, line.payload)
        operations = prompts + operations
    return after, operations


def _by_line(handler: Callable[[CodexState, Line], Step]) -> Handler:
    return lambda state, line, _: handler(state, line)


LINES_OF: Final[dict[str, Handler]] = {
    "session_meta": _by_line(read_session_meta),
    "turn_context": _by_line(read_turn_context),
    "response_item": _read_response_item,
    "event_msg": read_event,
    "compacted": _read_compacted,
    "inter_agent_communication": _read_agent_message,
    "inter_agent_communication_metadata": skip,
    "world_state": skip,
    "security_risk_score": skip,
    "token_usage_record": skip,
}

RESPONSES: Final[dict[str, Handler]] = {
    "message": read_message,
    "agent_message": _read_agent_message,
    "function_call": outputs.read_function_call,
    "function_call_output": outputs.read_output,
    "custom_tool_call": outputs.read_custom_tool_call,
    "custom_tool_call_output": outputs.read_output,
    "local_shell_call": outputs.read_local_shell_call,
    "local_shell_call_output": outputs.read_output,
    "tool_search_call": outputs.read_tool_search_call,
    "tool_search_output": outputs.read_tool_search_output,
    "web_search_call": outputs.read_web_search_call,
    "image_generation_call": outputs.read_image_generation_call,
    "reasoning": skip,
    "ghost_snapshot": skip,
    "compaction": skip,
    "compaction_summary": skip,
    "context_compaction": skip,
    "additional_tools": skip,
    "configuration_update": skip,
}
