"""A program that owns an SQLite database, in a process of its own: it runs the statements that it is given, one a line."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import TracebackType

CODE = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    try:
        found = database.execute(*json.loads(line)).fetchall()
    except sqlite3.Error as error:
        found = str(error)
    print(json.dumps(found), flush=True)
"""
TABLES = (
    "CREATE TABLE session(id TEXT PRIMARY KEY, version INTEGER, title TEXT)",
    "CREATE TABLE part(id INTEGER PRIMARY KEY, session TEXT, data)",
)


class Owner:
    """The program, and what it does. As a context manager it ends as programs do."""

    def __init__(self, path: Path, journal: str = "wal", *, tables: bool = True) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.run(f"PRAGMA journal_mode={journal}")
        self.run("PRAGMA busy_timeout=0")  # whoever locks it out is found out
        for statement in TABLES if tables else ():
            self.run(statement)

    def __enter__(self) -> "Owner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def run(self, sql: str, *values: object) -> list[list[object]]:
        """Run a statement."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([sql, values]) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        if isinstance(found, str):
            raise sqlite3.OperationalError(found)
        return found  # type: ignore[no-any-return]  # rows

    def say(self, session: str, key: str, text: str) -> None:
        """A session says something more."""
        self.run("BEGIN IMMEDIATE")
        self.run(
            "INSERT INTO session VALUES(?, 1, ?) ON CONFLICT DO UPDATE SET version = version + 1", session, session
        )
        self.run("INSERT INTO part(session, data) VALUES(?, ?)", session, json.dumps({"key": key, "text": text}))
        self.run("COMMIT")

    def end(self) -> None:
        """Close the database and leave."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def kill(self) -> None:
        """Leave everything as it is."""
        self.process.kill()
        self.process.wait()
        self.end()
