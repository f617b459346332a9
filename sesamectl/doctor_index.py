"""The index itself: whether it agrees with itself, and with what is on disk. Reads the file beside the daemon, and writes nothing."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile

from sesamectl.doctor import NOTE, OK, WRONG, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sesamectl.doctor import Patient

REBUILD = "`sesamectl index --full` builds it anew, and keeps what is gone from disk"
NAMED = 3  # files of a kind, in a line for people


def _integrity(patient: Patient) -> Iterator[Finding]:
    """Pages, rows and the full-text index. With --deep every entry, on a copy: such a check would hold up who writes."""
    from sesamed.store import sqlite

    database = "" if patient.place is None else patient.place.database
    if not os.path.exists(database):
        yield Finding(NOTE, "index", f"{database} is not made yet")
        return
    if patient.deep:
        yield from _deep(database)
        return
    connection = sqlite.connect_reader(database)
    try:
        yield from _told(
            database, _problems(connection, "PRAGMA quick_check(10)"), "quick check, --deep looks at every entry"
        )
    finally:
        connection.close()


def _deep(database: str) -> Iterator[Finding]:
    from sesamed.store import sqlite

    if shutil.disk_usage(os.path.dirname(database)).free < 2 * os.path.getsize(database):
        yield Finding(WRONG, "index", "a deep check works on a copy, and there is no room for one", "free some space")
        return
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=os.path.dirname(database)) as directory:
        copy = os.path.join(directory, "index.sqlite")
        with sqlite.errors(database):
            sqlite.copy(database, copy)
            connection = sqlite.connect_writer(copy)
            try:
                problems = _problems(connection, "PRAGMA integrity_check(10)")
                problems += _problems(connection, "INSERT INTO fts(fts, rank) VALUES('integrity-check', 1)")
            finally:
                connection.close()
        yield from _told(database, problems, "every page, row and full-text entry was checked")


def _problems(connection: Any, sql: str) -> list[str]:
    """What a check complains of; a statement that fails on damage is a complaint, too."""
    from sesamed.store import sqlite

    try:
        with sqlite.errors("index"):
            return [str(row[0]) for row in connection.execute(sql) if row[0] != "ok"]
    except sqlite.DamagedError as error:
        return [str(error.__cause__)]


def _told(database: str, problems: list[str], how: str) -> Iterator[Finding]:
    if problems:
        yield Finding(WRONG, "index", f"{database} is damaged: {problems[0]}", REBUILD)
    else:
        yield Finding(OK, "index", f"{database} is whole ({how})")


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


def _sources(patient: Patient) -> Iterator[Finding]:
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
        for path in _files(os.fsencode(root), {os.fsencode(other) for other in roots} - {os.fsencode(root)}, counted):
            counted.put(_kind(path, known, excludes), path)
        yield from _about(source, counted)


def _files(top: bytes, others: set[bytes], counted: _Counted) -> Iterator[bytes]:
    """Session files below a root; what lies below another root is that one's."""
    from sesamed.model import SESSION_FILES

    suffixes = tuple(os.fsencode(suffix) for suffix in SESSION_FILES)

    def unreadable(error: OSError) -> None:
        counted.put(UNREADABLE, os.fsencode(error.filename))

    for directory, directories, names in os.walk(top, onerror=unreadable):
        directories[:] = [name for name in directories if os.path.join(directory, name) not in others]
        yield from (os.path.join(directory, name) for name in sorted(names) if name.endswith(suffixes))


def _kind(path: bytes, known: dict[bytes, tuple[bool, bool, int, int]], excludes: Callable[[str], bool]) -> str:
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


def _known(database: str) -> dict[bytes, tuple[bool, bool, int, int]]:
    from sesamed.store import sqlite

    sql = "SELECT path, session IS NOT NULL, complete, size, mtime_ns FROM files WHERE gone_ms IS NULL"
    connection = sqlite.connect_reader(database)
    try:
        return {
            bytes(path): (bool(own), bool(whole), size, at) for path, own, whole, size, at in connection.execute(sql)
        }
    finally:
        connection.close()


def _about(source: dict[str, Any], counted: _Counted) -> Iterator[Finding]:
    indexed = len(counted.files.get("indexed", ()))
    why = "".join(f", {len(counted.files[kind])} {kind}" for kind in WHY if kind in counted.files)
    yield Finding(OK, "source", f"{source['parser']} {source['path']}: {indexed} files indexed{why}")
    for kind, todo in TODO.items():
        if kind in counted.files:
            yield Finding(WRONG, "source", f"{source['parser']} {source['path']}: {counted.named(kind)}", todo)


FURTHER: tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...] = (("index", _integrity), ("source", _sources))
