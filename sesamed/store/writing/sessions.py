"""Sessions: created when a file names one, counted and dated by what they hold, and called what files say of them.

How a session begins is kept as a digest of its first prompts: agents on patrol, forks and copies begin alike, and such sessions are shown
as one hit. One prompt is enough unless it is short: many sessions begin with `hello`, and differ all the same.

A fact is what one file says: about its own session, another one by its id, or whichever contains a certain entry, which may come later.
Facts are stored per file, go with the file, and the highest rank is used.
"""

import hashlib
import json
from array import array
from collections.abc import Sequence
from typing import Any, get_args

import apsw
import msgspec

from sesamed.model import ACTIVE, ANNOTATED_FIELDS, DESCRIBED, Fact, Field, Identity, NameRank, digest
from sesamed.store import ids, schema, sqlite
from sesamed.store.ids import Kind
from sesamed.store.rows import MOST_DIRECTORIES, FileRows, RecordRow, Remark
from sesamed.store.writing.decisions import SessionNumber, is_forgotten

HELD = f"""
    WITH held AS (
      SELECT r.id, r.time_ms FROM files f JOIN records r ON {ids.sql_in_file("r.id", "f.id")} WHERE f.session = :session
      UNION ALL SELECT c.record, c.time_ms FROM files f JOIN copies c ON c.file = f.id WHERE f.session = :session
    ), once AS (SELECT id, min(time_ms) AS first_ms, max(time_ms) AS last_ms FROM held GROUP BY id)
    SELECT count(*) FILTER (WHERE NOT {ids.sql_is_call("r")}), count(*) FILTER (WHERE {ids.sql_is_call("r")}), coalesce(sum(prompt), 0),
      min(first_ms), max(last_ms)
    FROM once JOIN records r USING (id)
"""

OPENING_RECORDS = 64  # of a file: further on no prompt is looked for
ENOUGH_CHARACTERS = 40
LEAST_WORDS = 3  # who says less in all has not begun like anybody
MOST_PROMPTS = 3
MOST_CHARACTERS = 4096  # of a prompt

PROMPTS = f"""
    SELECT record FROM (
      SELECT id AS record, {ids.sql_position("id")} AS position FROM records WHERE prompt AND {ids.sql_in_file("id", "?1", last="?2 - 1")}
      UNION ALL
      SELECT c.record, c.position FROM copies c JOIN records r ON r.id = c.record WHERE c.file = ?1 AND c.position < ?2 AND r.prompt
    ) ORDER BY position LIMIT ?3
"""


class Tally(msgspec.Struct):
    """What a session gains by one change of a file, and which of it other files hold, too."""

    shared: set[int] = set()  # records
    messages: int = 0
    tool_calls: int = 0
    exchanges: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    def add(self, row: RecordRow) -> None:
        """Count a record that the session did not hold before."""
        if row.kind == Kind.CALL:
            self.tool_calls += 1
        else:
            self.messages += 1
        self.exchanges += row.prompt
        self.note_time(row)

    def note_time(self, row: RecordRow) -> None:
        """A record is held at one more place, which has its own time."""
        if row.time_ms is not None:
            self.first_ms = row.time_ms if self.first_ms is None else min(self.first_ms, row.time_ms)
            self.last_ms = row.time_ms if self.last_ms is None else max(self.last_ms, row.time_ms)


# Of several files: what comes after the place where something was removed has other message numbers now.
RENUMBER = f"""UPDATE sessions SET (revision, floor) = ({ids.NEXT_REVISION}, {ids.NEXT_REVISION})
    WHERE id = ?1 AND (SELECT count(*) FROM files WHERE session = ?1) > 1"""

MOST_REMOVED = 100_000  # sessions are remembered, 10 MB of them; then who follows has to begin anew
CHANGED = tuple(
    f"SELECT id FROM {table} WHERE revision = {ids.NEXT_REVISION} ORDER BY id" for table in ("removed", "sessions")
)
SPREAD = tuple(f"UPDATE {table} SET revision = revision + ? WHERE id = ?" for table in ("removed", "sessions"))
COUNT_CHANGES = (
    "UPDATE totals SET next_revision = next_revision + ?, changed_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER)"
)
BEGIN_EPOCH = f"UPDATE metadata SET value = {schema.NEW_EPOCH} WHERE name = '{schema.EPOCH}'"


class Sessions:
    """The sessions of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def find_or_add(self, source: str, identity: Identity) -> int:
        """The session with this identity; created, still without a number, if there is none."""
        key = (source, identity.native_id, identity.origin)
        sql = "SELECT id FROM sessions WHERE (source, native_id, origin) = (?, ?, ?)"
        if row := self._connection.execute(sql, key).fetchone():
            return int(row[0])
        sql = "INSERT INTO sessions(source, native_id, origin, public_id) VALUES(?1, ?2, ?3, ?2) RETURNING id"
        return int(sqlite.one(self._connection, sql, key)[0])

    def add_counts(self, session: int, tally: Tally) -> None:
        """Add what the session newly holds; the cost does not depend on what it held."""
        sql = """
            UPDATE sessions SET messages = messages + ?2, tool_calls = tool_calls + ?3, exchanges = exchanges + ?4,
              first_ms = min(coalesce(first_ms, ?5), coalesce(?5, first_ms)), last_ms = max(coalesce(last_ms, ?6), coalesce(?6, last_ms))
            WHERE id = ?1
        """
        values = (session, tally.messages, tally.tool_calls, tally.exchanges, tally.first_ms, tally.last_ms)
        self._connection.execute(sql, values)

    def recount(self, session: int) -> None:
        """Count what the session holds, after something was removed."""
        counted = sqlite.one(self._connection, HELD, {"session": session})
        sql = "UPDATE sessions SET messages = ?, tool_calls = ?, exchanges = ?, first_ms = ?, last_ms = ? WHERE id = ?"
        self._connection.execute(sql, (*counted, session))
        self._connection.execute(RENUMBER, (session,))

    def set_times(self, session: int) -> bool:
        """Settle created and modified; says whether created moved, and with it the order of sessions."""
        before = self._connection.execute("SELECT created_ms FROM sessions WHERE id = ?", (session,)).fetchone()
        sql = """
            WITH held AS (SELECT max(mtime_ns) / 1000000 AS ms, count(*) = count(gone_ms) AS gone FROM files WHERE session = ?1)
            , active AS (
              SELECT max(CAST(a.value AS INTEGER)) AS ms
              FROM files f JOIN facts a ON a.file = f.id AND a.native_id = '' AND a.source = '' AND a.field = 'active' WHERE f.session = ?1)
            UPDATE sessions SET file_ms = held.ms, created_ms = coalesce(first_ms, began_ms, held.ms),
              modified_ms = coalesce(max(last_ms, active.ms), last_ms, active.ms, began_ms, held.ms), gone = held.gone
            FROM held, active WHERE id = ?1 RETURNING created_ms
        """
        return bool(self._connection.execute(sql, (session,)).fetchone() != before)

    def drop_if_empty(self, session: int) -> SessionNumber | None:
        """Drop a session without files; gives who that was."""
        sql = """
            DELETE FROM sessions WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM files WHERE session = ?1)
            RETURNING source, native_id, origin, ordinal
        """
        row = self._connection.execute(sql, (session,)).fetchone()
        return None if row is None else SessionNumber(*row[:3], ordinal=row[3])

    def update_opening(self, session: int) -> None:
        """Update the digest of the first prompts; the work does not grow with the session."""
        opening, opened = self._opening(session), None
        if sum(len(text.split()) for text in opening) >= LEAST_WORDS:
            opened = digest("\n".join(opening).encode())
        sql = "UPDATE sessions SET opening = ?2 WHERE id = ?1 AND opening IS NOT ?2"
        self._connection.execute(sql, (session, opened))

    def _opening(self, session: int) -> list[str]:
        found: list[str] = []
        files = "SELECT id FROM files WHERE session = ? ORDER BY path LIMIT 8"
        for (file,) in sqlite.rows(self._connection, files, (session,)):
            for (record,) in sqlite.rows(self._connection, PROMPTS, (file, OPENING_RECORDS, MOST_PROMPTS)):
                found.append(self._beginning_of(record))
                if len(found) == MOST_PROMPTS or sum(map(len, found)) >= ENOUGH_CHARACTERS:
                    return found
        return found

    def _beginning_of(self, record: int) -> str:
        sql = "SELECT text FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1"
        row = self._connection.execute(sql, ids.chunks_of(record)).fetchone()
        return "" if row is None else " ".join(sqlite.plain(row[0])[:MOST_CHARACTERS].split())

    def give_revisions(self) -> None:
        """Each session that changed or was removed gets a revision of its own, from the transaction's on: so lists can end anywhere.
        Removed keys come first, since a session may have another one now.
        """
        removed, sessions = (self._connection.execute(sql).fetchall() for sql in CHANGED)
        if not (removed or sessions):
            return
        if len(removed) + len(sessions) > 1:
            self._connection.executemany(SPREAD[0], [(at, number) for at, (number,) in enumerate(removed)])
            self._connection.executemany(
                SPREAD[1], [(at, number) for at, (number,) in enumerate(sessions, len(removed))]
            )
        self._connection.execute(COUNT_CHANGES, (len(removed) + len(sessions),))
        if removed and sqlite.one(self._connection, "SELECT count(*) FROM removed")[0] > MOST_REMOVED:
            self._connection.execute("DELETE FROM removed")
            self._connection.execute(BEGIN_EPOCH)


# Of all that files say about activity the latest counts, which `Sessions.set_times` chooses.
FIELDS: tuple[str, ...] = tuple(field for field in get_args(Field) if field not in {ACTIVE, DESCRIBED})


# When the model that wrote this annotation was asked: of what several files say, the newest counts.
GENERATED_AT = f"""iif(a.rank = {NameRank.GENERATED:d}, (
    SELECT json_extract(g.value, '$.at') FROM facts g WHERE (g.file, g.native_id, g.source) = (a.file, a.native_id, a.source)
      AND g.field = 'generated'), NULL)"""
# All that is stated of a session; of several of one rank the last row counts.
STATED = f"""
    WITH stated(field, value, rank, gone, at, path, entry) AS (
      SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, NULL, f.path, 0
      FROM files f CROSS JOIN facts a ON a.file = f.id AND a.native_id = '' WHERE f.session = ?1
      UNION ALL
      SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, {GENERATED_AT}, f.path, 0
      FROM sessions s CROSS JOIN facts a ON a.native_id = s.native_id AND a.native_id <> ''
      CROSS JOIN files f ON f.id = a.file AND iif(a.source = '', f.source, a.source) = s.source WHERE s.id = ?1
      UNION ALL
      SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, NULL, f.path, a.entry
      FROM files h CROSS JOIN line_ids e ON e.file = h.id AND e.wanted CROSS JOIN remarks a ON a.entry = e.digest
      CROSS JOIN files f ON f.id = a.file WHERE h.session = ?1)
    SELECT field, value, rank FROM stated ORDER BY rank, gone DESC, at, path DESC, entry, value
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


# Most files have one directory, which is a fact as well; but that may become another one.
ADD_DIRECTORY = f"""
    INSERT OR IGNORE INTO directories(file, path, project_path) SELECT ?1, ?2, ?3
    WHERE (SELECT count(*) FROM directories WHERE file = ?1) < {MOST_DIRECTORIES}
"""


def project_id(cwd: str | None) -> str:
    """The project's part of a key; without a directory, that of the empty string."""
    return hashlib.sha256((cwd or "").encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Facts:
    """The facts of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def record_all(self, file: int, change: FileRows, *, came_back: bool) -> tuple[set[int], bool]:
        """Keep what a file says. Gives the other sessions that it is about, and whether somebody has spoken of an entry of it."""
        others, is_meant = set[int](), False
        if change.facts or change.remarks:
            others = self.record(file, change.source, change.facts, change.remarks)
        if came_back:
            others |= self.find_others(file)
        if change.active_ms is not None:
            self.record_activity(file, change.active_ms, anew=change.counted_from_start)
        if change.directories:
            places = [(file, path, project) for path, project in sorted(change.directories.items())]
            self._connection.executemany(ADD_DIRECTORY, places)
        if change.entries:
            is_meant = self.record_lines(file, change.entries)
        return others, is_meant

    def record(self, file: int, source: str, facts: Sequence[Fact], remarks: Sequence[Remark]) -> set[int]:
        """Keep what a file says. Gives the other sessions that it is about."""
        meant: set[int] = set()
        for fact in facts:
            about = fact.source or source
            if fact.native_id and is_forgotten(self._connection, about, Identity(native_id=fact.native_id, origin="")):
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

    def record_activity(self, file: int, time_ms: int, *, anew: bool) -> None:
        """The latest thing that the file tells of, or what is new in it unless all of it is read `anew`, happened then."""
        sql = "INSERT INTO facts(file, native_id, source, field, rank, value) VALUES(?1, '', '', ?2, 0, ?3)"
        later = "WHERE ?4 OR CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)"
        sql += f" ON CONFLICT DO UPDATE SET value = excluded.value {later}"
        self._connection.execute(sql, (file, ACTIVE, str(time_ms), anew))

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

    def forget(self, file: int) -> set[int]:
        """Remove a file's facts. Gives the other sessions that it was about."""
        others = self.find_others(file)
        for table in ("facts", "remarks", "directories", "line_ids"):
            self._connection.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        return others

    def resolve(self, session: int) -> bool:
        """Choose the fields from the facts: the highest rank that is not empty, present files before gone ones, in order of path.

        Says whether the session's beginning moved, and with it the order of sessions.
        """
        chosen: dict[str, Any] = dict.fromkeys(FIELDS)
        stated = {field: (value, rank) for field, value, rank in self._connection.execute(STATED, (session,)) if value}
        chosen.update((field, value) for field, (value, _) in stated.items())
        chosen["title"] = stated["name"][0] if "name" in stated and stated["name"][1] > NameRank.PROMPT else None
        chosen["project"] = project_id(chosen["cwd"])
        if "generated" in stated:
            stand = [field for field in ANNOTATED_FIELDS if stated.get(field, ("", None))[1] == NameRank.GENERATED]
            chosen["generated"] = json.dumps({**json.loads(chosen["generated"]), "fields": stand}, ensure_ascii=False)
        before = self._connection.execute(
            "SELECT began_ms, parent_id IS NOT NULL FROM sessions WHERE id = ?", (session,)
        ).fetchone()
        return bool(self._connection.execute(CHOSEN, {**chosen, "session": session}).fetchone() != before)

    def _numbers(self, sql: str, values: tuple[Any, ...]) -> set[int]:
        return {number for (number,) in sqlite.rows(self._connection, sql, values)}


def _verb(keep: str) -> str:
    return "REPLACE" if keep == "last" else "IGNORE"
