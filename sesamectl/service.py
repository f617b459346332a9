"""The daemon as a service of the user's own manager: what systemd and launchd have in common.

A unit says in full which daemon it starts: the interpreter, the socket, and whatever of the environment leads it to its
places. So the unit itself tells whether it is the one for a socket.
"""

from __future__ import annotations

import os
import sys

from sesamectl.errors import NotRunningError, RpcError
from sesamectl.where import data_directory, socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Protocol

    class Manager(Protocol):
        """What is needed of a service manager."""

        name: str

        def missing(self) -> str:
            """Why it cannot be used here; nothing when it can."""

        def unit(self) -> str:
            """The file that says what is started."""

        def files(self, wanted: Wanted, *, socket: bool) -> dict[str, str]:
            """The files of the service and what stands in them."""

        def starts(self, text: str, socket: str) -> bool:
            """Whether a unit of this text starts the daemon of this socket."""

        def start_command(self) -> list[str]:
            """What starts it; returns when it is started, or cannot be."""

        def apart(self) -> list[str]:
            """What runs a program outside of whatever started it; nothing where that takes nothing."""

        def switch_on(self, files: Mapping[str, str]) -> list[str]:
            """Have the manager know the files, start it now and at every login; what was done."""

        def switch_off(self) -> list[str]:
            """Stop it, and start it no more; what was done."""

        def leftovers(self) -> list[str]:
            """Files of ours that are there."""

        def forget(self) -> None:
            """The files are gone."""

        def state(self) -> dict[str, Any]:
            """`active`, `enabled`, `pid`, `says`, as far as the manager knows."""


# Where things are. Where the agents' sessions are, their sources say: what the daemon would find from here, it finds as a service.
CARRIED = (
    "SESAME_CONFIG_DIR", "SESAME_DATA_DIR", "SESAME_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "WORKSTATION_ID",
)  # fmt: skip
COMMAND_S = 60.0  # a manager waits for the daemon itself


class Wanted:
    """What a unit is to start."""

    __slots__ = ("environment", "log", "python", "socket")

    def __init__(self, python: str, socket: str, log: str, environment: Mapping[str, str]) -> None:
        self.python = python
        self.socket = socket
        self.log = log
        self.environment = environment


def wanted(environ: Mapping[str, str]) -> Wanted:
    """The daemon that belongs to this program and this environment."""
    try:
        socket = os.path.abspath(socket_path(environ))
    except LookupError as error:
        raise NotRunningError(str(error)) from None
    carried = {name: environ[name] for name in (*CARRIED, *_agents_variables()) if environ.get(name)}
    log = os.path.join(data_directory(environ), "sesamed.log")
    found = Wanted(_python(), socket, log, {"SESAME_SOCKET": socket, **carried})
    for value in (found.python, found.log, *found.environment.values()):
        if not value.isprintable():
            raise RpcError(0, f"{value!r} cannot stand in a unit; name a path without control characters")
    return found


def _agents_variables() -> Iterator[str]:
    """Those that move an agent's sessions. Imported here, because only who installs a unit waits for it."""
    from sesamed.sources import SOURCES

    for source in SOURCES.values():
        for location in source.locations:
            yield from (variable.name for variable in location.moved_by)


def _python() -> str:
    """The interpreter by one name, however this program was called: a unit is not to change with that."""
    python = os.path.abspath(sys.executable)
    plain = os.path.join(os.path.dirname(python), "python3")
    return plain if os.path.exists(plain) and os.path.samefile(plain, python) else python


def manager() -> Manager:
    """The manager of this platform, whether it is there or not."""
    if sys.platform == "darwin":
        from sesamectl.service_launchd import Launchd

        return Launchd(os.environ)
    from sesamectl.service_systemd import Systemd

    return Systemd(os.environ)


def start_command(socket: str) -> list[str] | None:
    """How a manager starts the daemon of this socket; None when none can, or none was told to."""
    found = manager()
    text = read(found.unit())
    if text is None or not found.starts(text, socket) or found.missing():
        return None
    return found.start_command()


def template(*names: str) -> str:
    """A template as it stands: in the wheel inside the package, in a source tree beside it."""
    package = os.path.dirname(os.path.abspath(__file__))
    for base in (os.path.join(package, "templates"), os.path.dirname(package)):
        if (text := read(os.path.join(base, *names))) is not None:
            return text
    raise RpcError(0, f"the template {'/'.join(names)} is missing from this installation; install sesame again")


def read(path: str) -> str | None:
    """A file's text; None when there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(path: str, text: str) -> bool:
    """Put the text there, whole or not at all; says whether it was another one."""
    if read(path) == text:
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
    os.replace(fresh, path)
    return True


def command(words: list[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """Run a manager's own program: its exit code, and what it said."""
    import subprocess

    try:
        ran = subprocess.run(  # noqa: S603  # our own words
            words, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=COMMAND_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RpcError(0, f"`{' '.join(words)}` does not end within {COMMAND_S:g} s; try it by hand") from None
    return ran.returncode, ran.stdout.decode("utf-8", "replace").strip()
