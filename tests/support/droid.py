"""Factory Droid's files, byte for byte, from a few words: `DroidSession().user("why?").answer("because")`.

Deterministic: ids are hashes of the session's id and a counter, and the clock goes on by a second with each message.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.sessions import START, Call, Transcript, encoded, iso

REMINDER = "<system-reminder>\nBe concise.\n</system-reminder>"


class DroidSession(Transcript):
    """A session. Each method appends lines and returns the session; `fork` returns another one."""

    def __init__(
        self,
        *,
        id: str = "d1010000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/project",
        start: str = START,
        title: str = "New Session",
        **more: Any,
    ) -> None:
        super().__init__(id, start)
        self.cwd = cwd
        self.last: str | None = None
        header = {"type": "session_start", "id": id, "title": title, "owner": "me", "version": 2, "cwd": cwd, **more}
        self.raw(encoded(header).encode())

    @property
    def file_name(self) -> str:
        """Below the root."""
        return f"{self.cwd.replace('/', '-')}/{self.id}.jsonl"

    def write(self, path: Path) -> Path:
        """Into this root; returns the file."""
        file = path / self.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.bytes())
        return file

    def context(self) -> "DroidSession":
        """What the model is told before a prompt."""
        return self.message("user", [text_block(REMINDER)], id=f"context-{self._uuid(1)}", visibility="llm_only")

    def user(self, text: str, **more: Any) -> "DroidSession":
        """A prompt."""
        return self.message("user", [text_block(text)], **more)

    def answer(self, text: str = "", calls: tuple[Call, ...] = (), **more: Any) -> "DroidSession":
        """What the model says and calls."""
        content = [text_block(text)] if text else []
        content += [{"type": "tool_use", "id": call.key, "name": call.name, "input": call.arguments} for call in calls]
        return self.message("assistant", content, modelId="fake-1", **more)

    def result(self, call: Call, output: str, code: int | None = None, **more: Any) -> "DroidSession":
        """What a call gave back; a shell's says its code at the end."""
        text = output if code is None else f"{output}\n\n\n[Process exited with code {code}]"
        block = {"type": "tool_result", "tool_use_id": call.key, "is_error": bool(code), "content": text, **more}
        return self.message("user", [block])

    def tool(self, name: str, arguments: dict[str, Any], output: str, code: int | None = None) -> "DroidSession":
        """An answer that is a call, and its result."""
        call = Call(name, arguments, f"call_{self._uuid(1)}")
        return self.answer(calls=(call,)).result(call, output, code)

    def named(self, title: str, **more: Any) -> "DroidSession":
        """The first line is rewritten, in its place."""
        self._lines[0] = encoded({**json.loads(self._lines[0]), "title": title, **more}).encode()
        return self

    def fork(self, *, id: str = "d1010000-0000-4000-8000-0000000000ff") -> "DroidSession":  # noqa: A002  # its name in the file
        """A copy under another id, with the same title."""
        child = DroidSession(id=id, cwd=self.cwd, start=iso(self._clock_ms))
        child._lines, child._count, child.last = list(self._lines), self._count, self.last
        header = {**json.loads(self._lines[0]), "id": id, "parent": self.id, "forkedAtMessageId": self.last}
        child._lines[0] = encoded(header).encode()
        return child

    def message(self, role: str, content: Any, *, id: str = "", **spoken: Any) -> "DroidSession":  # noqa: A002  # its name in the file
        """A message of any role."""
        self._tick()
        line: dict[str, Any] = {
            "type": "message",
            "id": id or self._uuid(),
            "parentId": self.last,
            "timestamp": iso(self._clock_ms),
        }
        line["message"] = {"role": role, "content": content, **spoken}
        if self.last is None:
            del line["parentId"]
        self.last = line["id"]
        return self.raw(encoded(line).encode())

    def line(self, type_: str, **fields: Any) -> "DroidSession":
        """A line of any other type."""
        self._tick()
        return self.raw(
            encoded({"type": type_, "id": self._uuid(), "timestamp": iso(self._clock_ms), **fields}).encode()
        )

    def _uuid(self, ahead: int = 0) -> str:
        seed = f"{self.id}:{self._count + ahead}"
        return str(UUID(bytes=sha256(seed.encode()).digest()[:16], version=4))


def text_block(text: str) -> dict[str, Any]:
    """A text of a message."""
    return {"type": "text", "text": text}
