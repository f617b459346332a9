"""The exchanges of docs/protocol.md are had with a real daemon: it answers what the page shows, to the last field.

The session that they are about lies where the page says, but below another directory. What no two daemons share (ids that it makes,
times, sizes, revisions) is compared by type, in tests/unit/methods/test_protocol.py.
"""

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support import page
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession

SESSION = "019e62c4-8608-7353-8fe3-c8e944c9e00a"
CWD = "/home/me/code/infra"
SESSIONS = "/home/me/.pi/agent/sessions"
OWN = {"revision", "epoch", "tookMs", "score"}  # of one daemon, or one machine
# In the order in which they can be had: the page has titles set at its end. The others are checked by type: `hello`, `status` and
# `list_bad_lines` are about another daemon's life, and `shutdown` would end this one.
ASKED = (
    "search", "search_sessions", "list_sessions", "resolve_session", "list_messages", "set_session_meta", "get_session_meta",
    "sync", "forget", "cancel",
)  # fmt: skip
IDS_OF_ITS_OWN = ("new_session", "append_message")


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon({"workstationId": "7f3a21c0"}) as daemon:
        directory(daemon).mkdir(parents=True)
        session = PiSession(id=SESSION, cwd=str(directory(daemon)), start="2026-03-01T09:00:00.000Z").name(
            "Simplify the Nix flakes"
        )
        session.user("Let's restructure the nix flakes to reduce duplication").assistant(
            "I will look at the flake first."
        )
        session.tool("bash", {"command": "nix flake show"}, "error: attribute missing", error=True)
        session.assistant("The attribute is missing; both flakes have the same inputs.")
        daemon.write(f"--home-me-code-infra--/{session.file_name}", session.bytes())
        daemon.sync()
        yield daemon


def directory(daemon: Daemon) -> Path:
    """Where the session took place."""
    return daemon.directory / "code/infra"


def project(cwd: str) -> str:
    """What a session's key says of its directory."""
    return sha256(cwd.encode()).hexdigest()[:8]


def place(value: Any, daemon: Daemon) -> Any:
    """An answer as it would be at the page's place, without what is of one daemon."""
    if isinstance(value, dict):
        return {name: place(inner, daemon) for name, inner in value.items() if name not in OWN}
    if isinstance(value, list):
        return [place(inner, daemon) for inner in value]
    if not isinstance(value, str):
        return value
    here = str(directory(daemon))
    for real, shown in ((str(daemon.root), SESSIONS), (here, CWD), (project(here), project(CWD))):
        value = value.replace(real, shown)
    return value


def test_the_daemon_answers_what_the_page_shows(daemon: Daemon) -> None:
    """Every field of every answer."""
    for method in ASKED:
        asked, answered = page.exchange(method)
        answer = eventually(partial(ask_when_nothing_is_pending, daemon, method, asked["params"]))
        assert place(answer, daemon) == place(answered[-1]["result"], daemon), method


def ask_when_nothing_is_pending(daemon: Daemon, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The answer, unless an event came late and a file is looked at again."""
    answer: dict[str, Any] = daemon.call(method, **params)
    return answer if answer.get("pending", {"files": 0})["files"] == 0 else None


def test_a_session_of_ones_own(daemon: Daemon) -> None:
    """The two exchanges about one, the second with the id that the first gave."""
    begun, written = (page.exchange(method)[0]["params"] for method in IDS_OF_ITS_OWN)
    session = daemon.call("new_session", **begun)["sessionId"]
    assert (
        daemon.call("append_message", **written | {"sessionId": session})
        == page.exchange("append_message")[1][-1]["result"]
    )


def test_a_refusal(daemon: Daemon) -> None:
    """The one that the page shows, in its words."""
    shown = page.SECTIONS["Errors"]
    refusal = daemon.refuses("search", query="nix", lmit=3)
    assert f'"code": {refusal.code}, "message": "{refusal.message}"' in shown
