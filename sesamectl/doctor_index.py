"""The index itself: whether it agrees with itself. Reads the file beside the daemon, and writes nothing."""

from __future__ import annotations

import os
import shutil
import tempfile

from sesamectl.doctor import NOTE, OK, WRONG, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sesamectl.doctor import Patient

REBUILD = "`sesamectl index --full` builds it anew, and keeps what is gone from disk"
FULL_TEXTS = "SELECT name FROM sqlite_schema WHERE sql LIKE '%USING fts5(%'"


def integrity(patient: Patient) -> Iterator[Finding]:
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
                for (name,) in connection.execute(FULL_TEXTS).fetchall():
                    problems += _problems(connection, f"INSERT INTO {name}({name}, rank) VALUES('integrity-check', 1)")
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
