"""Who holds a daemon's lock, which is to say: which daemon runs, whether it answers or not."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def find_holder(lock: str) -> dict[str, Any] | None:
    """The pid and version of the daemon that holds a lock; None when none does."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        pid, _, version = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip().partition(" ")
        # The lock itself is tried only where somebody may hold it: a daemon that takes it just now must not find it taken.
        if pid.isdecimal() and is_alive(int(pid)) and _is_locked(descriptor):
            return {"pid": int(pid), "version": version}
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return None


def _is_locked(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def is_alive(pid: int) -> bool:
    """Whether there is a process with this pid, whoever owns it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
