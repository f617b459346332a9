"""Hits that are shown as one: what subagents did as their parent's, and sessions of a project that begin alike as the best of them."""

from collections import defaultdict
from typing import NamedTuple

import apsw

from sesamed.store import sqlite
from sesamed.store.search import filters

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
    """A session to show, the one that really matched, its best chunk (None: only what it is called matches), how good that is, how
    many subagents are folded into it, and which other sessions are shown as this one because they begin alike."""

    shown: int
    session: int
    chunk: int | None
    score: float
    subagents: int
    similar: frozenset[int]


class Scored(NamedTuple):
    """A session's score and best chunk."""

    session: int
    chunk: int | None
    score: float


class _Shown(NamedTuple):
    shown: int
    alike: tuple[str, int] | None  # its project and how it begins
    order: tuple[int, str, str]  # newer ones first, then by name


def fold(connection: apsw.Connection, scored: list[Scored], where: filters.Conditions, *, recent: bool) -> list[Found]:
    """Subagents under their parents, then sessions of a project that begin alike under the best of them."""
    shown = _find_shown(connection, [one.session for one in scored], folds=where.folds)
    groups: dict[int, list[Scored]] = defaultdict(list)
    for one in sorted(scored, key=lambda one: (-one.score, shown[one.session].order, one.session)):
        groups[shown[one.session].shown].append(one)
    heads = [(group[0].score, shown[group[0].session], group) for group in groups.values()]
    heads.sort(key=lambda head: (head[1].order[0], -head[0], head[1].order) if recent else (-head[0], head[1].order))
    result: list[Found] = []
    place_of: dict[tuple[str, int], int] = {}
    for score, about, group in heads:
        if about.alike is not None and (place := place_of.setdefault(about.alike, len(result))) < len(result):
            first = result[place]
            result[place] = first._replace(similar=first.similar | {about.shown})
            continue
        subagents = sum(one.session != about.shown for one in group)
        result.append(Found(about.shown, group[0].session, group[0].chunk, score, subagents, frozenset()))
    return result


def _find_shown(connection: apsw.Connection, sessions: list[int], *, folds: bool) -> dict[int, _Shown]:
    target = f"CASE WHEN s.subagent THEN {SHOWN} ELSE s.id END" if folds else "s.id"
    sql = f"""
        SELECT s.id, o.id, o.project, o.opening, -o.modified_ms, o.source, o.public_id
        FROM sessions s CROSS JOIN sessions o ON o.id = {target} WHERE s.id IN carray(?)
    """
    rows = connection.execute(sql, (sqlite.numbers(sessions),))
    return {
        session: _Shown(shown, None if opening is None else (project, opening), (newer, source, name))
        for session, shown, project, opening, newer, source, name in rows
    }


def append_rest(found: list[Found], more: list[Found]) -> list[Found]:
    """Hits, and after them those of a longer list that are none of them: the order is the same on every page."""
    place_of = {session: place for place, hit in enumerate(found) for session in (hit.shown, *hit.similar)}
    whole = list(found)
    for hit in more:
        sessions = hit.similar | {hit.shown}
        place = next((place_of[session] for session in sorted(sessions) if session in place_of), None)
        if place is None:
            whole.append(hit._replace(score=min(hit.score, found[-1].score)) if found else hit)
        else:
            known = whole[place]
            whole[place] = known._replace(similar=(known.similar | sessions) - {known.shown})
    return whole
