"""Agents that write their sessions anew, or keep them otherwise than in lines: documents, trees of files, and databases, which are written
to while they are read. They begin, fork, go on, take back and delete."""

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.support.aider import AiderChat
from tests.support.amp import AmpThread
from tests.support.author import WORDS
from tests.support.cline import ClineSession, ClineTask
from tests.support.crush import SCHEMA as CRUSH_SCHEMA
from tests.support.crush import CrushSession
from tests.support.cursor import CursorSession, beside, write_chat
from tests.support.gemini import GeminiSession
from tests.support.goose import SCHEMA as GOOSE_SCHEMA
from tests.support.goose import GooseSession
from tests.support.openclaw import SCHEMA as OPENCLAW_SCHEMA
from tests.support.openclaw import stored
from tests.support.opencode import EVENTS, SCHEMA, OpenCodeSession, tool_part
from tests.support.sessions import Call, PiSession
from tests.support.zed import SCHEMA as ZED_SCHEMA
from tests.support.zed import ZedThread

SESSIONS = 4  # the oldest is deleted then


class Rewriter:
    """What they have in common: each time one thing is done, mostly in the newest session."""

    parser: str

    def __init__(self, root: Path, chance: random.Random, name: str) -> None:
        self.root, self.chance, self.name = root, chance, name
        self.sessions: list[Any] = []

    def go_on(self) -> None:
        """Do one thing."""
        if not self.sessions or self.chance.random() < 0.05:
            own = f"{self.chance.getrandbits(48):012x}"
            forks = bool(self.sessions) and self.chance.random() < 0.3
            self.sessions.append(self.fork(self.chance.choice(self.sessions), own) if forks else self.begin(own))
        elif len(self.sessions) > SESSIONS or self.chance.random() < 0.02:
            self.delete(self.sessions.pop(0))
            return
        session = self.sessions[-1]
        if self.can_take_back(session) and self.chance.random() < 0.1:
            self.take_back(session)
        else:
            self.say(session, " ".join(self.chance.choices(WORDS, k=self.chance.choice((3, 20, 200)))))
        self.write(session)

    def clear(self) -> None:
        """Delete all sessions, and what they are in."""
        while self.sessions:
            self.delete(self.sessions.pop())

    def named(self, own: str) -> str:
        """The id of a session."""
        raise NotImplementedError

    def begin(self, own: str) -> Any:
        """A session of its own."""
        raise NotImplementedError

    def fork(self, session: Any, own: str) -> Any:
        """One that begins with a copy."""
        return session.fork(self.named(own))

    def say(self, session: Any, text: str) -> None:
        """Somebody says something more."""
        raise NotImplementedError

    def can_take_back(self, session: Any) -> bool:
        """Whether there is enough."""
        return len(session.messages) > 2

    def take_back(self, session: Any) -> None:
        """The last message is no more."""
        session.messages.pop()

    def write(self, session: Any) -> None:
        """As it is now."""
        raise NotImplementedError

    def write_file(self, name: str, data: bytes) -> None:
        """A document: in place, by halves or by a rename."""
        path, how = self.root / name, self.chance.random()
        path.parent.mkdir(parents=True, exist_ok=True)
        if how < 0.3:
            path.write_bytes(data[: self.chance.randrange(len(data))])
        if how < 0.6:
            path.write_bytes(data)
        else:
            other = path.with_suffix(".tmp")
            other.write_bytes(data)
            other.rename(path)

    def delete(self, session: Any) -> None:
        """It is no more."""
        raise NotImplementedError


class Documents(Rewriter):
    """Cline: a file is written in place, by halves or by a rename."""

    parser = "cline"

    def named(self, own: str) -> str:
        return f"17723556{own[:5]}_{own[5:10]}"

    def begin(self, own: str) -> ClineSession:
        return ClineSession(self.named(own))

    def say(self, session: ClineSession, text: str) -> None:
        if self.chance.random() < 0.5:
            session.user(text)
        else:
            call = Call("run_commands", {"commands": [text]}, f"call_{len(session.messages)}")
            session.answer(text, call).ran(call, text, self.chance.choice((0, 0, 1)))

    def write(self, session: ClineSession) -> None:
        self.write_file(session.path, session.document())
        if self.chance.random() < 0.2:
            (self.root / session.manifest_path).write_bytes(session.manifest(title=self.chance.choice(WORDS)))

    def delete(self, session: ClineSession) -> None:
        shutil.rmtree((self.root / session.path).parent)


class Panels(Rewriter):
    """Roo Code, whose panel is Cline's and Kilo Code's."""

    parser = "roo"

    def named(self, own: str) -> str:
        return f"1772355{own[:6]}"

    def begin(self, own: str) -> ClineTask:
        return ClineTask(self.named(own))

    def fork(self, session: ClineTask, own: str) -> ClineTask:
        return self.begin(own)

    def can_take_back(self, session: ClineTask) -> bool:
        return len(session.rows) > 3

    def take_back(self, session: ClineTask) -> None:
        session.rows.pop()

    def say(self, session: ClineTask, text: str) -> None:
        what = self.chance.random()
        if what < 0.4 or not session.rows:
            session.user(text)
        elif what < 0.6:
            session.says("text", text)
        else:
            session.asks("command", text).says("command_output", text)

    def write(self, session: ClineTask) -> None:
        self.write_file(session.path, session.document())

    def delete(self, session: ClineTask) -> None:
        shutil.rmtree((self.root / session.path).parent)


class Threads(Rewriter):
    """Amp."""

    parser = "amp"

    def named(self, own: str) -> str:
        return f"T-a3b00000-0000-4000-8000-{own}"

    def begin(self, own: str) -> AmpThread:
        return AmpThread(id=self.named(own))

    def fork(self, session: AmpThread, own: str) -> AmpThread:
        return session.fork(id=self.named(own))

    def can_take_back(self, session: AmpThread) -> bool:
        return len(session.thread["messages"]) > 2

    def take_back(self, session: AmpThread) -> None:
        session.thread["messages"].pop()

    def say(self, session: AmpThread, text: str) -> None:
        call = Call("Bash", {"cmd": text}, f"call_{session.thread['nextMessageId']}")
        if self.chance.random() < 0.5:
            session.user(text)
        else:
            session.answer(text, (call,)).result(call, {"output": text, "exitCode": self.chance.choice((0, 1))})

    def write(self, session: AmpThread) -> None:
        self.write_file(session.file_name, session.bytes())

    def delete(self, session: AmpThread) -> None:
        (self.root / session.file_name).unlink()


class Logs(Rewriter):
    """Gemini CLI: a log that is read whole each time; resumed, and rewound."""

    parser = "gemini"

    def named(self, own: str) -> str:
        return f"5ea10000-0000-4000-8000-{own}"

    def begin(self, own: str) -> GeminiSession:
        return GeminiSession(id=self.named(own))

    def fork(self, session: GeminiSession, own: str) -> GeminiSession:
        return self.begin(own)

    def can_take_back(self, session: GeminiSession) -> bool:
        return len(session.lines()) > 6

    def take_back(self, session: GeminiSession) -> None:
        session.rewind(session.last)

    def say(self, session: GeminiSession, text: str) -> None:
        what = self.chance.random()
        call = Call("run_shell_command", {"command": text}, f"call_{len(session.lines())}")
        if what < 0.4:
            session.user(text)
        elif what < 0.95:
            session.answer(text, [(call, text)])
        else:
            session.resume()

    def write(self, session: GeminiSession) -> None:
        self.write_file(f"birds/chats/session-{session.id}.jsonl", session.bytes())

    def delete(self, session: GeminiSession) -> None:
        (self.root / f"birds/chats/session-{session.id}.jsonl").unlink()


class Chats(Rewriter):
    """Aider: all sessions are in one file, each behind the one before it."""

    parser = "aider"

    def __init__(self, root: Path, chance: random.Random, name: str) -> None:
        super().__init__(root, chance, name)
        self._chat, self._written = AiderChat(), 0

    def named(self, own: str) -> str:
        return own

    def begin(self, own: str) -> str:
        count = len(self._chat.bytes())
        self._chat.starts(
            f"2026-03-{1 + count // 86_400:02} {count // 3600 % 24:02}:{count // 60 % 60:02}:{count % 60:02}"
        )
        return own

    def fork(self, session: str, own: str) -> str:
        return self.begin(own)

    def can_take_back(self, session: str) -> bool:
        return False

    def say(self, session: str, text: str) -> None:
        what = self.chance.random()
        if what < 0.4:
            self._chat.user(text)
        elif what < 0.8:
            self._chat.answer(text)
        else:
            self._chat.edits(f"{text[:9]}.py")

    def write(self, session: str) -> None:
        data = self._chat.bytes()[self._written :]
        cut = self.chance.randrange(len(data)) if self.chance.random() < 0.3 else 0
        for piece in (data[:cut], data[cut:]):
            with open(self._path, "ab") as file:
                file.write(piece)
        self._written += len(data)

    def delete(self, session: str) -> None:
        """It stays in the file."""

    def clear(self) -> None:
        super().clear()
        self._path.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return self.root / f"{self.name}.chat.history.md"


class Trees(Rewriter):
    """OpenCode before 1.2: files of messages and of parts."""

    parser = "opencode"

    def __init__(self, root: Path, chance: random.Random, name: str) -> None:
        super().__init__(root, chance, name)
        self._written: dict[str, dict[Path, bytes]] = {}

    def named(self, own: str) -> str:
        return f"ses_{own}"

    def begin(self, own: str) -> OpenCodeSession:
        return OpenCodeSession(id=self.named(own))

    def say(self, session: OpenCodeSession, text: str) -> None:
        if self.chance.random() < 0.5:
            session.user(text)
        else:
            session.answer(text, tool_part("bash", {"command": text}, text * 3, f"call_{len(session.messages)}"))

    def write(self, session: OpenCodeSession) -> None:
        before = self._written.setdefault(session.id, {})
        now = {self.root / member.path: member.data for member in session.members()}
        for path in [*before.keys() - now.keys()]:
            path.unlink()
        for path, data in now.items():
            if before.get(path) != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        self._written[session.id] = now

    def delete(self, session: OpenCodeSession) -> None:
        for path in self._written.pop(session.id, {}):
            path.unlink()


class Tables(Rewriter):
    """An agent's database: everything is committed at once, mostly into a WAL, and now and then the agent ends."""

    file: str
    schema: str
    owned: tuple[str, ...]  # the columns with a session's id
    takes_back = False  # a version is told by times, which go on here only when something is said

    def __init__(self, root: Path, chance: random.Random, name: str) -> None:
        super().__init__(root, chance, name)
        self._path = root / self.file.format(name)
        self._database: sqlite3.Connection | None = None

    def take_back(self, session: Any) -> None:
        if self.takes_back:
            super().take_back(session)
        else:
            self.say(session, "not taken back")

    def write(self, session: Any) -> None:
        self.run(session.statements())

    def delete(self, session: Any) -> None:
        self.run(self.drop(session))

    def clear(self) -> None:
        super().clear()
        self.end()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def run(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """In one transaction."""
        if self._database is None:
            is_new = not self._path.exists()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._path, isolation_level=None, timeout=60)
            self._database.execute("PRAGMA journal_mode=wal")
            if is_new:
                self._database.executescript(f"BEGIN; {self.schema} COMMIT;")
        self._database.execute("BEGIN IMMEDIATE")
        for sql, values in statements:
            self._database.execute(sql, values)
        self._database.execute("COMMIT")
        if self.chance.random() < 0.05:
            self.end()

    def end(self) -> None:
        """Close the database, as an agent does that ends."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def drop(self, session: Any) -> list[tuple[str, Sequence[Any]]]:
        """What takes a session out."""
        return [(f"DELETE FROM {name.partition('.')[0]} WHERE {name} = ?", (session.id,)) for name in self.owned]


class Databases(Tables):
    """OpenCode since 1.2."""

    parser, file, schema, takes_back = "opencode", "opencode-{}.db", SCHEMA + EVENTS, True
    owned = ("part.session_id", "message.session_id", "session.id", "event_sequence.aggregate_id")
    named, begin, say = Trees.named, Trees.begin, Trees.say
    _count = 0

    def write(self, session: OpenCodeSession) -> None:
        self._count += 1
        number = ("REPLACE INTO event_sequence VALUES(?, ?, '')", (session.id, self._count))
        self.run([*self.drop(session), *session.statements(), number])


class KiloTables(Databases):
    """Kilo Code since 6, with OpenCode's tables."""

    parser, file = "kilo", "kilo-{}.db"


class CursorDatabases(Rewriter):
    """Cursor: a database for each session, from which nothing is ever taken out."""

    parser = "cursor"

    def named(self, own: str) -> str:
        return f"c0050000-0000-4000-8000-{own}"

    def begin(self, own: str) -> CursorSession:
        return CursorSession(self.named(own), has_times=self.chance.random() < 0.5)

    def fork(self, session: CursorSession, own: str) -> CursorSession:
        return self.begin(own)

    def can_take_back(self, session: CursorSession) -> bool:
        return False

    def say(self, session: CursorSession, text: str) -> None:
        call = Call("Shell", {"command": text}, f"call_{len(session.messages)}")
        if not session.turns or self.chance.random() < 0.5:
            session.user(text)
        elif self.chance.random() < 0.1:
            session.compact(text)
        else:
            session.answer(text, call).result(call, text, self.chance.choice((0, 0, 1)))

    def write(self, session: CursorSession) -> None:
        database = write_chat(self.root, session)
        if self.chance.random() < 0.2:
            (database.parent / "meta.json").write_bytes(beside(session))

    def delete(self, session: CursorSession) -> None:
        shutil.rmtree(session.database(self.root).parent)


class GooseTables(Tables):
    """Goose."""

    parser, file, schema, takes_back = "goose", "sessions.db", GOOSE_SCHEMA, True
    owned = ("messages.session_id", "sessions.id")

    def named(self, own: str) -> str:
        return f"20260301_{int(own, 16)}"

    def begin(self, own: str) -> GooseSession:
        return GooseSession(self.named(own))

    def say(self, session: GooseSession, text: str) -> None:
        call = Call("shell", {"command": text}, f"call_{len(session.messages)}")
        if not session.messages or self.chance.random() < 0.5:
            session.user(text)
        elif self.chance.random() < 0.1:
            session.compact(text)
        else:
            session.calls(call).result(call, text, self.chance.choice((0, 0, 1)))


class CrushTables(Tables):
    """Crush."""

    parser, file, schema = "crush", "crush.db", CRUSH_SCHEMA
    owned = ("messages.session_id", "sessions.id")

    def named(self, own: str) -> str:
        return f"c1a50000-0000-4000-8000-{own}"

    def begin(self, own: str) -> CrushSession:
        return CrushSession(self.named(own))

    def fork(self, session: CrushSession, own: str) -> CrushSession:
        return self.begin(own)  # there are none

    def say(self, session: CrushSession, text: str) -> None:
        call = Call("bash", {"command": text}, f"call_{len(session.messages)}")
        if self.chance.random() < 0.5:
            session.user(text)
        else:
            session.answer(text, call).result(call, text, error=self.chance.random() < 0.2)


class ZedTables(Tables):
    """Zed."""

    parser, file, schema = "zed", "threads.db", ZED_SCHEMA
    owned = ("threads.id",)

    def named(self, own: str) -> str:
        return f"2ed00000-0000-4000-8000-{own}"

    def begin(self, own: str) -> ZedThread:
        return ZedThread(self.named(own))

    def fork(self, session: ZedThread, own: str) -> ZedThread:
        return self.begin(own)

    def say(self, session: ZedThread, text: str) -> None:
        call = Call("terminal", {"command": text}, f"call_{len(session.messages)}")
        session.user(text) if self.chance.random() < 0.5 else session.answer(text, (call, text))


class OpenClawTables(Tables):
    """OpenClaw: pi's lines, of which the person goes back to earlier ones."""

    parser, file, schema = "openclaw", "main/agent/openclaw-agent.sqlite", OPENCLAW_SCHEMA
    owned = ("transcript_events.session_id", "session_windows.session_id", "session_nodes.current_session_id")

    def named(self, own: str) -> str:
        return f"019e0000-0000-7000-8000-{own}"

    def begin(self, own: str) -> PiSession:
        return PiSession(id=self.named(own))

    def fork(self, session: PiSession, own: str) -> PiSession:
        return session.fork(id=self.named(own))

    def can_take_back(self, session: PiSession) -> bool:
        return len(session.lines()) > 4

    def take_back(self, session: PiSession) -> None:
        entries = [json.loads(line)["id"] for line in session.lines()[1:]]
        session.back_to(self.chance.choice(entries)).user("and once more")

    def say(self, session: PiSession, text: str) -> None:
        what = self.chance.random()
        if what < 0.4:
            session.user(text)
        elif what < 0.9:
            session.tool("exec", {"command": text}, text, error=self.chance.random() < 0.2)
        else:
            session.name(text[:40])

    def write(self, session: PiSession) -> None:
        add = (
            "REPLACE INTO transcript_events(session_id, seq, event_json, created_at, event_zstd) VALUES(?, ?, ?, 1, ?)"
        )
        rows = [(add, (session.id, seq, *stored(line))) for seq, line in enumerate(session.lines())]
        window = "REPLACE INTO session_windows VALUES(?, ?, 1, 1)"
        node = (
            "REPLACE INTO session_nodes(session_key, current_session_id, entry_json, updated_at) VALUES(?, ?, '{}', 1)"
        )
        key = f"agent:main:{session.id}"
        self.run([*rows, (window, (session.id, key)), (node, (key, session.id))])


def rewriters(root: Path, chance: random.Random, name: str) -> list[Rewriter]:
    """One of each of the shapes but lines, for a soak; their roots are made."""
    return [make(kind, root, chance, name) for kind in (Documents, Chats, Trees, Databases)]


def make(kind: type[Rewriter], root: Path, chance: random.Random, name: str) -> Rewriter:
    """One that writes below the root of its agent, which is made."""
    os.makedirs(root / kind.parser, exist_ok=True)
    return kind(root / kind.parser, chance, name)


KINDS: tuple[type[Rewriter], ...] = (
    Documents,
    Panels,
    Threads,
    Logs,
    Chats,
    Trees,
    Databases,
    KiloTables,
    CursorDatabases,
    GooseTables,
    CrushTables,
    ZedTables,
    OpenClawTables,
)
ROOTS = ("cline", "aider", "opencode")  # of those that a soak has
