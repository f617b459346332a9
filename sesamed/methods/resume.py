"""How the agent itself resumes a session: a command as a list of words, never for a shell, and the directory to run it in.

What is offered here gets run, and comes from files that others wrote. So the id must be a plain word, the path one that the index
knows, and the directory must exist and belong to the user; otherwise nothing is offered.
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
    """The command that resumes a session, and where to run it."""

    command: list[Exact]
    cwd: Exact | None


def make_resume(origin: Origin) -> Resume | None:
    """The command for a session, if its file exists and everything in the command can be trusted."""
    source, native_id, cwd, subagent, path = origin
    command = SOURCES[source].resume if source in SOURCES else None
    if command is None or path is None or (subagent and not command.subagents):
        return None
    if not PLAIN.fullmatch(native_id) or not _is_printable(path) or not _is_own_directory(cwd):
        return None
    return Resume(command=[word.format(path=path.decode(), id=native_id, cwd=cwd) for word in command.words], cwd=cwd)


def _is_printable(path: bytes) -> bool:
    """Whether a path can be shown and typed. One that cannot be decoded would become a different path."""
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
