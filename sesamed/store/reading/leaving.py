"""What goes to a hub: all that is known of a session, and its records with their keys and texts."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import apsw

from sesamed.model import Session
from sesamed.store import ids, sqlite
from sesamed.store.reading import session as read
from sesamed.store.reading.summary import TAGS, Details, read_details
from sesamed.store.rows import MOST_DIRECTORIES


class Times(NamedTuple):
    """When something happened in a session, by what its records say, and when its file was last written to; in milliseconds."""

    first_ms: int | None
    last_ms: int | None
    file_ms: int


class Leaving(NamedTuple):
    """A session, whole but for its records."""

    number: int
    session: Session
    details: Details
    tags: list[str]
    recall_words: list[str]
    times: Times
    opening: int | None
    tool_counts: Mapping[str, int]
    total: int  # its records, with those that it inherits
    inherits: bool  # some of which change without a revision of its own
    title: str | None  # its name, where that is more than the beginning of its first prompt


class Whereabouts(NamedTuple):
    """Where a session was, and those whose records it holds, or that it works for: directories, the projects that those are in, and
    whether these are all."""

    directories: set[str]
    projects: set[str]
    are_all: bool


class LeavingRecord(NamedTuple):
    """A record at its place in a session."""

    item: read.Item
    key: int
    prompt: bool
    kind: int  # of its text
    text: str
    result: str | None  # of a call, if those leave


ROW = "SELECT first_ms, last_ms, file_ms, opening, base IS NOT NULL, title FROM sessions WHERE id = ?"
KEYS = "SELECT id, key, prompt FROM records WHERE id IN carray(:records)"
# Which session one continues: its id is what stands before the last colon.
WITH_COLON = "rtrim(s.base, '0123456789')"
CONTINUED = f"substr({WITH_COLON}, 1, length({WITH_COLON}) - 1)"
# What a session says that others have said before: those whose records it shares, that it continues, or works for; and theirs.
ORIGINS = f"""
    WITH RECURSIVE origin(id) AS (
      SELECT :session
      UNION SELECT h.session FROM origin o CROSS JOIN files h ON h.session IS NOT NULL AND h.id IN (
        SELECT {ids.sql_file("c.record")} FROM files f JOIN copies c ON c.file = f.id WHERE f.session = o.id)
      UNION SELECT p.id FROM origin o JOIN sessions s ON s.id = o.id AND s.base IS NOT NULL
        CROSS JOIN sessions p ON p.native_id = {CONTINUED} AND p.source = s.source
      UNION SELECT p.id FROM origin o JOIN sessions s ON s.id = o.id AND s.subagent
        CROSS JOIN sessions p ON p.source = s.source AND p.native_id = s.parent_id
      UNION SELECT f.session FROM origin o JOIN sessions s ON s.id = o.id AND s.subagent
        CROSS JOIN files f ON f.path = CAST(s.parent_path AS BLOB) AND f.session IS NOT NULL
    )
"""
WHEREABOUTS = f"""{ORIGINS}
    SELECT s.cwd, s.project_path FROM origin o JOIN sessions s USING (id)
    UNION SELECT d.path, d.project_path FROM origin o JOIN files f ON f.session = o.id JOIN directories d ON d.file = f.id
    UNION SELECT a.value, NULL FROM origin o CROSS JOIN files f ON f.session = o.id CROSS JOIN facts a ON a.file = f.id
      WHERE a.native_id = '' AND a.field = 'cwd'
"""
# Those whose whereabouts these are part of.
RESTING = f"""
    WITH RECURSIVE heir(id, source, native_id) AS MATERIALIZED (
      SELECT id, source, {CONTINUED} FROM sessions s WHERE base IS NOT NULL -- few
    ), resting(id) AS (
      SELECT value FROM carray(:sessions)
      UNION SELECT f.session FROM resting o JOIN files h ON h.session = o.id CROSS JOIN copies c
        ON {ids.sql_in_file("c.record", "h.id")} JOIN files f ON f.id = c.file WHERE f.session IS NOT NULL
      UNION SELECT h.id FROM resting o JOIN sessions p ON p.id = o.id JOIN heir h ON h.native_id = p.native_id AND h.source = p.source
      UNION SELECT s.id FROM resting o JOIN sessions p ON p.id = o.id
        CROSS JOIN sessions s ON s.parent_id = p.native_id AND s.source = p.source AND s.subagent
      UNION SELECT s.id FROM resting o JOIN files h ON h.session = o.id
        CROSS JOIN sessions s ON s.parent_path = CAST(h.path AS TEXT) AND s.subagent
    )
    SELECT id FROM resting
"""
# The sessions that continue one of these without a copy.
CONTINUING = """
    SELECT c.id FROM sessions c WHERE c.base IS NOT NULL AND EXISTS(
      SELECT 1 FROM sessions s WHERE s.id IN carray(:sessions) AND s.source = c.source AND s.id <> c.id
        AND substr(c.base, 1, length(s.native_id) + 1) = s.native_id || ':')
"""


def read_leaving(connection: apsw.Connection, number: int, session: Session) -> Leaving:
    """All that is known of a session but its records."""
    first_ms, last_ms, file_ms, opening, inherits, title = sqlite.one(connection, ROW, (number,))
    details = read_details(connection, number)
    return Leaving(
        number=number,
        session=session,
        details=details,
        tags=TAGS.decode(details.tags or "[]"),
        recall_words=TAGS.decode(details.recall_words or "[]"),
        times=Times(first_ms, last_ms, file_ms),
        opening=opening,
        tool_counts=read.count_tools(connection, number),
        total=read.count_items(connection, number)[1],
        inherits=bool(inherits),
        title=title,
    )


def list_continuing(connection: apsw.Connection, sessions: Iterable[int]) -> list[int]:
    """The sessions that inherit records of these."""
    rows = connection.execute(CONTINUING, {"sessions": sqlite.numbers(sessions)})
    return [number for (number,) in rows]


def read_whereabouts(connection: apsw.Connection, number: int) -> Whereabouts:
    """Where a session was, and all that it says others said."""
    rows = connection.execute(WHEREABOUTS, {"session": number}).fetchall()
    directories, projects = ({str(row[column]) for row in rows if row[column]} for column in (0, 1))
    return Whereabouts(directories, projects, len(directories) < MOST_DIRECTORIES)


def list_resting(connection: apsw.Connection, sessions: Iterable[int]) -> list[int]:
    """The sessions that say again what one of these said, or work for it; and these."""
    rows = connection.execute(RESTING, {"sessions": sqlite.numbers(sessions)})
    return [number for (number,) in rows]


def is_still(connection: apsw.Connection, leaving: Leaving) -> bool:
    """Whether its number still stands for this session: another index may have come in the place of the one it was read from."""
    sql = "SELECT 1 FROM sessions WHERE id = ? AND ':' || project || ':' || public_id = ?"
    return (
        connection.execute(sql, (leaving.number, leaving.session.key[leaving.session.key.index(":") :])).fetchone()
        is not None
    )


def read_records(
    connection: apsw.Connection, number: int, first: int, count: int, since: int, *, with_results: bool
) -> list[LeavingRecord]:
    """Those of some records of a session that changed after a revision."""
    items = [item for item in read.read_items(connection, number, first, count) if item.revision > since]
    rows = connection.execute(KEYS, {"records": sqlite.numbers(item.record for item in items)})
    keys = {record: (key, bool(prompt)) for record, key, prompt in rows}
    return [_read_record(connection, item, *keys[item.record], with_results) for item in items]


def _read_record(
    connection: apsw.Connection, item: read.Item, key: int, prompt: bool, with_results: bool
) -> LeavingRecord:
    parts = read.read_texts(connection, item.record)
    result = parts.pop(ids.Kind.RESULT, None)
    kind, text = next(iter(parts.items()), (int(ids.Kind.UNINDEXED), ""))
    return LeavingRecord(item, key, prompt, kind, text, result if with_results else None)
