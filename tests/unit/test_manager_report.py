"""What the service manager is told."""

import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.manager_report import Notifier


@pytest.fixture
def place() -> Iterator[str]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory() as directory:
        yield f"{directory}/n"


@pytest.fixture
def manager(place: str) -> Iterator[socket.socket]:
    """A service manager's end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.bind(place)
        opened.settimeout(5)
        yield opened


def test_what_is_said(manager: socket.socket, place: str) -> None:
    """Ready and what it does, a status, and that it stops: one datagram each."""
    notifier = Notifier(place)
    notifier.ready("3 roots")
    notifier.status("indexing")
    notifier.stopping()
    assert [manager.recv(999) for _ in range(3)] == [b"READY=1\nSTATUS=3 roots", b"STATUS=indexing", b"STOPPING=1"]


def test_a_status_is_one_line(manager: socket.socket, place: str) -> None:
    """A newline cannot begin another assignment, and what is no text is replaced."""
    Notifier(place).status("a\nMAINPID=1\ud800")
    assert manager.recv(999) == b"STATUS=a MAINPID=1?"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the abstract namespace")
def test_the_abstract_namespace() -> None:
    """A leading @ stands for NUL."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.bind("")  # the kernel chooses a name
        opened.settimeout(5)
        name: bytes = opened.getsockname()
        Notifier("@" + name[1:].decode()).stopping()
        assert opened.recv(999) == b"STOPPING=1"


@pytest.mark.parametrize("address", [None, "", "@", "/nowhere/at/all", "/" + "x" * 200, "/a\0b", "\ud800"])
def test_silent_when_nobody_listens(address: str | None) -> None:
    """No address, or one that cannot be, is no error."""
    Notifier(address).ready("x")


def test_a_full_manager_holds_nobody_up(manager: socket.socket, place: str) -> None:
    """When the manager reads nothing, messages are dropped."""
    for _ in range(5000):
        Notifier(place).status("x" * 1000)
    assert manager.recv(9999).startswith(b"STATUS=x")


def test_a_long_status_does_not_fail(tmp_path: Path, manager: socket.socket, place: str) -> None:
    """Too much for a datagram is dropped."""
    Notifier(place).status("x" * 10_000_000)
    Notifier(str(tmp_path)).stopping()
    Notifier(place).stopping()
    assert manager.recv(999) == b"STOPPING=1"
