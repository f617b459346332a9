"""Goose's database, from a few words: `GooseSession().user("why?").answer("because")`, as rows or as statements."""

import sqlite3
from contextlib import closing
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

from sesamed.source import Row
from tests.support.sessions import START, Call, encoded

SCHEMA = """
    CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE sessions (
      id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '', user_set_name BOOLEAN DEFAULT FALSE,
      session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
      updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, extension_data TEXT DEFAULT '{}', archived_at TIMESTAMP
    );
    CREATE TABLE messages (
      id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
      content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER,
      metadata_json TEXT
    );
    CREATE INDEX idx_messages_session ON messages(session_id);
"""  # 13, without what nobody reads
FIRST_SCHEMA = """
    CREATE TABLE sessions (
      id TEXT PRIMARY KEY, description TEXT NOT NULL DEFAULT '', working_dir TEXT NOT NULL,
      created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
    );
    CREATE TABLE messages (
      id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
      content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER
    );
"""  # 1
START_S = round(datetime.fromisoformat(START).timestamp())
BOTH, MODEL_ONLY, NOBODY, PERSON_ONLY = (
    {"userVisible": person, "agentVisible": model}
    for person, model in ((True, True), (False, True), (False, False), (True, False))
)


class GooseSession:
    """One session. Each method adds a message and returns the session; `fork` returns another one."""

    def __init__(self, id: str = "20260301_1", cwd: str = "/home/me/birds", name: str = "CLI Session") -> None:  # noqa: A002
        self.id = id
        self.info: dict[str, Any] = {"working_dir": cwd, "name": name, "user_set_name": 0, "session_type": "user"}
        self.messages: list[dict[str, Any]] = []

    def user(self, text: str, **more: Any) -> "GooseSession":
        """A prompt."""
        return self.message("user", {"type": "text", "text": text}, **more)

    def answer(self, text: str, **more: Any) -> "GooseSession":
        """What the model says."""
        return self.message("assistant", {"type": "text", "text": text}, **more)

    def calls(self, call: Call) -> "GooseSession":
        """What it calls, in a message of its own."""
        value = {"name": call.name, "arguments": call.arguments}
        return self.message(
            "assistant", {"type": "toolRequest", "id": call.key, "toolCall": {"status": "success", "value": value}}
        )

    def result(self, call: Call, text: str, code: int = 0) -> "GooseSession":
        """What a shell command gave back."""
        content = [{"type": "text", "text": text, "annotations": {"priority": 0.0}}]
        value = {"content": content, "structuredContent": {"stdout": text, "exit_code": code}, "isError": code != 0}
        return self.message(
            "user", {"type": "toolResponse", "id": call.key, "toolResult": {"status": "success", "value": value}}
        )

    def message(
        self, role: str, *contents: dict[str, Any], seen: dict[str, bool] = BOTH, **more: Any
    ) -> "GooseSession":
        """Any message."""
        number = len(self.messages)
        named = {"message_id": f"msg_{self.id}_{number}", "role": role, "created": START_S + number}
        self.messages.append({**named, "content": list(contents), "seen": seen, **more})
        return self

    def fork(self, id: str) -> "GooseSession":  # noqa: A002
        """Another session that begins with a copy: the ids of messages stay."""
        other = GooseSession(id, self.info["working_dir"])
        other.messages = deepcopy(self.messages)
        return other

    def compact(self, summary: str) -> "GooseSession":
        """The model is shown a summary from now on; what was asked last is asked again."""
        *before, last = self.messages
        self.messages = [*({**message, "seen": PERSON_ONLY} for message in before), {**last, "seen": NOBODY}]
        self.message("user", {"type": "text", "text": summary}, seen=MODEL_ONLY)
        self.message("assistant", {"type": "text", "text": "Your context was compacted. Go on."}, seen=MODEL_ONLY)
        return self.message("user", *last["content"])

    def rows(self) -> list[Row]:
        """The session's rows, as the statements give them."""
        info = self.info
        values = (info["working_dir"], info["name"], info["user_set_name"], info["session_type"], "2026-03-01 09:00:00")
        found, names = [Row(0, values)], list[str]()
        for message in self.messages:
            names.append(message["message_id"])
            told = (message["message_id"], message["role"], encoded(message["content"]), message["created"])
            found.append(Row(1, (*told, encoded(message["seen"]), names.count(message["message_id"]))))
        return found

    def statements(self) -> list[tuple[str, list[Any]]]:
        """What puts the session into the database, anew."""
        info = self.info
        columns = [
            self.id,
            info["name"],
            info["user_set_name"],
            info["session_type"],
            info["working_dir"],
            "2026-03-01 09:00:00",
        ]
        found: list[tuple[str, list[Any]]] = [
            ("DELETE FROM messages WHERE session_id = ?", [self.id]),
            (
                "REPLACE INTO sessions(id, name, user_set_name, session_type, working_dir, created_at) VALUES(?, ?, ?, ?, ?, ?)",
                columns,
            ),
        ]
        insert = (
            "INSERT INTO messages(message_id, session_id, role, content_json, created_timestamp, metadata_json)"
            " VALUES(?, ?, ?, ?, ?, ?)"
        )
        for message in self.messages:
            told = [message["message_id"], self.id, message["role"], encoded(message["content"]), message["created"]]
            found.append((insert, [*told, encoded(message["seen"])]))
        return found


def write_goose(directory: Path, session: GooseSession) -> None:
    """Put a session into the database in this directory, as Goose does that ends then."""
    directory.mkdir(exist_ok=True)
    is_new = not (directory / "sessions.db").exists()
    with closing(sqlite3.connect(directory / "sessions.db", isolation_level=None)) as connection:
        if is_new:
            connection.executescript(SCHEMA)
        for statement, values in session.statements():
            connection.execute(statement, values)
