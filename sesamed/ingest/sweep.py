"""Compares the files below the roots with their states: the truth that events only hint at. Looks at directories and `stat`; opens no
file.

A sweep of 10,000 files takes some tens of milliseconds, so it runs every minute (with more files not as often), after anything was lost,
and before a `fresh` answer.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from sesamed.exclusion import Exclusion, Place
from sesamed.ingest.decode import log_fault
from sesamed.ingest.look import Ingest
from sesamed.ingest.state import Target, path_below
from sesamed.ingest.tail import signature
from sesamed.ingest.units import BetterFiles, UnitFinder, look_at
from sesamed.source import Bundle, Rows, Shape, Unit, list_beside
from sesamed.store.rows import Signature

MOST_PATH = (
    4096  # characters: no system opens what has a longer one, and to resolve half a million directories took 40 s
)
UNLIKE_ANY = Signature(0, 0, -1, 0, 0)


class Root(msgspec.Struct):
    """A directory that sessions are written to. It may be missing, and it may be a link."""

    parser: str
    path: str
    real: str | None = None
    lacks: str | None = None  # while it is missing: the first directory on the way to it that is not there
    files: int = 0
    directories: int = 0
    trouble: str | None = None  # why the last sweep did not get to its end
    is_project: bool = False  # somebody's work is there, and a `.sesameignore` is about that

    def resolve(self) -> bool:
        """Find out where it is now; says whether that has changed. As long as that cannot be seen, it is where it was."""
        before, now = self.real, None
        if self.lacks is None or os.path.exists(self.lacks):  # most are of agents that nobody has here
            try:
                now = os.path.realpath(self.path) if stat.S_ISDIR(os.stat(self.path).st_mode) else None
            except (FileNotFoundError, NotADirectoryError, ValueError):
                pass
            except OSError:
                return False
            self.lacks = self._find_lacking() if now is None else None
        self.real = now
        return now != before

    def _find_lacking(self) -> str | None:
        lacks, above = None, self.path
        while above and not os.path.exists(above):
            lacks, above = above, os.path.dirname(above)
        return lacks

    def is_in_place(self) -> bool:
        """Whether it still leads where it did, as far as two calls tell: somebody may have a hundred projects, each with a root. A
        directory above it that was moved, with a link left in its place, is noticed by the next sweep."""
        try:
            here, there = os.stat(self.path), os.lstat(self.real or "")
        except (OSError, ValueError):
            return False
        return stat.S_ISDIR(there.st_mode) and os.path.samestat(here, there)


class Due(msgspec.Struct, frozen=True, gc=False):
    """A file that must be looked at."""

    target: Target
    mtime_ns: int
    unread: int
    signature: Signature | None = None  # None: it is not there


class _Counted(msgspec.Struct):
    """What a sweep counts below a root: a root's own numbers are those of the last one that ended, as several may be under way."""

    files: int = 0
    directories: int = 0


class Sweep:
    """Finds what is due below the roots."""

    def __init__(
        self,
        roots: Iterable[Root],
        exclusion: Exclusion,
        shapes: Mapping[str, Sequence[Shape]],
        list_more: Callable[[], Iterable[Root]] = tuple,
        in_projects: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.roots = list(roots)
        self._list_more = list_more
        self._in_projects = in_projects  # sources, and the file by which a project of theirs is known
        self.exclusion = exclusion
        self._excludes = exclusion.excludes
        self._shapes = shapes
        self._names_beside = {parser: list_beside(some) for parser, some in shapes.items()}
        self._finders = {parser: UnitFinder(shapes) for parser, shapes in shapes.items()}
        self._resolve()

    def targets(self, paths: Iterable[str]) -> list[tuple[str, Target | None]]:
        """The targets of these paths, by roots and links as they are now."""
        self._resolve()
        return [(path, self.target(_real(path)) if len(path) <= MOST_PATH else None) for path in paths]

    def target(self, path: bytes) -> Target | None:
        """The target of a path, if it is a session file below a root; with nested roots, of the deepest one."""
        if (beside := self._beside().get(path)) is not None:
            return None if self._excludes(os.fsdecode(path)) else beside
        roots = self._roots_of(os.path.dirname(path))
        if not roots or self._excludes(os.fsdecode(path)):
            return None
        root = roots[0]
        unit = self._finders[root.parser].find_unit(path, root.real or "")
        if unit is None or (unit != path and self._excludes(os.fsdecode(unit))):
            return None
        return Target(unit, root.real or "", root.parser)

    def enters(self, directory: str) -> bool:
        """Whether a directory is swept, and so has to be watched: some pattern leads into it, and it is not excluded."""
        path = os.fsencode(directory)
        roots = self._roots_of(path)
        leads = any(self._finders[root.parser].may_hold(path_below(root.real or "", path)) for root in roots)
        return leads and not self._excludes(directory, is_directory=True)

    def _roots_of(self, directory: bytes) -> list[Root]:
        """The deepest roots that a directory is, or lies below: several where sources share one."""
        above = [
            root
            for root in self.roots
            if root.real is not None and (directory + b"/").startswith(os.fsencode(root.real) + b"/")
        ]
        deepest = max((len(root.real or "") for root in above), default=0)
        return [root for root in above if len(root.real or "") == deepest]

    def excludes(self, path: bytes) -> bool:
        """Whether a path is excluded, and must not be opened."""
        return self._excludes(os.fsdecode(path))

    def drops(self, path: bytes) -> bool:
        """Whether what is indexed of a path has to go."""
        return self.exclusion.drops(os.fsdecode(path))

    def due(self, ingest: Ingest) -> list[Due]:
        """Everything that differs from its state, newest first; including what could not be read and no longer exists."""
        self._resolve()
        found, seen = self.due_beside(ingest), set(self._beside())
        roots = set[str | None]()  # those of which everything was seen
        for root in self.roots:
            if root.real is not None and self._sweep_root(root, root.real, ingest, found, seen):
                roots.add(root.real)
        roots -= {root.real for root in self.roots if root.trouble is not None}  # several sources may share one
        for state in ingest.states.list_others(seen):
            is_expected = state.signature is not None and not state.is_gone and state.target.root in roots
            is_missing = is_expected or state.trouble is not None
            if is_missing and not Unit.parse(state.target.path).part and not self.excludes(state.target.path):
                found.append(Due(state.target, 0, 0))
        found.sort(key=lambda due: due.mtime_ns, reverse=True)
        return found

    def find_hidden(self, lost: Mapping[Signature, bytes]) -> list[bytes]:
        """Of files that have left their paths those that lie below a root all the same, where they are excluded. Nothing there is opened:
        a file that was moved has its inode, size and time. Its inode alone may be another file's by now, and what is gone would be lost.
        """
        if not self.exclusion.has_rules:
            return []
        roots = [(root, os.fsencode(root.real)) for root in self.roots if root.real is not None]
        walked = [status for root, top in roots for _, status in self._walk(top, root, lambda _: True, excluded=True)]
        there = {_identify(signature(status)) for status in walked if status is not None}
        return [path for known, path in lost.items() if _identify(known) in there]

    def due_below(self, path: str, ingest: Ingest) -> list[Due]:
        """What is due in one directory below a root."""
        found: list[Due | None] = []
        roots = self._roots_of(os.fsencode(path)) if self.enters(path) else []
        walked = [name for root in roots for name, _ in self._walk(os.fsencode(path), root, lambda name: True)]
        for target in dict.fromkeys(target for name in walked if (target := self.target(name)) is not None):
            if (now := self._look_at(target)) is not None:
                found.append(_due(target, now, ingest))
        prefix = os.fsencode(path).rstrip(b"/") + b"/"
        for state in ingest.states:
            known = state.target.path
            if Unit.parse(known).part:
                continue
            if known.startswith(prefix) and not os.path.lexists(known) and (target := self.target(known)) is not None:
                found.append(Due(target, 0, 0))
        return [due for due in found if due is not None]

    def due_beside(self, ingest: Ingest) -> list[Due]:
        """The same for the files beside the roots; there are few, and nobody watches them."""
        found: list[Due | None] = []
        for path, target in self._beside().items():
            status = _status(path)
            if status is not None and not self._excludes(os.fsdecode(path)):
                found.append(_due(target, signature(status), ingest))
            elif status is None and (state := ingest.states.get(path)) is not None and not state.is_gone:
                found.append(Due(target, 0, 0))
        return [due for due in found if due is not None]

    def _beside(self) -> dict[bytes, Target]:
        found: dict[bytes, Target] = {}
        for root in self.roots:
            for name in self._names_beside[root.parser] if root.real is not None else ():
                above = os.path.dirname(root.real or "")
                path = os.fsencode(os.path.join(above, name))
                found[path] = Target(path, above, root.parser)
        return found

    def add_roots(self) -> None:
        """Add the roots that agents' lists of projects name by now."""
        if more := list(self._list_more()):
            known = {(root.parser, root.path) for root in self.roots}
            self.roots += [root for root in more if (root.parser, root.path) not in known]

    def add_projects(self, directories: Iterable[str]) -> None:
        """Add those of these directories that have a source's file."""
        known = {(root.parser, root.real) for root in self.roots}
        for directory in sorted(directories) if self._in_projects else ():
            for parser, name in self._in_projects:
                if os.path.lexists(os.path.join(directory, name)) and os.path.isdir(directory):
                    real = os.path.realpath(directory)
                    if (parser, real) not in known:
                        known.add((parser, real))
                        self.roots.append(Root(parser, real, is_project=True))

    def resolve(self, root: Root) -> bool:
        """Find out where a root is now; says whether that has changed. Then other paths may be excluded."""
        changed = (root.real is None or not root.is_in_place()) and root.resolve()
        if changed:
            self.refresh_exclusion()
        return changed

    def _resolve(self) -> None:
        self.add_roots()
        for root in self.roots:
            root.resolve()
        self.refresh_exclusion()

    def refresh_exclusion(self) -> None:
        """Find out what is excluded now. Any thread."""
        roots = [root for root in self.roots if root.real is not None and not root.is_project]
        self.exclusion.refresh(Place(root.path, root.real or "") for root in roots)

    def _sweep_root(self, root: Root, real: str, ingest: Ingest, found: list[Due], seen: set[bytes]) -> bool:
        """Find what is due below a root. A bug never stops the sweep of the others: it is said, and the next sweep tries again."""
        counted = _Counted()
        try:
            found += self._below_root(root, real, ingest, seen, counted)
        except Exception as error:
            root.trouble = log_fault(os.fsencode(real), error)
        else:
            root.files, root.directories, root.trouble = counted.files, counted.directories, None
        return root.trouble is None

    def _below_root(
        self, root: Root, real: str, ingest: Ingest, seen: set[bytes], counted: "_Counted"
    ) -> Iterator[Due]:
        find, get, better = self._finders[root.parser].find, ingest.states.get, BetterFiles(real)
        passes = self._passing(root.parser, ingest, seen, counted)

        def find_shape(path: bytes) -> Shape | None:
            state = get(path)
            if state is not None and state.shape is not None:
                return state.shape
            shape = find(path_below(real, path))
            if state is not None:
                state.shape = shape
            return shape

        def is_read(path: bytes) -> bool:
            return not passes(path) and find_shape(path) is not None

        for path, status in self._walk(os.fsencode(real), root, is_read):
            counted.directories += status is None
            if (shape := find_shape(path)) is None or (status is None and not isinstance(shape, Bundle)):
                continue
            plain = None if status is None or isinstance(shape, Bundle | Rows) else signature(status)
            if (now := plain or _look_at(shape, path, real, better)) is not None:
                counted.files += (state := get(path)) is None or state.withheld is None
                seen.add(path)
                if (due := _due(Target(path, real, root.parser), now, ingest)) is not None:
                    yield due

    def _passing(self, parser: str, ingest: Ingest, seen: set[bytes], counted: "_Counted") -> Callable[[bytes], bool]:
        """Passes the files that are as the index has them, and counts them. Of a sweep these are nearly all: what is made or called for
        each is most of what an idle daemon costs."""
        get, lstat, version = ingest.states.get, os.lstat, ingest.decoder.versions.get(parser)
        has_rules = self.exclusion.has_rules

        def passes(path: bytes) -> bool:
            state = get(path)
            if state is None or state.shape is None:
                return False
            try:
                if not state.is_unchanged(lstat(path), version):
                    return False
            except OSError:
                return False
            if has_rules and self.excludes(path):
                return False
            counted.files += state.withheld is None
            seen.add(state.target.path)  # the one that is there already: `path` goes at once
            return True

        return passes

    def _look_at(self, target: Target) -> Signature | None:
        shape = self._finders[target.source].find(path_below(target.root, target.path))
        return _look_at(shape, target.path, target.root)

    def _walk(
        self, top: bytes, root: Root, is_read: Callable[[bytes], bool], *, excluded: bool = False
    ) -> Iterator[tuple[bytes, os.stat_result | None]]:
        """Files that are read, with their status, and directories without one: those that a pattern of the root leads into. Links are
        not followed; other roots have their own walk. Of the files only those that are excluded, or only those that are not."""
        may_hold, below = self._finders[root.parser].may_hold, len(os.fsencode(root.real or "").rstrip(b"/")) + 1
        others = {os.fsencode(root.real) for root in self.roots if root.real is not None} - {top}
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            if directory in others or (not excluded and self._excludes(os.fsdecode(directory), is_directory=True)):
                continue
            try:
                with os.scandir(directory) as entries:
                    yield directory, None
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            if may_hold(entry.path[below:]):
                                waiting.append(entry.path)
                        elif is_read(entry.path):
                            status = _status(entry.path)
                            if status is not None and self._excludes(os.fsdecode(entry.path)) is excluded:
                                yield entry.path, status
            except OSError:  # gone, or not ours to read: the next sweep tries again
                continue


def _look_at(shape: Shape | None, path: bytes, root: str, better: BetterFiles | None = None) -> Signature | None:
    """How a unit looks; if that cannot be told, otherwise than any: then it is due, and the look says why."""
    try:
        return look_at(shape, path, root, better)
    except OSError:
        return UNLIKE_ANY


def _due(target: Target, now: Signature, ingest: Ingest) -> Due | None:
    if not ingest.is_due(target.path, now, ingest.decoder.versions[target.source]):
        return None
    state = ingest.states.get(target.path)
    return Due(target, now.mtime_ns, now.size - min(0 if state is None else state.read, now.size), now)


def _identify(file: Signature) -> tuple[int, ...]:
    """What a rename leaves as it was."""
    return file.dev, file.ino, file.size, file.mtime_ns


def _status(path: bytes) -> os.stat_result | None:
    """Of a regular file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _real(path: str) -> bytes:
    """Where a path leads, but for its last part: that one must not be a link."""
    directory, name = os.path.split(path)
    if not directory.startswith("/") or "\0" in path:
        return b""
    return os.fsencode(os.path.join(os.path.realpath(directory), name))
