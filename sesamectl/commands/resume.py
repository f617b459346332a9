"""`resume`: continues a session with its agent's own command, in its directory. No shell is involved.

What to run comes from transcripts, so it is printed first, and confirmed when it would run outside the current directory.
"""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from shlex import join, quote
from typing import Any

from sesamectl.call import call_retrying
from sesamectl.client import Client
from sesamectl.errors import RefusedError
from sesamectl.flags import Arguments
from sesamectl.output import show
from sesamectl.render import clean
from sesamectl.render.terminal import Terminal
from sesamectl.resolve import resolve


def run(arguments: Arguments) -> None:
    """Find out how, confirm if needed, and become the agent."""

    def question(client: Client) -> dict[str, Any]:
        session = resolve(client, arguments.words[0])
        return client.call("get_session_meta", sessionId=session["sessionId"])

    command, cwd = check_resume(call_retrying(arguments, question))
    if arguments.has("print") or arguments.has("json"):
        show({"command": command, "cwd": cwd}, _shell_line, arguments)
        return
    print(f"{clean(' '.join(command))}\nin {clean(cwd)}", file=sys.stderr)
    if not (arguments.has("yes") or is_below(cwd, os.getcwd()) or _confirm()):
        raise RefusedError("not resumed")
    _exec(command, cwd)


def check_resume(meta: Mapping[str, Any]) -> tuple[list[str], str]:
    """The command and the directory, if both are safe to use here. Raises RefusedError."""
    session, resume = clean(meta.get("sessionId")), meta.get("resume")
    if not resume:
        raise RefusedError(
            f"cannot resume session {session}: its file or directory is gone or not yours, or its agent has no command for it"
        )
    command, cwd = resume.get("command"), resume.get("cwd")
    if not (
        isinstance(command, list) and command and all(isinstance(word, str) and is_plain(word) for word in command)
    ):
        raise RefusedError(f"refusing to run the command for session {session}: it has characters that cannot be shown")
    if not (isinstance(cwd, str) and is_plain(cwd) and is_own_directory(cwd)):
        raise RefusedError(f"the directory of session {session} does not exist, or is not yours: {clean(cwd)}")
    return command, cwd


def is_plain(word: str) -> bool:
    """Whether the word looks as it is: nothing in it is hidden or changed when printed."""
    return bool(word) and clean(word) == word


def is_own_directory(path: str) -> bool:
    """Whether the path is a directory that belongs to the user."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return os.path.isabs(path) and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def is_below(path: str, here: str) -> bool:
    """Whether a directory is `here` or below it."""
    real, above = os.path.realpath(path), os.path.realpath(here)
    return real == above or real.startswith(above.rstrip("/") + "/")


def _confirm() -> bool:
    """Ask the person."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError("this session's directory is not below the current one: go there, or pass --yes")
    print("This is not below the current directory. Continue? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _exec(command: list[str], cwd: str) -> None:
    os.chdir(cwd)
    try:
        os.execvp(command[0], command)  # noqa: S606  # no shell, on purpose
    except FileNotFoundError:
        raise RefusedError(f"{clean(command[0])} is not installed, or not on PATH") from None


def _shell_line(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    """Quoted for a shell."""
    yield f"cd -- {quote(answer['cwd'])} && {join(answer['command'])}"
