"""Forgetting: what is forgotten is in no answer, in no byte of the index, and never comes back."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamectl.errors import RpcError
from tests.support.daemon import Daemon, eventually
from tests.support.library import APP, CHILD, FIX, FORK, PARENT, SUB, Library
from tests.support.sessions import PiSession

SECRET = "zanzibarcode"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon() as started:
        session = PiSession(id="secret-1").user(f"my word is {SECRET}").assistant(f"I will keep {SECRET}")
        session.tool("bash", {"command": f"echo {SECRET}"}, f"{SECRET}")
        started.write("secret.jsonl", session.name(f"About {SECRET}").bytes())
        started.write("other.jsonl", PiSession(id="other-1").user("the quince stays").bytes())
        started.sync()
        yield started


def in_files(directory: Path, word: str) -> list[str]:
    """The files below a directory that hold a word, also packed as the index packs it."""
    return sorted(path.name for path in directory.rglob("*") if path.is_file() and word.encode() in path.read_bytes())


@pytest.mark.fault(72)
def test_a_session_is_forgotten(daemon: Daemon) -> None:
    """At once, from every byte of the index, and its file is as it was."""
    before = (daemon.root / "secret.jsonl").read_bytes()
    daemon.call("set_session_meta", sessionId="secret-1", summary=f"{SECRET} again")
    assert "index.sqlite-wal" in in_files(daemon.data_dir, SECRET)
    dry = daemon.call("forget", sessionId="secret", dryRun=True)
    assert daemon.found(SECRET) == ["secret-1"]
    assert dry == {"sessions": 1, "chunks": 4}
    assert daemon.call("forget", sessionId="secret") == dry
    assert daemon.found(SECRET) == []
    assert in_files(daemon.data_dir, SECRET) == []
    assert daemon.found("quince") == ["other-1"]
    counts = daemon.call("status")["counts"]
    assert (counts["sessions"], counts["chunks"]) == (1, 1)
    assert (daemon.root / "secret.jsonl").read_bytes() == before
    daemon.check_index()


def test_it_stays_forgotten(daemon: Daemon) -> None:
    """Whatever happens to its file, to the daemon or to the index."""
    daemon.call("forget", sessionId="secret-1")
    daemon.append("secret.jsonl", PiSession(id="secret-1").user(f"{SECRET} once more").last_line())
    daemon.sync()
    assert daemon.found(SECRET) == []
    daemon.write("copy.jsonl", (daemon.root / "secret.jsonl").read_bytes())
    daemon.restart().sync()
    assert daemon.found(SECRET) == []
    daemon.call("index", full=True)
    daemon.stop()
    for file in daemon.data_dir.glob("index.sqlite*"):
        file.unlink()
    daemon.start().sync()
    assert daemon.found(SECRET) == []
    assert daemon.found("quince") == ["other-1"]
    assert daemon.call("status")["counts"]["sessions"] == 1
    with pytest.raises(RpcError) as caught:
        daemon.call("set_session_meta", sessionId="secret-1", title=SECRET)
    assert caught.value.code == 1
    assert in_files(daemon.data_dir, SECRET) == []


@pytest.mark.parametrize("rest", [None, b'{"source":"pi","nat'])
def test_it_stays_forgotten_without_the_file_that_says_so(daemon: Daemon, rest: bytes | None) -> None:
    """If `forgotten.jsonl` is removed or spoilt, the index still knows, and writes it again before a new one is built or opened."""
    told = daemon.data_dir / "forgotten.jsonl"
    daemon.call("forget", sessionId="secret-1")
    lines = told.read_bytes()
    for step in (lambda: daemon.call("index", full=True), daemon.restart):
        told.unlink() if rest is None else told.write_bytes(rest)
        step()
        daemon.sync()
        assert daemon.found(SECRET) == []
        assert told.read_bytes().endswith(lines)


def test_nothing_is_pending_of_what_was_forgotten(daemon: Daemon) -> None:
    """Nor of an unfinished last line, before and after its file is looked at again."""
    daemon.append("secret.jsonl", b'{"type":"message","torn')
    assert daemon.call("sync")["pending"] == {"files": 0, "bytes": 23}  # not `status`: the file may be looked at again
    daemon.call("forget", sessionId="secret-1")
    assert daemon.call("sync")["pending"] == {"files": 0, "bytes": 0}
    daemon.call("index")
    assert daemon.call("sync")["pending"] == {"files": 0, "bytes": 0}


def test_a_session_that_is_gone_can_be_forgotten(daemon: Daemon) -> None:
    """It could not be read again; and others that are gone are kept."""
    for name in ("secret", "other"):
        os.unlink(daemon.root / f"{name}.jsonl")
    daemon.sync()
    assert daemon.call("forget", sessionId="secret-1")["sessions"] == 1
    assert daemon.found(SECRET) == []
    assert daemon.found("quince") == ["other-1"]
    assert in_files(daemon.data_dir, SECRET) == []


def test_what_was_begun_is_finished_after_a_kill(daemon: Daemon) -> None:
    """The rows are gone, and the daemon died before the free pages were: the next one sees to it."""
    daemon.stop()
    with daemon.opened(writable=True) as connection:
        connection.execute("INSERT INTO metadata(name, value) VALUES('forgetting', '1')")
        connection.execute("CREATE TABLE leftover(a)")
        connection.execute("INSERT INTO leftover VALUES('this page goes with the old file')")
    inode = daemon.database.stat().st_ino
    daemon.start()
    eventually(lambda: daemon.database.stat().st_ino != inode)
    daemon.sync()
    with daemon.opened() as connection:
        assert connection.execute("SELECT 1 FROM metadata WHERE name = 'forgetting'").fetchall() == []
    assert daemon.found(SECRET) == ["secret-1"]


@pytest.mark.parametrize(
    "params", [{}, {"dryRun": True}, {"sessionId": "a", "source": "pi"}, {"source": "pi", "cwd": "/"}]
)
def test_one_thing_is_named(daemon: Daemon, params: dict[str, Any]) -> None:
    """Nothing is forgotten because a name is missing, and no two are mixed."""
    with pytest.raises(RpcError) as caught:
        daemon.call("forget", **params)
    assert caught.value.code == -32602
    assert daemon.call("status")["counts"]["sessions"] == 2


def test_by_source(daemon: Daemon) -> None:
    """All sessions of a parser; ours stay, and new ones of it are indexed."""
    ours = daemon.call("new_session", title="kept")["sessionId"]
    assert daemon.call("forget", source="codex") == {"sessions": 0, "chunks": 0}
    assert daemon.call("forget", source="pi")["sessions"] == 2
    assert [session["sessionId"] for session in daemon.call("list_sessions")["sessions"]] == [ours]
    daemon.write("new.jsonl", PiSession(id="new-1").user("a new quince").bytes())
    daemon.sync()
    assert daemon.found("quince") == ["new-1"]


def test_by_directory() -> None:
    """A project: what is below, and its worktrees."""
    with Daemon() as daemon:
        library = Library(daemon)
        known = {session["sessionId"] for session in daemon.call("list_sessions")["sessions"]}
        assert daemon.call("forget", cwd=library.cwd("app"))["sessions"] == len({APP, SUB, FIX, FORK})
        left = {session["sessionId"] for session in daemon.call("list_sessions")["sessions"]}
        assert known - left == {APP, SUB, FIX, FORK}


def test_a_fork_stays_whole_and_subagents_go_along() -> None:
    """What another session holds as well is that one's; what a subagent did is its parent's."""
    with Daemon() as daemon:
        library = Library(daemon)
        fork = daemon.texts(FORK)
        assert daemon.call("forget", sessionId=APP) == {"sessions": 1, "chunks": 0}
        assert daemon.texts(FORK) == fork
        assert daemon.call("forget", sessionId=PARENT)["sessions"] == 2
        assert daemon.found("medlar", subagents="include") == []
        assert Path(library.paths[CHILD]).exists()


def test_only_one_of_two_with_the_same_id(daemon: Daemon) -> None:
    """The other one is another session."""
    one = PiSession(id="twin-1", start="2026-01-01T00:00:00Z").user("first salsify")
    other = PiSession(id="twin-1", start="2026-01-02T00:00:00Z").user("second salsify")
    daemon.write("twin/a.jsonl", one.bytes())
    daemon.sync()  # who is read first has the id
    daemon.write("twin/b.jsonl", other.bytes())
    daemon.sync()
    assert daemon.call("forget", sessionId="twin-1~2")["sessions"] == 1
    assert daemon.texts("twin-1") == ["first salsify"]
    daemon.call("index", full=True)
    assert daemon.found("salsify") == ["twin-1"]
