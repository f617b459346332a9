"""An index of an older schema, and how a daemon carries it over."""

import functools
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import apsw

from sesamed.store import schema, sqlite
from sesamed.store.index import Index, OlderIndex, older_indexes, remove_index, set_older_aside
from sesamed.store.writing.takeover import Replay
from tests.support.dump import dumped
from tests.support.history import same

# What a question asks the headings for today.
ADD_REVISION = "ALTER TABLE totals ADD COLUMN next_revision INTEGER NOT NULL DEFAULT 1"  # slips are corrected as of one
ADD_RECALL_WORDS = f"""
    ALTER TABLE sessions ADD COLUMN recall_words TEXT;
    DROP TABLE headings;
    CREATE VIRTUAL TABLE headings USING fts5({schema.HEADING}, content='sessions', content_rowid='id', tokenize='porter unicode61');
    INSERT INTO headings(headings) VALUES('rebuild');
"""
GOLDEN = Path(__file__).parents[1] / "golden/schema/v4.sql"


def made(path: Path) -> str:
    """The golden index, as a daemon left it that was killed: its WAL is not folded in."""
    connection = apsw.Connection(str(path))
    sqlite.add_functions(connection)
    connection.pragma("journal_mode", "WAL")
    connection.pragma("wal_autocheckpoint", 0)
    with connection:
        connection.execute(GOLDEN.read_text())
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{path}.killed{suffix}")
    connection.close()
    for suffix in ("", "-wal"):
        os.replace(f"{path}.killed{suffix}", f"{path}{suffix}")
    assert os.path.getsize(f"{path}-wal")
    return str(path)


def open_index(path: str) -> Index:
    """As the daemon opens it."""
    set_older_aside(path)
    index = Index(path)
    for name in older_indexes(path):
        older = OlderIndex(name)
        older.copy_metadata(index.writer)
        older.close()
    return index


def carry_over(path: str, index: Index) -> Generator[None, None, None]:
    """As the daemon does it once the files are read; each step is a commit."""
    for name in older_indexes(path):
        older = OlderIndex(name)
        try:
            yield from Replay(older, index.writer, lambda path, gone: True).run()
        finally:
            older.close()
        yield
        remove_index(name)
        yield


def _as_today(value: object) -> object:
    """The one text that is written otherwise today has a command as JSON."""
    return value.replace('command: ["ls"]', "command: ls") if isinstance(value, str) else value


@functools.cache
def _dump_golden() -> dict[str, Any]:
    """What the golden index holds, as it would be written today."""
    with tempfile.TemporaryDirectory() as directory:
        connection = apsw.Connection(made(Path(directory) / "expected.sqlite"))
        sqlite.add_functions(connection)
        connection.execute(ADD_RECALL_WORDS)
        connection.execute(schema.OLDER[4])
        connection.execute(ADD_REVISION)
        found = dumped(connection)
        connection.close()
    for session in found["sessions"].values():
        session["items"] = [tuple(map(_as_today, item)) for item in session["items"]]
    found["chunks"] = {(kind, _as_today(text)): count for (kind, text), count in found["chunks"].items()}
    return found


def holds_golden(index: Index) -> None:
    """An index holds what the golden one held."""
    same(dumped(index.writer.connection), _dump_golden())
