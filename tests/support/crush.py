"""Crush's database of a project, from a few words: `CrushSession().user("why?").answer("because")`, as rows or as statements."""

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from sesamed.source import Row
from tests.support.sessions import START, Call, encoded

SCHEMA = """
    CREATE TABLE sessions (
      id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, message_count INTEGER NOT NULL DEFAULT 0,
      updated_at INTEGER NOT NULL, created_at INTEGER NOT NULL, summary_message_id TEXT, todos TEXT
    );
    CREATE TABLE messages (
      id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL, parts TEXT NOT NULL default '[]', model TEXT,
      created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, finished_at INTEGER, provider TEXT,
      is_summary_message INTEGER DEFAULT 0 NOT NULL
    );
    CREATE INDEX idx_messages_session_id ON messages (session_id);
"""  # 2026-08, without what nobody reads
UNMARKED_SCHEMA = SCHEMA.replace(
    "provider TEXT,\n      is_summary_message INTEGER DEFAULT 0 NOT NULL", "provider TEXT"
)  # before 2025-08
START_S = round(datetime.fromisoformat(START).timestamp())
PATH = "/home/me/birds/.crush/crush.db"


class CrushSession:
    """One session. Each method adds a message and returns the session."""

    def __init__(
        self,
        id: str = "c1a50000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the database
        title: str = "Birds",
        parent: str | None = None,
    ) -> None:
        self.id = id
        self.title = title
        self.parent = parent
        self.messages: list[dict[str, Any]] = []

    def user(self, text: str, *parts: dict[str, Any]) -> "CrushSession":
        """A prompt."""
        return self.message("user", part("text", text=text), *parts, part("finish", reason="stop", time=0))

    def answer(self, text: str = "", *calls: Call, reason: str = "end_turn", **more: Any) -> "CrushSession":
        """What the model says and calls."""
        texts = [part("text", text=text)] if text else []
        used = [
            part(
                "tool_call",
                id=call.key,
                name=call.name,
                input=encoded(call.arguments),
                provider_executed=False,
                finished=True,
            )
            for call in calls
        ]
        thought = part("reasoning", thinking="hm", signature="")
        return self.message("assistant", thought, *texts, *used, part("finish", reason=reason, time=START_S), **more)

    def result(self, call: Call, content: str, *, error: bool = False) -> "CrushSession":
        """What a call gave back."""
        told = part("tool_result", tool_call_id=call.key, name=call.name, content=content, is_error=error, metadata="")
        return self.message("tool", told, part("finish", reason="stop", time=0))

    def message(self, role: str, *parts: dict[str, Any], summary: int = 0) -> "CrushSession":
        """Any message."""
        number = len(self.messages)
        named = {"id": f"m{self.id[-4:]}{number:04}", "role": role, "parts": list(parts)}
        self.messages.append({**named, "created": START_S + number // 2, "summary": summary})
        return self

    def rows(self, path: str = PATH) -> list[Row]:
        """The session's rows, as the statements give them."""
        found = [Row(0, (path, self.id, self.parent, self.title, START_S))]
        for message in self.messages:
            told = (message["id"], message["role"], encoded(message["parts"]), message["created"], message["summary"])
            found.append(Row(1, told))
        return found

    def statements(self) -> list[tuple[str, list[Any]]]:
        """What puts the session into the database, or the changes in it."""
        known = (
            "INSERT INTO sessions(id, parent_session_id, title, updated_at, created_at) VALUES(?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET title = excluded.title"
        )
        found: list[tuple[str, list[Any]]] = [(known, [self.id, self.parent, self.title, START_S, START_S])]
        insert = (
            "INSERT INTO messages(id, session_id, role, parts, created_at, updated_at, is_summary_message) VALUES(?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET parts = excluded.parts"
        )
        for message in self.messages:
            told = [
                message["id"],
                self.id,
                message["role"],
                encoded(message["parts"]),
                message["created"],
                message["created"],
            ]
            found.append((insert, [*told, message["summary"]]))
        return found


def part(type_: str, **data: Any) -> dict[str, Any]:
    """A part of a message."""
    return {"type": type_, "data": data}


def write_crush(directory: Path, *sessions: CrushSession) -> None:
    """Put sessions into the database in this directory, as Crush does that ends then."""
    directory.mkdir(parents=True, exist_ok=True)
    is_new = not (directory / "crush.db").exists()
    with closing(sqlite3.connect(directory / "crush.db", isolation_level=None)) as connection:
        if is_new:
            connection.execute("PRAGMA journal_mode=wal")
            connection.executescript(SCHEMA)
        for session in sessions:
            for statement, values in session.statements():
                connection.execute(statement, values)


def list_projects(*projects: Path) -> str:
    """`projects.json`."""
    return json.dumps({"projects": [{"path": str(path), "data_dir": str(path / ".crush")} for path in projects]})
