"""How the agent itself resumes a session: a command as a list of words, never for a shell, and the directory to run it in.

What is offered here gets run, and comes from files that others wrote. So the id must be a plain word, the path one that the index
knows, and the directory must exist and belong to the user; otherwise nothing is offered, and the reason is.
"""

import os
import re
import stat
from typing import Literal

from sesamed.model import Answer
from sesamed.sanitize import Exact, Line
from sesamed.source import ResumeCommand
from sesamed.sources import SOURCES
from sesamed.store.reading.summary import Origin

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NO_DIRECTORY = frozenset({"directoryUnknown", "directoryGone"})


class Resume(Answer, frozen=True, kw_only=True):
    """The command that resumes a session, and where to run it; of an archived one, also the command that takes it out of the archive."""

    command: list[Exact]
    cwd: Exact | None
    unarchive: list[Exact] | None = None


class ResumeProblem(Answer, frozen=True, kw_only=True):
    """Why a session cannot be resumed: a code for programs, a sentence's end for people."""

    code: Literal[
        "noCommand", "subagent", "fileGone", "unsafe", "directoryUnknown", "directoryGone", "directoryNotYours", "otherWorkstation"
    ]  # fmt: skip
    message: Line


def find_problem(origin: Origin) -> ResumeProblem | None:
    """Why a session cannot be resumed in its directory; None if it can."""
    return _find_problem_of_session(origin) or _find_problem_of_directory(origin.cwd)


def make_resume(origin: Origin) -> Resume:
    """The command for a session that has no problem."""
    command = SOURCES[origin.source].resume
    assert command is not None
    return Resume(
        command=_fill(command.words, origin),
        cwd=origin.cwd,
        unarchive=_fill(command.unarchive, origin) if is_archived(origin) else None,
    )


def make_command_here(origin: Origin, problem: ResumeProblem | None) -> list[str] | None:
    """The command for the directory that it is run in, if the agent has one."""
    command = _command_of(origin)
    if command is None or not command.here or _find_problem_of_session(origin):
        return None
    is_lost = problem is not None and problem.code in NO_DIRECTORY
    return _fill(command.here, origin) if is_lost or command.anywhere else None


def is_archived(origin: Origin) -> bool:
    """Whether the person has put the session away: all of its files are in the agent's archive."""
    command = _command_of(origin)
    if command is None or not (command.archive and origin.paths):
        return False
    return all(command.archive.encode() in path.split(b"/") for path in origin.paths)


def _command_of(origin: Origin) -> ResumeCommand | None:
    return SOURCES[origin.source].resume if origin.source in SOURCES else None


def _fill(words: tuple[str, ...], origin: Origin) -> list[str]:
    return [word.format(path=origin.paths[0].decode(), id=origin.native_id, cwd=origin.cwd) for word in words]


def find_problem_elsewhere(workstation: str) -> ResumeProblem:
    """Why a session of another machine is not resumed here."""
    return ResumeProblem(
        code="otherWorkstation", message=f"it is a session of workstation {workstation}; resume it there"
    )


def _find_problem_of_session(origin: Origin) -> ResumeProblem | None:
    """What holds wherever the command would run."""
    command = _command_of(origin)
    label = SOURCES[origin.source].label if origin.source in SOURCES else origin.source
    no_command = ResumeProblem(code="noCommand", message=f"{label} has no command that resumes a session")
    if origin.workstation is not None:
        return find_problem_elsewhere(origin.workstation)
    if command is None:
        return no_command
    if origin.subagent and not command.subagents:
        return ResumeProblem(code="subagent", message=f"{label} cannot resume the session of a subagent")
    if not origin.paths:
        return ResumeProblem(code="fileGone", message="its file is gone")
    if not PLAIN.fullmatch(origin.native_id):
        return ResumeProblem(code="unsafe", message="its id is not a plain word")
    if not _is_printable(origin.paths[0]):
        return ResumeProblem(code="unsafe", message="its file's path has characters that cannot be shown")
    return None if _is_known_to(command, origin) else no_command


def _find_problem_of_directory(cwd: str | None) -> ResumeProblem | None:
    if cwd is None or not os.path.isabs(cwd):
        return ResumeProblem(code="directoryUnknown", message="its file does not say in which directory it ran")
    if not cwd.isprintable():
        return ResumeProblem(code="unsafe", message="its directory's path has characters that cannot be shown")
    try:
        status = os.stat(cwd)
    except (OSError, ValueError):
        return ResumeProblem(code="directoryGone", message=f"its directory does not exist: {cwd}")
    if not stat.S_ISDIR(status.st_mode):
        return ResumeProblem(code="directoryGone", message=f"its directory is a file now: {cwd}")
    if status.st_uid != os.geteuid():
        return ResumeProblem(code="directoryNotYours", message=f"its directory belongs to another user: {cwd}")
    return None


def _is_known_to(command: ResumeCommand, origin: Origin) -> bool:
    """Whether a session is one that the command resumes: of some agents, others are an editor's."""
    return not command.within or any(command.within.encode() in path.split(b"/")[:-1] for path in origin.paths)


def _is_printable(path: bytes) -> bool:
    """Whether a path can be shown and typed. One that cannot be decoded would become a different path."""
    try:
        return path.startswith(b"/") and path.decode().isprintable()
    except UnicodeDecodeError:
        return False
