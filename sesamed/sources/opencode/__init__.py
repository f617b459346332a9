"""OpenCode's sessions: rows of its database, or (before 1.2) a tree of small JSON files, which stays where it was when it is imported.

Where they are, the statements that read the database, and what is said about a session; `records` has what messages and their parts become.
"""

import re
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Field, Identity, NameRank, Operation
from sesamed.source import (
    Bundle,
    ForeignFileError,
    Location,
    Member,
    Query,
    ResumeCommand,
    Row,
    Rows,
    Setup,
    Spot,
    ToolFamilies,
    Variable,
)
from sesamed.sources.columns import json_column, text_column
from sesamed.sources.lines import JsonState, LineDecoder
from sesamed.sources.names import clean_name, stem_of, title_fact
from sesamed.sources.opencode.records import (
    Header,
    OpenCodeState,
    Part,
    Revert,
    Session,
    Step,
    Times,
    read_message,
    read_part,
)
from sesamed.sources.records import millis

# -- the database: with numbered changes (1.17), and without (1.2)

# A session's row, then its messages, each followed by its parts.
ROWS: Final = (
    "SELECT id, parent_id, directory, title, time_created, revert FROM session WHERE id = :unit",
    """
    SELECT is_part, id, data FROM (
      SELECT 0 AS is_part, id, id AS message, time_created, data FROM message WHERE session_id = :unit
      UNION ALL
      SELECT 1, p.id, m.id, m.time_created, p.data FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = :unit
    ) ORDER BY time_created, message, is_part, id
    """,
)
# An update shows in the times of messages and parts, a deletion in their number.
CHANGED: Final = """
    coalesce(s.time_updated, 0) || ' ' || coalesce(s.title, '') || ' ' || coalesce(s.revert, '')
    || (SELECT ' ' || count(*) || ' ' || coalesce(max(time_updated), 0) FROM message WHERE session_id = s.id)
    || (SELECT ' ' || count(*) || ' ' || coalesce(max(time_updated), 0) FROM part WHERE session_id = s.id)
"""
# Since 1.17 every change is numbered, of a title, too. The table has been there since 1.14, but empty. Where it is in use, a session
# without a number has not changed since.
BY_EVENT: Final = Query(
    units=f"""
    SELECT s.id, CASE WHEN e.seq IS NOT NULL THEN 'event ' || e.seq
      WHEN EXISTS(SELECT 1 FROM event_sequence) THEN 'before ' || coalesce(s.time_updated, 0) ELSE {CHANGED} END
    FROM session s LEFT JOIN event_sequence e ON e.aggregate_id = s.id
    """,
    rows=ROWS,
)
BY_TIME: Final = Query(units=f"SELECT s.id, {CHANGED} FROM session s", rows=ROWS)


# -- the source

QUERIES: Final = (BY_EVENT, BY_TIME)
NONE: Final = re.compile("(?!)")  # an item is one object: there is nothing to salvage
SESSIONS: Final = LineDecoder(Session, NONE)
REVERTS: Final = LineDecoder(Revert, NONE)
MESSAGES: Final = LineDecoder(Header, NONE)
PARTS: Final = LineDecoder(Part, NONE)

# Placeholders: the title of a new session, and of a subagent without a description.
UNTITLED: Final = re.compile(r"(?:New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z(?: \(fork #\d+\))?|\(@\S+ subagent\)")


class OpenCode(JsonState[OpenCodeState]):
    """The source of OpenCode's sessions."""

    name = "opencode"
    label = "OpenCode"
    version = 4
    locations = (
        Location(home="~/.local/share/opencode", moved_by=(Variable("XDG_DATA_HOME", "opencode"),)),
        Location(moved_by=(Variable("OPENCODE_DB", ".."),)),
    )
    shapes = (
        Rows(files=("opencode.db", "opencode-*.db"), queries=QUERIES),
        Rows(files=("*.db",), queries=QUERIES, is_certain=False),  # OPENCODE_DB may name any file, in any directory
        Bundle(
            unit="storage/session/{project}/{session}.json",
            members=(
                "storage/session/{project}/{session}.json",
                "storage/message/{session}/{message}.json",
                "storage/part/{message}/{part}.json",
            ),
        ),
        Bundle(  # before 0.6
            unit="project/{project}/storage/session/info/{session}.json",
            members=(
                "project/{project}/storage/session/info/{session}.json",
                "project/{project}/storage/session/message/{session}/{message}.json",
                "project/{project}/storage/session/part/{session}/{message}/{part}.json",
            ),
        ),
    )
    asks = ()
    resume = ResumeCommand(words=("opencode", "{cwd}", "--session", "{id}"))
    setup = Setup(
        program="opencode",
        files=tuple(
            Spot(f"~/.config/opencode/{name}", (Variable("XDG_CONFIG_HOME", f"opencode/{name}"),))
            for name in ("opencode.json", "opencode.jsonc")
        ),
        keys=("mcp",),
        more={"type": "local"},
        one_list=True,
        skills=Spot("~/.config/opencode/skills", (Variable("XDG_CONFIG_HOME", "opencode/skills"),)),
    )
    tool_families = ToolFamilies(
        read=("read",),
        write=("write",),
        edit=("edit", "multiedit", "patch", "apply_patch"),
        shell=("bash",),
        search=("grep", "glob", "list"),
        web=("webfetch", "websearch", "codesearch"),
        agent=("task",),
    )

    def __init__(self) -> None:
        super().__init__(OpenCodeState)

    def begin(self, path: PurePath, part: str = "") -> Step:
        """A session is known by its id, in the database and in the name of its file."""
        session = part or stem_of(clean_name(path.name))
        return OpenCodeState(session=session), [Identity(native_id=session, origin="")]

    def step(self, state: OpenCodeState, item: Member | Row) -> Step:
        """A file or a row."""
        return _read_member(state, item) if isinstance(item, Member) else _read_row(state, item)


def _read_member(state: OpenCodeState, member: Member) -> Step:
    parts = member.path.parts
    kind = parts[1] if parts[0] == "storage" else parts[4]
    if kind == "message":
        return read_message(state, stem_of(clean_name(member.path.name)), MESSAGES.decode(member.data))
    if kind == "part":
        return read_part(state, stem_of(clean_name(member.path.name)), PARTS.decode(member.data))
    session = SESSIONS.decode(member.data)
    if session.id is None:
        raise ForeignFileError("not a session of OpenCode")
    return _read_session(state, session)


def _read_row(state: OpenCodeState, row: Row) -> Step:
    if row.query == 0:
        _, parent, directory, title, created, revert = row.values
        session = Session(
            parent_id=text_column(parent),
            directory=text_column(directory),
            title=text_column(title),
            time=Times(created=created if isinstance(created, int) else None),
            revert=None if revert is None else REVERTS.decode(json_column(revert)),
        )
        return _read_session(state, session)
    is_part, name, data = row.values
    if is_part:
        return read_part(state, text_column(name) or "", PARTS.decode(json_column(data)))
    return read_message(state, text_column(name) or "", MESSAGES.decode(json_column(data)))


def _read_session(state: OpenCodeState, session: Session) -> Step:
    """Facts about the session. The title is a placeholder until the model or the user gives one."""
    title = (session.title or "").strip()
    began_ms = None if session.time is None else millis(session.time.created)
    given: list[tuple[Field, str]] = [
        ("cwd", session.directory or ""),
        ("began", "" if began_ms is None else str(began_ms)),
        ("parent_id", session.parent_id or ""),
        ("subagent", "1" if session.parent_id else ""),
    ]
    facts: list[Operation] = [Fact(field=field, value=value) for field, value in given if value]
    if title and not UNTITLED.fullmatch(title):
        facts.append(title_fact(title, NameRank.TITLED, keep="first"))
    revert = session.revert
    taken = None if revert is None or revert.message_id is None else (revert.message_id, revert.part_id)
    return msgspec.structs.replace(state, cwd=session.directory or None, revert=taken), facts
