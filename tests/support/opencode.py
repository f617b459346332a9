"""OpenCode's sessions, as files or as rows, from a few words: `OpenCodeSession().user("why?").answer("because")`.

Deterministic: ids are counted, and the clock goes on by a second with each message.
"""

import json
from copy import deepcopy
from datetime import datetime
from pathlib import PurePath
from typing import Any

from sesamed.source import Member, Row
from tests.support.sessions import START, STEP_MS, encoded

PROJECT = "207a55be71ecb9de5cc09ce48779d51cd2e75d98"

# The columns that matter, of OpenCode 1.2 and of 1.18.
SCHEMA = """
    CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL,
      title text NOT NULL, version text NOT NULL, revert text, time_created integer NOT NULL, time_updated integer NOT NULL);
    CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL,
      data text NOT NULL);
    CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
      time_updated integer NOT NULL, data text NOT NULL);
"""
EVENTS = "CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);"


class OpenCodeSession:
    """One session. Each method adds a message with its parts, and returns the session."""

    def __init__(
        self,
        *,
        id: str = "ses_0001",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/birds",
        title: str = "Birds",
        start: str = START,
        parent: str | None = None,
    ) -> None:
        self._clock_ms = round(datetime.fromisoformat(start).timestamp() * 1000)
        times = {"created": self._clock_ms, "updated": self._clock_ms}
        self.info: dict[str, Any] = {"id": id, "projectID": PROJECT, "directory": cwd, "title": title, "time": times}
        if parent is not None:
            self.info["parentID"] = parent
        self.messages: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        self._count = 0

    @property
    def id(self) -> str:
        """What OpenCode calls it."""
        return str(self.info["id"])

    def user(self, text: str, **more: Any) -> "OpenCodeSession":
        """A prompt."""
        return self.message("user", {"type": "text", "text": text, **more})

    def answer(self, text: str = "", *calls: dict[str, Any]) -> "OpenCodeSession":
        """What the model says and calls."""
        texts = [{"type": "text", "text": text, "time": {"start": self._clock_ms}}] if text else []
        return self.message("assistant", {"type": "step-start"}, *texts, *calls, {"type": "step-finish"})

    def message(self, role: str, *parts: dict[str, Any], **more: Any) -> "OpenCodeSession":
        """Any message."""
        self._clock_ms += STEP_MS
        message: dict[str, Any] = {
            "id": self._next("msg"),
            "sessionID": self.id,
            "role": role,
            "time": {"created": self._clock_ms},
        }
        if role == "assistant":
            prompt = next((said["id"] for said, _ in reversed(self.messages) if said["role"] == "user"), None)
            more = {"parentID": prompt, **more}
            message |= {"path": {"cwd": self.info["directory"], "root": self.info["directory"]}}
        self.messages.append((message | more, []))
        return self.part(*parts)

    def part(self, *parts: dict[str, Any]) -> "OpenCodeSession":
        """More of the last message."""
        message, before = self.messages[-1]
        ids = {"sessionID": self.id, "messageID": message["id"]}
        before += [{"id": self._next("prt"), **ids, **part} for part in parts]
        return self

    def fork(self, id: str, at: int | None = None) -> "OpenCodeSession":  # noqa: A002  # its name in the file
        """A session that begins with a copy of the first `at` messages (all, if not given): with other ids, and the same times."""
        child = OpenCodeSession(id=id, cwd=self.info["directory"], title=f"{self.info['title']} (fork #1)")
        child._clock_ms, child._count = self._clock_ms, 1000
        child.info["time"] = {"created": self._clock_ms, "updated": self._clock_ms}
        renamed: dict[str | None, str] = {}
        for message, parts in deepcopy(self.messages[:at]):
            renamed[message["id"]] = message["id"] = child._next("msg")
            if "parentID" in message:
                message["parentID"] = renamed.get(message["parentID"])
            child.messages.append((message | {"sessionID": id}, []))
            child.part(*({**part, "id": child._next("prt"), "messageID": message["id"]} for part in parts))
        return child

    def members(self, *, old: bool = False) -> list[Member]:
        """The session's files, as they are read: each message with its parts after it. Before 0.6 they lay elsewhere."""
        top = "project/home-me-birds/storage/session" if old else "storage"
        info = {name: value for name, value in self.info.items() if not (old and name in ("projectID", "directory"))}
        place = f"{top}/info" if old else f"{top}/session/{PROJECT}"
        found = [_member(f"{place}/{self.id}.json", info)]
        for message, parts in self.messages:
            found.append(_member(f"{top}/message/{self.id}/{message['id']}.json", message))
            below = f"{top}/part/{self.id}/{message['id']}" if old else f"{top}/part/{message['id']}"
            found += [_member(f"{below}/{part['id']}.json", part) for part in parts]
        return found

    def rows(self) -> list[Row]:
        """The session's rows, as the statements give them."""
        info = self.info
        revert = encoded(info["revert"]) if "revert" in info else None
        values = (info["id"], info.get("parentID"), info["directory"], info["title"], info["time"]["created"], revert)
        found = [Row(0, values)]
        for message, parts in self.messages:
            found.append(Row(1, (0, message["id"], _data(message))))
            found += [Row(1, (1, part["id"], _data(part))) for part in parts]
        return found

    def statements(self) -> list[tuple[str, tuple[Any, ...]]]:
        """What puts the session into a database of this schema."""
        info, now = self.info, self._clock_ms
        revert = encoded(info["revert"]) if "revert" in info else None
        values = (
            info["id"],
            PROJECT,
            info.get("parentID"),
            "slug",
            info["directory"],
            info["title"],
            "1.18.33",
            revert,
        )
        found: list[tuple[str, tuple[Any, ...]]] = []
        found += [
            ("REPLACE INTO session VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, info["time"]["created"], now))
        ]
        for message, parts in self.messages:
            row = (message["id"], self.id, message["time"]["created"], now, _data(message))
            found.append(("REPLACE INTO message VALUES(?, ?, ?, ?, ?)", row))
            rows = ((part["id"], message["id"], self.id, now, now, _data(part)) for part in parts)
            found += [("REPLACE INTO part VALUES(?, ?, ?, ?, ?, ?)", row) for row in rows]
        return found

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self.id.removeprefix('ses_')}{self._count:06}"


def tool_part(
    name: str, arguments: dict[str, Any], output: str = "", call: str = "call_1", **state: Any
) -> dict[str, Any]:
    """A call that has ended well; `state` has further fields of it, or others."""
    done = {
        "status": "completed",
        "input": arguments,
        "output": output,
        "metadata": {},
        "time": {"start": 1772355600500},
    }
    return {"type": "tool", "tool": name, "callID": call, "state": done | state}


def _member(path: str, value: dict[str, Any]) -> Member:
    return Member(PurePath(path), json.dumps(value, indent=2).encode())


def _data(value: dict[str, Any]) -> str:
    return encoded({name: item for name, item in value.items() if name not in ("id", "sessionID", "messageID")})
