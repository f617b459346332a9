"""The user manager, one for all these tests; each begins in an empty home."""

import shutil
from collections.abc import Iterator

import pytest

from tests.support.sessions import PiSession
from tests.support.user_manager import UserManager, missing


@pytest.fixture(scope="session")
def _manager() -> Iterator[UserManager]:
    if reason := missing():
        pytest.skip(reason)
    manager = UserManager()
    yield manager
    manager.close()


@pytest.fixture
def user_with_bus() -> Iterator[UserManager]:
    """One of its own: a manager whose bus is stopped hangs for a minute now and then."""
    if reason := missing():
        pytest.skip(reason)
    if shutil.which("dbus-daemon") is None:
        pytest.skip("dbus-daemon is not installed, and systemd-run needs a bus")
    manager = UserManager()
    manager.write(
        ".pi/agent/sessions/a/one.jsonl", PiSession(id="session-1").user("a quince").assistant("an answer").bytes()
    )
    manager.bus()
    yield manager
    manager.close()


@pytest.fixture
def user(_manager: UserManager) -> Iterator[UserManager]:
    """A user with one session about a quince, and nothing of ours installed."""
    _manager.write(
        ".pi/agent/sessions/a/one.jsonl", PiSession(id="session-1").user("a quince").assistant("an answer").bytes()
    )
    yield _manager
    _manager.clean()
