"""Waiting for a daemon's end."""

import os
import signal
import subprocess
import sys

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


def test_no_connection_is_free(stub: Stub) -> None:
    """A daemon that lets nobody ask is ended by the lock that it holds."""
    lock = f"{stub.path}.lock"
    hold = """
import fcntl, os, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print(os.getpid(), "1.0", file=lock, flush=True)
    print(flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", hold, lock], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        stub.on("hello", 3)
        assert lifecycle.stop_daemon(stub.path) == {"pid": holder.pid, "version": "1.0"}
        assert holder.wait() == -signal.SIGTERM


def test_nothing_to_stop(directory: str) -> None:
    """Where none runs there is none to stop."""
    assert lifecycle.stop_daemon(f"{directory}/none") is None
