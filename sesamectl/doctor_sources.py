"""The sessions on disk: which of their files are in the index, and why the others are not."""

from __future__ import annotations

import os
import stat

from sesamectl.doctor import OK, WRONG, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from sesamectl.doctor import Patient
    from sesamed.store.check import FileRow

NAMED = 3  # files of a kind, in a line for people


class _Counted:
    """What became of the files of a root."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}

    def put(self, kind: str, path: bytes) -> None:
        self.files.setdefault(kind, []).append(os.fsdecode(path))

    def named(self, kind: str) -> str:
        paths = self.files[kind]
        more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
        return f"{len(paths)} {kind}: {', '.join(paths[:NAMED])}{more}"


MISSED = "not in the index"
BEHIND = "not read to their end"
UNREADABLE = "that you may not read"
TODO = {
    MISSED: "`sesamectl index`",
    BEHIND: "`sesamectl index`",
    UNREADABLE: "chmod u+r them, or exclude them in the configuration",
}
WHY = (
    "excluded by the configuration",
    "links or no regular files, which are never followed",
    "no session of this agent",
)


def sources(patient: Patient) -> Iterator[Finding]:
    """What is on disk and not in the index, and why."""
    status, place = patient.status, patient.place
    if status is None or place is None or patient.config is None or not os.path.exists(place.database):
        return
    from sesamed.exclusion import Exclusion

    known = _known(place.database)
    excludes = Exclusion(patient.config.exclude).excludes
    roots = [os.path.realpath(source["path"]) for source in status["sources"]]
    for source, root in zip(status["sources"], roots, strict=True):
        if not os.path.isdir(root):
            continue
        counted = _Counted()
        others = {os.fsencode(other) for other in roots} - {os.fsencode(root)}
        for path in _files(os.fsencode(root), others, source["parser"], counted):
            counted.put(_kind(path, known, excludes), path)
        yield from _about(source, counted)


def _files(top: bytes, others: set[bytes], parser: str, counted: _Counted) -> Iterator[bytes]:
    """Session files below a root; what lies below another root is that one's."""
    from sesamed.source import find_shape
    from sesamed.sources import SOURCES

    def holds_session(path: bytes) -> bool:
        shape = find_shape(SOURCES[parser].shapes, os.path.relpath(path, top))
        return shape is not None and not getattr(shape, "side", False)

    def unreadable(error: OSError) -> None:
        counted.put(UNREADABLE, os.fsencode(error.filename))

    for directory, directories, names in os.walk(top, onerror=unreadable):
        directories[:] = [name for name in directories if os.path.join(directory, name) not in others]
        yield from filter(holds_session, (os.path.join(directory, name) for name in sorted(names)))


def _kind(path: bytes, known: Mapping[bytes, FileRow], excludes: Callable[[str], bool]) -> str:
    """What became of one file."""
    if excludes(os.fsdecode(path)):
        return WHY[0]
    try:
        status = os.lstat(path)
    except OSError:
        return "gone"
    if not stat.S_ISREG(status.st_mode):
        return WHY[1]
    if not os.access(path, os.R_OK):
        return UNREADABLE
    if path not in known:
        return MISSED
    is_session, complete, size, mtime_ns = known[path]
    if (size, mtime_ns) != (status.st_size, status.st_mtime_ns) or not complete:
        return BEHIND
    return "indexed" if is_session or not status.st_size else WHY[2]


def _known(database: str) -> Mapping[bytes, FileRow]:
    from sesamed.store.check import files

    return files(database)


def _about(source: dict[str, Any], counted: _Counted) -> Iterator[Finding]:
    indexed = len(counted.files.get("indexed", ()))
    why = "".join(f", {len(counted.files[kind])} {kind}" for kind in WHY if kind in counted.files)
    yield Finding(OK, "source", f"{source['parser']} {source['path']}: {indexed} files indexed{why}")
    for kind, todo in TODO.items():
        if kind in counted.files:
            yield Finding(WRONG, "source", f"{source['parser']} {source['path']}: {counted.named(kind)}", todo)
