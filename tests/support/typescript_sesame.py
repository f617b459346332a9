"""What the TypeScript sesame (aliou/sesame) leaves on a machine: its index and its configuration, at the paths that are ours, too."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG = '{\n  "piSessionPaths": [\n    "~/.pi/agent/sessions"\n  ]\n}'  # it writes this when there is none
SCHEMA = """
CREATE TABLE sessions(id TEXT PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, cwd TEXT, name TEXT, created_at TEXT, modified_at TEXT,
  message_count INTEGER, file_mtime INTEGER, parent_session_id TEXT);
CREATE TABLE chunks(id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  kind TEXT NOT NULL, role TEXT, tool_name TEXT, seq INTEGER, content TEXT NOT NULL, is_error INTEGER DEFAULT NULL, entry_id TEXT,
  parent_entry_id TEXT, timestamp TEXT, source_type TEXT);
CREATE TABLE metadata(key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE VIRTUAL TABLE chunks_fts USING fts5(content, content='chunks', content_rowid='id', tokenize='porter unicode61');
CREATE TRIGGER chunks_ai AFTER INSERT ON chunks BEGIN
  INSERT INTO chunks_fts(rowid, content) VALUES (new.id, new.content);
END;
CREATE INDEX idx_chunks_session ON chunks(session_id);
CREATE TABLE schema_migrations(id INTEGER PRIMARY KEY, description TEXT, applied_at TEXT NOT NULL DEFAULT (datetime('now')));
INSERT INTO sessions(id, source, path, name) VALUES('a', 'pi', '/gone.jsonl', 'the walrus');
INSERT INTO chunks(session_id, kind, content) VALUES('a', 'message', 'walrus');
"""
HEADER = b"SQLite format 3\0" + bytes(84)  # it says neither whose the database is nor of which version


@contextmanager
def index_at(directory: Path) -> Iterator[sqlite3.Connection]:
    """Its index in this directory, which anybody may read; it is open, as under `sesame watch`, until this ends."""
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    connection = sqlite3.connect(directory / "index.sqlite", isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA)
        for file in directory.iterdir():
            file.chmod(0o644)
        yield connection
    finally:
        connection.close()
