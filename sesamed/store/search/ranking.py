"""Ranked search: two halves are added, the best chunks of a session and the session as a whole; each by its best in this answer. Then hits
are shown as one: what subagents did as their parent's, and sessions of a project that begin alike as the best of them.

Docs: docs/search.md, with what each step is worth.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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


Team = int | tuple[str, str]  # a session with its subagents, or the subagents of a parent that is not in the index
Group = Team | tuple[str, int]  # teams of a project that begin alike


class Found(NamedTuple):
    """A session to show, the one that really matched, its best chunk (None: only its heading matches), its score, and all that match of
    those that are shown as one, each with its team.
    """

    shown: int
    session: int
    chunk: int | None
    score: float
    group: Group
    team: Team
    members: Mapping[int, Team]

    @property
    def subagents(self) -> int:
        """How many others of the team match."""
        return sum(team == self.team for session, team in self.members.items() if session != self.shown)

    @property
    def similar(self) -> frozenset[int]:
        """Those that match in other teams."""
        return frozenset(session for session, team in self.members.items() if team != self.team)


class Ranked(NamedTuple):
    """The first hits; how many there are, or, unless that is exact, at least; the best of all that were looked at; and the filters, with
    what the query itself leaves out."""

    hits: list[Found]
    total: int
    is_exact: bool
    best: Found | None
    where: filters.Conditions


class Scored(NamedTuple):
    """A session's score and best chunk."""

    session: int
    chunk: int | None
    score: float
    has_word: bool = True


Order = tuple[int, str, str]  # newer ones first, then by name


class _Shown(NamedTuple):
    shown: int
    group: Group
    team: Team
    order: Order
    own_order: Order  # of the session itself, which may be a subagent


def rank_sessions(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, limit: int, *, recent: bool = False
) -> Ranked:
    """The sessions that match a query best. Each step looks at more than the one before; what it finds comes after what was found, so
    that the order is the same on every page.
    """
    where = _leave_out(connection, terms, where)
    counted = matching.count_patterns(connection, terms)
    whole = matching.score_sessions(connection, counted)
    found, is_exact = list[Found](), False
    for step, named in _plan(terms, counted, everything=recent or where.apart or bool(where.record)):
        chunks = _choose_chunks(connection, matching.find_best(connection, terms, where, step), terms)
        called = (
            set() if where.record else _find_called(connection, terms, where, named - chunks.keys(), counted.titled)
        )
        scored = _put_parts_last(_fuse(connection, chunks, called, counted, whole, terms), hidden=step.only_words)
        more, is_complete = _fold_enough(connection, scored, where, limit, recent=recent)
        found = append_rest(found, more)
        is_exact = is_complete and step == matching.EVERYTHING and named == counted.named
        if len(found) >= limit:
            break
    best = max(found, key=lambda one: one.score, default=None)
    return Ranked(found[:limit], len(found), is_exact, best, where)


def count_hits(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> int:
    """How many hits there are in all."""
    return rank_sessions(connection, terms, where, 1 << 40).total


def _plan(terms: Terms, counted: matching.Counts, *, everything: bool) -> list[tuple[matching.Step, frozenset[int]]]:
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


def is_weak(terms: Terms, matched: Collection[str]) -> bool:
    """Whether the best hit, which contains these words, is hardly relevant: rare words weigh more than common ones."""
    if len(terms.terms) >= MANY_WORDS and len(matched) <= 1:
        return True
    whole = sum(terms.weigh(term) for term in terms.terms)
    held = sum(terms.weigh_found(term) for term in terms.terms if term.word.text in matched)
    return held < ENOUGH * whole


def _fuse(
    connection: apsw.Connection,
    chunks: Mapping[int, list[matching.Matched]],
    called: set[int],
    counted: matching.Counts,
    whole: Mapping[int, float],
    terms: Terms,
) -> dict[int, Scored]:
    one_word = len(terms.terms) == 1
    halves = {session: _damp(some) for session, some in chunks.items()}
    with_messages = {session for session, some in chunks.items() if one_word and some[0].is_message}
    most = max((halves[session] for session in with_messages or halves), default=0.0) or 1.0
    sessions = chunks.keys() | called
    most_whole = max((whole.get(session, 0.0) for session in sessions), default=0.0) or 1.0
    fit = 1.0
    if halves and counted.titled and not one_word:  # otherwise it changes no order
        best_chunks = (chunks[session][0].chunk for session, half in halves.items() if half == most)
        fit = matching.measure_fit(connection, terms, best_chunks) or 1.0
    result = {}
    for session in sessions:
        share = counted.titled.get(session, 0.0)
        score = max(halves.get(session, 0.0) / most, TITLE_FLOOR * share)
        score = fit * (score + SESSION_SHARE * whole.get(session, 0.0) / most_whole)
        score += TITLE_BONUS * share**2 * (not one_word)
        if session in with_messages or (one_word and (share or session in called)):
            score += MESSAGES_FIRST
        best = chunks[session][0] if session in chunks else None
        has_word = session in counted.headed or (best is not None and best.has_word)
        result[session] = Scored(session, None if best is None else best.chunk, score, has_word)
    return result


def _choose_chunks(
    connection: apsw.Connection, chunks: list[matching.Matched], terms: Terms
) -> dict[int, list[matching.Matched]]:
    """The chunks of each session that count, the best first: those with a word of the query, if there are any; then, if it is a single
    word, those in which it was said. Of equal ones the first of the session is the best."""
    one_word = len(terms.terms) == 1
    by_session: dict[int, list[matching.Matched]] = defaultdict(list)
    for chunk in chunks:
        by_session[chunk.session].append(chunk)
    for session, some in by_session.items():
        some.sort(key=lambda one: (not one.has_word, one_word and not one.is_message, -one.score, one.place))
        first = some[0]
        by_session[session] = [
            one
            for one in some
            if one.has_word == first.has_word and (not one_word or one.is_message == first.is_message)
        ]
    _put_first_files_first(connection, by_session)
    return by_session


def _put_first_files_first(connection: apsw.Connection, chunks: dict[int, list[matching.Matched]]) -> None:
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


def _put_parts_last(scored: Mapping[int, Scored], *, hidden: bool) -> list[Scored]:
    """Sessions with only parts of words (`package` of `package.json`) come below those with a word, once all of those are found."""
    with_word = [one for one in scored.values() if one.has_word]
    parts = [one for one in scored.values() if not one.has_word]
    if hidden or not (with_word and parts):
        return with_word if hidden else with_word or parts
    factor = 0.99 * min(one.score for one in with_word) / max(one.score for one in parts)
    return [*with_word, *(one._replace(score=one.score * min(1.0, factor)) for one in parts)]


def _damp(chunks: list[matching.Matched]) -> float:
    return sum(share * one.score for share, one in zip(DAMPED, chunks, strict=False))


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


def _fold_enough(
    connection: apsw.Connection, scored: list[Scored], where: filters.Conditions, limit: int, *, recent: bool
) -> tuple[list[Found], bool]:
    """The best of them folded, as many as give so many hits, and whether these are all. Equal ones are folded together."""
    count = len(scored) if recent else max(LOOKED_AT, 4 * limit)
    while True:
        some = scored
        if count < len(scored):
            least = heapq.nlargest(count, [one.score for one in scored])[-1]
            some = [one for one in scored if one.score >= least]
        found = fold(connection, some, where, recent=recent)
        if len(found) >= limit or len(some) == len(scored):
            return found, len(some) == len(scored)
        count *= 4


def fold(connection: apsw.Connection, scored: list[Scored], where: filters.Conditions, *, recent: bool) -> list[Found]:
    """Fold subagents into their parents, or with others of a missing parent, and sessions of a project that begin alike into the best."""
    shown = _find_shown(connection, [one.session for one in scored], where)
    teams: dict[Team, list[Scored]] = defaultdict(list)
    for one in sorted(scored, key=lambda one: (-one.score, shown[one.session].order, shown[one.session].own_order)):
        teams[shown[one.session].team].append(one)
    heads = [(shown[team[0].session], team) for team in teams.values()]
    heads.sort(key=lambda head: (head[0].order[0] if recent else 0, -head[1][0].score, head[0].order))
    result: dict[Group, Found] = {}
    for about, team in heads:
        members = {one.session: about.team for one in team}
        if (first := result.get(about.group)) is not None:
            result[about.group] = first._replace(members={**first.members, **members})
            continue
        best = team[0]
        result[about.group] = Found(about.shown, best.session, best.chunk, best.score, about.group, about.team, members)
    return list(result.values())


def _find_shown(connection: apsw.Connection, sessions: Iterable[int], where: filters.Conditions) -> dict[int, _Shown]:
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
        result[session] = _Shown(shown, group, team, (order[0], order[1], order[2]), (order[3], order[4], order[5]))
    return result


def append_rest(found: list[Found], more: list[Found]) -> list[Found]:
    """These hits, followed by those of a longer list that are not among them: the order is the same on every page."""
    if not found:
        return more
    longer = {hit.group: hit for hit in more}
    known = {hit.group for hit in found}
    whole = [
        hit._replace(members={**longer[hit.group].members, **hit.members}) if hit.group in longer else hit
        for hit in found
    ]
    least = found[-1].score
    whole += [hit._replace(score=min(hit.score, least)) for hit in more if hit.group not in known]
    return whole


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
