"""Qwen Code's files, byte for byte, from a few words: `QwenSession().user("why?").answer("because")`."""

from typing import Any
from uuid import UUID

from tests.support.sessions import START, Call, Transcript, encoded, iso, short_hash


class QwenSession(Transcript):
    """One session. Each method appends a line and returns the session; `forked` returns another one."""

    def __init__(
        self,
        *,
        id: str = "9e200000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/birds",
        start: str = START,
        branch: str | None = "orchard",
        parent: str | None = None,
    ) -> None:
        super().__init__(id, start)
        self.cwd = cwd
        self.branch = branch
        self.parent = parent  # a subagent's lines have the session of its parent
        self.last: str | None = None

    @property
    def file_name(self) -> str:
        """As Qwen Code names it."""
        return f"{self.id}.jsonl"

    @property
    def path(self) -> str:
        """Where the file lies, below the root."""
        place = "chats" if self.parent is None else f"subagents/{self.parent}"
        return f"-home-me-birds/{place}/{self.file_name}"

    def user(self, text: str, **more: Any) -> "QwenSession":
        """A prompt."""
        return self.said("user", [{"text": text}], provenance="real_user", **more)

    def answer(self, text: str = "", *calls: Call) -> "QwenSession":
        """What the model says and calls."""
        parts: list[dict[str, Any]] = [{"text": text}] if text else []
        parts += [{"functionCall": {"id": call.key, "name": call.name, "args": call.arguments}} for call in calls]
        return self.said("assistant", parts, provenance="assistant_output", model="quince-1")

    def result(self, call: Call, output: str, *, error: bool = False, **more: Any) -> "QwenSession":
        """What a call gave back; `more` is what else the program knows of it."""
        given = {"id": call.key, "name": call.name, "response": {"error" if error else "output": output}}
        known = {"callId": call.key, "status": "error" if error else "success", **more}
        return self.said("tool_result", [{"functionResponse": given}], provenance="tool_result", toolCallResult=known)

    def shell(self, call: Call, output: str, code: int = 0) -> "QwenSession":
        """What a shell command gave back."""
        command = call.arguments["command"]
        text = (
            f"Command: {command}\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: {code}\nSignal: (none)"
            "\nProcess Group PGID: 7"
        )
        shown = {"type": "shell_result", "version": 1, "exitCode": code, "output": output}
        return self.result(call, text, error=code != 0, resultDisplay=shown)

    def system(self, subtype: str, **payload: Any) -> "QwenSession":
        """What the program says of the session."""
        return self.entry("system", subtype=subtype, provenance="system", systemPayload=payload)

    def title(self, title: str, source: str = "manual") -> "QwenSession":
        """The session was named."""
        return self.system("custom_title", customTitle=title, titleSource=source)

    def back_to(self, entry: str | None) -> "QwenSession":
        """The person goes back to what a prompt follows."""
        self.last = entry
        return self.system("rewind", truncatedCount=1)

    def said(self, type_: str, parts: list[dict[str, Any]], **more: Any) -> "QwenSession":
        """A line with a message."""
        return self.entry(type_, message={"role": "model" if type_ == "assistant" else "user", "parts": parts}, **more)

    def entry(self, type_: str, **fields: Any) -> "QwenSession":
        """A line of any type."""
        self._tick()
        before, self.last = self.last, _uuid(f"{self.id}:{self._count}")
        place = {"cwd": self.cwd, "version": "0.24.4", **({"gitBranch": self.branch} if self.branch else {})}
        head = {"uuid": self.last, "parentUuid": before, "sessionId": self.parent or self.id}
        return self.raw(encoded({**head, "timestamp": iso(self._clock_ms), "type": type_, **place, **fields}).encode())

    def forked(self, id: str) -> "QwenSession":  # noqa: A002  # its name in the file
        """A copy of this session, which goes on by itself."""
        child = QwenSession(id=id, cwd=self.cwd, start=iso(self._clock_ms), branch=self.branch)
        source = bytes(self.id, "ascii")
        for line in self.lines():
            mark = f',"forkedFrom":{{"sessionId":"{self.id}","messageUuid":"x"}}}}'.encode()
            child.raw(line.replace(b'"sessionId":"' + source, b'"sessionId":"' + id.encode(), 1)[:-1] + mark)
        child.last, child._count = self.last, self._count
        return child


def _uuid(text: str) -> str:
    return str(UUID(hex=short_hash(text) * 4, version=4))
