"""`completions`: scripts for shells, and what those ask for while somebody types, sessions and sources: fast or not at all."""

from collections.abc import Iterator
from typing import Any

from sesamectl.client import Client
from sesamectl.completions import script
from sesamectl.errors import ClientError, RpcError
from sesamectl.flags import Arguments
from sesamectl.output import representable, require_output
from sesamectl.reading import MISREAD
from sesamectl.render import clean
from sesamectl.render.terminal import fit

TIMEOUT_S = 0.5  # somebody has pressed Tab
LIMIT = 500
MAX_SHOWN = 50
NAME_WIDTH = 60  # columns: with a short id it fits on a line of 80
IN_IDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-")


def run(arguments: Arguments) -> None:
    """Print a script, sessions or sources. Starts no daemon: without one there is nothing to complete."""
    require_output()
    what, text = arguments.words[0], str(arguments.values.get("matching", ""))
    if what not in ("sessions", "sources"):
        print(script(what), end="")
        return
    for line in _look_up(what, text):
        print(representable(line))


def _look_up(what: str, text: str) -> list[str]:
    """Nothing where there is nobody to ask, or an answer that cannot be read: a sentence would stand in the line that is typed."""
    try:
        return list(_find_sessions(text) if what == "sessions" else _find_sources(text))
    except (ClientError, RpcError, *MISREAD):
        return []


def _find_sessions(text: str) -> Iterator[str]:
    """Short ids and names of the newest sessions whose id starts with the text, or whose name contains all its words."""
    words = text.lower().replace("-", " ").split()
    left = MAX_SHOWN
    for session in _fetch("list_sessions", "sessions", limit=LIMIT):
        identity, name = str(session.get("sessionId")), clean(session.get("name") or "")
        fits = identity.startswith(text) or all(word in name.lower() for word in words)
        if left and fits and identity[:1] not in "-." and IN_IDS.issuperset(identity):  # it goes into a command line
            left -= 1
            yield f"{_shorten(identity, str(session.get('shortId')), text)}\t{fit(name, NAME_WIDTH)}"


def _find_sources(text: str) -> Iterator[str]:
    roots = _fetch("status", "sources")
    for name in dict.fromkeys(clean(root.get("parser")) for root in roots):
        if name.startswith(text) and IN_IDS.issuperset(name):
            yield name


def _shorten(identity: str, short: str, text: str) -> str:
    """The short id, unless more than that was typed already."""
    is_typed_further = identity.startswith(text) and not short.startswith(text)
    return identity if is_typed_further or not identity.startswith(short) else short


def _fetch(method: str, field: str, **params: Any) -> list[dict[str, Any]]:
    with Client(timeout=TIMEOUT_S) as client:
        found: list[dict[str, Any]] = client.call(method, **params).get(field, [])
        return found
