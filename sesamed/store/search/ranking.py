"""Ranked search in the index: what matches is looked for, scored, and shown as one with what belongs to it.

Docs: docs/search.md, with what each step is worth.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.search import filters, matching
from sesamed.store.search.matching import Matches
from sesamed.store.search.scoring import Matched, Naming, Scored, fuse, put_parts_last
from sesamed.store.search.shown import Found, Group, Shown, Team, append_rest, fold_enough, take_best
from sesamed.store.search.terms import Terms
from sesamed.store.shelf import FEW_CHUNKS, find_view

FEW_ROWS = 300  # of a question, which statements find as quickly

EXCLUDED = f"""
    WITH x(chunk) AS MATERIALIZED (SELECT rowid FROM fts WHERE fts MATCH :match AND {ids.sql_is_message("rowid")})
    SELECT session FROM files WHERE id IN (SELECT {ids.sql_file_of("chunk")} FROM x)
    UNION SELECT f.session FROM x JOIN copies c ON c.record = {ids.sql_record_of("x.chunk")} JOIN files f ON f.id = c.file
    UNION SELECT rowid FROM headings WHERE headings MATCH :match
"""

# The sessions whose copies match, and those that the copies come from.
COPIED_FROM = f"""
    SELECT DISTINCT f.session, h.session FROM files f CROSS JOIN copies c ON c.file = f.id
    CROSS JOIN files h ON h.id = {ids.sql_file("c.record")}
    WHERE f.session IN carray(:sessions) AND EXISTS(
      SELECT 1 FROM fts WHERE fts MATCH :match AND {ids.sql_in_record("fts.rowid", "c.record")})
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
    """The sessions that match a query best. Those of too many that are only called so come after what was found, so that the order is the
    same on every page.
    """
    where = _leave_out(connection, terms, where)
    naming = matching.name_sessions(connection, terms)
    matches = _find_matches(connection, terms, where)
    find_shown = partial(_find_shown, connection, where=where)
    found, called, is_exact, is_complete = list[Found](), set[int](), False, True
    for named in _plan(naming, everything=recent or where.apart or bool(where.record)):
        called = _find_called(connection, terms, where, named, matches, naming.titled)
        score = partial(_score, connection, terms, matches, called, naming)
        more, is_complete = fold_enough(score, limit, find_shown, recent=recent)
        found = append_rest(found, more)
        is_exact = is_complete and named == naming.named
        if len(found) >= limit:
            break
    best = max(found, key=lambda one: one.score, default=None)
    hits = found[:limit] if is_exact else _complete(connection, terms, where, found[:limit], matches, naming)
    return Ranked(hits, len(found), is_exact, best, where)


def count_hits(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> int:
    """How many hits there are in all."""
    return rank_sessions(connection, terms, where, 1 << 40).total


def _plan(naming: Naming, *, everything: bool) -> list[frozenset[int]]:
    """The sessions that may be hits by their headings, first some and then all."""
    planned = list(dict.fromkeys([naming.first_named, naming.named]))
    return planned[-1:] if everything else planned


def _find_matches(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> Matches:
    """What matches, in the way that is quicker; both find the same."""
    are_many = sum(pattern.chunks for pattern in terms.patterns) > FEW_ROWS
    # To find a rare phrase statements read all of its words, however common these are; where there are arrays, it was found to be counted.
    has_phrase = any(len(pattern.stems) > 1 for pattern in terms.patterns)
    if terms.chunks > FEW_CHUNKS and (are_many or has_phrase):
        with suppress(apsw.TooBigError):  # a word in a hundred million places
            if (view := find_view(connection, read=are_many)) is not None:
                from sesamed.store.search.large import ManyMatches

                return ManyMatches(connection, view, terms, where)
    return matching.FewMatches(connection, terms, where)


def _score(
    connection: apsw.Connection, terms: Terms, matches: Matches, called: set[int], naming: Naming, count: int
) -> tuple[list[Scored], bool]:
    """The best so many sessions, and whether these are all."""
    best = matches.take(count, called, naming)
    _put_first_files_first(connection, best.chunks)
    measure_fit = partial(matching.measure_fit, connection, terms)
    scored = put_parts_last(fuse(best.chunks, called, naming, best.whole, terms, measure_fit))
    return take_best(scored, count, are_all=best.is_all)


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
    named: frozenset[int],
    matches: Matches,
    titled: Mapping[int, float],
) -> set[int]:
    """Of sessions that are called so, those of which no text matches. A fork's copies count for the session that they come from; the
    fork is found as well if its own title has more of the query."""
    sessions = [] if where.record else [session for session in named if not matches.has(session)]
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
    WITH RECURSIVE top(id) AS (SELECT id FROM sessions WHERE id IN carray(:sessions)),
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


def _complete(
    connection: apsw.Connection,
    terms: Terms,
    where: filters.Conditions,
    found: list[Found],
    matches: Matches,
    naming: Naming,
) -> list[Found]:
    """Hits with all that match of what is shown as one with them, also of what was not folded, or of very many that are called so."""
    rows = connection.execute(KIN, {"sessions": sqlite.numbers(hit.shown for hit in found)})
    kin = {session for (session,) in rows}
    called = _find_called(connection, terms, where, naming.named & kin, matches, naming.titled)
    near = [session for session in kin if matches.has(session) or session in called]
    members: dict[Group, dict[int, Team]] = {hit.group: {} for hit in found}
    for session, shown in _find_shown(connection, near, where).items():
        if shown.group in members:
            members[shown.group][session] = shown.team
    return [hit._replace(members={**members[hit.group], **hit.members}) for hit in found]


def narrow_to_kin(connection: apsw.Connection, where: filters.Conditions, session: int) -> filters.Conditions:
    """Of what passes the filters, all that is shown as one with a session, and all that share records with any of these; each by itself,
    and not the session again."""
    about = _find_shown(connection, [session], where)[session]
    near = {other for (other,) in connection.execute(KIN, {"sessions": sqlite.numbers([about.shown])})}
    shown = _find_shown(connection, near, where)
    kin = {session, *(other for other in near if shown[other].group == about.group)}
    kin |= {other for (other,) in connection.execute(SHARING, {"kin": sqlite.numbers(kin)})}
    narrow = filters.add_condition(where, "s.id IN carray(:kin)", kin=sqlite.numbers(kin - {session}))
    return narrow._replace(folds=False, apart=True)
