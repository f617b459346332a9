"""A connection that is safe to send on. Knows nothing of what is sent.

The socket's directory must belong to the user and be private: whoever can write there could put another socket in the
daemon's place. Linux also tells whose process listens.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, SOL_SOCKET, socket  # `socket` itself costs a search 2 ms

from sesamectl.errors import DeadlineError, NotRunningError, UnsafeError
from sesamectl.locations import MAX_SOCKET_BYTES, is_private

HANGS = "it hangs: `kill -9` the pid in sesamed.lock (beside the index), and the next call starts it again"


def connect(path: str, timeout: float) -> socket:
    """A connection to the daemon of this user, and to nobody else."""
    _check_path(path)
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        _connect_to(connection, path, timeout)
        _check_peer(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_path(path: str) -> None:
    directory = os.path.dirname(path) or "."
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise UnsafeError(f"socket path too long: {path} has more than {MAX_SOCKET_BYTES} bytes; set SESAME_SOCKET")
    if not os.path.lexists(path):
        raise _not_running(path)
    if not is_private(directory, os.geteuid()):
        raise UnsafeError(
            f"{directory} is not private to you, so nothing was sent; make yourself its owner and `chmod 700` it"
        )


def _connect_to(connection: socket, path: str, timeout: float) -> None:
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise _not_running(path) from None
    except (TimeoutError, BlockingIOError):  # the queue of connections is full
        raise DeadlineError(f"sesamed at {path} did not accept a connection within {timeout:g} s; {HANGS}") from None
    except OSError as error:
        raise UnsafeError(f"cannot connect to {path}: {error.strerror}") from None


def _not_running(path: str) -> NotRunningError:
    return NotRunningError(f"sesamed is not running: nothing listens at {path}; start it with `sesamectl start`")


def peer_pid(connection: socket) -> int | None:
    """The pid of the process that listens, where the system tells."""
    return _credential(connection, 0)


def _check_peer(connection: socket, path: str) -> None:
    uid = _credential(connection, 1)
    if uid is not None and uid != os.geteuid():
        raise UnsafeError(f"the program that listens at {path} runs as uid {uid}, not as you, so nothing was sent")


def _credential(connection: socket, field: int) -> int | None:
    """Pid (0), uid (1) or gid (2) of the process that listens, on Linux."""
    if sys.platform != "linux":
        return None
    from _socket import SO_PEERCRED

    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(credentials[4 * field : 4 * field + 4], sys.byteorder)
