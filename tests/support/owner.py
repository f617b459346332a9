"""A program that owns SQLite databases, in a process of its own: it runs the statements that it is given, one a line. One program serves
many tests, each with a database of its own: to start it takes as long as most of them."""

import atexit
import functools
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import TracebackType

CODE = """
import json, sqlite3, sys
databases = {}
for line in sys.stdin:
    path, *statement = json.loads(line, object_hook=lambda value: bytes.fromhex(value["bytes"]))
    try:
        if path not in databases:
            databases[path] = sqlite3.connect(path, isolation_level=None)
        found = databases[path].execute(*statement).fetchall() if statement else databases.pop(path).close()
    except sqlite3.Error as error:
        found = str(error)
    print(json.dumps(found), flush=True)
"""
TABLES = (
    "CREATE TABLE session(id TEXT PRIMARY KEY, version INTEGER, title TEXT)",
    "CREATE TABLE part(id INTEGER PRIMARY KEY, session TEXT, data)",
)


@functools.cache
def _program() -> "subprocess.Popen[str]":
    """The one that runs, started when somebody needs it."""
    started = subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    atexit.register(_end, started)
    return started


def _end(program: "subprocess.Popen[str]") -> None:
    for pipe in (program.stdin, program.stdout):
        assert pipe is not None
        pipe.close()
    program.wait()


class Owner:
    """What the program does with one database. As a context manager it closes it, as programs do that end."""

    def __init__(self, path: Path, journal: str = "wal", *, tables: bool = True) -> None:
        self.path = path
        self._is_open = True
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
        return self._ask(sql, values)

    def say(self, session: str, key: str, text: str) -> None:
        """A session says something more."""
        self.run("BEGIN IMMEDIATE")
        self.run(
            "INSERT INTO session VALUES(?, 1, ?) ON CONFLICT DO UPDATE SET version = version + 1", session, session
        )
        self.run("INSERT INTO part(session, data) VALUES(?, ?)", session, json.dumps({"key": key, "text": text}))
        self.run("COMMIT")

    def write_half(self) -> None:
        """Begin to write more than it can keep in memory, so that half of it is in the file; without a WAL."""
        self.run("PRAGMA cache_size=1")
        self.run("BEGIN IMMEDIATE")
        self.run("UPDATE session SET id = 'half'")
        for number in range(40):
            self.run("INSERT INTO part(session, data) VALUES('half', ?)", str(number) * 2000)

    def end(self) -> None:
        """Close the database."""
        if self._is_open:
            self._is_open = False
            self._ask()

    def kill(self) -> None:
        """Leave everything as it is, and the program with it."""
        self._is_open = False
        program = _program()
        _program.cache_clear()
        atexit.unregister(_end)
        program.kill()
        _end(program)

    def _ask(self, *statement: object) -> list[list[object]]:
        program = _program()
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps([str(self.path), *statement], default=lambda data: {"bytes": data.hex()}) + "\n")
        program.stdin.flush()
        found = json.loads(program.stdout.readline())
        if isinstance(found, str):
            raise sqlite3.OperationalError(found)
        return found  # type: ignore[no-any-return]  # rows
