"""Ranked search: OR of the words with BM25, the best chunk a session, messages above tool calls. Filters before LIMIT.

The row number carries file and kind, so that the many rows of a common word are grouped before anything is joined.
"""

from typing import Any, NamedTuple

import apsw

from sesamed.store import filters, sqlite
from sesamed.store.query import Query, quoted
from sesamed.store.words import Words

# LIMIT -1 keeps SQLite from merging this into the aggregates below, where bm25() cannot be used; MATERIALIZED costs a tenth more.
MATCHED = """
    WITH m(chunk, score) AS NOT MATERIALIZED (SELECT rowid, -bm25(fts) FROM fts WHERE fts MATCH :match {only} LIMIT -1),
"""
MESSAGES = "AND rowid & 7 < 4"

# A record's home is the earliest session that holds it. Where a filter leaves that one out, the earliest of the others has the hit.
COPIED = """
    SELECT session, chunk, best FROM (
      SELECT f.session, w.chunk, {rank} AS best, row_number() OVER (
        PARTITION BY w.chunk ORDER BY s.created_ms, coalesce(s.began_ms, s.created_ms), s.source, s.native_id, s.origin, f.path) AS turn
      FROM (SELECT DISTINCT record FROM copies) d JOIN w ON w.chunk >> 3 = d.record JOIN copies c ON c.record = d.record
      JOIN files f ON f.id = c.file JOIN sessions s ON s.id = f.session
      WHERE {passing} AND d.record >> 21 NOT IN (SELECT f.id FROM files f JOIN sessions s ON s.id = f.session WHERE {passing})
    ) WHERE turn = 1
"""

# BM25 scores stay far below this, so a message is above every tool call and keeps its own score.
TIER = 1000.0
RANK = f"w.score + (w.chunk & 7 < 4) * {TIER}"


# A subagent's session is shown as the one that began it all, when that is indexed; `depth` ends what goes in circles.
SHOWN = """(
    WITH RECURSIVE up(id, depth) AS (
      SELECT s.id, 0
      UNION ALL
      SELECT above.id, depth + 1 FROM up JOIN sessions here ON here.id = up.id AND here.subagent
      JOIN sessions above ON above.source = here.source AND above.native_id = here.parent_id AND above.ordinal = 1
      WHERE depth < 8 AND above.id <> here.id)
    SELECT id FROM up ORDER BY depth DESC LIMIT 1)"""


class Found(NamedTuple):
    """A session to show, the one that really matched, its best chunk, how good that is (messages: over TIER), and how many
    subagents are folded into it."""

    shown: int
    session: int
    chunk: int
    best: float
    subagents: int


def search(
    connection: apsw.Connection, query: Query, where: filters.Compiled, limit: int, offset: int, *, recent: bool
) -> list[Found]:
    """The best sessions for a query.

    Every message is above every tool call: when messages alone fill the page, nothing else can be on it. Tool calls are two thirds of
    the rows, so that this halves the time of common words.
    """
    order = "s.modified_ms DESC, best DESC" if recent else "best DESC, s.modified_ms DESC"
    values: dict[str, Any] = {**where.values, "match": query.match, "limit": limit, "offset": offset}
    for only in ("",) if recent else (MESSAGES, ""):
        sql = f"""{_folded(connection, where, only)}
            SELECT f.shown, f.session, f.chunk, max(f.best) AS best, count(DISTINCT f.session) FILTER (WHERE f.session <> f.shown)
            FROM f JOIN sessions s ON s.id = f.shown
            GROUP BY f.shown ORDER BY {order}, s.source, s.public_id LIMIT :limit OFFSET :offset"""
        found = [Found(*row) for row in connection.execute(sql, values)]
        if len(found) == limit:
            break
    return found


def count(connection: apsw.Connection, query: Query, where: filters.Compiled) -> int:
    """How many sessions match at all."""
    sql = f"{_folded(connection, where)} SELECT count(DISTINCT shown) FROM f"
    return int(sqlite.one(connection, sql, {**where.values, "match": query.match})[0])


def chunks_with(connection: apsw.Connection, words: Words) -> dict[str, int]:
    """In how many chunks each word stands, whatever the filters."""
    return {word: _chunks_with(connection, words, word) for word in words.words}


def others_with(connection: apsw.Connection, record: int, session: int) -> int:
    """How many other sessions hold a record."""
    sql = """
        SELECT count(DISTINCT session) FROM files
        WHERE session <> ?2 AND (id = ?1 >> 21 OR id IN (SELECT file FROM copies WHERE record = ?1))
    """
    return int(sqlite.one(connection, sql, (record, session))[0])


def _folded(connection: apsw.Connection, where: filters.Compiled, only: str = "") -> str:
    """The statement's head: `f(shown, session, chunk, best)`, with the session that each match is shown as."""
    shown = f"CASE WHEN s.subagent THEN {SHOWN} ELSE s.id END" if where.folds else "s.id"
    return f"""{_sessions(connection, where, only)},
        f(shown, session, chunk, best) AS (
          SELECT {shown}, h.session, h.chunk, h.best FROM h JOIN sessions s ON s.id = h.session)"""


def _sessions(connection: apsw.Connection, where: filters.Compiled, only: str) -> str:
    """The statement's head: `h(session, chunk, best)`, the best chunk of each file that passes."""
    records = f"JOIN records r ON r.id = m.chunk >> 3 WHERE {where.record}" if where.record else ""
    passing = where.session or "1"
    copied = ""
    if where.session and sqlite.one(connection, "SELECT EXISTS(SELECT 1 FROM copies)")[0]:
        copied = "UNION ALL" + COPIED.format(rank=RANK, passing=passing)
    return f"""{MATCHED.format(only=only)}
        w(chunk, score) AS {"MATERIALIZED" if copied else ""} (SELECT m.chunk, m.score FROM m {records}),
        b(file, chunk, best) AS (SELECT w.chunk >> 24, w.chunk, max({RANK}) FROM w GROUP BY w.chunk >> 24),
        h(session, chunk, best) AS (
          SELECT f.session, b.chunk, b.best FROM b JOIN files f ON f.id = b.file JOIN sessions s ON s.id = f.session WHERE {passing}
          {copied})"""


def _chunks_with(connection: apsw.Connection, words: Words, word: str) -> int:
    stems = words.stems(word)
    if len(stems) == 1:
        row = connection.execute("SELECT doc FROM vocabulary WHERE term = ?", (stems[0],)).fetchone()
        return 0 if row is None else int(row[0])
    return int(sqlite.one(connection, "SELECT count(*) FROM fts WHERE fts MATCH ?", (quoted(word),))[0])
