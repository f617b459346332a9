"""Copies of sessions of other machines, in a real daemon: found like one's own, told apart from them, and never taken for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.followed import THERE, FollowedSession
from tests.support.sessions import PiSession

NOWHERE = "host=/nonexistent user=anna dbname=sesame"  # a hub that is gone changes nothing here
FOLLOWS = {"hub": {"dsn": NOWHERE, "follow": ["**"]}}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """One that follows, and has a session of its own."""
    with Daemon(FOLLOWS) as running:
        _fill(running)
        yield running


def _fill(daemon: Daemon) -> Path:
    """Gives the directory of the copies."""
    daemon.allowed.append("no connection to the hub")
    daemon.write("own.jsonl", PiSession(id="own-1", cwd="/home/anna/plum").user("a quince of mine").bytes())
    make().write(copies := daemon.data_dir / "hub")
    daemon.sync()
    return copies


def make() -> FollowedSession:
    return (
        FollowedSession()
        .user("is the damson ripe?")
        .assistant("the damson is ripe")
        .call("Bash", "tool: Bash\ncommand: pick damson", is_error=True)
        .call("Write", "tool: Write\nfile_path: jam.md\ncontent:\n# damson\njam")
        .about(title="About damsons", tags=["jam"], git_branch="main", summary="It was ripe.")
    )


def test_a_followed_session_is_found_like_ones_own_and_says_where_it_is_from(daemon: Daemon) -> None:
    """In hits, lists, metadata and windows: the machine, whose it is, and the agent that wrote it."""
    (hit,) = daemon.call("search", query="damson")["results"]
    assert (hit["sessionId"], hit["source"], hit["workstation"], hit["person"]) == ("there-1", "claude", THERE, "anna")
    assert hit["key"].startswith(f"{THERE}:")
    meta = daemon.call("get_session_meta", sessionId="there-1")
    assert (meta["workstation"], meta["summary"], meta["tags"]) == (THERE, "It was ripe.", ["jam"])
    assert (meta["messageCount"], meta["exchangeCount"], meta["toolCounts"]) == (2, 1, {"Bash": 1, "Write": 1})
    (window,) = daemon.call("search_sessions", query="damson ripe", limit=1)["hits"]
    assert window["meta"]["workstation"] == THERE
    here = daemon.call("status")["workstation"]["id"]
    assert {session["workstation"] for session in daemon.sessions()} == {THERE, here}
    own = daemon.call("get_session_meta", sessionId="own-1")
    assert (own["workstation"], own["person"], own["key"].split(":")[0]) == (here, None, here)
    assert daemon.texts("there-1")[2:] == [
        "tool: Bash\ncommand: pick damson",
        "tool: Write\nfile_path: jam.md\ncontent:\n# damson\njam",
    ]


def test_filters_tell_machines_apart(daemon: Daemon) -> None:
    """By the machine, by the agent, and by all that a session says of itself."""
    here = daemon.call("status")["workstation"]["id"]

    assert daemon.found("quince", workstation=here) == ["own-1"]
    assert daemon.found("damson", workstation=THERE) == daemon.found("damson", source="claude") == ["there-1"]
    assert daemon.found("damson", workstation="ffffffff") == daemon.found("damson", workstation=here) == []
    assert daemon.found("*", path="jam.md") == daemon.found("*", path="/home/anna/plum/jam.md") == ["there-1"]
    assert daemon.found("damson", status="error") == daemon.found("damson", tool="Bash") == ["there-1"]
    assert "there is no 'hub'" in daemon.refuses("search", query="x", source="hub").message


def test_it_has_one_key_on_all_machines_and_is_resumed_on_its_own(daemon: Daemon) -> None:
    """Whoever has a key can ask with it here, too."""
    meta = daemon.call("get_session_meta", sessionId="there-1")
    assert daemon.call("get_session_meta", sessionId=meta["key"])["sessionId"] == "there-1"
    other = meta["key"].replace(THERE, "ffffffff")
    assert "ffffffff is another workstation" in daemon.refuses("get_session_meta", sessionId=other).message
    assert meta["resume"] is None
    assert meta["resumeProblem"]["code"] == "otherWorkstation"
    assert THERE in meta["resumeProblem"]["message"]


def test_nobody_writes_to_a_session_of_another_machine(daemon: Daemon) -> None:
    """What a person says of it stays here."""
    copy = FollowedSession("theirs", source="sesame").user("a sloe").about().write(daemon.data_dir / "hub")
    daemon.sync(paths=[str(copy)])
    refusal = daemon.refuses("append_message", sessionId="theirs", role="user", text="more")
    assert THERE in refusal.message
    daemon.call("set_session_meta", sessionId="there-1", title="Mine now")
    assert daemon.call("get_session_meta", sessionId="there-1")["name"] == "Mine now"
    assert daemon.call("list_sessions", needsMemory=True)["sessions"] == []


@pytest.mark.fault(117, 121)
def test_it_outlives_the_index_goes_with_its_copy_and_is_forgotten_for_good() -> None:
    """Copies are read again into whatever index there is. One that is gone leaves no session that is gone."""
    with Daemon(FOLLOWS) as daemon:
        copies = _fill(daemon)
        before = daemon.everything()
        daemon.call("index", full=True)
        assert daemon.everything() == before
        daemon.stop()
        for path in daemon.data_dir.glob("index.sqlite*"):
            path.unlink()
        daemon.start().sync()
        assert daemon.everything() == before
        revision = daemon.call("list_sessions")["revision"]
        (copies / THERE / "there-1.jsonl").unlink()
        eventually(lambda: [session["sessionId"] for session in daemon.sessions()] == ["own-1"])
        assert daemon.call("status")["counts"]["gone"] == 0
        (removed,) = daemon.call("list_sessions", since=revision)["removed"]
        assert removed["key"].startswith(f"{THERE}:")
        copy = make().write(copies)
        daemon.sync()
        assert daemon.call("forget", sessionId="there-1")["sessions"] == 1
        assert not copy.exists()
        make().write(copies)
        daemon.restart().sync()
        assert daemon.found("damson") == []
        FollowedSession("there-2").user("a damson").about().write(copies)
        daemon.sync()
        assert daemon.found("damson") == ["there-2"]
        daemon.stop()
        daemon.configure({"sources": [{"parser": "pi", "path": str(daemon.root)}]})
        daemon.start().sync()  # there is no hub any more: nobody follows
        assert [session["sessionId"] for session in daemon.sessions()] == ["own-1"]
        assert list(copies.iterdir()) == []
