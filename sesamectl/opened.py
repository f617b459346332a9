"""Which session an agent has open: its hook says so, and the server that it started for the same session looks it up.

Hook and server are children of the same process. So there is a file for each such process, named after its pid and when it began (a pid
comes again), beside the socket, where only this user can read and write. The newest thing that was said counts: a process that leaves
one session and opens another says so.
"""

from __future__ import annotations

import os
import sys

from sesamectl.locations import is_private, socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY = "open"
MOST = 200  # characters of an id
STARTED = 19  # the field of /proc/PID/stat, behind the name, which may contain anything


def note_session(environ: Mapping[str, str], pid: int, session: str) -> None:
    """This process has this session open. Files of processes that have ended go. Raises OSError, LookupError."""
    directory = _directory(environ)
    for path in (os.path.dirname(directory), directory):
        os.makedirs(path, 0o700, exist_ok=True)
        if not is_private(path, os.geteuid()):
            raise LookupError(f"{path} is not a directory that only you can open")
    name = _name(pid)
    for other in os.listdir(directory):
        if other != name and not _is_alive(other):
            os.unlink(os.path.join(directory, other))
    path = os.path.join(directory, name)
    with open(f"{path}.new", "w", encoding="utf-8", opener=_open_private) as file:
        file.write(session[:MOST])
    os.replace(f"{path}.new", path)


def find_session(environ: Mapping[str, str], pid: int) -> str:
    """The session that this process has open; empty if nothing has been said."""
    try:
        directory = _directory(environ)
        if not is_private(directory, os.geteuid()):
            return ""
        with open(os.path.join(directory, _name(pid)), encoding="utf-8", errors="replace") as file:
            return file.read(MOST)
    except (OSError, LookupError):
        return ""


def _directory(environ: Mapping[str, str]) -> str:
    return os.path.join(os.path.dirname(socket_path(environ)), DIRECTORY)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _name(pid: int) -> str:
    """Which process it is. Raises LookupError if it has ended."""
    if began := _began_at(pid):
        return f"{pid}-{began}"
    raise LookupError(f"there is no process {pid}")


def _is_alive(name: str) -> bool:
    pid = name.partition("-")[0]
    return pid.isdecimal() and name.removesuffix(".new") == f"{pid}-{_began_at(int(pid))}"


def _began_at(pid: int) -> str:
    """When it began, in whatever the system counts; empty if it has ended."""
    if sys.platform != "linux":
        return _ask_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].split()[STARTED].decode()
    except (OSError, IndexError):
        return ""


def _ask_ps(pid: int) -> str:
    import subprocess

    said = subprocess.run(  # noqa: S603  # our own words
        ("/bin/ps", "-o", "lstart=", "-p", str(pid)),
        env={"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return "".join(letter for letter in said.stdout if letter.isalnum())
