"""Which session is meant: by its id, by a part of it, by its name; or one that it was begun from."""

import re
from typing import NamedTuple

import apsw

from sesamed.errors import AmbiguousError, NotFoundError
from sesamed.sanitize import clean_line
from sesamed.store import sqlite
from sesamed.store.reading import names, summaries

ANCESTOR = re.compile(r"(.+)~(\d{0,3})", re.DOTALL)
MAX_NAMED = 20_000  # sessions whose names are compared, the latest ones
SHOWN_CHARACTERS = 200


class Project(NamedTuple):
    """Where somebody asks from: sessions of this project are meant rather than others."""

    cwd: str
    main: str | None  # the repository's main worktree


def resolved(connection: apsw.Connection, reference: str, project: Project | None) -> int:
    """The session that is meant. An id may end in `~2`, so that comes first; else `~N` goes to the N-th ancestor."""
    found = summaries.exact(connection, reference)
    if not found and (match := ANCESTOR.fullmatch(reference)):
        session = _one(connection, match[1], project)
        return _ancestor(connection, session, int(match[2] or 1), reference)
    return _one(connection, reference, project)


def _one(connection: apsw.Connection, reference: str, project: Project | None) -> int:
    if found := summaries.exact(connection, reference):
        return _chosen(connection, reference, found, project)
    beginning = summaries.beginning(connection, reference)
    if len(beginning) == 1:
        return beginning[0]
    sql = """
        SELECT id, name FROM sessions WHERE name IS NOT NULL AND NOT subagent ORDER BY modified_ms DESC LIMIT ?
    """
    known = dict(sqlite.rows(connection, sql, (MAX_NAMED,)))
    # Several ids that begin so: somebody who wrote a whole name did not mean an id.
    found = names.same(reference, known) or beginning or names.like(reference, known)
    if not found:
        raise NotFoundError(
            f"no session is called {_shown(reference)}, nor has an id that begins so; `sesamectl list` shows what there is",
            ref=_shown(reference),
        )
    return _chosen(connection, reference, found, project)


def _chosen(connection: apsw.Connection, reference: str, found: list[int], project: Project | None) -> int:
    """The only one, or the only one of the project."""
    here = [session for session in found if project is not None and _is_of(connection, session, project)]
    if len(found) == 1 or len(here) == 1:
        return (here if len(here) == 1 else found)[0]
    likely = [*here, *(session for session in found if session not in set(here))]
    raise AmbiguousError(
        f"{_shown(reference)} fits {len(found)} sessions; give an id, or more of the name",
        candidates=summaries.candidates(connection, likely),
        sessions=summaries.described(connection, likely),
    )


def _is_of(connection: apsw.Connection, session: int, project: Project) -> bool:
    cwd, path = sqlite.one(connection, "SELECT cwd, project_path FROM sessions WHERE id = ?", (session,))
    inside = cwd is not None and (cwd == project.cwd or cwd.startswith(project.cwd.rstrip("/") + "/"))
    return inside or (path is not None and path == project.main)


def _ancestor(connection: apsw.Connection, session: int, count: int, reference: str) -> int:
    for step in range(count):
        parent = summaries.parent(connection, session)
        if parent is None:
            raise NotFoundError(
                f"{_shown(reference)}: the session has {step} indexed ancestors, not {count}", ref=_shown(reference)
            )
        session = parent
    return session


def _shown(reference: str) -> str:
    return repr(clean_line(reference)[:SHOWN_CHARACTERS])
