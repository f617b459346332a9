"""Ten agents of three kinds at work at once, which append to files of their own, and four that don't: they write, fork, compact, name,
archive, pack and delete their sessions."""

import os
import random
from pathlib import Path
from typing import Any

from backports import zstd

from tests.support.author import WORDS
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.daemon import Daemon
from tests.support.rewriting import ROOTS as ROOTS_OF_REWRITERS
from tests.support.rewriting import Rewriter, rewriters
from tests.support.sessions import PiSession

Session = PiSession | ClaudeSession | CodexSession
KINDS: tuple[type[Session], ...] = (PiSession, ClaudeSession, CodexSession)
AGENTS = 10
SESSIONS = 4  # of an agent; the oldest is deleted then
ROOTS = {PiSession: "pi", ClaudeSession: "claude", CodexSession: "codex"}


def sources(root: Path) -> list[dict[str, Any]]:
    """Roots of all kinds, for the configuration; they are made."""
    names = [*ROOTS.values(), *ROOTS_OF_REWRITERS]
    for name in names:
        (root / name).mkdir(exist_ok=True)
    return [{"parser": name, "path": str(root / name)} for name in names]


class Agent:
    """One that is running: it goes on in its newest session, mostly."""

    def __init__(self, daemon: Daemon, chance: random.Random, name: str, kind: type[Session]) -> None:
        self._daemon, self._chance, self._name, self._kind = daemon, chance, name, kind
        self.parser = ROOTS[kind]
        self._files: list[tuple[Path, Session]] = []
        self._count = 0

    @property
    def sessions(self) -> list[Session]:
        """Those that there are."""
        return [session for _, session in self._files]

    def go_on(self) -> None:
        """Do one thing."""
        if not self._files or self._chance.random() < 0.05:
            self._begin()
        elif len(self._files) > SESSIONS or self._chance.random() < 0.01:
            self._files.pop(0)[0].unlink()
        elif self._chance.random() < 0.03:
            self._archive()
        else:
            self._say()

    def clear(self) -> None:
        """Delete all sessions."""
        for path, _ in self._files:
            path.unlink()
        self._files.clear()

    def _begin(self) -> None:
        self._count += 1
        number = f"{self._chance.getrandbits(64):016x}"
        own = (
            f"{self._name}-{self._count}"
            if self._kind is PiSession
            else f"{number[:8]}-{number[8:12]}-7000-8000-{number:>012.12}"
        )
        session = self._fork(own) if self._files and self._chance.random() < 0.3 else self._kind(id=own)
        path = self._daemon.root / ROOTS[self._kind] / f"{self._name}-work" / session.file_name
        self._files.append((path, session))
        self._daemon.write(os.fspath(path), session.bytes())

    def _fork(self, own: str) -> Session:
        parent = self._chance.choice(self._files)[1]
        return parent.branch_off(own) if isinstance(parent, ClaudeSession) else parent.fork(id=own)

    def _archive(self) -> None:
        """Move a file elsewhere in its root; a rollout of Codex is packed as well, as Codex does."""
        path, session = self._files.pop(self._chance.randrange(len(self._files)))
        archive = self._daemon.root / ROOTS[self._kind] / "archive"
        archive.mkdir(exist_ok=True)
        if self._kind is CodexSession and path.suffix != ".zst" and self._chance.random() < 0.5:
            (archive / f"{path.name}.zst").write_bytes(zstd.compress(session.bytes()))
            path.unlink()
            path = path.with_name(f"{path.name}.zst")
        else:
            path.rename(archive / path.name)
        self._files.insert(0, (archive / path.name, session))

    def _say(self) -> None:
        path, session = self._files[-1]
        if path.suffix == ".zst":
            return
        before, text = len(session.bytes()), " ".join(self._chance.choices(WORDS, k=self._chance.choice((3, 20, 200))))
        what = self._chance.random()
        if what < 0.4:
            session.user(text)
        elif what < 0.7:
            session.assistant(text)
        elif what < 0.9:
            self._call(session, text)
        elif what < 0.95:
            session.compacted(text) if isinstance(session, CodexSession) else session.compaction(text)
        elif isinstance(session, PiSession):
            session.name(text[:40])
        elif isinstance(session, ClaudeSession):
            session.title(text[:40])
        data = session.bytes()[before:]
        cut = self._chance.randrange(len(data) + 1) if self._chance.random() < 0.2 else 0
        for piece in (data[:cut], data[cut:]):
            if piece:
                self._daemon.append(os.fspath(path), piece)

    def _call(self, session: Session, text: str) -> None:
        if isinstance(session, CodexSession):
            session.tool("shell", {"command": text}, text * 3)
        else:
            session.tool("bash", {"command": text}, text * 3, error=self._chance.random() < 0.2)


class Crew:
    """All of them."""

    def __init__(self, daemon: Daemon, chance: random.Random, name: str) -> None:
        self._chance = chance
        self._agents: list[Agent | Rewriter] = [
            Agent(daemon, chance, f"{name}-{n}", KINDS[n % len(KINDS)]) for n in range(AGENTS)
        ]
        self._agents += rewriters(daemon.root, chance, name)

    def go_on(self, times: int) -> None:
        """Each time one of them does one thing."""
        for _ in range(times):
            self._chance.choice(self._agents).go_on()

    def parsers(self) -> set[str]:
        """Of whom there are sessions: one that was deleted again may have been read by nobody."""
        return {agent.parser for agent in self._agents if agent.sessions}

    def clear(self) -> None:
        """No session is left."""
        for agent in self._agents:
            agent.clear()
