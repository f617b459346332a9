"""OpenClaw's database of an agent, with the tables that are read: its lines are pi's, as `PiSession` writes them."""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tests.support.sessions import PiSession

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DATABASE = "main/agent/openclaw-agent.sqlite"
SCHEMA = """
CREATE TABLE session_nodes(
  session_key TEXT NOT NULL PRIMARY KEY, current_session_id TEXT NOT NULL, entry_json TEXT NOT NULL, updated_at INTEGER NOT NULL,
  parent_session_key TEXT, spawned_by TEXT, fork_source_session_id TEXT, label TEXT, display_name TEXT
) STRICT;
CREATE TABLE session_windows(
  session_id TEXT NOT NULL PRIMARY KEY, session_key TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE transcript_events(
  session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL, event_zstd BLOB,
  PRIMARY KEY (session_id, seq)
) STRICT;
CREATE TABLE transcript_rewrite_watermarks(
  session_id TEXT NOT NULL PRIMARY KEY, generation TEXT NOT NULL, updated_at INTEGER NOT NULL
) STRICT;
"""  # 2026.9.6, without what nobody reads
PACKED_FROM = 1024  # shorter lines are kept as text


class OpenClawStore:
    """The database, open as OpenClaw has it. Everything is committed at once."""

    def __init__(self, path: Path) -> None:
        self.directory = path.parent
        self.directory.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=wal")
        self.connection.executescript(SCHEMA)

    def __enter__(self) -> "OpenClawStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def converse(self, key: str, session: PiSession, **columns: str) -> None:
        """A conversation is at this session, and says this of itself."""
        given: dict[str, str | int | bytes | None] = {
            "session_key": key,
            "current_session_id": session.id,
            "entry_json": "{}",
            "updated_at": 1,
            **columns,
        }
        self._put("session_nodes", given)
        self._put("session_windows", {"session_id": session.id, "session_key": key, "created_at": 1, "updated_at": 1})

    def write(self, session: PiSession) -> None:
        """The lines that are not there yet."""
        there = self.connection.execute("SELECT count(*) FROM transcript_events WHERE session_id = ?", [session.id])
        for seq, line in list(enumerate(session.lines()))[there.fetchone()[0] :]:
            text, packed = stored(line)
            self._put(
                "transcript_events",
                {"session_id": session.id, "seq": seq, "event_json": text, "created_at": 1, "event_zstd": packed},
            )

    def _put(self, table: str, columns: dict[str, str | int | bytes | None]) -> None:
        marks = ", ".join("?" * len(columns))
        names = ", ".join(columns)
        self.connection.execute(f"REPLACE INTO {table}({names}) VALUES({marks})", list(columns.values()))


def stored(line: bytes) -> tuple[str | None, bytes | None]:
    """A line as it stands in its row."""
    return (line.decode(), None) if len(line) < PACKED_FROM else (None, zstd.compress(line, 1))


def select(path: Path, statements: Sequence[str], unit: str) -> Iterator[tuple[int, tuple[object, ...]]]:
    """The rows that these statements give for a session, with their numbers."""
    with closing(sqlite3.connect(path)) as connection:
        for number, sql in enumerate(statements):
            for row in connection.execute(sql, {"unit": unit}):
                yield number, row
