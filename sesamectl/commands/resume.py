"""`resume`: continues a session with its agent's own command, in its directory or, with `--here`, in the current one. No shell is involved.

What to run comes from transcripts, so it is printed first, and confirmed when it would run outside the current directory.
"""

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from shlex import join, quote
from typing import Any, NoReturn

from sesamectl.call import call_retrying, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import RefusedError, RpcError
from sesamectl.flags import Arguments
from sesamectl.output import show
from sesamectl.reading import Reading
from sesamectl.render import clean
from sesamectl.render.terminal import Terminal
from sesamectl.resolve import NOT_FOUND, current_directory, identify, resolve


def run(arguments: Arguments) -> None:
    """Find out how, confirm if needed, and become the agent."""

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client)
        try:
            return client.call("get_session_meta", sessionId=identify(resolve(client, arguments.words[0])))
        except RpcError as error:
            if error.code != NOT_FOUND:
                raise
            return find_in_hub(client, arguments.words[0]) or _raise(error)

    meta = call_retrying(arguments, question)
    with Reading():
        command, cwd = check_resume_here(meta) if arguments.has("here") else check_resume(meta)
        unarchive = (meta.get("resume") or {}).get("unarchive")
    if arguments.has("print") or arguments.has("json"):
        show({"command": command, "cwd": cwd}, _shell_line, arguments)
        return
    program = find_program(command[0])
    print(f"{clean(' '.join(command))}\nin {clean(cwd)}", file=sys.stderr)
    if unarchive:
        print(f"This session is archived. To take it out of the archive: {clean(join(unarchive))}", file=sys.stderr)
    if not (arguments.has("yes") or _is_here(cwd) or _confirm()):
        raise RefusedError("not resumed")
    _exec(program, command, cwd)


def find_in_hub(client: Client, reference: str) -> dict[str, Any] | None:
    """What a hub says of a session that is not here, but was found with `--hub`; None if it has none, or there is no hub."""
    with contextlib.suppress(RpcError):
        return client.call("get_session_meta", sessionId=reference, scope="both")
    return None


def _raise(error: Exception) -> NoReturn:
    raise error


def check_resume(meta: Mapping[str, Any]) -> tuple[list[str], str]:
    """The command and the directory, if both are safe to use here. Raises RefusedError."""
    session, resume = clean(meta.get("sessionId")), meta.get("resume")
    if not resume:
        raise RefusedError(f"cannot resume session {session}: {_explain(meta)}")
    command, cwd = _check_command(meta, resume.get("command")), resume.get("cwd")
    if not (isinstance(cwd, str) and is_plain(cwd) and is_own_directory(cwd)):
        raise RefusedError(f"the directory of session {session} does not exist, or is not yours: {clean(cwd)}")
    return command, cwd


def check_resume_here(meta: Mapping[str, Any]) -> tuple[list[str], str]:
    """The command for the current directory, and that. Raises RefusedError."""
    session, problem = clean(meta.get("sessionId")), meta.get("resumeProblem") or {}
    if command := meta.get("resumeHere"):
        if (here := current_directory()) is None:
            raise RefusedError(f"cannot resume session {session} here: the current directory does not exist any more")
        return _check_command(meta, command), here
    if problem and not str(problem.get("code")).startswith("directory"):
        raise RefusedError(f"cannot resume session {session}: {_explain(meta)}")
    why = f"{clean(meta.get('source'))} resumes it only in its own directory"
    why += f", and {clean(problem.get('message'))}" if problem else f": {clean(meta.get('cwd'))}"
    raise RefusedError(f"cannot resume session {session} here: {why}")


def _explain(meta: Mapping[str, Any]) -> str:
    """Why a session cannot be resumed, and what can be done."""
    problem = meta.get("resumeProblem") or {}
    why = clean(
        problem.get("message") or "its file or directory is gone or not yours, or its agent has no command for it"
    )
    if meta.get("resumeHere"):
        return f"{why}; to continue it in the current directory, pass --here"
    if problem.get("code") == "subagent" and meta.get("parentSessionId") and not meta.get("orphan"):
        return f"{why}; it worked for session {clean(meta['parentSessionId'])}"
    return why


def _check_command(meta: Mapping[str, Any], command: Any) -> list[str]:
    if isinstance(command, list) and command and all(isinstance(word, str) and is_plain(word) for word in command):
        return command
    session = clean(meta.get("sessionId"))
    raise RefusedError(f"refusing to run the command for session {session}: it has characters that cannot be shown")


def find_program(name: str) -> str:
    """The agent's program. Raises RefusedError."""
    found = shutil.which(name)
    if found is None:
        raise RefusedError(f"{clean(name)} is not installed, or not on PATH")
    return os.path.abspath(found)


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


def _is_here(path: str) -> bool:
    """Whether a directory is the current one or below it. Nothing is below one that was removed."""
    here = current_directory()
    return here is not None and is_below(path, here)


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


def _exec(program: str, command: list[str], cwd: str) -> None:
    os.chdir(cwd)
    try:
        os.execv(program, command)  # noqa: S606  # no shell, on purpose
    except OSError as error:
        raise RefusedError(f"{clean(program)} cannot be run: {error.strerror}") from None


def _shell_line(answer: Mapping[str, Any], _: Terminal) -> Iterator[str]:
    """Quoted for a shell."""
    yield f"cd -- {quote(answer['cwd'])} && {join(answer['command'])}"
