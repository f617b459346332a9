"""Copilot CLI's sessions through the real daemon: found by themselves, named by the file beside them, forked, rewound, of any age."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.copilot import CopilotSession, history
from tests.support.daemon import Daemon, eventually
from tests.support.watched import is_one_hit, meta

FORK, EARLY = "c0b10000-0000-4000-8000-0000000000ff", "c0b10000-0000-4000-8000-000000000002"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon without configuration."""
    with Daemon(None) as started:
        for name in ("session-state", "history-session-state"):
            (started.home / ".copilot" / name).mkdir(parents=True)
        started.sync()
        yield started


def test_a_session_is_found_as_it_is_written(daemon: Daemon) -> None:
    """A prompt, a call that fails, and what it is called, which stands beside it and changes."""
    session = CopilotSession(cwd=str(daemon.home), branch="orchard").user("a quince tart")
    path = session.write(daemon.home / ".copilot/session-state")
    eventually(lambda: daemon.found("quince"))
    assert (meta(daemon, session.id)["name"], meta(daemon, session.id)["gitBranch"]) == ("a quince tart", "orchard")
    assert meta(daemon, session.id)["resume"]["command"] == ["copilot", "--resume", session.id]
    path.with_name("workspace.yaml").write_bytes(session.workspace("The tart", by_person=True))
    eventually(lambda: meta(daemon, session.id)["name"] == "The tart")
    session.tool("bash", {"command": "bake medlar"}, "burnt", 3).write(daemon.home / ".copilot/session-state")
    (hit,) = eventually(lambda: daemon.call("search", query="burnt", status="error", toolFamily="shell")["results"])
    assert (hit["sessionId"], hit["match"]["toolName"]) == (session.id, "bash")


def test_a_fork_is_one_hit_with_its_parent(daemon: Daemon) -> None:
    session = CopilotSession().user("a quince tart").answer("with cream")
    fork = session.fork(id=FORK).user("and a salsify pie")
    for one in (fork, session):
        one.write(daemon.home / ".copilot/session-state")
    is_one_hit(daemon, session.id, fork.id)
    assert meta(daemon, fork.id)["parentSessionId"] == session.id


def test_what_a_rewind_takes_out_of_the_file_goes(daemon: Daemon) -> None:
    """The file is written anew without it; what is said then may be longer."""
    session = CopilotSession().user("a quince tart")
    said = list(session.lines())
    path = session.user("and a salsify pie").write(daemon.home / ".copilot/session-state")
    eventually(lambda: daemon.found("salsify"))
    session._lines = said
    session.event("session.info", infoType="rewind", message="Rewound the conversation.").user("and a medlar jam")
    path.write_bytes(session.bytes())
    eventually(lambda: daemon.found("medlar"))
    assert daemon.found("salsify") == []
    assert daemon.texts(session.id) == ["a quince tart", "and a medlar jam"]
    daemon.check_index()


def test_sessions_of_the_first_versions_are_read(daemon: Daemon) -> None:
    """As they were written, and as a newer version takes them over, which deletes the document."""
    said = ({"type": "user", "text": "a quince tart"}, {"type": "copilot", "text": "with cream"})
    document = daemon.home / f".copilot/history-session-state/session_{EARLY}_1772355600000.json"
    document.write_bytes(history(*said, session=EARLY))
    eventually(lambda: daemon.found("quince"))
    line = (
        b'{"type":"session.import_legacy","id":"x","timestamp":"2026-03-02T09:00:00.000Z","data":{"legacySession":%s}}'
    )
    taken = CopilotSession(id=FORK).raw(line % history(*said, session=FORK)).user("and a salsify pie")
    taken.write(daemon.home / ".copilot/session-state")
    eventually(lambda: daemon.found("salsify"))
    assert daemon.texts(EARLY) == ["a quince tart", "with cream"]
    assert daemon.texts(FORK) == ["a quince tart", "with cream", "and a salsify pie"]


def test_variables_move_its_directories(tmp_path: Path) -> None:
    """And the one that older versions followed; both are read."""
    session, older = CopilotSession(), CopilotSession(id=FORK)
    session.user("plum").write(tmp_path / "now/session-state")
    older.user("plum").write(tmp_path / "state/.copilot/session-state")
    with Daemon(
        None, environ={"COPILOT_HOME": str(tmp_path / "now"), "XDG_STATE_HOME": str(tmp_path / "state")}
    ) as daemon:
        daemon.sync()
        assert {found["sessionId"] for found in daemon.sessions()} == {session.id, older.id}
