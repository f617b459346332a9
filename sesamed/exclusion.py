"""Paths that are never opened: globs over absolute paths, compiled into one regular expression.

`*`, `?` and `[abc]` stay within a name, `**` crosses directories. A match excludes everything below it. A glob that
does not begin with `/` may match at any depth. When in doubt a path is excluded, because the glob may protect secrets.
"""

import os
import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(r"\*+|\?|\[[!^]?(?:\][^\]]*|[^\]]+)\]|[^*?\[]+|\[")
_MEMBER = re.compile(r".-.|.", re.DOTALL)
_WILD = re.compile(r"[*?\[]")


class Exclusion:
    """Compiled globs. Make a new one when symbolic links above a glob's directory may have changed."""

    def __init__(self, globs: Iterable[str]) -> None:
        expressions = [expression for glob in globs for expression in _expressions(glob)]
        self._match = re.compile("|".join(expressions), re.DOTALL).match if expressions else None

    def excludes(self, path: str) -> bool:
        """Whether this absolute path, or a directory above it, is excluded."""
        return self._match is not None and self._match(path + "/") is not None


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
