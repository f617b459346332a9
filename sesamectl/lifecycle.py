"""Stopping a daemon: ask it to, then wait for the end of its process."""

import os
import time
from typing import Any

from sesamectl.client import ANSWER_S, Client
from sesamectl.errors import DeadlineError, NotRunningError

EXIT_S = 15.0  # requests that are running may finish first
POLL_S = 0.01


def stop_daemon(path: str | None = None) -> dict[str, Any] | None:
    """Stop the daemon and return its `hello`; None when none was running."""
    try:
        with Client(path, ANSWER_S) as client:
            hello = client.call("hello", client="sesamectl")
            client.call("shutdown")
            client.wait_closed()
    except NotRunningError:
        return None
    _wait_for_exit(hello.get("pid"))
    return hello


def _wait_for_exit(pid: object) -> None:
    """Until the process is gone it holds the index, and no other daemon can start."""
    deadline = time.monotonic() + EXIT_S
    while isinstance(pid, int) and is_alive(pid):
        if time.monotonic() >= deadline:
            raise DeadlineError(f"sesamed (pid {pid}) did not exit within {EXIT_S:g} s; to end it: kill -9 {pid}")
        time.sleep(POLL_S)


def is_alive(pid: int) -> bool:
    """Whether there is a process with this pid, whoever owns it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
