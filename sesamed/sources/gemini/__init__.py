"""Gemini CLI's sessions: a JSON file each, rewritten as a whole, or (since 0.39) a log of JSON lines that is replayed as a whole.

Which files there are and what they say about a session; `conversation` has what their messages become. A session is identified by its
`sessionId`, not by its file: resuming it in a later minute makes a second file, and Gemini CLI may then delete both as corrupt.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from sesamed.model import Bad, Entry, Fact, Identity, NameRank, Operation
from sesamed.source import (
    BadLineError,
    Document,
    ForeignFileError,
    Hooks,
    Location,
    ResumeCommand,
    Setup,
    Spot,
    ToolFamilies,
    Variable,
)
from sesamed.sources.gemini.conversation import Conversation
from sesamed.sources.gemini.lines import COMMANDS, DECODE_PROJECTS, STARTS, Line, directories_of, parts_of
from sesamed.sources.lines import FAILURES, JsonState, LineDecoder
from sesamed.sources.names import clean_name, prompt_fact, title_fact
from sesamed.sources.records import UUID, millis

LINES: Final = LineDecoder(Line, STARTS)
PROJECT_LIST: Final = "projects.json"
PROJECT_ROOT: Final = ".project_root"
MAX_BYTES: Final = 64 << 20  # each resume appends the whole session once more
BY_HASH = 1  # the directory that the session has the hash of; a session may also name some in its first message
BY_CONTEXT = 0


class GeminiState(msgspec.Struct, frozen=True, kw_only=True):
    """What a file's path says. There is no other state: a file is read as a whole."""

    kind: Literal["log", "document", "directory", "directories"]
    subagent: bool = False


Step = tuple[GeminiState, list[Operation]]


class Gemini(JsonState[GeminiState]):
    """The source of Gemini CLI's sessions."""

    name = "gemini"
    label = "Gemini CLI"
    version = 4
    locations = (Location(home="~/.gemini", moved_by=(Variable("GEMINI_CLI_HOME", ".gemini"),), directories=("tmp",)),)
    shapes = (
        Document(files=("*/chats/session-*.jsonl", "*/chats/*/*.jsonl"), max_bytes=MAX_BYTES, in_lines=True),
        Document(files=("*/chats/session-*.json",), max_bytes=MAX_BYTES),
        Document(files=(f"*/{PROJECT_ROOT}", f"../{PROJECT_LIST}"), side=True),
    )
    asks = ()
    resume = ResumeCommand(words=("gemini", "--resume", "{id}"))  # only in the session's directory
    setup = Setup(
        program="gemini",
        files=(Spot("~/.gemini/settings.json", (Variable("GEMINI_CLI_HOME", ".gemini/settings.json"),)),),
        keys=("mcpServers",),
        skills=Spot("~/.gemini/skills", (Variable("GEMINI_CLI_HOME", ".gemini/skills"),)),
        hooks=Hooks(
            files=(Spot("~/.gemini/settings.json", (Variable("GEMINI_CLI_HOME", ".gemini/settings.json"),)),),
            events=("SessionStart", "BeforeAgent"),
            timeout=5000,  # milliseconds
        ),
    )
    tool_families = ToolFamilies(
        read=("read_file", "read_many_files"),
        write=("write_file",),
        edit=("replace",),
        shell=("run_shell_command",),
        search=("grep_search", "search_file_content", "glob", "list_directory"),
        web=("google_web_search", "web_fetch"),
        agent=("codebase_investigator", "delegate_to_agent", "invoke_agent"),
        mcp=("mcp_*", "list_mcp_resources", "read_mcp_resource"),
    )

    def __init__(self) -> None:
        super().__init__(GeminiState)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A directory named after a session holds its subagents. A file name has only the first digits of the session's id."""
        if path.name == PROJECT_ROOT:
            return GeminiState(kind="directory"), []
        if path.name == PROJECT_LIST:
            return GeminiState(kind="directories"), []
        kind: Literal["log", "document"] = "log" if path.suffix == ".jsonl" else "document"
        if path.parent.name == "chats" or len(path.parts) < 2:
            return GeminiState(kind=kind), []
        parent = clean_name(path.parent.name)
        facts: list[Operation] = [Fact(field="subagent", value="1"), Fact(field="parent_id", value=parent)]
        return GeminiState(kind=kind, subagent=True), facts

    def step(self, state: GeminiState, data: bytes) -> Step:
        """Everything that a file says."""
        if state.kind == "directory":
            return state, [_read_directory(data)]
        if state.kind == "directories":
            return state, list(_read_directories(data))
        return state, _read_session(state, [LINES.decode(data)] if state.kind == "document" else _read_lines(data))


def _read_lines(data: bytes) -> list[Line | Bad]:
    """The lines of a log. Of a bad one, whole objects in it are kept; the last one may be half written."""
    *whole, last = data.split(b"\n")
    lines: list[Line | Bad] = []
    for number, line in enumerate(whole, 1):
        if not line.strip():
            continue
        try:
            lines.append(LINES.decode(line))
        except BadLineError as error:
            salvaged = [found for found in LINES.salvage(line) if _is_whole(found)]
            lines += [Bad(reason=str(error), line=number), *salvaged]
    try:
        return [*lines, LINES.decode(last)] if last.strip() else lines
    except BadLineError:
        return lines


def _is_whole(line: Line) -> bool:
    """Whether this is a whole line, and not an object within one: calls have ids, too."""
    if line.id is not None:
        return bool(line.type) and line.timestamp is not None
    return line.patch is not None or line.rewind_to is not None or line.project_hash is not None


def _read_session(state: GeminiState, lines: Sequence[Line | Bad]) -> list[Operation]:
    read = [line for line in lines if isinstance(line, Line)]
    header = next((line for line in read if line.session_id and line.id is None), None)
    if header is None:
        if read:
            raise ForeignFileError("not a session of Gemini CLI")
        raise BadLineError("nothing whole in it yet")
    session = header.session_id or ""
    # `a2a-server` is the id of every session that a server runs.
    origin = "" if UUID.fullmatch(session) else f"{session} {header.start_time or ''}"
    cwd = _cwd(header, read)
    conversation = Conversation(f"{session}\0{origin}", None if cwd is None else cwd.value)
    for line in lines:
        if isinstance(line, Line):
            conversation.take(line)
        else:
            conversation.note(line)
    facts = [*_facts(state, header, read), *_names(state, header, read, conversation.prompts())]
    facts += [] if cwd is None else [cwd]
    return [Identity(native_id=session, origin=origin), *_entries(header), *facts, *conversation.operations()]


def _facts(state: GeminiState, header: Line, lines: Sequence[Line]) -> Iterator[Fact]:
    times = [millis(line.start_time) for line in lines]
    began = min((time_ms for time_ms in times if time_ms is not None), default=None)
    if began is not None:
        yield Fact(field="began", value=str(began))
    if header.kind == "subagent" and not state.subagent:
        yield Fact(field="subagent", value="1")


def _names(state: GeminiState, header: Line, lines: Sequence[Line], prompts: Sequence[str]) -> Iterator[Fact]:
    """The summary, which is made at a later start (a subagent's is its result), or else the first prompt that is not a command."""
    if not state.subagent and header.kind != "subagent":
        summaries = (line.summary if line.patch is None else line.patch.summary for line in lines)
        summary = next((text for text in reversed(list(summaries)) if text and text.strip()), "")
        if summary:
            yield title_fact(summary, NameRank.TITLED)
    for text in prompts:
        name = prompt_fact(text)
        if name is not None and text.startswith(COMMANDS):
            name = msgspec.structs.replace(name, rank=NameRank.STAND_IN)
        if name is not None:
            yield name
            if name.rank == NameRank.PROMPT:
                return


def _cwd(header: Line, lines: Sequence[Line]) -> Fact | None:
    """The directory that the session ran in: of those that it names, the one that it has the hash of."""
    named = [directory for line in lines for directory in _find_directories(line)]
    proven = next((directory for directory in named if _digest(directory) == header.project_hash), None)
    if proven is not None:
        return Fact(field="cwd", value=proven, rank=BY_HASH)
    return Fact(field="cwd", value=named[0], rank=BY_CONTEXT) if named else None


def _find_directories(line: Line) -> Iterator[str]:
    yield from line.directories or ()
    if line.patch is not None:
        yield from line.patch.directories or ()
    messages = (line.messages or ()) if line.patch is None else (line.patch.messages or ())
    for message in (line, *messages):
        if message.type == "user":
            yield from directories_of(parts_of(message.content))


def _entries(header: Line) -> list[Operation]:
    """The hash of the project, by which the files that name its directory refer to all of its sessions."""
    return [Entry(header.project_hash)] if header.project_hash else []


def _read_directory(data: bytes) -> Fact:
    """`.project_root` holds the path of the project's directory."""
    try:
        path = data.decode().strip()
    except UnicodeDecodeError:
        path = ""
    if not path:
        raise BadLineError("no path in it")
    return _cwd_by_hash(path)


def _read_directories(data: bytes) -> Iterator[Fact]:
    """`projects.json` lists all directories that Gemini CLI was used in."""
    try:
        projects = DECODE_PROJECTS(data).projects
    except FAILURES:
        raise BadLineError("no list of projects") from None
    return (_cwd_by_hash(path) for path in projects)


def _cwd_by_hash(path: str) -> Fact:
    return Fact(field="cwd", value=path, rank=BY_HASH, entry=_digest(path))


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
