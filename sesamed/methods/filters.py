"""The filters of searches and lists, as clients write them; `store.search.filters` says what each means in SQL."""

import os
import re
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, get_args

from sesamed.errors import ParamsError, RefusedError
from sesamed.ingest.project import project_of
from sesamed.methods.method import Context, Params
from sesamed.methods.times import LOCAL, Clock, Span, day_around, list_known, read_clock, read_span
from sesamed.model import Role
from sesamed.sanitize import clean_line
from sesamed.sources import AGENTS, TOOL_FAMILIES
from sesamed.store.reading.resolve import find, strip_key
from sesamed.store.reading.session import list_tools
from sesamed.store.search import filters, ranking
from sesamed.store.search.spelling import distance
from sesamed.store.sqlite import Connection

OneOrMany = str | list[str] | None

TIMES = ("after", "before", "until", "on")
A_TIME = (
    "an ISO date or time (2026-01-31, 2026-01-31T12:00:00Z), 30min, 12h, 7d, 2w, 1mo ago, or words "
    "(yesterday, monday, last week, april, 3 days ago)"
)
PROJECT_ID = re.compile("[0-9a-f]{8}")
MAX_VALUES = 1000  # of one filter: each is a variable of SQL, or is compared with names
ROLES: tuple[str, ...] = get_args(Role)
MAX_SHOWN = 64  # characters of what was asked for
NEAREST_TOOLS = 3
MOST_UNKNOWN = 3  # tools of which the nearest are told: to compare 1,000 names with 1,500 took a minute


class Filters(Params, frozen=True, kw_only=True):
    """Which sessions and records to consider."""

    cwd: str | None = None
    after: str | None = None
    before: str | None = None
    until: str | None = None
    on: str | None = None
    time_zone: str | None = None
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
NARROWING = tuple(name for name in Filters.__struct_fields__ if name != "time_zone")
ON_THE_WIRE = dict(zip(Filters.__struct_fields__, Filters.__struct_encode_fields__, strict=True))
EVERYTHING = filters.to_sql(filters.Where())


async def make_condition(context: Context, params: Filters) -> filters.Conditions:
    """The filters as conditions for the store's statements."""
    if all(getattr(params, name) == getattr(NO_FILTERS, name) for name in NARROWING):
        return EVERYTHING
    return filters.to_sql(await make_where(context, params))


def narrow(connection: Connection, where: filters.Conditions, similar_to: str) -> filters.Conditions:
    """The same conditions, but only for what is shown as one with this session. Runs in a reader's thread."""
    return ranking.narrow_to_kin(connection, where, find(connection, similar_to))


async def make_where(context: Context, params: Filters) -> filters.Where:
    """The filters as the store takes them; most keep their name and value."""
    values = _convert(params, await find_clock(context, params))
    if params.workstation == context.workstation:
        values["workstation"] = ""  # as the index has it
    if params.project is not None and is_project_name(params.project):
        values["project"] = None  # `whose` knows which are meant
    if params.cwd is not None:
        values["cwd_project"] = await find_main_worktree(context, params.cwd, only_top=True)
    return filters.Where(**values)


def is_project_name(project: str) -> bool:
    """Whether a project is meant by what it is called, and not by a part of keys."""
    return PROJECT_ID.fullmatch(project) is None


async def find_clock(context: Context, params: Filters) -> Clock:
    """What time it is for whoever asks."""
    read = partial(read_clock, int(time.time() * 1000), params.time_zone)
    try:
        return read() if params.time_zone in (None, LOCAL) else await context.queries.run_in_thread(read)  # a file
    except ValueError as error:
        raise ParamsError(f"timeZone: {error}") from None


def _convert(params: Filters, clock: Clock) -> dict[str, Any]:
    """The values as the store takes them; refuses names that do not exist."""
    values: dict[str, Any] = {name: getattr(params, name) for name in NARROWING if name not in TIMES}
    values["after"], values["before"] = read_bounds(params, clock)
    for name, value in values.items():
        if Filters.__annotations__[name] == OneOrMany and value is not None:
            values[name] = (value,) if isinstance(value, str) else tuple(value)
            if len(values[name]) > MAX_VALUES:
                raise ParamsError(f"{ON_THE_WIRE[name]}: at most {MAX_VALUES} values, not {len(values[name])}")
    check_names("role", values["role"] or (), ROLES)
    check_names("source", values["source"] or (), AGENTS)
    check_names("toolFamily", values["tool_family"] or (), TOOL_FAMILIES)
    if values["tool"] is not None:
        values["tool"] = tuple(map(clean_line, values["tool"]))  # as they are indexed
    if values["tool_family"] is not None:
        values["tool_family"] = tuple(
            name for family in dict.fromkeys(values["tool_family"]) for name in TOOL_FAMILIES[family]
        )
    if values["exclude"] is not None:
        values["exclude"] = tuple(map(strip_key, values["exclude"]))
    values["path"] = _expand(params.path) if params.path else None
    return values


def _expand(path: str) -> str:
    """With one's own home directory for `~`. Others' are not looked up, which may ask the network."""
    return os.path.expanduser(path) if path == "~" or (path.startswith("~/") and "\0" not in path) else path


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
    unknown = [name for name in map(clean_line, asked) if name.lower() not in called]
    warnings = [
        f"no indexed call uses a tool named {name[:MAX_SHOWN]!r}{_name_nearest(called.values(), name)}"
        for name in unknown[:MOST_UNKNOWN]
    ]
    if len(unknown) > MOST_UNKNOWN:
        warnings.append(f"nor do indexed calls use {len(unknown) - MOST_UNKNOWN} other tools that are asked for")
    return warnings


def _name_nearest(called: Iterable[str], name: str) -> str:
    nearest = [one[:MAX_SHOWN] for one in sort_by_distance(called, name)[:NEAREST_TOOLS]]
    return f"; nearest: {', '.join(nearest)}" if nearest else ""


# -- times


def read_bounds(params: Filters, clock: Clock) -> tuple[int | None, int | None]:
    """From when on a session was active, and before when it began; of several bounds the narrowest."""
    spans = {name: _read_span(text, name, clock) for name in TIMES if (text := getattr(params, name)) is not None}
    if (on := spans.get("on")) is not None and on.begin_ms == on.end_ms:
        on = _read_day(on.begin_ms, params.on or "", clock)
    after = [span.begin_ms for span in (spans.get("after"), on) if span is not None]
    before = [spans["before"].begin_ms] if "before" in spans else []
    before += [span.end_ms for span in (spans.get("until"), on) if span is not None and span.end_ms is not None]
    return max(after, default=None), min(before, default=None)


def _read_day(moment_ms: int, text: str, clock: Clock) -> Span:
    try:
        return day_around(moment_ms, clock)
    except (ValueError, OverflowError, OSError):
        raise ParamsError(f"on: {text[:MAX_SHOWN]!r} is a time, but no calendar has the whole day") from None


def _read_span(text: str, name: str, clock: Clock) -> Span:
    try:
        return read_span(text, clock)
    except ValueError as error:
        if error.args:
            raise ParamsError(f"{name}: {error}") from None
        nearest = sort_by_distance(list_known(text), text)[0]
        meant = f" (did you mean {nearest}?)" if _are_alike(text, nearest) else ""
        raise ParamsError(f"{name}: {text[:MAX_SHOWN]!r} is not a time{meant}; expected {A_TIME}") from None
