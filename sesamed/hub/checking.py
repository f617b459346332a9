"""Whether the hub can be used as it is configured, cause by cause; and what would leave for it."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sesamed.config import Hub
from sesamed.errors import HubCause, HubError
from sesamed.hub.claim import Claim, Identity, check_team
from sesamed.hub.migrations import VERSION
from sesamed.hub.outgoing import Outgoing
from sesamed.hub.server import check_schema, check_server, connect, errors
from sesamed.store.index import visit
from sesamed.store.reading.summary import list_changes
from sesamed.store.search import filters

if TYPE_CHECKING:
    from sesamed.hub.server import Connection

PAGE = 200  # sessions that are looked at in one go
LANGUAGES = "SELECT cfgname FROM pg_ts_config"
RIGHTS = """
    SELECT has_schema_privilege('sesame', 'USAGE')
      AND has_table_privilege('sesame.hub_sessions', 'SELECT') AND has_table_privilege('sesame.hub_messages', 'INSERT')
      AND has_database_privilege(current_database(), 'TEMP')
"""
MACHINES = """
    SELECT w.owner, w.workstation_id, w.person, w.owner = session_user AS mine, to_char(w.seen_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
      (SELECT count(*) FROM sesame.hub_sessions s WHERE s.owner = w.owner AND s.workstation_id = w.workstation_id),
      (SELECT coalesce(sum(t.messages), 0)::bigint FROM sesame.hub_totals t WHERE t.owner = w.owner AND t.workstation_id = w.workstation_id)
    FROM sesame.hub_workstations w ORDER BY w.owner <> session_user, w.owner, w.workstation_id
"""


class Check(NamedTuple):
    """What was looked at, and how it is."""

    name: str
    level: Literal["ok", "note", "wrong"]
    text: str
    cause: HubCause | None = None


def check(hub: Hub, identity: Identity, *, timeout_s: int = 10) -> Iterator[Check]:
    """One thing after the other, until one is wrong."""
    try:
        yield _check_outgoing(hub)
        with connect(hub, timeout_s=timeout_s) as connection, errors():
            yield Check("connection", "ok", _describe(connection))
            check_server(connection)
            version = check_schema(connection)
            more = "" if version == VERSION else f"; this sesame knows {VERSION}"
            yield Check("schema", "ok", f"version {version}{more}")
            _check_rights(connection)
            Claim(connection, identity, single_user=hub.single_user).check()
            yield Check("account", "ok", f"workstation {identity.workstation}, as {identity.person}")
            if hub.team and hub.projects.share:
                check_team(connection, hub)
                yield Check("team", "ok", f"{hub.team}; it sees {', '.join(hub.projects.share)}, as far as that leaves")
            _check_languages(connection, hub)
            yield Check("languages", "ok", ", ".join(sorted({hub.language, *hub.languages.values()})))
    except HubError as error:
        yield Check(error.cause, "wrong", error.message, error.cause)


def _check_outgoing(hub: Hub) -> Check:
    if not hub.projects.allow:
        return Check("projects", "note", "nothing leaves: hub.projects.allow is empty")
    return Check("projects", "ok", f"what leaves: {', '.join(hub.projects.allow)}")


def _describe(connection: "Connection") -> str:
    info, version = connection.info, connection.info.server_version
    secured = "TLS" if connection.pgconn.ssl_in_use else "no TLS"
    return f"PostgreSQL {version // 10000}.{version % 10000}, database {info.dbname}, as {info.user}, {secured}"


def _check_rights(connection: "Connection") -> None:
    if connection.execute(RIGHTS).fetchone() != (True,):
        message = "this role may not write to the hub; whoever ran `sesamectl hub init` has to grant it its rights"
        raise HubError(message, cause="rights")


def _check_languages(connection: "Connection", hub: Hub) -> None:
    known = {name for (name,) in connection.execute(LANGUAGES).fetchall()}
    for language in sorted({hub.language, *hub.languages.values()}):
        if language not in known:
            there = ", ".join(sorted(known))
            message = f"the hub's PostgreSQL has no text search configuration {language}; it has {there}"
            raise HubError(message, cause="language")


def list_machines(connection: "Connection") -> list[dict[str, Any]]:
    """The workstations that this role sees, its own first: when each was last heard of, and how much there is of it."""
    names = ("owner", "workstation", "person", "mine", "seenAt", "sessions", "messages")
    with errors():
        return [dict(zip(names, row, strict=True)) for row in connection.execute(MACHINES).fetchall()]


def preview(database: str, hub: Hub, workstation: str) -> dict[str, Any]:
    """What would leave, by project; how much would stay here, and of that how much only because it is denied. Nothing is connected to."""
    outgoing, where = Outgoing(hub), filters.to_sql(filters.Where())
    sessions: Counter[tuple[str, str]] = Counter()
    messages: Counter[tuple[str, str]] = Counter()
    staying, denied, since, more = 0, 0, 0, True
    while more:
        with visit(database) as index:
            changes = list_changes(index, where, since, PAGE, workstation)
            pairs = zip(changes.numbers, changes.sessions, strict=True)
            meant = {number: session for number, session in pairs if outgoing.means(session)}
            leaving = [session for number, session in meant.items() if not outgoing.denies(index, number)]
        staying += len(changes.sessions) - len(leaving)
        denied += len(meant) - len(leaving)
        for session in leaving:
            key = outgoing.identify(session), outgoing.find_team(session)
            sessions[key] += 1
            messages[key] += session.message_count
        more, since = changes.revision > since, changes.revision
    return {
        "projects": [
            {"project": project, "team": team or None, "sessions": count, "messages": messages[project, team]}
            for (project, team), count in sorted(sessions.items())
        ],
        "staying": staying,
        "denied": denied,
    }
