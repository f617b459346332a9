"""What the index holds, in numbers."""

from typing import NamedTuple

import apsw

from sesamed.model import Counts
from sesamed.source import Unit
from sesamed.store import sqlite
from sesamed.store.rows import BadLine
from sesamed.store.search.filters import IS_EMPTY

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
