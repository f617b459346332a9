"""Sessions that begin with a prompt of ours: nothing is kept of them, however they are read; of all others everything is."""

import sys
from collections.abc import Iterator

import pytest

from sesamed.ingest import look, tail
from sesamed.model import PROMPT_MARKER
from tests.support.history import History
from tests.support.sessions import PiSession

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

ASKED = f"{PROMPT_MARKER}\n\nWhat is this session about?"


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def sessions(history: History) -> list[str]:
    """Those that are indexed."""
    return sorted(history.dump()["sessions"])


def ours() -> PiSession:
    """A transcript of a prompt of ours."""
    return PiSession(id="ours").name("a name").user(ASKED).assistant('{"name": "quince"}').user("and more")


@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_is_kept_wherever_it_is_cut(history: History, restarts: bool) -> None:
    """Also if lines before the prompt were read, and committed, in a look of their own."""
    path = history.roots[0] / "ours.jsonl"
    for line in ours().lines():
        path.touch()
        history.append(path, line + b"\n")
        history.look([path])
        if restarts:
            history.restart()
    assert sessions(history) == []
    whole = history.write(history.roots[0] / "whole.jsonl", ours().bytes())
    history.look([whole])
    assert sessions(history) == []


def test_a_last_line_without_newline_is_not_kept_either(history: History) -> None:
    """It is taken when its file is quiet."""
    path = history.write(history.roots[0] / "ours.jsonl", PiSession(id="ours").user(ASKED).bytes()[:-1])
    history.look([path])
    history.look_at_everything()
    assert ASKED not in str(history.dump())


def test_a_later_prompt_is_somebodys_who_quotes_it(history: History) -> None:
    """Whether it is read with the first one or after it; and so are words before it."""
    session = PiSession(id="talk").user("what does sesame send?").assistant("this").user(ASKED).assistant("yes")
    path = history.roots[0] / "talk.jsonl"
    for line in session.lines():
        path.touch()
        history.append(path, line + b"\n")
        history.look([path])
    quoted = PiSession(id="quoted").user(f"Look: {ASKED}")
    answered = PiSession(id="answered").user("hello").assistant(ASKED)
    others = [history.write(history.roots[0] / f"{one.id}.jsonl", one.bytes()) for one in (quoted, answered)]
    history.look(others)
    assert sessions(history) == ["pi:answered", "pi:quoted", "pi:talk"]
    assert len(history.dump()["sessions"]["pi:talk"]["items"]) == 4


def test_it_comes_when_it_begins_with_something_else(history: History) -> None:
    """A file that is written anew is judged anew, either way."""
    path = history.write(history.roots[0] / "a.jsonl", ours().bytes())
    history.look([path])
    history.replace(path, PiSession(id="ours").user("quince").bytes())
    history.look([path])
    assert sessions(history) == ["pi:ours"]
    history.replace(path, ours().bytes())
    history.look([path])
    assert sessions(history) == []


def test_a_later_slice_of_a_compressed_file_is_not_its_beginning(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one is read in several looks."""
    monkeypatch.setattr(look, "SLICE_BYTES", 256)
    monkeypatch.setattr(tail, "BLOCK_BYTES", 256)
    session = PiSession(id="talk").user("what does sesame send?")
    for number in range(20):
        session.assistant(f"this {number} " + "x" * 500)
    session.user(ASKED).assistant("yes")
    history.look([history.write(history.roots[0] / "talk.jsonl.zst", compress(session.bytes()))])
    assert sessions(history) == ["pi:talk"]
    assert len(history.dump()["sessions"]["pi:talk"]["items"]) == 23
    monkeypatch.undo()
    history.look([history.write(history.roots[0] / "ours.jsonl.zst", compress(ours().bytes()))])
    assert sessions(history) == ["pi:talk"]
