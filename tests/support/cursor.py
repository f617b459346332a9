"""Cursor's files of a session, from a few words: `CursorSession().user("why?").answer("because")`, as database and as transcript."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from hashlib import md5, sha256
from pathlib import Path
from typing import Any

from sesamed.source import Row
from tests.support.sessions import START, Call, encoded

SCHEMA = """
    CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB);
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
"""
START_MS = round(datetime.fromisoformat(START).timestamp() * 1000)
SYSTEM = {"role": "system", "content": "You are an AI coding assistant. <user_query> marks what is asked."}
CONTEXT = {
    "role": "user",
    "content": "<user_info>\nOS Version: linux\n</user_info>\n<git_status>\nclean\n</git_status>",
}


def field(number: int, value: bytes | int) -> bytes:
    """A field of a message of Protocol Buffers."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """A number in groups of seven bits."""
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


class CursorSession:
    """One session. Each method adds a message and returns the session."""

    def __init__(
        self,
        id: str = "c0050000-0000-4000-8000-000000000001",  # noqa: A002  # its name on disk
        cwd: str = "/home/me/birds",
        name: str = "New Agent",
        *,
        has_times: bool = True,
    ) -> None:
        self.id, self.cwd, self.has_times = id, cwd, has_times
        self.meta: dict[str, Any] = {"agentId": id, "name": name, "mode": "default", "createdAt": START_MS}
        self.messages: list[dict[str, Any]] = [SYSTEM, CONTEXT]
        self.archived: list[list[dict[str, Any]]] = []
        self.turns: list[tuple[str, int, list[str]]] = []  # the prompt's id, when it was sent, and what was answered
        self.lines: list[dict[str, Any]] = []

    def user(self, text: str, *blocks: dict[str, Any]) -> "CursorSession":
        """A prompt."""
        sent = START_MS + 60_000 * len(self.turns)
        request = f"{len(self.turns):08}-0000-4000-8000-{self.id[-12:]}"
        self.turns.append((request, sent, []))
        when = datetime.fromtimestamp(sent / 1000, UTC)
        stamp = f"{when:%A, %b} {when.day}, {when.year}, {when.hour % 12 or 12}:{when:%M} {when:%p} (UTC)"
        told = f"<timestamp>{stamp}</timestamp>\n<user_query>\n{text}\n</user_query>"
        said = [{"type": "text", "text": told}, *blocks]
        options = {"cursor": {"requestId": request}}
        self.lines.append(line("user", {"type": "text", "text": "\n".join([told, *("[Image]" for _ in blocks)])}))
        return self.message({"role": "user", "content": said, "providerOptions": options})

    def answer(self, text: str = "", *calls: Call) -> "CursorSession":
        """What the model says and calls, with a thought that nobody may read."""
        thought = {"type": "reasoning", "text": "", "signature": "x"}
        said = [{"type": "text", "text": text}] if text else []
        used = [
            {"type": "tool-call", "toolCallId": call.key, "toolName": call.name, "args": call.arguments}
            for call in calls
        ]
        if text:
            self.turns[-1][2].append(text)
        shown = [{"type": "text", "text": f"{text}\n\n[REDACTED]".strip()}] if text else []
        named = [{"type": "tool_use", "name": call.name, "input": call.arguments} for call in calls]
        self.lines.append(line("assistant", *shown, *named))
        return self.message({"role": "assistant", "content": [thought, *said, *used], "id": str(len(self.messages))})

    def result(self, call: Call, text: str, code: int = 0) -> "CursorSession":
        """What a shell command gave back."""
        framed = f"Exit code: {code}\n\nCommand output:\n\n```\n{text}\n```\n\nCommand completed in 12 ms.\n\nShell state persists."
        ended = {"failure": {"exitCode": code}} if code else {"success": {"stdout": text}}
        return self.returned(call, framed, {"output": {**ended, "isBackground": False}, "isError": False})

    def returned(self, call: Call, result: Any, outcome: dict[str, Any]) -> "CursorSession":
        """What a call gave back."""
        given = {"type": "tool-result", "toolCallId": call.key, "toolName": call.name, "result": result}
        options = {"cursor": {"highLevelToolCallResult": outcome}}
        return self.message({"role": "tool", "content": [given], "id": call.key, "providerOptions": options})

    def message(self, said: dict[str, Any]) -> "CursorSession":
        """Any message."""
        self.messages.append(said)
        return self

    def ended(self, status: str = "success", **more: str) -> "CursorSession":
        """How the turn ended."""
        self.lines.append({"type": "turn_ended", "status": status, **more})
        return self

    def compact(self, summary: str) -> "CursorSession":
        """The model is shown a summary from now on."""
        self.archived.append(self.messages[2:])
        options = {"cursor": {"isSummary": True}}
        self.messages = [SYSTEM, CONTEXT, {"role": "user", "content": summary, "providerOptions": options}]
        return self

    # -- as files

    def root(self) -> tuple[bytes, dict[str, bytes]]:
        """What the tree begins with, and everything that it leads to."""
        blobs: dict[str, bytes] = {}
        lists = [[keep(blobs, encoded(said).encode()) for said in said_] for said_ in (*self.archived, self.messages)]
        archives = [keep(blobs, b"".join(field(1, id_) for id_ in ids)) for ids in lists[:-1]]
        turns = [keep(blobs, self._turn(blobs, *turn)) for turn in self.turns] if self.has_times else []
        root = [
            *(field(1, id_) for id_ in lists[-1]),
            field(5, field(1, 22)),  # how large it is
            *(field(8, id_) for id_ in turns),
            field(9, f"file://{self.cwd}".encode()),
            field(10, 1),
            *(field(13, id_) for id_ in archives),
        ]
        return keep(blobs, b"".join(root)), blobs

    def _turn(self, blobs: dict[str, bytes], request: str, sent: int, answers: list[str]) -> bytes:
        prompt = keep(blobs, field(1, b"asked") + field(2, request.encode()) + field(25, sent))
        said = [
            field(1, text.encode()) + field(2, sent + 1000 + n) + field(3, sent + 2000 + n)
            for n, text in enumerate(answers)
        ]
        steps = [keep(blobs, field(1, text)) for text in said]
        told = field(1, prompt) + b"".join(field(2, step) for step in steps) + field(3, request.encode())
        return field(1, told)

    def statements(self) -> list[tuple[str, list[Any]]]:
        """What puts the session into its database, or the changes in it: nothing is ever taken out."""
        root, blobs = self.root()
        meta = encoded(self.meta | {"latestRootBlobId": root.hex()}).encode().hex()
        kept = [("INSERT OR IGNORE INTO blobs VALUES(?, ?)", [id_, data]) for id_, data in blobs.items()]
        return [*kept, ("REPLACE INTO meta VALUES('0', ?)", [meta])]

    def rows(self) -> list[Row]:
        """The session's rows, as the statements give them."""
        root, _ = self.root()
        meta = encoded(self.meta | {"latestRootBlobId": root.hex()})
        turns = [[request, sent] for request, sent, _ in self.turns] if self.has_times else []
        steps = [
            [request, text.encode().hex(), sent + 1000 + n, sent + 2000 + n]
            for request, sent, answers in (self.turns if self.has_times else [])
            for n, text in enumerate(answers)
        ]
        found = [Row(0, (meta, 1, f"file://{self.cwd}")), Row(1, (encoded(turns),)), Row(2, (encoded(steps),))]
        names: list[str] = []
        for said in (*(said for part in self.archived for said in part), *self.messages):
            data = encoded(said).encode()
            names.append(sha256(data).hexdigest())
            found.append(Row(3, (names[-1], names.count(names[-1]), data)))
        return found

    def transcript(self) -> bytes:
        """What Cursor writes beside it."""
        return b"".join(encoded(one).encode() + b"\n" for one in self.lines)

    def text(self) -> bytes:
        """What older versions wrote."""
        said: list[str] = []
        for one in self.lines:
            if "role" not in one:
                continue
            blocks = one["message"]["content"]
            parts = [block["text"] for block in blocks if block["type"] == "text"]
            parts += [
                f"[Tool call] {block['name']}\n{_indented(block['input'])}"
                for block in blocks
                if block["type"] == "tool_use"
            ]
            said.append(f"{one['role']}:\n" + "\n".join(parts))
            said += [f"[Tool result] {block['name']}" for block in blocks if block["type"] == "tool_use"]
        return "\n\n".join(said).encode()

    def database(self, home: Path) -> Path:
        """Where its database is."""
        return home / "chats" / md5(self.cwd.encode()).hexdigest() / self.id / "store.db"  # as Cursor does

    def transcript_in(self, home: Path, parent: str = "") -> Path:
        """Where its transcript is."""
        below = home / "projects" / self.cwd.strip("/").replace("/", "-") / "agent-transcripts"
        return below / parent / "subagents" / f"{self.id}.jsonl" if parent else below / self.id / f"{self.id}.jsonl"


def _indented(arguments: dict[str, Any]) -> str:
    return "\n".join(
        f"  {name}: {value if isinstance(value, str) else encoded(value)}" for name, value in arguments.items()
    )


def keep(blobs: dict[str, bytes], data: bytes) -> bytes:
    """The hash by which something is known."""
    blobs[sha256(data).hexdigest()] = data
    return sha256(data).digest()


def line(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    """A message of a transcript."""
    return {"role": role, "message": {"content": list(content)}}


def beside(session: CursorSession, **more: Any) -> bytes:
    """`meta.json`."""
    told = {"schemaVersion": 1, "createdAtMs": START_MS, "hasConversation": True, "cwd": session.cwd, **more}
    return json.dumps(told).encode()


def write_chat(home: Path, session: CursorSession) -> Path:
    """Put a session into its database, as Cursor does that ends then."""
    file = session.database(home)
    is_new = not file.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        if is_new:
            connection.execute("PRAGMA journal_mode=wal")
            connection.executescript(SCHEMA)
        for statement, values in session.statements():
            connection.execute(statement, values)
    return file


def write_transcript(home: Path, session: CursorSession, parent: str = "") -> Path:
    """Write its transcript anew."""
    file = session.transcript_in(home, parent)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(session.transcript())
    return file


def write_text(home: Path, session: CursorSession, *, flat: bool = False) -> Path:
    """Write it as text, in a directory of its own or not."""
    file = session.transcript_in(home).with_suffix(".txt")
    file = file.parent.with_suffix(".txt") if flat else file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(session.text())
    return file


def trust(home: Path, session: CursorSession) -> None:
    """The person says that a project may be trusted."""
    file = session.transcript_in(home).parents[2] / ".workspace-trusted"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"trustedAt": "2026-03-01T09:00:00.000Z", "workspacePath": session.cwd}))


def all_lines(sessions: list[CursorSession]) -> Iterator[bytes]:
    """The lines of several transcripts."""
    for session in sessions:
        yield from session.transcript().splitlines(keepends=True)
