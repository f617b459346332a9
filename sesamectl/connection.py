"""One connection to sesamed: a socket that is safe to send on, a request out, its result in. Starts nothing.

Every wait has a deadline. One thread at a time; a connection is good for any number of calls.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from _socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, SOL_SOCKET, socket  # `socket` itself costs a search 2 ms

from sesamectl import json_lines
from sesamectl.errors import (
    ClientError,
    ClosedError,
    DeadlineError,
    NotRunningError,
    NotSesameError,
    ObstructedError,
    RpcError,
    UnsafeError,
)
from sesamectl.holder import find_holder
from sesamectl.locations import MAX_SOCKET_BYTES, is_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

MAX_ANSWER_BYTES = 4 << 20
BUSY = 3  # all connections are taken
REFUSED_S, AGAIN_S = 2.0, 0.02  # for so long, and so often, it is tried again where a daemon runs and refuses
HANGS = "it hangs: `kill -9` the pid in sesamed.lock (beside the index), and the next call starts it again"


class Connection:
    """A connection, made on entering. `timeout` is for connecting, and for each line that is waited for.

    `progress` gets the params of the daemon's notifications, which come before the result of `index` with progress.
    """

    def __init__(
        self, path: str, timeout: float = 10.0, progress: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self.path = path
        self._timeout = timeout
        self._progress = progress
        self._socket: socket | None = None
        self._received = bytearray()
        self._last_id = 0
        self._is_abandoned = False

    def __enter__(self) -> Self:
        self._socket = connect(self.path, self._timeout)
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The method's result; raises RpcError when the daemon refuses, ClientError when it cannot be asked."""
        if self._is_abandoned:
            raise ClosedError("the connection was abandoned")
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        line = json_lines.dumps(request).encode() + b"\n"
        may_renew = self._last_id > 1 and not self._renew_if_closed()
        self._send(line)
        while True:
            answer = self._receive()
            if "method" in answer:
                self._notify(answer)
            elif may_renew and _is_goodbye(
                answer
            ):  # it was sent before the daemon saw our line, and it has not read that
                may_renew = False
                self._renew()
                self._send(line)
            elif answer.get("id") in {self._last_id, None}:
                return _unwrap(answer, self.path)

    def abandon(self) -> None:
        """From another thread: what is waited for, and all that is asked later, raises ClosedError. The daemon drops it, too."""
        self._is_abandoned = True
        if (connection := self._socket) is not None:
            try:
                connection.shutdown(SHUT_RDWR)
            except OSError:  # it is closed already
                return

    def wait_closed(self) -> None:
        """Wait until the daemon closes the connection."""
        try:
            while True:
                self._receive()
        except ClosedError:
            return

    def _renew_if_closed(self) -> bool:
        """The daemon closes connections that are idle when it needs their places; whether there is a new one."""
        from _socket import MSG_PEEK

        try:
            self._require_socket().settimeout(0)
            self._require_socket().recv(1, MSG_PEEK)
        except BlockingIOError:  # nothing there: it is open
            return False
        except OSError:
            pass
        self._renew()
        return True

    def _renew(self) -> None:
        if self._is_abandoned:
            return
        try:
            renewed = connect(self.path, self._timeout)
        except ClientError:
            return  # the old one says why
        self._require_socket().close()
        self._socket = renewed
        self._received.clear()

    def _send(self, line: bytes) -> None:
        try:
            self._require_socket().settimeout(self._timeout)
            self._require_socket().sendall(line)
        except TimeoutError:
            raise self._deadline_error() from None
        except OSError:
            return  # closed while we wrote; the reason may be there to read

    def _receive(self) -> dict[str, Any]:
        line = self._read_line()
        try:
            message = json_lines.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise NotSesameError(f"the program at {self.path} does not speak sesame's protocol; set SESAME_SOCKET")
        return message

    def _read_line(self) -> bytes:
        deadline = time.monotonic() + self._timeout
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > MAX_ANSWER_BYTES:
                raise NotSesameError(f"the program at {self.path} sent a line of more than {MAX_ANSWER_BYTES} bytes")
            self._received += self._read_bytes(deadline - time.monotonic())
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _read_bytes(self, timeout: float) -> bytes:
        if timeout <= 0:
            raise self._deadline_error()
        try:
            self._require_socket().settimeout(timeout)
            received = self._require_socket().recv(1 << 16)
        except TimeoutError:
            raise self._deadline_error() from None
        except OSError:
            received = b""
        if not received:
            when = "in the middle of an answer" if self._received else "before it answered"
            raise ClosedError(f"sesamed at {self.path} closed the connection {when}; try again")
        return received

    def _require_socket(self) -> socket:
        if self._socket is None:
            raise RuntimeError("not connected: use `with Client() as client`")
        return self._socket

    def _deadline_error(self) -> DeadlineError:
        who = f" (pid {pid})" if (pid := peer_pid(self._require_socket())) else ""
        todo = f"try again, or `kill -9 {pid or 'PID'}`: nothing is lost, and the next call starts it again"
        return DeadlineError(f"sesamed{who} at {self.path} did not answer within {self._timeout:g} s; {todo}")

    def _notify(self, message: dict[str, Any]) -> None:
        if self._progress is not None and message["method"] == "progress":
            self._progress(message.get("params") or {})


def _is_goodbye(answer: dict[str, Any]) -> bool:
    error = answer.get("error")
    return answer.get("id") is None and isinstance(error, dict) and error.get("code") == BUSY


def _unwrap(answer: dict[str, Any], path: str) -> dict[str, Any]:
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        raise RpcError(error["code"], str(error.get("message")), error.get("data"))
    if not isinstance(result, dict):
        raise NotSesameError(f"the program at {path} sent neither a result nor an error")
    return result


def connect(path: str, timeout: float) -> socket:
    """A socket that is connected to a daemon of this user, and to nobody else's.

    Its directory must belong to the user and be private: whoever can write there could put another socket in the daemon's place.
    Linux also tells whose process listens.
    """
    _check_path(path)
    give_up_at = time.monotonic() + min(timeout, REFUSED_S)
    while True:
        try:
            return _connect_once(path, timeout)
        except NotRunningError:
            if time.monotonic() >= give_up_at or not _may_be_crowded(path):
                raise
        time.sleep(AGAIN_S)


def _may_be_crowded(path: str) -> bool:
    """Whether a daemon runs to which too many wished to connect at once: macOS refuses then, as if nobody were there. Linux has us wait."""
    return sys.platform == "darwin" and os.path.lexists(path) and find_holder(f"{path}.lock") is not None


def _connect_once(path: str, timeout: float) -> socket:
    try:
        connection = socket(AF_UNIX, SOCK_STREAM)
    except OSError as error:
        raise _refusal(path, error) from None
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
            f"{directory} is not a directory that only you can open, so nothing was sent; see `sesamectl doctor`"
        )


def _connect_to(connection: socket, path: str, timeout: float) -> None:
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        if not _is_socket(path):
            raise ObstructedError(f"{path} is not a socket; move it away and try again") from None
        raise _not_running(path) from None
    except (TimeoutError, BlockingIOError):  # the queue of connections is full
        raise DeadlineError(f"sesamed at {path} did not accept a connection within {timeout:g} s; {HANGS}") from None
    except OSError as error:
        raise _refusal(path, error) from None


def _refusal(path: str, error: OSError) -> UnsafeError:
    """The system's words. Agents run commands in sandboxes that forbid sockets, and say so to whoever asks them."""
    advice = "; a sandbox forbids it: run sesamectl outside of it" if error.errno == errno.EPERM else ""
    return UnsafeError(f"cannot connect to {path}: {error.strerror}{advice}")


def _is_socket(path: str) -> bool:
    """Whether what is there, if anything is, may be a daemon's socket."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return True


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
