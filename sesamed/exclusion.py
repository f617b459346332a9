"""Paths that are never opened: globs over absolute paths, compiled into one regular expression.

`*`, `?` and `[abc]` stay within a name, `**` crosses directories. A match excludes everything below it. A glob that
does not begin with `/` may match at any depth. When in doubt a path is excluded, because the glob may protect secrets.

A place may have several names: a glob counts for the one that it is written with, for the one that links lead to, and for the one that a
root was configured with. Where the file system takes names for one that differ in case, or in how letters are composed, so does a glob.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_TOKEN = re.compile(r"\*+|\?|\[[!^]?(?:\][^\]]*|[^\]]+)\]|[^*?\[]+|\[")
_MEMBER = re.compile(r".-.|.", re.DOTALL)
_WILD = re.compile(r"[*?\[]")


FOLDS = sys.platform == "darwin"  # APFS by default: neither case nor composition tells names apart


class Place(NamedTuple):
    """A directory that is read: as it is written, and where it is."""

    written: str
    real: str


class _Rules(NamedTuple):
    """What is excluded at the moment. Never changed: other threads ask."""

    expressions: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    match: Callable[[str], object] | None = None


class Exclusion:
    """Compiled globs. `refresh` when links or roots may have changed; `revision` grows with each change of what is excluded."""

    def __init__(self, globs: Iterable[str] = (), *, folds: bool = FOLDS) -> None:
        self.revision = 0
        self._globs = tuple(globs)
        self._fold = fold if folds else str
        self._folds = folds
        self._rules = _Rules()
        self.refresh()

    def refresh(self, places: Iterable[Place] = ()) -> None:
        """Find out where links lead now: above what globs name, and to the roots."""
        expressions = tuple(found for glob in self._globs for found in _expressions(glob))
        spellings = (Place(*(self._fold(os.path.normpath(name)).rstrip("/") for name in place)) for place in places)
        renamed = tuple(place for place in spellings if place.written != place.real)
        if (expressions, renamed) == (self._rules.expressions, self._rules.places):
            return
        match = None
        if expressions:
            spelled = [*expressions, *map(fold, expressions)] if self._folds else expressions
            match = re.compile(
                "|".join(dict.fromkeys(spelled)), re.DOTALL | (re.IGNORECASE if self._folds else 0)
            ).match
        self._rules = _Rules(expressions, renamed, match)
        self.revision += 1

    def excludes(self, path: str) -> bool:
        """Whether this absolute path, or a directory above it, is excluded."""
        rules = self._rules
        if rules.match is None:
            return False
        path = self._fold(path) + "/"
        if rules.match(path):
            return True
        return any(
            path.startswith(real + "/") and rules.match(written + path[len(real) :]) for written, real in rules.places
        )


def fold(path: str) -> str:
    """What all spellings of a path have in common, where the file system takes them for one."""
    return (
        path
        if path.isascii() and path.islower()
        else unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
    )


def _expressions(glob: str) -> Iterator[str]:
    anchored = glob if glob.startswith("/") else f"/**/{glob}"
    names = [name for name in anchored.split("/") if name not in ("", ".")]
    names = [name for i, name in enumerate(names) if name != "**" or names[i + 1 : i + 2] not in ([], ["**"])]
    wild = next((i for i, name in enumerate(names) if _WILD.search(name)), len(names))
    head, tail = "".join("/" + name for name in names[:wild]), names[wild:]
    for spelling in dict.fromkeys((head, _real(head))):  # roots are watched by their real paths
        yield re.escape(spelling) + "/" + "".join(_name(name) for name in tail)
    if "[" in glob:  # a directory may be called [id]
        yield re.escape("/" + "/".join(names)) + "/"


def _real(head: str) -> str:
    try:
        return os.path.realpath(head or "/").rstrip("/")
    except (OSError, ValueError):
        return head


def _name(name: str) -> str:
    if name == "**":
        return "(?:[^/]+/)*"
    return "".join(_piece(piece) for piece in _TOKEN.findall(name)) + "/"


def _piece(piece: str) -> str:
    if piece[0] == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    return _set(piece[1:-1]) if piece[0] == "[" and len(piece) > 1 else re.escape(piece)


def _set(body: str) -> str:
    negated = len(body) > 1 and body[0] in "!^"
    members = "".join(_member(member) for member in _MEMBER.findall(body[negated:]))
    return f"(?!/)[{'^' if negated else ''}{members}]"


def _member(member: str) -> str:
    if len(member) == 3 and member[0] <= member[2]:
        return f"{re.escape(member[0])}-{re.escape(member[2])}"
    return re.escape(member)
