"""Sessions as lists show them, and how a session is named by those who ask for it."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from sesamed.errors import AmbiguousError, NotFoundError
from sesamed.model import SessionSummary
from sesamed.sanitize import clean_line
from sesamed.store import ids, sqlite
from sesamed.store.search.filters import Compiled
from sesamed.times import iso

COLUMNS = """s.id, s.public_id, s.source, s.cwd, s.project_path, s.project, s.git_branch, s.name, s.created_ms, s.modified_ms, s.messages,
  s.subagent, s.gone, s.parent_id,
  (SELECT path FROM files WHERE session = s.id ORDER BY gone_ms IS NOT NULL, path LIMIT 1),
  (SELECT o.public_id FROM files f JOIN sessions o ON o.id = f.session WHERE f.path = CAST(s.parent_path AS BLOB))"""

MAX_CANDIDATES = 10
SHOWN_CHARACTERS = 200

# A subagent is listed by itself only when its parent is not.
NOT_FOLDED = """NOT (s.subagent AND EXISTS(
    SELECT 1 FROM sessions o WHERE o.source = s.source AND o.native_id = s.parent_id AND o.id <> s.id
    AND o.id IN (SELECT s.id FROM sessions s WHERE {passing})))"""


def shown_path(path: bytes) -> str:
    """A path as text; bytes that are none are shown as U+FFFD."""
    return os.fsdecode(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def summary(row: tuple[Any, ...], workstation: str) -> SessionSummary:
    """A session from a row of COLUMNS."""
    (
        _,
        public,
        source,
        cwd,
        project_path,
        project,
        branch,
        name,
        created,
        modified,
        messages,
        subagent,
        gone,
        parent,
        path,
        found,
    ) = row
    return SessionSummary(
        session_id=public, key=f"{workstation}:{project}:{public}", source=source, path=shown_path(path or b""), cwd=cwd,
        project_path=project_path, git_branch=_line(branch), name=_line(name), created=iso(created), modified=iso(modified),
        message_count=messages, parent_session_id=found or parent, subagent=bool(subagent), gone=bool(gone),
    )  # fmt: skip


def _line(text: str | None) -> str | None:
    return None if text is None else clean_line(text) or None


def by_number(connection: apsw.Connection, sessions: Iterable[int], workstation: str) -> dict[int, SessionSummary]:
    """Some sessions."""
    sql = f"SELECT {COLUMNS} FROM sessions s WHERE s.id = ?"
    rows = (connection.execute(sql, (session,)).fetchone() for session in sessions)
    return {row[0]: summary(row, workstation) for row in rows if row is not None}


def listed(
    connection: apsw.Connection, where: Compiled, limit: int, offset: int, workstation: str
) -> tuple[int, list[tuple[int, SessionSummary]]]:
    """Sessions that pass, newest activity first, and how many there are."""
    conditions = [where.session] if where.session else []
    if where.record:
        conditions.append(f"s.id IN ({_sessions_with_record(where.record)})")
    passing = " AND ".join(conditions) or "1"
    if where.folds:
        passing += f" AND {NOT_FOLDED.format(passing=passing)}"
    total = sqlite.one(connection, f"SELECT count(*) FROM sessions s WHERE {passing}", where.values)[0]
    sql = f"SELECT {COLUMNS} FROM sessions s WHERE {passing} ORDER BY s.modified_ms DESC, s.source, s.public_id LIMIT :limit OFFSET :offset"
    rows = connection.execute(sql, {**where.values, "limit": limit, "offset": offset})
    return int(total), [(row[0], summary(row, workstation)) for row in rows]


def find(connection: apsw.Connection, reference: str) -> int:
    """The session with this id (with or without `source:`), or with an id that begins so and no other does."""
    found = exact(connection, reference) or beginning(connection, reference)
    if not found:
        raise NotFoundError(
            f"no session {reference[:SHOWN_CHARACTERS]!r} in the index; `sesamectl search` and list_sessions show the ids",
            sessionId=reference[:SHOWN_CHARACTERS],
        )
    if len(found) > 1:
        raise AmbiguousError(
            f"{reference[:SHOWN_CHARACTERS]!r} fits {len(found)} sessions; give more of the id, or source:id",
            candidates=candidates(connection, found),
        )
    return found[0]


def exact(connection: apsw.Connection, reference: str) -> list[int]:
    """The sessions with this id; several where sources share one."""
    sql = "SELECT id FROM sessions WHERE public_id = ?"
    found = sqlite.rows(connection, sql, (reference,))
    if not found and ":" in reference:
        sql += " AND source = ?"
        source, _, public_id = reference.partition(":")
        found = sqlite.rows(connection, sql, (public_id, source))
    return [session for (session,) in found]


def beginning(connection: apsw.Connection, prefix: str) -> list[int]:
    """The sessions whose id begins so."""
    if not prefix:
        return []
    sql = "SELECT id FROM sessions WHERE public_id >= ? AND public_id < ? ORDER BY public_id LIMIT 1000"
    return [session for (session,) in sqlite.rows(connection, sql, (prefix, prefix + "\U0010ffff"))]


def candidates(connection: apsw.Connection, sessions: Sequence[int]) -> list[str]:
    """Some ids to choose from, each so that it names one session only."""
    sql = """
        SELECT iif((SELECT count(*) FROM sessions o WHERE o.public_id = s.public_id) > 1, source || ':', '') || public_id
        FROM sessions s WHERE id = ?
    """
    return [str(sqlite.one(connection, sql, (session,))[0]) for session in sessions[:MAX_CANDIDATES]]


def described(connection: apsw.Connection, sessions: Sequence[int]) -> list[dict[str, str | None]]:
    """The same ones as a person tells them apart."""
    sql = "SELECT public_id, source, name, cwd, modified_ms FROM sessions WHERE id = ?"
    rows = (sqlite.one(connection, sql, (session,)) for session in sessions[:MAX_CANDIDATES])
    return [
        {"sessionId": public, "source": source, "name": _line(name), "cwd": cwd, "modified": iso(modified)}
        for public, source, name, cwd, modified in rows
    ]


def parent(connection: apsw.Connection, session: int) -> int | None:
    """The session that this one was begun from, when it is indexed."""
    sql = """
        SELECT coalesce(
          (SELECT f.session FROM files f WHERE f.path = CAST(s.parent_path AS BLOB) AND f.session <> s.id),
          (SELECT o.id FROM sessions o WHERE o.source = s.source AND o.native_id = s.parent_id AND o.id <> s.id ORDER BY ordinal LIMIT 1))
        FROM sessions s WHERE s.id = ?
    """
    found = sqlite.one(connection, sql, (session,))[0]
    return None if found is None else int(found)


def children(connection: apsw.Connection, session: int) -> list[str]:
    """The sessions that were begun from this one, oldest first."""
    sql = """
        SELECT c.public_id FROM sessions s JOIN sessions c ON c.source = s.source AND c.id <> s.id
        WHERE s.id = ?1 AND (c.parent_id = s.native_id OR c.parent_path IN (SELECT CAST(path AS TEXT) FROM files WHERE session = ?1))
        ORDER BY c.created_ms, c.public_id LIMIT 500
    """
    return [child for (child,) in sqlite.rows(connection, sql, (session,))]


def _sessions_with_record(condition: str) -> str:
    return f"""
        SELECT f.session FROM records r JOIN files f ON f.id = {ids.sql_file("r.id")} WHERE {condition}
        UNION SELECT f.session FROM records r JOIN copies c ON c.record = r.id JOIN files f ON f.id = c.file WHERE {condition}
    """
