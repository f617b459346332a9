"""Checks whether an index is consistent."""

from typing import NamedTuple

from sesamed.store import sqlite

FULL_TEXTS = "SELECT name FROM sqlite_schema WHERE sql LIKE '%USING fts5(%'"
FILES = "SELECT path, session IS NOT NULL, complete, size, mtime_ns FROM files WHERE gone_ms IS NULL"


class FileRow(NamedTuple):
    """What the index says of a file."""

    has_session: bool
    is_complete: bool
    size: int
    mtime_ns: int


def quick_check(path: str) -> list[str]:
    """Check pages and rows; gives the problems."""
    connection = sqlite.connect_reader(path)
    try:
        return _problems(connection, "PRAGMA quick_check(10)")
    finally:
        connection.close()


def deep_check(path: str, copy: str) -> list[str]:
    """Check every page, row and full-text entry, on a copy that is made here, because such a check would hold up the writer."""
    with sqlite.errors(path):
        sqlite.copy(path, copy)
        connection = sqlite.connect_writer(copy)
        try:
            problems = _problems(connection, "PRAGMA integrity_check(10)")
            for (name,) in sqlite.rows(connection, FULL_TEXTS):
                problems += _problems(connection, f"INSERT INTO {name}({name}, rank) VALUES('integrity-check', 1)")
        finally:
            connection.close()
    return problems


def files(path: str) -> dict[bytes, FileRow]:
    """The files that are not gone."""
    connection = sqlite.connect_reader(path)
    try:
        return {
            bytes(file): FileRow(bool(session), bool(complete), size, mtime_ns)
            for file, session, complete, size, mtime_ns in sqlite.rows(connection, FILES)
        }
    finally:
        connection.close()


def _problems(connection: sqlite.Connection, sql: str) -> list[str]:
    """The problems that a check reports; a statement that fails on damage is a problem, too."""
    try:
        with sqlite.errors("index"):
            return [str(row[0]) for row in connection.execute(sql) if row[0] != "ok"]
    except sqlite.DamagedError as error:
        return [str(error.__cause__)]
