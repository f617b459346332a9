"""What a unit says, and where its text comes from.

A unit spells out which daemon it starts: the interpreter, the socket, and every environment variable that leads to
its files. So the unit itself tells which socket it is for.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sesamectl.errors import NotRunningError, RpcError
from sesamectl.locations import data_directory, socket_path

# What leads to our files. With the variables of the agents, the service finds what the daemon would find from this shell.
CARRIED = (
    "SESAME_CONFIG_DIR",
    "SESAME_DATA_DIR",
    "SESAME_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "WORKSTATION_ID",
    "PGPASSFILE",  # by which libpq finds a password, or a service
    "PGSERVICEFILE",
)
COMMAND_S = 60.0  # `systemctl start` waits for the daemon itself


@dataclass(frozen=True)
class Spec:
    """What a unit starts: the interpreter, and what it gets of an environment."""

    python: str
    environment: Mapping[str, str]

    @property
    def socket(self) -> str:
        return self.environment.get("SESAME_SOCKET", "")

    def extend(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of what it starts. Where files are follows from the unit alone."""
        own = {name: value for name, value in environ.items() if name not in CARRIED and not name.startswith("SESAME_")}
        return {**own, **self.environment}


def build_spec(environ: Mapping[str, str]) -> Spec:
    """The daemon that belongs to this program and this environment."""
    try:
        socket = os.path.abspath(socket_path(environ))
    except LookupError as error:
        raise NotRunningError(str(error)) from None
    carried = {name: environ[name] for name in (*CARRIED, *_agent_variables()) if environ.get(name)}
    spec = Spec(_python(), {"SESAME_SOCKET": socket, **carried})
    for value in (spec.python, log_path(environ), *spec.environment.values()):
        if not value.isprintable():
            raise RpcError(0, f"{value!r} has control characters, which a unit cannot hold; use another path")
    return spec


def with_path(spec: Spec, path: str) -> Spec:
    """The same with the directories of a PATH in which programs are looked for, but for those that depend on where somebody is."""
    kept = [directory for directory in path.split(os.pathsep) if os.path.isabs(directory) and directory.isprintable()]
    return Spec(spec.python, {**spec.environment, "PATH": os.pathsep.join(dict.fromkeys(kept))})


def log_path(environ: Mapping[str, str]) -> str:
    """Where a daemon of this environment logs when it is not started by systemd."""
    return os.path.join(data_directory(environ), "sesamed.log")


def _agent_variables() -> Iterator[str]:
    """The variables that move an agent's sessions."""
    from sesamed.sources import SOURCES  # here: starting the daemon imports this module, and people wait for that

    for source in SOURCES.values():
        for location in source.locations:
            yield from (variable.name for variable in location.moved_by)


def _python() -> str:
    """The interpreter by one name, so that a unit does not change with how this program was called."""
    python = os.path.abspath(sys.executable)
    plain = os.path.join(os.path.dirname(python), "python3")
    return plain if os.path.exists(plain) and os.path.samefile(plain, python) else python


def load_template(*names: str) -> str:
    """A template: inside the package in a wheel, beside it in a source tree."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for base in (os.path.join(package, "templates"), os.path.dirname(package)):
        if (text := read_text(os.path.join(base, *names))) is not None:
            return text
    raise RpcError(0, f"the template {'/'.join(names)} is missing from this installation; reinstall sesame")


def read_text(path: str) -> str | None:
    """The file's text; None when there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def read_regular(path: str) -> str | None:
    """The text of a file that is none but ours to read: neither a link, as a masked unit is, nor anything that would wait."""
    try:
        return read_text(path) if stat.S_ISREG(os.lstat(path).st_mode) else None
    except OSError:
        return None


def write_text(path: str, text: str) -> bool:
    """Replace the file as a whole; returns whether that changed it."""
    if read_text(path) == text:
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fresh = f"{path}.new"
    try:
        with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
        os.replace(fresh, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh)
        raise
    return True


def restore_text(path: str, text: str | None) -> None:
    """The file as it was; None if there was none."""
    if text is not None:
        write_text(path, text)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def run_command(words: list[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """Run a service manager's program; returns its exit code and output."""
    try:
        ran = subprocess.run(  # noqa: S603  # our own words
            words,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RpcError(
            0, f"`{' '.join(words)}` did not finish within {COMMAND_S:g} s; run it yourself to see why"
        ) from None
    return ran.returncode, ran.stdout.decode("utf-8", "replace").strip()
