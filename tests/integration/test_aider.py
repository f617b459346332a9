"""Aider through the real daemon: its history is found in projects that other agents have worked in."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.aider import FILE, AiderChat
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.watched import meta

START_UTC = datetime.fromisoformat("2026-03-01 09:00:00").astimezone(UTC)  # this machine's, as Aider writes it


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon without configuration, and a session of pi's in a project."""
    with Daemon(None) as started:
        project = started.home / "birds"
        (project / ".git").mkdir(parents=True)
        (project / "src").mkdir()
        PiSession(cwd=str(project / "src")).user("a plum").write(started.home / ".pi/agent/sessions/--birds--/a.jsonl")
        started.sync()
        yield started


def append(path: Path, chat: AiderChat) -> None:
    """What Aider has written since."""
    with open(path, "ab") as file:
        file.write(chat.bytes()[path.stat().st_size :])


def test_a_history_in_a_known_project_is_found_by_itself(daemon: Daemon) -> None:
    """At the top of the repository that a session of any agent was in; then each line as it is written, and each start as a session."""
    project = daemon.home / "birds"
    chat = AiderChat().starts().user("a quince tart")
    path = chat.write(project)
    daemon.sync()
    assert daemon.found("quince")
    append(path, chat.answer("with medlar").edits("pie.txt"))
    eventually(partial(daemon.found, "medlar"))
    append(path, chat.starts("2026-03-01 10:00:00").user("a salsify pie"))
    eventually(partial(daemon.found, "salsify"))
    first, second = (daemon.found(word)[0] for word in ("quince", "salsify"))
    assert first != second
    shown = meta(daemon, first)
    assert (shown["source"], shown["cwd"], shown["projectPath"]) == ("aider", str(project), str(project))
    assert (shown["messageCount"], shown["toolCounts"]) == (2, {"edit": 1, "commit": 1})
    assert datetime.fromisoformat(shown["created"]) == START_UTC
    command = ["aider", "--chat-history-file", str(path), "--restore-chat-history"]
    assert shown["resume"] == {"command": command, "cwd": str(project), "unarchive": None}
    (hit,) = daemon.call("search", query="*", path=str(project / "pie.txt"))["results"]
    assert hit["sessionId"] == first
    daemon.stop()
    daemon.start()
    append(path, chat.answer("in an oven, with a bullace"))
    eventually(partial(daemon.found, "bullace"))
    assert daemon.found("bullace") == [second]
    assert daemon.call("status")["counts"]["badLines"] == 0
    daemon.check_index()


def test_a_project_that_is_excluded_is_excluded_with_its_history(daemon: Daemon) -> None:
    """And comes back with it. What its `.sesameignore` says is about sessions, and not about files of other agents' that lie below it."""
    project = daemon.home / "birds"
    AiderChat().starts().user("a quince tart").starts("2026-03-01 10:00:00").user("a medlar").write(project)
    AiderChat().starts().user("a loquat").write(daemon.home)
    PiSession(id="home", cwd=str(daemon.home)).user("a rowan").write(
        daemon.home / ".pi/agent/sessions/--home--/b.jsonl"
    )
    (daemon.home / ".sesameignore").write_text(".pi/\n")
    rules = project / ".sesameignore"
    for text, count in (("*", 0), (None, 1), ("*", 0), ("", 0), (None, 1)):
        if text is None:
            rules.unlink()
        else:
            rules.write_text(text)
        for _ in range(2):
            daemon.sync()
        assert [len(daemon.found(word)) for word in ("quince", "medlar")] == [count, count]
        assert [len(daemon.found(word)) for word in ("rowan", "loquat")] == [1, 1]
    daemon.check_index()


def test_a_history_elsewhere_is_read_when_it_is_named(tmp_path: Path) -> None:
    """By Aider's variable or by the configuration; a file of another name says nothing of where it was."""
    history = AiderChat().starts().user("a quince tart").bytes()
    for name in ("all/chat.history.md", f"shop/{FILE}"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(history.replace(b"quince", name[:4].encode()))
    environ = {"AIDER_CHAT_HISTORY_FILE": str(tmp_path / "all/chat.history.md")}
    daemon = Daemon(None, environ=environ)
    daemon.configure({"extraSources": [{"parser": "aider", "path": str(tmp_path / "shop")}]})
    with daemon:
        daemon.sync()
        cwds = {session["cwd"] for session in daemon.sessions()}
    assert cwds == {None, str(tmp_path / "shop")}


def test_nobody_looks_into_projects_that_are_not_to_be_looked_into(tmp_path: Path) -> None:
    """As where only some directories are to be read, or projects are left alone."""
    project = tmp_path / "birds"
    AiderChat().starts().user("a quince tart").write(project)
    sessions = tmp_path / "sessions"
    PiSession(cwd=str(project)).user("a plum").write(sessions / "a.jsonl")
    pi = [{"parser": "pi", "path": str(sessions)}]
    configurations: tuple[tuple[dict[str, Any], int], ...] = (
        ({"sources": pi}, 0),
        ({"extraSources": pi, "projectIgnoreFiles": False}, 0),
        ({"extraSources": pi, "projectIgnoreFiles": True}, 1),
    )
    for config, found in configurations:
        daemon = Daemon(None)
        daemon.configure(config)
        with daemon:
            daemon.sync()
            daemon.sync()
            assert len(daemon.found("quince")) == found
