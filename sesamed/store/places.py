"""Where records are: at home in one file, copied in others. Keeps each record in the earliest created session that holds it.

A record's number names its home. When an earlier holder turns up, or the home lets go of it, the record moves; so the order in
which files are read makes no difference.
"""

import apsw

from sesamed.model import Kind
from sesamed.store import sqlite
from sesamed.store.schema import FILE_BITS, KIND_BITS
from sesamed.store.texts import Texts

POSITION_BITS = FILE_BITS - KIND_BITS
POSITION_MASK = (1 << POSITION_BITS) - 1

PLACES = """
    WITH place(file, position) AS (
      SELECT :record >> 21, :record & 0x1fffff WHERE :home
      UNION ALL SELECT file, position FROM copies WHERE record = :record
    )
    SELECT p.file, p.position FROM place p JOIN files f ON f.id = p.file JOIN sessions s ON s.id = f.session
    ORDER BY s.created_ms, coalesce(s.began_ms, s.created_ms), s.source, s.native_id, s.origin, f.path
"""


def record_at(file: int, position: int) -> int:
    """The number of a record with this home."""
    return file << POSITION_BITS | position


def home_of(record: int) -> tuple[int, int]:
    """File and position."""
    return record >> POSITION_BITS, record & POSITION_MASK


def records_of(file: int) -> tuple[int, int]:
    """The first and the last number that records at home in this file can have."""
    return file << POSITION_BITS, (file + 1 << POSITION_BITS) - 1


class Places:
    """Holdings within one transaction."""

    def __init__(self, connection: apsw.Connection, texts: Texts) -> None:
        self._connection = connection
        self._texts = texts

    def position_in(self, file: int, record: int) -> int | None:
        """Where this file holds the record, if it does."""
        home, position = home_of(record)
        if home == file:
            return position
        row = self._connection.execute(
            "SELECT position FROM copies WHERE record = ? AND file = ?", (record, file)
        ).fetchone()
        return None if row is None else int(row[0])

    def copy(self, file: int, position: int, record: int) -> None:
        """This file holds the record, too."""
        self._connection.execute("INSERT INTO copies(file, position, record) VALUES(?, ?, ?)", (file, position, record))

    def sessions_with(self, record: int) -> set[int]:
        """The sessions that hold a record."""
        sql = "SELECT session FROM files WHERE id = ? UNION SELECT f.session FROM copies c JOIN files f ON f.id = c.file WHERE c.record = ?"
        return {session for (session,) in self._connection.execute(sql, (home_of(record)[0], record))}

    def shared_by(self, session: int) -> set[int]:
        """The records of a session that other files hold as well."""
        found: set[int] = set()
        for (file,) in sqlite.rows(self._connection, "SELECT id FROM files WHERE session = ?", (session,)):
            found.update(r for (r,) in self._connection.execute("SELECT record FROM copies WHERE file = ?", (file,)))
            at_home = self._connection.execute(
                "SELECT record FROM copies WHERE record BETWEEN ? AND ?", records_of(file)
            )
            found.update(r for (r,) in at_home)
        return found

    def settle(self, record: int) -> None:
        """Move a shared record to the earliest created session that holds it."""
        file, position = sqlite.one(self._connection, PLACES, {"record": record, "home": 1})
        if (file, position) != home_of(record):
            left = home_of(record)
            moved = self._move(record, file, position)
            self.copy(*left, moved)

    def release(self, file: int) -> set[int]:
        """Let go of all that a file holds. Returns the other files that hold tool calls of it: they have to say their results again."""
        again = self._release_copies(file)
        homes = "SELECT DISTINCT record FROM copies WHERE record BETWEEN ? AND ?"
        for (record,) in sqlite.rows(self._connection, homes, records_of(file)):
            target, position = sqlite.one(self._connection, PLACES, {"record": record, "home": 0})
            again |= self._doubt(self._move(record, target, position))
        self._texts.remove_file(file)
        self._connection.execute("DELETE FROM touched WHERE record BETWEEN ? AND ?", records_of(file))
        self._remove_records(file)
        return again

    def _remove_records(self, file: int) -> None:
        sql = """
            UPDATE totals SET (messages, tool_calls) = (
              SELECT messages - count(*) FILTER (WHERE kind <> 4), tool_calls - count(*) FILTER (WHERE kind = 4)
              FROM records WHERE id BETWEEN ? AND ?)
        """
        self._connection.execute(sql, records_of(file))
        self._connection.execute("DELETE FROM records WHERE id BETWEEN ? AND ?", records_of(file))

    def _release_copies(self, file: int) -> set[int]:
        held = sqlite.rows(self._connection, "SELECT record FROM copies WHERE file = ?", (file,))
        self._connection.execute("DELETE FROM copies WHERE file = ?", (file,))
        again: set[int] = set()
        for (record,) in held:
            again |= self._doubt(record)
        return again

    def _doubt(self, record: int) -> set[int]:
        """Forget what a released holder may have said of a call; the files that still hold it will say it again."""
        holders = "SELECT id, gone_ms FROM files WHERE id = ? OR id IN (SELECT file FROM copies WHERE record = ?)"
        files = sqlite.rows(self._connection, holders, (home_of(record)[0], record))
        kind = sqlite.one(self._connection, "SELECT kind FROM records WHERE id = ?", (record,))[0]
        if kind != Kind.CALL or any(gone is not None for _, gone in files):
            return set()
        self._texts.remove(record, Kind.RESULT)
        self._connection.execute("UPDATE records SET is_error = NULL WHERE id = ?", (record,))
        self._connection.execute("DELETE FROM touched WHERE record = ?", (record,))
        return {file for file, _ in files}

    def _move(self, record: int, file: int, position: int) -> int:
        target = record_at(file, position)
        self._texts.flush()
        self._connection.execute("DELETE FROM copies WHERE file = ? AND position = ?", (file, position))
        self._connection.execute("UPDATE copies SET record = ? WHERE record = ?", (target, record))
        self._connection.execute("UPDATE records SET id = ? WHERE id = ?", (target, record))
        self._connection.execute("UPDATE touched SET record = ? WHERE record = ?", (target, record))
        self._texts.move(record, target)
        return target
