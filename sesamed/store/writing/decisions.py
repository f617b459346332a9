"""What is decided about a session for good, and is also in a file beside the index, so that an index that is created again knows it, too:
its number among those with its native id, and that it must never be indexed again.
"""

import json
from itertools import count

import apsw
import msgspec

from sesamed.model import Identity, SessionKey
from sesamed.store import beside, ids, sqlite
from sesamed.store.reading.resolve import find
from sesamed.store.search import filters
from sesamed.store.search.filters import Where

# -- numbers
#
# Which of several sessions with one native id is `id`, which is `id~2`. While the index is filled for the first time, the earliest created
# has the plain id, so that the reading order makes no difference. Once everything has been read (`decide`), who has a number keeps it, and
# newcomers get the next ones. Only where several sessions ever shared a native id are their numbers written down: a session that is alone
# with its id has number 1. So has one that leaves the index (forgotten, excluded, expired): its number stays taken, because somebody may
# have noted it.

DECIDED = "numbered"  # metadata: numbers are for ever from now on
MOST, MOST_DIGITS = 1 << 31, 10

ALL = "SELECT source, native_id, origin, ordinal FROM numbers"
ADD = "INSERT OR IGNORE INTO numbers(source, native_id, origin, ordinal) VALUES(?, ?, ?, ?)"
SHARED = """
    SELECT source, native_id FROM sessions GROUP BY source, native_id HAVING count(*) > 1 OR max(ordinal) > 1
    UNION SELECT source, native_id FROM numbers ORDER BY source, native_id
"""
# Whether a session with another native id is called like this, or was: an agent may itself call one `id~2`.
IS_CALLED = """
    SELECT EXISTS(SELECT 1 FROM sessions WHERE public_id = :public AND source = :source AND native_id <> :native)
      OR EXISTS(SELECT 1 FROM numbers WHERE (source, native_id, ordinal) = (:source, :public, 1) AND native_id <> :native)
      OR EXISTS(SELECT 1 FROM numbers WHERE (source, native_id, ordinal) = (:source, :base, :ordinal) AND native_id <> :native)
"""


class SessionNumber(SessionKey, frozen=True, kw_only=True):
    """The number of a session among those with its native id."""

    ordinal: int


_DECODE_KEY = msgspec.json.Decoder(SessionKey).decode
_DECODE_NUMBER = msgspec.json.Decoder(SessionNumber).decode


class Numbering:
    """The numbers of sessions, within one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.changed: set[tuple[str, str]] = set()  # sources and native ids
        self.unwritten: list[SessionNumber] = []  # to be on the disk before the commit
        sql = "SELECT EXISTS(SELECT 1 FROM metadata WHERE name = ?)"
        self.is_decided = bool(sqlite.one(connection, sql, (DECIDED,))[0])

    def note_arrival(self, session: int) -> None:
        """A session is new, or was perhaps created at another time than it seemed."""
        self.changed.add(
            sqlite.one(self._connection, "SELECT source, native_id FROM sessions WHERE id = ?", (session,))
        )

    def note_departure(self, left: SessionNumber) -> None:
        """A session leaves the index; nobody else gets its number."""
        self.changed.add((left.source, left.native_id))
        if self.is_decided and left.ordinal:
            self._write(left)

    def replace(self, left: SessionNumber, session: int | None) -> None:
        """The file of a session that is gone begins with another session now: the id goes with the file, unless that session
        had one already.
        """
        self.changed.add((left.source, left.native_id))
        sql = """
            UPDATE sessions AS s SET ordinal = ?4, public_id = ?5 WHERE (id, source, native_id, ordinal) = (?1, ?2, ?3, 0)
            AND NOT EXISTS(SELECT 1 FROM numbers WHERE (source, native_id, origin) = (?2, ?3, s.origin)) RETURNING origin
        """
        key, public = (left.source, left.native_id), ids.public_id(left.native_id, left.ordinal)
        if heir := sqlite.rows(self._connection, sql, (session, *key, left.ordinal, public)):
            sql = "DELETE FROM numbers WHERE (source, native_id, origin) = (?, ?, ?) RETURNING 1"
            if sqlite.rows(self._connection, sql, (*key, left.origin)):
                self._write(msgspec.structs.replace(left, origin=heir[0][0]))

    def finish(self) -> None:
        """Number the sessions that came."""
        for source, native_id in self.changed:
            self._number(source, native_id)
        self.changed.clear()

    def decide(self, old: apsw.Connection | None) -> None:
        """From now on numbers stay. `old` is the index that this one replaces: who has a number there has it here."""
        self.finish()
        if old is not None and Numbering(old).is_decided:
            self._take_over(old)
        groups = sqlite.rows(self._connection, SHARED)
        for source, native_id in groups:
            self._number(source, native_id)
        self.is_decided = True
        for source, native_id in groups:
            self._number(source, native_id)
        self._connection.execute("REPLACE INTO metadata(name, value) VALUES(?, '1')", (DECIDED,))

    def _take_over(self, old: apsw.Connection) -> None:
        """Copy the numbers of what shares its native id here, and of what was not carried over."""
        for key in sqlite.rows(old, ALL):
            self._connection.execute(ADD, key)
        for source, native_id in sqlite.rows(self._connection, SHARED):
            sql = "SELECT origin, ordinal FROM sessions WHERE (source, native_id) = (?, ?)"
            for origin, ordinal in sqlite.rows(old, sql, (source, native_id)):
                self._write(SessionNumber(source, native_id, origin, ordinal=ordinal))
        here = "SELECT 1 FROM sessions WHERE (source, native_id, origin) = (?, ?, ?)"
        for row in sqlite.rows(old, "SELECT source, native_id, origin, ordinal FROM sessions WHERE gone"):
            if not sqlite.rows(self._connection, here, row[:3]):
                self._write(SessionNumber(*row[:3], ordinal=row[3]))

    def _number(self, source: str, native_id: str) -> None:
        """Give a number to each session with this native id that has none."""
        sql = f"SELECT id, origin, ordinal FROM sessions s WHERE (source, native_id) = (?, ?) ORDER BY {ids.EARLIEST_FIRST}"
        sessions = sqlite.rows(self._connection, sql, (source, native_id))
        sql = "SELECT origin, ordinal FROM numbers WHERE (source, native_id) = (?, ?)"
        written = dict(sqlite.rows(self._connection, sql, (source, native_id)))
        known = {origin: ordinal for _, origin, ordinal in sessions if ordinal and self.is_decided} | written
        taken = set(known.values())
        free = (
            ordinal for ordinal in count(1) if ordinal not in taken and not self._is_called(source, native_id, ordinal)
        )
        for session, origin, before in sessions:
            ordinal = known.get(origin) or next(free)
            if ordinal != before:
                sql = "UPDATE sessions SET ordinal = ?, public_id = ? WHERE id = ?"
                self._connection.execute(sql, (ordinal, ids.public_id(native_id, ordinal), session))
            if self.is_decided and (len(sessions) > 1 or written or ordinal > 1):
                self._write(SessionNumber(source, native_id, origin, ordinal=ordinal))

    def _is_called(self, source: str, native_id: str, ordinal: int) -> bool:
        public = ids.public_id(native_id, ordinal)
        base, _, last = public.rpartition("~")
        number = int(last) if last.isdecimal() and len(last) < MOST_DIGITS else 0
        values = {"source": source, "native": native_id, "public": public, "base": base, "ordinal": number}
        return bool(sqlite.one(self._connection, IS_CALLED, values)[0])

    def _write(self, number: SessionNumber) -> None:
        """Write a number down, unless it is or its session has another one."""
        if sqlite.rows(self._connection, f"{ADD} RETURNING 1", msgspec.structs.astuple(number)):
            self.unwritten.append(number)


def load_numbers(connection: apsw.Connection, index: str) -> list[SessionNumber]:
    """Tell an index that was just opened what the file says; gives what the file does not say. Where they differ the index counts: answers
    came from it.
    """
    told = _read_numbers(index)
    sql = """
        INSERT OR IGNORE INTO numbers(source, native_id, origin, ordinal) SELECT ?1, ?2, ?3, ?4
        WHERE NOT EXISTS(SELECT 1 FROM sessions WHERE (source, native_id, ordinal) = (?1, ?2, ?4) AND origin <> ?3)
          OR NOT EXISTS(SELECT 1 FROM metadata WHERE name = ?5)
    """
    if told:
        with connection:
            connection.executemany(sql, [(*msgspec.structs.astuple(number), DECIDED) for number in told])
    rows = sqlite.rows(connection, ALL)
    known = [SessionNumber(*key, ordinal=ordinal) for *key, ordinal in rows]
    return [number for number in known if number not in told]


def _read_numbers(index: str) -> set[SessionNumber]:
    """What the file says: the last line about a session, and about a number, counts."""
    told, named = set[SessionNumber](), set[tuple[str, str, str | int]]()
    for number in reversed(list(beside.read(index, beside.NUMBERS, _DECODE_NUMBER))):
        group = (number.source, number.native_id)
        about: set[tuple[str, str, str | int]] = {(*group, number.origin), (*group, number.ordinal)}
        if 0 < number.ordinal < MOST and not about & named:
            told.add(number)
            named |= about
    return told


# -- what is forgotten
#
# One line of the file per session: source, id and origin, nothing else. It is written and on disk before anything is removed.

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


def choose_doomed(connection: apsw.Connection, reference: str | None, where: Where) -> tuple[list[SessionKey], int]:
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


def load_forgotten(connection: apsw.Connection, index: str) -> list[SessionKey]:
    """Tell an index what the file says is forgotten; gives what the file does not say, as when somebody removed or spoilt it."""
    told = {(key.source, key.native_id, key.origin) for key in beside.read(index, beside.FORGOTTEN, _DECODE_KEY)}
    if told:
        with connection:
            connection.executemany("INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)", told)
    return [key for key in list_forgotten(connection) if (key.source, key.native_id, key.origin) not in told]


def list_forgotten(connection: apsw.Connection) -> list[SessionKey]:
    """What must not be indexed."""
    return [SessionKey(*key) for key in sqlite.rows(connection, "SELECT source, native_id, origin FROM forgotten")]
