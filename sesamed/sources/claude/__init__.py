"""Claude Code's sessions: JSONL, one entry a line, one file a session, the subagents' files below it or beside it.

How a file begins, how its lines are stepped through, and what each type of line becomes: `CHAIN` has the lines of the conversation,
`ASIDE` those about it. Knows no files (only their names), no index, no time. A line is judged by its type, whatever version it claims.
"""

from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from sesamed.model import Bad, Fact, Identity, Message, Operation, Unknown
from sesamed.source import (
    Document,
    ForeignFileError,
    Hooks,
    Lines,
    Location,
    ResumeCommand,
    Setup,
    ShapeFinder,
    Spot,
    ToolFamilies,
    Variable,
)
from sesamed.sources.claude.facts import (
    read_ai_title,
    read_custom_title,
    read_document,
    read_summary,
    read_talk_facts,
    set_begun,
)
from sesamed.sources.claude.lines import (
    STARTS,
    ClaudeState,
    Content,
    Line,
    SessionInfo,
    Step,
    advance,
    is_beside,
    parent_of,
)
from sesamed.sources.claude.records import (
    CALLS,
    blocks,
    is_by_person,
    locate,
    make_message,
    read_assistant,
    read_notification,
    read_prompt,
    read_user,
)
from sesamed.sources.lines import JsonLines
from sesamed.sources.names import clean_name, stem_of
from sesamed.sources.records import UUID, join_texts, note_activity, note_passed

SUBAGENTS: Final = "subagents"
JOURNALS: Final = frozenset({"journal.jsonl", "history.jsonl"})
JOURNALED: Final = frozenset({"started", "result"})  # a journal begins so, and no session
# Claude Code has subagents ready before anybody asks them something. They look around in a few lines; but one worked on for two hours.
WARM_UP: Final = "Warmup"
WARM_UP_LINES: Final = 40
WARM_UP_BYTES: Final = 1 << 17  # they are stored with the cursor
BLOCKS: Final = CALLS | {"text", "thinking", "redacted_thinking", "tool_result", "image", "document", "tool_reference"}


class Claude(JsonLines[ClaudeState, Line]):
    """The source of Claude Code's sessions."""

    name = "claude"
    label = "Claude Code"
    version = 7
    locations = (
        Location(home="~/.claude", moved_by=(Variable("CLAUDE_CONFIG_DIR"),), directories=("projects",)),
        Location(
            moved_by=(Variable("SESSIONS_DIR"),)
        ),  # the `projects` directory itself, as tools around Claude Code name it
    )
    shapes = (
        Lines(files=("**/*.jsonl", "**/*.jsonl.zst")),
        Document(files=("**/custom-title.json", "**/agent-*.meta.json"), side=True),
    )
    resume = ResumeCommand(words=("claude", "--resume", "{id}"))
    asks = (
        "claude", "-p", "--no-session-persistence", "--tools", "", "--strict-mcp-config", "--output-format", "json",
    )  # fmt: skip
    setup = Setup(
        program="claude",
        files=(Spot("~/.claude.json", (Variable("CLAUDE_CONFIG_DIR", ".claude.json"),)),),
        keys=("mcpServers",),
        more={"type": "stdio"},
        skills=Spot("~/.claude/skills", (Variable("CLAUDE_CONFIG_DIR", "skills"),)),
        hooks=Hooks(
            files=(Spot("~/.claude/settings.json", (Variable("CLAUDE_CONFIG_DIR", "settings.json"),)),),
            events=("SessionStart", "UserPromptSubmit"),
        ),
    )
    tool_families = ToolFamilies(
        read=("Read", "NotebookRead", "View", "ReadNotebook"),
        write=("Write",),
        edit=("Edit", "MultiEdit", "NotebookEdit", "NotebookEditCell"),
        shell=("Bash", "BashOutput", "KillShell", "KillBash", "PowerShell"),
        search=("Grep", "Glob", "LS", "GrepTool", "GlobTool"),
        web=("WebFetch", "WebSearch", "web_fetch", "web_search", "WebFetchTool"),
        agent=("Agent", "Task", "dispatch_agent"),
        mcp=("mcp__*", "ListMcpResourcesTool", "ReadMcpResourceTool"),
    )

    def __init__(self) -> None:
        super().__init__(ClaudeState, Line, STARTS)
        self._finder = ShapeFinder(self.shapes)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """An empty file is a session: its name has the id. A session's directory holds its subagents."""
        if isinstance(self._finder.find(bytes(path)), Document):
            return ClaudeState(info=SessionInfo(file_id=path.name, titled=_find_titled_session(path))), []
        stem = stem_of(clean_name(path.name))
        parts = path.parts[:-1]
        below = SUBAGENTS in parts
        subagent = below or stem.startswith("agent-")
        parent = clean_name(parts[parts.index(SUBAGENTS) - 1]) if below and parts[0] != SUBAGENTS else ""
        parented = UUID.fullmatch(parent) is not None
        info = SessionInfo(
            file_id=stem,
            lasting=UUID.fullmatch(stem) is not None or stem.startswith("agent-"),
            foreign=path.name in JOURNALS and (below or path.name == "history.jsonl"),
            subagent=subagent,
            parented=parented,
        )
        operations: list[Operation] = [Identity(native_id=stem, origin="")]
        operations += [Fact(field="subagent", value="1")] if subagent else []
        operations += [Fact(field="parent_id", value=parent)] if parented else []
        return ClaudeState(info=info), operations

    def step(self, state: ClaudeState, item: bytes) -> Step:
        """An item's operations, and the state after it."""
        if state.info.titled is not None:
            return state, read_document(state.info.titled, item)
        after, operations = super().step(state, item)
        if not state.held and not _is_warmed_up(state, after, operations):
            return after, operations
        lines = (*state.held, item)
        bad: list[Operation] = [said for said in operations if isinstance(said, Bad)]
        if len(lines) <= WARM_UP_LINES and sum(map(len, lines)) <= WARM_UP_BYTES:
            return replace(state, held=lines), bad
        after, operations = self._take_all(replace(state, held=()), lines)
        return after, bad + operations

    def _take_all(self, state: ClaudeState, lines: tuple[bytes, ...]) -> Step:
        """The operations of lines that were held back; those that were bad were counted when they came."""
        operations: list[Operation] = []
        for line in lines:
            state, more = super().step(state, line)
            operations += [said for said in more if not isinstance(said, Bad)]
        return state, operations

    def take(self, state: ClaudeState, entry: Line, _: bytes) -> Step:
        """The operations of a whole line."""
        if not state.info.known:
            state = _recognise(state, entry)
        handler = CHAIN.get(entry.type)
        if handler is None:
            return _read_aside(state, entry)
        before = state.last
        state, operations = read_talk_facts(state, entry)
        state, more = handler(state, entry)
        if entry.message is not None:
            more += count_odd_blocks(entry.message.content)
            if not more and not entry.is_meta:
                more = note_activity(entry.timestamp)
        if not is_beside(state, entry):
            more = note_passed(more, entry.uuid, parent_of(state, entry), before)
        return state, operations + more

    def choose_whole(self, _: ClaudeState, found: list[Line]) -> list[Line]:
        """Lines contain other lines (a subagent's progress); only the file's own name their session."""
        return [entry for entry in found if entry.session_id or (entry.summary and entry.leaf_uuid)]


def _read_aside(state: ClaudeState, line: Line) -> Step:
    """A line about the session."""
    operations: list[Operation] = []
    if not state.info.dated:
        state = replace(state, info=set_begun(state.info, line, operations))
    state, more = ASIDE.get(line.type, skip_unknown)(state, line)
    return state, operations + more


def _is_warmed_up(before: ClaudeState, after: ClaudeState, operations: list[Operation]) -> bool:
    """Whether a subagent's first prompt is none: it is only there to be asked later."""
    if before.info.asked or not after.info.subagent:
        return False
    return any(isinstance(said, Message) and said.prompt and said.text.strip() == WARM_UP for said in operations)


def _recognise(state: ClaudeState, line: Line) -> ClaudeState:
    """The first line shows whether this is a session of Claude Code. A new type is, if it names its session."""
    known = line.type in CHAIN or line.type in ASIDE or bool(line.session_id)
    if state.info.foreign or not known or line.type in JOURNALED:
        raise ForeignFileError("the first line is not from a session of Claude Code")
    return replace(state, info=replace(state.info, known=True))


def _find_titled_session(path: PurePath) -> str:
    """The session that a document is about: `<session>/custom-title.json`, `agent-<id>.meta.json`."""
    named = path.name.removesuffix(".meta.json")
    return clean_name(path.parent.name if named == path.name else named)


def read_system(state: ClaudeState, line: Line) -> Step:
    """A message of the program's. Only the summary of what happened while the person was away is indexed."""
    text = join_texts(line.content) if line.subtype == "away_summary" else ""
    return advance(state, line), [make_message(locate(state, line), "summary", text, text)] if text.strip() else []


def read_attachment(state: ClaudeState, line: Line) -> Step:
    """Something attached to a prompt. A queued prompt is one that was typed while the agent worked."""
    then, attached = advance(state, line), line.attachment
    if attached is None or attached.type != "queued_command":
        return then, []
    if attached.command_mode == "task-notification":
        return read_notification(then, locate(state, line), join_texts(attached.prompt))
    if line.is_meta or attached.is_meta:
        return then, []
    if not (is_by_person(attached.origin) and is_by_person(line.origin)):
        return then, []
    return read_prompt(then, locate(state, line), attached.prompt)


def skip(state: ClaudeState, line: Line) -> Step:
    """A known type without anything to index."""
    return advance(state, line), []


def skip_aside(state: ClaudeState, _: Line) -> Step:
    """A known type without anything to index."""
    return state, []


def skip_unknown(state: ClaudeState, line: Line) -> Step:
    """A new type; it may be part of the chain of parents."""
    return advance(state, line), [Unknown(type=line.type)]


def count_odd_blocks(content: Content) -> list[Operation]:
    """Count blocks of unknown types."""
    return [
        Unknown(type=f"block/{block.type}")
        for block in blocks(content)
        if block.type not in BLOCKS and not block.type.endswith("_tool_result")
    ]


Handler = Callable[[ClaudeState, Line], Step]

CHAIN: Final[dict[str, Handler]] = {
    "user": read_user,
    "assistant": read_assistant,
    "system": read_system,
    "attachment": read_attachment,
    "progress": skip,
}

ASIDE: Final[dict[str, Handler]] = {
    "custom-title": read_custom_title,
    "ai-title": read_ai_title,
    "summary": read_summary,
} | dict.fromkeys(
    """agent-name tag last-prompt pr-link queue-operation file-history-snapshot permission-mode mode agent-setting bridge-session
    atis-latch cost-state tools-used worktree-state relocated frame-link api-request-shape api-request-blob api-request
    started result""".split(),
    skip_aside,
)
