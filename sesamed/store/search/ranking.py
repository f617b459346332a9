"""Ranked search: two halves are added, the best chunks of a session and the session as a whole; each by its best in this answer. Then hits
are shown as one: what subagents did as their parent's, and sessions of a project that begin alike as the best of them.

Docs: docs/search.md, with what each step is worth.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.search import filters, matching
from sesamed.store.search.terms import Terms

DAMPED = (1.0, 0.5, 0.25)  # what the best, second and third chunk count; all of them would make long sessions win
SESSION_SHARE = 0.6
TITLE_FLOOR = 1.0  # the first half of a session whose title has the whole query is as good as the best
TITLE_BONUS = 1.0  # times the square of the part of the query that is in the title
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
    """A session to show, the one that really matched, its best chunk (None: only its heading matches), its score, how many subagents are
    folded into it, and which other sessions with the same opening are.
    """

    shown: int
    session: int
    chunk: int | None
    score: float
    subagents: int
    similar: frozenset[int]
    group: frozenset[int]  # the sessions that would be shown if each stood alone: several have one missing parent


class Scored(NamedTuple):
    """A session's score and best chunk."""

    session: int
    chunk: int | None
    score: float
    has_word: bool = True


class _Shown(NamedTuple):
    shown: int
    group: int | tuple[str, str]  # hits of one group are one: by that session, or by a parent that is not in the index
    alike: tuple[str, int] | None  # its project and how it begins
    order: tuple[int, str, str]  # newer ones first, then by name


def rank_sessions(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, limit: int, *, recent: bool = False
) -> list[Found]:
    """The sessions that match a query best."""
    counted = matching.count_patterns(connection, terms)
    whole = matching.score_sessions(connection, counted)
    one_word = len(terms.terms) == 1

    def find(*, everything: bool) -> list[Found]:
        found = matching.find_best(connection, terms, where, everything=everything, messages_first=one_word)
        chunks = _choose_chunks(found, one_word=one_word)
        called = set[int]()
        if not where.record:
            called = _find_called(connection, terms, where, counted.named - chunks.keys())
        scored = _fuse(chunks, called, counted, whole, one_word=one_word)
        for session in _find_excluded(connection, terms, set(scored)):
            del scored[session]
        best = _put_parts_last(scored, everything=everything)
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
    """Whether the best hit, which contains these words, is hardly relevant: rare words weigh more than common ones."""
    if len(terms.terms) >= MANY_WORDS and len(matched) <= 1:
        return True
    whole = sum(terms.weigh(term) for term in terms.terms)
    held = sum(terms.weigh(term) for term in terms.terms if term.word.text in matched)
    return held < ENOUGH * whole


def _fuse(
    chunks: Mapping[int, list[matching.Matched]],
    called: set[int],
    counted: matching.Counts,
    whole: Mapping[int, float],
    *,
    one_word: bool,
) -> dict[int, Scored]:
    halves = {session: _damp(some) for session, some in chunks.items()}
    with_messages = {session for session, some in chunks.items() if one_word and some[0].is_message}
    most = max((halves[session] for session in with_messages or halves), default=0.0) or 1.0
    sessions = chunks.keys() | called
    most_whole = max((whole.get(session, 0.0) for session in sessions), default=0.0) or 1.0
    result = {}
    for session in sessions:
        share = counted.titled.get(session, 0.0)
        score = max(halves.get(session, 0.0) / most, TITLE_FLOOR * share) + TITLE_BONUS * share**2 * (not one_word)
        score += SESSION_SHARE * whole.get(session, 0.0) / most_whole
        if session in with_messages or (one_word and (share or session in called)):
            score += MESSAGES_FIRST
        best = chunks[session][0] if session in chunks else None
        has_word = session in counted.headed or (best is not None and best.has_word)
        result[session] = Scored(session, None if best is None else best.chunk, score, has_word)
    return result


def _choose_chunks(chunks: list[matching.Matched], *, one_word: bool) -> dict[int, list[matching.Matched]]:
    """The chunks of each session that count, the best first: those with a word of the query, if there are any; then, if it is a single
    word, those in which it was said."""
    by_session: dict[int, list[matching.Matched]] = defaultdict(list)
    for chunk in chunks:
        by_session[chunk.session].append(chunk)
    for session, some in by_session.items():
        some.sort(key=lambda one: (not one.has_word, one_word and not one.is_message, -one.score, one.chunk))
        first = some[0]
        by_session[session] = [
            one
            for one in some
            if one.has_word == first.has_word and (not one_word or one.is_message == first.is_message)
        ]
    return by_session


def _put_parts_last(scored: Mapping[int, Scored], *, everything: bool) -> list[Scored]:
    """Sessions with only parts of words (`package` of `package.json`) come below those with a word, and only once everything was
    looked at."""
    with_word = [one for one in scored.values() if one.has_word]
    parts = [one for one in scored.values() if not one.has_word]
    if not (with_word and parts):
        return with_word or (parts if everything else [])
    if not everything:
        return with_word
    factor = 0.99 * min(one.score for one in with_word) / max(one.score for one in parts)
    return [*with_word, *(one._replace(score=one.score * min(1.0, factor)) for one in parts)]


def _damp(chunks: list[matching.Matched]) -> float:
    return sum(share * one.score for share, one in zip(DAMPED, chunks, strict=False))


def _find_called(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, sessions: frozenset[int]
) -> set[int]:
    """Of sessions that are called so, those of which no text matches: a fork's copies count for the session that they come from."""
    if not sessions:
        return set()
    sql = f"""
        SELECT s.id FROM sessions s WHERE s.id IN carray(:sessions) AND {where.session or "1"} AND {where.listed or "1"} AND s.id NOT IN (
          SELECT f.session FROM files f JOIN copies c ON c.file = f.id
          WHERE f.session IN carray(:sessions) AND c.record IN (SELECT {ids.sql_record_of("rowid")} FROM fts WHERE fts MATCH :match))
    """
    match = " OR ".join(pattern.match for term in terms.terms for pattern in term.patterns)
    values = {**where.values, "sessions": sqlite.numbers(sessions), "match": match}
    return {session for (session,) in connection.execute(sql, values)}


def _find_excluded(connection: apsw.Connection, terms: Terms, sessions: set[int]) -> set[int]:
    """Sessions whose messages or names contain what is excluded."""
    if not terms.excluded:
        return set()
    match = " OR ".join(terms.excluded)
    return sessions & {session for (session,) in connection.execute(EXCLUDED, {"match": match})}


# -- hits that are shown as one


def fold(connection: apsw.Connection, scored: list[Scored], where: filters.Conditions, *, recent: bool) -> list[Found]:
    """Fold subagents into their parents, or with others of a missing parent, and sessions of a project that begin alike into the best."""
    shown = _find_shown(connection, [one.session for one in scored], folds=where.folds)
    groups: dict[int | tuple[str, str], list[Scored]] = defaultdict(list)
    for one in sorted(scored, key=lambda one: (-one.score, shown[one.session].order, one.session)):
        groups[shown[one.session].group].append(one)
    heads = [(group[0].score, shown[group[0].session], group) for group in groups.values()]
    heads.sort(key=lambda head: (head[1].order[0], -head[0], head[1].order) if recent else (-head[0], head[1].order))
    result: list[Found] = []
    place_of: dict[tuple[str, int], int] = {}
    for score, about, group in heads:
        together = frozenset(shown[one.session].shown for one in group)
        if about.alike is not None and (place := place_of.setdefault(about.alike, len(result))) < len(result):
            first = result[place]
            result[place] = first._replace(similar=first.similar | together)
            continue
        subagents = sum(one.session != about.shown for one in group)
        result.append(Found(about.shown, group[0].session, group[0].chunk, score, subagents, frozenset(), together))
    return result


def _find_shown(connection: apsw.Connection, sessions: list[int], *, folds: bool) -> dict[int, _Shown]:
    target = f"CASE WHEN s.subagent THEN {SHOWN} ELSE s.id END" if folds else "s.id"
    sql = f"""
        SELECT s.id, o.id, iif(o.subagent AND :folds, o.parent_id, NULL), o.project, o.opening, -o.modified_ms, o.source, o.public_id
        FROM sessions s CROSS JOIN sessions o ON o.id = {target} WHERE s.id IN carray(:sessions)
    """
    rows = connection.execute(sql, {"sessions": sqlite.numbers(sessions), "folds": folds})
    return {
        session: _Shown(
            shown,
            shown if missing is None else (source, missing),
            None if opening is None else (project, opening),
            (newer, source, name),
        )
        for session, shown, missing, project, opening, newer, source, name in rows
    }


def append_rest(found: list[Found], more: list[Found]) -> list[Found]:
    """These hits, followed by those of a longer list that are not among them: the order is the same on every page."""
    place_of = {session: place for place, hit in enumerate(found) for session in (*hit.group, *hit.similar)}
    whole = list(found)
    for hit in more:
        sessions = hit.similar | hit.group
        place = next((place_of[session] for session in sorted(sessions) if session in place_of), None)
        if place is None:
            whole.append(hit._replace(score=min(hit.score, found[-1].score)) if found else hit)
        else:
            known = whole[place]
            whole[place] = known._replace(similar=(known.similar | sessions) - known.group)
    return whole
