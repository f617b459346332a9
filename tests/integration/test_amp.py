"""Amp's threads through the real daemon: found by themselves, replaced as a whole each time, forked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amp import AmpThread
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import Call
from tests.support.watched import is_one_hit


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon without configuration."""
    with Daemon(None) as started:
        (started.home / ".local/share/amp/threads").mkdir(parents=True)
        started.sync()
        yield started


def test_a_thread_is_found_as_it_grows(daemon: Daemon) -> None:
    """A call is there before its result; of a thread that is half written what was read stays."""
    root = daemon.home / ".local/share/amp/threads"
    bake = Call("Bash", {"cmd": "bake medlar"}, "toolu_a")
    thread = AmpThread(cwd=str(daemon.home), title="The tart").user("a quince tart")
    path = thread.write(root)
    eventually(lambda: daemon.found("quince"))
    thread.answer(calls=(bake,)).write(root)
    eventually(lambda: daemon.found("medlar"))
    thread.result(bake, {"output": "burnt", "exitCode": 3}).write(root)
    (hit,) = eventually(lambda: daemon.call("search", query="burnt", status="error", toolFamily="shell")["results"])
    assert (hit["sessionId"], hit["name"], hit["match"]["toolName"]) == (thread.id, "The tart", "Bash")
    path.write_bytes(thread.bytes()[:200])
    daemon.sync()
    assert daemon.found("quince") == [thread.id]
    meta = daemon.call("get_session_meta", sessionId=thread.id)
    assert meta["resume"]["command"] == ["amp", "threads", "continue", thread.id]
    assert (meta["cwd"], meta["gitBranch"]) == (str(daemon.home), "main")


def test_a_fork_is_one_hit_with_its_parent(daemon: Daemon) -> None:
    thread = AmpThread(id="T-b").user("a quince tart").answer("with cream")
    fork = thread.fork(id="T-a").user("and a salsify pie")
    for one in (fork, thread):
        one.write(daemon.home / ".local/share/amp/threads")
    is_one_hit(daemon, thread.id, fork.id)


def test_a_variable_moves_its_directory(tmp_path: Path) -> None:
    thread = AmpThread().user("plum")
    thread.write(tmp_path / "amp/threads")
    with Daemon(None, environ={"XDG_DATA_HOME": str(tmp_path)}) as daemon:
        daemon.sync()
        assert [found["sessionId"] for found in daemon.sessions()] == [thread.id]
