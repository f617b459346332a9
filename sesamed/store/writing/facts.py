"""What files say about sessions: stored per file, and chosen from. A file's facts are about its own session, another one by its id, or
whichever contains a certain entry, which may come later. They go with the file.
"""

import hashlib
from array import array
from collections.abc import Sequence
from typing import Any, get_args

import apsw

from sesamed.model import Fact, Field, Identity, NameRank
from sesamed.store import sqlite
from sesamed.store.rows import Remark
from sesamed.store.writing import forgetting

ACTIVE: Field = "active"  # of all that files say about this the latest counts, which `Sessions.set_times` chooses
FIELDS: tuple[str, ...] = tuple(field for field in get_args(Field) if field != ACTIVE)


# All that is stated of a session; of several of one rank the last row counts.
STATED = """
    WITH stated(field, value, rank, gone, path, entry) AS (
      SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, f.path, 0
      FROM files f CROSS JOIN facts a ON a.file = f.id AND a.native_id = '' WHERE f.session = ?1
      UNION ALL
      SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, f.path, 0
      FROM sessions s CROSS JOIN facts a ON a.native_id = s.native_id AND a.native_id <> ''
      CROSS JOIN files f ON f.id = a.file AND iif(a.source = '', f.source, a.source) = s.source WHERE s.id = ?1
      UNION ALL
      SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, f.path, a.entry
      FROM files h CROSS JOIN line_ids e ON e.file = h.id AND e.wanted CROSS JOIN remarks a ON a.entry = e.digest
      CROSS JOIN files f ON f.id = a.file WHERE h.session = ?1)
    SELECT field, value, rank FROM stated ORDER BY rank, gone DESC, path DESC, entry, value
"""
# How a field becomes its column; most are the column of that name.
COLUMN = {
    "project_path": "project_path = coalesce(:project_path, :cwd)",
    "subagent": "subagent = :subagent IS NOT NULL",
    "began": "began_ms = CAST(:began AS INTEGER)",
}
CHOSEN = f"""
    UPDATE sessions SET title = :title, project = :project, {", ".join(COLUMN.get(field, f"{field} = :{field}") for field in FIELDS)}
    WHERE id = :session RETURNING began_ms, parent_id IS NOT NULL
"""
OTHERS = """
    SELECT s.id FROM facts a JOIN files f ON f.id = a.file
    JOIN sessions s ON s.source = iif(a.source = '', f.source, a.source) AND s.native_id = a.native_id
    WHERE a.file = ?1 AND a.native_id <> ''
    UNION
    SELECT h.session FROM remarks a JOIN line_ids e ON e.digest = a.entry JOIN files h ON h.id = e.file
    WHERE a.file = ?1 AND h.session IS NOT NULL
"""


def project_id(cwd: str | None) -> str:
    """The project's part of a key; without a directory, that of the empty string."""
    return hashlib.sha256((cwd or "").encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Facts:
    """The facts of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def record(self, file: int, source: str, facts: Sequence[Fact], remarks: Sequence[Remark]) -> set[int]:
        """Keep what a file says. Gives the other sessions that it is about."""
        meant: set[int] = set()
        for fact in facts:
            about = fact.source or source
            if fact.native_id and forgetting.is_forgotten(
                self._connection, about, Identity(native_id=fact.native_id, origin="")
            ):
                continue
            sql = f"INSERT OR {_verb(fact.keep)} INTO facts(file, native_id, source, field, rank, value) VALUES(?, ?, ?, ?, ?, ?)"
            other = "" if about == source else about
            self._connection.execute(sql, (file, fact.native_id or "", other, fact.field, fact.rank, fact.value))
            if fact.native_id:
                sql = "SELECT id FROM sessions WHERE (source, native_id) = (?, ?)"
                meant |= self._numbers(sql, (about, fact.native_id))
        for remark in remarks:
            sql = f"INSERT OR {_verb(remark.keep)} INTO remarks(file, entry, field, rank, value) VALUES(?, ?, ?, ?, ?)"
            self._connection.execute(sql, (file, remark.entry, remark.field, remark.rank, remark.value))
            self._connection.execute("UPDATE line_ids SET wanted = 1 WHERE digest = ? AND NOT wanted", (remark.entry,))
            sql = "SELECT session FROM files WHERE session IS NOT NULL AND id IN (SELECT file FROM line_ids WHERE digest = ?)"
            meant |= self._numbers(sql, (remark.entry,))
        return meant

    def record_activity(self, file: int, time_ms: int) -> None:
        """The last thing that the file tells of happened then."""
        sql = "REPLACE INTO facts(file, native_id, source, field, rank, value) VALUES(?, '', '', ?, 0, ?)"
        self._connection.execute(sql, (file, ACTIVE, str(time_ms)))

    def record_lines(self, file: int, entries: Sequence[int]) -> bool:
        """The file has these entries; says whether somebody has spoken of one of them."""
        sql = "INSERT OR IGNORE INTO line_ids(file, digest, wanted) SELECT ?1, ?2, EXISTS(SELECT 1 FROM remarks WHERE entry = ?2)"
        self._connection.executemany(sql, [(file, digest) for digest in entries])
        numbers = apsw.carray(array("q", entries))
        sql = "SELECT EXISTS(SELECT 1 FROM remarks WHERE entry IN carray(?))"
        return bool(sqlite.one(self._connection, sql, (numbers,))[0])

    def find_others(self, file: int) -> set[int]:
        """The other sessions that a file has facts about."""
        return self._numbers(OTHERS, (file,))

    def forget(self, file: int) -> None:
        """Remove a file's facts."""
        others = self.find_others(file)
        for table in ("facts", "remarks", "line_ids"):
            self._connection.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        for session in others:
            self.resolve(session)

    def resolve(self, session: int) -> bool:
        """Choose the fields from the facts: the highest rank that is not empty, present files before gone ones, in order of path.

        Says whether the session's beginning moved, and with it the order of sessions.
        """
        chosen: dict[str, Any] = dict.fromkeys(FIELDS)
        stated = {field: (value, rank) for field, value, rank in self._connection.execute(STATED, (session,)) if value}
        chosen.update((field, value) for field, (value, _) in stated.items())
        chosen["title"] = stated["name"][0] if "name" in stated and stated["name"][1] > NameRank.PROMPT else None
        chosen["project"] = project_id(chosen["cwd"])
        before = self._connection.execute(
            "SELECT began_ms, parent_id IS NOT NULL FROM sessions WHERE id = ?", (session,)
        ).fetchone()
        return bool(self._connection.execute(CHOSEN, {**chosen, "session": session}).fetchone() != before)

    def _numbers(self, sql: str, values: tuple[Any, ...]) -> set[int]:
        return {number for (number,) in sqlite.rows(self._connection, sql, values)}


def _verb(keep: str) -> str:
    return "REPLACE" if keep == "last" else "IGNORE"
