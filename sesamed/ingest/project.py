"""What is known of working directories: the project that each belongs to (the main worktree of its repository, read from `.git`), and the
`.sesameignore` that excludes its sessions.

Never runs git, follows no link to a `.git`, reads small regular files only. The directory comes from a transcript and may be anything, or
gone; then its parents are tried, and at worst it is its own project.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from sesamed.exclusion import Ignored, IgnoreFile, read_ignore_file
from sesamed.folding import FOLDS, fold_here

PARENTS = 40
GIT_FILE_BYTES = 4096
FRESH_S = 1.0  # so long a directory is not looked at again for the next new session in it
SETTLED_NS = 2_000_000_000  # what was made in a directory just now may not show in its time yet
SESSION = "\0"  # a session's name for the rules: no pattern spells it, `*` matches it
_HERE = re.compile(
    r"^(!?)(?:\.?/|\.)[ \t]*\r?$", re.MULTILINE
)  # to git that is nothing; people mean all of the directory


class Verdict(NamedTuple):
    """Which file excludes the sessions of a directory; and whether anybody knows what it says."""

    by: str
    is_certain: bool = True


class Projects:
    """What was found of directories: transcripts name the same few again and again.

    A project's `.sesameignore` is looked for each time that `refresh` is called, and when a session is read from its beginning. While the
    directory that it was in is not there (deleted, not mounted), it says what it said before.
    """

    def __init__(self, size: int = 4096, *, heeds_files: bool = True) -> None:
        self.revision = 0  # grows when what is excluded has changed
        self._size = size
        self._heeds_files = heeds_files
        self._known: dict[str, str | None] = {}
        self._judged: dict[str, tuple[float, Verdict | None]] = {}
        self._seen: Mapping[str, _Directory] = {}
        self._lock = Lock()  # sweeps and looks may come at one time

    def of(self, cwd: str | None) -> str | None:
        """The project of a directory, cached."""
        if cwd is None:
            return None
        if cwd not in self._known:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            self._known[cwd] = project_of(cwd)
        return self._known[cwd]

    def of_repository(self, cwd: str) -> str | None:
        """The same; None of a directory that is there, and in no repository."""
        project = self.of(cwd)
        return None if project == _normalise(cwd) and os.path.isdir(cwd) and _worktree(cwd) is None else project

    # -- directories

    def judge(self, cwd: str) -> Verdict | None:
        """Which file excludes the sessions of a directory, as of a moment ago."""
        if not (self._heeds_files and os.path.isabs(cwd)):
            return None
        at, verdict = self._judged.get(cwd, (0.0, None))
        if at and time.monotonic() - at < FRESH_S:
            return verdict
        with self._lock:
            return self._judge(cwd, _Look(self._seen))

    def remember(self, cwd: str, by: str) -> None:
        """This file excluded the sessions of a directory when it was last looked for."""
        if self._heeds_files and cwd not in self._judged:
            self._judged[cwd] = 0.0, Verdict(by)

    def add(self, directories: Iterable[str]) -> None:
        """Sessions were in these, and will be looked for with the next `refresh`."""
        for cwd in directories:
            if os.path.isabs(cwd):
                self._judged.setdefault(cwd, (0.0, None))

    def refresh(self) -> None:
        """Look again at all directories that are known."""
        if not self._heeds_files:
            return
        with self._lock:
            look = _Look(self._seen)
            for cwd in list(self._judged):
                self._judge(cwd, look)
            self._seen = look.seen

    def list_directories(self) -> set[str]:
        """The directories that sessions were in, and the tops of their repositories, as of the last `refresh`."""
        tops = {place for name, seen in self._seen.items() if seen.main is not None for place in (name, seen.main)}
        return tops | set(self._judged)

    def list_excluded(self) -> list[str]:
        """The directories whose sessions have to go from the index."""
        return [cwd for cwd, (_, verdict) in list(self._judged.items()) if verdict is not None and verdict.is_certain]

    def find_trouble(self, path: str) -> str | None:
        """Why a file that excludes sessions cannot be read now."""
        seen = self._seen.get(os.path.dirname(path))
        return None if seen is None or seen.file is None else seen.file.trouble

    def _judge(self, cwd: str, look: "_Look") -> Verdict | None:
        _, before = self._judged.get(cwd, (0.0, None))
        verdict = look.judge(cwd)
        if verdict is None and before is not None and not os.path.isdir(os.path.dirname(before.by)):
            verdict = before
        self._judged[cwd] = time.monotonic(), verdict
        self.revision += verdict != before
        return verdict


class _Top(NamedTuple):
    """The top directory of a worktree, and that of the main one."""

    directory: str
    main: str


class _Directory(NamedTuple):
    """What was seen of a directory. As long as nothing is made or removed in it, only its file may say something else."""

    status: tuple[int, int, int] | None  # by which that is told; None: by nothing
    real: str
    main: str | None  # the main worktree, if this is the top of one
    file: IgnoreFile | None


class _Look:
    """One look at directories: each is asked once, however many lie below it."""

    def __init__(self, before: Mapping[str, _Directory], *, for_files: bool = True) -> None:
        self._for_files = for_files
        self.seen: dict[str, _Directory] = {}
        self._before = before
        self._tops: dict[str, _Top | None] = {}

    def judge(self, cwd: str) -> Verdict | None:
        """Which file excludes the sessions of a directory; one that can be read rather than one that cannot."""
        found: list[Verdict] = []
        written = _normalise(cwd)
        for place in dict.fromkeys((written, self._see(written).real)):
            for directory, below in self._list_places(place):
                file = self._see(directory).file
                if file is not None and _excludes(file.text, below):
                    found.append(Verdict(file.path, file.text is not None))
        return max(found, key=lambda verdict: verdict.is_certain, default=None)

    def find_top(self, directory: str) -> _Top | None:
        """The worktree that a directory is in."""
        passed, top = list[str](), None
        for _ in range(PARENTS):
            if directory in self._tops:
                top = self._tops[directory]
                break
            passed.append(directory)
            if (main := self._see(directory).main) is not None:
                top = _Top(directory, main)
                break
            if directory == "/":
                break
            directory = os.path.dirname(directory)
        self._tops.update(dict.fromkeys(passed, top))
        return top

    def _list_places(self, cwd: str) -> Iterator[tuple[str, str]]:
        """Where a `.sesameignore` counts, each with the session's path from there: the directories from the session's up to the top of its
        worktree, and the top of the main one. Without a repository only its own.
        """
        top = self.find_top(cwd)
        directory, below = cwd, SESSION
        yield directory, below
        while top is not None and directory != top.directory:
            directory, name = os.path.split(directory)
            below = f"{name}/{below}"
            yield directory, below
        if top is not None and top.main != top.directory:
            yield top.main, below

    def _see(self, path: str) -> _Directory:
        if (seen := self.seen.get(path)) is None:
            seen = self.seen[path] = self._look_at(path)
        return seen

    def _look_at(self, path: str) -> _Directory:
        before = self._before.get(path)
        try:
            found = os.stat(path)
        except (OSError, ValueError):  # nothing is in it
            return _Directory(None, self._resolve_missing(path), None, None)
        status = found.st_dev, found.st_ino, found.st_mtime_ns
        if before is not None and before.status == status and before.file is None:
            return before
        is_settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
        file = None
        if self._for_files:
            file = read_ignore_file(path, None if before is None else before.file)
        return _Directory(status if is_settled else None, os.path.realpath(path), _worktree(path), file)

    def _resolve_missing(self, path: str) -> str:
        above, name = os.path.split(path)
        return path if above == path or path.count("/") > PARENTS else os.path.join(self._see(above).real, name)


@lru_cache(4096)
def _excludes(text: str | None, below: str) -> bool:
    return _compile(text).holds(fold_here(below), is_directory=False)


@lru_cache(64)
def _compile(text: str | None) -> Ignored:
    """The rules of a project's file. An empty one can only mean all of the project, and one that nobody has read may."""
    return Ignored(_HERE.sub(r"\1*", text) if text is not None and text.strip() else "*", folds=FOLDS)


def _normalise(cwd: str) -> str:
    return os.path.normpath("/" + cwd.lstrip("/"))


def project_of(cwd: str | None) -> str | None:
    """The main worktree of the repository that contains `cwd`, or `cwd` itself, normalised, if there is none."""
    if not cwd:
        return None
    if not os.path.isabs(cwd):  # of another machine, or nonsense: nothing to look for
        return cwd
    directory = _normalise(cwd)
    top = _Look({}, for_files=False).find_top(directory)
    return directory if top is None else top.main


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
