"""When daemon and client are of different versions: the newer one wins, by a single restart.

A newer client restarts an older daemon: one client of all that ask at once, and never twice for the same two versions. Where
the restart brings the old one back (a service of another installation), it warns instead. An older client restarts nothing.
"""

import os
import sys

from sesamectl import __version__
from sesamectl.client import ANSWER_S, Client
from sesamectl.errors import ClientError, RpcError
from sesamectl.handshake import try_hello
from sesamectl.launch import hold_start_lock, launch, require_startable
from sesamectl.lifecycle import stop_daemon
from sesamectl.locations import data_directory
from sesamectl.reading import Reading
from sesamectl.render import clean
from sesamectl.service.manager import managed_spec
from sesamectl.service.unit import build_spec

STAMP = "restart.stamp"  # names the restart that was tried last, until it has succeeded


def settle_versions(path: str) -> None:
    """Make the newer of the two run. Whatever else is wrong with the daemon, the question itself will find out."""
    theirs = _version(path)
    if theirs is None or theirs == __version__:
        return
    if not is_newer(__version__, theirs):
        _warn(f"sesamed {theirs} is running and this sesamectl is {__version__}; update sesamectl to use all of it")
        return
    if not _restart(path, theirs):
        return
    if (now := _version(path)) is not None and is_newer(__version__, now):
        _warn(
            f"sesamed {now} is running, older than this sesamectl {__version__}, and came back after a restart;"
            " `sesamectl service install` makes the service run this installation"
        )


def is_newer(one: str, other: str) -> bool:
    """Whether one release is newer than another; false when either is not a release number."""
    mine, theirs = _numbers(one), _numbers(other)
    return bool(mine and theirs and mine > theirs)


def _restart(path: str, theirs: str) -> bool:
    """Restart once, by one client; false if the newer daemon could not start."""
    stamp, tried = os.path.join(data_directory(os.environ), STAMP), f"{theirs} {__version__}\n"
    with hold_start_lock(os.environ):
        if _version(path) != theirs or _read(stamp) == tried:
            return True
        if obstacle := _find_obstacle(path):
            _warn(f"sesamed {theirs} keeps running although sesamectl is {__version__}: {obstacle}")
            return False
        descriptor = os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(tried)
        stop_daemon(path)
    launch(path)
    if _version(path) == __version__:
        os.unlink(stamp)
    return True


def _find_obstacle(path: str) -> str:
    """Why a restart from here would end a good daemon without there being another one, or one with the same sessions."""
    spec = managed_spec(path)
    try:
        require_startable(spec or build_spec(os.environ))
        with Reading(path), Client(path, ANSWER_S) as client:
            theirs = os.path.dirname(client.call("status")["database"]["path"])
    except (ClientError, RpcError) as error:
        return str(error)
    ours = data_directory(os.environ if spec is None else spec.extend(os.environ))
    return "" if ours == theirs else f"it keeps its index in {theirs}, and a new one would in {ours}"


def _version(path: str) -> str | None:
    """The version of the daemon that answers; None when none does."""
    version = (try_hello(path) or {}).get("version")
    return version if isinstance(version, str) else None


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts) else ()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _warn(text: str) -> None:
    """On terminals only: a script would get it with every call."""
    if sys.stderr.isatty():
        print(f"sesamectl: {clean(text)}", file=sys.stderr)
