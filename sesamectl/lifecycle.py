"""Stopping a daemon: ask it to, then wait for the end of its process. One that cannot be asked is found by the lock that it holds."""

import math
import os
import signal
import time
from typing import Any

from sesamectl.client import ANSWER_S, Client
from sesamectl.connection import BUSY
from sesamectl.errors import DeadlineError, NotRunningError, ObstructedError, RpcError
from sesamectl.holder import find_holder, is_alive
from sesamectl.locations import socket_path

EXIT_S = 15.0  # requests that are running may finish first
KILL_AFTER_S = 5.0  # where nobody can have asked anything
LEFT_S = 0.5  # so long a process may stay that has given up its lock
POLL_S = 0.01


def stop_daemon(path: str | None = None) -> dict[str, Any] | None:
    """Stop the daemon and return its `hello`, or pid and version if it does not answer; None when none was running."""
    try:
        with Client(path, ANSWER_S) as client:
            hello = client.call("hello", client="sesamectl")
            client.call("shutdown")
            client.wait_closed()
    except (NotRunningError, ObstructedError):
        return _end_holder((path or socket_path(os.environ)) + ".lock", KILL_AFTER_S)
    except RpcError as error:
        if error.code != BUSY:
            raise
        return _end_holder((path or socket_path(os.environ)) + ".lock", EXIT_S)
    _wait_for_exit(hello.get("pid"), (path or socket_path(os.environ)) + ".lock")
    return hello


def _end_holder(lock: str, kill_after_s: float) -> dict[str, Any] | None:
    """End the daemon that holds a lock, if one does; nothing is lost by a kill."""
    found = find_holder(lock)
    if found is None:
        return None
    pid = found["pid"]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + kill_after_s
    while find_holder(lock) == found:
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
            deadline = math.inf
        time.sleep(POLL_S)
    return found


def _wait_for_exit(pid: object, lock: str) -> None:
    """Until the process is gone it holds the index, and no other daemon can start. One that nobody waits for, as in containers, is never
    gone: there the lock tells."""
    begun = time.monotonic()
    while isinstance(pid, int) and is_alive(pid):
        waited_s = time.monotonic() - begun
        if waited_s >= LEFT_S and os.path.exists(lock) and (find_holder(lock) or {}).get("pid") != pid:
            return
        if waited_s >= EXIT_S:
            raise DeadlineError(f"sesamed (pid {pid}) did not exit within {EXIT_S:g} s; to end it: kill -9 {pid}")
        time.sleep(POLL_S)
