"""What is known of working directories: the project that each belongs to (the main worktree of its repository, read from `.git`), and the
`.sesameignore` that excludes its sessions.

Never runs git, follows no link to a `.git`, reads small regular files only. The directory comes from a transcript and may be anything, or
gone; then its parents are tried, and at worst it is its own project.

What cannot be looked at is not absent: only ENOENT and ENOTDIR say that nothing is there. After any other error what was seen before
counts, and the next look asks again.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from sesamed.errors import SHORT
from sesamed.exclusion import Ignored, IgnoreFile, read_ignore_file
from sesamed.folding import FOLDS, fold_here

PARENTS = 40
GIT_FILE_BYTES = 4096
FRESH_S = 1.0  # so long a directory is not looked at again for the next new session in it
SETTLED_NS = 2_000_000_000  # what was made in a directory just now may not show in its time yet
NOTHING = frozenset[int]()
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
    directory that it was in is not there (deleted, not mounted), or cannot be looked into, it says what it said before.

    Where nobody has ever known of one, what cannot be looked into excludes nothing: it may be somebody else's, or on a disk that is never
    mounted again, and sessions would be hidden for good although nobody has asked for it. Only for what passes it is waited, a machine
    that is short of descriptors or memory: then `judge` and `of` raise OSError, so that the session is read by a later look, and not
    indexed before anybody could see that it is excluded, or under the wrong project for good.
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
        """The project of a directory, cached if there was nothing that could not be looked at."""
        if not cwd:
            return None
        if cwd in self._known:
            return self._known[cwd]
        project, errors = _find_project(cwd)
        _raise_any(errors & SHORT, cwd)
        if not errors:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            self._known[cwd] = project
        return project

    def of_repository(self, cwd: str) -> str | None:
        """The same; None of a directory that is there, and in no repository for certain: that has no addresses by which it is denied."""
        project = self.of(cwd)
        is_plain = cwd in self._known and project == _normalise(cwd) and os.path.isdir(cwd)
        return None if is_plain and _read_marker(cwd) == _Marker() else project

    # -- directories

    def judge(self, cwd: str) -> Verdict | None:
        """Which file excludes the sessions of a directory, as of a moment ago. Raises OSError if that has to wait."""
        if not (self._heeds_files and os.path.isabs(cwd)):
            return None
        at, verdict = self._judged.get(cwd, (0.0, None))
        if at and time.monotonic() - at < FRESH_S:
            return verdict
        with self._lock:
            verdict, lacking = self._judge(cwd, _Look(self._seen))
        _raise_any(lacking, cwd)
        return verdict

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
        if seen is None:
            return None
        return seen.file.trouble if seen.file is not None else next(map(os.strerror, seen.errors), None)

    def _judge(self, cwd: str, look: "_Look") -> tuple[Verdict | None, frozenset[int]]:
        """The verdict, and what the machine is short of, if for that nobody knows."""
        at, before = self._judged.get(cwd, (0.0, None))
        verdict, errors, told = look.judge(cwd)
        if verdict is None and before is not None and before.by not in told:
            is_away = not os.path.isdir(os.path.dirname(before.by))
            is_unsure = bool(errors) or (before.is_certain and look.is_removed(cwd))
            verdict = before if is_away or (is_unsure and look.may_hold(before.by)) else None
        lacking = NOTHING if at or verdict is not None else errors & SHORT
        self._judged[cwd] = 0.0 if lacking else time.monotonic(), verdict
        self.revision += verdict != before
        return verdict, lacking


class _Top(NamedTuple):
    """The top directory of a worktree, and that of the main one."""

    directory: str
    main: str


class _Found(NamedTuple):
    """The worktree that a directory is in, and why on the way up not all could be looked at."""

    top: _Top | None
    errors: frozenset[int]


class _Judged(NamedTuple):
    """The verdict, why other files may exclude, too, and the files that were read, and say what they say."""

    verdict: Verdict | None
    errors: frozenset[int]
    told: set[str]


class _Marker(NamedTuple):
    """What a `.git` says: the main worktree, if it is that of one, as far as it could be looked at."""

    main: str | None = None
    errors: frozenset[int] = NOTHING


class _Directory(NamedTuple):
    """What was seen of a directory. As long as nothing is made or removed in it, only its file may say something else."""

    status: tuple[int, int, int] | None  # by which that is told; None: by nothing
    real: str
    main: str | None  # the main worktree, if this is the top of one
    file: IgnoreFile | None
    errors: frozenset[int] = NOTHING  # why not all of it could be looked at; the rest is as it was seen before


class _Look:
    """One look at directories: each is asked once, however many lie below it."""

    def __init__(self, before: Mapping[str, _Directory], *, for_files: bool = True) -> None:
        self._for_files = for_files
        self.seen: dict[str, _Directory] = {}
        self._before = before
        self._tops: dict[str, _Found] = {}

    def judge(self, cwd: str) -> "_Judged":
        """Which file excludes the sessions of a directory, one that can be read rather than one that cannot."""
        found, errors, told = list[Verdict](), NOTHING, set[str]()
        written = _normalise(cwd)
        for place in dict.fromkeys((written, self._see(written).real)):
            top, on_the_way = self.find_top(place)
            errors |= on_the_way
            for directory, below in self._list_places(place, top):
                seen = self._see(directory)
                errors |= seen.errors
                if seen.file is not None and seen.file.trouble is None:
                    told.add(seen.file.path)
                if seen.file is not None and _excludes(seen.file.text, below):
                    found.append(Verdict(seen.file.path, seen.file.text is not None))
        return _Judged(max(found, key=lambda verdict: verdict.is_certain, default=None), errors, told)

    def is_removed(self, cwd: str) -> bool:
        """Whether nothing tells any more which worktree a directory was in: it is gone, as after `git worktree remove`."""
        return not os.path.isdir(cwd) and self.find_top(_normalise(cwd)).top is None

    def may_hold(self, by: str) -> bool:
        """Whether this file may be there."""
        seen = self._see(os.path.dirname(by))
        return seen.file is not None or bool(seen.errors)

    def find_top(self, directory: str, most: int = PARENTS) -> _Found:
        """The worktree that a directory is in."""
        if (found := self._tops.get(directory)) is not None:
            return found
        seen = self._see(directory)
        if seen.main is not None:
            found = _Found(_Top(directory, seen.main), seen.errors)
        elif directory == "/" or most == 1:
            found = _Found(None, seen.errors)
        else:
            above = self.find_top(os.path.dirname(directory), most - 1)
            found = _Found(above.top, seen.errors | above.errors)
        self._tops[directory] = found
        return found

    def _list_places(self, cwd: str, top: _Top | None) -> Iterator[tuple[str, str]]:
        """Where a `.sesameignore` counts, each with the session's path from there: the directories from the session's up to the top of its
        worktree, and the top of the main one. Without a repository only its own.
        """
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
        except (FileNotFoundError, NotADirectoryError, ValueError):  # nothing is in it
            return _Directory(None, self._resolve_missing(path), None, None)
        except OSError as error:
            main, real = (None, self._resolve_missing(path)) if before is None else (before.main, before.real)
            return _Directory(None, real, main, _recall(before, error), _number(error))
        status = found.st_dev, found.st_ino, found.st_mtime_ns
        if before is not None and before.status == status and before.file is None:
            return before
        is_settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
        seen = self._look_into(path, before)
        return seen._replace(status=status if is_settled and not seen.errors else None)

    def _look_into(self, path: str, before: _Directory | None) -> _Directory:
        file = None
        main, errors = _read_marker(path)
        if errors and before is not None and before.main is not None:
            main = before.main
        try:
            real = os.path.realpath(path, strict=True)  # otherwise it takes for no link what it cannot look at
        except OSError as error:
            real, errors = os.path.realpath(path) if before is None else before.real, errors | _number(error)
        try:
            if self._for_files:
                file = read_ignore_file(path, None if before is None else before.file)
        except OSError as error:
            file, errors = _recall(before, error), errors | _number(error)
        return _Directory(None, real, main, file, errors)

    def _resolve_missing(self, path: str) -> str:
        above, name = os.path.split(path)
        return path if above == path or path.count("/") > PARENTS else os.path.join(self._see(above).real, name)


def _recall(before: _Directory | None, error: OSError) -> IgnoreFile | None:
    """The file of a directory in which it cannot be looked for: what was seen of it before."""
    file = None if before is None else before.file
    return None if file is None else file._replace(trouble=error.strerror or str(error))


def _number(error: OSError) -> frozenset[int]:
    return frozenset({error.errno or errno.EIO})


def _raise_any(errors: frozenset[int], path: str) -> None:
    for number in errors:
        raise OSError(number, os.strerror(number), path)


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
    return _find_project(cwd)[0] if cwd else None


def _find_project(cwd: str) -> tuple[str, frozenset[int]]:
    """The same, and why it may be another one."""
    if not os.path.isabs(cwd):  # of another machine, or nonsense: nothing to look for
        return cwd, NOTHING
    directory = _normalise(cwd)
    top, errors = _Look({}, for_files=False).find_top(directory)
    return directory if top is None else top.main, errors


def _read_marker(directory: str) -> _Marker:
    """The main worktree of the repository with this top directory, None if there is none."""
    marker = os.path.join(directory, ".git")
    try:
        mode = os.lstat(marker).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return _Marker()
    except OSError as error:
        return _Marker(None, _number(error))
    if not stat.S_ISREG(mode):
        return _Marker(directory if stat.S_ISDIR(mode) or stat.S_ISLNK(mode) else None)
    text, errors = _read_small(marker)
    if text is None or not text.startswith("gitdir:"):
        return _Marker(None, errors)
    git_dir = os.path.normpath(os.path.join(directory, text[len("gitdir:") :].strip()))
    main, errors = _find_main_worktree(git_dir)
    return _Marker(main or directory, errors)


def _find_main_worktree(git_dir: str) -> _Marker:
    """The main worktree if `git_dir` belongs to a linked one; None for a submodule or a separate git directory."""
    if os.path.basename(os.path.dirname(git_dir)) != "worktrees":
        return _Marker()
    named, errors = _read_small(os.path.join(git_dir, "commondir"))
    common = os.path.normpath(os.path.join(git_dir, named or "../.."))
    name = os.path.basename(common)
    if (not named and name != ".git") or "/.git/modules/" in common:
        return _Marker(None, errors)
    # a bare repository has no main worktree: `project/.bare` stands for its directory, `project.git` for itself
    return _Marker(os.path.dirname(common) if name.startswith(".") else common, errors)


def _read_small(path: str) -> tuple[str | None, frozenset[int]]:
    """The first line of a small regular file, None for anything else; and why it may be one all the same."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None, NOTHING
    except OSError as error:
        return None, NOTHING if error.errno == errno.ELOOP else _number(error)  # ELOOP: a link
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > GIT_FILE_BYTES:
            return None, NOTHING
        return os.fsdecode(os.read(descriptor, GIT_FILE_BYTES)).split("\n", 1)[0].strip(), NOTHING
    except OSError as error:
        return None, _number(error)
    finally:
        os.close(descriptor)
