"""Zed's database, from a few words: `ZedThread().user("why?").answer("because")`, as rows or as statements."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from sesamed.source import Row
from tests.support.sessions import Call, encoded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FIRST_SCHEMA = """
    CREATE TABLE IF NOT EXISTS threads (
      id TEXT PRIMARY KEY, summary TEXT NOT NULL, updated_at TEXT NOT NULL, data_type TEXT NOT NULL, data BLOB NOT NULL
    );
"""
SCHEMA = f"""{FIRST_SCHEMA}
    ALTER TABLE threads ADD COLUMN parent_id TEXT;
    ALTER TABLE threads ADD COLUMN folder_paths TEXT;
    ALTER TABLE threads ADD COLUMN folder_paths_order TEXT;
    ALTER TABLE threads ADD COLUMN created_at TEXT;
"""  # since 2026-03
CREATED = "2026-03-01T09:00:00.000000000+00:00"


class ZedThread:
    """One thread. Each method adds a message and returns the thread."""

    def __init__(
        self,
        id: str = "2ed00000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the database
        cwd: str | None = "/home/me/birds",
        title: str = "Birds",
        parent: str | None = None,
    ) -> None:
        self.id = id
        self.cwd = cwd
        self.title = title
        self.parent = parent
        self.version: str | None = "0.3.0"
        self.messages: list[Any] = []

    def user(self, text: str, *pieces: Any) -> "ZedThread":
        """A prompt; other pieces come behind it."""
        named = f"{self.id[:-4]}{len(self.messages):04}"
        return self.message({"User": {"id": named, "content": [{"Text": text}, *pieces]}})

    def answer(self, text: str = "", *done: tuple[Call, str] | tuple[Call, str, bool]) -> "ZedThread":
        """What the model says and calls, and what the calls gave back: Zed writes all of it at once."""
        content: list[Any] = [{"Thinking": {"text": "hm", "signature": None}}]
        content += [{"Text": text}] if text else []
        results: dict[str, Any] = {}
        for call, output, *failed in done:
            content.append({"ToolUse": use(call)})
            results[call.key] = {
                "tool_use_id": call.key,
                "tool_name": call.name,
                "is_error": bool(failed),
                "content": [{"Text": output}],
                "output": output,
            }
        return self.message({"Agent": {"content": content, "tool_results": results, "reasoning_details": None}})

    def message(self, message: Any) -> "ZedThread":
        """Any message."""
        self.messages.append(message)
        return self

    def document(self) -> dict[str, Any]:
        """What is compressed."""
        tree = {"worktree_path": self.cwd, "git_state": {"remote_url": None, "current_branch": "main", "diff": None}}
        return {
            "title": self.title,
            "messages": self.messages,
            "updated_at": self.updated,
            "detailed_summary": None,
            "initial_project_snapshot": {"worktree_snapshots": [tree], "timestamp": CREATED} if self.cwd else None,
            "cumulative_token_usage": {},
            "model": {"provider": "zed.dev", "model": "m"},
            "subagent_context": {"parent_thread_id": self.parent, "depth": 1} if self.parent else None,
            **({"version": self.version} if self.version else {}),
        }

    @property
    def updated(self) -> str:
        """When the last message was complete."""
        return f"2026-03-01T09:{len(self.messages):02}:00.123456789+00:00"

    def rows(self) -> list[Row]:
        """The thread's row, as the statement gives it."""
        beside = (self.parent, self.cwd, "0" if self.cwd else None, CREATED)
        return [Row(0, (self.title, self.updated, "zstd", self.data(), *beside))]

    def data(self) -> bytes:
        """The document, compressed."""
        return zstd.compress(encoded(self.document()).encode("utf-8", "surrogatepass"))

    def statements(self) -> list[tuple[str, list[Any]]]:
        """What puts the thread into the database, or writes it over."""
        save = (
            "INSERT INTO threads(id, parent_id, folder_paths, folder_paths_order, summary, updated_at, data_type, data, created_at)"
            " VALUES(?, ?, ?, ?, ?, ?, 'zstd', ?, ?) ON CONFLICT(id) DO UPDATE SET parent_id = excluded.parent_id,"
            " folder_paths = excluded.folder_paths, folder_paths_order = excluded.folder_paths_order, summary = excluded.summary,"
            " updated_at = excluded.updated_at, data_type = excluded.data_type, data = excluded.data"
        )
        values = [self.id, self.parent, self.cwd, "0" if self.cwd else None, self.title, self.updated]
        return [(save, [*values, self.data(), CREATED])]


def use(call: Call) -> dict[str, Any]:
    """A call as it is kept today."""
    return {
        "id": call.key,
        "name": call.name,
        "raw_input": encoded(call.arguments),
        "input": {"type": "json", "value": call.arguments},
        "is_input_complete": True,
        "thought_signature": None,
    }


def mention(kind: str, content: str = "", **uri: Any) -> dict[str, Any]:
    """A piece of a prompt that names something."""
    return {"Mention": {"uri": {kind: uri}, "content": content}}


def write_zed(directory: Path, *threads: ZedThread) -> None:
    """Put threads into the database in this directory, as Zed does."""
    directory.mkdir(parents=True, exist_ok=True)
    is_new = not (directory / "threads.db").exists()
    with closing(sqlite3.connect(directory / "threads.db", isolation_level=None)) as connection:
        if is_new:
            connection.executescript(SCHEMA)
        for thread in threads:
            for statement, values in thread.statements():
                connection.execute(statement, values)
