"""Which session asks: it contains the words that it searches for, and is no past one. No agent is named here; they are told apart by what
they say.

Some say it with each call (`_meta`), some by a hook (`sesamectl hook`), some when they start us (a variable that ends in `_SESSION_ID`).
That one may have become another one since, as the same process begins new sessions. So it counts if something was just written to it, as
it is with every call, or if nothing was to any other session that this agent has here. Of an agent that says nothing it is the session
here that was written to last, if that was just now.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sesamectl.client import Client
from sesamectl.errors import RpcError
from sesamectl.resolve import NOT_AN_ID

SAID = frozenset(("sessionId", "session_id", "threadId", "thread_id"))
VARIABLE = re.compile(r"\w+_(?:SESSION|THREAD)_ID")
WORD = re.compile(r"[a-z0-9]+")
ID = re.compile(r"[\w.:-]{8,200}")
DEPTH = 3
JUST_NOW_S = 10
LOOKED_AT = 20
SYNC_MS = 1000


def find_asker(
    client: Client, meta: Mapping[str, Any], client_name: str, environ: Mapping[str, str], here: str, opened: str = ""
) -> Sequence[str]:
    """The ids to leave out; none if it is not known. `opened` is what a hook has said."""
    client.call("sync", timeoutMs=SYNC_MS)
    if said := _keep_sessions(client, set(_said(meta, DEPTH))):
        return said
    if ID.fullmatch(
        opened
    ):  # also if nothing has been written to it yet: then there is nothing to leave out, and no doubt
        return [opened]
    named = _keep_sessions(client, {value for name, value in environ.items() if VARIABLE.fullmatch(name)})
    words = WORD.findall(client_name.lower())  # whole ones: a short name stands within a longer one
    active = [one["sessionId"] for one in _list_active(client, here) if one["source"] in words]
    return [one for one in named if one in active] or active[:1] or named


def _keep_sessions(client: Client, ids: Iterable[str]) -> list[str]:
    """Those that are ids of sessions, in full: other programs have sessions, too."""
    kept = []
    for one in sorted(filter(ID.fullmatch, ids)):
        try:
            kept += [one] if client.call("get_session_meta", sessionId=one)["sessionId"] == one else []
        except RpcError as error:
            if error.code not in NOT_AN_ID:
                raise
    return kept


def _said(meta: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, value in meta.items():
        if isinstance(value, dict) and depth > 1:
            yield from _said(value, depth - 1)
        elif name in SAID and isinstance(value, str):
            yield value


def _list_active(client: Client, here: str) -> Sequence[Mapping[str, Any]]:
    """What was just written to, the newest first."""
    since = (datetime.now(UTC) - timedelta(seconds=JUST_NOW_S)).isoformat(timespec="milliseconds")
    answer = client.call("list_sessions", cwd=here, after=since, subagents="exclude", limit=LOOKED_AT)
    listed: Sequence[Mapping[str, Any]] = answer["sessions"]
    return listed
