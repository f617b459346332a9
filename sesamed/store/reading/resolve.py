"""Which session a reference means: an id, the beginning of one, a name, or an ancestor of any of these.

A name is its words: letters and digits in any case, joined by anything, so `confirm-button-refactor` is "Confirm button refactor".
Where none is just that, the nearest kind of likeness that any name has counts: the words follow each other in it, all stand in it
somewhere (or begin words of it), or they do so when one letter of a word (two of a long one) is mistyped.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import apsw

from sesamed.errors import AmbiguousError, NotFoundError
from sesamed.folding import fold_here
from sesamed.model import iso
from sesamed.sanitize import clean_line
from sesamed.store import beside, ids, sqlite
from sesamed.store.reading.summary import KEY, NEIGHBOURS, shorten, show_name
from sesamed.store.search.filters import IS_EMPTY
from sesamed.store.search.spelling import distance

T = TypeVar("T")

WORDS = re.compile(r"[^\W_]+")
MAX_CHARACTERS = 512
MAX_WORDS = 32
MISTYPED_FROM = 4  # shorter words are other words with one letter changed
LONG_FROM = 8


def split_words(name: str) -> tuple[str, ...]:
    """A name's words."""
    text = unicodedata.normalize("NFKC", name[:MAX_CHARACTERS]).casefold()
    return tuple(WORDS.findall(text)[:MAX_WORDS])


def find_same(reference: str, names: Mapping[T, str]) -> list[T]:
    """The names with the same words."""
    wanted = split_words(reference)
    return [key for key, name in names.items() if wanted and split_words(name) == wanted]


def find_like(reference: str, names: Mapping[T, str]) -> list[T]:
    """The names that are most similar."""
    wanted = split_words(reference)
    if not wanted:
        return []
    split = {key: split_words(name) for key, name in names.items()}
    for is_like in (_match_in_row, _match_beginnings, _match_mistyped):
        if found := is_like(wanted, split):
            return found
    return []


Names = Mapping[T, tuple[str, ...]]


def _match_in_row(wanted: tuple[str, ...], names: Names[T]) -> list[T]:
    """The words follow each other in the name; the last one may be a prefix."""
    text = " " + " ".join(wanted)
    return [key for key, name in names.items() if text in " " + " ".join(name)]


def _match_beginnings(wanted: tuple[str, ...], names: Names[T]) -> list[T]:
    """Each word is a prefix of a word of the name."""
    return [key for key, name in names.items() if all(any(word.startswith(part) for word in name) for part in wanted)]


def _match_mistyped(wanted: tuple[str, ...], names: Names[T]) -> list[T]:
    """Each word is nearly a word of the name. Each distinct word of all names is compared once."""
    vocabulary = {word for name in names.values() for word in name}
    near = [{word for word in vocabulary if _is_near(part, word)} for part in wanted]
    return [key for key, name in names.items() if all(not words.isdisjoint(name) for words in near)]


def _is_near(part: str, word: str) -> bool:
    if part == word or len(part) < MISTYPED_FROM:
        return part == word
    limit = 2 if len(part) >= LONG_FROM else 1
    return distance(part, word, limit) <= limit


ANCESTOR = re.compile(r"(.+)~(\d{0,3})", re.DOTALL)
MAX_CANDIDATES = 10
LATEST_FIRST = "ORDER BY modified_ms DESC, source"
MAX_NAMED = 20_000  # sessions whose names are compared, the latest ones
SHOWN_CHARACTERS = 200


class Project(NamedTuple):
    """The project in which a reference was typed; its sessions are preferred."""

    cwd: str
    main: str | None  # the repository's main worktree


def resolve(connection: apsw.Connection, reference: str, project: Project | None) -> int:
    """The session that a reference means. Ids may end in `~2`, so they are tried first; otherwise `~N` is the N-th ancestor."""
    found = find_exact(connection, reference)
    if not found:
        _check_left(connection, reference)
    if not found and (match := ANCESTOR.fullmatch(reference)):
        session = _resolve_one(connection, match[1], project)
        return _find_ancestor(connection, session, int(match[2] or 1), reference)
    return _resolve_one(connection, reference, project)


def _resolve_one(connection: apsw.Connection, reference: str, project: Project | None) -> int:
    if found := find_exact(connection, reference):
        return _choose(connection, reference, found, project)
    _check_left(connection, reference)
    beginning = find_beginning(connection, reference)
    if len(beginning) == 1:
        return beginning[0]
    sql = f"""
        SELECT s.id, s.name FROM sessions s WHERE s.name IS NOT NULL AND NOT s.subagent AND NOT ({IS_EMPTY})
        ORDER BY s.modified_ms DESC, s.source, s.public_id LIMIT ?
    """
    known = dict(sqlite.rows(connection, sql, (MAX_NAMED,)))
    # Several ids that begin so: somebody who wrote a whole name did not mean an id.
    found = find_same(reference, known) or beginning or find_like(reference, known)
    if not found:
        hint = _hint(connection, reference, "`sesamectl list` shows the sessions")
        raise NotFoundError(
            f"no session is called {quote(reference)}, and no id starts with it; {hint}", ref=quote(reference)
        )
    return _choose(connection, reference, found, project)


def _choose(connection: apsw.Connection, reference: str, found: list[int], project: Project | None) -> int:
    """The only session, or the only one of the project."""
    here = [session for session in found if project is not None and _is_of(connection, session, project)]
    if len(found) == 1 or len(here) == 1:
        return (here if len(here) == 1 else found)[0]
    likely = [*here, *(session for session in found if session not in set(here))]
    raise AmbiguousError(
        f"{quote(reference)} fits {len(found)} sessions; use an id, or more of the name",
        candidates=list_candidates(connection, likely),
        sessions=describe(connection, likely),
    )


def _is_of(connection: apsw.Connection, session: int, project: Project) -> bool:
    cwd, path = sqlite.one(connection, "SELECT cwd, project_path FROM sessions WHERE id = ?", (session,))
    inside = cwd is not None and f"{fold_here(cwd)}/".startswith(f"{fold_here(project.cwd.rstrip('/'))}/")
    return inside or (path is not None and project.main is not None and fold_here(path) == fold_here(project.main))


def _find_ancestor(connection: apsw.Connection, session: int, count: int, reference: str) -> int:
    passed = set[int]()
    for step in range(count):
        passed.add(session)
        parent = find_parent(connection, session)
        if parent is None or parent in passed:  # two may call each other parents
            raise NotFoundError(
                f"{quote(reference)}: the session has {step} indexed ancestors, not {count}", ref=quote(reference)
            )
        session = parent
    return session


def find(connection: apsw.Connection, reference: str) -> int:
    """The session with this id (with or without `source:`) or key, or the only one whose id starts with it."""
    found = find_exact(connection, reference)
    if not found:
        _check_left(connection, reference)
        found = find_beginning(connection, reference)
    if not found:
        hint = _hint(connection, reference, "`sesamectl search` and list_sessions show the ids")
        raise NotFoundError(
            f"no session {quote(reference)} in the index; {hint}", sessionId=reference[:SHOWN_CHARACTERS]
        )
    if len(found) > 1:
        raise AmbiguousError(
            f"{quote(reference)} fits {len(found)} sessions; use more of the id, or source:id",
            candidates=list_candidates(connection, found),
        )
    return found[0]


def find_called(connection: apsw.Connection, source: str, public_id: str) -> int:
    """The session that an answer of ours called so. What is no more is not looked for among others."""
    found = _find_called(connection, source, public_id)
    if not found:
        raise NotFoundError(
            f"session {quote(public_id)} is not in the index any more", sessionId=public_id[:SHOWN_CHARACTERS]
        )
    return found[0]


def find_exact(connection: apsw.Connection, reference: str) -> list[int]:
    """The sessions with this `source:id`, key, or id; several if sources share an id. An agent names its sessions as it likes: one that is
    called like another one's `source:id` or key does not take its place, and is found by its own.
    """
    source, colon, public_id = reference.partition(":")
    found = (_find_called(connection, source, public_id) if colon else []) or _find_by_key(connection, reference)
    return found or _select(connection, "public_id = ?", reference)


def _find_called(connection: apsw.Connection, source: str, public_id: str) -> list[int]:
    return _select(connection, "public_id = ? AND source = ?", public_id, source)


def _find_by_key(connection: apsw.Connection, reference: str) -> list[int]:
    key = KEY.fullmatch(reference)
    if key is None:
        return []
    workstation, project, end = key.groups()
    found: list[int] = []
    if _is_own_workstation(connection, workstation):
        # The project may have become known after the key was noted: it only decides between sources that share an id.
        found = _select(connection, "public_id = ? AND project = ?", end, project) or _select(
            connection, "public_id = ?", end
        )
    return found or _select(connection, "native_id = ? AND project = ? AND workstation = ?", end, project, workstation)


def _select(connection: apsw.Connection, condition: str, *values: str) -> list[int]:
    rows = sqlite.rows(connection, f"SELECT id FROM sessions WHERE {condition} {LATEST_FIRST}", values)
    return [session for (session,) in rows]


def _is_own_workstation(connection: apsw.Connection, workstation: str) -> bool:
    """Whether keys of this index begin with it, or once did."""
    known = beside.read(connection.filename, beside.WORKSTATIONS, beside.DECODE_WORKSTATION)
    return any(line.id == workstation for line in known)


def strip_key(reference: str) -> str:
    """The id that a key ends with; what is no key stays as it is."""
    key = KEY.fullmatch(reference)
    return key[3] if key else reference


def _check_left(connection: apsw.Connection, reference: str) -> None:
    """Refuse the id of a session that is not in the index any more: it is neither the beginning of another one's id nor an ancestor's."""
    source, _, rest = strip_key(reference).rpartition(":")
    sql = f"SELECT native_id FROM numbers WHERE {ids.PUBLIC_ID} = ? AND ? IN ('', source)"
    left = connection.execute(sql, (rest, source)).fetchone()
    if left is not None:
        sql = "SELECT public_id FROM sessions WHERE native_id = ? ORDER BY ordinal LIMIT ?"
        others = ", ".join(quote(name) for (name,) in sqlite.rows(connection, sql, (left[0], MAX_CANDIDATES)))
        raise NotFoundError(
            f"{quote(reference)} is not in the index any more (forgotten, excluded, or expired)"
            + (f"; other sessions with the same native id: {others}" if others else ""),
            ref=quote(reference),
        )


def find_beginning(connection: apsw.Connection, prefix: str) -> list[int]:
    """The sessions whose id starts with this."""
    if not prefix:
        return []
    sql = "SELECT id FROM sessions WHERE public_id >= ? AND public_id < ? ORDER BY public_id, source LIMIT 1000"
    return [session for (session,) in sqlite.rows(connection, sql, (prefix, prefix + "\U0010ffff"))]


def _hint(connection: apsw.Connection, reference: str, otherwise: str) -> str:
    """What to say of a session that is not in the index: its subagents, if those are; another machine, if that is what a key says."""
    if (key := KEY.fullmatch(reference)) and not _is_own_workstation(connection, key[1]):
        return f"{key[1]} is another workstation"
    sql = "SELECT public_id FROM sessions WHERE parent_id = ? AND subagent ORDER BY modified_ms DESC, public_id, source LIMIT ?"
    orphans = [quote(name) for (name,) in sqlite.rows(connection, sql, (reference, MAX_CANDIDATES))]
    return f"its subagents are: {', '.join(orphans)}" if orphans else otherwise


def list_candidates(connection: apsw.Connection, sessions: Sequence[int]) -> list[str]:
    """Some ids to choose from, each of which means one session only."""
    sql = "SELECT source, public_id FROM sessions WHERE id = ?"
    named = ((session, *sqlite.one(connection, sql, (session,))) for session in sessions[:MAX_CANDIDATES])
    return [
        public if find_exact(connection, public) == [session] else f"{source}:{public}"
        for session, source, public in named
    ]


def describe(connection: apsw.Connection, sessions: Sequence[int]) -> list[dict[str, str | None]]:
    """The same sessions, with what distinguishes them for a person."""
    sql = f"SELECT s.public_id, {NEIGHBOURS}, s.source, s.name, s.cwd, s.modified_ms FROM sessions s WHERE s.id = ?"
    rows = (sqlite.one(connection, sql, (session,)) for session in sessions[:MAX_CANDIDATES])
    return [
        {
            "sessionId": public,
            "shortId": shorten(public, neighbours),
            "source": source,
            "name": show_name(name),
            "cwd": cwd,
            "modified": iso(modified),
        }
        for public, neighbours, source, name, cwd, modified in rows
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


def quote(reference: str) -> str:
    """An id or a name in a sentence: clean, cut, in quotes."""
    return repr(clean_line(reference)[:SHOWN_CHARACTERS])
