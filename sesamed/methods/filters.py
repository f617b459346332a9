"""The filters of searches and lists, as clients write them; `store.search.filters` says what each means in SQL."""

import os
import re
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from sesamed.errors import ParamsError, RefusedError
from sesamed.ingest.project import project_of
from sesamed.methods.method import Context, Params
from sesamed.sanitize import clean_line
from sesamed.store.search import filters

OneOrMany = str | list[str] | None

UNIT_MS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "m": 30 * 86_400_000}
AGO = re.compile(r"([0-9]{1,6})([hdwm])")


class Filters(Params, frozen=True, kw_only=True):
    """Which sessions and records to consider."""

    cwd: str | None = None
    after: str | None = None
    before: str | None = None
    source: OneOrMany = None
    role: OneOrMany = None
    tool: OneOrMany = None
    exclude: OneOrMany = None
    tools: bool = False
    path: str | None = None
    status: Literal["success", "error"] | None = None
    subagents: Literal["include", "exclude", "only"] = "include"
    workstation: str | None = None
    project: str | None = None


NO_FILTERS = Filters()
EVERYTHING = filters.to_sql(filters.Where())


async def make_condition(context: Context, params: Filters) -> filters.Conditions:
    """The filters as conditions for the store's statements."""
    if all(getattr(params, name) == getattr(NO_FILTERS, name) for name in Filters.__struct_fields__):
        return EVERYTHING
    return filters.to_sql(await make_where(context, params))


async def make_where(context: Context, params: Filters) -> filters.Where:
    """The filters as the store takes them; most keep their name and value."""
    values: dict[str, Any] = {name: getattr(params, name) for name in Filters.__struct_fields__}
    now_ms = int(time.time() * 1000)
    for name, value in values.items():
        if Filters.__annotations__[name] == OneOrMany and value is not None:
            values[name] = (value,) if isinstance(value, str) else tuple(value)
        elif name in ("after", "before") and value is not None:
            values[name] = to_milliseconds(value, name, now_ms)
    if values["tool"] is not None:
        values["tool"] = tuple(map(clean_line, values["tool"]))  # as they are indexed
    if (workstation := values.pop("workstation")) is not None:
        values["here"] = workstation == context.workstation
    if params.cwd is not None:
        values["cwd_project"] = await find_main_worktree(context, params.cwd, only_top=True)
    values["path"] = params.path or None
    return filters.Where(**values)


async def find_main_worktree(context: Context, cwd: str, *, only_top: bool = False) -> str | None:
    """The main worktree of the repository that contains a directory. With `only_top`, only if the directory is the top of a worktree: as
    a filter, that means all worktrees of the repository.
    """
    if not cwd.startswith("/"):
        raise RefusedError(f"cwd: {cwd[:200]!r} is a relative path; the daemon needs an absolute one")
    return await context.queries.run_in_thread(partial(_main_worktree, cwd, only_top))


def _main_worktree(cwd: str, only_top: bool) -> str | None:
    return None if only_top and not os.path.lexists(os.path.join(cwd, ".git")) else project_of(cwd)


def to_milliseconds(text: str, name: str, now_ms: int) -> int:
    """The time that `12h`, `7d`, `2w`, `1m`, `2026-01-31` or an ISO time means; UTC unless it has a zone."""
    if ago := AGO.fullmatch(text.strip()):
        return now_ms - int(ago[1]) * UNIT_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        expected = "an ISO date or time (2026-01-31, 2026-01-31T12:00:00Z), or 12h, 7d, 2w, 1m ago"
        raise ParamsError(f"{name}: {text[:64]!r} is not a time; expected {expected}") from None
