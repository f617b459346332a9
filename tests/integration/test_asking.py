"""Sessions of five agents, whose files have four shapes, are found by one question, whoever asks it. `tests/agents/test_asking.py` does the
same with what the agents themselves have written.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.asking import WAYS
from tests.support.claude import ClaudeSession
from tests.support.cline import ClineSession
from tests.support.copilot import CopilotSession
from tests.support.daemon import Daemon
from tests.support.goose import GooseSession, write_goose
from tests.support.opencode import SCHEMA, OpenCodeSession

QUESTION = "quince bear fruit"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """It is told of no directory, and finds each agent's own."""
    with Daemon(None) as daemon:
        write_all(daemon)
        daemon.sync()
        yield daemon


def write_all(daemon: Daemon) -> None:
    home = daemon.home
    claude = ClaudeSession().user("Why does the quince bear no fruit, Claude?")
    daemon.write(str(home / ".claude/projects/-garden" / claude.file_name), claude.bytes())
    CopilotSession().user("Let the quince bear fruit, Copilot").write(home / ".copilot/session-state")
    goose = home / ".local/share/goose/sessions"
    goose.parent.mkdir(parents=True)
    write_goose(goose, GooseSession().user("A goose ate the fruit that the quince did bear"))
    cline = ClineSession().user("Cline, which fruit does a quince bear?")
    daemon.write(str(home / ".cline/data" / cline.path), cline.document())
    opencode = home / ".local/share/opencode"
    opencode.mkdir()
    with closing(sqlite3.connect(opencode / "opencode.db", isolation_level=None)) as database:
        database.executescript(SCHEMA)
        for number, text in enumerate(("When will the quince bear any fruit?", "about a medlar")):
            for statement, values in OpenCodeSession(id=f"ses_{number:04}").user(text).statements():
                database.execute(statement, values)


@pytest.mark.parametrize("way", WAYS)
def test_five_agents_are_found_by_one_question(daemon: Daemon, way: str) -> None:
    """Each session once, and no other."""
    sessions = daemon.sessions()
    assert sorted(session["source"] for session in sessions) == [
        "claude",
        "cline",
        "copilot",
        "goose",
        "opencode",
        "opencode",
    ]
    answer = WAYS[way](daemon, QUESTION)
    found = [session["source"] for session in sessions if session["shortId"] in answer]
    assert sorted(found) == ["claude", "cline", "copilot", "goose", "opencode"]
