"""Resolving what a person calls a session: an id, the beginning of one, a name, with `~N` for ancestors. The daemon decides."""

import os
import time
from collections.abc import Mapping
from typing import Any

from sesamectl.client import Client
from sesamectl.errors import RpcError
from sesamectl.render import clean
from sesamectl.render.dates import ago
from sesamectl.render.heading import short_id
from sesamectl.render.terminal import fit

NOT_FOUND, AMBIGUOUS = NOT_AN_ID = (1, 2)
NO_HUB = 9  # there is none, or it does not answer
MAX_DIGITS = 15
MAX_LISTED = 5
MAX_NAME = 40  # columns


def resolve(client: Client, reference: str, cwd: str | None = None, *, place: bool = True) -> dict[str, Any]:
    """The session's summary; of several with the same name, the one of this directory's project. Errors list candidates.

    `SESSION:N`, as a search prints it, is that session, unless a `place` in it makes no sense.
    """
    try:
        return client.call("resolve_session", ref=reference, cwd=cwd or current_directory())
    except RpcError as error:
        session, number = split_place(reference)
        if place and error.code == NOT_FOUND and number is not None:
            return resolve(client, session, cwd)
        if error.code == AMBIGUOUS:
            raise RpcError(error.code, f"{error.message}: {_list_candidates(error.data)}", error.data) from None
        raise


def identify(session: Mapping[str, Any]) -> str:
    """What means this session to the daemon and no other: several agents may have sessions of one id."""
    return f"{session['source']}:{session['sessionId']}"


def name_excluded(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """The params of a question, with the ids of the sessions to leave out, however they were called. What is none in the index stays: it
    may be the session that asks, of which nothing has been read yet.
    """
    return {**params, "exclude": [_find_id(client, one) for one in params.get("exclude", ())]}


def _find_id(client: Client, reference: str) -> str:
    try:
        return str(resolve(client, reference)["sessionId"])
    except RpcError as error:
        if error.code != NOT_FOUND:
            raise
        return reference


def split_place(reference: str) -> tuple[str, int | None]:
    """`SESSION:N` as a session and the number of a message."""
    session, _, number = reference.rpartition(":")
    is_place = session and number.isascii() and number.isdecimal() and len(number) <= MAX_DIGITS
    return (session, int(number)) if is_place else (reference, None)


def _list_candidates(data: Any) -> str:
    """The likeliest ones, as ids with names and when they were active, because several may have one name."""
    details = data if isinstance(data, dict) else {}
    sessions = details.get("sessions") or [{"sessionId": one} for one in details.get("candidates") or ()]
    listed = [_label(session) for session in sessions[:MAX_LISTED] if isinstance(session, dict)]
    return ", ".join(listed) + (", ..." if len(sessions) > MAX_LISTED else "")


def _label(session: dict[str, Any]) -> str:
    name = fit(clean(session.get("name") or ""), MAX_NAME)
    when = ago(clean(session["modified"]), time.time()) if session.get("modified") else ""
    about = ", ".join(part for part in (name, when) if part)
    return short_id(session) + (f" ({about})" if about else "")


def current_directory() -> str | None:
    """Where we are; None if that was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None
