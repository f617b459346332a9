"""When daemon and client are of different versions: the newer one wins, by one restart, and nobody fights.

A newer client restarts an older daemon, one client of all that ask at once, and never twice for the same two versions: where the
restart brings the old one back (a service of another installation), it says so instead. An older client restarts nothing.
"""

from __future__ import annotations

import os
import sys

from sesamectl import __version__
from sesamectl.asking import greeting
from sesamectl.launch import Starters, launch
from sesamectl.render import clean
from sesamectl.where import data_directory

STAMP = "restart.stamp"  # which restart was tried, in vain as far as is known


def meet(path: str) -> None:
    """Have the newer of the two run. What is wrong with the daemon otherwise is for the question itself to find out."""
    theirs = _version(path)
    if theirs is None or theirs == __version__:
        return
    if not is_newer(__version__, theirs):
        _warn(
            f"sesamed {theirs} runs, this sesamectl is {__version__}; update it, or mind that it does not know everything"
        )
        return
    _restart(path, theirs)
    if (now := _version(path)) is not None and is_newer(__version__, now):
        _warn(
            f"sesamed {now} runs, older than this sesamectl {__version__}, and comes back when it is restarted;"
            " `sesamectl service install` has the service run this installation"
        )


def is_newer(one: str, other: str) -> bool:
    """Whether one release is newer than another; no when either is no release."""
    mine, theirs = _numbers(one), _numbers(other)
    return bool(mine and theirs and mine > theirs)


def _restart(path: str, theirs: str) -> None:
    """Once, by one of us."""
    from sesamectl.commands import life

    stamp, tried = os.path.join(data_directory(os.environ), STAMP), f"{theirs} {__version__}\n"
    with Starters(os.environ):
        if _version(path) != theirs or _read(stamp) == tried:
            return
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(tried)
        life.stopped(path)
    launch(path)
    if _version(path) == __version__:
        os.unlink(stamp)


def _version(path: str) -> str | None:
    """Of who answers; None when nobody does, or nobody that we know."""
    version = (greeting(path) or {}).get("version")
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
    """To people only: a script's errors are not to have this in them at every call."""
    if sys.stderr.isatty():
        print(f"sesamectl: {clean(text)}", file=sys.stderr)
