"""Lists of sessions, and what has changed in them."""

import json
import time
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Literal

import msgspec

from sesamed.errors import ParamsError, RefusedError
from sesamed.methods.elsewhere import Scope, ask_both, ask_hub, find_sessions, make_condition_elsewhere
from sesamed.methods.filters import Filters, is_project_name, make_condition, narrow, warn_of_unknown_tools
from sesamed.methods.method import MAX_OFFSET, Call, Context, NonNegative, find_next_offset, method
from sesamed.methods.sessions import PAGE_BYTES
from sesamed.methods.whose import narrow_to_named
from sesamed.model import Answer, Session, digest
from sesamed.sanitize import Exact, Line
from sesamed.store.reading import summary
from sesamed.store.search.filters import Conditions
from sesamed.store.sqlite import Connection

MAX_SESSIONS = 500
QUIET_MS = 15 * 60_000  # then nobody is at work in a session


class ListSessionsParams(Filters, frozen=True, kw_only=True):
    """Which sessions to list, or which changes."""

    limit: NonNegative = 50
    offset: NonNegative = 0
    similar_to: str | None = None
    since: NonNegative | None = None
    epoch: str | None = None
    needs_memory: bool = False
    scope: Scope = "here"
    person: str | None = None


class RemovedSession(Answer, frozen=True, kw_only=True):
    """A session that was removed, has another key now, or does not pass the filters."""

    source: Exact
    session_id: Exact
    key: Exact
    why: Literal["gone", "forgotten", "excluded", "moved", "filtered"]


class SessionList(Answer, frozen=True, kw_only=True):
    """Sessions, newest activity first; or those that changed, in the order of revisions."""

    total: int
    sessions: list[Session]
    next_offset: int | None
    warnings: list[Line]
    removed: list[RemovedSession]
    revision: int  # up to which the answer is complete
    epoch: Exact
    more: bool


@method
async def list_sessions(context: Context, call: Call, params: ListSessionsParams) -> SessionList:
    """Sessions that pass the filters, newest activity first, or those that changed."""
    if params.since is not None and params.offset:
        raise ParamsError("offset: cannot be combined with since; continue from the answer's revision instead")
    if params.since is not None and params.similar_to is not None:
        raise ParamsError("similarTo: cannot be combined with since, which lists each session by itself")
    if params.since is None and params.epoch is not None:
        raise ParamsError("epoch: only means something together with since")
    if params.since is not None and params.needs_memory:
        raise ParamsError("needsMemory: cannot be combined with since, which lists what changed")
    params = msgspec.structs.replace(
        params, limit=min(params.limit, MAX_SESSIONS), offset=min(params.offset, MAX_OFFSET)
    )
    if params.scope != "here":
        return _shorten(await _list_elsewhere(context, call, params), params.offset)
    listed = await _list_here(context, call, params)
    return listed if params.since is not None else _shorten(listed, params.offset)


async def _list_elsewhere(context: Context, call: Call, params: ListSessionsParams) -> SessionList:
    """What a hub has, with or without what is here."""
    for name, given in (
        ("since", params.since),
        ("similarTo", params.similar_to),
        ("needsMemory", params.needs_memory),
    ):
        if given is not None and given is not False:
            raise ParamsError(f"{name}: only the index knows that; ask with scope here")
    limit, offset = params.limit, params.offset
    where = await make_condition_elsewhere(context, params)
    if params.scope == "hub":
        find = partial(find_sessions, where, limit, offset)
        total, sessions = await ask_hub(context, find, context.queries.limit_ms(None))
        return _make_list(total, sessions, offset, [])
    find = partial(find_sessions, where, limit + offset, 0)
    whole = msgspec.structs.replace(params, limit=limit + offset, offset=0)
    both = await ask_both(
        partial(_list_here, context, call, whole), partial(ask_hub, context, find), context.queries.limit_ms(None)
    )
    total, there = both.there or (0, [])
    keys = [] if params.project and is_project_name(params.project) else [session.key for session in there]
    known = await context.queries.ask(
        call.client, lambda connection: summary.list_known(connection, keys, context.workstation)
    )
    known |= {session.key for session in both.here.sessions}
    others = [session for session in there if session.key not in known]
    merged = sorted([*both.here.sessions, *others], key=lambda session: session.modified, reverse=True)
    warnings = both.here.warnings + both.warnings
    total += both.here.total - (len(there) - len(others))
    return _make_list(total, merged[offset : offset + limit], offset, warnings)


def _make_list(total: int, sessions: list[Session], offset: int, warnings: list[str]) -> SessionList:
    return SessionList(
        total=total,
        sessions=sessions,
        next_offset=find_next_offset(offset, len(sessions), total),
        warnings=warnings,
        removed=[],
        revision=0,
        epoch="",
        more=offset + len(sessions) < total,
    )


async def _list_here(context: Context, call: Call, params: ListSessionsParams) -> SessionList:
    condition = await make_condition(context, params)
    if params.needs_memory:
        condition = summary.needs_memory(condition, int(time.time() * 1000) - QUIET_MS)
    make_list = _list_all if params.since is None else _list_changes
    troubles = [trouble.message for trouble in context.ingest.troubles()]

    def ask(connection: Connection) -> SessionList:
        where = narrow_to_named(connection, condition, params, context.hub)
        found = make_list(connection, params, where, context.workstation)
        return msgspec.structs.replace(found, warnings=troubles + warn_of_unknown_tools(connection, params))

    return await context.queries.ask(call.client, ask)


def _list_all(connection: Connection, params: ListSessionsParams, where: Conditions, workstation: str) -> SessionList:
    limit, offset = params.limit, params.offset
    listed = where if params.similar_to is None else narrow(connection, where, params.similar_to)
    total, found = summary.list_sessions(connection, listed, limit, offset, workstation)
    revision, epoch = _read_revision(connection, workstation)
    return SessionList(
        total=total,
        sessions=list(found.values()),
        next_offset=find_next_offset(offset, len(found), total),
        warnings=[],
        removed=[],
        revision=revision,
        epoch=epoch,
        more=offset + len(found) < total,
    )


def _list_changes(
    connection: Connection, params: ListSessionsParams, where: Conditions, workstation: str
) -> SessionList:
    since, (revision, epoch) = params.since or 0, _read_revision(connection, workstation)
    if since > revision or params.epoch not in (None, epoch):
        raise RefusedError(
            f"since: {since} is not a revision of this index, which is at {revision} in epoch {epoch}; the index is a new one or belongs "
            "to another workstation. Start over: drop what you have, and list since 0",
            revision=revision,
            epoch=epoch,
        )
    limit = params.limit
    found = summary.list_changes(connection, where, since, limit, workstation)
    while limit > 1 and _measure(found.sessions) + _measure(found.removed) > PAGE_BYTES:
        limit //= 2
        found = summary.list_changes(connection, where, since, limit, workstation)
    return SessionList(
        total=found.total,
        sessions=found.sessions,
        next_offset=None,
        warnings=[],
        removed=[RemovedSession(**removed._asdict()) for removed in found.removed],
        revision=found.revision,
        epoch=epoch,
        more=found.revision < revision,
    )


def _shorten(page: SessionList, offset: int) -> SessionList:
    """A page with as many sessions as fit into an answer, and one at least."""
    if _measure(page.sessions) <= PAGE_BYTES:
        return page
    fitting = [size for size in accumulate(_measure([one]) for one in page.sessions) if size <= PAGE_BYTES]
    shown = page.sessions[: max(1, len(fitting))]
    return msgspec.structs.replace(
        page, sessions=shown, next_offset=find_next_offset(offset, len(shown), page.total), more=True
    )


def _measure(listed: Sequence[Session] | Sequence[summary.Removed]) -> int:
    """How many bytes of an answer they take: it is ASCII, in which a letter may have six."""
    encoded = msgspec.json.encode(listed)
    return len(encoded) if encoded.isascii() else len(json.dumps(encoded.decode()))


def _read_revision(connection: Connection, workstation: str) -> tuple[int, str]:
    """The last revision and its epoch: keys of another workstation are others, too."""
    revision, epoch = summary.read_revision(connection)
    return revision, f"{digest(f'{epoch}:{workstation}'.encode()):016x}"
