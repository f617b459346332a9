"""What must never be indexed again. It is also in a file beside the index, so that an index that is created again knows it, too.

One line per session: source, id and origin, nothing else. The file is written and on disk before anything is removed.
"""

import json

import apsw

from sesamed.model import Identity, SessionKey
from sesamed.store import beside, ids, sqlite
from sesamed.store.reading.resolve import find
from sesamed.store.search import filters
from sesamed.store.search.filters import Where

UNFINISHED = "forgetting"  # metadata: rows are gone, free pages may hold them still

# Everything that these sessions hold, and what of it nobody else holds.
CHUNKS = f"""
    WITH mine(file) AS (SELECT id FROM files WHERE session IN (SELECT value FROM json_each(:sessions))),
    held(record) AS (
      SELECT r.id FROM mine JOIN records r ON {ids.sql_in_file("r.id", "file")}
      UNION SELECT c.record FROM mine JOIN copies c USING (file)
    ), lost(record) AS (
      SELECT record FROM held WHERE {ids.sql_file("record")} IN (SELECT file FROM mine)
      AND NOT EXISTS(SELECT 1 FROM copies c WHERE c.record = held.record AND c.file NOT IN (SELECT file FROM mine))
    )
    SELECT count(*) FROM lost JOIN chunks c ON {ids.sql_in_record("c.id", "record")} WHERE {ids.sql_is_indexed("c.id")}
"""


def choose(connection: apsw.Connection, reference: str | None, where: Where) -> tuple[list[SessionKey], int]:
    """The sessions to forget, including their subagents, and how many chunks only they hold."""
    if reference is not None:
        condition, values = "s.id = :session", {"session": find(connection, reference)}
    else:
        compiled = filters.to_sql(where)
        condition, values = compiled.session, compiled.values
    sql = f"""
        WITH RECURSIVE doomed(id) AS (
          SELECT s.id FROM sessions s WHERE {condition}
          UNION SELECT c.id FROM doomed JOIN sessions s ON s.id = doomed.id
          JOIN sessions c ON c.source = s.source AND c.parent_id = s.native_id AND c.subagent
        )
        SELECT s.id, s.source, s.native_id,
          iif((SELECT count(*) FROM sessions o WHERE (o.source, o.native_id) = (s.source, s.native_id)) > 1, s.origin, '')
        FROM doomed JOIN sessions s USING (id)
    """
    found = sqlite.rows(connection, sql, values)
    numbers = json.dumps([number for number, *_ in found])
    (chunks,) = sqlite.one(connection, CHUNKS, {"sessions": numbers})
    return [SessionKey(*key) for _, *key in found], chunks


def is_forgotten(connection: apsw.Connection, source: str, identity: Identity) -> bool:
    """Whether this must not be indexed."""
    sql = "SELECT EXISTS(SELECT 1 FROM forgotten WHERE (source, native_id) = (?, ?) AND origin IN ('', ?))"
    return bool(sqlite.one(connection, sql, (source, identity.native_id, identity.origin))[0])


def forget_session(connection: apsw.Connection, session: SessionKey) -> list[bytes]:
    """Never index a session again, and remove what other files say about it; gives the files that hold it."""
    key = (session.source, session.native_id, session.origin)
    connection.execute("INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)", key)
    if not session.origin:
        sql = """
            DELETE FROM facts WHERE native_id = ?2
            AND iif(source = '', (SELECT source FROM files WHERE id = facts.file), source) = ?1
        """
        connection.execute(sql, key[:2])
    sql = """
        SELECT f.path FROM sessions s JOIN files f ON f.session = s.id
        WHERE (s.source, s.native_id) = (?1, ?2) AND ?3 IN ('', s.origin)
    """
    return [bytes(path) for (path,) in sqlite.rows(connection, sql, key)]


def load(connection: apsw.Connection, index: str) -> list[SessionKey]:
    """Tell an index what the file says is forgotten; gives what the file does not say, as when somebody removed or spoilt it."""
    told = {(key.source, key.native_id, key.origin) for key in beside.read(index, beside.FORGOTTEN, SessionKey)}
    if told:
        with connection:
            connection.executemany("INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)", told)
    rows = sqlite.rows(connection, "SELECT source, native_id, origin FROM forgotten")
    return [SessionKey(*key) for key in rows if key not in told]
