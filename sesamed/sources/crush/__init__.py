"""Crush's sessions: rows of a database in each project, which a list of projects leads to.

Where they are, the statements that read them, and what is said about a session; `records` has what messages become.
"""

import posixpath
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Entry, Fact, Identity, NameRank, Operation
from sesamed.source import (
    BadLineError,
    Document,
    ForeignFileError,
    Listing,
    Location,
    Query,
    ResumeCommand,
    Row,
    Rows,
    ToolFamilies,
    Variable,
)
from sesamed.sources.columns import json_column, text_column, time_column
from sesamed.sources.crush.records import CrushState, Step, read_message
from sesamed.sources.lines import FAILURES, JsonState, LenientDecoder, repair
from sesamed.sources.names import title_fact
from sesamed.sources.records import Place

# A row of messages is written over while the answer comes, several times a second. The length in bytes is in its head: what is in it need
# not be read for that.
CHANGED: Final = """
    SELECT s.id, coalesce(s.title, '') || ' ' || count(m.id) || ' ' || coalesce(max(m.updated_at), 0)
      || ' ' || coalesce(sum(octet_length(m.parts)), 0)
    FROM sessions s LEFT JOIN messages m ON m.session_id = s.id GROUP BY s.id
"""
SESSION: Final = "SELECT :path, id, parent_session_id, title, created_at FROM sessions WHERE id = :unit"
# With summaries that are marked (since 2025-08), and before.
MARKED: Final = Query(
    units=CHANGED,
    rows=(
        SESSION,
        """
        SELECT id, role, parts, created_at, is_summary_message FROM messages WHERE session_id = :unit ORDER BY created_at, rowid
        """,
    ),
)
UNMARKED: Final = Query(
    units=CHANGED,
    rows=(
        SESSION,
        """
        SELECT m.id, role, parts, m.created_at, m.id = s.summary_message_id FROM messages m JOIN sessions s ON s.id = m.session_id
        WHERE session_id = :unit ORDER BY m.created_at, m.rowid
        """,
    ),
)

DATABASE: Final = "crush.db"
DIRECTORY: Final = ".crush"
PROJECTS: Final = "projects.json"
BY_LIST = 1  # ranks above where the database lies
TITLING: Final = "title-"  # what the session's id begins with in which a title is asked for
UNTITLED: Final = frozenset({"Untitled Session", "New Session", "New Agent Session", "Fetch Analysis"})


class Project(msgspec.Struct, gc=False):
    """A project, and where it keeps its database."""

    path: str | None = None
    data_dir: str | None = None


class Projects(msgspec.Struct, gc=False):
    """`projects.json`."""

    projects: list[Project] = []


LISTED: Final = LenientDecoder(Projects)


class Crush(JsonState[CrushState]):
    """The source of Crush's sessions."""

    name = "crush"
    label = "Crush"
    version = 1
    locations = (
        Location(
            home="~/.local/share/crush",
            moved_by=(Variable("CRUSH_GLOBAL_DATA"), Variable("XDG_DATA_HOME", "crush")),
            rare=("crush", DIRECTORY),
            listings=(Listing(PROJECTS, ("projects", "*", "data_dir"), grows=True),),
        ),
    )
    shapes = (
        Rows(files=(DATABASE,), queries=(MARKED, UNMARKED)),
        Document(files=(PROJECTS,), side=True),
    )
    asks = ()
    resume = ResumeCommand(words=("crush", "--session", "{id}"))
    tool_families = ToolFamilies(
        read=("view",),
        write=("write",),
        edit=("edit", "multiedit", "lsp_rename", "lsp_replace_symbol"),
        shell=("bash", "job_output", "job_kill"),
        search=("grep", "glob", "ls", "sourcegraph", "lsp_references", "lsp_definition", "lsp_symbols"),
        web=("fetch", "agentic_fetch", "web_fetch", "web_search", "download"),
        agent=("agent",),
        mcp=("mcp_*", "list_mcp_resources", "read_mcp_resource"),
    )

    def __init__(self) -> None:
        super().__init__(CrushState)

    def begin(self, _: PurePath, part: str = "") -> Step:
        """A session is known by its id; the list of projects has none."""
        return CrushState(session=part), [Identity(native_id=part, origin="")] if part else []

    def step(self, state: CrushState, item: bytes | Row) -> Step:
        """A row, or the list of projects."""
        if isinstance(item, bytes):
            return state, list(_read_projects(item))
        if item.query == 0:
            return _read_session(state, item)
        named, role, parts, created, is_summary = item.values
        name = text_column(named)
        place = Place(entry=name, time_ms=time_column(created), cwd=state.cwd, stamp=f"crush\0{name}")
        return read_message(state, place, "summary" if is_summary else text_column(role) or "", json_column(parts))


def _read_session(state: CrushState, row: Row) -> Step:
    """Facts about the session. Where it worked is where its database lies, unless the list of projects says otherwise."""
    path, named, parent, title = (text_column(value) for value in row.values[:4])
    if (named or "").startswith(TITLING):
        raise ForeignFileError("a session in which Crush asked for a title")
    place, directory = posixpath.split(posixpath.dirname(path or ""))
    facts: list[Operation] = [Entry(posixpath.join(place, directory))]
    cwd = place if directory == DIRECTORY and place.startswith("/") else None
    if cwd is not None:
        facts.append(Fact(field="cwd", value=cwd))
    if (began_ms := time_column(row.values[4])) is not None:
        facts.append(Fact(field="began", value=str(began_ms)))
    if parent:
        facts += [Fact(field="subagent", value="1"), Fact(field="parent_id", value=parent)]
    name = (title or "").strip()
    if name and name not in UNTITLED:
        facts.append(title_fact(name, NameRank.TITLED))
    return msgspec.structs.replace(state, cwd=cwd), facts


def _read_projects(data: bytes) -> Iterator[Fact]:
    """The directories of projects, by those of their databases. Several may share one: then nothing says whose a session is."""
    try:
        listed = LISTED.decode(repair(data)).projects
    except FAILURES:
        raise BadLineError("no list of projects") from None
    places = Counter(project.data_dir for project in listed)
    for project in listed:
        if project.path and project.data_dir and places[project.data_dir] == 1:
            yield Fact(field="cwd", value=project.path, rank=BY_LIST, entry=project.data_dir)
