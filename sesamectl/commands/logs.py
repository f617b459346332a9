"""`logs`: what the daemon said of itself. The journal keeps it where a service was installed, else a file beside the index."""

from __future__ import annotations

import os
import shutil
import sys

from sesamectl import service
from sesamectl.errors import RpcError
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.where import data_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal

LINES = 50
TAIL_BYTES = 4 << 20
FILES = ("sesamed.log.2", "sesamed.log.1", "sesamed.log")


def run(arguments: Arguments) -> None:
    """Show the end of it, or follow it."""
    count = int(arguments.values.get("lines", LINES))
    if arguments.has("follow"):
        _become(_journal(count, "--follow") or ["tail", "-n", str(count), "-F", _path(FILES[-1])])
    journal = _journal(count, "--no-pager")
    if journal:
        code, text = service.command(journal, os.environ)
        if code:
            raise RpcError(0, f"journalctl: {text}")
        found = text.split("\n")
    else:
        found = [line for name in FILES for line in _lines(_path(name))]
    if not found:
        raise RpcError(0, f"nothing was logged yet in {_path(FILES[-1])}; a daemon in a terminal logs there")
    show({"lines": found[max(0, len(found) - count) :]}, _shown, arguments)


def _journal(count: int, how: str) -> list[str]:
    """What shows the journal; nothing where it is not the journal that keeps what the daemon says."""
    socket = service.wanted(os.environ).socket
    if service.manager().name != "systemd" or not service.start_command(socket) or shutil.which("journalctl") is None:
        return []
    return ["journalctl", "--user", "--unit=sesamed.service", f"--lines={count}", how]


def _path(name: str) -> str:
    return os.path.join(data_directory(os.environ), name)


def _shown(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield from (clean(line) for line in answer["lines"])


def _become(words: list[str]) -> None:
    """Another program goes on in our place: its output, its end."""
    sys.stdout.flush()
    os.execvp(words[0], words)  # noqa: S606  # no shell


def _lines(path: str) -> Iterator[str]:
    """The last lines of a file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            yield from file.read().decode("utf-8", "replace").rstrip("\n").split("\n")
    except FileNotFoundError:
        return
