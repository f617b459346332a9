"""Sessions that share records: the order in which files are read, and in which they are let go of, makes no difference."""

import itertools
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sesamed.store import sqlite
from tests.support.claude import ClaudeSession
from tests.support.history import History, agree, same
from tests.support.neighbours import Neighbours
from tests.support.sessions import Call, PiSession
from tests.support.state_machines import is_night

BASH = Call("bash", {"command": "make all", "path": "src/a.py"}, "call_1")
READ = Call("read", {"path": "src/b.py"}, "call_2")


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def family(directory: str) -> dict[str, PiSession]:
    """A parent, forks of it, a fork of a fork, a copy, and siblings with one id."""
    parent = PiSession(id="parent").user("alpha").assistant("beta", [BASH, READ])
    early = parent.fork(id="early", directory=directory).result(BASH, "done differently", error=True).user("gamma")
    parent.result(BASH, "done").result(READ, "boom")
    late = parent.fork(id="late", directory=directory).assistant("delta")
    child = late.fork(id="child", at=3, directory=directory).result(READ, "aaa")
    other = PiSession(id="parent", start="2026-02-01T00:00:00.000Z").user("another one")
    return {"p": parent, "early": early, "late": late, "child": child, "copy": parent, "sibling": other}


def written(history: History, names: tuple[str, ...]) -> list[Path]:
    """Some of the family as files."""
    made = family(str(history.roots[0]))
    return [history.write(history.roots[0] / f"{name}.jsonl", made[name].bytes()) for name in names]


NAMES = ("p", "early", "late", "child", "copy", "sibling")


@pytest.mark.parametrize("names", [("p", "early", "late"), ("p", "copy", "child", "sibling"), NAMES])
def test_any_order_of_files_gives_the_same_index(history: History, names: tuple[str, ...]) -> None:
    """Parent, forks, copies, siblings: whoever comes first."""
    written(history, names)
    history.look_at_everything()
    dump = history.dump()
    agree(dump, history.world())
    orders = list(itertools.permutations(range(len(names))))
    for order in orders if is_night() else orders[:: 1 + len(orders) // 12]:
        same(history.rebuilt(partial(ordered, order)), dump)


def ordered(order: tuple[int, ...], paths: list[bytes]) -> list[bytes]:
    """The paths in this order."""
    return [paths[at] for at in order] if len(paths) == len(order) else paths


@pytest.mark.parametrize("gone", NAMES)
def test_who_shares_with_a_file_that_is_dropped_stays_whole(history: History, gone: str) -> None:
    """Texts, results, touched files: forgetting one session leaves the others as they would be without it."""
    written(history, NAMES)
    history.look_at_everything()
    (history.roots[0] / f"{gone}.jsonl").unlink()
    history.look_at_everything()
    history.drop_gone()
    agree(history.dump(), history.world())
    same(history.dump(), history.rebuilt(lambda paths: paths[::-1]))


@pytest.mark.parametrize("changed", NAMES)
@pytest.mark.parametrize("to", [b"", b'{"foo":1}\n', PiSession(id="new").user("new").bytes()])
def test_who_shares_with_a_file_that_is_rewritten_stays_whole(history: History, changed: str, to: bytes) -> None:
    """The same for one that has other content now."""
    written(history, NAMES)
    history.look_at_everything()
    history.write(history.roots[0] / f"{changed}.jsonl", to)
    history.look_at_everything()
    agree(history.dump(), history.world())
    same(history.dump(), history.rebuilt(lambda paths: paths[::-1]))


def test_a_gone_fork_keeps_its_own_result_when_its_parent_is_dropped(history: History) -> None:
    """Nobody can read it again, so its word is kept while another one stands."""
    parent, early = written(history, ("p", "early"))
    history.look_at_everything()
    assert result(history, "early") == (False, "done")  # the smaller one stands for both
    early.unlink()
    history.look([early])
    parent.unlink()
    history.look([parent])
    history.ingest.drop([os.fsencode(parent)])
    assert result(history, "early") == (True, "done differently")


def result(history: History, session: str) -> tuple[bool | None, str]:
    """What the first call of a session gave back."""
    items = history.dump()["sessions"][f"pi:{session}"]["items"]
    call = next(item for item in items if item[3] == "bash")
    return call[5], call[4].partition("\noutput:\n")[2]


def test_each_copy_keeps_its_own_entry_id(history: History) -> None:
    """pi's migration gives the old entries of parent and fork different ids; a record is the same one all the same."""
    parent = PiSession(id="old", version=1, start="2025-11-20T10:00:00.000Z").user("alpha").assistant("beta")
    fork = parent.fork(id="fork").migrated("fork")
    one = history.write(history.roots[0] / "a.jsonl", parent.bytes())
    history.write(history.roots[0] / "b.jsonl", fork.bytes())
    history.look_at_everything()
    history.write(one, parent.migrated("parent").bytes())
    history.look_at_everything()
    same(history.dump(), history.rebuilt(lambda paths: paths[::-1]))
    ids = {name: [item[7] for item in session["items"]] for name, session in history.dump()["sessions"].items()}
    assert len({*ids["pi:old"], *ids["pi:fork"]}) == 4


def test_the_number_goes_on_when_the_first_of_two_sessions_with_one_id_is_dropped(history: History) -> None:
    """`id~2` becomes `id`, as a rebuild would have it."""
    first, _ = written(history, ("p", "sibling"))
    history.look_at_everything()
    assert sorted(history.dump()["sessions"]) == ["pi:parent", "pi:parent~2"]
    first.unlink()
    history.look([first])
    history.drop_gone()
    assert sorted(history.dump()["sessions"]) == ["pi:parent"]


def test_facts_of_a_file_that_returns_count_again(history: History) -> None:
    """Of two copies with different names, the first one that is there names the session."""
    named = family("")["p"].name("one").bytes()
    one = history.write(history.roots[0] / "a.jsonl", named)
    history.write(history.roots[0] / "b.jsonl", named.replace(b'"name":"one"', b'"name":"two"'))
    names = []
    for step in (lambda: None, one.unlink, lambda: history.write(one, named)):
        step()
        history.look_at_everything()
        names.append(history.dump()["sessions"]["pi:parent"]["name"])
    assert names == ["one", "two", "one"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_is_not_mistaken_for_the_one_that_was_moved_from_its_name(history: History, order: int) -> None:
    """Moved away, and a copy in its place, looked at together."""
    (path,) = written(history, ("p",))
    history.look_at_everything()
    other = path.with_name("z.jsonl")
    path.rename(other)
    history.write(path, other.read_bytes())
    history.append(other, PiSession(id="more").user("more").lines()[1] + b"\n")
    history.look([other, path][::order])
    agree(history.dump(), history.world())
    same(history.dump(), history.rebuilt(lambda paths: paths))


def test_two_hard_links_to_a_file_that_is_gone_are_two_files(history: History) -> None:
    """Both look like the file that was moved; it can be only one of them."""
    (path,) = written(history, ("p",))
    history.look_at_everything()
    os.link(path, path.with_name("x.jsonl"))
    path.rename(path.with_name("y.jsonl"))
    history.look([path.with_name("x.jsonl"), path.with_name("y.jsonl"), path])
    agree(history.dump(), history.world())
    same(history.dump(), history.rebuilt(lambda paths: paths))


@pytest.mark.fault(4)
def test_a_file_in_another_directory_is_not_read_again(history: History) -> None:
    """Nothing of it is written but its new path."""
    (path,) = written(history, ("p",))
    history.look_at_everything()
    other = history.roots[1] / path.name
    path.rename(other)
    before = history.ingest.writer.connection.total_changes()
    history.look([other, path])
    assert history.ingest.writer.connection.total_changes() - before < 10
    assert [bytes(name) for (name,) in paths_of(history)] == [os.fsencode(other)]


def paths_of(history: History) -> list[tuple[Any, ...]]:
    """All files of the index."""
    return sqlite.rows(history.ingest.writer.connection, "SELECT path FROM files")


def test_a_file_that_moves_below_a_session_becomes_its_subagent(history: History) -> None:
    """A file's place says something, too."""
    (path,) = written(history, ("p",))
    history.look_at_everything()
    below = path.parent / "2026-03-01T09-00-00-000Z_main" / "a.jsonl"
    below.parent.mkdir()
    path.rename(below)
    history.look([below, path])
    session = history.dump()["sessions"]["pi:parent"]
    assert (session["subagent"], session["parentSessionId"]) == (True, "main")


@pytest.mark.parametrize("original_first", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("marked", [True, False])
def test_what_was_said_in_the_original_is_the_originals(original_first: bool, goes_on: bool, marked: bool) -> None:
    """Also of a branch that copies from the first line on, whose time is earlier than that of the snapshot before it in the original."""
    files = Neighbours()
    try:
        snapshot = {"type": "file-history-snapshot", "snapshot": {"timestamp": "2026-03-01T09:00:01.002Z"}}
        original = ClaudeSession(id="f41d0000-0000-4000-8000-000000000001").raw(json.dumps(snapshot).encode())
        original.user("alpha").assistant("beta", requestSessionId=original.id)
        name = "0a1d0000-0000-4000-8000-000000000002"
        child = original.branch_off(name) if marked else original.copied(name)
        if goes_on:
            child.user("gamma")
        for session in (original, child) if original_first else (child, original):
            files.put(files.claude / "-p" / session.file_name, session.bytes())
            files.look_at_everything()
        sessions = files.dump()["sessions"]
        owners = {item[-2] for item in sessions[f"claude:{original.id}"]["items"]}
        assert sessions[f"claude:{child.id}"]["parentSessionId"] == original.id
        assert owners == {f"claude:{original.id}"}
    finally:
        files.close()


RESULTS = st.sampled_from([None, "aaa", "bbb", "ccc"])


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.booleans(), RESULTS), min_size=1, max_size=12))
@example(
    # What let a result outlive its call in an early version, and then kept a file from ever being read.
    steps=[(0, True, "ccc"), (1, True, "aaa"), (1, False, None), (0, False, None), (2, True, "ccc"), (0, True, "bbb")]
)
@example(steps=[(1, True, "ccc"), (2, True, "aaa"), (2, False, None), (1, False, None)])
def test_results_go_with_the_last_that_holds_their_call(steps: list[tuple[int, bool, str | None]]) -> None:
    """Whichever of three files are written anew, with the call or without it, and with which result: nothing is left over."""
    history = History()
    try:
        call = PiSession(id="whoever").assistant("beta", [BASH]).lines()[-1]
        for session, has_call, result in steps:
            made = PiSession(id=f"s{session}", start=f"2026-03-0{session + 1}T09:00:00.000Z").user(f"alpha {session}")
            if has_call:
                made.raw(call)
                if result is not None:
                    made.result(BASH, result)
            history.write(history.roots[0] / f"{session}.jsonl", made.bytes())
            history.look_at_everything()
            dump = history.dump()
        same(history.rebuilt(lambda paths: paths), dump)
    finally:
        history.close()
