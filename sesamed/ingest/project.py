"""The project of a working directory: the main worktree of its repository, read from `.git`.

Never runs git, follows no link to a file, reads at most two small regular files. The directory comes from a transcript
and may be anything, or gone; then its parents are tried, and at worst it is its own project.
"""

import os
import stat

PARENTS = 40
GIT_FILE_BYTES = 4096


class Projects:
    """Caches answers by directory: transcripts name the same few again and again."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._known: dict[str, str | None] = {}

    def of(self, cwd: str | None) -> str | None:
        """The project of a directory, cached."""
        if cwd is None:
            return None
        if cwd not in self._known:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            self._known[cwd] = project_of(cwd)
        return self._known[cwd]


def project_of(cwd: str | None) -> str | None:
    """The main worktree of the repository that contains `cwd`, or `cwd` itself, normalised, if there is none."""
    if not cwd:
        return None
    if not os.path.isabs(cwd):  # of another machine, or nonsense: nothing to look for
        return cwd
    directory = top = os.path.normpath("/" + cwd.lstrip("/"))
    for _ in range(PARENTS):
        if found := _worktree(directory):
            return found
        if directory == "/":
            break
        directory = os.path.dirname(directory)
    return top


def _worktree(directory: str) -> str | None:
    """The main worktree of the repository with this top directory, None if there is none."""
    marker = os.path.join(directory, ".git")
    try:
        mode = os.lstat(marker).st_mode
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(mode):
        return directory if stat.S_ISDIR(mode) or stat.S_ISLNK(mode) else None
    text = _small(marker)
    if text is None or not text.startswith("gitdir:"):
        return None
    git_dir = os.path.normpath(os.path.join(directory, text[len("gitdir:") :].strip()))
    return _main_worktree(git_dir) or directory


def _main_worktree(git_dir: str) -> str | None:
    """The main worktree if `git_dir` belongs to a linked one; None for a submodule or a separate git directory."""
    if os.path.basename(os.path.dirname(git_dir)) != "worktrees":
        return None
    named = _small(os.path.join(git_dir, "commondir"))
    common = os.path.normpath(os.path.join(git_dir, named or "../.."))
    name = os.path.basename(common)
    if (not named and name != ".git") or "/.git/modules/" in common:
        return None
    # a bare repository has no main worktree: `project/.bare` stands for its directory, `project.git` for itself
    return os.path.dirname(common) if name.startswith(".") else common


def _small(path: str) -> str | None:
    """The first line of a small regular file, None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > GIT_FILE_BYTES:
            return None
        return os.fsdecode(os.read(descriptor, GIT_FILE_BYTES)).split("\n", 1)[0].strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)
