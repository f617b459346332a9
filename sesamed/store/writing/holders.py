"""Which files hold a record: its home, and the files with copies. Keeps each record in the earliest created session that holds it.

A record's number contains its home. When an earlier holder turns up, or the home drops the record, it moves; so the order in
which files are read makes no difference.
"""

from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.ids import home_of, record_at, records_of
from sesamed.store.writing.chunks import Chunks
from sesamed.store.writing.results import Results

IS_CALL = ids.sql_is_call("r")

PLACES = f"""
    WITH place(file, position) AS (
      SELECT {ids.sql_file(":record")}, {ids.sql_position(":record")} WHERE :home
      UNION ALL SELECT file, position FROM copies WHERE record = :record
    )
    SELECT p.file, p.position FROM place p JOIN files f ON f.id = p.file JOIN sessions s ON s.id = f.session
    ORDER BY {ids.OWNER_FIRST}
"""


class Wording(NamedTuple):
    """What one place says about its record; other places may differ."""

    entry: str | None
    parent: str | None
    time_ms: int | None


class Holders:
    """The holders of records, within one transaction."""

    def __init__(self, connection: apsw.Connection, chunks: Chunks, results: Results) -> None:
        self._connection = connection
        self._chunks = chunks
        self._results = results

    def position_in(self, file: int, record: int) -> int | None:
        """Where this file holds the record, if it does."""
        home, position = home_of(record)
        if home == file:
            return position
        row = self._connection.execute(
            "SELECT position FROM copies WHERE record = ? AND file = ?", (record, file)
        ).fetchone()
        return None if row is None else int(row[0])

    def copy(self, place: int, record: int, wording: Wording) -> None:
        """This place holds the record, too."""
        sql = "INSERT INTO copies(file, position, record, entry, parent, time_ms) VALUES(?, ?, ?, ?, ?, ?)"
        self._connection.execute(sql, (*home_of(place), record, *wording))

    def sessions_with(self, record: int) -> set[int]:
        """The sessions that hold a record."""
        sql = "SELECT session FROM files WHERE id = ? UNION SELECT f.session FROM copies c JOIN files f ON f.id = c.file WHERE c.record = ?"
        return {session for (session,) in self._connection.execute(sql, (home_of(record)[0], record))}

    def find_shared(self, session: int) -> set[int]:
        """The records of a session that other files hold as well."""
        found: set[int] = set()
        for (file,) in sqlite.rows(self._connection, "SELECT id FROM files WHERE session = ?", (session,)):
            found.update(r for (r,) in self._connection.execute("SELECT record FROM copies WHERE file = ?", (file,)))
            at_home = self._connection.execute(
                "SELECT record FROM copies WHERE record BETWEEN ? AND ?", records_of(file)
            )
            found.update(r for (r,) in at_home)
        return found

    def rehome(self, record: int) -> None:
        """Move a shared record to the earliest created session that holds it."""
        file, position = sqlite.one(self._connection, PLACES, {"record": record, "home": 1})
        if (file, position) != home_of(record):
            wording = Wording(
                *sqlite.one(self._connection, "SELECT entry, parent, time_ms FROM records WHERE id = ?", (record,))
            )
            moved = self._move(record, file, position)
            self.copy(record, moved, wording)

    def drop(self, file: int, first: int = 0, last: int = ids.LAST_POSITION) -> None:
        """Let go of what a file holds from one position to another; what others hold as well stays with them, as they have it."""
        positions, records = (file, first, last), (record_at(file, first), record_at(file, last))
        sql = "DELETE FROM copies WHERE file = ? AND position BETWEEN ? AND ? RETURNING record"
        held = sqlite.rows(self._connection, sql, positions)
        for table in ("results_by_holder", "touched"):
            self._connection.execute(f"DELETE FROM {table} WHERE place BETWEEN ? AND ?", records)
        self._connection.execute("DELETE FROM ordinals WHERE file = ? AND position BETWEEN ? AND ?", positions)
        for (record,) in held:
            self._results.choose_again(record)
        homes = "SELECT DISTINCT record FROM copies WHERE record BETWEEN ? AND ?"
        for (record,) in sqlite.rows(self._connection, homes, records):
            target, position = sqlite.one(self._connection, PLACES, {"record": record, "home": 0})
            self._results.choose_again(self._move(record, target, position))
        self._results.remove_records(*records)
        self._chunks.remove_records(*records)
        self._remove_records(*records)

    def _remove_records(self, first: int, last: int) -> None:
        sql = f"""
            UPDATE totals SET (messages, tool_calls) = (
              SELECT messages - count(*) FILTER (WHERE NOT {IS_CALL}), tool_calls - count(*) FILTER (WHERE {IS_CALL})
              FROM records r WHERE id BETWEEN ? AND ?)
        """
        self._connection.execute(sql, (first, last))
        self._connection.execute("DELETE FROM records WHERE id BETWEEN ? AND ?", (first, last))

    def _move(self, record: int, file: int, position: int) -> int:
        target = record_at(file, position)
        self._chunks.flush()
        sql = "DELETE FROM copies WHERE file = ? AND position = ? RETURNING entry, parent, time_ms"
        wording = sqlite.one(self._connection, sql, (file, position))
        self._connection.execute("UPDATE copies SET record = ? WHERE record = ?", (target, record))
        sql = "UPDATE records SET id = ?, entry = ?, parent = ?, time_ms = ? WHERE id = ?"
        self._connection.execute(sql, (target, *wording, record))
        self._results.move(record, target)
        self._chunks.move(record, target)
        return target
