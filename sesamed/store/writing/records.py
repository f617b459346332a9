"""The records of one transaction: gathered as they come, and written together before anything reads them; and which files hold a record:
its home, and the files with copies. Each record is kept in the earliest created session that holds it.

A record's number contains its home. When an earlier holder turns up, or the home drops the record, it moves; so the order in
which files are read makes no difference.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.ids import NEXT_REVISION, Kind, home_of, line_digest, record_at, records_of
from sesamed.store.rows import (
    TOO_MANY,
    AnyRow,
    FileRows,
    OutcomeRow,
    PassedRow,
    RecordRow,
    ResultRow,
    TouchedRow,
    UndoneRow,
)
from sesamed.store.writing.jumps import ADD_PASSED, Jumps
from sesamed.store.writing.sessions import Tally
from sesamed.store.writing.texts import Chunks, Results
from sesamed.way import Way

IS_CALL = ids.sql_is_call("r")

PLACES = f"""
    WITH place(file, position) AS (
      SELECT {ids.sql_file(":record")}, {ids.sql_position(":record")} WHERE :home
      UNION ALL SELECT file, position FROM copies WHERE record = :record
    )
    SELECT p.file, p.position FROM place p JOIN files f ON f.id = p.file JOIN sessions s ON s.id = f.session
    ORDER BY {ids.OWNER_FIRST}
"""


# Where another file of the same session has the record, the session has it at another place than before.
MOVED_WITHIN = f"""
    UPDATE records SET revision = {NEXT_REVISION} WHERE id = ?
    AND (SELECT session FROM files WHERE id = ?) = (SELECT session FROM files WHERE id = ?)
"""


class Wording(NamedTuple):
    """What one place says about its record; other places may differ."""

    entry: str | None
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
        columns = "file, position, record, entry, time_ms, revision"
        sql = f"INSERT INTO copies({columns}) VALUES(?, ?, ?, ?, ?, {NEXT_REVISION})"
        self._connection.execute(sql, (*home_of(place), record, *wording))

    def sessions_with(self, record: int) -> set[int]:
        """The sessions that hold a record."""
        sql = "SELECT session FROM files WHERE id = ? UNION SELECT f.session FROM copies c JOIN files f ON f.id = c.file WHERE c.record = ?"
        return {session for (session,) in self._connection.execute(sql, (home_of(record)[0], record))}

    def are_elsewhere(self, record: int) -> bool:
        """Whether only sessions of other machines hold a record."""
        sessions = sqlite.numbers(self.sessions_with(record))
        sql = "SELECT NOT EXISTS(SELECT 1 FROM sessions WHERE id IN carray(?) AND workstation IS NULL)"
        return bool(sqlite.one(self._connection, sql, (sessions,))[0])

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
                *sqlite.one(self._connection, "SELECT entry, time_ms FROM records WHERE id = ?", (record,))
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
            moved = self._move(record, target, position)
            self._connection.execute(MOVED_WITHIN, (moved, target, file))
            self._results.choose_again(moved)
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
        sql = "DELETE FROM copies WHERE file = ? AND position = ? RETURNING entry, time_ms, revision"
        wording = sqlite.one(self._connection, sql, (file, position))
        self._connection.execute("UPDATE copies SET record = ? WHERE record = ?", (target, record))
        sql = "UPDATE records SET id = ?, entry = ?, time_ms = ?, revision = max(revision, ?) WHERE id = ?"
        self._connection.execute(sql, (target, *wording, record))
        self._results.move(record, target)
        self._chunks.move(record, target)
        return target


TOO_LONG = ids.LAST_POSITION  # a file holds at most this many records; what is more is counted as bad
UNDO = f"INSERT OR IGNORE INTO undone(file, first, last, revision) VALUES(?, ?, ?, {NEXT_REVISION})"


class Records:
    """Puts the rows of files in their place: new records, copies of known ones, and later additions to either."""

    def __init__(
        self, connection: apsw.Connection, chunks: Chunks, results: Results, holders: Holders, way: Way
    ) -> None:
        self._connection = connection
        self._chunks = chunks
        self._results = results
        self._holders = holders
        self._way = way
        self._records: dict[int, list[object]] = {}
        self._keys: dict[int, int] = {}
        self._touched: list[tuple[int, str]] = []
        self._ordinals: list[tuple[int, int, int]] = []
        self._jumps: Jumps | None = None  # of the change under way, once it is needed
        self._passed: list[tuple[int, int, int]] = []
        self._is_followed = False  # the change under way is of a session of another machine
        self._messages = self._tool_calls = 0

    def forget_keys(self) -> None:
        """Records may have moved, so ask the index again where they are."""
        self._keys.clear()

    def put_all(self, file: int, session: int | None, change: FileRows) -> tuple[int, Tally]:
        """Take a file's rows. Gives its next position, and what its session gains."""
        kept = position = change.cursor.position
        tally = Tally()
        if session is None:
            return position, tally
        self._is_followed = change.is_followed
        changed = () if change.difference is None else change.difference.changed
        self._find([*(row for _, row in changed), *change.rows])
        self._jumps, entry = None, None
        for place, revised in changed:
            self._put(file, session, place, revised, tally)
        for index, row in enumerate(change.rows):
            if index == change.loose_from:
                kept = position
            if isinstance(row, PassedRow):
                self._pass_over(file, change, position, row)
            elif not isinstance(row, RecordRow):
                self._later(file, position, row)
            elif position >= TOO_LONG and row.key not in self._keys:
                change.note_bad(TOO_MANY)
            else:
                if row.parent is not None and (row.entry is None or row.entry != entry):  # a line may become several
                    self._find_jumps(file, change).go_back(position, row.parent)
                position, entry = self._put_next(file, session, position, row, tally, change), row.entry
        at_end = change.loose_from in (None, len(change.rows))  # the loose line may have no records
        return (position if at_end else kept), tally

    def _put_next(self, file: int, session: int, position: int, row: RecordRow, tally: Tally, change: FileRows) -> int:
        """Put a record behind those of the file. If the file holds it already, its line is none of its own. Returns the next position."""
        after = self._put(file, session, position, row, tally)
        if after == position and row.entry is not None:
            self._pass_over(file, change, position, PassedRow(line_digest(change.source, row.entry), None))
        return after

    def _find_jumps(self, file: int, change: FileRows) -> Jumps:
        if self._jumps is None:
            self._jumps = Jumps(self._connection, file, change, self.flush)
        return self._jumps

    def _pass_over(self, file: int, change: FileRows, position: int, row: PassedRow) -> None:
        """Take a line that is no record, and stands before this position."""
        if self._jumps is None or row.parent is not None:
            jumps = self._find_jumps(file, change)
            if row.parent is not None:
                jumps.go_back(position, row.parent)
        assert self._jumps is not None
        self._passed.append(self._jumps.stand_behind(position, row.digest))

    def _put(self, file: int, session: int, position: int, row: RecordRow, tally: Tally) -> int:
        """Put a record at a position of a file. Returns the file's next position."""
        if row.key in self._keys:
            return self._again(file, session, position, row, tally)
        self._new(record_at(file, position), row)
        tally.add(row)
        return position + 1

    def _later(self, file: int, position: int, row: ResultRow | OutcomeRow | TouchedRow | UndoneRow) -> None:
        """Take an addition to an earlier record."""
        if (record := self._keys.get(row.key)) is None:
            return
        if isinstance(row, ResultRow):
            self._result(file, record, row)
        elif isinstance(row, OutcomeRow):
            self._correct(file, record, row)
        elif isinstance(row, TouchedRow):
            self._touch(file, record, row)
        else:
            self._undo(file, record, position, row)

    def _find(self, rows: Sequence[AnyRow]) -> None:
        """Ask for the numbers of the records that the index has already."""
        if keys := array("q", [row.key for row in rows if not isinstance(row, PassedRow)]):
            sql = "SELECT key, id FROM records WHERE key IN carray(?)"
            self._keys.update(self._connection.execute(sql, (apsw.carray(keys),)))

    def _new(self, record: int, row: RecordRow) -> None:
        self._keys[row.key] = record
        self._records[record] = [
            record,
            row.key,
            row.role,
            row.kind,
            row.prompt,
            row.time_ms,
            row.entry,
            row.tool,
            row.is_error,
        ]
        self._place(record, row)
        for text in row.texts:
            self._chunks.add(record, text)
        if row.kind == Kind.CALL:
            self._tool_calls += 1
        else:
            self._messages += 1

    def _again(self, file: int, session: int, position: int, row: RecordRow, tally: Tally) -> int:
        """Take a record that the index has: the file's own, read again, or a copy. Gives the file's next position."""
        self.flush()
        record = self._keys[row.key]
        held = self._holders.position_in(file, record)
        if held is None:
            (tally.note_time if session in self._holders.sessions_with(record) else tally.add)(row)
            if not self._is_followed and self._holders.are_elsewhere(record):
                self._reword(record, row)
            self._results.begin_sharing(record)
            self._holders.copy(record_at(file, position), record, Wording(row.entry, row.time_ms))
            tally.shared.add(record)
        place = record_at(file, position if held is None else held)
        self._place(place, row)
        if row.is_error is not None and not self._is_followed:
            results = [text for text in row.texts if text.kind == Kind.RESULT]
            self._results.record(record, place, ResultRow(row.key, results[0] if results else None, row.is_error))
        return position + (held is None or held == position)

    def _reword(self, record: int, row: RecordRow) -> None:
        """What stands here has all of a text; what came from elsewhere has masks in it, and may be cut."""
        sql = f"UPDATE records SET prompt = ?, tool = ?, is_error = NULL, revision = {NEXT_REVISION} WHERE id = ?"
        self._connection.execute(sql, (row.prompt, row.tool, record))
        for kind in Kind:
            self._chunks.remove(record, kind)
        for text in row.texts:
            if text.kind != Kind.RESULT:
                self._chunks.add(record, text)
        self._chunks.flush()

    def _place(self, place: int, row: RecordRow) -> None:
        """Take what belongs to the place, not to the record."""
        self._touched.extend((place, path) for path in row.touched)
        if row.ordinal is not None:
            self._ordinals.append((*home_of(place), row.ordinal))

    def _undo(self, file: int, record: int, position: int, undone: UndoneRow) -> None:
        """Mark what is taken back. It stays: the person saw it."""
        first = self._holders.position_in(file, record)
        if first is not None and first < position:
            last = first if undone.alone else position - 1
            self._connection.execute(UNDO, (file, first, last))

    def _result(self, file: int, record: int, result: ResultRow) -> None:
        """Add a call's result."""
        pending = self._records.get(record)
        if pending is not None and pending[-1] is None:
            pending[-1] = result.is_error
            if result.text is not None:
                self._chunks.add(record, result.text)
            return
        self.flush()
        if (position := self._holders.position_in(file, record)) is not None:
            self._results.record(record, record_at(file, position), result)

    def _touch(self, file: int, record: int, row: TouchedRow) -> None:
        """Add files to those that a call touched."""
        if (position := self._holders.position_in(file, record)) is not None:
            self._touched.extend((record_at(file, position), path) for path in row.touched)
            self._connection.execute(f"UPDATE records SET revision = {NEXT_REVISION} WHERE id = ?", (record,))

    def _correct(self, file: int, record: int, outcome: OutcomeRow) -> None:
        """Change whether a call failed."""
        self.flush()
        if (position := self._holders.position_in(file, record)) is not None:
            self._results.correct(record, record_at(file, position), is_error=outcome.is_error)

    def finish(self) -> None:
        """Write what was gathered, and keep nothing: there may be another writer before the next commit, and many keys."""
        self.flush()
        self._chunks.finish()
        self._keys.clear()

    def flush(self) -> None:
        """Write the records, texts and touched files that were gathered."""
        if self._records:
            columns = "id, key, role, kind, prompt, time_ms, entry, tool, is_error, revision"
            sql = f"INSERT INTO records({columns}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, {NEXT_REVISION})"
            rows = self._records.values()
            self._connection.executemany(sql, self._way.between(rows) if self._way.is_open else rows)
            sql = "UPDATE totals SET messages = messages + ?, tool_calls = tool_calls + ?"
            self._connection.execute(sql, (self._messages, self._tool_calls))
            self._records.clear()
            self._messages = self._tool_calls = 0
        if self._touched:
            self._connection.executemany(
                "INSERT OR IGNORE INTO paths(tail) VALUES(?)", [(tail,) for _, tail in self._touched]
            )
            sql = "INSERT OR IGNORE INTO touched(place, path) SELECT ?, id FROM paths WHERE tail = ?"
            self._connection.executemany(sql, self._touched)
            self._touched.clear()
        if self._ordinals:
            self._connection.executemany(
                "REPLACE INTO ordinals(file, position, ordinal) VALUES(?, ?, ?)", self._ordinals
            )
            self._ordinals.clear()
        if self._passed:
            self._connection.executemany(ADD_PASSED, self._passed)
            self._passed.clear()
        self._chunks.flush()
