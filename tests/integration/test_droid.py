"""Factory Droid's sessions through the real daemon: found by themselves, with a first line that is rewritten, forked, with subagents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.droid import DroidSession
from tests.support.watched import is_one_hit, meta

CHILD = "d1010000-0000-4000-8000-0000000000aa"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon without configuration."""
    with Daemon(None) as started:
        (started.home / ".factory/sessions").mkdir(parents=True)
        started.sync()
        yield started


def test_a_session_is_found_as_it_is_written_and_renamed(daemon: Daemon) -> None:
    """All behind the first line moves when it gets longer, and nothing is lost or doubled."""
    root = daemon.home / ".factory/sessions"
    session = DroidSession(cwd=str(daemon.home)).context().user("a quince tart")
    path = session.write(root)
    eventually(lambda: daemon.found("quince"))
    session.named("The tart and all that belongs to it", isSessionTitleManuallySet=True).write(root)
    eventually(lambda: meta(daemon, session.id)["name"] == "The tart and all that belongs to it")
    session.tool("Execute", {"command": "bake medlar"}, "burnt", 3)
    with open(path, "ab") as file:
        file.write(b"".join(line + b"\n" for line in session.lines()[-2:]))
    (hit,) = eventually(lambda: daemon.call("search", query="burnt", status="error", toolFamily="shell")["results"])
    assert (hit["sessionId"], hit["match"]["toolName"]) == (session.id, "Execute")
    session.named("Tart").write(root)
    eventually(lambda: meta(daemon, session.id)["name"] == "Tart")
    assert len(daemon.texts(session.id)) == 2
    assert meta(daemon, session.id)["resume"]["command"] == ["droid", "--resume", session.id]
    assert daemon.call("status")["counts"]["badLines"] == 0
    daemon.check_index()


def test_a_fork_is_one_hit_with_its_parent(daemon: Daemon) -> None:
    """Its header says no time, so that its copies could be taken for the originals."""
    session = DroidSession(id="d1010000-0000-4000-8000-0000000000ee").user("a quince tart").answer("with cream")
    fork = session.fork(id="d1010000-0000-4000-8000-000000000000").user("and a salsify pie")
    for one in (fork, session):
        one.write(daemon.home / ".factory/sessions")
    is_one_hit(daemon, session.id, fork.id)
    assert meta(daemon, fork.id)["parentSessionId"] == session.id


def test_a_subagent_is_one_hit_with_its_parent_and_not_resumed(daemon: Daemon) -> None:
    parent = DroidSession(cwd=str(daemon.home)).user("a quince tart")
    child = DroidSession(id=CHILD, cwd=str(daemon.home), callingSessionId=parent.id, callingToolUseId="call_a")
    for session in (parent, child.user("peel the quince")):
        session.write(daemon.home / ".factory/sessions")
    daemon.sync()
    (hit,) = daemon.call("search", query="quince")["results"]
    assert hit["sessionId"] == parent.id
    found = meta(daemon, CHILD)
    assert (found["subagent"], found["parentSessionId"], found["resume"]) == (True, parent.id, None)


def test_a_variable_moves_its_directory(tmp_path: Path) -> None:
    session = DroidSession().user("plum")
    session.write(tmp_path / ".factory/sessions")
    with Daemon(None, environ={"FACTORY_HOME_OVERRIDE": str(tmp_path)}) as daemon:
        daemon.sync()
        assert [found["sessionId"] for found in daemon.sessions()] == [session.id]
