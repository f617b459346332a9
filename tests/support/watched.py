"""A session `one-1`, and what most tests of files that change ask about it."""

from typing import Any

from tests.support.daemon import Daemon
from tests.support.sessions import PiSession


def one(*words: str) -> PiSession:
    """The session, with these prompts at its end."""
    session = PiSession(id="one-1").user("the first quince").assistant("an answer")
    for word in words:
        session.user(word)
    return session


def meta(daemon: Daemon, session: str = "one-1") -> Any:
    """What the index has about a session."""
    return daemon.call("get_session_meta", sessionId=session)


def is_one_hit(daemon: Daemon, session: str, fork: str) -> None:
    """A fork of a talk about a quince tart is shown with its parent, and reads on where that ended."""
    daemon.sync()
    (hit,) = daemon.call("search", query="quince")["results"]
    assert (hit["sessionId"], hit["similar"]) == (session, 1)
    assert daemon.texts(fork) == ["a quince tart", "with cream", "and a salsify pie"]
    daemon.check_index()


def same_as_rebuilt(daemon: Daemon) -> None:
    """The index says what one that is built anew from the files says."""
    before = daemon.everything()
    daemon.call("index", full=True)
    assert daemon.everything() == before
    daemon.check_index()
