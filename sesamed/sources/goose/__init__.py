"""Goose's sessions: rows of its database.

Where it is, the statements that read it, and what is said about a session; `records` has what messages become.
"""

import re
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Identity, NameRank, Operation
from sesamed.source import ForeignFileError, Location, Query, ResumeCommand, Row, Rows, ToolFamilies, Variable
from sesamed.sources.columns import json_column, text_column, time_column
from sesamed.sources.goose.records import GooseState, Step, read_message
from sesamed.sources.lines import JsonState
from sesamed.sources.names import title_fact
from sesamed.sources.records import Place, millis

# Rows are added, removed and added again (compaction, edits), so that the last number grows; and changed in place. The length in bytes
# is in the head of a row: what is in it need not be read for that.
CHANGED: Final = """
    count(m.id) || ' ' || coalesce(max(m.id), 0) || ' ' || coalesce(sum(octet_length(m.content_json)), 0)
"""
# With names of their own and ids of messages (7 to 13, Goose 1.20 and later), and as it was first (1.10).
BY_NAME: Final = Query(
    units=f"""
    SELECT s.id, coalesce(s.working_dir, '') || ' ' || coalesce(s.name, '') || ' ' || coalesce(s.user_set_name, '')
      || ' ' || coalesce(s.session_type, '') || ' ' || {CHANGED}
      || ' ' || coalesce(sum(octet_length(m.metadata_json)), 0)
    FROM sessions s LEFT JOIN messages m ON m.session_id = s.id GROUP BY s.id
    """,
    rows=(
        "SELECT working_dir, name, user_set_name, session_type, created_at FROM sessions WHERE id = :unit",
        # The last column numbers the rows of one message. Hardly any has several: to sort all with their texts took half of a look.
        """
        SELECT coalesce(message_id, 'msg_' || session_id || '_' || m.id), role, content_json, created_timestamp, metadata_json,
          coalesce(n.number, 1)
        FROM messages m LEFT JOIN (
          SELECT id, row_number() OVER (PARTITION BY message_id ORDER BY id) AS number FROM messages
          WHERE session_id = :unit AND message_id IN (
            SELECT message_id FROM messages WHERE session_id = :unit GROUP BY message_id HAVING count(*) > 1)
        ) n ON n.id = m.id
        WHERE m.session_id = :unit ORDER BY m.id
        """,
    ),
)
BY_DESCRIPTION: Final = Query(
    units=f"""
    SELECT s.id, coalesce(s.working_dir, '') || ' ' || coalesce(s.description, '') || ' ' || {CHANGED}
    FROM sessions s LEFT JOIN messages m ON m.session_id = s.id GROUP BY s.id
    """,
    rows=(
        "SELECT working_dir, description, 0, 'user', created_at FROM sessions WHERE id = :unit",
        """
        SELECT 'msg_' || session_id || '_' || id, role, content_json, created_timestamp, NULL, 1
        FROM messages WHERE session_id = :unit ORDER BY id
        """,
    ),
)

HIDDEN: Final = "hidden"  # a session that Goose begins for itself
SUBAGENT: Final = "sub_agent"
UNTITLED: Final = re.compile(r"(?:CLI|ACP|New|Terminal|Subagent) [Ss]ession.*|New [Cc]hat.*|Delegated task|\d{8}_\d+")


class Goose(JsonState[GooseState]):
    """The source of Goose's sessions."""

    name = "goose"
    label = "Goose"
    version = 1
    locations = (
        Location(
            home="~/.local/share/goose",
            moved_by=(Variable("GOOSE_PATH_ROOT", "data"), Variable("XDG_DATA_HOME", "goose")),
            directories=("sessions",),
            rare=("sessions",),
        ),
    )
    shapes = (Rows(files=("sessions.db",), queries=(BY_NAME, BY_DESCRIPTION)),)
    asks = ()
    resume = ResumeCommand(words=("goose", "session", "--resume", "--session-id", "{id}"))
    tool_families = ToolFamilies(
        read=("read", "read_image", "developer__read", "developer__image_processor"),
        write=("write", "developer__write"),
        edit=("edit", "text_editor", "developer__edit", "developer__text_editor"),
        shell=("shell", "developer__shell"),
        search=("tree", "analyze", "developer__tree", "developer__analyze", "analyze__analyze"),
        web=("web_scrape", "computercontroller__web_scrape"),
        agent=("delegate", "summon__delegate", "subagent__*", "subagent", "dynamic_task__*"),
    )

    def __init__(self) -> None:
        super().__init__(GooseState)

    def begin(self, _: PurePath, part: str = "") -> Step:
        """A session is known by its id."""
        return GooseState(session=part), [Identity(native_id=part, origin="")]

    def step(self, state: GooseState, row: Row) -> Step:
        """A row."""
        if row.query == 0:
            return _read_session(state, row)
        named, role, content, created, metadata, number = row.values
        name = text_column(named)
        stamp = f"goose\0{name}\0{text_column(number)}"
        place = Place(entry=name, time_ms=time_column(created), cwd=state.cwd, stamp=stamp)
        said = None if metadata is None else json_column(metadata)
        return read_message(state, place, text_column(role) or "", json_column(content), said)


def _read_session(state: GooseState, row: Row) -> Step:
    """Facts about the session. Of a subagent, nothing says whose it is."""
    directory, title, by_person, kind, created = row.values
    if kind == HIDDEN:
        raise ForeignFileError("a session that Goose began for itself")
    cwd = text_column(directory) or None
    facts: list[Operation] = [] if cwd is None else [Fact(field="cwd", value=cwd)]
    began_ms = millis(text_column(created))
    if began_ms is not None:
        facts.append(Fact(field="began", value=str(began_ms)))
    if kind == SUBAGENT:
        facts.append(Fact(field="subagent", value="1"))
    name = (text_column(title) or "").strip()
    if name and not UNTITLED.fullmatch(name):
        facts.append(title_fact(name, NameRank.RENAMED if by_person else NameRank.TITLED))
    return msgspec.structs.replace(state, cwd=cwd), facts
