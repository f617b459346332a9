"""`logs`: what the daemon said of itself. The journal keeps it where a service was installed, else a file beside the index."""

from __future__ import annotations

import os
import shutil
import sys

from sesamectl import service
from sesamectl.errors import RpcError
from sesamectl.render import clean
from sesamectl.where import data_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sesamectl.flags import Arguments

LINES = 50
TAIL_BYTES = 4 << 20
FILES = ("sesamed.log.2", "sesamed.log.1", "sesamed.log")


def run(arguments: Arguments) -> None:
    """Show the end of it, or follow it."""
    count = int(arguments.values.get("lines", LINES))
    socket = service.wanted(os.environ).socket
    if service.manager().name == "systemd" and service.start_command(socket) and shutil.which("journalctl"):
        follow = ["--follow"] if arguments.has("follow") else ["--no-pager"]
        _become(["journalctl", "--user", "--unit=sesamed.service", f"--lines={count}", *follow])
    directory = data_directory(os.environ)
    if arguments.has("follow"):
        _become(["tail", "-n", str(count), "-F", os.path.join(directory, FILES[-1])])
    found = [line for name in FILES for line in _lines(os.path.join(directory, name))]
    if not found:
        raise RpcError(0, f"nothing was logged yet in {directory}/{FILES[-1]}; a daemon in a terminal logs there")
    for line in found[max(0, len(found) - count) :]:
        print(clean(line))


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
