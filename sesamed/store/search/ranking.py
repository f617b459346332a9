"""Ranked search: two halves are added, the best chunks of a session and the session as a whole; each by its best in this answer.

Docs: docs/search.md, with what each step is worth.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Collection

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.search import filters, matching, session_score
from sesamed.store.search.folding import Found, Scored, append_rest, fold
from sesamed.store.search.terms import Term, Terms

DAMPED = (1.0, 0.5, 0.25)  # what the best, second and third chunk count; all of them would make long sessions win
SESSION_SHARE = 0.6
LOOKED_AT = 500  # so many sessions are folded together; what is below cannot come on the page
MESSAGES_FIRST = 10.0  # more than any score: one word is either said, or only done

# An answer is weak when its best hit has less than this share of the question's weight; docs/search.md has how often this is right.
ENOUGH = 0.35
MANY_WORDS = 3  # of so many words a single one is a coincidence

EXCLUDED = f"""
    WITH x(chunk) AS MATERIALIZED (SELECT rowid FROM fts WHERE fts MATCH :match AND {ids.sql_is_message("rowid")})
    SELECT session FROM files WHERE id IN (SELECT {ids.sql_file_of("chunk")} FROM x)
    UNION SELECT f.session FROM x JOIN copies c ON c.record = {ids.sql_record_of("x.chunk")} JOIN files f ON f.id = c.file
    UNION SELECT rowid FROM headings WHERE headings MATCH :match
"""

Matched = tuple[int, int, float]  # session, chunk and score


def rank_sessions(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, limit: int, *, recent: bool = False
) -> list[Found]:
    """The sessions that fit a question best."""
    counted = session_score.count(connection, terms)
    one_word = len(terms.terms) == 1

    def find(*, everything: bool) -> list[Found]:
        chunks = matching.find_best(connection, terms, where, everything=everything, messages_first=one_word)
        called = set[int]()
        if not where.record:
            called = _find_called(connection, terms, where, counted.named - {session for session, _, _ in chunks})
        scored = _fuse(connection, chunks, called, counted, one_word=one_word)
        for session in _find_excluded(connection, terms, set(scored)):
            del scored[session]
        best = list(scored.values())
        if not recent:
            best = heapq.nlargest(max(LOOKED_AT, 4 * limit), best, key=lambda one: one.score)
        return fold(connection, best, where, recent=recent)[:limit]

    bounded = recent or bool(where.record) or (not one_word and matching.is_bounded(terms))
    found = find(everything=bounded)
    if len(found) < limit and not bounded:
        found = append_rest(found, find(everything=True))
    return found[:limit]


def count_hits(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> int:
    """How many hits there are in all."""
    return len(rank_sessions(connection, terms, where, 1 << 40, recent=True))


def is_weak(terms: Terms, matched: Collection[str]) -> bool:
    """Whether the best hit, which holds these words, is hardly about the question: rare words tell more than common ones."""
    if len(terms.terms) >= MANY_WORDS and len(matched) <= 1:
        return True
    whole = sum(_weight(term, terms.chunks) for term in terms.terms)
    held = sum(_weight(term, terms.chunks) for term in terms.terms if term.word.text in matched)
    return held < ENOUGH * whole


def _weight(term: Term, chunks: int) -> float:
    return math.log(1 + max(0.0, chunks - term.chunks + 0.5) / (term.chunks + 0.5))


def _fuse(
    connection: apsw.Connection,
    chunks: list[Matched],
    called: set[int],
    counted: session_score.Counts,
    *,
    one_word: bool,
) -> dict[int, Scored]:
    by_session: dict[int, list[tuple[float, int]]] = defaultdict(list)
    with_messages = {session for session, chunk, _ in chunks if ids.is_message(chunk)} if one_word else set()
    for session, chunk, score in chunks:
        if ids.is_message(chunk) or session not in with_messages:
            by_session[session].append((-score, chunk))
    halves = {session: _damp(some) for session, some in by_session.items()}
    whole = session_score.score(connection, counted)
    sessions = by_session.keys() | called
    most = max((halves[session] for session in with_messages or halves), default=0.0) or 1.0
    most_whole = max((whole.get(session, 0.0) for session in sessions), default=0.0) or 1.0
    result = {}
    for session in sessions:
        score = halves.get(session, 0.0) / most + SESSION_SHARE * whole.get(session, 0.0) / most_whole
        if session in with_messages or (one_word and session in called):
            score += MESSAGES_FIRST
        best = min(by_session[session])[1] if session in by_session else None
        result[session] = Scored(session, best, score)
    return result


def _damp(chunks: list[tuple[float, int]]) -> float:
    if len(chunks) == 1:
        return -chunks[0][0]
    return -sum(share * score for share, (score, _) in zip(DAMPED, sorted(chunks), strict=False))


def _find_called(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, sessions: frozenset[int]
) -> set[int]:
    """Of sessions that are called so, those of which no text matches: a fork's copies count for the session that they come from."""
    if not sessions:
        return set()
    sql = f"""
        SELECT s.id FROM sessions s WHERE s.id IN carray(:sessions) AND {where.session or "1"} AND s.id NOT IN (
          SELECT f.session FROM files f JOIN copies c ON c.file = f.id
          WHERE f.session IN carray(:sessions) AND c.record IN (SELECT {ids.sql_record_of("rowid")} FROM fts WHERE fts MATCH :match))
    """
    match = " OR ".join(pattern.match for term in terms.terms for pattern in term.patterns)
    values = {**where.values, "sessions": sqlite.numbers(sessions), "match": match}
    return {session for (session,) in connection.execute(sql, values)}


def _find_excluded(connection: apsw.Connection, terms: Terms, sessions: set[int]) -> set[int]:
    """Sessions in which something is said, or called, that is to be left out."""
    if not terms.excluded:
        return set()
    match = " OR ".join(terms.excluded)
    return sessions & {session for (session,) in connection.execute(EXCLUDED, {"match": match})}
