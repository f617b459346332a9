"""Following an index over the real socket, with rebuilds, forgetting, restarts and annotations in between."""

from collections.abc import Iterator
from typing import Any

import pytest

from sesamed.store.index import remove_index
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession


class Client:
    """Who keeps a copy of the list."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.position: dict[str, Any] = {"since": 0}
        self.sessions: dict[str, Any] = {}

    def follow(self) -> tuple[list[str], list[tuple[str, str]]]:
        """What changed since the last time, and what is no more; two entries a page."""
        changed, removed, more = list[str](), list[tuple[str, str]](), True
        while more:
            answer = self.daemon.call("list_sessions", **self.position, limit=2)
            removed += [(gone["sessionId"], gone["why"]) for gone in answer["removed"]]
            changed += [session["sessionId"] for session in answer["sessions"]]
            for gone in answer["removed"]:
                self.sessions.pop(gone["sessionId"], None)
            self.sessions |= {session["sessionId"]: session for session in answer["sessions"]}
            self.position = {"since": answer["revision"], "epoch": answer["epoch"]}
            more = answer["more"]
        whole = self.daemon.call("list_sessions", limit=500)["sessions"]
        assert self.sessions == {session["sessionId"]: session for session in whole}
        return sorted(changed), removed


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon() as started:
        for number in range(5):
            started.write(f"s{number}.jsonl", PiSession(id=f"s{number}").user("the quince stays").bytes())
        started.sync()
        yield started


def test_a_client_follows(daemon: Daemon) -> None:
    """A line, an annotation, a rebuild, a restart, a session forgotten, one that is gone: each is what it is, and no more."""
    client = Client(daemon)
    assert client.follow() == (["s0", "s1", "s2", "s3", "s4"], [])
    synced = daemon.call("status")["lastSyncAt"]
    daemon.append("s1.jsonl", PiSession(id="s1").user("and on").lines()[-1] + b"\n")
    daemon.sync()
    assert client.follow() == (["s1"], [])
    assert daemon.call("status")["lastSyncAt"] > synced
    modified = client.sessions["s2"]["modified"]
    daemon.call("set_session_meta", sessionId="s2", tags=["orchard"])
    assert client.follow() == (["s2"], [])
    assert client.sessions["s2"]["modified"] == modified
    synced = daemon.call("status")["lastSyncAt"]
    daemon.call("index", full=True)
    assert client.follow() == ([], [])
    daemon.restart()
    daemon.sync()
    assert client.follow() == ([], [])
    assert daemon.call("status")["lastSyncAt"] == synced
    daemon.call("forget", sessionId="s3")
    assert client.follow() == ([], [("s3", "forgotten")])
    (daemon.root / "s4.jsonl").unlink()
    daemon.sync()
    assert client.follow() == (["s4"], [])
    assert client.sessions["s4"]["gone"]
    daemon.call("index", dropGone=True)
    assert client.follow() == ([], [("s4", "gone")])


def test_what_is_excluded_is_said(daemon: Daemon) -> None:
    """At the next start."""
    client = Client(daemon)
    client.follow()
    daemon.stop()
    daemon.configure({"exclude": [f"{daemon.root}/s0.jsonl"]})
    daemon.start()
    eventually(lambda: daemon.call("status")["counts"]["sessions"] == 4)
    assert client.follow() == ([], [("s0", "excluded")])


def test_another_index_is_refused(daemon: Daemon) -> None:
    """So that a client starts over; so is a revision that there is not."""
    client = Client(daemon)
    client.follow()
    daemon.stop()
    remove_index(str(daemon.database))
    daemon.start()
    daemon.sync()
    error = daemon.refuses("list_sessions", **client.position)
    assert error.code == 7
    answer = daemon.call("list_sessions", since=0)
    assert (error.data["epoch"], error.data["revision"]) == (answer["epoch"], answer["revision"])
    assert answer["epoch"] != client.position["epoch"]
    assert daemon.refuses("list_sessions", since=answer["revision"] + 1, epoch=answer["epoch"]).code == 7
    assert daemon.refuses("list_sessions", since=1, offset=1).code == -32602
    assert daemon.refuses("list_sessions", epoch=answer["epoch"]).code == -32602


def test_filters_apply_to_changes(daemon: Daemon) -> None:
    """What does not pass them any more is left out with that reason."""
    (key,) = {session["key"] for session in daemon.call("list_sessions")["sessions"] if session["sessionId"] == "s1"}
    start = daemon.call("list_sessions", tool="bash", since=0)
    assert (start["sessions"], start["removed"]) == ([], [])
    session = PiSession(id="s1").user("x").tool("bash", {"command": "ls"}, "a")
    daemon.append("s1.jsonl", b"".join(line + b"\n" for line in session.lines()[2:]))
    daemon.append("s2.jsonl", PiSession(id="s2").user("and on").lines()[-1] + b"\n")
    daemon.sync()
    after = daemon.call("list_sessions", tool="bash", since=start["revision"], epoch=start["epoch"])
    assert [(session["sessionId"], session["key"]) for session in after["sessions"]] == [("s1", key)]
    assert [(gone["sessionId"], gone["why"]) for gone in after["removed"]] == [("s2", "filtered")]
