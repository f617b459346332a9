"""What the index holds, in numbers."""

from typing import NamedTuple

import apsw

from sesamed.model import Counts
from sesamed.store import sqlite
from sesamed.store.search.filters import IS_EMPTY

BY_ROOT = "SELECT root, count(DISTINCT session) FROM files WHERE session IS NOT NULL GROUP BY root"
SESSIONS = f"SELECT count(*), coalesce(sum(s.gone), 0), count(*) FILTER (WHERE {IS_EMPTY}) FROM sessions s"
LAST_SYNC = "SELECT CAST(value AS INTEGER) FROM metadata WHERE name = 'last_sync_at'"


class Holdings(NamedTuple):
    """Counts, sessions by root, and when somebody last waited for everything."""

    counts: Counts
    sessions_by_root: dict[str, int]
    last_sync_ms: int | None


def read_holdings(connection: apsw.Connection) -> Holdings:
    """Count the small tables; the writer keeps totals of the large ones."""
    chunks, messages, tool_calls = sqlite.one(connection, "SELECT chunks, messages, tool_calls FROM totals")
    sql = "SELECT count(*) FILTER (WHERE session IS NOT NULL), coalesce(sum(bad_lines), 0) FROM files"
    files, bad_lines = sqlite.one(connection, sql)
    sessions, gone, empty = sqlite.one(connection, SESSIONS)
    last_sync = connection.execute(LAST_SYNC).fetchone()
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
    return Holdings(counts, dict(sqlite.rows(connection, BY_ROOT)), None if last_sync is None else last_sync[0])
