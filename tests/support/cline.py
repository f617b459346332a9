"""Cline's files, from a few words: a session of the command line, and a task of an editor's panel (as Roo Code's and Kilo Code's).

Deterministic: ids count, and the clock goes on by a second with each message.
"""

import copy
import json
from datetime import datetime
from typing import Any

from tests.support.sessions import START, STEP_MS, Call, encoded

START_MS = round(datetime.fromisoformat(START).timestamp() * 1000)


class ClineSession:
    """A session of the command line. Each method adds a message and returns the session; `fork` returns another one."""

    def __init__(self, id: str = "1772355600000_a1b2c", cwd: str = "/home/me/birds") -> None:  # noqa: A002  # its name in the file
        self.id = id
        self.cwd = cwd
        self.worker: dict[str, str] = {}
        self.messages: list[dict[str, Any]] = []
        self.more: dict[str, Any] = {"git": {"branch": "orchard"}}

    @property
    def path(self) -> str:
        """Where the messages lie, below the root."""
        root, _, agent = self.id.partition("__")
        return f"sessions/{root}/{agent or root}.messages.json"

    @property
    def manifest_path(self) -> str:
        """Where the rest lies."""
        return f"sessions/{self.id}/{self.id}.json"

    def user(self, text: str, **more: Any) -> "ClineSession":
        """A prompt."""
        return self.said("user", [{"type": "text", "text": f'<user_input mode="act">{text}</user_input>'}], **more)

    def answer(self, text: str = "", *calls: Call) -> "ClineSession":
        """What the model says and calls."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        used = [{"type": "tool_use", "id": call.key, "name": call.name, "input": call.arguments} for call in calls]
        return self.said("assistant", [*blocks, *used], modelInfo={"id": "quince-1", "provider": "openai-compatible"})

    def result(self, call: Call, content: Any, **more: Any) -> "ClineSession":
        """What a call gave back."""
        block = {"type": "tool_result", "tool_use_id": call.key, "name": call.name, "content": content, **more}
        return self.said("user", [block])

    def ran(self, call: Call, output: str, code: int = 0) -> "ClineSession":
        """What a command gave back."""
        done: dict[str, Any] = {"query": call.arguments["commands"][0], "result": output, "success": not code}
        if code:
            done |= {
                "error": f"Command exited with code {code}",
                "result": f"[Command exited with code {code}]\n{output}",
            }
        return self.result(call, [done])

    def said(self, role: str, content: Any, **more: Any) -> "ClineSession":
        """Any message."""
        number = len(self.messages)
        named = {
            "id": f"msg_{self.id[-5:]}{number}",
            "role": role,
            "content": content,
            "ts": START_MS + number * STEP_MS,
        }
        self.messages.append({**named, **more})
        return self

    def fork(self, id: str) -> "ClineSession":  # noqa: A002
        """Another session that begins with a copy."""
        other = ClineSession(id, self.cwd)
        other.messages = copy.deepcopy(self.messages)
        other.more |= {"fork": {"forkedFromSessionId": self.id}}
        return other

    def subagent(self, agent: str) -> "ClineSession":
        """One that works for this one."""
        other = ClineSession(f"{self.id}__{agent}", self.cwd)
        other.worker = {"parentThreadId": self.id, "subagent": agent}
        return other

    def document(self) -> bytes:
        """The messages, as they are written each time."""
        whole = {
            "version": 1, "updated_at": START, "agent": "subagent" if self.worker else "lead", "sessionId": self.id,
            "origin": {"source": "cli", "mode": "user", "sessionId": self.id, **self.worker}, "messages": self.messages,
            "system_prompt": f"<env>\n1. Platform: linux\n4. Working Directory: {self.cwd}\n</env>",
        }  # fmt: skip
        return json.dumps(whole, indent=2).encode() + b"\n"

    def manifest(self, **metadata: Any) -> bytes:
        """What stands beside them."""
        prompt = self.messages[0]["content"][0]["text"] if self.messages else ""
        more = {"title": prompt.partition(">")[2].partition("<")[0], **self.more, **metadata}
        whole = {
            "version": 1, "session_id": self.id, "source": "cli", "started_at": START, "cwd": self.cwd, "workspace_root": self.cwd,
            "prompt": prompt, "metadata": more,
        }  # fmt: skip
        return json.dumps(whole, indent=2).encode() + b"\n"


class ClineTask:
    """A task of an editor's panel. Each method adds a row and returns the task."""

    def __init__(self, id: str = "1772355600000", cwd: str = "/home/me/birds") -> None:  # noqa: A002  # its name in the path
        self.id = id
        self.cwd = cwd
        self.rows: list[dict[str, Any]] = []

    @property
    def path(self) -> str:
        """Where the rows lie, below the root."""
        return f"tasks/{self.id}/ui_messages.json"

    def says(self, kind: str, text: str = "", **more: Any) -> "ClineTask":
        """A row that tells something."""
        return self._add({"type": "say", "say": kind, "text": text, **more})

    def asks(self, kind: str, text: str = "", **more: Any) -> "ClineTask":
        """A row that waits for the person."""
        return self._add({"type": "ask", "ask": kind, "text": text, **more})

    def user(self, text: str) -> "ClineTask":
        """The task, and later what the person says to it."""
        if self.rows:
            return self.says("user_feedback", text)
        request = f"<task>{text}</task>\n# Current Working Directory ({self.cwd}) Files\nx.py"
        return self.says("text", text).says("api_req_started", encoded({"request": request, "tokensIn": 1}))

    def tool(self, tool: str, **more: Any) -> "ClineTask":
        """A tool was used."""
        return self.says("tool", encoded({"tool": tool, **more}))

    def document(self) -> bytes:
        """The rows, as they are written each time."""
        return json.dumps(self.rows).encode()

    def _add(self, row: dict[str, Any]) -> "ClineTask":
        self.rows.append({"ts": START_MS + len(self.rows) * STEP_MS, **row})
        return self
