"""The hub's PostgreSQL: connections, why there is none, and the schema that is there. Every error is one that a person can act on."""

import logging
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sesamed.config import Hub
from sesamed.errors import HubCause, HubError
from sesamed.hub.migrations import LOCK, MIGRATIONS, OLDEST_HUB, OLDEST_SERVER, VERSION
from sesamed.sanitize import clean_line

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

# What it warns of, it also raises. A server's error may quote a row, which no log of ours may.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)

CONNECT_S = 10
# So long nobody answers, until a network that is cut is noticed.
NOTICE: Mapping[str, int] = {
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
PASSWORD_S = 60  # a command may ask a person
NEEDED = "the hub needs psycopg: install sesame-index[hub] into the environment of sesamed"
REFUSED_DSN = (
    "hub.dsn holds a password; put that into a file that PGPASSFILE names, a service file, or set hub.passwordCommand"
)

# What libpq says when there is no connection, by a part of it. It has no codes for that.
SAYS: Sequence[tuple[str, HubCause, str]] = (
    ("could not translate host name", "dns", "check the name of the host in hub.dsn"),
    ("failed to resolve host", "dns", "check the name of the host in hub.dsn"),
    ("password authentication failed", "password", "check PGPASSFILE, the service file or hub.passwordCommand"),
    ("no password supplied", "password", "set PGPASSFILE, a service file or hub.passwordCommand"),
    ("SCRAM", "password", "check PGPASSFILE, the service file or hub.passwordCommand"),
    ("certificate", "tls", "check sslmode, sslrootcert and the host's name in hub.dsn"),
    ("SSL", "tls", "check sslmode and sslrootcert in hub.dsn"),
    ("no pg_hba.conf entry", "rights", "let this role and address in, in the server's pg_hba.conf"),
    ("definition of service", "configuration", "check hub.service, and PGSERVICEFILE"),
    ("is not permitted to log in", "rights", "use a role that may log in"),
    ("permission denied for database", "rights", "let this role connect to the database"),
    ("role ", "role", "create the role, or name another one in hub.dsn"),
    ("database ", "database", "create the database, or name another one in hub.dsn"),
)
# The first characters of a code that the server gives.
CODES: Sequence[tuple[str, HubCause, str]] = (
    ("42501", "rights", "whoever ran `sesamectl hub init` has to grant this role its rights"),
    ("53100", "space", "the server's disk is full; what is missing is shipped when there is space"),
    ("53", "busy", "the server has no more connections or memory; it is tried again"),
    ("25006", "rights", "the server takes no changes (a replica?); name the primary in hub.dsn"),
    ("42704", "language", "`sesamectl hub check` says which text search configurations it has"),
    ("57014", "deadline", "it took too long"),
)


def explain(error: Exception) -> HubError:
    """What is wrong, and what to do, of an error of psycopg's; on one line, with nothing of a statement's values."""
    import psycopg

    diagnosis = getattr(error, "diag", None)
    said = (diagnosis.message_primary if diagnosis is not None else None) or str(error)
    said = clean_line(said)
    code = getattr(error, "sqlstate", None) or ""
    for begin, cause, advice in CODES:
        if code.startswith(begin):
            return HubError(f"the hub says: {said}; {advice}", cause=cause)
    if code and not isinstance(error, psycopg.OperationalError):
        return HubError(f"the hub says: {_without_values(error)} ({code})", cause="server")
    for part, cause, advice in () if code else SAYS:
        if part in said:
            return HubError(f"no connection to the hub: {said}; {advice}", cause=cause)
    return HubError(f"no connection to the hub: {said}; it is tried again", cause="network")


def _without_values(error: Exception) -> str:
    """The kind of an error: its message may quote a row."""
    return type(error).__name__


@contextmanager
def errors() -> Iterator[None]:
    """psycopg's errors become ours."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise explain(error) from error


def connect(hub: Hub, *, timeout_s: int = CONNECT_S) -> "Connection":
    """A connection as the configuration names it, in UTF-8 and UTC. Statements are committed one by one, unless in a `transaction()`."""
    try:
        import psycopg
    except ImportError as error:
        raise HubError(NEEDED, cause="psycopg") from error
    from psycopg.conninfo import make_conninfo

    given = _read_dsn(hub.dsn or "")
    more: dict[str, Any] = {name: value for name, value in NOTICE.items() if name not in given}
    more |= {"connect_timeout": timeout_s, "client_encoding": "UTF8", "application_name": "sesame"}
    if hub.service is not None:
        more["service"] = hub.service
    if hub.password_command is not None:
        more["password"] = _ask_password(hub.password_command)
    with errors():
        connection = psycopg.connect(make_conninfo(hub.dsn or "", **more), autocommit=True)
        try:
            connection.execute("SET timezone TO 'UTC'")
            connection.execute("SET search_path TO pg_catalog, pg_temp")  # every name is said in full
            connection.execute(
                "SET jit TO off"
            )  # it compiles for seconds what runs for milliseconds: costs say little where plans are forced
        except BaseException:
            connection.close()
            raise
    return connection


def find_role(hub: Hub) -> str | None:
    """The role that the connection string names, if it does. Raises HubError."""
    try:
        return _read_dsn(hub.dsn or "").get("user")
    except ImportError as error:
        raise HubError(NEEDED, cause="psycopg") from error


def _read_dsn(dsn: str) -> dict[str, Any]:
    """What a connection string says. What is wrong with it is not quoted: there may be a password in it."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(dsn)
    except psycopg.Error:
        message = "hub.dsn is neither `name=value …` nor `postgresql://…`, or has a name that libpq does not know"
        raise HubError(message, cause="configuration") from None
    if "password" in given or "sslpassword" in given:
        raise HubError(REFUSED_DSN, cause="configuration")
    return given


def _ask_password(command: Sequence[str]) -> str:
    """The first line that a command writes. It is neither kept nor logged."""
    try:
        done = subprocess.run(  # noqa: S603  # what the configuration says
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PASSWORD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = error.strerror if isinstance(error, OSError) else f"no answer within {PASSWORD_S} s"
        raise HubError(f"hub.passwordCommand: {command[0]}: {why}", cause="password") from error
    if done.returncode:
        raise HubError(f"hub.passwordCommand: {command[0]} ended with {done.returncode}", cause="password")
    return done.stdout.decode(errors="replace").partition("\n")[0].rstrip("\r")


# -- the schema


def find_version(connection: "Connection") -> tuple[int, int]:
    """The version of the schema that is there, and the oldest client that works with it; zeros if there is none."""
    with errors():
        found = connection.execute("SELECT to_regclass('sesame.hub_schema') IS NOT NULL").fetchone()
        if found != (True,):
            return 0, 0
        row = connection.execute(
            "SELECT version, oldest_client FROM sesame.hub_schema ORDER BY version DESC LIMIT 1"
        ).fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def check_schema(connection: "Connection", ours: int = VERSION) -> int:
    """The version of the hub's schema. Raises HubError if this sesame and that schema do not fit."""
    check_server(connection)
    version, oldest_client = find_version(connection)
    if version == 0:
        raise HubError("the hub is empty; `sesamectl hub init` makes its tables", cause="empty")
    if oldest_client > ours:
        raise HubError(
            f"the hub's schema {version} is newer than this sesame, which knows {ours}; upgrade sesame here",
            cause="newer",
        )
    if version < OLDEST_HUB:
        raise HubError(
            f"the hub's schema {version} is too old for this sesame; run `sesamectl hub init`", cause="older"
        )
    return version


def check_server(connection: "Connection") -> None:
    """Raise HubError if this is no server that we can use."""
    if (version := connection.info.server_version) < OLDEST_SERVER:
        raise HubError(
            f"the hub is PostgreSQL {version // 10000}; it has to be {OLDEST_SERVER // 10000} or newer", cause="version"
        )
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise HubError(f"the hub's database is in {encoding}; create one with ENCODING 'UTF8'", cause="encoding")


def migrate(connection: "Connection", grantee: str = "PUBLIC") -> list[int]:
    """Make the tables, or what is missing of them; gives the steps that were done. Others who do it at the same time wait."""
    import psycopg
    from psycopg import sql

    check_server(connection)
    role = sql.SQL("PUBLIC") if grantee == "PUBLIC" else sql.Identifier(grantee)
    with errors(), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        version, _ = find_version(connection)
        done = list(range(version + 1, VERSION + 1))
        for number in done:
            step = MIGRATIONS[number - 1]
            statements = step.statements.replace("{grantee}", role.as_string(connection))
            try:
                connection.execute(statements)
            except psycopg.errors.InsufficientPrivilege as error:
                raise HubError(
                    f"{_say_right(error)}; ask the owner of the database to run `sesamectl hub init`", cause="rights"
                ) from error
            connection.execute(
                "INSERT INTO sesame.hub_schema(version, oldest_client, grantee) VALUES(%s, %s, %s)",
                (number, step.oldest_client, grantee),
            )
    return done


def print_statements(grantee: str = "PUBLIC") -> str:
    """All that `migrate` does where there is nothing yet, for somebody else to run as a whole."""
    role = grantee if grantee == "PUBLIC" else _quote(grantee, '"')
    parts = ["BEGIN;"]
    for number, step in enumerate(MIGRATIONS, 1):
        noted = f"{number}, {step.oldest_client}, {_quote(grantee, chr(39))}"
        parts.append(step.statements.replace("{grantee}", role).strip())
        parts.append(f"INSERT INTO sesame.hub_schema(version, oldest_client, grantee) VALUES({noted});")
    return "\n".join([*parts, "COMMIT;"])


def _quote(name: str, sign: str) -> str:
    return sign + name.replace(sign, sign * 2) + sign


def _say_right(error: "psycopg.Error") -> str:
    return f"the hub says: {error.diag.message_primary}"
