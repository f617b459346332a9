"""Sessions as agents write them, byte for byte, from a few words: `PiSession().user("why?").assistant("because")`.

Deterministic: ids are hashes of the session's id and a counter, and the clock goes on by a second with each entry.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

START = "2026-03-01T09:00:00.000Z"
STEP_MS = 1000


@dataclass(frozen=True)
class Call:
    """A tool call: `Call("bash", {"command": "ls"})`. Two equal ones in a session need ids of their own."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""

    @property
    def key(self) -> str:
        """What its result refers to it by."""
        return self.id or "call_" + short_hash(self.name + encoded(self.arguments))


class Transcript:
    """A file that grows by lines, with a clock that goes on by a second with each entry. Builders of each format are its children."""

    def __init__(self, id: str, start: str) -> None:  # noqa: A002  # its name in the file
        self.id = id
        self.start = start
        self._lines: list[bytes] = []
        self._count = 0
        self._clock_ms = round(datetime.fromisoformat(start).timestamp() * 1000)

    @property
    def file_name(self) -> str:
        """What the agent calls the file."""
        raise NotImplementedError

    def raw(self, line: bytes) -> Self:
        """Any bytes as a line."""
        self._lines.append(line)
        return self

    def without(self, *fields: str) -> Self:
        """The same lines as a converter may write them: none of these fields, but in a header."""
        for number, line in enumerate(self._lines):
            values = json.loads(line)
            if values["type"] != "session":
                self._lines[number] = encoded({name: values[name] for name in values if name not in fields}).encode()
        return self

    def lines(self) -> list[bytes]:
        """The lines, without their newlines."""
        return list(self._lines)

    def last_line(self) -> bytes:
        """The last line as an agent appends it."""
        return self._lines[-1] + b"\n"

    def bytes(self) -> bytes:
        """The whole file."""
        return b"".join(line + b"\n" for line in self._lines)

    def write(self, path: Path) -> Path:
        """To this file, or into this directory under the agent's name for it; returns the file."""
        file = path / self.file_name if path.is_dir() else path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.bytes())
        return file

    def _tick(self) -> None:
        self._count += 1
        self._clock_ms += STEP_MS


class PiSession(Transcript):
    """One file of pi. Each method appends a line and returns the session; `fork` and `migrated` return another one."""

    def __init__(
        self,
        *,
        id: str = "019e0000-0000-7000-8000-000000000001",  # noqa: A002  # its name in the file
        cwd: str | None = "/home/me/project",
        start: str = START,
        version: int = 3,
        parent: str | None = None,
    ) -> None:
        super().__init__(id, start)
        self.cwd = cwd
        self.version = version
        self.last: str | None = None
        self._header(parent)

    @property
    def file_name(self) -> str:
        """As pi names it: time and id."""
        return f"{self.start.replace(':', '-').replace('.', '-')}_{self.id}.jsonl"

    def user(self, text: str | list[dict[str, Any]]) -> "PiSession":
        """A prompt: a text, or blocks."""
        return self.message("user", content=blocks(text))

    def assistant(self, text: str = "", calls: Sequence[Call] = (), thinking: str = "") -> "PiSession":
        """A response: what it thought, said and called."""
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": thinking}] if thinking else []
        content += blocks(text) if text else []
        content += [{"type": "toolCall", "id": c.key, "name": c.name, "arguments": c.arguments} for c in calls]
        return self.message("assistant", content=content, stopReason="toolUse" if calls else "stop")

    def result(self, call: Call, text: str, *, error: bool = False, **more: Any) -> "PiSession":
        """What a call gave back; `more` are further fields, such as `details`."""
        return self.message(
            "toolResult", toolCallId=call.key, toolName=call.name, content=blocks(text), isError=error, **more
        )

    def tool(self, name: str, arguments: dict[str, Any], output: str, *, error: bool = False) -> "PiSession":
        """A call and its result: two lines."""
        call = Call(name, arguments, f"call_{self._count}")
        return self.assistant(calls=[call]).result(call, output, error=error)

    def bash(self, command: str, output: str, exit_code: int | None = 0) -> "PiSession":
        """A command that the person ran with `!`."""
        return self.message(
            "bashExecution", command=command, output=output, exitCode=exit_code, cancelled=False, truncated=False
        )

    def name(self, name: str) -> "PiSession":
        """The person named the session."""
        return self.entry("session_info", name=name)

    def compaction(self, summary: str) -> "PiSession":
        """Older messages were summed up."""
        return self.entry("compaction", summary=summary, firstKeptEntryId=self.last, tokensBefore=1000)

    def branch_summary(self, summary: str) -> "PiSession":
        """A branch was left, and summed up."""
        return self.entry("branch_summary", fromId=self.last, summary=summary)

    def custom(self, text: str, custom_type: str = "note") -> "PiSession":
        """An extension put a message into the conversation."""
        return self.entry("custom_message", customType=custom_type, content=text, display=True)

    def back_to(self, entry: str | None) -> "PiSession":
        """The next entry is a child of this one: another branch. Appends nothing."""
        self.last = entry
        return self

    def message(self, role: str, **fields: Any) -> "PiSession":
        """A line of type `message`, of any role."""
        return self.entry("message", message={"role": role, **fields, "timestamp": self._clock_ms + STEP_MS})

    def entry(self, type_: str, **fields: Any) -> "PiSession":
        """A line of any type."""
        self._tick()
        entry: dict[str, Any] = {"type": type_}
        if self.version > 1:
            entry |= {"id": short_hash(f"{self.id}:{self._count}"), "parentId": self.last}
            self.last = entry["id"]
        return self.raw(encoded(entry | {"timestamp": iso(self._clock_ms)} | fields).encode())

    def fork(self, *, id: str, at: int | None = None, directory: str = "/sessions") -> "PiSession":  # noqa: A002  # its name in the file
        """A child of this session: it begins with a copy of the first `at` entries (all, if not given)."""
        start, parent = iso(self._clock_ms + STEP_MS), f"{directory}/{self.file_name}"
        child = PiSession(id=id, cwd=self.cwd, start=start, version=self.version, parent=parent)
        copied = self._lines[1:] if at is None else self._lines[1 : at + 1]
        child._lines += copied
        child._count = len(copied)
        if copied:
            child.last = json.loads(copied[-1]).get("id")
        return child

    def moved(self, cwd: str) -> "PiSession":
        """The same session, begun in another directory."""
        self._lines[0] = encoded(json.loads(self._lines[0]) | {"cwd": cwd}).encode()
        return self

    def migrated(self, seed: str = "") -> "PiSession":
        """The file as a later pi rewrites one of version 1: the same lines, with ids that no other `seed` gives."""
        header = json.loads(self._lines[0]) | {"version": 3}
        after = PiSession(id=self.id, cwd=self.cwd, start=self.start)
        after._lines = [encoded(header).encode()]
        after._count, after._clock_ms = self._count, self._clock_ms
        for number, line in enumerate(self._lines[1:]):
            entry = json.loads(line) | {"id": short_hash(f"{self.id}:{seed}:{number}"), "parentId": after.last}
            after.last = entry["id"]
            after.raw(encoded(entry).encode())
        return after

    def _header(self, parent: str | None) -> None:
        header: dict[str, Any] = {"type": "session"}
        if self.version > 1:
            header["version"] = self.version
        header |= {"id": self.id, "timestamp": self.start}
        if self.cwd is not None:
            header["cwd"] = self.cwd
        if parent is not None:
            header["branchedFrom" if self.version == 1 else "parentSession"] = parent
        self.raw(encoded(header).encode())


def blocks(text: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A text as content blocks."""
    return [{"type": "text", "text": text}] if isinstance(text, str) else text


def encoded(value: Any) -> str:
    """JSON as JavaScript writes it: no spaces, and no escapes for other than ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def iso(time_ms: int) -> str:
    """The time as JavaScript writes it."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def short_hash(text: str) -> str:
    """Eight hex digits, as pi's entry ids."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
