"""A session's records in file order, including those it shares with other sessions, and before them what it inherits.

A fork that copies nothing continues another session. It names the ordinal at which it left that session; what it inherits is read
and counted first.

Of the daemon's own sessions: which can be appended to, and where a record ended up.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import apsw

from sesamed.errors import RefusedError, StoreError
from sesamed.model import Role, SessionKey, Utterance
from sesamed.store import ids, sqlite
from sesamed.store.reading.resolve import find, quote

MAX_DEPTH = 32  # of forks of forks

RECORD = "r.id, r.role, r.kind, r.tool, r.is_error"

# When a record was taken back, as a revision; null if it was not.
UNDONE = "(SELECT max(u.revision) FROM undone u WHERE u.file = {file} AND {position} BETWEEN u.first AND u.last)"

# When a record last changed here: it came, got another result, or was taken back. When it only moved, no session has changed.
REVISION = """(
    SELECT min(revision, max(r.revision, {place}, coalesce({undone}, 0), floor)) FROM sessions WHERE id = :session)"""

ONE_FILE = f"""
    SELECT position, {RECORD}, p.time_ms, p.entry, p.undone IS NOT NULL, {REVISION.format(place="p.revision", undone="p.undone")} FROM (
      SELECT *, {UNDONE.format(file=":file", position="position")} AS undone FROM (
        SELECT {ids.sql_position("id")} AS position, id AS record, entry, time_ms, revision FROM records
        WHERE {ids.sql_in_file("id", ":file", ":first", f"min(:first + :count - 1, {ids.LAST_POSITION})")}
        UNION ALL
        SELECT position, record, entry, time_ms, revision FROM copies
        WHERE file = :file AND position BETWEEN :first AND :first + :count - 1
      )
    ) p JOIN records r ON r.id = p.record ORDER BY position
"""

# A file of the session that comes later may go on from before this place.
REVERTED = """
    (SELECT max(g.revision) FROM ordinals n JOIN files g ON g.session = :session AND g.path > o.path JOIN facts b ON b.file = g.id
      WHERE n.file = o.file AND n.position = o.place AND b.native_id = '' AND b.field = 'base'
        AND CAST(substr(b.value, instr(b.value, ':') + 1) AS INTEGER) <= n.ordinal)
"""

# Several files: each record once, where it first stands; files in order of path.
IN_ORDER = f"""
    WITH place AS (
      SELECT f.path, f.id AS file, {ids.sql_position("r.id")} AS position, r.id AS record, r.entry, r.time_ms, r.revision FROM files f
      JOIN records r ON {ids.sql_in_file("r.id", "f.id")} WHERE f.session = :session
      UNION ALL
      SELECT f.path, f.id, c.position, c.record, c.entry, c.time_ms, c.revision
      FROM files f JOIN copies c ON c.file = f.id WHERE f.session = :session
    ), once AS (
      SELECT *, row_number() OVER (PARTITION BY record ORDER BY path, position) AS turn FROM place
    ), ordered AS (
      SELECT record, row_number() OVER (ORDER BY path, position) - 1 AS position, entry, time_ms, revision, file, path,
        position AS place
      FROM once WHERE turn = 1
    )
"""

BASE = "SELECT source, base FROM sessions WHERE id = ? AND base IS NOT NULL"
FORKED_FROM = "SELECT id FROM sessions WHERE (source, native_id, ordinal) = (?, ?, 1)"
COUNT_BEFORE = "SELECT count(*) FROM ordinals o JOIN files f ON f.id = o.file WHERE f.session = ? AND o.ordinal < ?"


# Of records that stand at home in the only file of a session that inherits nothing: of nearly all.
AT_HOME = f"""
    SELECT session, {ids.sql_position("p.id")}, {RECORD.replace("r.", "p.")}, time_ms, entry, undone IS NOT NULL,
      min(above, max(revision, coalesce(undone, 0), floor)) FROM (
      SELECT r.*, s.id AS session, s.revision AS above, s.floor, {UNDONE.format(file="f.id", position=ids.sql_position("r.id"))} AS undone
      FROM carray(?) one CROSS JOIN records r ON r.id = one.value CROSS JOIN files f ON f.id = {ids.sql_file("r.id")}
      CROSS JOIN sessions s ON s.id = f.session
      WHERE s.base IS NULL AND NOT EXISTS(SELECT 1 FROM files o WHERE o.session = s.id AND o.id <> f.id)) p
"""
POSITION = f"""SELECT iif({ids.sql_file("?1")} = ?2, {ids.sql_position("?1")},
    (SELECT position FROM copies WHERE record = ?1 AND file = ?2))"""

TEXTS_OF = f"""SELECT one.value, {ids.sql_kind("c.id")}, c.text
    FROM carray(?) one CROSS JOIN chunks c ON {ids.sql_in_record("c.id", "one.value")}"""
TEXTS = f"SELECT {ids.sql_kind('id')}, iif(?2, coalesce(raw, text), text) FROM chunks WHERE {ids.sql_in_record('id', '?1')} ORDER BY id"


class Item(NamedTuple):
    """A message or a tool call."""

    position: int
    record: int
    role: Role
    kind: int
    tool: str | None
    is_error: bool | None
    time_ms: int | None
    entry: str | None
    undone: bool
    revision: int


def read_items(connection: apsw.Connection, session: int, first: int, count: int) -> list[Item]:
    """Some of a session's records, counted from 0 over messages and tool calls in file order; inherited ones come first."""
    found: list[Item] = []
    before = 0
    for segment in find_segments(connection, session):
        here = max(first - before, 0)
        wanted = min(first + count - before, sys.maxsize if segment.length is None else segment.length) - here
        if wanted > 0:
            held = _read_own(connection, segment.session, list_files(connection, segment.session), here, wanted)
            found += [item._replace(position=item.position + before) for item in held]
        before += segment.length or 0
    return found


def count_items(connection: apsw.Connection, session: int) -> tuple[str, int]:
    """A session's public id, and how many records it has, including what it inherits."""
    sql = "SELECT public_id, messages + tool_calls FROM sessions WHERE id = ?"
    public_id, own = sqlite.one(connection, sql, (session,))
    return public_id, own + count_inherited(connection, session)


def find_items(connection: apsw.Connection, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Item]:
    """Some records with their numbers, each in a session that holds it."""
    wanted = set(places)
    rows = connection.execute(AT_HOME, (sqlite.numbers({record for _, record in wanted}),))
    found = {(session, row[1]): _make_item(row) for session, *row in rows}
    return {place: found.get(place) or _find_item(connection, *place) for place in wanted}


def _find_item(connection: apsw.Connection, session: int, record: int) -> Item:
    files = list_files(connection, session)
    here = _find_own_position(connection, session, files, record)
    before = count_inherited(connection, session)
    return _read_own(connection, session, files, here, 1)[0]._replace(position=before + here)


def find_position(connection: apsw.Connection, session: int, record: int) -> int:
    """The number of a record in a session that holds it."""
    own = _find_own_position(connection, session, list_files(connection, session), record)
    return count_inherited(connection, session) + own


def _find_own_position(connection: apsw.Connection, session: int, files: list[int], record: int) -> int:
    """The number of a record in the session's own files."""
    if len(files) > 1:
        sql = f"{IN_ORDER} SELECT position FROM ordered WHERE record = :record"
        return int(sqlite.one(connection, sql, {"session": session, "record": record})[0])
    return int(next(connection.execute(POSITION, (record, files[0])))[0])


def _read_own(connection: apsw.Connection, session: int, files: list[int], first: int, count: int) -> list[Item]:
    """Some of the records in the session's own files."""
    if len(files) == 1:
        rows = connection.execute(ONE_FILE, {"session": session, "file": files[0], "first": first, "count": count})
        return [_make_item(row) for row in rows]
    undone = f"coalesce({UNDONE.format(file='o.file', position='o.place')}, {REVERTED})"
    sql = f"""{IN_ORDER} SELECT p.position, {RECORD}, p.time_ms, p.entry, p.undone IS NOT NULL,
          {REVISION.format(place="p.revision", undone="p.undone")}
        FROM (SELECT *, {undone} AS undone FROM ordered o WHERE o.position BETWEEN :first AND :first + :count - 1) p
        JOIN records r ON r.id = p.record ORDER BY p.position"""
    return [_make_item(row) for row in connection.execute(sql, {"session": session, "first": first, "count": count})]


def read_each_text(connection: apsw.Connection, records: Iterable[int]) -> Iterator[tuple[int, dict[int, str]]]:
    """The texts of some records by kind, a record after the other: all of them together may be very long."""
    rows = connection.execute(TEXTS_OF, (sqlite.numbers(records),))
    for record, found in groupby(rows, itemgetter(0)):
        yield record, {kind: sqlite.plain(packed) for _, kind, packed in found}


def read_texts(connection: apsw.Connection, record: int, *, reveal: bool = False) -> dict[int, str]:
    """A record's texts by kind; with `reveal` without masks, as far as what is behind them is kept."""
    return {kind: sqlite.plain(text) for kind, text in connection.execute(TEXTS, (record, reveal))}


def read_whole_text(connection: apsw.Connection, record: int, *, reveal: bool = False) -> str:
    """A record's text as it is read: a call with its result."""
    parts = read_texts(connection, record, reveal=reveal)
    result = parts.pop(ids.Kind.RESULT, None)
    text = next(iter(parts.values()), "")
    return text if result is None else f"{text}\noutput:\n{result}"


def count_tools(connection: apsw.Connection, session: int) -> dict[str, int]:
    """How often each tool was called in a session."""
    sql = f"""{IN_ORDER} SELECT r.tool, count(*) FROM ordered o JOIN records r ON r.id = o.record WHERE {ids.sql_is_call("r")}
        GROUP BY r.tool ORDER BY count(*) DESC, r.tool"""
    return dict(sqlite.rows(connection, sql, {"session": session}))


def count_prompts(connection: apsw.Connection, session: int, last: int) -> int:
    """How many of a session's own prompts stand no later than this message number."""
    sql = f"{IN_ORDER} SELECT count(*) FROM ordered o JOIN records r ON r.id = o.record WHERE r.prompt AND o.position <= :last"
    values = {"session": session, "last": last - count_inherited(connection, session)}
    return int(sqlite.one(connection, sql, values)[0])


def list_tools(connection: apsw.Connection) -> list[str]:
    """The names of all tools that were called. 100,000 records take 5 ms."""
    return [tool for (tool,) in connection.execute("SELECT DISTINCT tool FROM records WHERE tool IS NOT NULL")]


def list_files(connection: apsw.Connection, session: int) -> list[int]:
    """A session's files, in the order in which they are read."""
    return [file for (file,) in connection.execute("SELECT id FROM files WHERE session = ? ORDER BY path", (session,))]


def _make_item(row: Iterable[Any]) -> Item:
    item = Item(*row)
    return item._replace(is_error=None if item.is_error is None else bool(item.is_error), undone=bool(item.undone))


# -- what is inherited


class Segment(NamedTuple):
    """The first records of a session, or all of them."""

    session: int
    length: int | None


def find_segments(connection: apsw.Connection, session: int) -> list[Segment]:
    """What a session consists of: mostly of itself. Ancestors that are not indexed are left out."""
    found, seen, end = [Segment(session, None)], {session}, None
    while len(found) <= MAX_DEPTH and (base := _find_fork_point(connection, found[0].session)) is not None:
        above, ordinal = base
        if above in seen:
            break
        seen.add(above)
        end = ordinal if end is None else min(end, ordinal)
        found.insert(0, Segment(above, int(sqlite.one(connection, COUNT_BEFORE, (above, end))[0])))
    return found


def count_inherited(connection: apsw.Connection, session: int) -> int:
    """How many records a session inherits."""
    return sum(segment.length or 0 for segment in find_segments(connection, session))


def _find_fork_point(connection: apsw.Connection, session: int) -> tuple[int, int] | None:
    """The session that this one continues, and up to where."""
    row = connection.execute(BASE, (session,)).fetchone()
    if row is None:
        return None
    native_id, _, ordinal = row[1].rpartition(":")
    above = connection.execute(FORKED_FROM, (row[0], native_id)).fetchone()
    return (above[0], int(ordinal)) if above is not None and ordinal.isdecimal() else None


def find_writable(connection: apsw.Connection, reference: str) -> str:
    """The file of a session that can be appended to. A row number would not do, because the index may be swapped in between."""
    session = find(connection, reference)
    source, public, gone, workstation = sqlite.one(
        connection, "SELECT source, public_id, gone, workstation FROM sessions WHERE id = ?", (session,)
    )
    if workstation is not None:
        raise RefusedError(f"{quote(public)} is a session of workstation {workstation}; only that one can append to it")
    if source != "sesame":
        raise RefusedError(
            f"{quote(public)} is written by {source}; append_message only works for sessions from new_session"
        )
    if gone:
        raise RefusedError(f"the file of {quote(public)} no longer exists; use new_session for another one")
    (path,) = sqlite.one(
        connection, "SELECT path FROM files WHERE session = ? ORDER BY gone_ms IS NOT NULL, path LIMIT 1", (session,)
    )
    return os.fsdecode(path)


def check_call(connection: apsw.Connection, key: int, utterance: Utterance) -> None:
    """Check that a call's id is new in the session, or that its call has no result yet."""
    row = connection.execute("SELECT is_error FROM records WHERE key = ?", (key,)).fetchone()
    if row is None:
        return
    if utterance.role != "tool":
        raise RefusedError("toolCallId: the session already has a call with this id; use another one")
    if row[0] is not None:
        raise RefusedError("toolCallId: this call already has a result")


def find_written(connection: apsw.Connection, key: int, path: str) -> int:
    """The number of the record with this key in the session that it was written to."""
    sql = "SELECT f.session, r.id FROM files f JOIN records r ON r.key = ?2 WHERE f.path = ?1 AND f.session IS NOT NULL"
    row = connection.execute(sql, (os.fsencode(path), key)).fetchone()
    if row is None:
        raise StoreError(f"{path} was written, but the line could not be indexed; limits.maxLineBytes may be too small")
    return find_position(connection, *row)


def identify(connection: apsw.Connection, reference: str) -> tuple[SessionKey, str]:
    """A session's key, and its id: with the source that is this session only."""
    session = find(connection, reference)
    source, native_id, public = sqlite.one(
        connection, "SELECT source, native_id, public_id FROM sessions WHERE id = ?", (session,)
    )
    return SessionKey(source, native_id), public
