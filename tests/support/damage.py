"""An index that is damaged in many ways, each by a seed: which bytes of which page of which table, and when."""

import os
import random
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
from anyio import to_thread

from sesamectl.errors import RpcError
from sesamed import daemon, paths
from sesamed.config import Config, ConfiguredRoot
from sesamed.manager_report import Notifier
from sesamed.server.listen import bind
from sesamed.standstill import Standstill
from sesamed.store import checksums
from tests.support.client import Client
from tests.support.sessions import Call, PiSession

PAGE = 16384
SESSIONS, GONE = 40, 8  # the last ones are gone
WORDS = ("quince", "medlar", "deep", "output", "common", "salsify", "branch", "src")
When = Literal["stopped", "killed", "running", "in its log"]
WHENS: tuple[When, ...] = ("stopped", "stopped", "killed", "running", "in its log")


class Damage(NamedTuple):
    """What is done to the index."""

    when: When
    table: str
    page: int
    how: str


class Answers(NamedTuple):
    """All that is asked."""

    counts: Any
    sessions: dict[str, Any]
    texts: dict[str, list[str]]
    found: dict[str, list[str]]

    def without(self, sessions: set[str]) -> "Answers":
        """What the files that are still there make the index say."""
        return Answers(
            None,
            {name: said for name, said in self.sessions.items() if name not in sessions},
            {name: said for name, said in self.texts.items() if name not in sessions},
            {word: sorted(set(found) - sessions) for word, found in self.found.items()},
        )


class Collection:
    """Sessions, and an index of them as a daemon leaves it that was stopped, or killed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.root = place / "sessions"
        self.root.mkdir()
        self.gone = {f"s{number}" for number in range(SESSIONS - GONE, SESSIONS)}
        for number in range(SESSIONS):
            self._write(number)

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        session = PiSession(
            id=f"s{number}", cwd=f"/home/me/project{number % 3}", start=f"2026-03-{number % 28 + 1:02}T09:00:00.000Z"
        )
        session.user(f"quince {number} common").name(f"About {number} medlars")
        for turn in range(12):
            long = " ".join(f"deep{chance.randrange(4000)}" for _ in range(chance.choice((5, 60, 3000))))
            call = Call("bash", {"command": f"make src/file{number}_{turn}.py"}, f"c{number}_{turn}")
            session.assistant(f"medlar {turn} {long}", [call]).result(call, f"output {turn} of {number}")
        (self.root / f"s{number}.jsonl").write_bytes(session.bytes())

    def remove_gone(self) -> None:
        """These files are deleted by their agent."""
        for name in self.gone:
            (self.root / f"{name}.jsonl").unlink()

    @property
    def database(self) -> Path:
        """Where the index is."""
        return self.place / "data/index.sqlite"

    def keep(self, name: str) -> None:
        """Copy the index as it is on disk now."""
        shutil.copytree(
            self.place / "data", self.place / name, ignore=shutil.ignore_patterns("*-shm", "*.lock", "*.sock")
        )

    def restore(self, name: str) -> None:
        """Have the index again that was kept."""
        shutil.rmtree(self.place / "data", ignore_errors=True)
        shutil.copytree(self.place / name, self.place / "data")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[Callable[[Client], Any]], Any]]:
        """A daemon in this loop; gives what asks it in a thread."""
        (self.place / "data").mkdir(mode=0o700, exist_ok=True)
        here = str(self.place)
        place = paths.Paths(config_dir=here, data_dir=f"{here}/data", runtime_dir=here, socket=f"{here}/sock")
        roots = (ConfiguredRoot(parser="pi", path=str(self.root)),)
        setting = daemon.Setting(place, Config(sources=roots, watch="off"), {"HOME": str(self.place)})
        index = await to_thread.run_sync(daemon._open, place.database, setting.config.secrets)
        made = daemon._Daemon(setting, index, Notifier(None), Standstill())
        listener = bind(place.socket)

        async def ask(question: Callable[[Client], Any]) -> Any:
            def run() -> Any:
                with Client(place.socket, 60.0) as client:
                    return question(client)

            return await to_thread.run_sync(run)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.main, listener)
            try:
                yield ask
            finally:
                made._stopping.set()
        await to_thread.run_sync(index.close)


def ask_everything(client: Client) -> Answers:
    """Counts, sessions, their messages, and what searches find."""
    sessions = {entry["sessionId"]: entry for entry in client.call("list_sessions", limit=500)["sessions"]}
    texts = {
        name: [message["text"] for message in client.call("list_messages", sessionId=name, limit=200)["messages"]]
        for name in sessions
    }
    found = {
        word: sorted(hit["sessionId"] for hit in client.call("search", query=word, limit=100)["results"])
        for word in WORDS
    }
    for entry in sessions.values():
        del entry["revision"]
    return Answers(client.call("status")["counts"], sessions, texts, found)


def pages_by_table(database: Path) -> dict[str, list[int]]:
    """Which pages each table and index has."""
    connection = checksums.connect(str(database))
    try:
        found = defaultdict(list)
        for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
            found[name].append(page)
        return dict(found)
    finally:
        connection.close()


def choose(chance: random.Random, tables: dict[str, list[int]]) -> Damage:
    """A kind of damage to a page; each table is as likely as any other, and page 1 is one of its own."""
    when = chance.choice(WHENS)
    table = chance.choice(sorted(tables))
    page = 1 if chance.random() < 0.1 else chance.choice(tables[table])
    return Damage(when, table, page, chance.choice(("bit", "bit", "byte", "bytes", "page", "zeros")))


def spoil(path: Path, damage: Damage, chance: random.Random) -> None:
    """Do it to the file."""
    size = os.path.getsize(path)
    if not size:
        return
    start = (damage.page - 1) * PAGE if damage.when != "in its log" else chance.randrange(size)
    start = min(start, size - 1)
    length = min({"bit": 1, "byte": 1, "bytes": 16}.get(damage.how, PAGE), size - start)
    if damage.how in {"bit", "byte", "bytes"} and damage.when != "in its log":
        start += chance.randrange(
            100 if damage.page == 1 and chance.random() < 0.5 else min(PAGE, size - start) - length + 1
        )
    with open(path, "r+b") as file:
        file.seek(start)
        before = file.read(length)
        if damage.how == "bit":
            after = bytes([before[0] ^ 1 << chance.randrange(8)])
        elif damage.how == "zeros":
            after = bytes(length)
        else:
            after = chance.randbytes(length)
        file.seek(start)
        file.write(after)


def try_all(client: Client) -> Answers | str:
    """The answers, or why there are none."""
    try:
        return ask_everything(client)
    except RpcError as refusal:
        return f"{refusal.code}: {refusal}"
