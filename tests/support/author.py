"""Somebody who writes pi sessions as agents do, and what the index must then say, by a plain reading of the files."""

import os
import random
from collections.abc import Collection
from pathlib import Path

from tests.support import reference
from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

WORDS = "quince medlar salsify skirret scorzonera parsnip rutabaga celeriac kohlrabi ulluco".split()


class Author:
    """Writes sessions as agents do: a line at a time, now and then torn, sometimes a fork of another one."""

    def __init__(self, daemon: Daemon, chance: random.Random, name: str = "session") -> None:
        self._name = name  # ids are for ever: whoever writes to an index after another one has a name of their own
        self._daemon = daemon
        self._chance = chance
        self._sessions: list[tuple[str, PiSession]] = []
        self._torn: dict[str, bytes] = {}
        for _ in range(6):
            self.begin()

    def begin(self) -> None:
        """A new session, sometimes with the history of another one."""
        number = len(self._sessions)
        session = PiSession(
            id=f"{self._name}-{number:04}", start=f"2026-01-01T{number // 60:02}:{number % 60:02}:00.000Z"
        )
        if number and self._chance.random() < 0.3:
            session = self._chance.choice(self._sessions)[1].fork(id=f"{self._name}-{number:04}")
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


def as_in_the_files(daemon: Daemon, gone: Collection[str] = ()) -> None:
    """Sessions, messages, counts and words are those of a plain reading of the files."""
    expected = reference.sessions(Path(os.fsdecode(path)) for path in daemon.root.rglob("*.jsonl"))
    listed = {session["sessionId"]: session for session in daemon.sessions()}
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
