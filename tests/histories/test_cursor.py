"""Cursor's sessions, which may be in two files, while they are written: each is in the index once, whatever comes first."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.sources.cursor import Cursor
from tests.support.cursor import CursorSession, beside, trust, write_chat, write_text, write_transcript
from tests.support.history import same
from tests.support.letters import Desk
from tests.support.sessions import Call

LS = Call("Shell", {"command": "ls"})
SESSIONS = 3  # the last one is the first one's subagent


class Life:
    """Sessions as Cursor writes them, and an index that looks at them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.home = desk.base / "cursor"
        ids = (f"c0050000-0000-4000-8000-00000000000{digit}" for digit in range(SESSIONS))
        self.sessions = [CursorSession(id_).user(f"prompt {id_[-1]}") for id_ in ids]
        self.told: list[list[str]] = [[f"prompt {number}"] for number in range(SESSIONS)]
        self.databases: dict[int, list[str]] = {}  # what each says
        self.transcripts: dict[int, list[str]] = {}
        self.older: dict[int, list[str]] = {}

    def say(self, number: int) -> None:
        """Something more."""
        session, told = self.sessions[number], self.told[number]
        session.user(f"more {len(told)}").answer("yes", LS).result(LS, "wren").ended()
        told += [f"more {len(told)}", "yes"]

    def sum_up(self, number: int) -> None:
        """What the model is shown from now on; transcripts don't have it."""
        self.sessions[number].compact(f"summary {len(self.told[number])}")
        self.told[number].append(f"summary {len(self.told[number])}")

    def commit(self, number: int) -> None:
        """Its database is as it is now."""
        write_chat(self.home, self.sessions[number])
        self.databases[number] = [*self.told[number]]

    def write(self, number: int) -> None:
        """And so is its transcript."""
        file = write_transcript(self.home, self.sessions[number], self._parent(number))
        self.desk.now += 1
        os.utime(file, (self.desk.now, self.desk.now))
        self.transcripts[number] = [text for text in self.told[number] if not text.startswith("summary")]

    def write_text(self, number: int) -> None:
        """It is as older versions wrote it; there are none of subagents."""
        if number != SESSIONS - 1:
            file = write_text(self.home, self.sessions[number])
            self.desk.now += 1
            os.utime(file, (self.desk.now, self.desk.now))
            self.older[number] = [text for text in self.told[number] if not text.startswith("summary")]

    def write_half(self, number: int) -> None:
        """It is looked at before all of it is there."""
        if number in self.transcripts:
            file = self.sessions[number].transcript_in(self.home, self._parent(number))
            file.write_bytes(file.read_bytes()[:-9])
            self.desk.look()
            self.write(number)

    def trust(self, number: int) -> None:
        """Where its project is becomes known."""
        trust(self.home, self.sessions[number])

    def name(self, number: int) -> None:
        """It gets a title."""
        if number in self.databases:
            (self.sessions[number].database(self.home).parent / "meta.json").write_bytes(
                beside(self.sessions[number], title="Wrens")
            )

    def look(self, _: int) -> None:
        """The daemon looks."""
        self.desk.look(quiet=False)

    def restart(self, _: int) -> None:
        """It is killed."""
        self.desk.restart()

    def texts(self, number: int) -> list[str]:
        """What the index has of a session, without its calls."""
        said = self.desk.texts(f"cursor:{self.sessions[number].id}")
        return [text for text in said if not text.startswith("tool: ")]

    def _parent(self, number: int) -> str:
        return self.sessions[0].id if number == SESSIONS - 1 else ""


STEPS = (
    Life.say,
    Life.sum_up,
    Life.commit,
    Life.write,
    Life.write_half,
    Life.trust,
    Life.name,
    Life.look,
    Life.restart,
)


@contextmanager
def living() -> Iterator[Life]:
    desk = Desk(Cursor())
    try:
        yield Life(desk)
    finally:
        desk.close()


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, SESSIONS - 1)), max_size=30))
def test_any_history_gives_the_index_of_a_rebuild(steps: list[tuple[object, int]]) -> None:
    """Each session once, from its database if it has one, as if all of it had been there from the start."""
    with living() as life:
        for step, number in steps:
            step(life, number)  # type: ignore[operator]  # one of STEPS
        life.desk.look()
        life.desk.look()
        for number, told in {**life.older, **life.transcripts, **life.databases}.items():
            assert life.texts(number) == told
        rebuilt = life.desk.make_empty_index()
        life.desk.look(rebuilt)
        same(life.desk.dump(), life.desk.dump(rebuilt))
