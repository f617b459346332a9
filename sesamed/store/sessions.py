"""Sessions: made when a file names one, described by the facts of files, counted by what they hold."""

import hashlib
from collections.abc import Iterable

import apsw

from sesamed.model import Fact, Identity, Kind, SessionKey
from sesamed.store import sqlite
from sesamed.store.rows import Row

FIELDS = (
    "name", "cwd", "project_path", "began", "parent_path", "parent_id", "subagent", "git_branch",
    "summary", "description", "tags", "agent", "created_by",
)  # fmt: skip
ROLES_WITH_TIMES = ("user", "assistant")

HELD = """
    WITH held AS (
      SELECT r.id FROM files f JOIN records r ON r.id BETWEEN f.id << 21 AND (f.id << 21) + 0x1fffff WHERE f.session = :session
      UNION SELECT c.record FROM files f JOIN copies c ON c.file = f.id WHERE f.session = :session
    )
    SELECT count(*) FILTER (WHERE kind <> 4), count(*) FILTER (WHERE kind = 4), coalesce(sum(prompt), 0),
      min(time_ms) FILTER (WHERE role IN ('user', 'assistant')), max(time_ms) FILTER (WHERE role IN ('user', 'assistant'))
    FROM held JOIN records USING (id)
"""


def project_id(cwd: str | None) -> str:
    """The project's part of a key; an unknown directory counts as the empty string."""
    return hashlib.sha256((cwd or "").encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Tally:
    """What a session gains in one transaction."""

    def __init__(self) -> None:
        self.messages = self.tool_calls = self.exchanges = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add(self, row: Row) -> None:
        """Count a record that the session did not hold before."""
        if row.kind == Kind.CALL:
            self.tool_calls += 1
        else:
            self.messages += 1
        self.exchanges += row.prompt
        if row.time_ms is not None and row.role in ROLES_WITH_TIMES:
            self.first_ms = row.time_ms if self.first_ms is None else min(self.first_ms, row.time_ms)
            self.last_ms = row.time_ms if self.last_ms is None else max(self.last_ms, row.time_ms)


class Sessions:
    """The sessions of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def named(self, source: str, identity: Identity) -> int:
        """The session with this identity; made when there is none."""
        key = (source, identity.native_id, identity.origin)
        sql = "SELECT id FROM sessions WHERE (source, native_id, origin) = (?, ?, ?)"
        if row := self._connection.execute(sql, key).fetchone():
            return int(row[0])
        sql = "INSERT INTO sessions(source, native_id, origin, public_id) VALUES(?1, ?2, ?3, ?2) RETURNING id"
        return int(sqlite.one(self._connection, sql, key)[0])

    def is_forgotten(self, source: str, identity: Identity) -> bool:
        """Whether this must not come in."""
        sql = "SELECT EXISTS(SELECT 1 FROM forgotten WHERE (source, native_id) = (?, ?) AND origin IN ('', ?))"
        return bool(sqlite.one(self._connection, sql, (source, identity.native_id, identity.origin))[0])

    def forget(self, session: SessionKey) -> list[bytes]:
        """Never let it in again, and let go of what other files say of it; the files that hold it."""
        key = (session.source, session.native_id, session.origin)
        self._connection.execute("INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)", key)
        if not session.origin:
            sql = """
                DELETE FROM facts WHERE native_id = ?2
                AND iif(source = '', (SELECT source FROM files WHERE id = facts.file), source) = ?1
            """
            self._connection.execute(sql, key[:2])
        sql = """
            SELECT f.path FROM sessions s JOIN files f ON f.session = s.id
            WHERE (s.source, s.native_id) = (?1, ?2) AND ?3 IN ('', s.origin)
        """
        return [bytes(path) for (path,) in sqlite.rows(self._connection, sql, key)]

    def number(self, session: int) -> None:
        """Number the sessions that share this one's native id in order of path: id, id~2, ..."""
        self._number(*sqlite.one(self._connection, "SELECT source, native_id FROM sessions WHERE id = ?", (session,)))

    def _number(self, source: str, native_id: str) -> None:
        sql = """
            SELECT id FROM sessions s WHERE (source, native_id) = (?, ?)
            ORDER BY (SELECT min(path) FROM files WHERE session = s.id), origin
        """
        for ordinal, (other,) in enumerate(sqlite.rows(self._connection, sql, (source, native_id)), 1):
            public = native_id if ordinal == 1 else f"{native_id}~{ordinal}"
            change = (
                "UPDATE sessions SET ordinal = ?2, public_id = ?3 WHERE id = ?1 AND (ordinal, public_id) <> (?2, ?3)"
            )
            self._connection.execute(change, (other, ordinal, public))

    def state(self, file: int, source: str, facts: Iterable[Fact]) -> None:
        """Keep what a file says; it describes its own session or another one."""
        for fact in facts:
            about = fact.source or source
            if fact.native_id and self.is_forgotten(about, Identity(native_id=fact.native_id, origin="")):
                continue
            verb = "REPLACE" if fact.keep == "last" else "IGNORE"
            sql = f"INSERT OR {verb} INTO facts(file, native_id, source, field, rank, value) VALUES(?, ?, ?, ?, ?, ?)"
            other = about if about != source else ""
            self._connection.execute(sql, (file, fact.native_id or "", other, fact.field, fact.rank, fact.value))
            if fact.native_id:
                self._resolve_named(about, fact.native_id)

    def forget_facts(self, file: int) -> None:
        """Take a file's word back."""
        sql = """
            SELECT DISTINCT iif(a.source = '', f.source, a.source), a.native_id
            FROM facts a JOIN files f ON f.id = a.file WHERE file = ? AND a.native_id <> ''
        """
        others = sqlite.rows(self._connection, sql, (file,))
        self._connection.execute("DELETE FROM facts WHERE file = ?", (file,))
        for source, native_id in others:
            self._resolve_named(source, native_id)

    def resolve(self, session: int) -> bool:
        """Choose the fields from the facts: the highest rank that is not empty, present files before gone ones, in order of path.

        Says whether the session's beginning moved, and with it the order of sessions.
        """
        sql = """
            WITH said(field, value, rank, gone, path) AS (
              SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, f.path
              FROM files f CROSS JOIN facts a ON a.file = f.id AND a.native_id = '' WHERE f.session = ?1
              UNION ALL
              SELECT a.field, a.value, a.rank, f.gone_ms IS NOT NULL, f.path
              FROM sessions s CROSS JOIN facts a ON a.native_id = s.native_id AND a.native_id <> ''
              CROSS JOIN files f ON f.id = a.file AND iif(a.source = '', f.source, a.source) = s.source WHERE s.id = ?1)
            SELECT field, value FROM said ORDER BY rank, gone DESC, path DESC
        """
        chosen: dict[str, str | None] = dict.fromkeys(FIELDS)
        chosen.update((field, value) for field, value in self._connection.execute(sql, (session,)) if value)
        chosen["project"] = project_id(chosen["cwd"])
        change = """
            UPDATE sessions SET name = :name, cwd = :cwd, project_path = coalesce(:project_path, :cwd), project = :project,
              git_branch = :git_branch, parent_path = :parent_path, parent_id = :parent_id,
              subagent = :subagent IS NOT NULL, began_ms = CAST(:began AS INTEGER), summary = :summary,
              description = :description, tags = :tags, agent = :agent, created_by = :created_by
            WHERE id = :session RETURNING began_ms
        """
        before = self._connection.execute("SELECT began_ms FROM sessions WHERE id = ?", (session,)).fetchone()
        return bool(self._connection.execute(change, {**chosen, "session": session}).fetchone() != before)

    def gain(self, session: int, tally: Tally) -> None:
        """Add what the session newly holds; the cost does not depend on what it held."""
        sql = """
            UPDATE sessions SET messages = messages + ?2, tool_calls = tool_calls + ?3, exchanges = exchanges + ?4,
              first_ms = min(coalesce(first_ms, ?5), coalesce(?5, first_ms)), last_ms = max(coalesce(last_ms, ?6), coalesce(?6, last_ms))
            WHERE id = ?1
        """
        values = (session, tally.messages, tally.tool_calls, tally.exchanges, tally.first_ms, tally.last_ms)
        self._connection.execute(sql, values)

    def recount(self, session: int) -> None:
        """Count anew what the session holds, after something was let go of."""
        counted = sqlite.one(self._connection, HELD, {"session": session})
        sql = "UPDATE sessions SET messages = ?, tool_calls = ?, exchanges = ?, first_ms = ?, last_ms = ? WHERE id = ?"
        self._connection.execute(sql, (*counted, session))

    def date(self, session: int) -> bool:
        """Settle created and modified; says whether created moved, and with it the order of sessions."""
        before = self._connection.execute("SELECT created_ms FROM sessions WHERE id = ?", (session,)).fetchone()
        sql = """
            WITH held AS (SELECT max(mtime_ns) / 1000000 AS ms, count(*) = count(gone_ms) AS gone FROM files WHERE session = ?1)
            UPDATE sessions SET file_ms = held.ms, created_ms = coalesce(first_ms, began_ms, held.ms),
              modified_ms = coalesce(last_ms, began_ms, held.ms), gone = held.gone
            FROM held WHERE id = ?1 RETURNING created_ms
        """
        return bool(self._connection.execute(sql, (session,)).fetchone() != before)

    def drop_if_empty(self, session: int) -> bool:
        """A session without a file is none."""
        sql = """
            DELETE FROM sessions WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM files WHERE session = ?1) RETURNING source, native_id
        """
        if left := sqlite.rows(self._connection, sql, (session,)):
            self._number(*left[0])
        return bool(left)

    def _resolve_named(self, source: str, native_id: str) -> None:
        sql = "SELECT id FROM sessions WHERE (source, native_id) = (?, ?)"
        for (session,) in sqlite.rows(self._connection, sql, (source, native_id)):
            self.resolve(session)
