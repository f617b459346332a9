"""The sessions of Kimi CLI, and of Kimi Code, which took its place: JSONL, appended to, in a directory for each session.

Where they are, and what stands beside them; `cli` and `code` have what the lines of each become. The directory of a session of Kimi CLI is
named after a hash of its working directory, which `kimi.json` lists.
"""

import hashlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from msgspec.structs import replace

from sesamed.model import Entry, Fact, Identity, NameRank, Operation
from sesamed.source import (
    BadLineError,
    Document,
    ForeignFileError,
    Lines,
    Location,
    ResumeCommand,
    ToolFamilies,
    Variable,
)
from sesamed.sources.kimi import cli, code
from sesamed.sources.kimi.lines import STARTS, About, Agent, Directories, KimiState, Line
from sesamed.sources.lines import FAILURES, JsonLines, LenientDecoder, repair
from sesamed.sources.names import clean_name, title_fact
from sesamed.sources.records import millis

LIST: Final = "kimi.json"
INDEX: Final = "session_index.jsonl"
MAIN: Final = "main"  # the agent that the person talks to
LOCAL: Final = "local"
ABOUT = 1  # what stands beside a session is newer than what it begins with: a fork begins with a copy
BESIDE: Final = LenientDecoder(About)
LISTED: Final = LenientDecoder(Directories)

Step = tuple[KimiState, list[Operation]]


class Kimi(JsonLines[KimiState, Line]):
    """The source of Kimi's sessions."""

    name = "kimi"
    label = "Kimi"
    version = 1
    locations = (
        Location(
            home="~/.kimi-code", moved_by=(Variable("KIMI_CODE_HOME"),), directories=("sessions",), rare=("sessions",)
        ),
        Location(home="~/.kimi", moved_by=(Variable("KIMI_SHARE_DIR"),), directories=("sessions",), rare=("sessions",)),
    )
    shapes = (
        Lines(files=("*/*/wire.jsonl", "*/*/subagents/*/wire.jsonl", "*/*/agents/*/wire.jsonl")),
        Document(files=("*/*/state.json", "*/*/subagents/*/meta.json", f"../{LIST}"), side=True),
        Lines(files=(f"../{INDEX}",), side=True),
    )
    asks = ()
    resume = ResumeCommand(words=("kimi", "--session", "{id}"))  # only in the session's directory
    tool_families = ToolFamilies(
        read=("Read", "ReadFile", "ReadMediaFile"),
        write=("Write", "WriteFile"),
        edit=("Edit", "StrReplaceFile"),
        shell=("Bash", "Shell"),
        search=("Grep", "Glob"),
        web=("WebSearch", "SearchWeb", "FetchURL"),
        agent=("Agent", "AgentSwarm", "Task", "CreateSubagent"),
        mcp=("mcp__*",),
    )

    def __init__(self) -> None:
        super().__init__(KimiState, Line, STARTS)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A session is the directory that its files lie in; agents that work for it have one each in it."""
        if path.name == LIST:
            return KimiState(kind="directories"), []
        if path.name == INDEX:
            return KimiState(kind="index"), []
        parts = [clean_name(part) for part in path.parts]
        session, agent = (parts[-4], parts[-2]) if len(parts) > 3 else (parts[-2] if len(parts) > 1 else "", MAIN)
        name = _name_agent(session, agent)
        if path.suffix == ".json":
            return KimiState(kind="about", session=name), []
        operations: list[Operation] = [Identity(native_id=name, origin="")]
        if agent != MAIN:
            operations += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=session)]
        operations += (
            [Entry(parts[0])] if "agents" not in parts else []
        )  # Kimi CLI's: a hash, which `kimi.json` explains
        return KimiState(session=name), operations

    def step(self, state: KimiState, item: bytes) -> Step:
        """A line, or what stands beside sessions."""
        if state.kind == "about":
            return state, list(_read_about(state.session, item))
        return (state, _read_directories(item)) if state.kind == "directories" else super().step(state, item)

    def take(self, state: KimiState, entry: Line, line: bytes) -> Step:
        """The operations of a whole line of either format."""
        if state.kind == "index":
            return state, _read_listed(entry)
        if not state.known:
            if entry.protocol_version is None and not _is_timed(entry):
                raise ForeignFileError("the first line is not from a session of Kimi")
            state = replace(state, known=True)
        state, facts = _read_facts(state, entry)
        if entry.type == "metadata":
            return state, facts
        reader = cli.read_line if entry.timestamp is not None else code.read_line
        state, operations = reader(state, entry)
        return state, facts + operations

    def choose_whole(self, state: KimiState, found: list[Line]) -> list[Line]:
        """Only lines have a time; objects within them have a type, too."""
        return [entry for entry in found if _is_timed(entry) or (state.kind == "index" and entry.session)]


def _is_timed(line: Line) -> bool:
    return line.time is not None or (line.timestamp is not None and line.message is not None)


def _name_agent(session: str, agent: str) -> str:
    """The id of a session, or of an agent that works for it: those are numbered within it."""
    return session if agent == MAIN else f"{session}-{agent}"


def _read_facts(state: KimiState, line: Line) -> Step:
    """When a session began, and in which directory, as far as its lines say."""
    facts: list[Operation] = []
    began_ms = millis(line.created_at) or cli.from_seconds(line.timestamp) or millis(line.time)
    if not state.dated and began_ms is not None:
        facts.append(Fact(field="began", value=str(began_ms)))
        state = replace(state, dated=True)
    cwd = line.cwd or (None if line.disclosed is None else line.disclosed.cwd)
    if cwd and state.cwd is None:
        facts.append(Fact(field="cwd", value=cwd))
        state = replace(state, cwd=cwd)
    return state, facts


def _read_listed(line: Line) -> list[Operation]:
    """The index of Kimi Code's sessions has their directories."""
    if not (line.session and line.directory):
        return []
    return [Fact(field="cwd", value=line.directory, keep="last", native_id=line.session)]


def _read_about(session: str, data: bytes) -> Iterator[Operation]:
    """`state.json`, and `meta.json` of a subagent. A title that is the first prompt is none, and so is what a fork is called at first."""
    try:
        about = BESIDE.decode(repair(data))
    except FAILURES:
        raise BadLineError("not what stands beside a session") from None
    for title, rank in _titles(about):
        if title.strip():
            yield title_fact(title, rank, native_id=session)
    if about.forked_from:
        yield Fact(field="parent_id", value=about.forked_from, native_id=session)
    began_ms = millis(about.created_at)
    if began_ms is not None:
        yield Fact(field="began", value=str(began_ms), rank=ABOUT, native_id=session)
    for name, agent in (about.agents or {MAIN: Agent()}).items():
        if cwd := about.cwd or about.work_dir:
            yield Fact(field="cwd", value=cwd, rank=ABOUT, native_id=_name_agent(session, name))
        above = agent.parent_agent_id
        if name != MAIN and above and above != MAIN:
            parent = _name_agent(session, above)
            yield Fact(field="parent_id", value=parent, rank=ABOUT, native_id=_name_agent(session, name))


def _titles(about: About) -> Iterator[tuple[str, NameRank]]:
    if about.description:
        yield about.description, NameRank.GIVEN
    if about.is_custom_title or about.title_kind == "custom":
        yield about.title or "", NameRank.RENAMED
    elif about.title_kind == "generated":
        yield about.title or "", NameRank.TITLED
    if about.title_generated:
        yield about.custom_title or "", NameRank.TITLED


def _read_directories(data: bytes) -> list[Operation]:
    """The directories that Kimi CLI was used in, for the sessions that lie below their hashes."""
    try:
        listed = LISTED.decode(repair(data)).work_dirs
    except FAILURES:
        raise BadLineError("no list of directories") from None
    return [
        Fact(field="cwd", value=one.path, entry=_name_directory(one.path, one.kaos or LOCAL))
        for one in listed
        if one.path
    ]


def _name_directory(path: str, machine: str) -> str:
    digest = hashlib.md5(path.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return digest if machine == LOCAL else f"{machine}_{digest}"
