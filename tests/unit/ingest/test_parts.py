"""Files of lines that hold several sessions: the index is the one of a rebuild, however they grow."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.history import same
from tests.support.letters import Desk, with_sessions
from tests.support.state_machines import machine_settings

KEYS = st.integers(0, 9)
LINES = st.one_of(
    KEYS.map(lambda key: json.dumps({"key": f"{key}", "text": f"alpha {key}"}).encode()),
    st.sampled_from([b"# one", b"# nobody", b"{bad", b"", b"#"]),
)
KINDS = st.sampled_from(["append", "append", "tear", "rewrite", "restart", "gone"])
STEPS = st.lists(st.tuples(KINDS, st.lists(LINES, max_size=4)), max_size=8)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def line(key: int, text: str) -> bytes:
    """A message."""
    return json.dumps({"key": key, "text": text}).encode() + b"\n"


def test_each_session_of_a_file_is_a_unit(desk: Desk) -> None:
    """The first one begins with the file; an appended line is the last one's."""
    desk.write("chronicles/a.chronicle", line(1, "alpha") + b"# second\n" + line(2, "beta"))
    desk.look()
    sessions = desk.dump()["sessions"]
    assert {name: session["name"] for name, session in sessions.items()} == {
        "chronicles:a-0": None,
        "chronicles:a-1": "second",
    }
    assert {session["path"] for session in sessions.values()} == {str(desk.base / "chronicles/a.chronicle")}
    data = (desk.base / "chronicles/a.chronicle").read_bytes()
    desk.write("chronicles/a.chronicle", data + line(3, "gamma") + b"# third\n" + line(4, "delta"))
    assert desk.look().bytes == len(line(3, "gamma") + b"# third\n" + line(4, "delta"))
    assert [desk.texts(f"chronicles:a-{n}") for n in range(3)] == [["alpha"], ["beta", "gamma"], ["delta"]]


def test_sessions_that_a_file_holds_no_more_are_kept(desk: Desk) -> None:
    """As everything that goes; and so are those of a file that is gone, until it comes back."""
    path = desk.write("chronicles/a.chronicle", line(1, "alpha") + b"# second\n" + line(2, "beta"))
    desk.look()
    desk.write("chronicles/a.chronicle", line(3, "gamma"))
    desk.look()
    assert {name: session["gone"] for name, session in desk.dump()["sessions"].items()} == {
        "chronicles:a-0": False,
        "chronicles:a-1": True,
    }
    assert desk.texts("chronicles:a-0") == ["gamma"]
    data = path.read_bytes()
    path.unlink()
    desk.look()
    assert all(session["gone"] for session in desk.dump()["sessions"].values())
    same(with_sessions(desk.dump()), with_sessions(desk.carried_over()))
    desk.write("chronicles/a.chronicle", data + b"# second\n" + line(2, "beta"))
    desk.look()
    assert not any(session["gone"] for session in desk.dump()["sessions"].values())


def test_a_last_line_without_newline_is_the_last_sessions(desk: Desk) -> None:
    """Once; and a session begins with a whole line only."""
    whole = line(1, "alpha") + b"# second\n" + line(2, "beta")
    desk.write("chronicles/a.chronicle", whole[:-1])
    desk.look()
    assert desk.texts("chronicles:a-1") == ["beta"]
    desk.write("chronicles/a.chronicle", whole + b"# thi")
    desk.look()
    assert sorted(desk.dump()["sessions"]) == ["chronicles:a-0", "chronicles:a-1"]
    assert desk.texts("chronicles:a-1") == ["beta"]
    desk.write("chronicles/a.chronicle", whole + b"# third\n")
    desk.look()
    assert desk.dump()["sessions"]["chronicles:a-2"]["name"] == "third"


@settings(max_examples=machine_settings().max_examples)
@given(steps=STEPS, seed=st.integers(0, 9))
def test_any_history_of_a_file_gives_the_index_of_a_rebuild(steps: list[tuple[str, list[bytes]]], seed: int) -> None:
    """Two of them share records."""
    desk, mix = Desk(), random.Random(seed)
    try:
        for kind, lines in steps:
            name = f"chronicles/{mix.choice('ab')}.chronicle"
            path, data = desk.base / name, b"".join(line + b"\n" for line in lines)
            if kind == "restart":
                desk.restart()
            elif kind == "gone":
                path.unlink(missing_ok=True)
            else:
                before = path.read_bytes() if path.exists() and kind != "rewrite" else b""
                desk.write(name, before + (data[:-1] if kind == "tear" else data))
            if mix.random() < 0.7:
                desk.look()
        desk.look()
        desk.drop_gone()
        fresh = desk.make_empty_index()
        paths = list((desk.base / "chronicles").iterdir())
        desk.look_at(mix.sample(paths, len(paths)), fresh)
        same(settled(desk), settled(desk, fresh))
        there = {part: bad for path in paths for part, bad in bad_lines_of(path).items() if bad}
        assert {path: [bad.line for bad in lines] for path, lines in desk.reasons().items()} == there
    finally:
        desk.close()


def bad_lines_of(path: Path) -> dict[str, list[int]]:
    """The numbers of the bad lines of each session in a file, counted by hand; those of what is no session don't count."""
    found, part, is_ours = dict[str, list[int]](), -1, False
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        if part < 0 or text.startswith(b"#"):
            part, is_ours = part + 1, True
        name = f"chronicles/{path.name}\0{part}"
        if text == b"# nobody":
            is_ours = False
            found[name] = []
        elif is_ours and text and not text.startswith(b"#") and not is_json(text):
            found.setdefault(name, []).append(number)
    return found


def is_json(text: bytes) -> bool:
    """Whether a line decodes."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def settled(desk: Desk, ingest: object = None) -> object:
    """A dump, without how far files were read when."""
    found = with_sessions(desk.dump(ingest))  # type: ignore[arg-type]  # an index, or none
    return {**found, "files": {path: (row[:2], row[-2:]) for path, row in found["files"].items()}}


def test_paths_with_parts_are_no_paths(desk: Desk) -> None:
    """Nobody asks for them on the disk."""
    desk.write("chronicles/a.chronicle", line(1, "alpha") + b"# second\n")
    desk.look()
    assert {os.fsdecode(state.target.path).count("\0") for state in desk.ingest.states} == {0, 1}
    assert desk.sweep.due(desk.ingest) == []
    assert desk.sweep.due_below(str(desk.base / "chronicles"), desk.ingest) == []
