"""Which session a reference means: an id, the beginning of one, a name, or an ancestor of any of these."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from sesamed.errors import AmbiguousError, NotFoundError
from sesamed.sanitize import clean_line
from sesamed.store import sqlite
from sesamed.store.reading import names
from sesamed.store.reading.summary import show_name
from sesamed.store.search.filters import IS_EMPTY
from sesamed.times import iso

ANCESTOR = re.compile(r"(.+)~(\d{0,3})", re.DOTALL)
MAX_CANDIDATES = 10
MAX_NAMED = 20_000  # sessions whose names are compared, the latest ones
SHOWN_CHARACTERS = 200


class Project(NamedTuple):
    """The project in which a reference was typed; its sessions are preferred."""

    cwd: str
    main: str | None  # the repository's main worktree


def resolve(connection: apsw.Connection, reference: str, project: Project | None) -> int:
    """The session that a reference means. Ids may end in `~2`, so they are tried first; otherwise `~N` is the N-th ancestor."""
    found = find_exact(connection, reference)
    if not found and (match := ANCESTOR.fullmatch(reference)):
        session = _resolve_one(connection, match[1], project)
        return _find_ancestor(connection, session, int(match[2] or 1), reference)
    return _resolve_one(connection, reference, project)


def _resolve_one(connection: apsw.Connection, reference: str, project: Project | None) -> int:
    if found := find_exact(connection, reference):
        return _choose(connection, reference, found, project)
    beginning = find_beginning(connection, reference)
    if len(beginning) == 1:
        return beginning[0]
    sql = f"""
        SELECT s.id, s.name FROM sessions s WHERE s.name IS NOT NULL AND NOT s.subagent AND NOT ({IS_EMPTY})
        ORDER BY s.modified_ms DESC LIMIT ?
    """
    known = dict(sqlite.rows(connection, sql, (MAX_NAMED,)))
    # Several ids that begin so: somebody who wrote a whole name did not mean an id.
    found = names.find_same(reference, known) or beginning or names.find_like(reference, known)
    if not found:
        hint = _hint(connection, reference, "`sesamectl list` shows the sessions")
        raise NotFoundError(
            f"no session is called {_quote(reference)}, and no id starts with it; {hint}", ref=_quote(reference)
        )
    return _choose(connection, reference, found, project)


def _choose(connection: apsw.Connection, reference: str, found: list[int], project: Project | None) -> int:
    """The only session, or the only one of the project."""
    here = [session for session in found if project is not None and _is_of(connection, session, project)]
    if len(found) == 1 or len(here) == 1:
        return (here if len(here) == 1 else found)[0]
    likely = [*here, *(session for session in found if session not in set(here))]
    raise AmbiguousError(
        f"{_quote(reference)} fits {len(found)} sessions; use an id, or more of the name",
        candidates=list_candidates(connection, likely),
        sessions=describe(connection, likely),
    )


def _is_of(connection: apsw.Connection, session: int, project: Project) -> bool:
    cwd, path = sqlite.one(connection, "SELECT cwd, project_path FROM sessions WHERE id = ?", (session,))
    inside = cwd is not None and (cwd == project.cwd or cwd.startswith(project.cwd.rstrip("/") + "/"))
    return inside or (path is not None and path == project.main)


def _find_ancestor(connection: apsw.Connection, session: int, count: int, reference: str) -> int:
    for step in range(count):
        parent = find_parent(connection, session)
        if parent is None:
            raise NotFoundError(
                f"{_quote(reference)}: the session has {step} indexed ancestors, not {count}", ref=_quote(reference)
            )
        session = parent
    return session


def find(connection: apsw.Connection, reference: str) -> int:
    """The session with this id (with or without `source:`), or the only one whose id starts with it."""
    found = find_exact(connection, reference) or find_beginning(connection, reference)
    if not found:
        hint = _hint(connection, reference, "`sesamectl search` and list_sessions show the ids")
        raise NotFoundError(
            f"no session {_quote(reference)} in the index; {hint}", sessionId=reference[:SHOWN_CHARACTERS]
        )
    if len(found) > 1:
        raise AmbiguousError(
            f"{_quote(reference)} fits {len(found)} sessions; use more of the id, or source:id",
            candidates=list_candidates(connection, found),
        )
    return found[0]


def find_exact(connection: apsw.Connection, reference: str) -> list[int]:
    """The sessions with this id; several if sources share one."""
    sql = "SELECT id FROM sessions WHERE public_id = ?"
    found = sqlite.rows(connection, sql, (reference,))
    if not found and ":" in reference:
        sql += " AND source = ?"
        source, _, public_id = reference.partition(":")
        found = sqlite.rows(connection, sql, (public_id, source))
    return [session for (session,) in found]


def find_beginning(connection: apsw.Connection, prefix: str) -> list[int]:
    """The sessions whose id starts with this."""
    if not prefix:
        return []
    sql = "SELECT id FROM sessions WHERE public_id >= ? AND public_id < ? ORDER BY public_id LIMIT 1000"
    return [session for (session,) in sqlite.rows(connection, sql, (prefix, prefix + "\U0010ffff"))]


def _hint(connection: apsw.Connection, reference: str, otherwise: str) -> str:
    """What to say of a session that is not in the index: its subagents, if those are."""
    sql = "SELECT public_id FROM sessions WHERE parent_id = ? AND subagent ORDER BY modified_ms DESC, public_id LIMIT ?"
    orphans = [clean_line(name) for (name,) in sqlite.rows(connection, sql, (reference, MAX_CANDIDATES))]
    return f"its subagents are: {', '.join(orphans)}" if orphans else otherwise


def list_candidates(connection: apsw.Connection, sessions: Sequence[int]) -> list[str]:
    """Some ids to choose from, each of which means one session only."""
    sql = """
        SELECT iif((SELECT count(*) FROM sessions o WHERE o.public_id = s.public_id) > 1, source || ':', '') || public_id
        FROM sessions s WHERE id = ?
    """
    return [str(sqlite.one(connection, sql, (session,))[0]) for session in sessions[:MAX_CANDIDATES]]


def describe(connection: apsw.Connection, sessions: Sequence[int]) -> list[dict[str, str | None]]:
    """The same sessions, with what distinguishes them for a person."""
    sql = "SELECT public_id, source, name, cwd, modified_ms FROM sessions WHERE id = ?"
    rows = (sqlite.one(connection, sql, (session,)) for session in sessions[:MAX_CANDIDATES])
    return [
        {"sessionId": public, "source": source, "name": show_name(name), "cwd": cwd, "modified": iso(modified)}
        for public, source, name, cwd, modified in rows
    ]


def find_parent(connection: apsw.Connection, session: int) -> int | None:
    """The session that this one was forked from, if it is indexed."""
    sql = """
        SELECT coalesce(
          (SELECT f.session FROM files f WHERE f.path = CAST(s.parent_path AS BLOB) AND f.session <> s.id),
          (SELECT o.id FROM sessions o WHERE o.source = s.source AND o.native_id = s.parent_id AND o.id <> s.id ORDER BY ordinal LIMIT 1))
        FROM sessions s WHERE s.id = ?
    """
    found = sqlite.one(connection, sql, (session,))[0]
    return None if found is None else int(found)


def _quote(reference: str) -> str:
    return repr(clean_line(reference)[:SHOWN_CHARACTERS])
