"""`resume`: takes a session up again, with its agent's own command, in its directory. No shell is involved.

What to run comes from transcripts, so it is shown; and asked for, when it would run somewhere else than here.
"""

from __future__ import annotations

import os
import stat
import sys

from sesamectl.asking import ask
from sesamectl.errors import RefusedError
from sesamectl.meant import meant
from sesamectl.output import show
from sesamectl.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sesamectl.client import Client
    from sesamectl.flags import Arguments
    from sesamectl.render.terminal import Terminal


def run(arguments: Arguments) -> None:
    """Find out how, ask if need be, and become the agent."""

    def question(client: Client) -> dict[str, Any]:
        session = meant(client, arguments.words[0])
        return client.call("get_session_meta", sessionId=session["sessionId"])

    command, cwd = checked(ask(arguments, question))
    if arguments.has("print") or arguments.has("json"):
        show({"command": command, "cwd": cwd}, _quoted, arguments)
        return
    print(f"{clean(' '.join(command))}\nin {clean(cwd)}", file=sys.stderr)
    if not (arguments.has("yes") or is_below(cwd, os.getcwd()) or _agreed()):
        raise RefusedError("nothing was started")
    _become(command, cwd)


def checked(meta: Mapping[str, Any]) -> tuple[list[str], str]:
    """The command and the directory, if all is as it should be here and now."""
    session, resume = clean(meta.get("sessionId")), meta.get("resume")
    if not resume:
        raise RefusedError(
            f"session {session} cannot be taken up again: its file or directory is gone, or not yours, or its agent has no command"
        )
    command, cwd = resume.get("command"), resume.get("cwd")
    if not (
        isinstance(command, list) and command and all(isinstance(word, str) and is_plain(word) for word in command)
    ):
        raise RefusedError(f"the command for session {session} is not one that can be shown, so it is not run")
    if not (isinstance(cwd, str) and is_plain(cwd) and is_own_directory(cwd)):
        raise RefusedError(f"the directory of session {session} is not there, or not yours: {clean(cwd)}")
    return command, cwd


def is_plain(word: str) -> bool:
    """Whether what is shown of a word is all of it."""
    return bool(word) and clean(word) == word


def is_own_directory(path: str) -> bool:
    """A directory of the user's."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return os.path.isabs(path) and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def is_below(path: str, here: str) -> bool:
    """Whether a directory is this one, or below it."""
    real, above = os.path.realpath(path), os.path.realpath(here)
    return real == above or real.startswith(above.rstrip("/") + "/")


def _agreed() -> bool:
    """Whether the person wants it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError("that is not below the current directory: go there, or say --yes")
    print("That is not below the current directory. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _become(command: list[str], cwd: str) -> None:
    os.chdir(cwd)
    try:
        os.execvp(command[0], command)  # noqa: S606  # that there is no shell is the point
    except FileNotFoundError:
        raise RefusedError(f"{clean(command[0])} is not installed, or not on the PATH") from None


def _quoted(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    """For a shell: quoted so that it sees these words and nothing else."""
    from shlex import join, quote

    yield f"cd -- {quote(answer['cwd'])} && {join(answer['command'])}"
