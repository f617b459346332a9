"""The filters of searches and lists, as clients write them; `store.search.filters` says what each means in SQL."""

import os
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, get_args

from sesamed.errors import ParamsError, RefusedError
from sesamed.ingest.project import project_of
from sesamed.methods.method import Context, Params
from sesamed.model import Role
from sesamed.sanitize import clean_line
from sesamed.sources import AGENTS, TOOL_FAMILIES
from sesamed.store.reading.resolve import find, strip_key
from sesamed.store.reading.session import list_tools
from sesamed.store.search import filters, ranking
from sesamed.store.search.spelling import distance
from sesamed.store.sqlite import Connection

OneOrMany = str | list[str] | None

DAY_MS = 86_400_000
UNIT_MS = {"min": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS, "mo": 30 * DAY_MS}
AGO = re.compile(r"([0-9]{1,6})(min|h|d|w|mo|m)")
MAX_VALUES = 1000  # of one filter: each is a variable of SQL, or is compared with names
ROLES: tuple[str, ...] = get_args(Role)
MAX_SHOWN = 64  # characters of what was asked for
NEAREST_TOOLS = 3


class Filters(Params, frozen=True, kw_only=True):
    """Which sessions and records to consider."""

    cwd: str | None = None
    after: str | None = None
    before: str | None = None
    source: OneOrMany = None
    role: OneOrMany = None
    tool: OneOrMany = None
    tool_family: OneOrMany = None
    exclude: OneOrMany = None
    tools: bool = False
    path: str | None = None
    status: Literal["success", "error"] | None = None
    subagents: Literal["include", "exclude", "only"] = "include"
    workstation: str | None = None
    project: str | None = None
    empty: bool = False


NO_FILTERS = Filters()
ON_THE_WIRE = dict(zip(Filters.__struct_fields__, Filters.__struct_encode_fields__, strict=True))
EVERYTHING = filters.to_sql(filters.Where())


async def make_condition(context: Context, params: Filters) -> filters.Conditions:
    """The filters as conditions for the store's statements."""
    if all(getattr(params, name) == getattr(NO_FILTERS, name) for name in Filters.__struct_fields__):
        return EVERYTHING
    return filters.to_sql(await make_where(context, params))


def narrow(connection: Connection, where: filters.Conditions, similar_to: str) -> filters.Conditions:
    """The same conditions, but only for what is shown as one with this session. Runs in a reader's thread."""
    return ranking.narrow_to_kin(connection, where, find(connection, similar_to))


async def make_where(context: Context, params: Filters) -> filters.Where:
    """The filters as the store takes them; most keep their name and value."""
    values = _convert(params, int(time.time() * 1000))
    if params.workstation == context.workstation:
        values["workstation"] = ""  # as the index has it
    if params.cwd is not None:
        values["cwd_project"] = await find_main_worktree(context, params.cwd, only_top=True)
    return filters.Where(**values)


def _convert(params: Filters, now_ms: int) -> dict[str, Any]:
    """The values as the store takes them; refuses names that do not exist."""
    values: dict[str, Any] = {name: getattr(params, name) for name in Filters.__struct_fields__}
    for name, value in values.items():
        if Filters.__annotations__[name] == OneOrMany and value is not None:
            values[name] = (value,) if isinstance(value, str) else tuple(value)
            if len(values[name]) > MAX_VALUES:
                raise ParamsError(f"{ON_THE_WIRE[name]}: at most {MAX_VALUES} values, not {len(values[name])}")
        elif name in ("after", "before") and value is not None:
            values[name] = to_milliseconds(value, name, now_ms)
    check_names("role", values["role"] or (), ROLES)
    check_names("source", values["source"] or (), AGENTS)
    check_names("toolFamily", values["tool_family"] or (), TOOL_FAMILIES)
    if values["tool"] is not None:
        values["tool"] = tuple(map(clean_line, values["tool"]))  # as they are indexed
    if values["tool_family"] is not None:
        values["tool_family"] = tuple(name for family in values["tool_family"] for name in TOOL_FAMILIES[family])
    if values["exclude"] is not None:
        values["exclude"] = tuple(map(strip_key, values["exclude"]))
    values["path"] = os.path.expanduser(params.path) if params.path else None
    return values


async def find_main_worktree(context: Context, cwd: str, *, only_top: bool = False) -> str | None:
    """The main worktree of the repository that contains a directory. With `only_top`, only if the directory is the top of a worktree: as
    a filter, that means all worktrees of the repository.
    """
    if not cwd.startswith("/"):
        raise RefusedError(f"cwd: {cwd[:200]!r} is a relative path; the daemon needs an absolute one")
    return await context.queries.run_in_thread(partial(_main_worktree, cwd, only_top))


def _main_worktree(cwd: str, only_top: bool) -> str | None:
    return None if only_top and not os.path.lexists(os.path.join(cwd, ".git")) else project_of(cwd)


def check_names(field: str, given: Iterable[str], names: Iterable[str]) -> None:
    """Refuse what is none of the names that there are; the message lists them, the nearest first, and asks for that if it is near."""
    there = tuple(names)
    for one in given:
        if one not in there:
            nearest = sort_by_distance(there, one)
            meant = f" (did you mean {nearest[0]}?)" if _are_alike(one, nearest[0]) else ""
            raise ParamsError(f"{field}: there is no {one[:MAX_SHOWN]!r}{meant}; expected {', '.join(nearest)}")


def _are_alike(typed: str, name: str) -> bool:
    """Whether one is a slip for the other: at most one letter of three is wrong."""
    most = len(typed[:MAX_SHOWN]) // 3
    return distance(typed[:MAX_SHOWN].lower(), name.lower(), most) <= most


def sort_by_distance(names: Iterable[str], to: str) -> list[str]:
    """The names, the nearest to this one first."""
    return sorted(names, key=lambda name: distance(to[:MAX_SHOWN].lower(), name[:MAX_SHOWN].lower(), MAX_SHOWN))


def warn_of_unknown_tools(connection: Connection, params: Filters) -> list[str]:
    """A name that no call has is no error: it may be a tool that was never used, but more often it is a slip."""
    asked = [params.tool] if isinstance(params.tool, str) else params.tool or []
    if not asked:
        return []
    called = {name.lower(): name for name in list_tools(connection)}
    return [
        f"no indexed call uses a tool named {name[:MAX_SHOWN]!r}{_name_nearest(called.values(), name)}"
        for name in map(clean_line, asked)
        if name.lower() not in called
    ]


def _name_nearest(called: Iterable[str], name: str) -> str:
    nearest = [one[:MAX_SHOWN] for one in sort_by_distance(called, name)[:NEAREST_TOOLS]]
    return f"; nearest: {', '.join(nearest)}" if nearest else ""


def to_milliseconds(text: str, name: str, now_ms: int) -> int:
    """The time that `30min`, `12h`, `7d`, `2w`, `1mo`, `2026-01-31` or an ISO time means; UTC unless it has a zone."""
    if ago := AGO.fullmatch(text.strip()):
        if ago[2] == "m":
            raise ParamsError(f"{name}: {ago[0]}: write {ago[1]}min or {ago[1]}mo")
        return now_ms - int(ago[1]) * UNIT_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        expected = "an ISO date or time (2026-01-31, 2026-01-31T12:00:00Z), or 30min, 12h, 7d, 2w, 1mo ago"
        raise ParamsError(f"{name}: {text[:MAX_SHOWN]!r} is not a time; expected {expected}") from None
