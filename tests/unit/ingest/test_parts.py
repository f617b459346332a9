"""Files of lines that hold several sessions: the last one is read again, the others are left alone."""

import json
from collections.abc import Iterator

import pytest

from sesamed.ingest import parts, tail
from sesamed.model import Message, Operation, digest
from tests.support.history import same
from tests.support.letters import Desk, with_sessions
from tests.support.whole_sources import Chronicles, State

FILE = "chronicles/a.chronicle"


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def line(key: int, text: str) -> bytes:
    return json.dumps({"key": str(key), "text": text}).encode() + b"\n"


def test_only_the_last_session_is_read_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a daemon that has just started; and what it said already is not written again."""
    data = b"# one\n" + line(1, "alpha") + b"# two\n" + line(2, "beta")
    desk.write(FILE, data)
    desk.look()
    before = desk.dump()["sessions"]["chronicles:a-0"]
    desk.restart()
    step, stepped = Chronicles.step, list[bytes]()

    def note(self: Chronicles, state: State, item: bytes) -> tuple[State, list[Operation]]:
        stepped.append(item)
        return step(self, state, item)

    monkeypatch.setattr(Chronicles, "step", note)
    desk.write(FILE, data + line(3, "gamma"))
    desk.look()
    assert stepped == [b"# two", line(2, "beta").strip(), line(3, "gamma").strip()]
    assert desk.texts("chronicles:a-1") == ["beta", "gamma"]
    assert desk.dump()["sessions"]["chronicles:a-0"] == before
    assert desk.look().updated == 0


def test_what_is_said_may_take_several_lines(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it grows it is one record; what the state still holds at the end counts."""
    held = list[str]()

    def gather(self: Chronicles, state: State, item: bytes) -> tuple[State, list[Operation]]:
        if item.startswith(b"#"):
            held.clear()
        held.append(item.decode())
        return (), []

    def end(self: Chronicles, state: State) -> list[Operation]:
        return [Message(key=digest(b"k"), role="user", text=" ".join(held))]

    monkeypatch.setattr(Chronicles, "step", gather)
    monkeypatch.setattr(Chronicles, "end", end, raising=False)
    for text in ("# one", "# one two", "# one two  three"):
        desk.write(
            FILE, b"\n".join(text.encode().split(b" ", 1)[0:1]) + b"\n" + text[6:].replace(" ", "\n").encode() + b"\n"
        )
        desk.look()
        (said,) = desk.texts("chronicles:a-0")
        assert said.split() == ["#", *text[6:].split()]


@pytest.mark.parametrize("budget", [16, 64, 200])
def test_a_file_may_take_several_commits(desk: Desk, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    """However much is read at once, the index is the same; what grows meanwhile, too."""
    data = b"\n".join(b"# %d\n" % number + line(number, "alpha " * number) for number in range(12))
    desk.write(FILE, data)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "PARTS_BYTES", budget)
        patch.setattr(tail, "BLOCK_BYTES", 16)
        desk.look()
        desk.write(FILE, data + line(90, "beta") + b"# more\n" + line(91, "gamma"))
        desk.look()
    fresh = desk.make_empty_index()
    desk.look(fresh)
    same(with_sessions(desk.dump()), with_sessions(desk.dump(fresh)))
    assert len(desk.dump()["sessions"]) == 13
    assert desk.texts("chronicles:a-11")[-1] == "beta"


def test_a_last_line_without_newline_is_read_however_many_commits_it_takes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried once, when all else is read."""
    monkeypatch.setattr(parts, "PARTS_BYTES", 16)
    monkeypatch.setattr(tail, "BLOCK_BYTES", 16)
    desk.write(FILE, b"# one\n" + line(1, "alpha") + b"# two\n" + line(2, "beta")[:-1])
    desk.look()
    assert desk.texts("chronicles:a-1") == ["beta"]


def test_a_session_that_is_too_large_is_read_in_part(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said, and those behind it are read."""
    monkeypatch.setattr(parts, "PARTS_BYTES", 64)
    monkeypatch.setattr(parts, "MAX_BYTES", 256)
    monkeypatch.setattr(tail, "BLOCK_BYTES", 16)
    large = b"# large\n" + b"".join(line(number, "alpha") for number in range(40))
    desk.write(FILE, b"# one\n" + line(90, "beta") + large)
    desk.look()
    read = len(desk.texts("chronicles:a-1"))
    assert 5 < read < 40
    assert list(desk.reasons()) == [f"{FILE}\0001"]
    data = b"# one\n" + line(90, "beta") + large + line(91, "late") + b"# three\n" + line(92, "gamma")
    desk.write(FILE, data)
    desk.look()
    assert len(desk.texts("chronicles:a-1")) == read
    assert desk.texts("chronicles:a-2") == ["gamma"]
