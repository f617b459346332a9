"""Ranked search: two halves are added, the best chunks of a session and the session as a whole; each by its best in this answer.

Docs: docs/search.md, with what each step is worth.
"""

import heapq
from collections import defaultdict

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.search import filters
from sesamed.store.search import matching as search
from sesamed.store.search import session_score as prose
from sesamed.store.search.folding import Found, Scored, folded, joined
from sesamed.store.search.terms import Terms

DAMPED = (1.0, 0.5, 0.25)  # what the best, second and third chunk count; all of them would make long sessions win
SESSION_SHARE = 0.6
LOOKED_AT = 500  # so many sessions are folded together; what is below cannot come on the page
ALL_SAID = 10.0  # more than any score: one word is either said, or only done

Matched = tuple[int, int, float]  # session, chunk and score


def ranked(
    connection: apsw.Connection, terms: Terms, where: filters.Compiled, limit: int, *, recent: bool = False
) -> list[Found]:
    """The sessions that fit a question best."""
    counted = prose.counts(connection, terms)
    bounded = recent or bool(where.record) or (len(terms.terms) > 1 and search.is_bounded(terms))
    found = _page(connection, terms, where, counted, (limit, recent), everything=bounded)
    if len(found) < limit and not bounded:
        more = _page(connection, terms, where, counted, (limit, recent), everything=True)
        found = joined(found, more)
    return found[:limit]


def count(connection: apsw.Connection, terms: Terms, where: filters.Compiled) -> int:
    """How many hits there are in all."""
    return len(ranked(connection, terms, where, 1 << 40, recent=True))


def _page(
    connection: apsw.Connection,
    terms: Terms,
    where: filters.Compiled,
    counted: prose.Counts,
    page: tuple[int, bool],
    *,
    everything: bool,
) -> list[Found]:
    limit, recent = page
    one_word = len(terms.terms) == 1
    chunks = search.best(connection, terms, where, everything=everything, messages_first=one_word)
    called = (
        set() if where.record else _only_called(connection, terms, where, counted.named - {row[0] for row in chunks})
    )
    scored = _fused(connection, chunks, called, counted, one_word=one_word)
    for session in _excluded(connection, terms, set(scored)):
        del scored[session]
    best = list(scored.values())
    if not recent:
        best = heapq.nlargest(max(LOOKED_AT, 4 * limit), best, key=lambda one: one.score)
    hits = folded(connection, best, where, recent=recent)
    return hits[:limit]


def _fused(
    connection: apsw.Connection, chunks: list[Matched], called: set[int], counted: prose.Counts, *, one_word: bool
) -> dict[int, Scored]:
    by_session: dict[int, list[tuple[float, int]]] = defaultdict(list)
    said = {session for session, chunk, _ in chunks if ids.is_message(chunk)} if one_word else set()
    for session, chunk, score in chunks:
        if ids.is_message(chunk) or session not in said:
            by_session[session].append((-score, chunk))
    halves = {session: _damped(some) for session, some in by_session.items()}
    whole = prose.scores(connection, counted)
    sessions = by_session.keys() | called
    most = max((halves[session] for session in said or halves), default=0.0) or 1.0
    most_whole = max((whole.get(session, 0.0) for session in sessions), default=0.0) or 1.0
    result = {}
    for session in sessions:
        score = halves.get(session, 0.0) / most + SESSION_SHARE * whole.get(session, 0.0) / most_whole
        if session in said or (one_word and session in called):
            score += ALL_SAID
        best = min(by_session[session])[1] if session in by_session else None
        result[session] = Scored(session, best, score)
    return result


def _damped(chunks: list[tuple[float, int]]) -> float:
    if len(chunks) == 1:
        return -chunks[0][0]
    return -sum(share * score for share, (score, _) in zip(DAMPED, sorted(chunks), strict=False))


def _only_called(
    connection: apsw.Connection, terms: Terms, where: filters.Compiled, sessions: frozenset[int]
) -> set[int]:
    """Of sessions that are called so, those of which no text matches: a fork's copies count for the session that they come from."""
    if not sessions:
        return set()
    sql = f"""
        SELECT s.id FROM sessions s WHERE s.id IN carray(:sessions) AND {where.session or "1"} AND s.id NOT IN (
          SELECT f.session FROM files f JOIN copies c ON c.file = f.id
          WHERE f.session IN carray(:sessions) AND c.record IN (SELECT {ids.sql_record_of("rowid")} FROM fts WHERE fts MATCH :match))
    """
    match = " OR ".join(form.match for term in terms.terms for form in term.forms)
    values = {**where.values, "sessions": sqlite.numbers(sessions), "match": match}
    return {session for (session,) in connection.execute(sql, values)}


def _excluded(connection: apsw.Connection, terms: Terms, sessions: set[int]) -> set[int]:
    """Sessions in which something is said, or called, that is to be left out."""
    sql = f"""
        WITH x(chunk) AS MATERIALIZED (SELECT rowid FROM fts WHERE fts MATCH :match AND {ids.sql_is_message("rowid")})
        SELECT session FROM files WHERE id IN (SELECT {ids.sql_file_of("chunk")} FROM x)
        UNION SELECT f.session FROM x JOIN copies c ON c.record = {ids.sql_record_of("x.chunk")} JOIN files f ON f.id = c.file
        UNION SELECT rowid FROM headings WHERE headings MATCH :match
    """
    if not terms.excluded:
        return set()
    match = " OR ".join(terms.excluded)
    return sessions & {session for (session,) in connection.execute(sql, {"match": match})}
