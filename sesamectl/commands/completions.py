"""`completions`: scripts for shells, and the sessions that those ask for while somebody types: quickly, or not at all."""

from __future__ import annotations

from sesamectl.client import Client
from sesamectl.completions import script
from sesamectl.errors import ClientError, RpcError
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sesamectl.flags import Arguments

PATIENCE_S = 0.5  # somebody has pressed a key
LIMIT = 500
SHOWN = 50
NAME_LENGTH = 60
IN_IDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-")


def run(arguments: Arguments) -> None:
    """Print them. No daemon is started, and without one there are no sessions."""
    if arguments.words[0] != "sessions":
        print(script(arguments.words[0]), end="")
        return
    for identity, name in _matching(str(arguments.values.get("matching", ""))):
        print(f"{identity}\t{name}")


def _matching(text: str) -> Iterator[tuple[str, str]]:
    """Ids and names of the newest sessions whose id begins with the text, or whose name has all its words."""
    words = text.lower().replace("-", " ").split()
    left = SHOWN
    for session in _sessions():
        identity, name = str(session.get("sessionId")), clean(session.get("name") or "")
        fits = identity.startswith(text) or all(word in name.lower() for word in words)
        if left and fits and identity[:1] not in "-." and IN_IDS.issuperset(identity):  # it goes into a command line
            left -= 1
            yield identity, name[:NAME_LENGTH]


def _sessions() -> list[dict[str, Any]]:
    try:
        with Client(timeout=PATIENCE_S) as client:
            found: list[dict[str, Any]] = client.call("list_sessions", limit=LIMIT).get("sessions", [])
            return found
    except (ClientError, RpcError):
        return []
