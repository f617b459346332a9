"""Claude Code's sessions, byte for byte, from a few words: `ClaudeSession().user("why?").assistant("because")`.

Deterministic: ids are hashes of the session's id and a counter, and the clock goes on by a second with each line.
"""

import json
from typing import Any

from tests.support.sessions import START, Call, Transcript, blocks, encoded, iso, short_hash

ID = "5a1e0000-0000-4000-8000-000000000001"


class ClaudeSession(Transcript):
    """One file of Claude Code. Each method appends lines and returns the session; those for copies return another one."""

    def __init__(
        self,
        *,
        id: str = ID,  # noqa: A002  # its name in the file
        cwd: str = "/home/me/project",
        branch: str = "main",
        start: str = START,
        version: str = "2.1.326",
        agent: str | None = None,
    ) -> None:
        super().__init__(id, start)
        self.cwd = cwd
        self.branch = branch
        self.version = version
        self.agent = agent
        self.last: str | None = None

    @property
    def file_name(self) -> str:
        """The session's id; a subagent's file has its own."""
        return f"{f'agent-{self.agent}' if self.agent else self.id}.jsonl"

    def user(self, text: str | list[dict[str, Any]], **more: Any) -> "ClaudeSession":
        """A prompt: a text, or blocks; `more` are further fields of the line."""
        return self.chain("user", message={"role": "user", "content": text}, **more)

    def assistant(self, text: str = "", *, id: str = "", thinking: str = "", **more: Any) -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A response of one block, or a block of the response `id`."""
        content = [{"type": "thinking", "thinking": thinking}] if thinking else blocks(text)
        return self.response(content, id=id, **more)

    def call(self, call: Call, *, id: str = "") -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A call of the model's: a block of its own line."""
        return self.response([tool_use(call)], id=id)

    def response(self, content: Any, *, id: str = "", **more: Any) -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A line of the model's with these blocks."""
        message = {
            "id": id or f"msg_01{short_hash(f'{self.id}:{self._count}') * 3}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": content,
        }
        return self.chain("assistant", message=message, **more)

    def result(self, call: Call, text: Any, *, error: bool = False) -> "ClaudeSession":
        """What a call gave back."""
        block = {"tool_use_id": call_id(call), "type": "tool_result", "content": text}
        return self.user([block | {"is_error": True} if error else block], toolUseResult={"stdout": "not to be read"})

    def tool(self, name: str, arguments: dict[str, Any], output: str, *, error: bool = False) -> "ClaudeSession":
        """A call and its result: two lines."""
        call = Call(name, arguments, f"toolu_01{short_hash(f'{self.id}:{self._count}') * 3}")
        return self.call(call).result(call, output, error=error)

    def command(self, name: str, arguments: str = "") -> "ClaudeSession":
        """A slash command."""
        said = f"<command-message>{name[1:]}</command-message>\n<command-name>{name}</command-name>"
        return self.user(f"{said}\n<command-args>{arguments}</command-args>")

    def queued(self, prompt: str | list[dict[str, Any]], **more: Any) -> "ClaudeSession":
        """A prompt that was typed while the agent worked."""
        return self.chain("attachment", attachment={"type": "queued_command", "prompt": prompt, **more})

    def compaction(self, summary: str) -> "ClaudeSession":
        """Older messages were summed up: the boundary and the summary."""
        self.chain("system", subtype="compact_boundary", content="Conversation compacted", parentUuid=None)
        return self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def title(self, title: str) -> "ClaudeSession":
        """The person named the session."""
        return self.aside("custom-title", customTitle=title)

    def ai_title(self, title: str) -> "ClaudeSession":
        """The model named the session."""
        return self.aside("ai-title", aiTitle=title)

    def summary(self, title: str, leaf: str | None) -> "ClaudeSession":
        """The title of the conversation with this line."""
        return self.raw(encoded({"type": "summary", "summary": title, "leafUuid": leaf}).encode())

    def aside(self, type_: str, **fields: Any) -> "ClaudeSession":
        """A line about the session, without time."""
        return self.raw(encoded({"type": type_, **fields, "sessionId": self.id}).encode())

    def chain(self, type_: str, **fields: Any) -> "ClaudeSession":
        """A line of the conversation."""
        self._tick()
        hashed = short_hash(f"{self.id}:{self.agent}:{self._count}")
        line: dict[str, Any] = {"parentUuid": self.last, "isSidechain": self.agent is not None}
        line |= {"userType": "external", "cwd": self.cwd, "sessionId": self.id, "version": self.version}
        line |= {"gitBranch": self.branch} | ({"agentId": self.agent} if self.agent else {})
        line |= {"type": type_, "uuid": f"{hashed}-0000-4000-8000-{hashed}0000", "timestamp": iso(self._clock_ms)}
        self.last = line["uuid"]
        return self.raw(encoded(line | fields).encode())

    def bare(self) -> "ClaudeSession":
        """The last line has neither id nor time, as a converter may write it."""
        line = json.loads(self._lines[-1])
        for name in ("uuid", "parentUuid", "timestamp"):
            del line[name]
        self._lines[-1] = encoded(line).encode()
        return self

    def copied(self, id: str, **changes: Any) -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A session that begins with a copy of this one's conversation: new session id, and in each line these changes."""
        child = ClaudeSession(id=id, cwd=self.cwd, branch=self.branch, version=self.version, agent=self.agent)
        child._count, child._clock_ms, child.last = self._count, self._clock_ms, self.last
        for line in map(json.loads, self._lines):
            if "uuid" in line:
                child.raw(encoded(line | {"sessionId": id} | changes).encode())
        return child

    def resumed(self, id: str) -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A copy as 1.0.x made with `--resume`: a prompt is a block, `toolUseResult` is gone."""
        child = self.copied(id)
        for number, line in enumerate(map(json.loads, child._lines)):
            line.pop("toolUseResult", None)
            if line["type"] == "user" and isinstance(line["message"]["content"], str):
                line["message"]["content"] = blocks(line["message"]["content"])
            child._lines[number] = encoded(line).encode()
        return child

    def sdk_fork(self, id: str) -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A copy as the SDK's `forkSession` makes: new uuids, and where each line comes from."""
        child = self.copied(id)
        for number, line in enumerate(map(json.loads, child._lines)):
            line["forkedFrom"] = {"sessionId": self.id, "messageUuid": line["uuid"]}
            line["uuid"] = short_hash(id + line["uuid"])
            line["parentUuid"] = line["parentUuid"] and short_hash(id + line["parentUuid"])
            child._lines[number] = encoded(line).encode()
        return child

    def branch_off(self, id: str) -> "ClaudeSession":  # noqa: A002  # its name in the file
        """A copy as `/branch` makes: the same lines and uuids, each with where it comes from."""
        child = self.copied(id)
        for number, line in enumerate(map(json.loads, child._lines)):
            line["forkedFrom"] = {"sessionId": self.id, "messageUuid": line["uuid"]}
            child._lines[number] = encoded(line).encode()
        return child

    def launched(self, call: Call) -> "ClaudeSession":
        """An agent was begun in the background."""
        text = "Async agent launched successfully. (This tool result is internal metadata.)\nagentId: a1"
        block = {"tool_use_id": call_id(call), "type": "tool_result", "content": [{"type": "text", "text": text}]}
        return self.user([block], toolUseResult={"isAsync": True, "status": "async_launched", "agentId": "a1"})

    def notification(self, call: Call, result: str, status: str = "completed") -> str:
        """What the program says when it has ended."""
        return (
            f"<task-notification>\n<task-id>a1</task-id>\n<tool-use-id>{call_id(call)}</tool-use-id>\n<status>{status}</status>\n"
            f'<summary>Agent "x" finished</summary>\n<result>{result}</result>\n</task-notification>'
        )


def tool_use(call: Call) -> dict[str, Any]:
    """A call as a block."""
    return {"type": "tool_use", "id": call_id(call), "name": call.name, "input": call.arguments}


def call_id(call: Call) -> str:
    """An id as long as the API's."""
    return call.id or f"toolu_01{short_hash(call.name + encoded(call.arguments)) * 3}"
