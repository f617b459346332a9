"""Threads of Codex's in several files: what is told late, what was reverted, what a fork goes on from. In any order of files."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.codex import CodexSession
from tests.support.history import same
from tests.support.neighbours import Neighbours

PARENT = "019e0000-0000-7000-8000-00000000000a"
CHILD = "019e0000-0000-7000-8000-00000000000b"
ROLLOUT = "019e0000-0000-7000-8000-00000000000c"
CALL = "call_0123456789abcdef"
LATER = "2026-04-01T09:00:00.000Z"


@pytest.fixture
def files() -> Iterator[Neighbours]:
    made = Neighbours()
    yield made
    made.close()


def put(files: Neighbours, *sessions: CodexSession) -> list[Path]:
    """The sessions, as Codex writes them."""
    paths = [files.codex / "sessions" / session.file_name for session in sessions]
    for path, session in zip(paths, sessions, strict=True):
        files.put(path, session.bytes())
    return paths


def sessions(files: Neighbours) -> dict[str, Any]:
    """The sessions of the index, which is what any order of files gives."""
    files.look_at_everything()
    for seed in range(4):
        same(files.dump(), files.rebuilt(seed))
    return dict(files.dump()["sessions"])


def running() -> CodexSession:
    """A command that ran on after its output."""
    return CodexSession(id=PARENT).turn().user("go").tool("exec_command", {"cmd": "make"}, "It runs on.", CALL)


def ended(session: CodexSession, exit_code: int = 1) -> CodexSession:
    """The command has ended, long after."""
    return session.event("exec_command_end", call_id=CALL, exit_code=exit_code)


def outcomes(session: dict[str, Any]) -> list[Any]:
    """How the calls went, and what they gave back."""
    return [(item[5], item[4].partition("\noutput:\n")[2]) for item in session["items"] if item[3] == "exec_command"]


@pytest.mark.parametrize(("exit_code", "failed"), [(0, False), (1, True)])
def test_an_exit_code_may_come_after_the_output(files: Neighbours, exit_code: int, failed: bool) -> None:
    """In the same look, and in a later one. The text stays."""
    session = running()
    (path,) = put(files, session)
    files.look_at_everything()
    files.put(path, ended(session, exit_code).bytes())
    assert outcomes(sessions(files)[f"codex:{PARENT}"]) == [(failed, "It runs on.")]


def test_a_fork_may_know_less_or_other_than_its_parent(files: Neighbours) -> None:
    """One word stands for both, whoever is read first; when it goes, the other one does."""
    parent = running()
    child = parent.fork(id=CHILD)
    paths = put(files, ended(parent), child)
    for order in itertools.permutations(paths):
        files.look(order)
    assert outcomes(sessions(files)[f"codex:{PARENT}"]) == [(False, "It runs on.")]
    files.put(paths[1], ended(child).bytes())
    assert outcomes(sessions(files)[f"codex:{CHILD}"]) == [(True, "It runs on.")]


def test_a_reverted_thread_is_one_session(files: Neighbours) -> None:
    """Under its id, called as its last file says. What it left is marked."""
    first = CodexSession(id=PARENT, ordinal=0).turn().user("one").event("thread_name_updated", thread_name="Old")
    base = {"thread_id": PARENT, "end_ordinal_exclusive": first.ordinal}
    first.turn().user("two").tool("ls", {}, "x")
    later = CodexSession(id=PARENT, rollout=ROLLOUT, ordinal=first.ordinal, start=LATER, history_base=base)
    put(files, first, later.turn().user("two").event("thread_name_updated", thread_name="New"))
    found = sessions(files)
    assert list(found) == [f"codex:{PARENT}"]
    assert found[f"codex:{PARENT}"]["name"] == "New"
    assert [(item[4], item[8]) for item in found[f"codex:{PARENT}"]["items"]] == [
        ("one", False), ("two", True), ("tool: ls\noutput:\nx", True), ("two", False),
    ]  # fmt: skip
    assert found[f"codex:{PARENT}"]["branches"][0] == [(0, 0), (3, 3)]


def test_a_fork_of_a_reverted_thread_reads_it_whole(files: Neighbours) -> None:
    """Codex names the file that it was forked from; the thread leads there."""
    first = CodexSession(id=PARENT, ordinal=0).turn().user("one")
    end = first.ordinal
    first.turn().user("two")
    later = CodexSession(
        id=PARENT,
        rollout=ROLLOUT,
        ordinal=end,
        start=LATER,
        history_base={"thread_id": PARENT, "end_ordinal_exclusive": end},
    )
    later.turn().user("three")
    child = CodexSession(
        id=CHILD, ordinal=later.ordinal, start="2026-05-01T09:00:00.000Z", forked_from_id=PARENT,
        history_base={"thread_id": ROLLOUT, "end_ordinal_exclusive": later.ordinal},
    )  # fmt: skip
    put(files, first, later.turn().user("too late"), child.turn().user("four"))
    found = sessions(files)[f"codex:{CHILD}"]
    assert [item[4] for item in found["items"] if not item[8]] == ["one", "three", "four"]
    numbers = {number for first, last in found["branches"][0] for number in range(first, last + 1)}
    assert numbers == {item[0] for item in found["items"] if not item[8]}


@pytest.mark.parametrize("before", [True, False])
def test_files_that_an_event_tells_of_are_touched_where_it_stands(files: Neighbours, before: bool) -> None:
    """A fork that was made before has the call without them; they go over into a new index."""
    parent = CodexSession(id=PARENT).turn().user("go").call("exec_command", {"cmd": "apply_patch < p"}, CALL)
    child = parent.fork(id=CHILD).output("Aborted.", CALL)
    parent.item("FileChange", id=CALL, changes={"/home/me/project/notes.txt": {"type": "add"}}).output("Done.", CALL)
    put(files, *((parent, child) if before else (child, parent)))
    found = sessions(files)
    assert [item[9] for item in found[f"codex:{PARENT}"]["items"]][1] == [[("notes.txt/project/me/home/",)]]
    assert [item[9] for item in found[f"codex:{CHILD}"]["items"]][1] == [[]]
    for path in files.paths():
        files.delete(path)
    same(files.dump()["sessions"], files.carried_over()["sessions"])
