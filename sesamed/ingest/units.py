"""Which unit a file belongs to, which files a unit has, and its signature: what `stat` says about a file, about all members, or about a
database with its WAL.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import filter as filter_names
from pathlib import PurePath

from sesamed.ingest.state import path_below
from sesamed.ingest.tail import signature, signature_at
from sesamed.model import digest
from sesamed.source import (
    BESIDE,
    Bundle,
    Rows,
    Shape,
    ShapeFinder,
    Unit,
    fill_names,
    match_names,
)
from sesamed.store import foreign
from sesamed.store.rows import Signature

WAL = b"-wal"
NAME = re.compile(r"\{(\w+)\}")
MAGIC = re.compile(rb"[*?[]")
MOST_FOUND = 10_000


class UnitFinder:
    """Finds the shapes of a source's units, and the units of files."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        finder = ShapeFinder(shapes)
        self._find = finder.find
        self.may_hold = finder.may_hold
        self._bundles = [shape for shape in shapes if isinstance(shape, Bundle)]
        # What globs led to: every part of an answer leads to its session by way of the answer.
        self._found: dict[tuple[bytes, str], bytes] = {}

    def find(self, below: bytes) -> Shape | None:
        """The shape of a unit, by its path below the root: of a file, or of the one that gives a bundle its name."""
        for bundle in self._bundles:
            if match_names(bundle.unit, below) is not None:
                return bundle
        found = self._find(below)
        return None if isinstance(found, Bundle) else found

    def find_beside(self, path: bytes) -> Shape | None:
        """The shape of a file in the directory above a root."""
        return self._find(BESIDE.encode() + os.path.basename(path))

    def find_unit(self, path: bytes, root: str) -> bytes | None:
        """The path of the unit that a file belongs to; None if it does not belong to the source."""
        below = path_below(root, path)
        shape = self._find(below)
        if shape is None and below.endswith(WAL):
            of_database = self._find(below.removesuffix(WAL))
            return path.removesuffix(WAL) if isinstance(of_database, Rows) else None
        if isinstance(shape, Bundle) or shape is None:
            units = (self._find_bundle(bundle, below, os.fsencode(root)) for bundle in self._bundles)
            return next((unit for unit in units if unit is not None), None)
        return path

    def _find_bundle(self, bundle: Bundle, below: bytes, root: bytes) -> bytes | None:
        """The unit of a member: its names lead to other members, and so to all the names of the unit."""
        if match_names(bundle.unit, below) is not None:
            return os.path.join(root, below)
        names = next((found for pattern in bundle.members if (found := match_names(pattern, below)) is not None), None)
        return None if names is None else self._complete(bundle, names, root, set())

    def _complete(self, bundle: Bundle, names: dict[str, bytes], root: bytes, tried: set[str]) -> bytes | None:
        """The unit with these names; what is missing is looked for on the disk."""
        if set(NAME.findall(bundle.unit)) & set(names):
            found = self._find_file(bundle.unit, names, root)
            return None if found is None else os.path.join(root, found)
        for pattern in bundle.members:
            is_next = pattern not in tried and set(NAME.findall(pattern)) & set(names)
            if is_next and (path := self._find_file(pattern, names, root)):
                more = {**names, **(match_names(pattern, path) or {})}
                if len(more) > len(names):
                    return self._complete(bundle, more, root, tried | {pattern})
        return None

    def _find_file(self, pattern: str, names: dict[str, bytes], root: bytes) -> bytes | None:
        """A file of a pattern with these names."""
        glob = fill_names(pattern, names)
        if (path := self._found.get((root, glob))) is not None and os.path.lexists(os.path.join(root, path)):
            return path
        path = None
        with suppress(OSError):  # this is for an event, and the sweep says what cannot be read
            there = (path for path in _list_paths(glob, root) if match_names(pattern, path) is not None)
            path = next((path for path in there if os.path.lexists(os.path.join(root, path))), None)
        if path is not None:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            self._found[root, glob] = path
        return path


class BetterFiles:
    """The files below a root that hold the sessions of bundles, and more of them: listed once for all bundles of a sweep."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)
        # None: not all of them could be listed.
        self._listed: dict[tuple[str, ...], dict[tuple[bytes, ...], list[bytes]] | None] = {}

    def find(self, bundle: Bundle, path: bytes) -> Iterator[bytes]:
        """Those of one bundle."""
        names = match_names(bundle.unit, path_below(os.fsdecode(self._root), path)) or {}
        for pattern in bundle.better:
            shared = [name for name in NAME.findall(pattern) if name in names]
            if (pattern, *shared) not in self._listed:
                self._listed[pattern, *shared] = self._try_to_list(pattern, shared)
            files = self._listed[pattern, *shared]
            found = None if files is None else files.get(tuple(names[name] for name in shared), ())
            yield from _list_there(pattern, names, os.fsencode(self._root)) if found is None else found

    def _try_to_list(self, pattern: str, shared: Sequence[str]) -> dict[tuple[bytes, ...], list[bytes]] | None:
        """None: something on the way cannot be listed. It may have nothing to do with most bundles, so that each looks for itself."""
        try:
            return self._list(pattern, shared)
        except OSError:
            return None

    def _list(self, pattern: str, shared: Sequence[str]) -> dict[tuple[bytes, ...], list[bytes]]:
        found: dict[tuple[bytes, ...], list[bytes]] = {}
        for file in _list_paths(fill_names(pattern, {}), self._root):
            names, path = match_names(pattern, file), os.path.join(self._root, file)
            if names is not None and os.path.lexists(path):
                found.setdefault(tuple(names[name] for name in shared), []).append(path)
        return found


def look_at(shape: Shape | None, path: bytes, root: str, better: BetterFiles | None = None) -> Signature | None:
    """How a unit looks now; None when it is not there. Raises OSError if that cannot be told."""
    if isinstance(shape, Bundle):
        others = list_better(shape, path, root) if better is None else better.find(shape, path)
        return sign_bundle(path, list_members(shape, path, root), others)
    if isinstance(shape, Rows):
        return _database_signature(path)
    return signature_at(path)


def list_members(bundle: Bundle, path: bytes, root: str) -> Iterator[tuple[bytes, Signature]]:
    """The files of a bundle in the order in which they are read, as they look now."""
    names = match_names(bundle.unit, path_below(root, path)) or {}
    yield from _read_below(bundle.members, names, os.fsencode(root))


def list_better(bundle: Bundle, path: bytes, root: str) -> Iterator[bytes]:
    """The files that hold the same session, and more of it."""
    names = match_names(bundle.unit, path_below(root, path)) or {}
    for pattern in bundle.better:
        yield from _list_there(pattern, names, os.fsencode(root))


def _list_there(pattern: str, names: dict[str, bytes], root: bytes) -> Iterator[bytes]:
    for file in _list_paths(fill_names(pattern, names), root):
        if match_names(pattern, file) is not None and os.path.lexists(found := os.path.join(root, file)):
            yield found


def find_better(bundle: Bundle, path: bytes, root: str, list_read: Callable[[bytes], Iterable[bytes]]) -> bytes | None:
    """One of them that was read, whether or not it is still there; `list_read` gives what the index has below a beginning of paths."""
    names = match_names(bundle.unit, path_below(root, path)) or {}
    for pattern in bundle.better:
        for unit in list_read(os.path.join(os.fsencode(root), os.fsencode(NAME.split(pattern)[0]))):
            file = Unit.parse(unit).path
            found = match_names(pattern, path_below(root, file))
            if found is not None and all(names.get(name, value) == value for name, value in found.items()):
                return file
    return None


def _read_below(patterns: Sequence[str], names: dict[str, bytes], root: bytes) -> Iterator[tuple[bytes, Signature]]:
    """Files of these patterns with these names; those that another file's names lead to come right behind it."""
    for pattern, followers in _group(patterns, names).items():
        for file in _list_paths(fill_names(pattern, names), root):
            found, path = match_names(pattern, file), os.path.join(root, file)
            if found is not None and (status := signature_at(path)) is not None:
                yield path, status
                yield from _read_below(followers, {**names, **found}, root)


def _group(patterns: Sequence[str], names: dict[str, bytes]) -> dict[str, list[str]]:
    """The patterns, each with those that have names in them which it opens."""
    opens = {pattern: set(NAME.findall(pattern)) - set(names) for pattern in patterns}
    leaders: dict[str, str] = {}
    for at, pattern in enumerate(patterns):
        earlier = next((other for other in patterns[:at] if opens[other] & opens[pattern]), None)
        leaders[pattern] = pattern if earlier is None else leaders[earlier]
    found: dict[str, list[str]] = {leader: [] for leader in leaders.values()}
    for pattern, leader in leaders.items():
        if pattern != leader:
            found[leader].append(pattern)
    return found


def _list_paths(glob: str, root: bytes) -> list[bytes]:
    """The paths below the root that a glob without `**` may stand for, in order; whether there is something at the last one of literal
    names is not looked at. Raises OSError if a directory is there and cannot be listed: `glob.iglob` passes it over, and a unit would
    have lost the members that are in it.
    """
    found = [b""]
    for name in os.fsencode(glob).split(b"/"):
        if MAGIC.search(name):
            found = [
                os.path.join(above, one) for above in found for one in filter_names(_list_names(root, above), name)
            ]
        else:
            found = [os.path.join(above, name) for above in found]
    return sorted(found)


def _list_names(root: bytes, below: bytes) -> list[bytes]:
    try:
        return os.listdir(os.path.join(root, below))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link to itself is no directory
            return []
        raise


def sign_bundle(path: bytes, seen: Iterable[tuple[bytes, Signature]], better: Iterable[bytes]) -> Signature | None:
    """How a bundle looks with these members, and files that hold more of it; None when it is not there."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    members = list(seen)
    marks = b"".join(b"%s\0%d %d %d %d\n" % (name, s.ino, s.size, s.mtime_ns, s.ctime_ns) for name, s in members)
    marks += b"".join(b"%s\0\n" % name for name in better)  # whatever is in them
    newest = max((one.mtime_ns for _, one in members), default=signature(status).mtime_ns)
    return Signature(signature(status).dev, 0, sum(one.size for _, one in members), newest, digest(marks))


def _database_signature(path: bytes) -> Signature | None:
    """Of a database with its WAL. Size and times may be what they were after a commit, so that what SQLite counts by counts, too."""
    database = signature_at(path)
    if database is None:
        return None
    wal = signature_at(path + WAL)
    seen = [database] if wal is None else [database, wal]
    marks = b"".join(
        b"%d %d %d\n" % (one.ino, one.size, one.mtime_ns) for one in seen
    )  # no ctime: SQLite as root sets owners
    newest = max(one.mtime_ns for one in seen)
    return Signature(database.dev, 0, sum(one.size for one in seen), newest, digest(marks, foreign.read_counters(path)))


def part_signature(database: Signature, version: object) -> Signature:
    """How one of a database's units looks: its version is all that is known of it."""
    return Signature(database.dev, 0, 0, 0, digest(repr(version).encode("utf-8", "surrogatepass")))


def relative(path: bytes, root: str) -> PurePath:
    """A path as sources see it."""
    return PurePath(os.path.relpath(os.fsdecode(path), root))
