"""How an agent itself takes a session up again: a command as a list of words, never for a shell, and the directory to run it in.

What is offered here gets run, and comes from files that others wrote. So an id is a plain word, a path is one that the index knows,
the directory is there and the user's own; else nothing is offered.
"""

import os
import re
import stat

from sesamed.model import Answer
from sesamed.sanitize import Exact
from sesamed.sources import SOURCES
from sesamed.store.reading.summary import Origin

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Resume(Answer, frozen=True, kw_only=True):
    """How the agent itself takes the session up again."""

    command: list[Exact]
    cwd: Exact | None


def make_resume(origin: Origin) -> Resume | None:
    """The command for a session whose file is there."""
    source, native_id, cwd, subagent, path = origin
    command = SOURCES[source].resume if source in SOURCES else None
    if command is None or path is None or (subagent and not command.subagents):
        return None
    if not PLAIN.fullmatch(native_id) or not _is_printable(path) or not _is_own_directory(cwd):
        return None
    return Resume(command=[word.format(path=path.decode(), id=native_id, cwd=cwd) for word in command.words], cwd=cwd)


def _is_printable(path: bytes) -> bool:
    """Whether a path can be shown and typed; what cannot be encoded would be another path."""
    try:
        return path.startswith(b"/") and path.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _is_own_directory(cwd: str | None) -> bool:
    if cwd is None or not os.path.isabs(cwd) or not cwd.isprintable():
        return False
    try:
        status = os.stat(cwd)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
