"""Long text on a terminal, through the person's pager as git does it: else the best hits scroll off the top.

SESAME_PAGER, or else PAGER, names it; nothing or `cat` in there is none; without both it is `less`. No subprocess: importing it
takes nearly as long as a search.
"""

from __future__ import annotations

import os
import signal

DEFAULT = "less"
OPTIONS = {"LESS": "FRX", "LV": "-c"}  # ends where all fits on the screen, shows marks, leaves the screen as it is
CANNOT_RUN = (126, 127)  # of a shell that was given a command


def page(text: bytes) -> bool:
    """Show the text until the person has read it; whether there was a pager for it."""
    if not (command := _choose()):
        return False
    reading, writing = os.pipe()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is the pager's; it may not end us before it
    try:
        process = _start(command, reading)
        os.close(reading)
        _write(text, writing)
        return process is not None and os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) not in CANNOT_RUN
    finally:
        signal.signal(signal.SIGINT, before)


def _choose() -> str:
    """The pager's command, for a shell; empty for none."""
    given = os.environ.get("SESAME_PAGER", os.environ.get("PAGER", DEFAULT)).strip()
    return "" if given == "cat" else given


def _start(command: str, reading: int) -> int | None:
    """The process, or None if there is no such program that we may run. It gets the signals that Python and we ignore."""
    words = [DEFAULT] if command == DEFAULT else ["sh", "-c", command]
    try:
        return os.posix_spawnp(
            words[0],
            words,
            {**OPTIONS, **os.environ},
            file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0)],
            setsigdef=[signal.SIGINT, signal.SIGPIPE],
        )
    except (FileNotFoundError, PermissionError):
        return None


def _write(text: bytes, writing: int) -> None:
    """The person may not read all of it."""
    try:
        with open(writing, "wb") as pipe:
            pipe.write(text)
    except BrokenPipeError:
        return
