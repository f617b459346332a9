"""Filters as SQL. One table says what each filter means and whether it applies to sessions (`s`), to records (`r`), or only to
sessions that are shown though no record of theirs matches (`listed`): in lists, and by their headings.

All act before LIMIT. What a client sends is made into a Where by the server: times in milliseconds, one or many as many.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from sesamed import folding
from sesamed.folding import fold_here
from sesamed.model import NameRank
from sesamed.store import ids


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions and records count."""

    cwd: str | None = None
    cwd_project: str | None = None  # where cwd is the top of a worktree: its repository's main one
    after: int | None = None
    before: int | None = None
    source: tuple[str, ...] | None = None
    role: tuple[str, ...] | None = None
    tool: tuple[str, ...] | None = None
    tool_family: tuple[str, ...] | None = None  # the names of its tools; `*` at the end stands for the rest of a name
    exclude: tuple[str, ...] | None = None
    tools: bool = False
    path: str | None = None
    status: Literal["success", "error"] | None = None
    subagents: Literal["include", "exclude", "only"] = "include"
    workstation: str | None = None  # empty: this one
    project: str | None = None
    empty: bool = False  # also sessions that nothing is known of but that they exist


Values = dict[str, Any]

IS_CALL = ids.sql_is_call("r")

# Begun and left: nothing was said or done in it, nobody has said anything of it, and no subagent has worked for it.
NOTHING_DONE = """s.messages = 0 AND s.tool_calls = 0 AND s.base IS NULL AND s.source <> 'sesame'
    AND s.summary IS NULL AND s.description IS NULL AND coalesce(s.tags, '[]') = '[]'
    AND NOT EXISTS(SELECT 1 FROM sessions c WHERE c.parent_id = s.native_id AND c.source = s.source AND c.subagent
      AND c.messages + c.tool_calls > 0)"""
IS_EMPTY = f"{NOTHING_DONE} AND s.title IS NULL"
# An agent's title of such a session is no answer to a question; a person's is.
ONLY_TITLED = f"""{NOTHING_DONE} AND NOT EXISTS(SELECT 1 FROM facts a
    WHERE a.native_id = s.native_id AND a.native_id <> '' AND a.source = s.source AND a.field = 'name'
      AND a.rank = {NameRank.ANNOTATED:d})"""


class Filter(NamedTuple):
    """A filter's scope, and its condition; None if it is not set."""

    scope: Literal["session", "record", "listed"]
    sql: Callable[[Where, Values], str | None]


class Conditions(NamedTuple):
    """Conditions and their values; whether the work of subagents is shown as their parent's; and whether nothing is shown as one."""

    session: str
    record: str
    values: Values
    folds: bool = True
    listed: str = ""
    called: str = ""  # of sessions that are found by their headings
    apart: bool = False


def to_sql(where: Where) -> Conditions:
    """All filters as conditions, one for each scope; an empty one means none."""
    values: Values = {}
    parts: dict[str, list[str]] = {"session": [], "record": [], "listed": []}
    for scope, sql in FILTERS.values():
        if (part := sql(where, values)) is not None:
            parts[scope].append(f"({part})")
    session, record, listed = (" AND ".join(some) for some in parts.values())
    called = "" if where.empty else f"NOT ({ONLY_TITLED})"
    return Conditions(session, record, values, where.subagents == "include", listed, called)


def add_condition(where: Conditions, sql: str, **values: Any) -> Conditions:
    """One more condition on sessions."""
    session = f"{where.session} AND {sql}" if where.session else sql
    return where._replace(session=session, values={**where.values, **values})


def of_person(where: Conditions, person: str, *, is_own: bool) -> Conditions:
    """Only sessions of this person's that are followed, and one's own, if they are theirs."""
    own = " OR s.person IS NULL" if is_own else ""
    return add_condition(where, f"(s.person = :person{own})", person=person)


def of_projects(where: Conditions, paths: list[str]) -> Conditions:
    """Only sessions of the projects with these main worktrees."""
    return add_condition(
        where, "s.project_path IN (SELECT value FROM json_each(:projects))", projects=json.dumps(paths)
    )


def _cwd(where: Where, values: Values) -> str | None:
    if where.cwd is None:
        return None
    values["cwd"] = fold_here(where.cwd.rstrip("/"))
    below = "s.cwd = :cwd OR (s.cwd >= :cwd || '/' AND s.cwd < :cwd || '0')"
    top = "s.project_path"
    if folding.FOLDS:
        below, top = "instr(fold_here(s.cwd) || '/', :cwd || '/') = 1", "fold_here(s.project_path)"
    if where.cwd_project is None:
        return below
    values["cwd_project"] = fold_here(where.cwd_project)
    return f"{below} OR {top} = :cwd_project"


def _after(where: Where, values: Values) -> str | None:
    return _is_set(where.after, "after", values, "s.modified_ms >= :after")


def _before(where: Where, values: Values) -> str | None:
    return _is_set(where.before, "before", values, "s.created_ms < :before")


def _source(where: Where, values: Values) -> str | None:
    return None if where.source is None else f"s.source IN ({_many('source', where.source, values)})"


def _role(where: Where, values: Values) -> str | None:
    return None if where.role is None else f"NOT ({IS_CALL}) AND r.role IN ({_many('role', where.role, values)})"


def _tool(where: Where, values: Values) -> str | None:
    """Calls of one of these tools, or of a tool of one of these families."""
    if where.tool is None and where.tool_family is None:
        return None
    families = where.tool_family or ()
    names = [*(where.tool or ()), *(name for name in families if not name.endswith("*"))]
    parts = [f"r.tool COLLATE NOCASE IN ({_many('tool', names, values)})"]
    for number, begin in enumerate(name[:-1] for name in families if name.endswith("*")):
        values[f"begin{number}"] = begin
        parts.append(f"substr(r.tool, 1, {len(begin)}) = :begin{number} COLLATE NOCASE")
    return f"{IS_CALL} AND ({' OR '.join(parts)})"


def _exclude(where: Where, values: Values) -> str | None:
    if where.exclude is None:
        return None
    names = _many("exclude", where.exclude, values)
    own = f"s.public_id NOT IN ({names}) AND s.source || ':' || s.public_id NOT IN ({names})"
    # Their hits would be shown as the parent's. One that names no parent is nobody's.
    return f"{own} AND NOT (s.subagent AND s.parent_id IS NOT NULL AND s.parent_id IN ({names}))"


def _tools(where: Where, _: Values) -> str | None:
    return IS_CALL if where.tools else None


def _path(where: Where, values: Values) -> str | None:
    if where.path is None:
        return None
    tail = values["tail"] = ids.path_key(where.path)
    values["below"] = tail if tail == "/" else f"/{tail}"
    if ids.is_absolute(where.path):
        match, below = "tail = :tail", "substr(tail, -length(:below)) = :below"
    else:
        values["after_tail"] = ids.after_path_key(tail)
        match, below = "tail >= :tail AND tail < :after_tail", "instr(tail, :below)"
    found = f"SELECT id FROM paths WHERE {below}"
    if where.path[-1] not in "/\\":  # else it is a directory
        found += f" UNION SELECT id FROM paths WHERE {match}"
    return f"""r.id IN (
        SELECT coalesce(c.record, t.place) FROM touched t
        LEFT JOIN copies c ON c.file = {ids.sql_file("t.place")} AND c.position = {ids.sql_position("t.place")}
        WHERE t.path IN ({found}))"""


def _status(where: Where, _: Values) -> str | None:
    return None if where.status is None else f"{IS_CALL} AND r.is_error = {int(where.status == 'error')}"


def _subagents(where: Where, _: Values) -> str | None:
    return {"include": None, "exclude": "NOT s.subagent", "only": "s.subagent"}[where.subagents]


def _workstation(where: Where, values: Values) -> str | None:
    return (
        "s.workstation IS NULL"
        if where.workstation == ""
        else _is_set(where.workstation, "station", values, "s.workstation = :station")
    )


def _project(where: Where, values: Values) -> str | None:
    return _is_set(where.project, "project", values, "s.project = :project")


def _empty(where: Where, _: Values) -> str | None:
    return None if where.empty else f"NOT ({IS_EMPTY})"


def _is_set(value: object, name: str, values: Values, sql: str) -> str | None:
    if value is None:
        return None
    values[name] = value
    return sql


def _many(name: str, items: Iterable[str], values: Values) -> str:
    names = []
    for number, item in enumerate(items):
        values[f"{name}{number}"] = item
        names.append(f":{name}{number}")
    return ", ".join(names)


FILTERS = {
    "cwd": Filter("session", _cwd),
    "after": Filter("session", _after),
    "before": Filter("session", _before),
    "source": Filter("session", _source),
    "role": Filter("record", _role),
    "tool": Filter("record", _tool),  # and `tool_family`: a call has one tool
    "exclude": Filter("session", _exclude),
    "tools": Filter("record", _tools),
    "path": Filter("record", _path),
    "status": Filter("record", _status),
    "subagents": Filter("session", _subagents),
    "workstation": Filter("session", _workstation),
    "project": Filter("session", _project),
    "empty": Filter("listed", _empty),
}
