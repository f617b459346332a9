"""kill -9 at any moment of indexing loses nothing and doubles nothing."""

import os
import random
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from sesamed.store.sqlite import rows
from tests.support import reference
from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

KILLS = int(os.environ.get("SESAME_KILLS", "100"))
WORDS = (
    "quince",
    "medlar",
    "salsify",
    "skirret",
    "scorzonera",
    "parsnip",
    "rutabaga",
    "celeriac",
    "kohlrabi",
    "ulluco",
)


class Author:
    """Writes sessions as agents do: a line at a time, now and then torn, sometimes a fork of another one."""

    def __init__(self, daemon: Daemon, chance: random.Random) -> None:
        self._daemon = daemon
        self._chance = chance
        self._sessions: list[tuple[str, PiSession]] = []
        self._torn: dict[str, bytes] = {}
        for _ in range(6):
            self.begin()

    def begin(self) -> None:
        """A new session, sometimes with the history of another one."""
        number = len(self._sessions)
        session = PiSession(id=f"session-{number:04}", start=f"2026-01-01T{number // 60:02}:{number % 60:02}:00.000Z")
        if number and self._chance.random() < 0.3:
            session = self._chance.choice(self._sessions)[1].fork(id=f"session-{number:04}")
        name = f"{number % 3}/{session.id}.jsonl"
        self._sessions.append((name, session))
        self._daemon.append(name, session.bytes())

    def go_on(self, times: int = 1) -> None:
        """Lines here and there."""
        for _ in range(times):
            self._go_on()

    def _go_on(self) -> None:
        """One to many lines more somewhere, the last of them perhaps in two pieces."""
        if self._chance.random() < 0.05:
            self.begin()
        name, session = self._chance.choice(self._sessions)
        before = len(session.lines())
        for _ in range(self._chance.choice((1, 1, 1, 2, 5, 60))):
            self._say(session)
        data = self._torn.pop(name, b"") + b"".join(line + b"\n" for line in session.lines()[before:])
        if self._chance.random() < 0.3:
            cut = self._chance.randrange(len(data))
            self._torn[name], data = data[cut:], data[:cut]
        self._daemon.append(name, data)

    def finish(self) -> None:
        """All lines are whole."""
        for name, data in self._torn.items():
            self._daemon.append(name, data)
        self._torn.clear()

    def _say(self, session: PiSession) -> None:
        text = (
            " ".join(self._chance.choices(WORDS, k=self._chance.choice((3, 20, 200))))
            + f" {session.id} {len(session.lines())}"
        )
        what = self._chance.random()
        if what < 0.4:
            session.user(text)
        elif what < 0.7:
            session.assistant(text)
        else:
            session.tool("bash", {"command": text}, text * 3, error=what > 0.9)


@pytest.fixture
def chance() -> random.Random:
    """Printed with a failure, so that it can be had again."""
    seed = int(os.environ.get("SESAME_SEED") or time.time_ns() % 1_000_000_000)
    print(f"SESAME_SEED={seed}")  # noqa: T201
    return random.Random(seed)


@pytest.mark.timeout(600)
def test_exactly_once(chance: random.Random) -> None:
    """At any kill point each record is in the index once: killed at random moments of indexing, while files grow, the index has in
    the end what a plain reading of the files has, each record once, and agrees with itself."""
    with Daemon() as daemon:
        author = Author(daemon, chance)
        while_it_takes = time_to_index(daemon, author)
        in_the_middle = 0
        for number in range(KILLS):
            if daemon.process is None:
                author.go_on(chance.choice((0, 5, 40)))
                daemon.start()
            if number % 10 == 3:
                daemon.client.send("index", full=True)
            for _ in range(chance.randrange(6)):
                time.sleep(chance.uniform(0, while_it_takes / 4))  # to die somewhere within what follows
                author.go_on(chance.choice((1, 5)))
            time.sleep(chance.uniform(0, chance.choice((while_it_takes / 8, while_it_takes))))
            daemon.kill()
            in_the_middle += unread(daemon) > 0
            if number % 25 == 24:
                daemon.check_index()
        author.finish()
        daemon.start().sync()
        as_in_the_files(daemon)
        daemon.check_index()
        print(f"killed in the middle: {in_the_middle} of {KILLS}")  # noqa: T201
        assert in_the_middle > KILLS / 10, "too few of the kills came while there was something to do"


def time_to_index(daemon: Daemon, author: Author) -> float:
    """How long a start with something to read takes, at least 30 ms; a slow machine is killed later."""
    daemon.stop()
    author.go_on(10)
    daemon.start()
    begun = time.monotonic()
    daemon.sync()
    return max(0.03, time.monotonic() - begun)


def unread(daemon: Daemon) -> int:
    """How many bytes of whole lines are not in the index of a killed daemon."""
    with daemon.opened() as connection:
        ((read,),) = rows(connection, "SELECT coalesce(sum(offset), 0) FROM files")
    return sum(path.read_bytes().rfind(b"\n") + 1 for path in daemon.root.rglob("*.jsonl")) - int(read)


def test_kills_in_a_rebuild(chance: random.Random) -> None:
    """Killed while the index is built anew, the old one or the new one is there, whole; gone sessions included."""
    with Daemon() as daemon:
        author = Author(daemon, chance)
        gone = daemon.write("gone.jsonl", PiSession(id="gone-1").user("a unique turnip").bytes())
        author.go_on(60)
        author.finish()
        daemon.sync()
        os.unlink(gone)
        daemon.sync()
        for _ in range(10):
            daemon.client.send("index", full=True)
            time.sleep(chance.uniform(0, 0.25))  # to die somewhere within
            daemon.kill()
            daemon.start()
            assert not list(daemon.data_dir.glob("*.new*"))
            assert daemon.found("turnip") == ["gone-1"]
        daemon.sync()
        as_in_the_files(daemon, gone=["gone-1"])
        daemon.check_index()


def as_in_the_files(daemon: Daemon, gone: Collection[str] = ()) -> None:
    """Sessions, messages, counts and words are those of a plain reading of the files."""
    expected = reference.sessions(Path(os.fsdecode(path)) for path in daemon.root.rglob("*.jsonl"))
    listed = {session["sessionId"]: session for session in daemon.call("list_sessions", limit=500)["sessions"]}
    assert listed.keys() - set(gone) == expected.keys()
    for session, items in expected.items():
        messages = [item for item in items if item.kind == "message"]
        assert daemon.texts(session) == [item.text for item in items], session
        assert listed[session]["messageCount"] == len(messages), session
    counts = daemon.call("status")["counts"]
    assert counts["messages"] == reference.distinct(expected.values(), "message") + len(gone)
    assert counts["toolCalls"] == reference.distinct(expected.values(), "tool_call")
    assert (counts["badLines"], counts["files"]) == (0, len(expected) + len(gone))
    words_as_in_the_files(daemon, expected)


def words_as_in_the_files(daemon: Daemon, expected: dict[str, list[reference.Item]]) -> None:
    """Each word stands in as many chunks as it does in the files: once for a message, once for a call, once for its output."""
    chunks = {
        (item.line, item.part, part): set(text.lower().split())
        for items in expected.values()
        for item in items
        for part, text in enumerate(item.text.split("\noutput:\n") if item.kind == "tool_call" else [item.text])
    }
    answer = daemon.call("search", query=" ".join(WORDS))
    for counted in answer["words"]:
        assert counted["chunks"] == sum(counted["word"] in words for words in chunks.values()), counted
