"""Hits that are shown as one: what subagents did as their parent's, and sessions of a project that begin alike as the best of them.
No statements: what belongs together, the index or a hub says.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sesamed.store.search.scoring import Scored

LOOKED_AT = 50  # so many sessions are folded together at first; what is below cannot come on the page
ALL_OF = 100  # where there are no more they all are, so that their number is exact
ALL = 1 << 40


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
    strength: float | None = None

    @property
    def subagents(self) -> int:
        """How many others of the team match."""
        return sum(team == self.team for session, team in self.members.items() if session != self.shown)

    @property
    def similar(self) -> frozenset[int]:
        """Those that match in other teams."""
        return frozenset(session for session, team in self.members.items() if team != self.team)


Order = tuple[int, str, str]  # newer ones first, then by name


class Shown(NamedTuple):
    """What a session is shown as, and with which others."""

    shown: int
    group: Group
    team: Team
    order: Order
    own_order: Order  # of the session itself, which may be a subagent


def fold_enough(
    score: Callable[[int], tuple[list[Scored], bool]],
    limit: int,
    find_shown: Callable[[Iterable[int]], Mapping[int, Shown]],
    *,
    recent: bool,
) -> tuple[list[Found], bool]:
    """The best sessions folded, as many as give so many hits, and whether these are all. `score` gives the best so many, all that are as
    good as the last of them, and whether there are no others."""
    count = ALL if recent else max(LOOKED_AT, 4 * limit)
    while True:
        scored, is_all = score(count)
        found = fold(scored, find_shown([one.session for one in scored]), recent=recent)
        if len(found) >= limit or is_all:
            return found, is_all
        count *= 4


def are_few(sessions: int, count: int) -> bool:
    """Whether all of so many are folded, where so many are wanted."""
    return sessions <= max(count, ALL_OF)


def take_best(scored: list[Scored], count: int, *, are_all: bool = True) -> tuple[list[Scored], bool]:
    """The best so many, all that are as good as the last of them, and whether there are no others. Unless these are all that match, some
    may be better than the last ones of them."""
    if len(scored) <= count or (are_all and are_few(len(scored), count)):
        return scored, are_all
    least = heapq.nlargest(count, [one.score for one in scored])[-1]
    best = [one for one in scored if one.score >= least]
    return best, are_all and len(best) == len(scored)


def fold(scored: list[Scored], shown: Mapping[int, Shown], *, recent: bool) -> list[Found]:
    """Fold subagents into their parents, or with others of a missing parent, and sessions of a project that begin alike into the best."""
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
        result[about.group] = Found(
            about.shown, best.session, best.chunk, best.score, about.group, about.team, members, best.strength
        )
    return list(result.values())


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
