"""Kimi's files, byte for byte, from a few words: `KimiSession().user("why?").answer("because")`; of Kimi CLI `KimiCliSession`."""

import hashlib
from typing import Any

from tests.support.sessions import START, Call, Transcript, encoded

WORKSPACE = "wd_birds_0123456789ab"


class KimiSession(Transcript):
    """A session of Kimi Code, as one of its agents writes it: what is read, and the copies of it that are not."""

    def __init__(
        self,
        *,
        id: str = "session_6b1e0000-0000-4000-8000-000000000001",  # noqa: A002  # its name
        start: str = START,
        agent: str = "main",
        cwd: str | None = "/home/me/birds",
    ) -> None:
        super().__init__(id, start)
        self.agent = agent
        self.entry("metadata", protocol_version="1.5", created_at=self._clock_ms)
        disclosed = {"environmentDisclosure": {"cwd": cwd}} if cwd else {}
        self.entry("profile.bind", profileName="agent", systemPrompt="You are Kimi.", **disclosed)

    @property
    def path(self) -> str:
        """Where the file lies, below the root."""
        return f"{WORKSPACE}/{self.id}/agents/{self.agent}/wire.jsonl"

    def user(self, text: str, kind: str = "user", **origin: Any) -> "KimiSession":
        """A prompt, three times."""
        content, whose = [{"type": "text", "text": text}], {"kind": kind, **origin}
        self.entry("turn.prompt", input=content, origin=whose)
        message = {"role": "user", "content": content, "id": f"msg_{self._count}", "toolCalls": [], "origin": whose}
        self.entry("context.append_message", message=message)
        return self.entry("agent.message.appended", message={"message": {"role": "user", "content": content}})

    def answer(self, text: str, kind: str = "text") -> "KimiSession":
        """A part of an answer, twice."""
        name = "text" if kind == "text" else "think"
        self.event("content.part", uuid=f"part-{self._count}", part={"type": kind, name: text})
        said = {"role": "assistant", "content": [{"type": kind, name: text}], "toolCalls": []}
        return self.entry("agent.message.appended", message={"message": said, "meta": {"source": "llm"}})

    def call(self, call: Call) -> "KimiSession":
        """A call."""
        name = f"call-{self._count}"
        return self.event("tool.call", uuid=name, toolCallId=call.key, name=call.name, args=call.arguments)

    def result(self, call: Call, output: str, *, error: bool = False) -> "KimiSession":
        """What it gave back."""
        result = {"output": output, **({"isError": True} if error else {})}
        return self.event("tool.result", parentUuid="x", toolCallId=call.key, result=result)

    def event(self, type_: str, **fields: Any) -> "KimiSession":
        """A step of the model's."""
        return self.entry("context.append_loop_event", event={"type": type_, "turnId": "0", "step": 1, **fields})

    def entry(self, type_: str, **fields: Any) -> "KimiSession":
        """A line of any type."""
        if type_ == "metadata":
            return self.raw(encoded({"type": type_, **fields}).encode())
        self._tick()
        return self.raw(encoded({"type": type_, "agentId": self.agent, **fields, "time": self._clock_ms}).encode())

    def forked(self, id: str) -> "KimiSession":  # noqa: A002  # its name
        """A copy of this session, which goes on by itself."""
        child = KimiSession(id=id)
        child._lines, child._count, child._clock_ms = self.lines(), self._count, self._clock_ms
        return child.entry("forked")

    def state(self, **fields: Any) -> bytes:
        """What stands beside it."""
        main = {"main": {"homedir": "/h", "type": "main"}}
        known = {"id": self.id, "version": 2, "cwd": "/home/me/birds", "agents": main, "isCustomTitle": False}
        return encoded({**known, **fields}).encode()


class KimiCliSession(Transcript):
    """A session of Kimi CLI."""

    def __init__(
        self,
        *,
        id: str = "6b1e0000-0000-4000-8000-00000000000c",  # noqa: A002  # its name
        start: str = START,
        cwd: str = "/home/me/birds",
        agent: str | None = None,
    ) -> None:
        super().__init__(id, start)
        self.cwd = cwd
        self.agent = agent
        self.raw(b'{"type": "metadata", "protocol_version": "1.10"}')

    @property
    def path(self) -> str:
        """Where the file lies, below the root."""
        inside = "" if self.agent is None else f"subagents/{self.agent}/"
        return f"{hashlib.md5(self.cwd.encode()).hexdigest()}/{self.id}/{inside}wire.jsonl"  # its name

    def user(self, text: str) -> "KimiCliSession":
        """A prompt."""
        return self.message("TurnBegin", user_input=text).message("StepBegin", n=1)

    def answer(self, text: str) -> "KimiCliSession":
        """A part of an answer."""
        return self.message("ContentPart", type="text", text=text)

    def call(self, call: Call) -> "KimiCliSession":
        """A call."""
        function = {"name": call.name, "arguments": encoded(call.arguments)}
        return self.message("ToolCall", type="function", id=call.key, function=function, extras=None)

    def result(self, call: Call, output: str, message: str = "", *, error: bool = False) -> "KimiCliSession":
        """What it gave back."""
        value = {"is_error": error, "output": output, "message": message, "display": [], "extras": None}
        return self.message("ToolResult", tool_call_id=call.key, return_value=value)

    def message(self, type_: str, **payload: Any) -> "KimiCliSession":
        """A line of any type."""
        self._tick()
        line = {"timestamp": self._clock_ms / 1000, "message": {"type": type_, "payload": payload}}
        return self.raw(encoded(line).encode())
