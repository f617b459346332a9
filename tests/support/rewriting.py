"""Agents that write their sessions anew, or keep them otherwise than in lines: Cline's documents, OpenCode's trees of files and its
database, which is written to while it is read. They begin, fork, go on, take back and delete."""

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.author import WORDS
from tests.support.cline import ClineSession
from tests.support.opencode import EVENTS, SCHEMA, OpenCodeSession, tool_part
from tests.support.sessions import Call

SESSIONS = 4  # the oldest is deleted then


class Rewriter:
    """What they have in common: each time one thing is done, mostly in the newest session."""

    def __init__(self, root: Path, chance: random.Random, name: str) -> None:
        self.root, self.chance, self.name = root, chance, name
        self.sessions: list[Any] = []

    def go_on(self) -> None:
        """Do one thing."""
        if not self.sessions or self.chance.random() < 0.05:
            own = f"{self.chance.getrandbits(48):012x}"
            forks = bool(self.sessions) and self.chance.random() < 0.3
            self.sessions.append(self.chance.choice(self.sessions).fork(self.named(own)) if forks else self.begin(own))
        elif len(self.sessions) > SESSIONS or self.chance.random() < 0.02:
            self.delete(self.sessions.pop(0))
            return
        session = self.sessions[-1]
        if len(session.messages) > 2 and self.chance.random() < 0.1:
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

    def say(self, session: Any, text: str) -> None:
        """Somebody says something more."""
        raise NotImplementedError

    def take_back(self, session: Any) -> None:
        """The last message is no more."""
        session.messages.pop()

    def write(self, session: Any) -> None:
        """As it is now."""
        raise NotImplementedError

    def delete(self, session: Any) -> None:
        """It is no more."""
        raise NotImplementedError


class Documents(Rewriter):
    """Cline: a file is written in place, by halves or by a rename."""

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
        path, data = self.root / session.path, session.document()
        path.parent.mkdir(parents=True, exist_ok=True)
        how = self.chance.random()
        if how < 0.3:
            path.write_bytes(data[: self.chance.randrange(len(data))])
        if how < 0.6:
            path.write_bytes(data)
        else:
            other = path.with_suffix(".tmp")
            other.write_bytes(data)
            other.rename(path)
        if self.chance.random() < 0.2:
            (self.root / session.manifest_path).write_bytes(session.manifest(title=self.chance.choice(WORDS)))

    def delete(self, session: ClineSession) -> None:
        shutil.rmtree((self.root / session.path).parent)


class Trees(Rewriter):
    """OpenCode before 1.2: files of messages and of parts."""

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


class Databases(Trees):
    """OpenCode since 1.2: everything is committed at once, mostly into a WAL, and now and then OpenCode ends."""

    def __init__(self, root: Path, chance: random.Random, name: str) -> None:
        super().__init__(root, chance, name)
        self._path = root / f"opencode-{name}.db"
        self._database: sqlite3.Connection | None = None
        self._count = 0

    def write(self, session: OpenCodeSession) -> None:
        self._count += 1
        self._run([*self._drop(session), *session.statements(), *self._number(session)])

    def delete(self, session: OpenCodeSession) -> None:
        self._run(self._drop(session))

    def clear(self) -> None:
        super().clear()
        self._close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _run(self, statements: list[tuple[str, tuple[Any, ...]]]) -> None:
        if self._database is None:
            is_new = not self._path.exists()
            self._database = sqlite3.connect(self._path, isolation_level=None, timeout=60)
            self._database.execute("PRAGMA journal_mode=wal")
            if is_new:
                self._database.executescript(SCHEMA + EVENTS)
        self._database.execute("BEGIN IMMEDIATE")
        for sql, values in statements:
            self._database.execute(sql, values)
        self._database.execute("COMMIT")
        if self.chance.random() < 0.05:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _drop(self, session: OpenCodeSession) -> list[tuple[str, tuple[Any, ...]]]:
        columns = {"part": "session_id", "message": "session_id", "session": "id", "event_sequence": "aggregate_id"}
        return [(f"DELETE FROM {table} WHERE {column} = ?", (session.id,)) for table, column in columns.items()]

    def _number(self, session: OpenCodeSession) -> Iterator[tuple[str, tuple[Any, ...]]]:
        yield "REPLACE INTO event_sequence VALUES(?, ?, '')", (session.id, self._count)


ROOTS: dict[type[Rewriter], str] = {Documents: "cline", Trees: "opencode", Databases: "opencode"}


def rewriters(root: Path, chance: random.Random, name: str) -> list[Rewriter]:
    """One of each; their roots are made."""
    made = []
    for kind, parser in ROOTS.items():
        os.makedirs(root / parser, exist_ok=True)
        made.append(kind(root / parser, chance, name))
    return made
