"""Roots and what lies below them: the truth that events only hint at. Looks at directories and `stat`s; opens no file.

A sweep of 10,000 files takes some tens of milliseconds, so it runs every minute, after anything was lost, and before a `fresh` answer.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from sesamed.ingest.decode import DOCUMENT, Target
from sesamed.ingest.look import Ingest
from sesamed.ingest.tail import signature
from sesamed.model import SESSION_FILES, SideFiles
from sesamed.store.rows import Signature


class Root(msgspec.Struct):
    """A directory that sessions are written to. It may be missing, and it may be a link."""

    parser: str
    path: str
    real: str | None = None
    files: int = 0
    directories: int = 0

    def resolve(self) -> bool:
        """Find out where it is now; says whether that changed."""
        real = os.path.realpath(self.path)
        before, self.real = self.real, real if os.path.isdir(real) else None
        return self.real != before


class Due(msgspec.Struct, frozen=True, gc=False):
    """A file that has to be looked at."""

    target: Target
    mtime_ns: int
    unread: int
    signature: Signature | None = None  # None: it is not there


LINES = tuple(os.fsencode(suffix) for suffix in SESSION_FILES)
NONE: Mapping[str, SideFiles] = MappingProxyType({})


class Sweep:
    """Finds what is due below the roots."""

    def __init__(
        self, roots: Iterable[Root], excludes: Callable[[str], bool], side_files: Mapping[str, SideFiles] = NONE
    ) -> None:
        self.roots = list(roots)
        self._excludes = excludes
        self._side_files = side_files
        self._resolve()

    def targets(self, paths: Iterable[str]) -> list[tuple[str, Target | None]]:
        """Whose these paths are, as roots and links are now."""
        self._resolve()
        return [(path, self.target(_real(path))) for path in paths]

    def target(self, path: bytes) -> Target | None:
        """Whose a path is, if it is a session file below a root; the deepest root counts."""
        if (beside := self._beside().get(path)) is not None:
            return None if self._excludes(os.fsdecode(path)) else beside
        above = [
            root for root in self.roots if root.real is not None and path.startswith(os.fsencode(root.real) + b"/")
        ]
        if not above or self._excludes(os.fsdecode(path)):
            return None
        root = max(above, key=lambda root: len(root.real or ""))
        if not self._wanted(root.parser, os.path.basename(path)):
            return None
        return Target(path, root.real or "", root.parser)

    def excludes(self, path: bytes) -> bool:
        """Whether the configuration excludes a path."""
        return self._excludes(os.fsdecode(path))

    def due(self, ingest: Ingest, versions: Callable[[str], int]) -> list[Due]:
        """Everything that differs from what the index knows, newest first."""
        found: list[Due] = []
        self._resolve()
        for root in self.roots:
            if root.real is not None:
                found += self._below(root, root.real, ingest, versions(root.parser))
        found += self.beside(ingest, versions)
        found.sort(key=lambda due: due.mtime_ns, reverse=True)
        return found

    def tree(self, path: str, ingest: Ingest, versions: Callable[[str], int]) -> list[Due]:
        """The same for one directory below a root."""
        found: list[Due] = []
        for name, status in self._walk(os.fsencode(path), None):
            if status is not None and (target := self.target(name)) is not None:
                found += _due(target, status, ingest, versions(target.source))
        prefix = os.fsencode(path).rstrip(b"/") + b"/"
        found += [_missing(target) for known in list(ingest.glances) if known.startswith(prefix) and not os.path.lexists(known)
                  and (target := self.target(known)) is not None]  # fmt: skip
        return found

    def beside(self, ingest: Ingest, versions: Callable[[str], int]) -> list[Due]:
        """The same for the files beside the roots; there are few, and nobody watches them."""
        found: list[Due] = []
        for path, target in self._beside().items():
            status = _status(path)
            if status is not None and not self._excludes(os.fsdecode(path)):
                found += _due(target, status, ingest, versions(target.source))
            elif status is None and (glance := ingest.glances.get(path)) is not None and not glance.gone:
                found.append(_missing(target))
        return found

    def _beside(self) -> dict[bytes, Target]:
        found: dict[bytes, Target] = {}
        for root in self.roots:
            for name in self._side_files[root.parser].beside if root.parser in self._side_files else ():
                if root.real is not None:
                    above = os.path.dirname(root.real)
                    path = os.fsencode(os.path.join(above, name))
                    found[path] = Target(path, above, root.parser)
        return found

    def _wanted(self, parser: str | None, name: bytes) -> bool:
        """Whether a file of this name is read below a root of this parser; None is any."""
        if name.endswith(LINES):
            return True
        if not name.endswith(DOCUMENT):
            return False
        asked = self._side_files.values() if parser is None else [self._side_files.get(parser, SideFiles())]
        return any(files.below.fullmatch(os.fsdecode(name)) for files in asked)

    def _resolve(self) -> None:
        for root in self.roots:
            root.resolve()

    def _below(self, root: Root, real: str, ingest: Ingest, version: int) -> Iterator[Due]:
        seen: set[bytes] = set()
        root.files = root.directories = 0
        for path, status in self._walk(os.fsencode(real), root.parser):
            if status is None:
                root.directories += 1
            else:
                root.files += 1
                seen.add(path)
                yield from _due(Target(path, real, root.parser), status, ingest, version)
        for path, glance in list(ingest.glances.items()):
            if glance.root == real and not glance.gone and path not in seen:
                yield _missing(Target(path, real, root.parser))

    def _walk(self, top: bytes, parser: str | None) -> Iterator[tuple[bytes, os.stat_result | None]]:
        """Session files with their status, and directories without one. Links are not followed; other roots have their own walk."""
        others = {os.fsencode(root.real) for root in self.roots if root.real is not None} - {top}
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            if directory in others or self._excludes(os.fsdecode(directory)):
                continue
            try:
                with os.scandir(directory) as entries:
                    yield directory, None
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        elif self._wanted(parser, entry.name):
                            yield from self._file(entry.path)
            except OSError:  # gone, or not ours to read: the next sweep tries again
                continue

    def _file(self, path: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
        status = _status(path)
        if status is not None and not self._excludes(os.fsdecode(path)):
            yield path, status


def _due(target: Target, status: os.stat_result, ingest: Ingest, version: int) -> Iterator[Due]:
    now = signature(status)
    if ingest.is_due(target.path, now, version):
        yield Due(target, now.mtime_ns, now.size - min(ingest.read_of(target.path), now.size), now)


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


def _missing(target: Target) -> Due:
    return Due(target, 0, 0)
