"""Gemini CLI's files, byte for byte, from a few words: `GeminiSession().user("why?").answer("because")`.

Deterministic: ids are hashes of the session's id and a counter, and the clock goes on by a second with each message.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.support.sessions import START, STEP_MS, Call, encoded, iso

CONTEXT_ID = "d04923d38bb0f6017037e74183378ef4"  # the same in every session


class GeminiSession:
    """One session. Each method adds what Gemini CLI adds to its file, and returns the session."""

    def __init__(
        self,
        *,
        id: str = "5ea10000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/birds",
        start: str = START,
        parent: str | None = None,
    ) -> None:
        self.id = id
        self.cwd = cwd
        self.start = start
        self.parent = parent
        self._count = 0
        self._clock_ms = round(datetime.fromisoformat(start).timestamp() * 1000)
        self._lines: list[bytes] = []
        self._shown: dict[str, dict[str, Any]] = {}
        self.header()
        if parent is None:
            self.context()

    @property
    def path(self) -> str:
        """Where the file lies, below the root."""
        if self.parent is not None:
            return f"birds/chats/{self.parent}/{self.id}.jsonl"
        return f"birds/chats/session-{self.start[:16].replace(':', '-')}-{self.id[:8]}.jsonl"

    def header(self) -> "GeminiSession":
        """The first line; it comes again when the session is resumed."""
        kind = {"kind": "main"} if self.parent is None else {"kind": "subagent", "directories": [self.cwd]}
        return self.raw({**self._head(), **kind})

    def context(self) -> "GeminiSession":
        """What the model is told of the directory."""
        text = f"<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - {self.cwd}\n\n</session_context>"
        self._shown = {CONTEXT_ID: self._entry("user", [{"text": text}], id=CONTEXT_ID)}
        return self.patch(messages=list(self._shown.values()))

    def user(self, text: str, **more: Any) -> "GeminiSession":
        """A prompt."""
        return self.write(self._entry("user", [{"text": text}], **more))

    def answer(self, text: str = "", calls: Sequence[tuple[Call, str]] = (), **more: Any) -> "GeminiSession":
        """What the model says and calls, with what the calls gave back: the same message twice, if there are calls."""
        entry = self._entry("gemini", text, thoughts=[], **more)
        self.write(entry)
        if not calls:
            return self
        done = [self.call(call, output) for call, output in calls]
        self.write({**entry, "toolCalls": done})
        return self.write(self._entry("user", [part for call in done for part in call["result"]]))

    def call(self, call: Call, output: str, status: str = "success", **more: Any) -> dict[str, Any]:
        """A call as an answer lists it."""
        response = {"output": output} if status == "success" else {"error": output}
        result = [{"functionResponse": {"id": call.key, "name": call.name, "response": response}}]
        return {"id": call.key, "name": call.name, "args": call.arguments, "result": result, "status": status, **more}

    def resume(self) -> "GeminiSession":
        """What a later start writes: the head anew, and all messages with new times, without their calls."""
        before = {name: entry for name, entry in self._shown.items() if name != CONTEXT_ID}
        self.header().context().patch(sessionId=self.id)
        self._shown |= {copy["id"]: copy for entry in before.values() for copy in self._copies(entry)}
        return self.patch(messages=list(self._shown.values()))

    def patch(self, **fields: Any) -> "GeminiSession":
        """Fields of the header that changed."""
        return self.raw({"$set": fields})

    def rewind(self, message: str) -> "GeminiSession":
        """The person went back to before a message."""
        return self.raw({"$rewindTo": message})

    def write(self, entry: dict[str, Any]) -> "GeminiSession":
        """A message, whole."""
        self._shown[entry["id"]] = entry
        return self.raw(entry).patch(lastUpdated=iso(self._clock_ms))

    def raw(self, line: dict[str, Any]) -> "GeminiSession":
        """Any line."""
        self._lines.append(encoded(line).encode())
        return self

    @property
    def last(self) -> str:
        """The id of the message before."""
        return list(self._shown)[-1]

    def lines(self) -> list[bytes]:
        """The lines, without their newlines."""
        return list(self._lines)

    def document(self) -> bytes:
        """The session as older versions write it: one object, as it is after all that was said."""
        said = [entry for name, entry in self._shown.items() if name != CONTEXT_ID]
        entries = [entry for entry in said if entry["type"] != "user" or "text" in entry["content"][0]]
        return json.dumps({**self._head(), "messages": entries}, indent=2).encode()

    def _head(self) -> dict[str, Any]:
        digest = sha256(self.cwd.encode()).hexdigest()
        return {
            "sessionId": self.id,
            "projectHash": digest,
            "startTime": iso(self._clock_ms),
            "lastUpdated": iso(self._clock_ms),
        }

    def _entry(self, type_: str, content: Any, **more: Any) -> dict[str, Any]:
        self._count += 1
        self._clock_ms += STEP_MS
        name = str(UUID(bytes=sha256(f"{self.id}:{self._count}".encode()).digest()[:16], version=4))
        return {"id": name, "timestamp": iso(self._clock_ms), "type": type_, "content": content, **more}

    def _copies(self, entry: dict[str, Any]) -> list[dict[str, Any]]:
        """A message as it is after a resume."""
        content = (
            [{"text": entry["content"]}] if isinstance(entry["content"], str) and entry["content"] else entry["content"]
        )
        calls = entry.get("toolCalls", [])
        if calls:
            content = [{"functionCall": {name: call[name] for name in ("id", "name", "args")}} for call in calls]
        copy = {"id": entry["id"], "timestamp": iso(self._clock_ms), "type": entry["type"], "content": content}
        answers = [
            {**copy, "id": f"{entry['id']}_response", "type": "user", "content": call["result"]} for call in calls
        ]
        return [copy, *answers] if content else []

    def bytes(self) -> bytes:
        """The file."""
        return b"".join(line + b"\n" for line in self._lines)
