"""`logs`: the daemon's log, from the journal when it runs as a systemd service, else from a file beside the index. Containers and WSL often
have systemd and no journal; then the service logs to the file as well.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.errors import RpcError
from sesamectl.flags import Arguments
from sesamectl.locations import data_directory
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import Terminal
from sesamectl.service.manager import find_manager, start_command
from sesamectl.service.unit import build_spec, run_command

LINES = 50
TAIL_BYTES = 4 << 20
FILES = ("sesamed.log.2", "sesamed.log.1", "sesamed.log")


def run(arguments: Arguments) -> None:
    """Print the last lines, or follow."""
    count = int(arguments.values.get("lines", LINES))
    said = _read_journal(count)
    if arguments.has("follow"):
        file = ["tail", "-n", str(count), "-F", _path(FILES[-1])]
        _exec(_journal_command(count, "--follow") if said else file)
    found = said or [line for name in FILES for line in _lines(_path(name))]
    if not found:
        raise RpcError(
            0, f"{_path(FILES[-1])} is empty or missing; a daemon that runs in a terminal logs there instead"
        )
    show({"lines": found[max(0, len(found) - count) :]}, _clean_lines, arguments)


def _read_journal(count: int) -> list[str]:
    """The last lines in the journal; none where it has none of the daemon's."""
    command = _journal_command(max(count, 1), "--no-pager")
    if not command:
        return []
    code, text = run_command(command, os.environ)
    if code and not os.path.exists(_path(FILES[-1])):
        raise RpcError(0, f"journalctl: {text}")
    return text.split("\n") if text and not code else []


def _journal_command(count: int, how: str) -> list[str]:
    """The command that prints the journal; empty where the daemon does not log to it."""
    socket = build_spec(os.environ).socket
    if find_manager().name != "systemd" or not start_command(socket) or shutil.which("journalctl") is None:
        return []
    units = ["--unit=sesamed.service", "--unit=sesame-remember.service"]
    return ["journalctl", "--user", *units, "--quiet", f"--lines={count}", how]


def _path(name: str) -> str:
    return os.path.join(data_directory(os.environ), name)


def _clean_lines(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    yield from (clean(line) for line in answer["lines"])


def _exec(words: list[str]) -> None:
    """Replace this process."""
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
