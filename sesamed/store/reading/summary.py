"""Sessions as lists show them, and what the index holds, in numbers. A session is made from a row in one place, by the field names of its
struct.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, get_type_hints

import apsw
import msgspec

from sesamed.model import Counts, Session, iso
from sesamed.sanitize import Line, clean_line
from sesamed.source import Unit
from sesamed.store import ids, sqlite
from sesamed.store.rows import BadLine
from sesamed.store.schema import EPOCH
from sesamed.store.search.filters import IS_EMPTY, Conditions, add_condition

# A subagent whose parent is not in the index.
IS_ORPHAN = """(s.subagent AND s.parent_id IS NOT NULL
    AND NOT EXISTS(SELECT 1 FROM sessions o WHERE o.source = s.source AND o.native_id = s.parent_id AND o.id <> s.id))"""

LISTED_CHARACTERS, LISTED_TAGS, LISTED_TAG = 500, 20, 100  # of annotations, so that many sessions fit into an answer
TAGS = msgspec.json.Decoder(list[str])

# A short id is the shortest beginning of an id that means one session, for people to type: `resolve` finds that session by it.
SHORT_CHARACTERS = 8  # at least: few ids need more, even when there are more sessions
PLAIN = re.compile(r"[A-Za-z0-9_.-]*")  # in a reference, a colon or `~` may mean something else
KEY = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):(.+)", re.DOTALL)
# Of a session `s`: the ids before and after its own; its source; whether its id means another one, too, as id or `source:id`.
NEIGHBOURS = """json_array(
    (SELECT max(o.public_id) FROM sessions o WHERE o.public_id < s.public_id),
    (SELECT min(o.public_id) FROM sessions o WHERE o.public_id > s.public_id),
    s.source,
    EXISTS(SELECT 1 FROM sessions o WHERE o.public_id = s.public_id AND o.id <> s.id) OR instr(s.public_id, ':') AND EXISTS(
      SELECT 1 FROM sessions o WHERE o.source = substr(s.public_id, 1, instr(s.public_id, ':') - 1)
      AND o.public_id = substr(s.public_id, instr(s.public_id, ':') + 1)))"""

# Where a field is not the column of its name.
COLUMN = {
    "session_id": "s.public_id",
    "short_id": NEIGHBOURS,
    "key": f"coalesce(s.workstation, :workstation) || ':' || s.project || ':' || {ids.sql_key_end('s')}",
    "workstation": "coalesce(s.workstation, :workstation)",
    "path": "(SELECT path FROM files WHERE session = s.id ORDER BY gone_ms IS NOT NULL, path LIMIT 1)",
    "summary": f"substr(s.summary, 1, {LISTED_CHARACTERS})",
    "description": f"substr(s.description, 1, {LISTED_CHARACTERS})",
    "created": "s.created_ms",
    "modified": "s.modified_ms",
    "message_count": "s.messages",
    "parent_session_id": """coalesce(
      (SELECT o.public_id FROM files f JOIN sessions o ON o.id = f.session WHERE f.path = CAST(s.parent_path AS BLOB)), s.parent_id)""",
    "orphan": IS_ORPHAN,
    "as_of": "NULL",  # it is the index that is asked
}
FIELDS = Session.__struct_fields__
SELECT = f"SELECT s.id, {', '.join(COLUMN.get(field, f's.{field}') for field in FIELDS)} FROM sessions s"

# Left to itself, SQLite reads all sessions and sorts them: the first five of 2,000 take 0.6 ms, and 0.4 in order. Sessions that are looked
# up by their records are sorted: they are few.
NEWEST_FIRST = "INDEXED BY sessions_by_activity"

# Whether the parent of a subagent works for it in turn, by whatever way: then none of them is above the others.
IN_CIRCLE = """(o.subagent AND s.id IN (
    WITH RECURSIVE above(id) AS (
      SELECT o.id UNION SELECT p.id FROM above JOIN sessions c ON c.id = above.id AND c.subagent
      JOIN sessions p ON p.source = c.source AND p.native_id = c.parent_id AND p.id <> c.id) SELECT id FROM above))"""
# A subagent is listed by itself only when its parent is not. Of those of a parent that is not in the index, the latest stands for all.
NOT_FOLDED = f"""NOT (s.subagent AND EXISTS(
    SELECT 1 FROM sessions o WHERE o.source = s.source AND o.native_id = s.parent_id AND o.id <> s.id AND NOT {IN_CIRCLE}
    AND o.id IN (SELECT s.id FROM sessions s WHERE {{passing}})))
    AND NOT ({IS_ORPHAN} AND EXISTS(
    SELECT 1 FROM sessions o WHERE o.source = s.source AND o.parent_id = s.parent_id AND o.subagent
    AND (-o.modified_ms, o.public_id) < (-s.modified_ms, s.public_id) AND o.id IN (SELECT s.id FROM sessions s WHERE {{passing}})))"""


def show_path(path: bytes | None) -> str:
    """A path as text; bytes that are not text become U+FFFD."""
    if path is None:
        return ""
    if b"\0" in path:  # most units are a whole file, and called as it is
        path = Unit.parse(path).path
    return os.fsdecode(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def show_name(text: str | None) -> str | None:
    """A name on one line; None if nothing of it is visible."""
    return None if text is None else clean_line(text) or None


def show_tags(stored: str | None) -> list[str]:
    """Tags, as many as a list can hold."""
    return [tag[:LISTED_TAG] for tag in TAGS.decode(stored or "[]")[:LISTED_TAGS]]


def shorten(public_id: str, neighbours: str) -> str:
    """The short id. What shares its whole id with another session, or is called as another one's key might be, has its source before it."""
    before, after, source, is_shared = json.loads(neighbours)
    if is_shared or KEY.fullmatch(public_id):
        return f"{source}:{public_id}"
    return shorten_among(public_id, [before, after])


def shorten_among(public_id: str, others: Iterable[str | None]) -> str:
    """The shortest beginning of an id that none of the others has."""
    nearest = (1 + _count_common(public_id, other) for other in others if other and other != public_id)
    length = max([SHORT_CHARACTERS, *nearest])
    length += public_id[length - 1 : length] == "-"
    short = public_id[:length]
    return short if PLAIN.fullmatch(short) else public_id


def _count_common(one: str, other: str) -> int:
    """How many characters both begin with."""
    differing = (at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its)
    return next(differing, min(len(one), len(other)))


def _conversions() -> Mapping[str, Callable[[Any], Any]]:
    """How columns become fields, by the field's type or name; others are taken as they are."""
    hints = get_type_hints(Session, include_extras=True)
    names = dict.fromkeys((field for field, hint in hints.items() if hint == Line | None), show_name)
    truths = dict.fromkeys((field for field, hint in hints.items() if hint is bool), bool)
    return {**truths, "path": show_path, "tags": show_tags, **names, "created": iso, "modified": iso}


CONVERSIONS = _conversions()


def _make_session(row: tuple[Any, ...]) -> Session:
    values = dict(zip(FIELDS, row[1:], strict=True))
    values["short_id"] = shorten(values["session_id"], values["short_id"])
    for field, convert in CONVERSIONS.items():
        values[field] = convert(values[field])
    return Session(**values)


def read_sessions(connection: apsw.Connection, sessions: Iterable[int], workstation: str) -> dict[int, Session]:
    """Some sessions by their numbers."""
    values = {"workstation": workstation, "sessions": sqlite.numbers(sessions)}
    rows = connection.execute(f"{SELECT} WHERE s.id IN carray(:sessions)", values)
    return {row[0]: _make_session(row) for row in rows}


def list_known(connection: apsw.Connection, keys: Iterable[str], workstation: str) -> set[str]:
    """Those of some keys that the index has."""
    values = {"keys": json.dumps(list(keys)), "workstation": workstation}
    sql = f"SELECT {COLUMN['key']} FROM sessions s WHERE {COLUMN['key']} IN (SELECT value FROM json_each(:keys))"
    return {key for (key,) in connection.execute(sql, values)}


def list_projects(connection: apsw.Connection) -> list[str]:
    """The main worktrees, or directories, of all sessions."""
    sql = "SELECT DISTINCT project_path FROM sessions WHERE project_path IS NOT NULL"
    return [path for (path,) in connection.execute(sql)]


def read_session(connection: apsw.Connection, session: int, workstation: str) -> Session:
    """A session by its number."""
    return read_sessions(connection, [session], workstation)[session]


def list_sessions(
    connection: apsw.Connection, where: Conditions, limit: int, offset: int, workstation: str
) -> tuple[int, dict[int, Session]]:
    """Sessions that pass the filters, newest activity first, and how many there are."""
    passing = _sql_passing(where, f"s.id IN ({_sessions_with_record(where.record)})")
    if where.folds:
        passing += f" AND {NOT_FOLDED.format(passing=passing)}"
    total = sqlite.one(connection, f"SELECT count(*) FROM sessions s WHERE {passing}", where.values)[0]
    order = "" if where.record else NEWEST_FIRST
    sql = f"{SELECT} {order} WHERE {passing} ORDER BY s.modified_ms DESC, s.source, s.public_id LIMIT :limit OFFSET :offset"
    rows = connection.execute(sql, {**where.values, "workstation": workstation, "limit": limit, "offset": offset})
    return int(total), {row[0]: _make_session(row) for row in rows}


# From a session to its subagents, and to the others of a parent that is not in the index; each passes the filters.
FOLDED = f"""
    WITH RECURSIVE folded(shown, id, depth) AS (
      SELECT id, id, 0 FROM sessions WHERE id IN carray(:sessions)
      UNION SELECT f.shown, s.id, depth + 1 FROM folded f JOIN sessions o ON o.id = f.id
      JOIN sessions s ON s.parent_id = o.native_id AND s.source = o.source AND s.subagent AND s.id <> f.shown
      WHERE depth < 8 AND {{passing}}
      UNION SELECT f.shown, s.id, 1 FROM folded f JOIN sessions o ON o.id = f.id AND o.subagent AND f.depth = 0
      JOIN sessions s ON s.parent_id = o.parent_id AND s.source = o.source AND s.id <> f.shown
      WHERE {IS_ORPHAN} AND {{passing}})
    SELECT shown, count(DISTINCT id) - 1 FROM folded GROUP BY shown
"""


def count_folded(connection: apsw.Connection, where: Conditions, sessions: Iterable[int]) -> dict[int, int]:
    """How many subagents are listed as each of these sessions."""
    if not where.folds:
        return {}
    passing = _sql_passing(where, f"s.id IN ({_sessions_with_record(where.record)})")
    rows = connection.execute(FOLDED.format(passing=passing), {**where.values, "sessions": sqlite.numbers(sessions)})
    return {int(shown): int(count) for shown, count in rows}


ENOUGH_PROMPTS = 5  # since a model last read a session, and it is worth asking again
GENERATED_MS = "round(unixepoch(json_extract(s.generated, '$.at'), 'subsec') * 1000)"
# Where an agent's file does not say how much the model had read, prompts count by their time.
PROMPTS_SINCE = f"""(
    SELECT count(*) FROM files f JOIN records r ON {ids.sql_in_file("r.id", "f.id")}
    WHERE f.session = s.id AND s.modified_ms > {GENERATED_MS} AND r.prompt AND r.time_ms > {GENERATED_MS})"""


def needs_memory(where: Conditions, quiet_ms: int) -> Conditions:
    """Only sessions of which a model ought to write: it never has, somebody was answered there, and nothing has happened since this
    time; or there were many prompts since. What subagents do belongs to their parents.
    """
    answered = _has_record("r.role = 'assistant'")
    never = f"s.generated IS NULL AND s.modified_ms <= :quiet_ms AND s.exchanges > 0 AND {answered}"
    again = f"coalesce(s.exchanges - json_extract(s.generated, '$.prompts'), {PROMPTS_SINCE}) >= {ENOUGH_PROMPTS}"
    return add_condition(
        where, f"NOT s.subagent AND s.workstation IS NULL AND (({never}) OR {again})", quiet_ms=quiet_ms
    )


class Removed(NamedTuple):
    """A session that was removed, has another key now, or does not pass the filters."""

    source: str
    session_id: str
    key: str
    why: str


class Changes(NamedTuple):
    """What changed after a revision, up to another one; and how much there is in all."""

    sessions: list[Session]
    removed: list[Removed]
    revision: int
    total: int
    numbers: list[int]  # of these sessions, in the index


COUNT_CHANGES = "SELECT (SELECT count(*) FROM sessions WHERE revision > :since) + (SELECT count(*) FROM removed WHERE revision > :since)"
REMOVED = """
    SELECT revision, source, public_id, coalesce(workstation, :workstation) || ':' || project || ':' || key_end, why FROM removed
    WHERE revision > :since ORDER BY revision LIMIT :limit
"""


def read_revision(connection: apsw.Connection) -> tuple[int, str]:
    """The last revision, and the epoch that it belongs to."""
    sql = "SELECT next_revision - 1, (SELECT value FROM metadata WHERE name = :epoch) FROM totals"
    revision, epoch = sqlite.one(connection, sql, {"epoch": EPOCH})
    return int(revision), epoch


def list_changes(connection: apsw.Connection, where: Conditions, since: int, limit: int, workstation: str) -> Changes:
    """The sessions that changed after a revision, each by itself, and those that were removed, in the order of revisions."""
    values = {**where.values, "workstation": workstation, "since": since, "limit": limit}
    passing = _sql_passing(where, _has_record(where.record))
    sql = (
        f"SELECT {passing}, {SELECT.removeprefix('SELECT ')} WHERE s.revision > :since ORDER BY s.revision LIMIT :limit"
    )
    changed = [(passes, row[0], _make_session(row)) for passes, *row in connection.execute(sql, values)]
    gone = [(revision, Removed(*row)) for revision, *row in connection.execute(REMOVED, values)] if since else []
    total = int(sqlite.one(connection, COUNT_CHANGES, {"since": since})[0])
    last, _ = read_revision(connection)
    revisions = sorted([session.revision for *_, session in changed] + [revision for revision, _ in gone])
    if len(revisions) >= limit:
        last = revisions[limit - 1] if limit else since
    filtered = [
        Removed(session.source, session.session_id, session.key, "filtered")
        for passes, _, session in changed
        if not passes and since and session.revision <= last
    ]
    shown = [(number, session) for passes, number, session in changed if passes and session.revision <= last]
    left = [removed for revision, removed in gone if revision <= last] + filtered
    return Changes([session for _, session in shown], left, last, total, [number for number, _ in shown])


def _sql_passing(where: Conditions, has_record: str) -> str:
    conditions = (where.session, where.listed, has_record if where.record else "")
    return " AND ".join(condition for condition in conditions if condition) or "1"


def _has_record(condition: str) -> str:
    """The same of each session by itself, for a few of many."""
    return f"""EXISTS(
        SELECT 1 FROM files f JOIN records r ON {ids.sql_in_file("r.id", "f.id")} WHERE f.session = s.id AND ({condition})
        UNION ALL SELECT 1 FROM files f JOIN copies c ON c.file = f.id JOIN records r ON r.id = c.record
        WHERE f.session = s.id AND ({condition}))"""


def _sessions_with_record(condition: str) -> str:
    return f"""
        SELECT f.session FROM records r JOIN files f ON f.id = {ids.sql_file("r.id")} WHERE {condition}
        UNION SELECT f.session FROM records r JOIN copies c ON c.record = r.id JOIN files f ON f.id = c.file WHERE {condition}
    """


class Details(NamedTuple):
    """More about a session; the fields are columns."""

    description: str | None
    summary: str | None
    tags: str | None  # a JSON array
    recall_words: str | None  # likewise
    generated: str | None  # a JSON object
    generated_by: str | None
    exchanges: int
    agent: str | None
    created_by: str | None


def read_details(connection: apsw.Connection, session: int) -> Details:
    """The columns that lists don't show."""
    return Details(
        *sqlite.one(connection, f"SELECT {', '.join(Details._fields)} FROM sessions WHERE id = ?", (session,))
    )


def list_children(connection: apsw.Connection, session: int) -> list[str]:
    """The sessions that were forked from this one, or worked for it, oldest first; those in which nothing was said are in no answer."""
    sql = f"""
        SELECT s.public_id FROM sessions p JOIN sessions s ON s.source = p.source AND s.id <> p.id
        WHERE p.id = ?1 AND (s.parent_id = p.native_id OR s.parent_path IN (SELECT CAST(path AS TEXT) FROM files WHERE session = ?1))
          AND NOT ({IS_EMPTY})
        ORDER BY s.created_ms, s.public_id LIMIT 500
    """
    return [child for (child,) in connection.execute(sql, (session,))]


class Origin(NamedTuple):
    """The agent's own id of a session, and where it was."""

    source: str
    native_id: str
    cwd: str | None
    subagent: bool
    workstation: str | None  # None: this one
    paths: tuple[bytes, ...]  # of its files that are there


def read_origin(connection: apsw.Connection, session: int) -> Origin:
    """What the agent needs to find a session again."""
    sql = "SELECT source, native_id, cwd, subagent, workstation FROM sessions WHERE id = ?"
    source, native_id, cwd, subagent, workstation = sqlite.one(connection, sql, (session,))
    sql = "SELECT path FROM files WHERE session = ? AND gone_ms IS NULL ORDER BY path"
    paths = tuple(Unit.parse(unit).path for (unit,) in connection.execute(sql, (session,)))
    return Origin(source, native_id, cwd, subagent, workstation, paths)


# -- the index in numbers

BY_ROOT = "SELECT root, count(DISTINCT session) FROM files WHERE session IS NOT NULL GROUP BY root"
SESSIONS = f"SELECT count(*), coalesce(sum(s.gone), 0), count(*) FILTER (WHERE {IS_EMPTY}) FROM sessions s"
BAD_FILES = """
    SELECT f.id, f.path, f.source, f.bad_lines, s.public_id FROM files f LEFT JOIN sessions s ON s.id = f.session
    WHERE f.bad_lines > 0 ORDER BY f.mtime_ns DESC, f.path LIMIT ? OFFSET ?
"""
BAD_LINES = "SELECT nullif(line, 0), reason FROM bad_lines WHERE file = ? ORDER BY line"


class Holdings(NamedTuple):
    """Counts, sessions by root, and when a change was last committed."""

    counts: Counts
    sessions_by_root: dict[str, int]
    changed_ms: int | None


class BadFile(NamedTuple):
    """A unit of which something could not be decoded: how much of it, and the first lines."""

    unit: Unit
    source: str
    session_id: str | None
    bad_lines: int
    lines: list[BadLine]


def read_bad_files(connection: apsw.Connection, limit: int, offset: int) -> tuple[int, list[BadFile]]:
    """How many units have bad lines, and those of a page, the last written ones first."""
    (total,) = sqlite.one(connection, "SELECT count(*) FROM files WHERE bad_lines > 0")
    return total, [
        BadFile(
            Unit.parse(path),
            source,
            session,
            count,
            [BadLine(*row) for row in sqlite.rows(connection, BAD_LINES, (file,))],
        )
        for file, path, source, count, session in sqlite.rows(connection, BAD_FILES, (limit, offset))
    ]


def read_holdings(connection: apsw.Connection) -> Holdings:
    """Count the small tables; the writer keeps totals of the large ones."""
    sql = "SELECT chunks, messages, tool_calls, changed_ms FROM totals"
    chunks, messages, tool_calls, changed_ms = sqlite.one(connection, sql)
    sql = "SELECT count(*) FILTER (WHERE session IS NOT NULL), coalesce(sum(bad_lines), 0) FROM files"
    files, bad_lines = sqlite.one(connection, sql)
    sessions, gone, empty = sqlite.one(connection, SESSIONS)
    counts = Counts(
        sessions=sessions,
        empty=empty,
        chunks=chunks,
        messages=messages,
        tool_calls=tool_calls,
        files=files,
        gone=gone,
        bad_lines=bad_lines,
    )
    return Holdings(counts, dict(sqlite.rows(connection, BY_ROOT)), changed_ms)
