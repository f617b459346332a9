"""Filters as PostgreSQL's SQL: the same as in the index (`store.search.filters`), and those of machines and persons.

Values are always bound.
`s` is a session, `v` a message that is searched.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from sesamed.errors import RefusedError
from sesamed.model import iso
from sesamed.store.search.filters import Where


class Elsewhere(NamedTuple):
    """Whose sessions count: of which machines, projects (as they are called on all machines, or by their last names) and persons."""

    workstation: str | None = None
    project: str | None = None
    person: str | None = None
    without: str | None = None  # one's own machine: what it has shipped is there already


class Conditions(NamedTuple):
    """Conditions on sessions and on messages, and their values; whether the work of subagents is shown as their parent's."""

    session: str
    message: str
    values: dict[str, Any]
    folds: bool = True
    listed: str = "true"  # of sessions that are shown though no message of theirs matches

    @property
    def is_open(self) -> bool:
        """Whether everything passes."""
        return self.session == self.message == "true"


Values = dict[str, Any]
IS_EMPTY = """s.message_count = 0 AND s.total = 0 AND s.summary IS NULL AND s.description IS NULL AND s.tags = '{}'"""


def to_sql(where: Where, elsewhere: Elsewhere) -> Conditions:
    """All filters as conditions. Raises RefusedError for what a hub does not know."""
    if where.path is not None:
        raise RefusedError("path: the hub does not know which files a call touched; ask with scope here")
    values: Values = {}
    session = [part for make in SESSION if (part := make(where, values)) is not None]
    session += _list_elsewhere(elsewhere, values)
    message = [part for make in MESSAGE if (part := make(where, values)) is not None]
    listed = "true" if where.empty else f"NOT ({IS_EMPTY})"
    return Conditions(_join(session), _join(message), values, where.subagents == "include", listed)


def _join(parts: list[str]) -> str:
    return " AND ".join(f"({part})" for part in parts) or "true"


def _list_elsewhere(elsewhere: Elsewhere, values: Values) -> list[str]:
    parts = list[str]()
    if elsewhere.workstation is not None:
        values["workstation"] = elsewhere.workstation
        parts.append("s.workstation_id = %(workstation)s")
    if elsewhere.without is not None:
        values["without"] = elsewhere.without
        parts.append("NOT (s.owner = session_user AND s.workstation_id = %(without)s)")
    if elsewhere.person is not None:
        values["person"] = elsewhere.person
        parts.append("""s.owner = %(person)s OR (s.owner, s.workstation_id) IN (
            SELECT w.owner, w.workstation_id FROM sesame.hub_workstations w WHERE w.owner = session_user AND w.person = %(person)s)""")
    if elsewhere.project is not None:
        values["project"] = elsewhere.project.rstrip("/")
        values["project_ending"] = "%/" + re.sub(r"([%_\\])", r"\\\1", elsewhere.project.strip("/"))
        parts.append("s.project = %(project)s OR s.project_id = %(project)s OR s.project LIKE %(project_ending)s")
    return parts


def _cwd(where: Where, values: Values) -> str | None:
    if where.cwd is None:
        return None
    values["cwd"] = where.cwd.rstrip("/")
    below = "s.cwd = %(cwd)s OR starts_with(s.cwd, %(cwd)s || '/')"
    if where.cwd_project is None:
        return below
    values["cwd_project"] = where.cwd_project
    return f"{below} OR s.project_path = %(cwd_project)s"


def _after(where: Where, values: Values) -> str | None:
    if where.after is None:
        return None
    values["after"] = iso(where.after)
    return "s.modified >= %(after)s::timestamptz"


def _before(where: Where, values: Values) -> str | None:
    if where.before is None:
        return None
    values["before"] = iso(where.before)
    return "s.created < %(before)s::timestamptz"


def _source(where: Where, values: Values) -> str | None:
    return _is_one_of("s.source", "source", where.source, values)


def _exclude(where: Where, values: Values) -> str | None:
    if where.exclude is None:
        return None
    values["exclude"] = list(where.exclude)
    return """s.session_id <> ALL(%(exclude)s) AND s.source || ':' || s.session_id <> ALL(%(exclude)s)
        AND s.composite_key <> ALL(%(exclude)s) AND NOT (s.subagent
          AND s.parent_session_id IS NOT NULL AND s.parent_session_id = ANY(%(exclude)s))"""


def _subagents(where: Where, _: Values) -> str | None:
    return {"include": None, "exclude": "NOT s.subagent", "only": "s.subagent"}[where.subagents]


def _project(where: Where, values: Values) -> str | None:
    if where.project is None:
        return None
    values["project_id"] = where.project
    return "s.project_id = %(project_id)s"


def _role(where: Where, values: Values) -> str | None:
    part = _is_one_of("v.role", "role", where.role, values)
    return None if part is None else f"v.kind = 'message' AND {part}"


def _tool(where: Where, values: Values) -> str | None:
    """Calls of one of these tools, or of a tool of one of these families."""
    if where.tool is None and where.tool_family is None:
        return None
    families = where.tool_family or ()
    names = [*(where.tool or ()), *(name for name in families if not name.endswith("*"))]
    values["tool"] = [name.lower() for name in names]
    values["tool_begins"] = [name[:-1].lower() for name in families if name.endswith("*")]
    return """v.kind <> 'message' AND (lower(v.tool) = ANY(%(tool)s)
        OR EXISTS(SELECT 1 FROM unnest(%(tool_begins)s::text[]) AS b(begin) WHERE starts_with(lower(v.tool), b.begin)))"""


def _tools(where: Where, _: Values) -> str | None:
    return "v.kind <> 'message'" if where.tools else None


def _status(where: Where, values: Values) -> str | None:
    if where.status is None:
        return None
    values["is_error"] = where.status == "error"
    return """v.kind <> 'message' AND EXISTS(SELECT 1 FROM sesame.hub_messages m WHERE m.owner = v.owner
        AND m.workstation_id = v.workstation_id AND m.composite_key = v.composite_key AND m.msg_idx = v.msg_idx
        AND m.is_error = %(is_error)s)"""


def _is_one_of(column: str, name: str, given: tuple[str, ...] | None, values: Values) -> str | None:
    if given is None:
        return None
    values[name] = list(given)
    return f"{column} = ANY(%({name})s)"


Make = Callable[[Where, Values], str | None]
SESSION: tuple[Make, ...] = (_cwd, _after, _before, _source, _exclude, _subagents, _project)
MESSAGE: tuple[Make, ...] = (_role, _tool, _tools, _status)
