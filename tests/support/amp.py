"""Amp's files from a few words: `AmpThread().user("why?").answer("because")`. Made after what the program writes; there is no real sample.

Deterministic: messages are numbered, and the clock goes on by a second with each.
"""

import json
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.sessions import START, STEP_MS, Call, iso


class AmpThread:
    """A thread. Each method adds a message and returns the thread; `fork` returns another one."""

    def __init__(
        self,
        *,
        id: str = "T-a3b00000-0000-4000-8000-000000000001",  # noqa: A002  # its name in the file
        cwd: str = "/home/me/project",
        start: str = START,
        **more: Any,
    ) -> None:
        self._clock_ms = round(datetime.fromisoformat(start).timestamp() * 1000)
        tree = {"displayName": cwd.rpartition("/")[2], "uri": f"file://{cwd}", "repository": {"ref": "refs/heads/main"}}
        self.thread: dict[str, Any] = {"v": 1, "id": id, "created": self._clock_ms, "messages": [], "nextMessageId": 0}
        self.thread |= {"env": {"initial": {"trees": [tree]}}, "usageLedger": {"events": []}, **more}

    @property
    def id(self) -> str:
        """Of the thread."""
        return str(self.thread["id"])

    @property
    def file_name(self) -> str:
        """Below the root."""
        return f"{self.id}.json"

    def user(self, text: str, **more: Any) -> "AmpThread":
        """A prompt."""
        return self.message("user", [{"type": "text", "text": text}], meta={"sentAt": self._clock_ms + STEP_MS}, **more)

    def answer(self, text: str = "", calls: tuple[Call, ...] = ()) -> "AmpThread":
        """What the model says and calls, and what that cost."""
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        content += [
            {"type": "tool_use", "complete": True, "id": call.key, "name": call.name, "input": call.arguments}
            for call in calls
        ]
        self.message(
            "assistant", content, state={"type": "complete", "stopReason": "tool_use" if calls else "end_turn"}
        )
        spent = {"timestamp": iso(self._clock_ms), "operationType": "inference", "toMessageId": self._last["messageId"]}
        self.thread["usageLedger"]["events"].append(spent)
        return self

    def result(self, call: Call, result: Any = None, status: str = "done", **more: Any) -> "AmpThread":
        """What a call gave back."""
        run = {"status": status, "result": result, **more}
        return self.message("user", [{"type": "tool_result", "toolUseID": call.key, "run": run}])

    def message(self, role: str, content: Any, **more: Any) -> "AmpThread":
        """A message of any role."""
        self._clock_ms += STEP_MS
        number = self.thread["nextMessageId"]
        self.thread["messages"].append({"role": role, "messageId": number, "content": content, **more})
        self.thread["nextMessageId"], self.thread["v"] = number + 1, self.thread["v"] + 1
        return self

    def fork(self, *, id: str = "T-a3b00000-0000-4000-8000-0000000000ff") -> "AmpThread":  # noqa: A002  # its name in the file
        """A copy of the messages in another thread."""
        child = AmpThread(id=id, start=iso(self._clock_ms), originThreadID=self.id)
        child.thread["messages"] = deepcopy(self.thread["messages"])
        child.thread["nextMessageId"] = self.thread["nextMessageId"]
        child.thread["relationships"] = [{"threadID": self.id, "type": "fork", "role": "child", "messageIndex": 1}]
        return child

    def bytes(self) -> bytes:
        """The file."""
        return json.dumps(self.thread, indent=2).encode()

    def write(self, path: Path) -> Path:
        """Into this root, by a rename; returns the file."""
        file = path / self.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".json.amptmp").write_bytes(self.bytes())
        return file.with_suffix(".json.amptmp").rename(file)

    @property
    def _last(self) -> dict[str, Any]:
        last: dict[str, Any] = self.thread["messages"][-1]
        return last
