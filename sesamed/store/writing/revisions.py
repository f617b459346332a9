"""Revisions across a rebuild. The new index goes on where the old one is: a session that is the same in both keeps its revision, all others
get new ones, and those that the new one does not have are remembered as removed. So who follows does not notice a rebuild.

Sessions are compared before the swap, while live work goes on; what changes after that gets new revisions when nobody writes.
"""

from typing import Any, NamedTuple

import apsw

from sesamed.model import digest, encode
from sesamed.store import ids, schema, sqlite
from sesamed.store.reading.summary import COLUMN
from sesamed.store.writing.transaction import Writer

BEFORE_ALL = -(1 << 60)  # while an index is built, its revisions are none that a client could have seen

HELD = f"""
    SELECT r.id AS record, {ids.sql_position("r.id")} AS position, r.time_ms, r.entry, f.path
    FROM files f JOIN records r ON {ids.sql_in_file("r.id", "f.id")} WHERE f.session = ?1
    UNION ALL SELECT c.record, c.position, c.time_ms, c.entry, f.path
    FROM files f JOIN copies c ON c.file = f.id WHERE f.session = ?1
"""
# What a session's messages are, as numbers: keys of records are made of what they say, and results count by their length.
CONTENT = f"""
    SELECT count(*), sum(r.key >> 32), sum(r.key & 0xFFFFFFFF), sum((r.key & 0xFFFF) * position), total(h.time_ms), sum(r.is_error),
      sum((SELECT sum(octet_length(text)) FROM chunks WHERE {ids.sql_in_record("id", "r.id")}))
    FROM ({HELD}) h JOIN records r ON r.id = h.record
"""
# An agent's own names for them: a file that is rewritten in another version of its format gets new ones.
ENTRIES = f"SELECT entry FROM ({HELD}) WHERE entry IS NOT NULL ORDER BY path, position"
TAKEN_BACK = "SELECT count(*), sum(first), sum(last) FROM files f JOIN undone u ON u.file = f.id WHERE f.session = ?1"
SHOWN = (
    *(f"s.{column}" for column in schema.SHOWN.split(", ")),
    *map(COLUMN.__getitem__, ("path", "parent_session_id", "orphan")),
)
SESSIONS = f"""
    SELECT s.source, s.native_id, s.origin, s.id, s.revision, s.public_id, s.project, {", ".join(SHOWN)} FROM sessions s
"""
KEEP = "UPDATE sessions SET revision = ?1, floor = ?1 WHERE id = ?2"
RAISE = "UPDATE sessions SET (revision, floor) = (SELECT next_revision, next_revision FROM totals) WHERE "
REMOVED = "SELECT source, public_id, project, why, revision FROM removed WHERE revision >= ?"
REMEMBER = """
    INSERT OR REPLACE INTO removed(source, public_id, project, why, revision) SELECT ?1, ?2, ?3, ?4, ?5
    WHERE NOT EXISTS(SELECT 1 FROM sessions WHERE (source, public_id, project) = (?1, ?2, ?3))
"""


class Seen(NamedTuple):
    """A session of an index: its number, revision and key, and all that answers say of it."""

    number: int
    revision: int
    public_id: str
    project: str
    said: tuple[Any, ...]


class Continuation:
    """An index that is being built, and is to go on with the revisions of another one."""

    def __init__(self, new: Writer) -> None:
        self._new = new
        self._compared_at = 0
        new.change(lambda connection: _begin_at(connection, BEFORE_ALL))

    def compare(self, old: apsw.Connection) -> None:
        """Compare all sessions. Both stay as they are meanwhile: the old index is a snapshot, and nobody writes to the new one."""
        at = self._compared_at = _next_revision(old)
        before, now = _read_sessions(old), _read_sessions(self._new.connection)
        kept = {
            seen.number: before[key] for key, seen in now.items() if key in before and seen.said == before[key].said
        }
        lost = [
            (key[0], seen.public_id, seen.project, "moved" if key in now else "gone", at)
            for key, seen in before.items()
        ]
        removed = sqlite.rows(old, REMOVED, (0,))
        (epoch,) = sqlite.one(old, "SELECT value FROM metadata WHERE name = ?", (schema.EPOCH,))

        def take_over(connection: apsw.Connection) -> None:
            _begin_at(connection, at)
            connection.execute("UPDATE metadata SET value = ? WHERE name = ?", (epoch, schema.EPOCH))
            connection.execute("DELETE FROM removed")
            connection.execute(f"{RAISE} 1")
            connection.executemany(KEEP, [(seen.revision, n) for n, seen in kept.items()])
            connection.executemany(REMEMBER, [*lost, *removed])

        self._new.change(take_over)

    def finish(self, old: Writer) -> None:
        """Go on: what has changed since then gets new revisions. Nobody writes meanwhile."""
        since = self._compared_at
        begin = max(map(_next_revision, (old.connection, self._new.connection)))
        sql = "SELECT source, native_id, origin, public_id, project FROM sessions WHERE revision >= ?"
        changed = sqlite.rows(old.connection, sql, (since,))
        removed = sqlite.rows(old.connection, REMOVED, (since,))
        (changed_ms,) = sqlite.one(old.connection, "SELECT changed_ms FROM totals")

        def take_over(connection: apsw.Connection) -> None:
            _begin_at(connection, begin)
            connection.execute("UPDATE totals SET changed_ms = ?", (changed_ms,))
            connection.execute(f"{RAISE} revision >= ?", (since,))
            connection.executemany(f"{RAISE} (source, native_id, origin) = (?, ?, ?)", [row[:3] for row in changed])
            connection.execute(f"UPDATE removed SET revision = {ids.NEXT_REVISION} WHERE revision >= ?", (since,))
            lost = [(source, public_id, project, "gone", begin) for source, _, _, public_id, project in changed]
            connection.executemany(REMEMBER, [*lost, *((*row[:4], begin) for row in removed)])

        self._new.change(take_over)


def _begin_at(connection: apsw.Connection, revision: int) -> None:
    connection.execute("UPDATE totals SET next_revision = ?", (revision,))


def _next_revision(connection: apsw.Connection) -> int:
    return int(sqlite.one(connection, "SELECT next_revision FROM totals")[0])


def _read_sessions(connection: apsw.Connection) -> dict[tuple[str, ...], Seen]:
    found = {}
    for row in sqlite.rows(connection, SESSIONS):
        content = (sqlite.one(connection, sql, row[3:4]) for sql in (CONTENT, TAKEN_BACK))
        number, revision, public_id, project, *shown = row[3:]
        entries = digest(*(encode(f"{entry}\n") for (entry,) in connection.execute(ENTRIES, (number,))))
        found[row[:3]] = Seen(number, revision, public_id, project, (*shown, *content, entries))
    return found
