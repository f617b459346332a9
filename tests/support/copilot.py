"""Copilot CLI's files, byte for byte, from a few words: `CopilotSession().user("why?").answer("because")`.

Deterministic: ids are hashes of the session's id and a counter, and the clock goes on by a second with each event.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.sessions import START, Call, Transcript, encoded, iso


class CopilotSession(Transcript):
    """A session's events. Each method adds what Copilot CLI adds, and returns the session; `fork` returns another one."""

    def __init__(
        self,
        *,
        id: str = "c0b10000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/project",
        start: str = START,
        branch: str = "main",
    ) -> None:
        super().__init__(id, start)
        self.cwd = cwd
        self.last: str | None = None
        self._context = {"cwd": cwd, "gitRoot": cwd, "branch": branch, "headCommit": "0" * 40}
        self._began()

    @property
    def file_name(self) -> str:
        """Below the root."""
        return f"{self.id}/events.jsonl"

    def write(self, path: Path) -> Path:
        """Into this root; returns the file."""
        file = path / self.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.bytes())
        return file

    def user(self, text: str, **more: Any) -> "CopilotSession":
        """A prompt."""
        sent = f"<current_datetime>{iso(self._clock_ms)}</current_datetime>\n\n{text}"
        return self.event("user.message", content=text, transformedContent=sent, delivery="idle", **more)

    def answer(self, text: str = "", calls: tuple[Call, ...] = (), **more: Any) -> "CopilotSession":
        """What the model says and calls; each call begins at once."""
        requests = [
            {"toolCallId": call.key, "name": call.name, "arguments": call.arguments, "type": "function"}
            for call in calls
        ]
        self.event(
            "assistant.message", messageId=self._uuid(), model="fake-1", content=text, toolRequests=requests, **more
        )
        for call in calls:
            self.event(
                "tool.execution_start", toolCallId=call.key, toolName=call.name, arguments=call.arguments, **more
            )
        return self

    def result(self, call: Call, output: str, code: int | None = None, **more: Any) -> "CopilotSession":
        """What a call gave back; a shell's has a code, and says it at the end."""
        if code is not None:
            output = f"{output}\n<shellId: 0 completed with exit code {code}>"
            more["shellExecution"] = {"exitCode": code}
        fields: dict[str, Any] = {"toolCallId": call.key, "success": True, "result": {"content": output}, **more}
        return self.event("tool.execution_complete", **fields)

    def fails(self, call: Call, why: str, **more: Any) -> "CopilotSession":
        """A call gave back an error."""
        return self.event(
            "tool.execution_complete",
            toolCallId=call.key,
            success=False,
            error={"message": why, "code": "failure"},
            **more,
        )

    def tool(self, name: str, arguments: dict[str, Any], output: str, code: int | None = None) -> "CopilotSession":
        """An answer that is a call, and its result."""
        call = Call(name, arguments, f"call_{self._uuid()}")
        return self.answer(calls=(call,)).result(call, output, code)

    def resume(self, **context: str) -> "CopilotSession":
        """It goes on in another process."""
        return self.event("session.resume", resumeTime=iso(self._clock_ms), context={**self._context, **context})

    def fork(self, name: str = "Fork", *, id: str = "c0b10000-0000-4000-8000-0000000000ff") -> "CopilotSession":  # noqa: A002  # its name in the file
        """A copy under another id and with another beginning; it says where it comes from."""
        child = CopilotSession(id=id, cwd=self.cwd, start=iso(self._clock_ms))
        child._lines = [child._lines[0], *self._lines[1:]]
        child._count, child.last = self._count, self.last
        return child.event(
            "session.info", infoType="fork", message=f'Forked from "Walnut" ({self.id}) as "{name}" ({id}).'
        )

    def workspace(self, name: str, *, by_person: bool = False) -> bytes:
        """The description beside it."""
        fields = {"id": self.id, "cwd": self.cwd, "name": name, "user_named": "true" if by_person else "false"}
        return "".join(f"{field}: {value}\n" for field, value in fields.items()).encode()

    def event(self, type_: str, *, agent: str | None = None, **data: Any) -> "CopilotSession":
        """An event of any type."""
        self._tick()
        event: dict[str, Any] = {"type": type_, "data": data, "id": self._uuid(), "timestamp": iso(self._clock_ms)}
        event |= {"parentId": self.last} | ({} if agent is None else {"agentId": agent})
        self.last = event["id"]
        return self.raw(encoded(event).encode())

    def _began(self) -> None:
        about: dict[str, Any] = {
            "version": 1,
            "producer": "copilot-agent",
            "copilotVersion": "1.0.102",
            "startTime": self.start,
        }
        self.event("session.start", sessionId=self.id, **about, context=self._context)

    def _uuid(self) -> str:
        seed = f"{self.id}:{self._count}:{len(self._lines)}"
        return str(UUID(bytes=sha256(seed.encode()).digest()[:16], version=4))


def history(*entries: dict[str, Any], session: str = "c0b10000-0000-4000-8000-000000000002", **more: Any) -> bytes:
    """A session of the first versions: what the person saw, a second apart, and what the model was sent."""
    began = 1000 * 1_772_355_600
    timeline = [
        {"id": str(UUID(int=number + 1, version=4)), "timestamp": iso(began + 1000 * number), **entry}
        for number, entry in enumerate(entries)
    ]
    return json.dumps(
        {"sessionId": session, "startTime": START, "chatMessages": [], "timeline": timeline, **more}
    ).encode()
