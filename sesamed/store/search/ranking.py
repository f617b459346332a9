"""Ranked search in the index: what matches is looked for in steps, scored, and shown as one with what belongs to it.

Docs: docs/search.md, with what each step is worth.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.search import filters, matching
from sesamed.store.search.scoring import Counts, Matched, choose_chunks, fuse, put_parts_last
from sesamed.store.search.shown import Found, Group, Shown, Team, append_rest, fold_enough
from sesamed.store.search.terms import Terms

EXCLUDED = f"""
    WITH x(chunk) AS MATERIALIZED (SELECT rowid FROM fts WHERE fts MATCH :match AND {ids.sql_is_message("rowid")})
    SELECT session FROM files WHERE id IN (SELECT {ids.sql_file_of("chunk")} FROM x)
    UNION SELECT f.session FROM x JOIN copies c ON c.record = {ids.sql_record_of("x.chunk")} JOIN files f ON f.id = c.file
    UNION SELECT rowid FROM headings WHERE headings MATCH :match
"""

# The sessions whose copies match, and those that the copies come from.
COPIED_FROM = f"""
    SELECT DISTINCT f.session, h.session FROM files f JOIN copies c ON c.file = f.id JOIN files h ON h.id = {ids.sql_file("c.record")}
    WHERE f.session IN carray(:sessions) AND c.record IN (SELECT {ids.sql_record_of("rowid")} FROM fts WHERE fts MATCH :match)
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


class Ranked(NamedTuple):
    """The first hits; how many there are, or, unless that is exact, at least; the best of all that were looked at; and the filters, with
    what the query itself leaves out."""

    hits: list[Found]
    total: int
    is_exact: bool
    best: Found | None
    where: filters.Conditions


def rank_sessions(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, limit: int, *, recent: bool = False
) -> Ranked:
    """The sessions that match a query best. Each step looks at more than the one before; what it finds comes after what was found, so
    that the order is the same on every page.
    """
    where = _leave_out(connection, terms, where)
    counted = matching.count_patterns(connection, terms)
    whole = matching.score_sessions(connection, counted)
    measure_fit = partial(matching.measure_fit, connection, terms)
    find_shown = partial(_find_shown, connection, where=where)
    found, is_exact = list[Found](), False
    for step, named in _plan(terms, counted, everything=recent or where.apart or bool(where.record)):
        chunks = choose_chunks(matching.find_best(connection, terms, where, step), terms)
        _put_first_files_first(connection, chunks)
        called = (
            set() if where.record else _find_called(connection, terms, where, named - chunks.keys(), counted.titled)
        )
        scored = put_parts_last(fuse(chunks, called, counted, whole, terms, measure_fit), hidden=step.only_words)
        more, is_complete = fold_enough(scored, limit, find_shown, recent=recent)
        found = append_rest(found, more)
        is_exact = is_complete and step == matching.EVERYTHING and named == counted.named
        if len(found) >= limit:
            break
    best = max(found, key=lambda one: one.score, default=None)
    return Ranked(found[:limit], len(found), is_exact, best, where)


def count_hits(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> int:
    """How many hits there are in all."""
    return rank_sessions(connection, terms, where, 1 << 40).total


def _plan(terms: Terms, counted: Counts, *, everything: bool) -> list[tuple[matching.Step, frozenset[int]]]:
    """The steps of a search, with the sessions that may be hits by their headings in each."""
    steps = [matching.EVERYTHING] if everything else matching.plan(terms)
    planned = [(step, counted.first_named) for step in steps]
    if counted.first_named != counted.named:
        planned.append((matching.EVERYTHING, counted.named))
    return planned[-1:] if everything else planned


def _leave_out(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> filters.Conditions:
    """The filters, without the sessions whose messages or names contain what is excluded."""
    if not terms.excluded:
        return where
    sessions = {session for (session,) in connection.execute(EXCLUDED, {"match": " OR ".join(terms.excluded)})}
    return filters.add_condition(where, "s.id NOT IN carray(:without)", without=sqlite.numbers(sessions))


def _put_first_files_first(connection: apsw.Connection, chunks: dict[int, list[Matched]]) -> None:
    """Where the best chunks of a session are equally good and in several files, the paths of these decide: they are its order."""
    tied = {
        session: [one for one in some if one.score == some[0].score]
        for session, some in chunks.items()
        if len(some) > 1 and some[1].score == some[0].score
    }
    files = {session: {ids.file_of(ids.record_of(one.place)) for one in some} for session, some in tied.items()}
    several = {session for session, some in files.items() if len(some) > 1}
    if not several:
        return
    numbers = sqlite.numbers(file for session in several for file in files[session])
    rows = connection.execute("SELECT id FROM files WHERE id IN carray(?) ORDER BY path", (numbers,))
    turn = {file: number for number, (file,) in enumerate(rows)}
    for session in several:
        first = min(tied[session], key=lambda one: (turn[ids.file_of(ids.record_of(one.place))], one.place))
        chunks[session] = [first, *(one for one in chunks[session] if one is not first)]


def _find_called(
    connection: apsw.Connection,
    terms: Terms,
    where: filters.Conditions,
    sessions: frozenset[int],
    titled: Mapping[int, float],
) -> set[int]:
    """Of sessions that are called so, those of which no text matches. A fork's copies count for the session that they come from; the
    fork is found as well if its own title has more of the query."""
    if not sessions:
        return set()
    values = {**where.values, "sessions": sqlite.numbers(sessions)}
    passing = f"{where.session or '1'} AND {where.called or '1'}"
    sql = f"SELECT s.id FROM sessions s WHERE s.id IN carray(:sessions) AND {passing}"
    called = {session for (session,) in connection.execute(sql, values)}
    values = {"sessions": sqlite.numbers(called), "match": matching.match_any(terms)}
    for fork, owner in connection.execute(COPIED_FROM, values):
        if titled.get(owner, 0.0) >= titled.get(fork, 0.0):
            called.discard(fork)
    return called


# -- hits that are shown as one


def _find_shown(connection: apsw.Connection, sessions: Iterable[int], where: filters.Conditions) -> dict[int, Shown]:
    """What each session is shown as, and with which others: that depends on the index alone."""
    target = f"CASE WHEN s.subagent THEN {SHOWN} ELSE s.id END" if where.folds else "s.id"
    sql = f"""
        SELECT s.id, o.id, iif(o.subagent AND :folds, o.parent_id, NULL), o.project, iif(:apart, NULL, o.opening),
          -o.modified_ms, o.source, o.public_id, -s.modified_ms, s.source, s.public_id
        FROM sessions s CROSS JOIN sessions o ON o.id = {target} WHERE s.id IN carray(:sessions)
    """
    values = {"sessions": sqlite.numbers(sessions), "folds": where.folds, "apart": where.apart}
    result = {}
    for session, shown, missing, project, opening, *order in connection.execute(sql, values):
        team: Team = shown if missing is None else (order[1], missing)
        group: Group = team if opening is None or missing is not None else (project, opening)
        result[session] = Shown(shown, group, team, (order[0], order[1], order[2]), (order[3], order[4], order[5]))
    return result


# -- what is hidden by that


KIN = """
    WITH RECURSIVE top(id) AS (SELECT :session),
    heads(id) AS (
      SELECT id FROM top
      UNION SELECT o.id FROM top JOIN sessions t ON t.id = top.id JOIN sessions o ON o.opening = t.opening AND o.project = t.project
      UNION SELECT o.id FROM top JOIN sessions t ON t.id = top.id AND t.subagent
        JOIN sessions o ON o.parent_id = t.parent_id AND o.source = t.source AND o.subagent),
    kin(id, depth) AS (
      SELECT id, 0 FROM heads
      UNION SELECT c.id, depth + 1 FROM kin JOIN sessions p ON p.id = kin.id AND p.ordinal = 1
      JOIN sessions c ON c.parent_id = p.native_id AND c.source = p.source AND c.subagent WHERE depth < 8)
    SELECT DISTINCT id FROM kin
"""
SHARING = f"""
    WITH own(record) AS (
      SELECT c.record FROM files f JOIN copies c ON c.file = f.id WHERE f.session IN carray(:kin)
      UNION SELECT c.record FROM files f JOIN copies c ON {ids.sql_in_file("c.record", "f.id")} WHERE f.session IN carray(:kin))
    SELECT session FROM files WHERE id IN (
      SELECT {ids.sql_file("record")} FROM own UNION SELECT c.file FROM own JOIN copies c ON c.record = own.record)
"""


def narrow_to_kin(connection: apsw.Connection, where: filters.Conditions, session: int) -> filters.Conditions:
    """Of what passes the filters, all that is shown as one with a session, and all that share records with any of these; each by itself,
    and not the session again."""
    about = _find_shown(connection, [session], where)[session]
    near = {other for (other,) in connection.execute(KIN, {"session": about.shown})}
    shown = _find_shown(connection, near, where)
    kin = {session, *(other for other in near if shown[other].group == about.group)}
    kin |= {other for (other,) in connection.execute(SHARING, {"kin": sqlite.numbers(kin)})}
    narrow = filters.add_condition(where, "s.id IN carray(:kin)", kin=sqlite.numbers(kin - {session}))
    return narrow._replace(folds=False, apart=True)
