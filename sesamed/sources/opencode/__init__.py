"""OpenCode's sessions: rows of its database, and the tree of small files that it wrote before that and left behind.

Both hold the same things under the same ids: the session, its messages, their parts. `records` has what each of them becomes.
"""

from pathlib import PurePath
from typing import Any, Final

import msgspec

from sesamed.model import Operation
from sesamed.source import BadLineError, Bundle, Location, Member, Query, ResumeCommand, Row, Rows, Variable
from sesamed.sources.lines import JsonState, LineDecoder
from sesamed.sources.opencode.lines import NO_START, MessageInfo, Part, SessionInfo
from sesamed.sources.opencode.records import OpenCodeState, Step, read_message, read_part, read_session

SESSION: Final = "storage/session/*/{session}.json"
MEMBERS: Final = (SESSION, "storage/message/{session}/{message}.json", "storage/part/{message}/{part}.json")
TALK: Final = """
    SELECT 'message', m.id AS message, m.data, m.time_created AS at, '' AS part FROM message m WHERE m.session_id = :unit
    UNION ALL
    SELECT 'part', m.id, p.data, m.time_created, p.id FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = :unit
    ORDER BY at, message, part
"""
ROWS: Final = (
    "SELECT id, parent_id, directory, title, time_created, revert FROM session WHERE id = :unit",
    TALK,
)
# A title that comes last moves no time, but the number of the last event.
NUMBERED: Final = """
    SELECT s.id, coalesce(e.seq, -1) || ' ' || s.time_updated FROM session s LEFT JOIN event_sequence e ON e.aggregate_id = s.id
"""
TIMED: Final = """
    SELECT s.id, s.time_updated || ' ' || s.title || ' ' || coalesce(s.revert, '')
      || (SELECT ' ' || count(*) || ' ' || coalesce(max(time_updated), 0) FROM message WHERE session_id = s.id)
      || (SELECT ' ' || count(*) || ' ' || coalesce(max(time_updated), 0) FROM part WHERE session_id = s.id)
    FROM session s
"""

DECODE_SESSION: Final = LineDecoder(SessionInfo, NO_START).decode
DECODE_MESSAGE: Final = LineDecoder(MessageInfo, NO_START).decode
DECODE_PART: Final = LineDecoder(Part, NO_START).decode


class OpenCode(JsonState[OpenCodeState]):
    """The source of OpenCode's sessions."""

    name = "opencode"
    label = "OpenCode"
    version = 1
    locations = (
        Location(
            home="~/.local/share/opencode",
            moved_by=(Variable("OPENCODE_DB", ".."), Variable("XDG_DATA_HOME", "opencode")),
        ),
    )
    shapes = (
        Rows(files=("opencode*.db",), queries=(Query(units=NUMBERED, rows=ROWS), Query(units=TIMED, rows=ROWS))),
        Bundle(unit=SESSION, members=MEMBERS),
    )
    resume = ResumeCommand(words=("opencode", "--session", "{id}"))

    def __init__(self) -> None:
        super().__init__(OpenCodeState)

    def begin(self, path: PurePath, part: str = "") -> Step:
        """The place says nothing that the session's row or file does not."""
        return OpenCodeState(), []

    def step(self, state: OpenCodeState, item: Member | Row) -> tuple[OpenCodeState, list[Operation]]:
        """The session, one of its messages, or a part of the last message."""
        if isinstance(item, Row):
            return _read_row(state, item)
        kind = item.path.parts[1]
        if kind == "session":
            return read_session(state, DECODE_SESSION(item.data))
        if kind == "message":
            return read_message(state, DECODE_MESSAGE(item.data))
        return read_part(state, DECODE_PART(item.data))


def _read_row(state: OpenCodeState, row: Row) -> Step:
    if row.query == 0:
        return read_session(state, _session_of(row.values))
    kind, message, data = row.values[0], _text(row.values[1]), _text(row.values[2]).encode("utf-8", "surrogatepass")
    if kind == "message":
        info = DECODE_MESSAGE(data)
        info.id = message
        return read_message(state, info)
    part = DECODE_PART(data)
    part.id = _text(row.values[4])
    return read_part(state, part)


def _session_of(values: tuple[Any, ...]) -> SessionInfo:
    """The row as the tree's file of a session has it."""
    session, parent, directory, title, created, revert = values
    try:
        data = {
            "id": session,
            "parentID": parent,
            "directory": directory,
            "title": title,
            "time": {"created": created},
            "revert": msgspec.Raw(_text(revert).encode() or b"null"),
        }
        return DECODE_SESSION(msgspec.json.encode(data))
    except (TypeError, ValueError) as error:
        raise BadLineError("no row of a session") from error


def _text(value: Any) -> str:
    """Any value of a database as text: a column's type promises nothing."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)
