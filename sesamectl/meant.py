"""Which session a person means: an id, the beginning of one, a name, `~N` for ancestors. The daemon decides; its candidates are named."""

from __future__ import annotations

import os

from sesamectl.errors import RpcError
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sesamectl.client import Client

AMBIGUOUS = 2
MOST_NAMED = 5


def meant(client: Client, reference: str, cwd: str | None = None) -> dict[str, Any]:
    """The session's summary; of several with one name, the one of this directory's project."""
    try:
        return client.call("resolve_session", ref=reference, cwd=cwd or _here())
    except RpcError as error:
        if error.code == AMBIGUOUS:
            raise RpcError(error.code, f"{error.message}: {_candidates(error.data)}", error.data) from None
        raise


def _candidates(data: Any) -> str:
    """The likeliest ones, as ids with names."""
    known = data if isinstance(data, dict) else {}
    sessions = known.get("sessions") or [{"sessionId": one} for one in known.get("candidates") or ()]
    named = [_named(session) for session in sessions[:MOST_NAMED] if isinstance(session, dict)]
    return ", ".join(named) + (", ..." if len(sessions) > MOST_NAMED else "")


def _named(session: dict[str, Any]) -> str:
    name = clean(session.get("name") or "")
    return clean(session.get("sessionId")) + (f" ({name})" if name else "")


def _here() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None
