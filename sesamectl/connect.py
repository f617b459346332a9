"""A connection that is safe to send on. Knows nothing of what is sent.

The directory of the socket must be the user's own and private, since whoever may write there can put a socket of theirs
in the daemon's place. Linux also says whose process listens.
"""

from __future__ import annotations

import os
import socket
import sys

from sesamectl.errors import DeadlineError, NotRunningError, UnsafeError
from sesamectl.where import is_private

MAX_PATH_BYTES = 103  # macOS; Linux takes 107


def connect(path: str, timeout: float) -> socket.socket:
    """A connection to the daemon of this user, and to nobody else."""
    _check_path(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
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
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise UnsafeError(f"socket path too long: {path} has more than {MAX_PATH_BYTES} bytes; set SESAME_SOCKET")
    if not os.path.lexists(path):
        raise _not_running(path)
    if not is_private(directory, os.geteuid()):
        raise UnsafeError(f"{directory} is not yours alone, nothing was sent; make it yours and `chmod 700` it")


def _connect_to(connection: socket.socket, path: str, timeout: float) -> None:
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise _not_running(path) from None
    except (TimeoutError, BlockingIOError):  # the queue of those who wait to be let in is full
        raise DeadlineError(f"sesamed at {path} lets nobody in within {timeout:g} s; restart it") from None
    except OSError as error:
        raise UnsafeError(f"cannot connect to {path}: {error.strerror}") from None


def _not_running(path: str) -> NotRunningError:
    return NotRunningError(f"sesamed is not running: nothing listens at {path}; start it with `sesamed`")


def _check_peer(connection: socket.socket, path: str) -> None:
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # pid, uid, gid
        if (uid := int.from_bytes(credentials[4:8], sys.byteorder)) != os.geteuid():
            raise UnsafeError(f"what listens at {path} belongs to uid {uid}, not to you: nothing was sent")
