"""Waiting for a daemon's end."""

import os
import subprocess

import pytest

from sesamectl import lifecycle
from sesamectl.errors import DeadlineError
from tests.unit.ctl.conftest import Stub


def test_it_does_not_exit(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stays is an error that names it, and how to end it."""
    monkeypatch.setattr(lifecycle, "EXIT_S", 0.0)
    stub.on("hello", {"pid": os.getpid()})
    stub.on("shutdown", b'{"jsonrpc": "2.0", "id": 2, "result": {}}\n')
    with pytest.raises(
        DeadlineError, match=rf"\(pid {os.getpid()}\) did not exit within 0 s; to end it: kill -9 {os.getpid()}"
    ):
        lifecycle.stop_daemon(stub.path)


def test_who_is_alive() -> None:
    """A process is alive whoever owns it, and not once it was waited for."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    assert lifecycle.is_alive(process.pid)
    process.kill()
    process.wait()
    assert not lifecycle.is_alive(process.pid)
    assert lifecycle.is_alive(1)


def test_nothing_to_stop(directory: str) -> None:
    """Where none runs there is none to stop."""
    assert lifecycle.stop_daemon(f"{directory}/none") is None
